/* Trains, tests and uses a model through the C API alone.
 *
 *     cc train_adult.c $(pkg-config --cflags --libs reckon) -o train_adult && ./train_adult adult.yaml
 */
#include <stdio.h>

#include <reckon/reckon.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, rk_last_error());
    return 1;
}

static void on_event(void *user, const rk_event *event) {
    (void)user;
    if (event->kind != RK_EVENT_EVALUATION) return;
    printf("epoch %lld:", (long long)event->epoch + 1);
    for (int i = 0; i < event->n_metrics; i++)
        printf(" %s %.4f", event->metrics[i].name, event->metrics[i].value);
    printf("\n");
}

/* The loop by hand: batches from a dataset, one call a step. */
static rk_status train_by_hand(const rk_config *config) {
    rk_dataset *dataset = NULL;
    rk_model *model = NULL;
    const rk_batch *batch;
    double loss = 0;
    rk_status status = rk_dataset_open(config, "train", &dataset);
    if (status == RK_OK) status = rk_model_create(config, dataset, &model);
    while (status == RK_OK && (status = rk_dataset_next(dataset, &batch)) == RK_OK)
        status = rk_model_train(model, batch, &loss);
    if (status == RK_END) {
        printf("one epoch by hand: %lld steps, last loss %.4f\n", (long long)rk_model_n_steps(model), loss);
        status = RK_OK;
    }
    rk_model_free(model);
    rk_dataset_free(dataset);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: train_adult RUN.yaml [KEY=VALUE...]\n");
        return 2;
    }
    rk_config *config;
    if (rk_config_load(argv[1], (const char *const *)argv + 2, (size_t)argc - 2, &config) != RK_OK)
        return failed("config");
    if (train_by_hand(config) != RK_OK) return failed("by hand");

    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.on_event = on_event;
    rk_trainer *trainer;
    if (rk_trainer_create(config, &options, &trainer) != RK_OK) return failed("trainer");
    if (rk_trainer_run(trainer) != RK_OK) return failed("run");

    const rk_metric *metrics;
    int n_metrics;
    if (rk_trainer_evaluate(trainer, "test", &metrics, &n_metrics) != RK_OK) return failed("test");
    for (int i = 0; i < n_metrics; i++) printf("test %s %.4f\n", metrics[i].name, metrics[i].value);
    rk_trainer_free(trainer);
    rk_config_free(config);
    return 0;
}
