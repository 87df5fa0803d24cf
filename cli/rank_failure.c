#include "rank_failure.h"

#include "command.h"
#include "terminal.h"

int abort_all_ranks(rk_comm *comm) {
    int code = report_last_error();
    if (rk_comm_size(comm) > 1) rk_comm_abort(comm, "ends the run on all ranks");
    return code;
}

int report_refused_ranks(rk_comm *comm, rk_status status) {
    if (status == RK_PEER_LOST) return abort_all_ranks(comm);
    return rk_comm_rank(comm) == 0 ? report_last_error() : EXIT_FAILED;
}
