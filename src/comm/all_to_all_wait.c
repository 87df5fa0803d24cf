/* Waiting for an exchange moves the sums on too. */
#include "base/thread/clock.h"
#include "comm/comm.h"

rk_status rk_exchange_test(rk_exchange *exchange, bool *done) {
    RK_TRY(exchange->comm->functions->test(exchange, done));
    return rk_sums_advance(exchange->comm, false);
}

rk_status rk_exchange_wait(rk_exchange *exchange) {
    double deadline = rk_clock_seconds() + exchange->comm->timeout_s;
    atomic_store(&exchange->awaited, true);
    for (unsigned n_pauses = 0;;) {
        bool done;
        RK_TRY(rk_exchange_test(exchange, &done));
        if (done) return RK_OK;
        if (rk_clock_seconds() > deadline) RK_TRY(rk_exchange_late(exchange));
        rk_comm_pause(&n_pauses);
    }
}
