/* Ranks that talk by the caller's functions (torch.distributed, threads, anything that can do an all_to_all).
 */
#include <stdio.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "comm/callbacks/callbacks_world.h"

static const rk_comm_ops ops;

static rk_status create_comm(rk_callbacks_world *world, int32_t rank, int32_t size, double timeout_s,
                             int32_t context, rk_comm_of_callbacks **out) {
    RK_TRY(rk_comm_create(sizeof **out, &ops, world->shared, rank, size, timeout_s, out));
    (*out)->world = world;
    (*out)->context = context;
    return RK_OK;
}

static void release_world(rk_callbacks_world *world) {
    for (rk_early_message *early = world->early, *next; early; early = next) {
        next = early->next;
        rk_message_pool_return(&world->shared->pool, early->data);
        rk_free(early);
    }
    rk_comm_shared_free(world->shared);
    RK_FREE_ALL(world->told, world->heard, world->head_bytes, world->send_bytes, world->receive_bytes,
                world->send, world->receive, world->left);
    pthread_mutex_destroy(&world->round_mutex);
    rk_free(world);
}

static rk_status create_world(const rk_comm_functions *functions, rk_callbacks_world **out) {
    rk_callbacks_world *world;
    size_t size = (size_t)functions->size;
    rk_status status;
    RK_TRY(rk_alloc(1, sizeof *world, &world));
    pthread_mutex_init(&world->round_mutex, NULL);
    world->functions = *functions;
    world->end = &world->first;
    world->early_end = &world->early;
    RK_GOTO(rk_comm_shared_create(&world->shared));
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY(size, world->told), RK_ARRAY(size, world->heard),
                         RK_ARRAY(size, world->head_bytes), RK_ARRAY(size, world->send_bytes),
                         RK_ARRAY(size, world->receive_bytes), RK_ARRAY(size, world->left)));
    for (size_t r = 0; r < size; r++) world->head_bytes[r] = sizeof *world->told;
    *out = world;
done:
    if (status != RK_OK) release_world(world);
    return status;
}

static void callbacks_comm_free(rk_comm *comm) {
    rk_comm_of_callbacks *own = (rk_comm_of_callbacks *)comm;
    rk_callbacks_world *world = own->context == 0 ? own->world : NULL;
    if (world && rk_comm_check_failure(comm) == RK_OK && rk_comm_final_barrier(comm) != RK_OK)
        rk_log(RK_LOG_ERROR, "rank %d stops without the other ranks: %s", (int)comm->rank, rk_last_error());
    rk_comm_release(&own->head);
    if (world) release_world(world);
}

static rk_status callbacks_create_group(rk_comm *comm, const int32_t *members, int32_t n_members,
                                        rk_comm **out) {
    int32_t context, rank = 0;
    rk_comm_of_callbacks *made;
    RK_TRY(rk_comm_agree_on_context(comm, members, n_members, &context));
    while (members[rank] != comm->rank) rank++;
    RK_TRY(
        create_comm(((rk_comm_of_callbacks *)comm)->world, rank, n_members, comm->timeout_s, context, &made));
    rk_comm_set_group_description(&made->head, comm, members);
    *out = &made->head;
    return RK_OK;
}

static void callbacks_comm_abort(rk_comm *comm, const char *reason) {
    const rk_comm_functions *functions = &((rk_comm_of_callbacks *)comm)->world->functions;
    rk_log(RK_LOG_ERROR, "rank %d: %s", (int)functions->rank, reason);
    if (functions->abort) functions->abort(functions->user, reason);
}

/* Every rank takes part in every round, so the time limit is that of check_ranks_not_lost
 * (callbacks_all_to_all.c), or the caller's function fails. */
static rk_status callbacks_find_lost_ranks(rk_all_to_all *all_to_all, const bool **well) {
    (void)all_to_all, (void)well;
    return RK_OK;
}

static const rk_comm_ops ops = {sizeof(rk_message),
                                callbacks_comm_free,
                                rk_callbacks_all_to_all_begin,
                                rk_callbacks_all_to_all_test,
                                rk_callbacks_all_to_all_abandon,
                                callbacks_create_group,
                                callbacks_comm_abort,
                                callbacks_find_lost_ranks,
                                false};

static rk_status copy_functions(const rk_comm_functions *functions, rk_comm_functions *out) {
    RK_FAIL_IF(!functions, RK_INVALID_ARGUMENT, "rk_comm_from_functions needs functions");
    *out = (rk_comm_functions)RK_COMM_FUNCTIONS_INIT;
    RK_TRY(rk_options_copy_in(out, sizeof *out, functions, RK_SIZE_WITH(rk_comm_functions, abort),
                              "rk_comm_functions"));
    RK_FAIL_IF(out->size < 1, RK_INVALID_ARGUMENT, "rk_comm_functions: 'size' must be at least 1, not %d",
               (int)out->size);
    RK_FAIL_IF(out->rank < 0 || out->rank >= out->size, RK_INVALID_ARGUMENT,
               "rk_comm_functions: 'rank' must be 0 to %d, not %d", (int)out->size - 1, (int)out->rank);
    RK_FAIL_IF(!out->all_to_all, RK_INVALID_ARGUMENT, "rk_comm_functions: 'all_to_all' is missing");
    return RK_OK;
}

rk_status rk_comm_from_functions(const rk_comm_functions *functions, const rk_comm_options *options,
                                 rk_comm **out) {
    rk_comm_functions f;
    double timeout_s;
    rk_callbacks_world *world;
    rk_comm_of_callbacks *comm;
    RK_TRY(copy_functions(functions, &f));
    RK_TRY(rk_comm_resolve_timeout(options, &timeout_s));
    RK_TRY(create_world(&f, &world));
    rk_status status = create_comm(world, f.rank, f.size, timeout_s, 0, &comm);
    if (status == RK_OK) {
        world->shared->all = &comm->head;
        snprintf(comm->head.description, sizeof comm->head.description,
                 "functions of the caller's, rank %d of %d", (int)f.rank, (int)f.size);
        status = rk_comm_gather_hosts(&comm->head); /* which tries the functions, too */
        if (status != RK_OK) rk_comm_release(&comm->head);
    }
    if (status != RK_OK) {
        release_world(world);
        return status;
    }
    *out = &comm->head;
    return RK_OK;
}
