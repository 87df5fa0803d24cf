/* `comm_failure DIRECTORY TIMEOUT_S`: ranks that exchange and sum without end, until one is lost; then each
 * writes the error that it saw to DIRECTORY/said.RANK and aborts. DIRECTORY/pid.RANK appears once it is under
 * way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <reckon/comm.h>

#include "base/thread/clock.h"
#include "comm/comm.h"

enum { N = 100000 };

static void to_stderr(void *user, rk_log_level level, const char *message) {
    (void)user, (void)level;
    fprintf(stderr, "%s\n", message);
}

static void write_file(const char *directory, const char *name, int rank, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%d", directory, name, rank);
    FILE *file = fopen(path, "w");
    if (!file) return;
    fprintf(file, "%s\n", text);
    fclose(file);
}

static rk_status step(rk_comm *comm, const rk_message *send, float *values) {
    rk_all_to_all *all_to_all;
    rk_status status = rk_all_to_all_begin(comm, RK_CHANNEL_IDS, send, NULL, NULL, &all_to_all);
    if (status != RK_OK) return status;
    status = rk_all_to_all_wait(all_to_all);
    rk_all_to_all_free(all_to_all);
    return status == RK_OK ? rk_comm_all_reduce_f32(comm, values, N) : status;
}

int main(int argc, char **argv) {
    static float values[N];
    if (argc != 3) return 2;
    rk_log_set(to_stderr, NULL, RK_LOG_INFO);
    rk_comm_options options = RK_COMM_OPTIONS_INIT;
    options.timeout_s = atof(argv[2]);
    rk_comm *comm;
    if (rk_comm_world(&options, &comm) != RK_OK) {
        fprintf(stderr, "%s\n", rk_last_error());
        return 1;
    }
    int rank = rk_comm_rank(comm);
    rk_message *send = calloc((size_t)rk_comm_size(comm), sizeof *send);
    for (int r = 0; r < rk_comm_size(comm); r++) send[r] = (rk_message){values, sizeof values};
    for (int i = 0;; i++) {
        double began = rk_clock_seconds();
        rk_status status = step(comm, send, values);
        if (status != RK_OK) {
            char text[2100];
            snprintf(text, sizeof text, "%s after %.1f s: %s", rk_status_name(status),
                     rk_clock_seconds() - began, rk_last_error());
            write_file(argv[1], "said", rank, text);
            rk_comm_abort(comm, rk_last_error());
        }
        char pid[20];
        snprintf(pid, sizeof pid, "%d", (int)getpid());
        if (i == 20) write_file(argv[1], "pid", rank, pid);
    }
}
