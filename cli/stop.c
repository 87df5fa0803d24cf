#include "stop.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "ranks.h"

static const stoppable *_Atomic current;
static atomic_int n_inside; /* threads in the handler, which may be any of the program's */
static atomic_int caught;

static void on_signal(int number) {
    atomic_store(&caught, number);
    atomic_fetch_add(&n_inside, 1);
    const stoppable *running = atomic_load(&current);
    if (running) running->stop(running->what);
    atomic_fetch_sub(&n_inside, 1);
}

static void set_handler(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void stop_hear(const stoppable *running) {
    atomic_store(&current, running);
    set_handler(on_signal);
}

void stop_unhear(void) {
    set_handler(SIG_DFL);
    atomic_store(&current, NULL);
    while (atomic_load(&n_inside)) sched_yield();
}

int stop_signal(void) {
    return atomic_load(&caught);
}

int stop_code(void) {
    int number = stop_signal();
    return 128 + (number ? number : SIGTERM);
}

int stop_code_over(rk_comm *comm, bool stopped) {
    float told[3] = {stopped, stop_signal() == SIGINT, stop_signal() == SIGTERM};
    if (rk_comm_size(comm) > 1 && rk_comm_all_reduce_f32(comm, told, 3) != RK_OK) return ranks_give_up(comm);
    if (told[0] == 0) return 0;
    return 128 + (told[1] > 0 ? SIGINT : SIGTERM);
}
