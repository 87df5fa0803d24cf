/* What tests of several ranks that train share: a world, and a folder of the first rank's that all use. */
#ifndef RK_TESTS_WORLD_H
#define RK_TESTS_WORLD_H

#include "testing.h"

#include <reckon/comm.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "comm/comm.h"

static rk_comm *world;
static char directory[] = "/tmp/reckon-ranks-XXXXXX";

static inline rk_status share_directory(void) {
    rk_all_to_all *all_to_all;
    if (rk_comm_rank(world) == 0 && !mkdtemp(directory)) return rk_error(RK_IO, "could not make a directory");
    RK_TRY(rk_comm_all_gather(world, RK_CHANNEL_SUMS, directory, sizeof directory, &all_to_all));
    memcpy(directory, rk_all_to_all_received_messages(all_to_all)[0].data, sizeof directory);
    rk_all_to_all_free(all_to_all);
    return RK_OK;
}

/* Without them the program ends with 1. */
static inline void open_world(void) {
    rk_comm_options options = RK_COMM_OPTIONS_INIT;
    options.timeout_s = 60;
    if (rk_comm_world(&options, &world) == RK_OK && share_directory() == RK_OK) return;
    fprintf(stderr, "%s\n", rk_last_error());
    exit(1);
}

static inline int close_world(void **state) {
    (void)state;
    OK(rk_comm_barrier(world));
    if (rk_comm_rank(world) == 0) rk_remove_tree(directory);
    rk_comm_free(world);
    assert_int_equal(rk_alloc_live(), 0);
    return 0;
}

#endif
