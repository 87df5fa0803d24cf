#include "stop_signals.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "rank_failure.h"

static const stoppable *_Atomic current;
static atomic_int n_inside; /* threads in the handler, which may be any of the program's */
static atomic_int caught;

static void handle_stop_signal(int number) {
    atomic_store(&caught, number);
    atomic_fetch_add(&n_inside, 1);
    const stoppable *running = atomic_load(&current);
    if (running) running->stop(running->what);
    atomic_fetch_sub(&n_inside, 1);
}

static void set_signal_handlers(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void stop_signals_install(const stoppable *running) {
    atomic_store(&current, running);
    set_signal_handlers(handle_stop_signal);
}

void stop_signals_uninstall(void) {
    set_signal_handlers(SIG_DFL);
    atomic_store(&current, NULL);
    while (atomic_load(&n_inside)) sched_yield();
}

int received_stop_signal(void) {
    return atomic_load(&caught);
}

int stop_exit_status(void) {
    int number = received_stop_signal();
    return 128 + (number ? number : SIGTERM);
}

int stop_exit_status_over_ranks(rk_comm *comm, bool stopped) {
    float told[3] = {stopped, received_stop_signal() == SIGINT, received_stop_signal() == SIGTERM};
    if (rk_comm_size(comm) > 1 && rk_comm_all_reduce_f32(comm, told, 3) != RK_OK)
        return abort_all_ranks(comm);
    if (told[0] == 0) return 0;
    return 128 + (told[1] > 0 ? SIGINT : SIGTERM);
}
