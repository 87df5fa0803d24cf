/* A server whose memory runs out anywhere in a request answers 503, and goes on. */
#include "testing.h"

#include <unistd.h>

#include <reckon/experimental/server.h>
#include <reckon/reckon.h>

#include "base/memory.h"
#include "server/http_client.h"

static char folder[] = "/tmp/reckon-no-memory-XXXXXX";

static void write_file(const char *name, const char *text) {
    char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state) {
    (void)state;
    char output[100], rows[2000] = "click,city,age\n";
    const char *overrides[] = {output};
    rk_config *config;
    rk_trainer *trainer;
    if (!mkdtemp(folder)) return -1;
    for (int i = 0; i < 60; i++) sprintf(rows + strlen(rows), "%d,c%d,%d\n", i % 2, i % 7, i);
    write_file("rows.csv", rows);
    write_file("serve.yaml",
               "models: [{name: ads, path: run}]\nreload_interval: 0\nbatching: {num_batch_threads: "
               "1}\nrequest_log: {path: log.tfrecord}\n");
    snprintf(output, sizeof output, "train.output=%s/run", folder);
    OK(
        rk_config_parse("data: {train: rows.csv, labels: [click], features: [{name: city, vocabulary: {}}, "
                        "{name: age, dense: true}]}\nembedding: {dim: 2}\nmodel: {kind: dnn, deep: [4]}\n"
                        "train: {batch_size: 20, epochs: 1, evaluate: {every_steps: 0}}\n",
                        "run.yaml", folder, overrides, 1, &config));
    OK(rk_trainer_create(config, NULL, &trainer));
    OK(rk_trainer_run(trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* The first, second ... allocation of a request fails; with `sticky`, all behind it do so too. */
static void sweep(int port, const char *head, const char *body, bool sticky) {
    int n_failed = 0, n_well = 0;
    for (long n = 1; n_well < 20; n++) {
        rk_alloc_fail_after(n, sticky);
        int code = ask(port, head, body, NULL, 0);
        rk_alloc_fail_after(0, false);
        if (code != 200 && code != 503)
            fail_msg("%s: allocation %ld failed: answered with %d", head, n, code);
        n_failed += code == 503;
        n_well = code == 200 ? n_well + 1 : 0;
        assert_true(n < 5000);
    }
    assert_true(n_failed > 0);
    assert_int_equal(ask(port, head, body, NULL, 0), 200);
}

static void test_sweep(void **state) {
    (void)state;
    static const char predict[] = "POST /v1/models/ads:predict",
                      rows[] = "{\"instances\": [{\"city\": \"c1\\u0041\", \"age\": [3]}]}";
    static const char infer[] = "POST /v2/models/ads/infer",
                      tensors[] =
                          "{\"id\": \"1\", \"outputs\": [{\"name\": \"click\"}], \"inputs\": [{"
                          "\"name\": \"city\", \"shape\": [1], \"datatype\": \"BYTES\", \"data\": "
                          "[\"c1\"]}, {\"name\": \"age\", \"shape\": [1], \"datatype\": \"FP32\", "
                          "\"data\": [1]}]}";
    rk_server_options options = RK_SERVER_OPTIONS_INIT;
    rk_server *server;
    char path[100];
    options.listen = "127.0.0.1:0";
    snprintf(path, sizeof path, "%s/serve.yaml", folder);
    rk_status status = rk_server_create(path, &options, &server);
    if (status == RK_UNSUPPORTED) skip();
    OK(status);
    for (int sticky = 0; sticky < 2; sticky++) {
        sweep(rk_server_port(server), predict, rows, sticky);
        sweep(rk_server_port(server), infer, tensors, sticky);
        sweep(rk_server_port(server), "GET /v1/models/ads/metadata", "", sticky);
        sweep(rk_server_port(server), "GET /metrics", "", sticky);
        sweep(rk_server_port(server), "GET /", "", sticky);
    }
    rk_server_free(server);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sweep)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
