/* The contract of the stores of a GPU, of one rank. */
#include "embedding/device_kinds.h"

int main(void) {
    static const store_kind of_device[] = {
        {"cuda", make_device, RK_F32, .nmse = 1e-10},
        {"cuda_sharded", make_device_sharded, RK_F32, .of_ranks = true, .nmse = 1e-10},
        {"cuda, dynamic", make_device, RK_F32, .keys = true, .nmse = 1e-10},
        {"cuda, dynamic, shared row", make_device, RK_F32, .keys = true, .oov = true, .nmse = 1e-10},
        {"cuda, dynamic, cold rows", make_device, RK_F32, .keys = true, .cold = true, .nmse = 1e-10},
        {"cuda_sharded, dynamic", make_device_sharded, RK_F32, .keys = true, .of_ranks = true, .nmse = 1e-10},
        {"cuda_sharded, dynamic, shared row", make_device_sharded, RK_F32, .keys = true, .oov = true,
         .of_ranks = true, .nmse = 1e-10},
        {"cuda_sharded, dynamic, cold rows", make_device_sharded, RK_F32, .keys = true, .cold = true,
         .of_ranks = true, .nmse = 1e-10},
        {.name = NULL}};
    if (rk_comm_self(&comm) != RK_OK) return 1;
    return run_store_contract(of_device, open_device, close_device);
}
