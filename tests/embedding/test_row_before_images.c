/* Rows as they were before updates: put back and taken away, and carried over to other parts of the table. */
#include "testing.h"

#include <string.h>

#include "base/memory.h"
#include "embedding/local/collection_internal.h"
#include "embedding/local/state/row_before_images.h"

enum { N_ROWS = 11, DIM = 4, N_UPDATES = 3, STALENESS = 2 };

static float rows_before[N_UPDATES + 1][N_ROWS][DIM]; /* each update; and after the last */

/* Rows part, part + n_parts, ... and columns first .. last-1 of the table, with a feature of its own. */
static rk_embeddings *make_part(int n_parts, int part, int first, int last, double l2_full) {
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    rk_feature_config feature = {sizeof feature, "f", "t", RK_COMBINER_SUM, 0, false, false};
    rk_table_part parts = {
        .name = "t", .n_rows = N_ROWS, .dim = DIM, .n_parts = n_parts, .part = part, .first_column = first};
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    rk_embeddings *e;
    table.name = "t";
    table.n_rows = (N_ROWS - part + n_parts - 1) / n_parts;
    table.dim = last - first;
    config.tables = &table;
    config.n_tables = 1;
    config.features = &feature;
    config.n_features = 1;
    OK(rk_embeddings_create_with_parts(&config, &parts, &e));
    OK(rk_embeddings_set_l2(e, "t", 0, l2_full));
    return e;
}

/* Whether the part's rows are those of the whole table at some moment. */
static bool has_rows(const rk_embeddings *e, float at[N_ROWS][DIM]) {
    const rk_table *table = &e->tables[0];
    const float *values = table->rows.data;
    for (int64_t row = 0; row < table->config.n_rows; row++)
        if (memcmp(values + row * table->config.dim,
                   &at[rk_id_of_row(&table->rows, row)][table->part.first_column],
                   (size_t)table->config.dim * sizeof *values) != 0)
            return false;
    return true;
}

static void copy_rows(const rk_embeddings *e, float at[N_ROWS][DIM]) {
    const rk_table *table = &e->tables[0];
    for (int64_t row = 0; row < table->config.n_rows; row++)
        memcpy((float *)table->rows.data + row * table->config.dim,
               &at[rk_id_of_row(&table->rows, row)][table->part.first_column],
               (size_t)table->config.dim * sizeof(float));
}

/* Training batches that are looked up and updated at once, each update seen by none of the next two. */
static void train(rk_embeddings *e, rk_row_before_images *stale) {
    static const int64_t ids[N_UPDATES][4] = {{3, 10, 3, 0}, {3, 4, 9, 9}, {7, 10, 4, 3}};
    float out[4 * DIM], gradient[4 * DIM];
    rk_activation to = {out, DIM, NULL}, from = {gradient, DIM, NULL};
    for (int u = 0; u < N_UPDATES; u++) {
        rk_ids batch = {.ids_per_sample = 1, .ids = ids[u]};
        for (int i = 0; i < 4 * DIM; i++) gradient[i] = (float)(i + 1 + u) / 8;
        OK(rk_embeddings_dedup(e, 4, &batch, true));
        rk_row_before_images_swap_in(stale);
        assert_true(has_rows(e, rows_before[u < STALENESS ? 0 : u - STALENESS]) || u == 0);
        rk_embeddings_lookup_all(e, true, &to);
        rk_row_before_images_swap_out(stale);
        memcpy(rows_before[u], e->tables[0].rows.data, sizeof rows_before[u]);
        OK(rk_embeddings_begin_update(e, &from, true));
        OK(rk_row_before_images_capture(stale, u));
        rk_embeddings_update_all(e);
    }
    memcpy(rows_before[N_UPDATES], e->tables[0].rows.data, sizeof rows_before[N_UPDATES]);
}

/* The next two batches see what they are to see, and the rows stay what they are. */
static void check_next(rk_embeddings *e, rk_row_before_images *stale) {
    for (int b = N_UPDATES; b < N_UPDATES + 3; b++) {
        rk_row_before_images_swap_in(stale);
        int seen = b - STALENESS < N_UPDATES ? b - STALENESS : N_UPDATES;
        assert_true(has_rows(e, rows_before[seen]));
        rk_row_before_images_swap_out(stale);
        assert_true(has_rows(e, rows_before[N_UPDATES]));
    }
    assert_int_equal(stale->n, 0);
}

static void read_all(rk_row_before_images *stale, const rk_state_dict *state) {
    for (size_t i = state->n; i-- > 0;) {
        const rk_state_dict_entry *e = &state->entries[i];
        OK(rk_row_before_images_read(stale, e->name, e->dims[0], e->dims[1], e->data));
    }
}

static void test_carried_over(void **state) {
    (void)state;
    static const int cuts[][2] = {{0, DIM}, {0, 1}, {1, DIM}};
    for (int full = 0; full < 2; full++) {
        rk_embeddings *whole = make_part(1, 0, 0, DIM, full ? 0.01 : 0);
        rk_row_before_images stale = {.embeddings = whole, .staleness = STALENESS};
        rk_state_dict saved = {0}, of_parts = {0};
        train(whole, &stale);
        OK(rk_row_before_images_state_dict(&stale, 0, &saved));
        assert_int_equal(saved.n, STALENESS);
        assert_string_equal(saved.entries[1].name, "before/0/0:1,0:4/t/rows");
        assert_int_equal(saved.entries[1].dims[0],
                         full ? N_ROWS : 4); /* all rows, or the different ones of a batch */
        rk_embeddings *parts[9];
        rk_row_before_images stale_parts[9];
        for (int p = 0; p < 9; p++) { /* three parts whole, and three of two slices each */
            parts[p] = make_part(3, p % 3, cuts[p / 3][0], cuts[p / 3][1], 0);
            copy_rows(parts[p], rows_before[N_UPDATES]);
            stale_parts[p] = (rk_row_before_images){.embeddings = parts[p], .staleness = STALENESS};
            read_all(&stale_parts[p], &saved);
            if (p >= 3) OK(rk_row_before_images_state_dict(&stale_parts[p], 0, &of_parts));
            stale_parts[p].n_looked_up = N_UPDATES; /* as check_next counts, */
            for (size_t i = 0; i < stale_parts[p].n; i++) stale_parts[p].images[i].update += N_UPDATES;
        }
        rk_embeddings *again = make_part(1, 0, 0, DIM, 0);
        rk_row_before_images stale_again = {
            .embeddings = again, .staleness = STALENESS, .n_looked_up = N_UPDATES};
        copy_rows(again, rows_before[N_UPDATES]);
        read_all(&stale_again, &of_parts);
        check_next(again, &stale_again);
        check_next(whole, &stale);
        rk_state_dict_release(&saved);
        rk_state_dict_release(&of_parts);
        for (int p = 0; p < 9; p++) {
            check_next(parts[p], &stale_parts[p]);
            rk_row_before_images_release(&stale_parts[p]);
            rk_embeddings_free(parts[p]);
        }
        rk_row_before_images_release(&stale);
        rk_row_before_images_release(&stale_again);
        rk_embeddings_free(again);
        rk_embeddings_free(whole);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* Tensors that no run has written, of a file whose checksums are right. */
static void test_refused(void **state) {
    (void)state;
    enum { RECORD = 8 + DIM * 4 };
    static const struct {
        const char *name, *message;
        int64_t record_bytes, ids[2];
    } cases[] = {
        {"before/0/0:1,0:4/t", "invalid name", RECORD, {1, 2}},
        {"before/x/0:1,0:4/t/rows", "invalid name", RECORD, {1, 2}},
        {"before/-1/0:1,0:4/t/rows", "invalid name", RECORD, {1, 2}},
        {"before/0/0:1,4:4/t/rows", "invalid name", RECORD, {1, 2}},
        {"before/0/0:1,0:4/t/rows", "its name does not match its shape", RECORD + 4, {1, 2}},
        {"before/0/0:1,0:5/t/rows", "its name does not match its shape", RECORD, {1, 2}},
        {"before/0/0:1,0:4/t/rows", "row 11 is out of order or out of range", RECORD, {1, N_ROWS}},
        {"before/0/0:1,0:4/t/rows", "row -3 is out of order or out of range", RECORD, {-3, 1}},
        {"before/0/0:1,0:4/t/rows", "row 5 is out of order or out of range", RECORD, {5, 5}},
    };
    rk_embeddings *e = make_part(1, 0, 0, DIM, 0);
    rk_row_before_images stale = {.embeddings = e, .staleness = STALENESS};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char records[2 * (RECORD + 4)] = {0};
        for (int r = 0; r < 2; r++)
            memcpy(records + r * cases[i].record_bytes, &cases[i].ids[r], sizeof(int64_t));
        assert_int_equal(rk_row_before_images_read(&stale, cases[i].name, 2, cases[i].record_bytes, records),
                         RK_BAD_DATA);
        assert_non_null(strstr(rk_last_error(), cases[i].message));
    }
    char records[2 * RECORD] = {0};
    OK(rk_row_before_images_read(&stale, "before/0/0:1,0:4/another/rows", 1, RECORD, records)); /* not here */
    OK(rk_row_before_images_read(&stale, "before/7/0:1,0:4/t/rows", 1, RECORD,
                                 records)); /* older than what any batch is to see */
    assert_int_equal(stale.n, 0);
    rk_row_before_images_release(&stale);
    rk_embeddings_free(e);
    assert_int_equal(rk_alloc_live(), 0);
}

static rk_embeddings *make_dynamic(const rk_dynamic_config *dynamic) {
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    rk_feature_config feature = {sizeof feature, "f", "t", RK_COMBINER_SUM, 0, false, false};
    rk_table_part part = {.name = "t", .n_rows = N_ROWS, .dim = DIM, .dynamic = dynamic};
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    rk_embeddings *e;
    table.name = "t";
    table.n_rows = N_ROWS;
    table.dim = DIM;
    config.tables = &table;
    config.n_tables = 1;
    config.features = &feature;
    config.n_features = 1;
    OK(rk_embeddings_create_with_parts(&config, &part, &e));
    return e;
}

/* Columns of a row that keys without one share; the others are as they are. */
static void check_shared_row(const rk_dynamic_config *dynamic, int64_t n_shared) {
    rk_embeddings *e = make_dynamic(dynamic);
    rk_row_before_images stale = {.embeddings = e, .staleness = STALENESS};
    int64_t number = n_shared - 1;
    float row[DIM], image[DIM], columns[2] = {5, 6};
    char record[sizeof number + sizeof columns];
    memcpy(record, &number, sizeof number);
    memcpy(record + sizeof number, columns, sizeof columns);
    memcpy(row, (float *)e->tables[0].rows.data + number * DIM, sizeof row);
    OK(rk_row_before_images_read(&stale, "before/0/0:1,1:3/t/oov_rows", 1, sizeof record, record));
    memcpy(image, stale.images[0].tables[0].shared.data + sizeof number, sizeof image);
    assert_true(image[0] == row[0] && image[1] == 5 && image[2] == 6 && image[3] == row[3]);
    memcpy(record, &n_shared, sizeof n_shared);
    assert_int_equal(
        rk_row_before_images_read(&stale, "before/0/0:1,1:3/t/oov_rows", 1, sizeof record, record),
        RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), "out of range"));
    rk_row_before_images_release(&stale);
    rk_embeddings_free(e);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_shared_rows(void **state) {
    (void)state;
    rk_dynamic_config dynamic = {.max_capacity = N_ROWS,
                                 .n_buckets = 1,
                                 .policy = RK_EVICTION_LRU,
                                 .evict_to = 1,
                                 .min_count = 2,
                                 .probability = 1,
                                 .oov = true};
    check_shared_row(&dynamic, 1);
    dynamic.oov = false;
    dynamic.n_cold = 5;
    check_shared_row(&dynamic, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_carried_over), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_shared_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
