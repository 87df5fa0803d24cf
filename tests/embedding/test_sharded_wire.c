/* What other ranks send a sharded collection: counts, ids and sizes that are wrong are refused, whatever they
 * are. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "sharded_alone.h"

enum { MOST_BYTES = 1024 };

typedef struct fixture {
    rk_comm *comm;
    rk_sharded *s;
    char ask[MOST_BYTES], give[MOST_BYTES];
    size_t ask_bytes, give_bytes;
} fixture;

static int setup(void **state) {
    static fixture f;
    f = (fixture){.give_bytes = MOST_BYTES};
    OK(rk_comm_self(&f.comm));
    OK(alone_create(f.comm, RK_F32, &f.s));
    OK(alone_ask(f.s));
    const rk_scratch_buffer *ask = &f.s->in_flight_batches[0].ask[0];
    assert_true(ask->n_bytes <= MOST_BYTES);
    memcpy(f.ask, ask->data, f.ask_bytes = ask->n_bytes);
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    rk_sharded_free(&f->s->as_store);
    rk_comm_free(f->comm);
    assert_int_equal(rk_alloc_live(), 0);
    return 0;
}

static void refuse(fixture *f, size_t at, const void *value, size_t n_bytes, const char *says) {
    char had[8];
    memcpy(had, f->ask + at, n_bytes);
    memcpy(f->ask + at, value, n_bytes);
    assert_int_not_equal(alone_serve(f->s, f->ask, f->ask_bytes, f->give, f->give_bytes), RK_OK);
    if (!strstr(rk_last_error(), says)) fail_msg("'%s' does not say '%s'", rk_last_error(), says);
    memcpy(f->ask + at, had, n_bytes);
    OK(alone_serve(f->s, f->ask, f->ask_bytes, f->give, f->give_bytes));
}

static void test_asks(void **state) {
    fixture *f = *state;
    const size_t rows = sizeof(rk_ids_header), bags = rows + sizeof(rk_ids_entry),
                 data = rows + 4 * sizeof(rk_ids_entry), ahead = f->ask_bytes - 3 * 8, n_first = ahead - 24;
    const int64_t huge = (int64_t)1 << 62, negative = -1, few = 2, unknown = 7;
    const uint16_t no_row = 20;
    const uint32_t longer = 5;
    const char *less = "shorter than its header says";
    OK(alone_serve(f->s, f->ask, f->ask_bytes, f->give, f->give_bytes));
    refuse(f, 0, &unknown, 8, "an unknown request");
    for (size_t entry = rows; entry < data; entry += sizeof(rk_ids_entry)) {
        refuse(f, entry, &huge, 8, less);
        refuse(f, entry, &negative, 8, less);
        refuse(f, entry + 8, &huge, 8, less);
        refuse(f, entry + 8, &negative, 8, less);
    }
    refuse(f, rows, &(int64_t){3}, 8, "requested 3 rows with 2 ids");
    refuse(f, bags, &few, 8, less);
    refuse(f, data, &no_row, 2, "20");
    refuse(f, data + 8, &longer, 4, less);
    refuse(f, n_first, &(int64_t){3}, 8, "sent 3 keys, but counts of others");
    refuse(f, n_first, &(int64_t){1}, 8, "sent 3 keys, but counts of fewer");
    refuse(f, n_first, &negative, 8, "sent 3 keys, but counts of others");
    refuse(f, ahead, &(int64_t){3}, 8, less);
    refuse(f, ahead, &huge, 8, less);
    refuse(f, ahead, &negative, 8, less);
}

/* Messages cut short, at any byte. */
static void test_cut_short(void **state) {
    fixture *f = *state;
    const rk_scratch_buffer *answer = &f->s->in_flight_batches[0].answer[0];
    char rows[MOST_BYTES] = {0};
    OK(alone_serve(f->s, f->ask, f->ask_bytes, f->give, f->give_bytes));
    size_t rows_bytes = answer->n_bytes;
    for (size_t n = 0; n < f->ask_bytes; n++)
        assert_int_equal(alone_serve(f->s, f->ask, n, f->give, f->give_bytes), RK_INTERNAL);
    for (size_t n = 0; n < RK_GRADIENTS_HEAD + rows_bytes - rk_answer_header_bytes(f->s); n++)
        assert_int_equal(alone_serve(f->s, f->ask, f->ask_bytes, f->give, n), RK_INTERNAL);
    for (size_t n = 0; n < rows_bytes; n++) assert_int_equal(alone_take(f->s, rows, n), RK_INTERNAL);
    OK(alone_take(f->s, rows, rows_bytes));
}

static void with_wire(fixture *f, rk_dtype wire) {
    rk_sharded_free(&f->s->as_store);
    OK(alone_create(f->comm, wire, &f->s));
}

static float *row_of(const fixture *f, int table, int64_t row) {
    const rk_table *t = &f->s->store->tables[table];
    return (float *)t->rows.data + row * t->rows.dim;
}

static void assert_finite_rows(const fixture *f) {
    for (int t = 0; t < ALONE_TABLES; t++)
        for (int i = 0; i < 20 * (2 + t); i++) assert_true(isfinite(row_of(f, t, 0)[i]));
}

/* Gradients that are finite before they are rounded leave rows that are; those that are not are refused, and
 * no row is touched. */
static void test_gradients_past_the_largest_half(void **state) {
    fixture *f = *state;
    static const struct {
        rk_dtype wire;
        float value;
    } cases[] = {{RK_F16, 1e6f}, {RK_F16, -65520},    {RK_BF16, 3.4028e38f},
                 {RK_F16, NAN},  {RK_BF16, INFINITY}, {RK_F32, NAN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float values[MOST_BYTES / sizeof(float) - RK_GRADIENTS_HEAD] = {cases[i].value};
        with_wire(f, cases[i].wire);
        rk_wire_pack(f->give + RK_GRADIENTS_HEAD, cases[i].wire, values, 64);
        rk_status status = alone_serve(f->s, f->ask, f->ask_bytes, f->give, f->give_bytes);
        if (isfinite(cases[i].value))
            assert_int_equal(status, RK_OK);
        else
            assert_true(status == RK_NOT_FINITE &&
                        strstr(rk_last_error(), "feature 'rows, stream 0 of rank 0'"));
        assert_finite_rows(f);
    }
}

/* A row past what the wire holds is read as the largest that it does. */
static void test_rows_past_the_largest_half(void **state) {
    fixture *f = *state;
    with_wire(f, RK_F16);
    for (int i = 0; i < 40; i++) row_of(f, 0, 0)[i] = 1e5f;
    OK(alone_serve(f->s, f->ask, f->ask_bytes, f->give, f->give_bytes));
    const rk_scratch_buffer *answer = &f->s->in_flight_batches[0].answer[0];
    char rows[MOST_BYTES];
    memcpy(rows, answer->data, answer->n_bytes);
    OK(alone_take(f->s, rows, answer->n_bytes));
    assert_true(((float *)f->s->in_flight_batches[0].unique[0].values.data)[0] == 65504);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_asks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_short, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gradients_past_the_largest_half, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rows_past_the_largest_half, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
