/* Started by an MPI launcher: the contract of the stores over ranks; in a build over the emulator, of the
 * GPU's too. */
#ifdef RK_EMULATED
#include "embedding/device_kinds.h"
#define OPEN  open_device
#define CLOSE close_device
#else
#define OPEN  NULL
#define CLOSE NULL
#include "embedding/sharded_kind.h"
#endif

int main(void) {
    static const store_kind over_ranks[] = {
        {"sharded", make_sharded, RK_BF16, .of_ranks = true},
        {"sharded, dynamic", make_sharded, RK_BF16, .keys = true, .of_ranks = true},
        {"sharded, dynamic, shared row", make_sharded, RK_BF16, .keys = true, .oov = true, .of_ranks = true},
        {"sharded, dynamic, late", make_sharded, RK_BF16, .keys = true, .oov = true, .of_ranks = true,
         .late = true},
        {"sharded, on a disk", make_sharded, RK_BF16, .keys = true, .oov = true, .on_disk = true,
         .of_ranks = true},
        {"sharded, on a disk, late", make_sharded, RK_BF16, .keys = true, .on_disk = true, .of_ranks = true,
         .late = true},
        {"sharded, dynamic, cold rows", make_sharded, RK_BF16, .keys = true, .cold = true, .of_ranks = true},
        {"sharded, dynamic, cold rows, late", make_sharded, RK_BF16, .keys = true, .cold = true,
         .of_ranks = true, .late = true},
        {"sharded, late", make_sharded, RK_BF16, .of_ranks = true, .late = true},
#ifdef RK_EMULATED
        {"cuda_sharded", make_device_sharded, RK_F32, .of_ranks = true, .nmse = 1e-10},
        {"cuda_sharded, dynamic", make_device_sharded, RK_F32, .keys = true, .of_ranks = true, .nmse = 1e-10},
#endif
        {.name = NULL}};
    rk_comm_options options = RK_COMM_OPTIONS_INIT;
    options.timeout_s = 60;
    if (rk_comm_world(&options, &comm) != RK_OK) {
        fprintf(stderr, "%s\n", rk_last_error());
        return 1;
    }
    return run_store_contract(over_ranks, OPEN, CLOSE);
}
