#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "train/plan/cluster_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_cluster_file file;
    if (rk_cluster_file_parse("f.yaml", (const char *)data, n_bytes, &file) != RK_OK) return 0;
    rk_machine *machines;
    rk_roles roles;
    if (rk_cluster_file_list_ranks(&file, 0, &machines, &roles) == RK_OK) rk_free(machines);
    rk_cluster_file_release(&file);
    return 0;
}
