/* Finds the rank that keeps others waiting. A rank whose wait is over its limit asks the ranks that it waits
 * for what they wait for, and then asks those, until it reaches ranks that do not answer or wait for nobody.
 * A rank that waits for messages answers.
 *
 * A question is an empty message on the channel RK_CHANNEL_LIVENESS. Its answer has a bool for each rank.
 * Call these with the mutex of MPI held. */
#ifndef RK_COMM_MPI_MPI_LIVENESS_H
#define RK_COMM_MPI_MPI_LIVENESS_H

#include "comm/mpi/mpi_world.h"

/* A question or an answer: an arrival of that channel. */
rk_status rk_mpi_liveness_handle_message(rk_mpi_world *world, rk_mpi_arrival *arrival);
/* well [ranks of the world], the world's own: those that `all_to_all` does not wait for in vain. NULL: not
 * known yet. */
rk_status rk_mpi_find_lost_ranks(rk_all_to_all *all_to_all, const bool **well);
void rk_mpi_liveness_release(rk_mpi_liveness *liveness);

#endif
