/* A row log beside what it must have: a version of each key, whose record is a function of both. */
#ifndef RK_TESTS_ROW_LOG_MODEL_H
#define RK_TESTS_ROW_LOG_MODEL_H

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file/file.h"
#include "base/integers.h"
#include "base/memory.h"
#include "base/rng.h"
#include "embedding/tiered/row_log.h"

enum { MODEL_KEYS = 300, MODEL_MOST_BYTES = 20000 };

typedef struct row_model {
    rk_row_log *log;
    rk_row_log_reader *reader;
    uint32_t record_bytes;         /* 12 at least */
    uint32_t versions[MODEL_KEYS]; /* 0: the key has no row */
    uint64_t places[MODEL_KEYS];
    uint64_t step;
    uint32_t last_version;
    bool compacts; /* after each put */
    rk_rng rng;
} row_model;

static inline void model_record(const row_model *m, uint64_t key, uint32_t version, uint8_t *out) {
    memcpy(out, &key, sizeof key);
    memcpy(out + 8, &version, sizeof version);
    for (uint32_t i = 12; i < m->record_bytes; i++) out[i] = (uint8_t)(key * 31 + version * 17 + i + i / 251);
}

static inline uint32_t model_draw(row_model *m, uint32_t below) {
    return (uint32_t)rk_rng_below(&m->rng, below);
}

static inline bool model_is_live(void *context, uint64_t place, const void *record) {
    const row_model *m = context;
    uint64_t key = rk_load_u64(record);
    return m->versions[key] && m->places[key] == place;
}

static inline void model_moved(void *context, const void *record, uint64_t from, uint64_t to) {
    row_model *m = context;
    uint64_t key = rk_load_u64(record);
    if (m->places[key] == from) m->places[key] = to;
}

static inline rk_status model_compact(row_model *m) {
    return rk_row_log_compact(m->log, &(rk_row_mover){m, model_is_live, model_moved});
}

/* New versions of some keys. */
static inline rk_status model_put(row_model *m) {
    static uint8_t records[MODEL_KEYS * MODEL_MOST_BYTES];
    uint64_t keys[MODEL_KEYS], places[MODEL_KEYS];
    uint32_t most = m->record_bytes > 1000 ? 12 : 100, n = model_draw(m, most),
             first = model_draw(m, MODEL_KEYS);
    for (uint32_t i = 0; i < n; i++) {
        keys[i] = (first + i * 7) % MODEL_KEYS; /* all different, as 7 is no divisor */
        model_record(m, keys[i], m->last_version + 1 + i, records + i * (size_t)m->record_bytes);
    }
    RK_TRY(rk_row_log_append_records(m->log, m->step, n, records, places));
    for (uint32_t i = 0; i < n; i++) {
        if (m->versions[keys[i]]) rk_row_log_drop_records(m->log, 1, &m->places[keys[i]]);
        m->versions[keys[i]] = m->last_version + 1 + i;
        m->places[keys[i]] = places[i];
    }
    m->last_version += n;
    m->step += model_draw(m, 3);
    return m->compacts ? model_compact(m) : RK_OK;
}

static inline void model_forget(row_model *m) {
    for (uint32_t i = model_draw(m, 30); i > 0; i--) {
        uint32_t key = model_draw(m, MODEL_KEYS);
        if (m->versions[key]) rk_row_log_drop_records(m->log, 1, &m->places[key]);
        m->versions[key] = 0;
    }
}

static inline rk_status model_check(const row_model *m, uint64_t key, const uint8_t *record) {
    static uint8_t wanted[MODEL_MOST_BYTES];
    model_record(m, key, m->versions[key], wanted);
    return memcmp(record, wanted, m->record_bytes) == 0
               ? RK_OK
               : rk_error(RK_INTERNAL, "key %d has another record", (int)key);
}

/* Some keys, in any order and some twice; or, with all, each that has a row. */
static inline rk_status model_read(row_model *m, bool all) {
    static uint8_t records[MODEL_KEYS * MODEL_MOST_BYTES];
    uint64_t keys[MODEL_KEYS], places[MODEL_KEYS];
    uint32_t n = 0, most = all ? MODEL_KEYS : model_draw(m, MODEL_KEYS);
    for (uint32_t i = 0; i < most; i++) {
        keys[n] = all ? i : model_draw(m, MODEL_KEYS);
        if (!m->versions[keys[n]]) continue;
        places[n] = m->places[keys[n]];
        n++;
    }
    RK_TRY(rk_row_log_reader_read_records(m->reader, n, places, records));
    for (uint32_t i = 0; i < n; i++) RK_TRY(model_check(m, keys[i], records + i * (size_t)m->record_bytes));
    return RK_OK;
}

/* After a restore: the newest record of each key that has a row; versions are known. */
static inline rk_status model_visit(void *context, uint64_t place, const void *record) {
    row_model *m = context;
    uint64_t key = rk_load_u64(record);
    RK_FAIL_IF(key >= MODEL_KEYS, RK_BAD_DATA, "a key that none is");
    if (!m->versions[key]) {
        rk_row_log_drop_records(m->log, 1, &place);
        return RK_OK;
    }
    if (m->places[key] != UINT64_MAX) rk_row_log_drop_records(m->log, 1, &m->places[key]);
    m->places[key] = place;
    return RK_OK;
}

static inline rk_status model_scan(row_model *m) {
    memset(m->places, 0xFF, sizeof m->places);
    RK_TRY(rk_row_log_scan(m->log, model_visit, m));
    for (int key = 0; key < MODEL_KEYS; key++)
        RK_FAIL_IF(m->versions[key] && m->places[key] == UINT64_MAX, RK_BAD_DATA, "key %d is lost", key);
    return RK_OK;
}

static inline uint64_t model_n_live(const row_model *m) {
    uint64_t n = 0;
    for (int key = 0; key < MODEL_KEYS; key++) n += m->versions[key] != 0;
    return n;
}

static inline void model_close(row_model *m) {
    rk_row_log_reader_free(m->reader);
    rk_row_log_free(m->log);
    m->reader = NULL;
    m->log = NULL;
}

/* One thing of those that a table does. */
static inline rk_status model_act(row_model *m) {
    switch (model_draw(m, 8)) {
        case 0:
            model_forget(m);
            return RK_OK;
        case 1:
            return model_compact(m);
        case 2:
            return model_read(m, false);
        case 3:
            return model_draw(m, 4) ? RK_OK : rk_row_log_sync(m->log);
        default:
            return model_put(m);
    }
}

#endif
