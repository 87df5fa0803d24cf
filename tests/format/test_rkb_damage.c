/* rkb files that are cut, changed, or could not be written whole; memory that runs out on the way. */
#include "fixture.h"

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/hash.h"
#include "format/rkb/rkb.h"

static const char *const names[] = {"user", "item", "price"};
static const rk_column_type types[] = {RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32};
static const char path[] = "test_rkb_damage.rkb";
enum { N_BLOCKS = 2 };

typedef struct sample {
    rk_columns blocks[N_BLOCKS];
    char *bytes[2]; /* plain, compressed */
    size_t n_bytes[2];
} sample;

static rk_status write_blocks(const char *to, int level, const rk_columns *blocks) {
    rk_rkb_writer *writer;
    RK_TRY(rk_rkb_writer_open(to, level, &writer));
    rk_status status = RK_OK;
    for (int b = 0; status == RK_OK && b < N_BLOCKS; b++) status = rk_rkb_writer_add(writer, &blocks[b]);
    if (status == RK_OK) status = rk_rkb_writer_commit(writer);
    rk_rkb_writer_free(writer);
    return status;
}

static int setup(void **state) {
    sample *s = calloc(1, sizeof *s);
    rk_rng rng = {31, 1, 0};
    for (int b = 0; b < N_BLOCKS; b++) {
        OK(rk_columns_init(&s->blocks[b], 3, names, types));
        for (int64_t r = 0; r < 40; r++) {
            for (int64_t n = draw(&rng, 3); n > 0; n--)
                OK(rk_column_add_text(&s->blocks[b].columns[0], text_span(n % 2 ? "some word" : "another")));
            OK(rk_column_add_i64(&s->blocks[b].columns[1], r / 4 * 1000));
            OK(rk_column_add_weight(&s->blocks[b].columns[1], 0.5f));
            OK(rk_column_add_f32(&s->blocks[b].columns[2], (float)(r % 2)));
            OK(rk_columns_end_row(&s->blocks[b]));
        }
    }
    for (int i = 0; i < 2; i++) {
        OK(write_blocks(path, i * 3, s->blocks));
        OK(rk_file_read(path, &s->bytes[i], &s->n_bytes[i]));
    }
    assert_true(s->n_bytes[1] < s->n_bytes[0]);
    *state = s;
    return 0;
}

static int teardown(void **state) {
    sample *s = *state;
    for (int b = 0; b < N_BLOCKS; b++) rk_columns_release(&s->blocks[b]);
    rk_free(s->bytes[0]);
    rk_free(s->bytes[1]);
    free(s);
    return rk_alloc_live() != 0;
}

/* Open and read all of it; RK_OK only if it is what was written. */
static rk_status read_all(const sample *s, const void *bytes, size_t n_bytes) {
    rk_rkb *rkb;
    rk_columns read = {0};
    RK_TRY(rk_rkb_open_memory("x.rkb", bytes, n_bytes, &rkb));
    rk_status status = RK_OK;
    for (int64_t b = 0; status == RK_OK && b < rk_rkb_n_blocks(rkb); b++) {
        status = rk_rkb_read_block(rkb, b, NULL, &read);
        if (status == RK_OK) assert_true(same_columns(&read, &s->blocks[b]));
        if (status != RK_OK) assert_int_equal(read.n_rows, 0);
    }
    rk_columns_release(&read);
    rk_rkb_free(rkb);
    return status;
}

static void test_every_cut(void **state) {
    sample *s = *state;
    for (int i = 0; i < 2; i++) {
        OK(read_all(s, s->bytes[i], s->n_bytes[i]));
        for (size_t n = 0; n < s->n_bytes[i]; n++) {
            char *part = malloc(n + !n);
            char expected[64];
            memcpy(part, s->bytes[i], n);
            assert_int_equal(read_all(s, part, n), RK_BAD_DATA);
            snprintf(expected, sizeof expected, "'x.rkb': byte %zu: ", n);
            assert_memory_equal(rk_last_error(), expected, strlen(expected));
            free(part);
        }
    }
}

static void test_every_flip(void **state) {
    sample *s = *state;
    for (int i = 0; i < 2; i++)
        for (size_t at = 0; at < s->n_bytes[i]; at++)
            for (int bit = 0; bit < 8; bit++) {
                s->bytes[i][at] = (char)(s->bytes[i][at] ^ 1 << bit);
                assert_int_equal(read_all(s, s->bytes[i], s->n_bytes[i]), RK_BAD_DATA);
                s->bytes[i][at] = (char)(s->bytes[i][at] ^ 1 << bit);
            }
}

static void test_bytes_behind(void **state) {
    sample *s = *state;
    char *longer = calloc(s->n_bytes[0] + 1, 1);
    memcpy(longer, s->bytes[0], s->n_bytes[0]);
    assert_int_equal(read_all(s, longer, s->n_bytes[0] + 1), RK_BAD_DATA);
    free(longer);
}

/* What a message says: a column is checked when it is read, and only then. */
static void test_messages(void **state) {
    sample *s = *state;
    rk_rkb *rkb;
    rk_columns read = {0};
    const bool others[] = {true, false, true};
    FAILS(rk_rkb_open_memory("x.rkb", "", 0, &rkb), RK_BAD_DATA,
          "'x.rkb': byte 0: the file is truncated: it ends in its header");
    FAILS(rk_rkb_open_memory("x.rkb", "user,item\nanna,3\n", 17, &rkb), RK_BAD_DATA,
          "'x.rkb': byte 0: not an rkb file");
    size_t user_bytes = 0;
    for (size_t n = 0; n < s->n_bytes[0];
         n++) { /* the second column begins where its damage is first blamed on it */
        s->bytes[0][n] = (char)~s->bytes[0][n];
        bool opens = rk_rkb_open_memory("x.rkb", s->bytes[0], s->n_bytes[0], &rkb) == RK_OK;
        bool blamed = opens && rk_rkb_read_block(rkb, 0, NULL, &read) != RK_OK &&
                      strstr(rk_last_error(), "column 'item'");
        s->bytes[0][n] = (char)~s->bytes[0][n];
        if (blamed) {
            char expected[128];
            snprintf(expected, sizeof expected,
                     "'x.rkb': block 0, column 'item', byte %zu: the checksum does not match", n);
            assert_string_equal(rk_last_error(), expected);
            user_bytes = n;
        }
        if (opens) rk_rkb_free(rkb);
        if (blamed) break;
    }
    assert_true(user_bytes > 16);
    s->bytes[0][user_bytes] = (char)~s->bytes[0][user_bytes];
    OK(rk_rkb_open_memory("x.rkb", s->bytes[0], s->n_bytes[0], &rkb));
    OK(rk_rkb_read_block(rkb, 0, others, &read));
    OK(rk_rkb_read_block(rkb, 1, NULL, &read));
    assert_int_equal(rk_rkb_read_block(rkb, 0, NULL, &read), RK_BAD_DATA);
    s->bytes[0][user_bytes] = (char)~s->bytes[0][user_bytes];
    OK(rk_rkb_read_block(rkb, 0, NULL, &read)); /* the columns that failed can be filled again */
    assert_true(same_columns(&read, &s->blocks[0]));
    rk_columns_release(&read);
    rk_rkb_free(rkb);
}

static void test_other_version(void **state) {
    sample *s = *state;
    char head[64] = {0};
    memcpy(head, s->bytes[0], 16);
    head[8] = 2;
    uint32_t crc = rk_crc32c(0, head, 12);
    memcpy(head + 12, &crc, 4);
    rk_rkb *rkb;
    FAILS(rk_rkb_open_memory("x.rkb", head, sizeof head, &rkb), RK_UNSUPPORTED,
          "'x.rkb': rkb version 2; this program reads version 1\nhint: convert the file again with this "
          "version of reckon");
}

/* A disk that fills up at any byte: an error, no file, no leak. */
static void test_every_short_write(void **state) {
    sample *s = *state;
    long live = rk_alloc_live();
    for (size_t n = 0; n < s->n_bytes[0]; n += n < 64 ? 1 : 17) {
        remove(path);
        rk_file_fail_after((int64_t)n);
        rk_status status = write_blocks(path, 0, s->blocks);
        rk_file_fail_after(-1);
        assert_int_equal(status, RK_IO);
        assert_false(rk_file_exists(path));
        assert_false(rk_file_exists("test_rkb_damage.rkb.tmp"));
        assert_int_equal(rk_alloc_live(), live);
    }
    OK(write_blocks(path, 0, s->blocks));
}

/* A block that failed half way cannot be made good by going on. */
static void test_failed_writer_stays_failed(void **state) {
    sample *s = *state;
    int n_failed = 0;
    for (long n = 1;; n++) {
        rk_rkb_writer *writer;
        OK(rk_rkb_writer_open(path, 0, &writer));
        rk_alloc_fail_after(n, false);
        rk_status status = rk_rkb_writer_add(writer, &s->blocks[0]);
        rk_alloc_fail_after(0, false);
        if (status != RK_OK && rk_rkb_writer_add(writer, &s->blocks[0]) != RK_OK) {
            FAILS(rk_rkb_writer_commit(writer), RK_INVALID_ARGUMENT,
                  "'test_rkb_damage.rkb': a block could not be written");
            n_failed++;
        }
        rk_rkb_writer_free(writer);
        if (status == RK_OK) break;
    }
    assert_true(n_failed > 5);
}

static rk_status write_and_read(const sample *s) {
    rk_rkb *rkb = NULL;
    rk_columns read = {0};
    RK_TRY(write_blocks(path, 3, s->blocks));
    RK_TRY(rk_rkb_open(path, &rkb));
    rk_status status = RK_OK;
    for (int64_t b = 0; status == RK_OK && b < N_BLOCKS; b++) status = rk_rkb_read_block(rkb, b, NULL, &read);
    if (status == RK_OK) assert_true(same_columns(&read, &s->blocks[1]));
    rk_columns_release(&read);
    rk_rkb_free(rkb);
    return status;
}

static void test_out_of_memory(void **state) {
    sample *s = *state;
    long live = rk_alloc_live();
    for (int sticky = 0; sticky < 2; sticky++)
        for (long n = 1;; n++) {
            rk_alloc_fail_after(n, sticky);
            rk_status status = write_and_read(s);
            rk_alloc_fail_after(0, false);
            assert_int_equal(rk_alloc_live(), live);
            if (status == RK_OK) break;
            assert_int_equal(status, RK_NO_MEMORY);
            assert_true(n < 1000);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_cut),
                                       cmocka_unit_test(test_every_flip),
                                       cmocka_unit_test(test_bytes_behind),
                                       cmocka_unit_test(test_messages),
                                       cmocka_unit_test(test_other_version),
                                       cmocka_unit_test(test_every_short_write),
                                       cmocka_unit_test(test_failed_writer_stays_failed),
                                       cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
