/* Rows as a CSV file and as columns in memory, a run that learns from them, and what the run's predictor says
 * of the file. */
#ifndef RK_TESTS_SERVE_SESSION_DATA_H
#define RK_TESTS_SERVE_SESSION_DATA_H

#include "testing.h"

#include <unistd.h>

#include <reckon/reckon.h>

#include "arrow_building.h"
#include "base/rng.h"

enum { N_ROWS = 600, BATCH = 256, TEXT_BYTES = 24 * N_ROWS, N_COLUMNS = 9, MOST_TASKS = 3 };

static char directory[] = "/tmp/reckon-session-XXXXXX";

typedef struct text_column {
    int32_t offsets[N_ROWS + 1];
    char text[TEXT_BYTES];
} text_column;

static int64_t users[N_ROWS], targets[N_ROWS];
static float dense[3][N_ROWS];
static text_column tags, weights, item_lists, history; /* lists, with spaces between */

#define FEATURES                                                                                        \
    "{name: user, identity: 40}, {name: tags, identity: 30, separator: ' ', weights: w}, {name: item, " \
    "identity: 50, separator: ' '}, {name: history, identity: 50, separator: ' '}, {name: x0, dense: "  \
    "true}, "                                                                                           \
    "{name: x1, dense: true, normalize: true}, {name: x2, dense: true}"

/* Pairs of a user and an item, whose identity is 0 .. items-1, and a two_tower of them with rows of `dim`;
 * both are texts. */
#define PAIRS_OF(items)                                                                       \
    "features: [{name: user, identity: 40}, {name: item_id, column: target, identity: " items \
    "}, {name: x0, dense: true}]"
#define TWO_TOWER(dim)                                                                                      \
    "model: {kind: two_tower, deep: [8], retrieval: {user: user, item: item_id, history: true, negatives: " \
    "16}}\nembedding: {dim: " dim ", features: [{name: history, table: item_id}]}"

static void add_text(text_column *c, int row, const char *text) {
    int32_t begin = c->offsets[row];
    assert_true((size_t)begin + strlen(text) < sizeof c->text);
    strcpy(c->text + begin, text);
    c->offsets[row + 1] = begin + (int32_t)strlen(text);
}

/* 0 to 4 numbers, of each a weight. */
static void draw_list(rk_rng *rng, int n_ids, char *ids, char *their_weights) {
    *ids = *their_weights = 0;
    for (int i = (int)rk_rng_below(rng, 5); i > 0; i--) {
        sprintf(ids + strlen(ids), "%s%d", *ids ? " " : "", (int)rk_rng_below(rng, (uint64_t)n_ids));
        sprintf(their_weights + strlen(their_weights), "%s%.2f", *their_weights ? " " : "",
                0.25 + rk_rng_uniform(rng));
    }
}

/* As rows.csv too, whose click may be missing where `rating` is there. */
static void draw_rows(void) {
    rk_rng rng = {5, 1, 0};
    char path[300], ids[100], their_weights[100];
    snprintf(path, sizeof path, "%s/rows.csv", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "click,rating,user,target,x0,x1,x2,tags,w,item,history\n");
    for (int i = 0; i < N_ROWS; i++) {
        users[i] = (int64_t)rk_rng_below(&rng, 40);
        targets[i] = (int64_t)rk_rng_below(&rng, 50);
        for (int d = 0; d < 3; d++) /* numbers that their texts say in full */
            dense[d][i] = (float)((int)rk_rng_below(&rng, 400) - 200) / 64;
        fprintf(file, "%s,%.2f,%lld,%lld,%.9g,%.9g,%.9g,",
                i % 7 == 3 ? ""
                : i % 2    ? "1"
                           : "0",
                3 + rk_rng_normal(&rng), (long long)users[i], (long long)targets[i], dense[0][i], dense[1][i],
                dense[2][i]);
        draw_list(&rng, 30, ids, their_weights);
        add_text(&tags, i, ids);
        add_text(&weights, i, their_weights);
        fprintf(file, "%s,%s,", ids, their_weights);
        draw_list(&rng, 50, ids, their_weights);
        add_text(&item_lists, i, ids);
        fprintf(file, "%s,", ids);
        draw_list(&rng, 50, ids, their_weights);
        add_text(&history, i, ids);
        fprintf(file, "%s\n", ids);
    }
    fclose(file);
}

/* Rows first .. first+n-1 in memory, without labels. */
typedef struct memory_rows {
    arrow_column columns[N_COLUMNS];
    arrow_table table;
} memory_rows;

static inline void take_rows(memory_rows *m, int64_t first, int64_t n) {
    static const char *const names[] = {"user", "target", "x0", "x1", "x2", "tags", "w", "item", "history"};
    text_column *const texts[] = {&tags, &weights, &item_lists, &history};
    arrow_column *all[N_COLUMNS];
    for (int c = 0; c < N_COLUMNS; c++) {
        const void *data = c == 0   ? (const void *)(users + first)
                           : c == 1 ? (const void *)(targets + first)
                           : c < 5  ? (const void *)(dense[c - 2] + first)
                                    : (const void *)(texts[c - 5]->offsets + first);
        arrow_set(&m->columns[c], names[c],
                  c < 2   ? "l"
                  : c < 5 ? "f"
                          : "u",
                  n, NULL, data, c < 5 ? NULL : texts[c - 5]->text);
        all[c] = &m->columns[c];
    }
    arrow_set_table(&m->table, all, N_COLUMNS, n);
}

/* A run of one epoch; text: of a model and its embedding. */
/* override: a key of the run file and its value, or NULL. */
static void train_with(const char *data, const char *text, const char *override) {
    static const char *const rest =
        "\ntrain: {batch_size: 256, epochs: 1, keep_best: false, optimizer: {kind: adam, "
        "learning_rate: 0.05}}\n";
    char *run, output[320];
    const char *const overrides[] = {output, "embedding.initializer={kind: normal, stddev: 0.3}", override};
    rk_config *config;
    rk_trainer *trainer;
    snprintf(output, sizeof output, "train.output=%s/run", directory);
    assert_true(asprintf(&run, "rm -rf %s/run", directory) > 0);
    assert_int_equal(system(run), 0);
    free(run);
    assert_true(asprintf(&run, "data: {train: rows.csv, %s}\n%s%s", data, text, rest) > 0);
    OK(rk_config_parse(run, "run.yaml", directory, overrides, override ? 3 : 2, &config));
    OK(rk_trainer_create(config, NULL, &trainer));
    OK(rk_trainer_run(trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
    free(run);
}

static void train(const char *data, const char *text) {
    train_with(data, text, NULL);
}

static inline rk_predictor *open_run(void) {
    char path[300];
    rk_predictor *predictor;
    snprintf(path, sizeof path, "%s/run", directory);
    OK(rk_predictor_open(path, NULL, &predictor));
    return predictor;
}

typedef struct file_predictions {
    int32_t n_tasks;
    int64_t n;
    float values[N_ROWS * MOST_TASKS];
} file_predictions;

static inline rk_status keep_row(void *user, int64_t row, const float *predictions, const float *labels) {
    file_predictions *f = user;
    (void)labels;
    assert_int_equal(row, f->n++);
    memcpy(f->values + row * f->n_tasks, predictions, (size_t)f->n_tasks * sizeof *predictions);
    return RK_OK;
}

static inline void predict_file(rk_predictor *predictor, file_predictions *out) {
    char path[300];
    snprintf(path, sizeof path, "%s/rows.csv", directory);
    *out = (file_predictions){.n_tasks = rk_predictor_n_tasks(predictor)};
    OK(rk_predictor_file(predictor, path, keep_row, out));
    assert_int_equal(out->n, N_ROWS);
}

static inline int make_directory(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    draw_rows();
    return 0;
}

static inline int remove_directory(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

#endif
