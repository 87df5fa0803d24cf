/* How a command that runs over ranks ends. */
#ifndef RK_CLI_RANKS_H
#define RK_CLI_RANKS_H

#include <reckon/comm.h>

/* A failure of one rank ends them all; it may not know whether they know. Says it; returns EXIT_FAILED. */
int ranks_give_up(rk_comm *comm);
/* Of ranks that could not begin, which have all failed, one says why. */
int ranks_refused(rk_comm *comm, rk_status status);

#endif
