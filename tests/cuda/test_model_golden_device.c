/* The models' goldens, made by PyTorch, once more on a GPU: losses, parameters and predictions of a few steps
 * of every preset. */
#include "cuda/device_testing.h"
#include "model/cuda/gpu_options.h"

static const rk_model_device gpu = {0};
#define GOLDEN_DEVICE (&gpu)
#define main          golden_main
#include "model/test_model_golden.c"
#undef main

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    need_device();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
