/* Waiting for an exchange moves the sums on too. */
#include "base/thread/clock.h"
#include "comm/comm.h"

rk_status rk_all_to_all_test(rk_all_to_all *all_to_all, bool *done) {
    RK_TRY(all_to_all->comm->functions->test(all_to_all, done));
    return rk_sums_advance(all_to_all->comm, false);
}

rk_status rk_all_to_all_wait(rk_all_to_all *all_to_all) {
    double deadline = rk_clock_seconds() + all_to_all->comm->timeout_s;
    atomic_store(&all_to_all->awaited, true);
    for (unsigned n_pauses = 0;;) {
        bool done;
        RK_TRY(rk_all_to_all_test(all_to_all, &done));
        if (done) return RK_OK;
        if (rk_clock_seconds() > deadline) RK_TRY(rk_all_to_all_late(all_to_all));
        rk_comm_pause(&n_pauses);
    }
}
