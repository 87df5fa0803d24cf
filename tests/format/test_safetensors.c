/* safetensors: written and parsed again, headers that cannot be, full disks. */
#include "fixture.h"

#include "base/file/file.h"
#include "base/hash.h"
#include "format/safetensors.h"

static const char path[] = "test_safetensors.safetensors";
static float weights[2][3] = {{1, 2, 3}, {4, 5, 6}};
static uint16_t halves[3] = {0x3f80, 0x4000, 0x4040};
static int64_t steps[1] = {-7};
static uint8_t bytes[5] = {1, 2, 3, 4, 5};

static void make_state(rk_state_dict *state) {
    *state = (rk_state_dict){0};
    OK(rk_state_dict_add(state, "bytes", RK_U8, 5, 0, bytes));
    OK(rk_state_dict_add(state, "table/w \"q\" \xc3\xa9", RK_F32, 2, 3, weights));
    OK(rk_state_dict_add(state, "bf16", RK_BF16, 3, 0, halves));
    OK(rk_state_dict_add(state, "f16", RK_F16, 1, 2, halves));
    OK(rk_state_dict_add(state, "empty", RK_F32, 0, 0, weights));
    OK(rk_state_dict_add(state, "step", RK_I64, 1, 0, steps));
}

static void test_round_trip(void **unused) {
    (void)unused;
    rk_state_dict state;
    uint32_t crc;
    uint64_t n_bytes;
    make_state(&state);
    OK(rk_safetensors_write(path, &state, &crc, &n_bytes));
    char *file;
    size_t n;
    OK(rk_file_read(path, &file, &n));
    assert_int_equal(n, n_bytes);
    assert_int_equal(rk_crc32c(0, file, n), crc);
    rk_safetensors tensors;
    OK(rk_safetensors_parse(file, n, n, &tensors));
    assert_int_equal(tensors.n, state.n);
    for (size_t i = 0; i < state.n; i++) {
        const rk_state_dict_entry *e = &state.entries[i];
        const rk_safetensors_entry *got = rk_safetensors_find(&tensors, e->name);
        assert_ptr_equal(got, &tensors.entries[i]); /* listed in the order given */
        assert_true(got->type == e->type && got->n_dims == e->n_dims && got->dims[0] == e->dims[0] &&
                    (e->n_dims == 1 || got->dims[1] == e->dims[1]));
        assert_int_equal(got->n_bytes, rk_state_dict_entry_bytes(e));
        assert_memory_equal(file + got->begin, e->data, got->n_bytes);
        assert_int_equal(got->begin % rk_dtype_bytes(got->type), 0);
    }
    assert_null(rk_safetensors_find(&tensors, "nothing"));
    for (size_t cut = 0; cut < n; cut++) {
        char *part = malloc(cut + !cut);
        rk_safetensors none = {0};
        memcpy(part, file, cut);
        assert_int_equal(rk_safetensors_parse(part, cut, cut, &none), RK_BAD_DATA);
        free(part);
    }
    /* The header alone is enough, if the size of the file is known. */
    rk_safetensors again;
    size_t header = (size_t)file[0] + ((size_t)(unsigned char)file[1] << 8) + 8;
    assert_int_equal(header % 8, 0);
    OK(rk_safetensors_parse(file, header, n, &again));
    rk_safetensors_release(&again);
    rk_safetensors_release(&tensors);
    rk_free(file);
    rk_state_dict_release(&state);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Rows that stand apart are written in their order, in pieces of any size. */
static void test_rows_in_order(void **unused) {
    (void)unused;
    enum { N = 3000, WIDTH = 50 };
    static float rows[N][WIDTH], expected[N][WIDTH];
    static int64_t order[N];
    rk_state_dict state = {0};
    uint32_t crc;
    uint64_t n_bytes;
    size_t n;
    char *file;
    rk_safetensors tensors;
    for (int i = 0; i < N; i++) {
        order[i] = (int64_t)i * 7 % N;
        for (int k = 0; k < WIDTH; k++) rows[i][k] = (float)(i * WIDTH + k);
    }
    for (int i = 0; i < N; i++) memcpy(expected[i], rows[order[i]], sizeof rows[0]);
    OK(rk_state_dict_add(&state, "rows", RK_F32, N, WIDTH, rows));
    state.entries[0].order = order;
    OK(rk_state_dict_add(&state, "none", RK_F32, 0, WIDTH, rows));
    state.entries[1].order = order;
    OK(rk_safetensors_write(path, &state, &crc, &n_bytes));
    OK(rk_file_read(path, &file, &n));
    OK(rk_safetensors_parse(file, n, n, &tensors));
    assert_int_equal(rk_crc32c(0, file, n), crc);
    assert_int_equal(tensors.entries[0].n_bytes, sizeof expected);
    assert_memory_equal(file + tensors.entries[0].begin, expected, sizeof expected);
    rk_safetensors_release(&tensors);
    rk_free(file);
    rk_state_dict_release(&state);
}

/* A file of this header and so many bytes of tensors. */
static rk_status parse(const char *header, uint64_t n_data, rk_safetensors *out) {
    rk_buffer file = {0};
    rk_buffer_append_u64le(&file, strlen(header));
    rk_buffer_append_text(&file, header);
    rk_status status = rk_safetensors_parse(file.data, file.n_bytes, file.n_bytes + n_data, out);
    rk_buffer_release(&file);
    return status;
}

static void test_headers(void **state) {
    (void)state;
    rk_safetensors t;
    OK(
        parse("{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":["
              "8,12]},"
              "\"a\":{\"shape\":[1,2,2],\"data_offsets\":[0,8],\"dtype\":\"BF16\",\"more\":1}}   ",
              12, &t));
    assert_int_equal(t.n, 2);
    assert_true(t.entries[0].n_dims == 0 && t.entries[1].n_dims == 3);
    rk_safetensors_release(&t);
    OK(parse("{}", 0, &t));
    rk_safetensors_release(&t);
    OK(
        parse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"b\":{\"dtype\":\"U8\","
              "\"shape\":[1],\"data_offsets\":[0,1]}}",
              1, &t));
    rk_safetensors_release(&t);
}

static void test_bad_headers(void **state) {
    (void)state;
    static const struct {
        const char *header;
        uint64_t n_data;
    } cases[] = {
        {"[]", 0},
        {"{", 0},
        {"{} x", 0},
        {"{}", 1},
        {"{\"a\":1}", 0},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[\"0\"],\"data_offsets\":[0,0]}}", 0},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,true]}}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":["
         "1],\"data_offsets\":[1,2]}}",
         2},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":["
         "2],\"data_offsets\":[1,3]}}",
         3},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":["
         "1],\"data_offsets\":[2,3]}}",
         3},
    };
    rk_safetensors t;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(parse(cases[i].header, cases[i].n_data, &t), RK_BAD_DATA);
    FAILS(parse("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, &t),
          RK_UNSUPPORTED, "tensor 'a': the type 'F8_E4M3' is not supported");
    FAILS(rk_safetensors_parse("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, 10, &t), RK_BAD_DATA,
          "a safetensors header of 18446744073709551615 bytes does not fit the file");
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_failing_writes(void **unused) {
    (void)unused;
    rk_state_dict state;
    uint32_t crc = 1;
    uint64_t n_bytes = 2, whole;
    make_state(&state);
    long live = rk_alloc_live();
    OK(rk_safetensors_write(path, &state, &(uint32_t){0}, &whole));
    OK(rk_remove_tree(path));
    for (uint64_t n = 0; n < whole; n += 13) {
        rk_file_fail_after((int64_t)n);
        rk_status status = rk_safetensors_write(path, &state, &crc, &n_bytes);
        rk_file_fail_after(-1);
        assert_int_equal(status, RK_IO);
        assert_false(rk_file_exists(path));
        assert_true(crc == 1 && n_bytes == 2);
        assert_int_equal(rk_alloc_live(), live);
    }
    for (long n = 1;; n++) {
        rk_safetensors tensors = {0};
        char *file = NULL;
        size_t n_file;
        rk_alloc_fail_after(n, false);
        rk_status status = rk_safetensors_write(path, &state, &crc, &n_bytes);
        if (status == RK_OK) status = rk_file_read(path, &file, &n_file);
        if (status == RK_OK) status = rk_safetensors_parse(file, n_file, n_file, &tensors);
        rk_alloc_fail_after(0, false);
        rk_safetensors_release(&tensors);
        rk_free(file);
        assert_int_equal(rk_alloc_live(), live);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
    }
    state.entries[0].name[0] = (char)0xff;
    assert_int_equal(rk_safetensors_write(path, &state, &crc, &n_bytes), RK_INVALID_ARGUMENT);
    rk_state_dict_release(&state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_rows_in_order), cmocka_unit_test(test_headers),
                                       cmocka_unit_test(test_bad_headers),
                                       cmocka_unit_test(test_failing_writes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
