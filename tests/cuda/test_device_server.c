/* A server whose models predict and retrieve on a GPU, beside the same ones on the processors. */
#include "cuda/device_testing.h"

#include <math.h>
#include <stdbool.h>

#include <reckon/experimental/server.h>
#include <reckon/trainer.h>

#include "server/http_client.h"
#include "train/clicks.h"
#include "train/pairs.h"

static char directory[] = "/tmp/reckon-device-server-XXXXXX";
static rk_server *server;

static const char *path_of(const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void train(const char *text, const char *run) {
    char output[320];
    const char *const overrides[] = {output, "train.steps=20"};
    rk_config *config;
    rk_trainer *trainer;
    snprintf(output, sizeof output, "train.output=%s", path_of(run));
    OK(rk_config_parse(text, "run.yaml", directory, overrides, 2, &config));
    OK(rk_trainer_create(config, NULL, &trainer));
    OK(rk_trainer_run(trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
}

static int start_server(void **state) {
    (void)state;
    static const char text[] =
        "models: [{name: clicks, path: clicks}, {name: clicks_gpu, path: clicks, device: cuda}, "
        "{name: pairs, path: pairs}, {name: pairs_gpu, path: pairs, device: cuda}]\n"
        "reload_interval: 0\nbatching: {num_batch_threads: 3}\n";
    rk_server_options options = RK_SERVER_OPTIONS_INIT;
    assert_non_null(mkdtemp(directory));
    write_clicks(directory, 1000);
    write_pairs(directory);
    train(CLICKS_AND_MODEL "train: {batch_size: 64, optimizer: {kind: adagrad, learning_rate: 0.1}}\n",
          "clicks");
    train(PAIRS_RUN, "pairs");
    FILE *file = fopen(path_of("serve.yaml"), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    options.listen = "127.0.0.1:0";
    rk_status status = rk_server_create(path_of("serve.yaml"), &options, &server);
    if (status == RK_UNSUPPORTED) {
        puts("skipped: built without libmicrohttpd");
        exit(77);
    }
    OK(status);
    return 0;
}

static int stop_server(void **state) {
    (void)state;
    char command[64];
    rk_server_free(server);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

/* Texts that are the same but for the last digits of their numbers. */
static void assert_close(const char *a, const char *b) {
    const char *whole = a;
    int n_numbers = 0;
    while (*a && *b) {
        bool number = (*a >= '0' && *a <= '9') || *a == '-';
        if (!number) {
            if (*a++ != *b++) fail_msg("%s differs", whole);
            continue;
        }
        char *end_a, *end_b;
        double x = strtod(a, &end_a), y = strtod(b, &end_b);
        if (end_b == b || !(fabs(x - y) <= 1e-5)) fail_msg("%s: %.9g, not %.9g", whole, x, y);
        a = end_a;
        b = end_b;
        n_numbers++;
    }
    assert_true(*a == *b && n_numbers > 1);
}

static void compare(const char *model, const char *verb, const char *body) {
    char cpu[8000], gpu[8000], head[100];
    snprintf(head, sizeof head, "POST /v1/models/%s:%s", model, verb);
    int code = ask(rk_server_port(server), head, body, cpu, sizeof cpu);
    if (code != 200) fail_msg("%s: %d %s", head, code, cpu);
    snprintf(head, sizeof head, "POST /v1/models/%s_gpu:%s", model, verb);
    code = ask(rk_server_port(server), head, body, gpu, sizeof gpu);
    if (code != 200) fail_msg("%s: %d %s", head, code, gpu);
    assert_close(cpu, gpu);
}

static void test_predict(void **state) {
    (void)state;
    char body[8000] = "{\"instances\": [";
    for (int i = 0; i < 100; i++) /* more than a batch of the run */
        sprintf(body + strlen(body), "%s{\"u\": \"%d\", \"v\": \"%d\", \"x\": %g}", i ? ", " : "", i, 7 * i,
                0.25 * i);
    strcat(body, "]}");
    compare("clicks", "predict", body);
    compare("clicks", "predict",
            "{\"context\": {\"u\": \"3\"}, \"instances\": [{\"v\": \"1\", \"x\": 1}, {\"v\": \"2\", \"x\": "
            "-1}]}");
}

static void test_retrieve(void **state) {
    (void)state;
    compare("pairs", "retrieve",
            "{\"instances\": [{\"user\": 3}, {\"user\": 8}, {\"user\": 39}], \"k\": 10}");
}

#ifdef RK_EMULATED
static void test_without_a_gpu(void **state) {
    (void)state;
    rk_server_options options = RK_SERVER_OPTIONS_INIT;
    rk_server *other;
    options.listen = "127.0.0.1:0";
    setenv("RK_EMULATOR_DEVICES", "0", 1);
    assert_int_equal(rk_server_create(path_of("serve.yaml"), &options, &other), RK_UNSUPPORTED);
    unsetenv("RK_EMULATOR_DEVICES");
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_predict),
        cmocka_unit_test(test_retrieve),
#ifdef RK_EMULATED
        cmocka_unit_test(test_without_a_gpu),
#endif
    };
    need_device();
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
