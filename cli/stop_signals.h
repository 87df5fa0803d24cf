/* SIGINT and SIGTERM: the first one asks what runs to stop, a second one ends the program at once. */
#ifndef RK_CLI_STOP_SIGNALS_H
#define RK_CLI_STOP_SIGNALS_H

#include <stdbool.h>

#include <reckon/comm.h>

/* From here on, until stop_signals_uninstall, a signal calls stop(what), which must be async-signal-safe. */
typedef struct stoppable {
    void (*stop)(void *what);
    void *what;
} stoppable;
void stop_signals_install(const stoppable *running); /* must live until stop_signals_uninstall */
/* After it no signal calls anything: what ran may be freed. */
void stop_signals_uninstall(void);
int received_stop_signal(void); /* the signal that came, or 0 */
/* The exit status of a command that ended because of a signal: 128 and its number, as shells count. */
int stop_exit_status(void);
/* The same over ranks, of which a launcher may have told one: collective; `stopped`: this rank knows that the
 * run ended early. Returns 0 where none did. */
int stop_exit_status_over_ranks(rk_comm *comm, bool stopped);

#endif
