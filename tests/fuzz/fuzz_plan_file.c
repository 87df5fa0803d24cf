#include "fuzz/scratch.h"
#include "train/config/plan_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_plan_file file;
    if (rk_plan_file_load(scratch_file("plan.yaml", data, n_bytes), &file) != RK_OK) return 0;
    (void)rk_plan_file_check_roles(&file, &(rk_roles){2, 1});
    rk_plan_file_release(&file);
    return 0;
}
