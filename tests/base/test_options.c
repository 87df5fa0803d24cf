/* Structs with a struct_size, between callers and libraries of different ages. */
#include "testing.h"

#include "base/struct_size.h"

typedef struct old_options {
    size_t struct_size;
    int32_t n;
} old_options;

typedef struct own_options {
    size_t struct_size;
    int32_t n;
    double factor; /* newer than old_options; 1 where a caller does not know it */
} own_options;

typedef struct new_options {
    size_t struct_size;
    int32_t n;
    double factor;
    const char *path;
} new_options;

#define FIRST RK_SIZE_WITH(own_options, n)

static rk_status take(const void *src, own_options *out) {
    *out = (own_options){sizeof *out, 5, 1};
    return rk_options_copy_in(out, sizeof *out, src, FIRST, "own_options");
}

/* In memory of exactly its size, so that a sanitizer sees a read beyond it. */
static void *copy_of(const void *options, size_t size) {
    void *copy = malloc(size);
    memcpy(copy, options, size);
    return copy;
}

static void test_take(void **state) {
    (void)state;
    own_options out;
    OK(take(NULL, &out));
    assert_true(out.struct_size == sizeof out && out.n == 5 && out.factor == 1);
    OK(take(&(own_options){sizeof(own_options), 7, 3}, &out));
    assert_true(out.struct_size == sizeof out && out.n == 7 && out.factor == 3);
}

static void test_take_from_older_caller(void **state) {
    (void)state;
    own_options out;
    old_options *old = copy_of(&(old_options){sizeof(old_options), 7}, sizeof *old);
    OK(take(old, &out));
    free(old);
    assert_true(out.struct_size == sizeof out && out.n == 7 && out.factor == 1);
}

static void test_take_from_newer_caller(void **state) {
    (void)state;
    own_options out;
    new_options newer = {sizeof newer, 7, 3, NULL};
    OK(take(&newer, &out));
    assert_true(out.struct_size == sizeof out && out.n == 7 && out.factor == 3);
    newer.path = "x";
    assert_int_equal(take(&newer, &out), RK_INVALID_ARGUMENT);
    assert_non_null(strstr(rk_last_error(), "own_options has fields that this library, of version "));
    assert_true(out.n == 5 && out.factor == 1);
}

static void test_sizes_that_are_none(void **state) {
    (void)state;
    const size_t sizes[] = {0, 1, FIRST - 1, 4097, (size_t)-1, (size_t)0xa5a5a5a5a5a5a5a5};
    own_options out;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        own_options garbage = {sizes[i], 7, 3};
        char message[200];
        snprintf(message, sizeof message,
                 "'struct_size' of own_options is %zu; it must be at least %zu\n"
                 "hint: set it to sizeof(own_options)",
                 sizes[i], FIRST);
        FAILS(take(&garbage, &out), RK_INVALID_ARGUMENT, message);
        assert_true(out.n == 5 && out.factor == 1);
        FAILS(rk_options_check(&garbage, FIRST, "own_options"), RK_INVALID_ARGUMENT, message);
        FAILS(rk_options_copy_out(&garbage, sizes[i], &out, sizeof out, FIRST, "own_options"),
              RK_INVALID_ARGUMENT, message);
        assert_true(garbage.n == 7);
    }
}

static void test_give(void **state) {
    (void)state;
    own_options own = {sizeof own, 7, 3};
    old_options *old = malloc(sizeof *old);
    OK(rk_options_copy_out(old, sizeof *old, &own, sizeof own, FIRST, "own_options"));
    assert_true(old->struct_size == sizeof *old && old->n == 7);
    free(old);
    new_options newer = {0, 1, 2, "x"};
    OK(rk_options_copy_out(&newer, sizeof newer, &own, sizeof own, FIRST, "own_options"));
    assert_true(newer.struct_size == sizeof newer && newer.n == 7 && newer.factor == 3 && !newer.path);
}

static void test_arrays(void **state) {
    (void)state;
    new_options newer[3] = {{sizeof *newer, 1, 2, 0}, {sizeof *newer, 3, 4, 0}, {sizeof *newer, 5, 6, 0}};
    own_options out[3] = {{0, 0, 0}};
    OK(rk_options_copy_in_array(out, sizeof *out, newer, 3, FIRST, "own_options"));
    for (int i = 0; i < 3; i++) {
        assert_true(out[i].struct_size == sizeof *out && out[i].n == newer[i].n);
        assert_true(out[i].factor == newer[i].factor);
    }
    old_options *old = copy_of(((old_options[]){{sizeof *old, 8}, {sizeof *old, 9}}), 2 * sizeof *old);
    OK(rk_options_copy_in_array(out, sizeof *out, old, 2, FIRST, "own_options"));
    assert_true(out[0].n == 8 && out[1].n == 9);
    old[1].struct_size = sizeof(own_options);
    FAILS(rk_options_copy_in_array(out, sizeof *out, old, 2, FIRST, "own_options"), RK_INVALID_ARGUMENT,
          "'struct_size' of own_options 1 of an array is 24, and of the first one 16\n"
          "hint: set each to sizeof(own_options)");
    free(old);
    newer[2].path = "x";
    assert_int_equal(rk_options_copy_in_array(out, sizeof *out, newer, 3, FIRST, "own_options"),
                     RK_INVALID_ARGUMENT);
    OK(rk_options_copy_in_array(out, sizeof *out, NULL, 0, FIRST, "own_options"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_take_from_older_caller),
        cmocka_unit_test(test_take_from_newer_caller),
        cmocka_unit_test(test_sizes_that_are_none),
        cmocka_unit_test(test_give),
        cmocka_unit_test(test_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
