/* Four threads predict at once, from memory, with what train_adult.c trained: one predictor, a session a
 * thread.
 *
 *     cc predict_threads.c $(pkg-config --cflags --libs reckon) -pthread -o predict_threads
 *     ./predict_threads runs/adult
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <reckon/reckon.h>

enum { THREADS = 4, REQUESTS = 1000, COLUMNS = 14 };

/* Texts of numbers are taken for numbers, as in a file. */
// clang-format off
static const char *const names[COLUMNS] = {
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country"};
static const char *const person[COLUMNS] = {
    NULL, "Private", "77516", "Masters", "14", "Married-civ-spouse", "Sales", "Husband",
    "White", "Male", "0", "0", "40", "United-States"};
// clang-format on

typedef struct caller {
    const rk_predictor *predictor; /* shared */
    const char *age;
    float probability;
    rk_status status;
} caller;

/* Arrow's structs may be freed by whom they were given to; these are the stack's. */
static void keep_schema(struct ArrowSchema *schema) {
    schema->release = NULL;
}
static void keep_array(struct ArrowArray *array) {
    array->release = NULL;
}

/* One row of columns of text, asked for again and again. */
static void *call(void *context) {
    caller *self = context;
    struct ArrowSchema columns[COLUMNS], *schemas[COLUMNS];
    struct ArrowArray values[COLUMNS], *arrays[COLUMNS];
    const void *buffers[COLUMNS][3], *no_nulls = NULL;
    int32_t offsets[COLUMNS][2];
    for (int c = 0; c < COLUMNS; c++) {
        const char *value = person[c] ? person[c] : self->age;
        memcpy(offsets[c], (int32_t[]){0, (int32_t)strlen(value)}, sizeof offsets[c]);
        memcpy(buffers[c], (const void *[]){NULL, offsets[c], value}, sizeof buffers[c]);
        columns[c] = (struct ArrowSchema){.format = "u", .name = names[c], .release = keep_schema};
        values[c] =
            (struct ArrowArray){.length = 1, .n_buffers = 3, .buffers = buffers[c], .release = keep_array};
        schemas[c] = &columns[c];
        arrays[c] = &values[c];
    }
    struct ArrowSchema schema = {.format = "+s", .n_children = COLUMNS, .release = keep_schema};
    struct ArrowArray rows = {.length = 1, .n_buffers = 1, .n_children = COLUMNS, .release = keep_array};
    schema.children = schemas;
    rows.children = arrays;
    rows.buffers = &no_nulls;
    rk_session *session = NULL;
    self->status = rk_session_create(self->predictor, NULL, &session);
    for (int i = 0; i < REQUESTS && self->status == RK_OK; i++)
        self->status = rk_session_run(session, &schema, &rows, &self->probability);
    if (self->status != RK_OK) fprintf(stderr, "%s\n", rk_last_error());
    rk_session_free(session);
    return NULL;
}

int main(int argc, char **argv) {
    rk_predictor *predictor;
    pthread_t threads[THREADS];
    caller callers[THREADS] = {{.age = "20"}, {.age = "30"}, {.age = "40"}, {.age = "50"}};
    if (argc != 2 || rk_predictor_open(argv[1], NULL, &predictor) != RK_OK) {
        fprintf(stderr, "usage: predict_threads RUN\n%s\n", argc == 2 ? rk_last_error() : "");
        return 2;
    }
    for (int t = 0; t < THREADS; t++) {
        callers[t].predictor = predictor;
        if (pthread_create(&threads[t], NULL, call, &callers[t]) != 0) return 1;
    }
    int failed = 0;
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        failed |= callers[t].status != RK_OK;
        printf("at %s: more than 50,000 dollars with probability %.4f\n", callers[t].age,
               callers[t].probability);
    }
    rk_predictor_free(predictor);
    return failed;
}
