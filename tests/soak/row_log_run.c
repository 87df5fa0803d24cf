/* A row log that lives through some rounds of random operations, each of which ends with a checkpoint; it
 * goes on from the last one that it finds in the folder, and prints what it has at the end. row_log_kills
 * kills it: row_log_run FOLDER */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/hash.h"
#include "embedding/row_log_model.h"

enum { ROUNDS = 8, ACTS = 25, PATH_BYTES = 512 };

/* What a checkpoint has beside the log: all that decides what comes next. */
typedef struct saved {
    uint32_t round, versions[MODEL_KEYS], last_version;
    uint64_t step;
    rk_rng rng;
} saved;

static void checkpoint_path(const char *folder, int round, char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, round < 0 ? "%s/checkpoint.tmp" : "%s/checkpoint-%d", folder, round);
}

static rk_status save(const char *folder, const row_model *m, uint32_t round) {
    char temporary[PATH_BYTES], path[PATH_BYTES], model[PATH_BYTES + 8];
    static saved s; /* zeros between the fields */
    s.round = round;
    s.last_version = m->last_version;
    s.step = m->step;
    s.rng = m->rng;
    memcpy(s.versions, m->versions, sizeof s.versions);
    checkpoint_path(folder, -1, temporary);
    checkpoint_path(folder, (int)round, path);
    snprintf(model, sizeof model, "%s/model", temporary);
    RK_TRY(rk_remove_tree(temporary));
    RK_TRY(rk_make_directories(temporary));
    RK_TRY(rk_row_log_link_files(m->log, temporary));
    RK_TRY(rk_file_write(model, &s, sizeof s));
    RK_FAIL_IF(rename(temporary, path) != 0, RK_IO, "rename");
    RK_TRY(rk_sync_directory(folder));
    checkpoint_path(folder, (int)round - 1, path);
    return rk_remove_tree(path);
}

/* round: of the newest checkpoint; 0: there is none. */
static rk_status load(const char *folder, row_model *m, uint32_t *round) {
    char path[PATH_BYTES], model[PATH_BYTES + 8];
    *round = 0;
    for (int i = ROUNDS; i > 0 && !*round; i--) {
        checkpoint_path(folder, i, path);
        if (rk_file_exists(path)) *round = (uint32_t)i;
    }
    if (!*round) return RK_OK;
    RK_AUTOFREE char *data = NULL;
    size_t n_bytes;
    snprintf(model, sizeof model, "%s/model", path);
    RK_TRY(rk_file_read(model, &data, &n_bytes));
    RK_FAIL_IF(n_bytes != sizeof(saved), RK_BAD_DATA, "'%s' is cut", model);
    saved s;
    memcpy(&s, data, sizeof s);
    m->last_version = s.last_version;
    m->step = s.step;
    m->rng = s.rng;
    memcpy(m->versions, s.versions, sizeof s.versions);
    return RK_OK;
}

static rk_status run(const char *folder) {
    char log[PATH_BYTES], from[PATH_BYTES];
    row_model m = {.record_bytes = 528, .rng = {11, 1, 0}};
    uint32_t round;
    snprintf(log, sizeof log, "%s/log", folder);
    rk_row_log_options options = {.directory = log,
                                  .table = 7,
                                  .record_bytes = 528,
                                  .file_pages = 16,
                                  .write_pages = 4,
                                  .buffered = true};
    RK_TRY(load(folder, &m, &round));
    checkpoint_path(folder, (int)round, from);
    RK_TRY(round ? rk_row_log_restore(&options, from, &m.log) : rk_row_log_create(&options, &m.log));
    RK_TRY(rk_row_log_reader_create(m.log, 8, &m.reader));
    if (round) RK_TRY(model_scan(&m));
    RK_TRY(model_read(&m, true));
    while (round < ROUNDS) {
        for (int i = 0; i < ACTS; i++) RK_TRY(model_act(&m));
        RK_TRY(save(folder, &m, ++round));
    }
    RK_TRY(model_read(&m, true));
    printf("%" PRIu64 " rows, %" PRIx64 "\n", rk_row_log_read_counts(m.log).n_live,
           rk_hash_bytes(m.versions, sizeof m.versions, m.rng.counter));
    model_close(&m);
    return RK_OK;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    if (run(argv[1]) == RK_OK) return 0;
    fprintf(stderr, "%s\n", rk_last_error());
    return 1;
}
