/* How a command that runs over ranks ends. */
#ifndef RK_CLI_RANK_FAILURE_H
#define RK_CLI_RANK_FAILURE_H

#include <reckon/comm.h>

/* A failure of one rank ends them all; it may not know whether they know. Says it; returns EXIT_FAILED. */
int abort_all_ranks(rk_comm *comm);
/* Of ranks that could not begin, which have all failed, one says why. */
int report_refused_ranks(rk_comm *comm, rk_status status);

#endif
