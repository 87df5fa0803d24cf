/* Parts of tensors: names that tell them, and any cut of a table read back from any other. */
#include "testing.h"

#include "base/tensor/tensor_part.h"

static void test_names(void **state) {
    (void)state;
    rk_tensor_part part;
    OK(rk_tensor_part_parse("table/u[1]/rows", 2, (int64_t[]){10, 4},
                            &part)); /* brackets of a table's own name */
    assert_true(part.name_bytes == 15 && part.n_rows == 10 && part.step == 1 && part.n_columns == 4 &&
                part.all_columns);
    OK(rk_tensor_part_parse("t/rows[2:11:4,8:12]", 2, (int64_t[]){3, 4}, &part));
    assert_true(part.name_bytes == 6 && part.first == 2 && part.n_rows == 11 && part.step == 4 &&
                part.first_column == 8 && part.n_columns == 4 && !part.all_columns);
    OK(rk_tensor_part_parse("t/a[0:2:2]", 1, (int64_t[]){1}, &part));
    OK(rk_tensor_part_parse("t/step[1:1000:2]", 1, (int64_t[]){1}, &part)); /* one counter a part */
    OK(rk_tensor_part_parse("t/step[0:1000:1,8:16]", 1, (int64_t[]){1}, &part));
    OK(rk_tensor_part_parse("t/keys[20..23:40]", 1, (int64_t[]){3}, &part));
    assert_true(part.name_bytes == 6 && part.first == 20 && part.end == 23 && part.n_rows == 40 &&
                part.step == 1 && part.is_block && part.all_columns);
    OK(rk_tensor_part_parse("t/keys[0..0:40]", 1, (int64_t[]){0}, &part));
    static const char *const wrong[] = {"t[2..4:3]",   "t[3..2:9]",  "t[0..3:9]",      "t[-1..1:9]",
                                        "t[2..4:9]x]", "t[2..4]",    "t[2:11:4,8:12]", "t[2:11:0]",
                                        "t[4:11:4]",   "t[-1:11:4]", "t[2:11:4,9:8]",  "t[2:11:4,0:4]x]",
                                        "t[2:11]",     "t[]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char message[128];
        snprintf(message, sizeof message, "tensor '%s': its name does not match its shape", wrong[i]);
        FAILS(rk_tensor_part_parse(wrong[i], 2, (int64_t[]){2, 4}, &part), RK_BAD_DATA, message);
    }
}

enum { ROWS = 23, DIM = 12 };

typedef struct cut {
    int n_parts, n_slices;
    bool blocks; /* parts are rows that follow each other */
} cut;

static int64_t block_begin(cut c, int p) {
    return (int64_t)ROWS * p / c.n_parts;
}

static int64_t rows_of(cut c, int p) {
    return c.blocks ? block_begin(c, p + 1) - block_begin(c, p) : (ROWS - p + c.n_parts - 1) / c.n_parts;
}

/* Part p and slice s of a cut: its name, its shape, and what of the whole it holds. */
static rk_tensor_part take(cut c, int p, int s, char *name, size_t n, float *data, bool fill) {
    int64_t width = DIM / c.n_slices, rows = rows_of(c, p);
    if (c.n_parts == 1 && c.n_slices == 1)
        snprintf(name, n, "t");
    else if (c.blocks)
        snprintf(name, n, "t[%d..%d:%d]", (int)block_begin(c, p), (int)block_begin(c, p + 1), ROWS);
    else if (c.n_slices == 1)
        snprintf(name, n, "t[%d:%d:%d]", p, ROWS, c.n_parts);
    else
        snprintf(name, n, "t[%d:%d:%d,%d:%d]", p, ROWS, c.n_parts, (int)(s * width), (int)((s + 1) * width));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < width; k++)
            data[r * width + k] =
                fill ? (float)((c.blocks ? block_begin(c, p) + r : r * c.n_parts + p) * 100 + s * width + k)
                     : -1;
    rk_tensor_part part;
    OK(rk_tensor_part_parse(name, 2, (int64_t[]){rows, width}, &part));
    return part;
}

static void test_any_cut_from_any_other(void **state) {
    (void)state;
    static const cut cuts[] = {{1, 1, false},  {2, 1, false}, {3, 1, false}, {4, 1, false},
                               {1, 2, false},  {1, 3, false}, {2, 2, false}, {3, 4, false},
                               {23, 1, false}, {2, 1, true},  {5, 1, true},  {30, 1, true}};
    enum { N = sizeof cuts / sizeof *cuts };
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++)
            for (int p = 0; p < cuts[b].n_parts; p++)
                for (int s = 0; s < cuts[b].n_slices; s++) {
                    char name[64], other[64];
                    float to[ROWS * DIM], want[ROWS * DIM], from[ROWS * DIM];
                    int64_t n_copied = 0;
                    take(cuts[b], p, s, name, sizeof name, want, true);
                    rk_tensor_part part = take(cuts[b], p, s, name, sizeof name, to, false);
                    for (int q = 0; q < cuts[a].n_parts; q++)
                        for (int u = 0; u < cuts[a].n_slices; u++) {
                            rk_tensor_part source = take(cuts[a], q, u, other, sizeof other, from, true);
                            assert_true(rk_tensor_parts_same_tensor(&part, &source));
                            OK(rk_tensor_part_copy(&part, to, 0, &source, from, sizeof *to, &n_copied));
                        }
                    int64_t n = rows_of(cuts[b], p) * (DIM / cuts[b].n_slices);
                    assert_int_equal(n_copied, n);
                    assert_memory_equal(to, want, (size_t)n * sizeof *to);
                }
}

static void test_other_shapes(void **state) {
    (void)state;
    float data[64];
    int64_t n = 0;
    rk_tensor_part a, b;
    OK(rk_tensor_part_parse("t", 2, (int64_t[]){4, 4}, &a));
    OK(rk_tensor_part_parse("t[0:5:2]", 2, (int64_t[]){3, 4}, &b));
    FAILS(rk_tensor_part_copy(&a, data, 0, &b, data, 4, &n), RK_CONFIG,
          "tensor 't' has 5 rows of 4 values in the checkpoint, but 4 rows of 4 values in the model\nhint: "
          "the configuration or "
          "the data's vocabularies changed since");
    OK(rk_tensor_part_parse("t", 2, (int64_t[]){4, 6}, &b));
    FAILS(rk_tensor_part_copy(&a, data, 0, &b, data, 4, &n), RK_CONFIG,
          "tensor 't' has 4 rows of 6 values in the checkpoint, but 4 rows of 4 values in the model\nhint: "
          "the configuration or "
          "the data's vocabularies changed since");
    OK(rk_tensor_part_parse("t[0:4:1,4:8]", 2, (int64_t[]){4, 4}, &b));
    FAILS(rk_tensor_part_copy(&a, data, 0, &b, data, 4, &n), RK_CONFIG,
          "tensor 't' has 4 rows of at least 8 values in the checkpoint, but 4 rows of 4 values in the "
          "model\nhint: the "
          "configuration or the data's vocabularies changed since");
}

static void assert_no_copy(const rk_tensor_part *to, const rk_tensor_part *from, float *to_data,
                           const float *from_data) {
    int64_t n = 0;
    rk_status status = rk_tensor_part_copy(to, to_data, 0, from, from_data, sizeof *to_data, &n);
    assert_true(status == RK_BAD_DATA || status == RK_CONFIG);
}

/* A tensor of one element may have a table's part for a name: nothing is read or written beyond it. */
static void test_names_that_tell_too_much(void **state) {
    (void)state;
    enum { N = 1000 };
    static float rows[N * 2], one[1];
    static const char *const names[] = {"t[0:1000:1]", "t[0:1000:1,0:2]", "t[0:1000:1,1:9]",
                                        "t[0:1000:2,0:999999999999999999]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        rk_tensor_part table, slice, slot, other;
        OK(rk_tensor_part_parse("t", 2, (int64_t[]){N, 2}, &table));
        OK(rk_tensor_part_parse("t[0:1000:1,0:2]", 2, (int64_t[]){N, 2}, &slice));
        OK(rk_tensor_part_parse("t", 1, (int64_t[]){N}, &slot));
        OK(rk_tensor_part_parse(names[i], 1, (int64_t[]){1}, &other));
        assert_no_copy(&table, &other, rows, one);
        assert_no_copy(&slice, &other, rows, one);
        assert_no_copy(&slot, &other, rows, one);
        assert_no_copy(&other, &table, one, rows);
    }
    rk_tensor_part part;
    assert_int_equal(rk_tensor_part_parse("t", 3, (int64_t[]){0, INT64_MAX, INT64_MAX}, &part), RK_BAD_DATA);
    assert_int_equal(rk_tensor_part_parse("t", 2, (int64_t[]){INT64_MAX, 2}, &part), RK_BAD_DATA);
    assert_int_equal(
        rk_tensor_part_parse("t[0:9223372036854775807:9223372036854775807]", 2, (int64_t[]){2, 2}, &part),
        RK_BAD_DATA);
    assert_int_equal(rk_tensor_part_parse("t[0:2:1,1:-9223372036854775808]", 2, (int64_t[]){2, 2}, &part),
                     RK_BAD_DATA);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names), cmocka_unit_test(test_any_cut_from_any_other),
        cmocka_unit_test(test_other_shapes), cmocka_unit_test(test_names_that_tell_too_much)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
