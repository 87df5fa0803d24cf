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
        SHARDED_KINDS,
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
