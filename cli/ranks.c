#include "ranks.h"

#include "command.h"
#include "terminal.h"

int ranks_give_up(rk_comm *comm) {
    int code = failed();
    if (rk_comm_size(comm) > 1) rk_comm_abort(comm, "ends the run on all ranks");
    return code;
}

int ranks_refused(rk_comm *comm, rk_status status) {
    if (status == RK_PEER_LOST) return ranks_give_up(comm);
    return rk_comm_rank(comm) == 0 ? failed() : EXIT_FAILED;
}
