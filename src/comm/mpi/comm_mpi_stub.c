/* A build without MPI. */
#include "comm/comm.h"

rk_status rk_comm_mpi(double timeout_s, rk_comm **out) {
    (void)timeout_s, (void)out;
    return rk_error_hint(
        rk_error(RK_UNSUPPORTED, "a launcher started several processes, but libreckon was built without MPI"),
        "install libopenmpi-dev or libmpich-dev and build again");
}
