/* For tests of kernels: every one of kernel_list.h is tried, on every instruction set that this processor
 * has, against the scalar reference: the same bits, at odd sizes. Those of rows are tried by
 * test_row_kernels.c, those that convert rows by test_row_rounding.c, random numbers, losses of candidates
 * and searches by test_kernels.c, all others by test_dense_kernels.c. */
#ifndef RK_TESTS_KERNELS_KERNEL_TESTING_H
#define RK_TESTS_KERNELS_KERNEL_TESTING_H

#include "testing.h"

#include "base/rng.h"
#include "base/thread/instruction_set.h"
#include "kernels/kernel_list.h"

/* One pointer a version of each kernel. */
#define KERNEL_TABLE(name, parameters, arguments) \
    static void(*const name##_on[RK_ISA_COUNT]) parameters = {name##_scalar, name##_avx2, name##_avx512};
RK_KERNEL_LIST(KERNEL_TABLE)
#undef KERNEL_TABLE

static const int32_t dims[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 129};
enum { N_DIMS = sizeof dims / sizeof dims[0], MAX_DIM = 129, N_ROWS = 50, N_BAGS = 40, N_IDS = 150 };
static rk_rng rng = {1, 2, 3};

static void randomize(float *values, size_t n) {
    for (size_t i = 0; i < n; i++) values[i] = (float)rk_rng_normal(&rng);
}

static bool tried(const char *name, bool mark) {
    static char seen[64][64];
    static int n;
    for (int i = 0; i < n; i++)
        if (strcmp(seen[i], name) == 0) return true;
    if (mark) snprintf(seen[n++], sizeof seen[0], "%s", name);
    return false;
}

/* Which file tries them. */
typedef enum kernel_family {
    DENSE_KERNELS,
    ROW_KERNELS,
    ROUNDING_KERNELS,
    OTHER_KERNELS,
    N_FAMILIES
} kernel_family;

static kernel_family family_of_kernel(const char *name) {
    static const char *const lists[N_FAMILIES][8] = {
        [ROW_KERNELS] = {"rk_ids_check", "rk_finite_check", "rk_bag_forward", "rk_fused_update",
                         "rk_sum_row_gradients", "rk_optimizer_step"},
        [ROUNDING_KERNELS] = {"rk_row_load", "rk_row_store", "rk_bf16_round", "rk_f32_to_16_bits",
                              "rk_f32_from_16_bits", "rk_rows_quantize"},
        [OTHER_KERNELS] = {"rk_random_init_row", "rk_sample_candidate_loss", "rk_code_products",
                           "rk_row_products", "rk_floats_to_ordered_keys", "rk_find_keys_above",
                           "rk_rows_argmax"}};
    for (int family = 0; family < N_FAMILIES; family++)
        for (int i = 0; lists[family][i]; i++)
            if (strcmp(lists[family][i], name) == 0) return (kernel_family)family;
    return DENSE_KERNELS;
}

static void check_all_tried(kernel_family family) {
#define CHECK_TRIED(name, parameters, arguments) \
    if (family_of_kernel(#name) == family && !tried(#name, false)) fail_msg("kernel %s has no test", #name);
    RK_KERNEL_LIST(CHECK_TRIED)
#undef CHECK_TRIED
}

#endif
