/* Training over ranks that talk by functions of the caller's: processes that are connected by sockets. What
 * they train predicts what one process's does, to the bit. The public API alone. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing.h"

#include <reckon/reckon.h>

enum { MAX_RANKS = 3, ROWS = 1200, WAIT_MS = 60000 };

/* A socket to each other rank; -1 to itself. */
typedef struct rank_sockets {
    int rank, size;
    int sockets[MAX_RANKS];
} rank_sockets;

/* What has gone to and come from a rank of a message. */
typedef struct way {
    const char *send;
    char *receive;
    size_t n_to_send, n_to_receive;
} way;

static int move_on(way *w, int socket, short events) {
    if (events & POLLOUT && w->n_to_send) {
        ssize_t n = send(socket, w->send, w->n_to_send, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) return 3;
        w->send += n;
        w->n_to_send -= (size_t)n;
    }
    if (events & (POLLIN | POLLHUP) && w->n_to_receive) {
        ssize_t n = recv(socket, w->receive, w->n_to_receive, MSG_DONTWAIT);
        if (n <= 0) return 4;
        w->receive += n;
        w->n_to_receive -= (size_t)n;
    }
    return 0;
}

static int socket_all_to_all(void *user, const void *send, const size_t *send_bytes, void *receive,
                             const size_t *receive_bytes) {
    const rank_sockets *own = user;
    way ways[MAX_RANKS];
    const char *from = send;
    char *to = receive;
    for (int r = 0; r < own->size; r++) {
        ways[r] = (way){from, to, send_bytes[r], receive_bytes[r]};
        if (send_bytes[r]) from += send_bytes[r];
        if (receive_bytes[r]) to += receive_bytes[r];
    }
    way *self = &ways[own->rank];
    if (self->n_to_send != self->n_to_receive) return 1;
    if (self->n_to_send) memcpy(self->receive, self->send, self->n_to_send);
    for (;;) {
        struct pollfd polled[MAX_RANKS];
        int n_left = 0;
        for (int r = 0; r < own->size; r++) {
            short events = (short)((ways[r].n_to_send ? POLLOUT : 0) | (ways[r].n_to_receive ? POLLIN : 0));
            polled[r] = (struct pollfd){r == own->rank || !events ? -1 : own->sockets[r], events, 0};
            n_left += polled[r].fd >= 0;
        }
        if (n_left == 0) return 0;
        if (poll(polled, (nfds_t)own->size, WAIT_MS) <= 0) return 2;
        for (int r = 0; r < own->size; r++) {
            int code = polled[r].fd < 0 ? 0 : move_on(&ways[r], polled[r].fd, polled[r].revents);
            if (code) return code;
        }
    }
}

static const char run_file[] =
    "data:\n"
    "  train: a.csv\n"
    "  valid: {fraction: 0.2}\n"
    "  labels: [{name: y}]\n"
    "  shuffle_window: 500\n"
    "  features:\n"
    "    - {name: u, vocabulary: {}}\n"
    "    - {name: v, hash: 50}\n"
    "    - {name: x, dense: true, normalize: true}\n"
    "embedding: {dim: 8}\n"
    "model: {kind: deepfm, deep: [16, 8], batch_norm: true, dropout: 0.2}\n"
    "train: {batch_size: 64, epochs: 4, optimizer: {kind: adam, learning_rate: 0.01}}\n"
    "cluster: {virtual_shards: 4, replicate_below: 20}\n";

static char directory[] = "/tmp/reckon-caller-ranks-XXXXXX";

static void write_clicks(void) {
    char path[256];
    uint64_t random = 1;
    snprintf(path, sizeof path, "%s/a.csv", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "u,v,x,y\n");
    for (int i = 0; i < ROWS; i++) {
        int drawn[3];
        for (int k = 0; k < 3; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            drawn[k] = (int)(random >> 40);
        }
        int u = drawn[0] % 40, x = drawn[2] % 1000;
        fprintf(file, "u%d,v%d,%d.%d,%d\n", u, drawn[1] % 90, x / 100, x % 100,
                (u % 3 == 0) + x / 500.0 > 1.2);
    }
    fclose(file);
}

static rk_status train(const char *name, const char *setting, rk_comm *comm) {
    char output[300];
    const char *overrides[] = {output, setting};
    rk_config *config = NULL;
    rk_trainer *trainer = NULL;
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.comm = comm;
    snprintf(output, sizeof output, "train.output=%s/%s", directory, name);
    rk_status status = rk_set_threads(1);
    if (status == RK_OK)
        status = rk_config_parse(run_file, "clicks.yaml", directory, overrides, setting ? 2 : 1, &config);
    if (status == RK_OK) status = rk_trainer_create(config, &options, &trainer);
    if (status == RK_OK) status = rk_trainer_run(trainer);
    rk_trainer_free(trainer);
    rk_config_free(config);
    return status;
}

static rk_status train_as_rank(const char *name, const char *setting, rank_sockets *sockets) {
    rk_comm_functions functions = RK_COMM_FUNCTIONS_INIT;
    rk_comm_options options = RK_COMM_OPTIONS_INIT;
    rk_comm *comm = NULL;
    functions.rank = sockets->rank;
    functions.size = sockets->size;
    functions.user = sockets;
    functions.all_to_all = socket_all_to_all;
    options.timeout_s = 60;
    rk_status status = rk_comm_from_functions(&functions, &options, &comm);
    if (status == RK_OK) status = train(name, setting, comm);
    if (status != RK_OK) fprintf(stderr, "%s, rank %d: %s\n", name, sockets->rank, rk_last_error());
    rk_comm_free(comm);
    return status;
}

/* Processes as ranks. size 1: without a communicator. */
static void train_over(int size, const char *name, const char *setting) {
    int pairs[MAX_RANKS][MAX_RANKS];
    pid_t children[MAX_RANKS];
    fflush(NULL);
    for (int a = 0; a < size; a++)
        for (int b = a + 1; b < size; b++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            pairs[a][b] = pair[0];
            pairs[b][a] = pair[1];
        }
    for (int r = 0; r < size; r++) {
        children[r] = fork();
        assert_true(children[r] >= 0);
        if (children[r]) continue;
        rank_sockets own = {r, size, {-1, -1, -1}};
        for (int a = 0; a < size; a++)
            for (int b = 0; b < size; b++)
                if (a == r && b != r)
                    own.sockets[b] = pairs[a][b];
                else if (a != b)
                    close(pairs[a][b]); /* so that a rank's end is seen */
        rk_status status = size > 1 ? train_as_rank(name, setting, &own) : train(name, setting, NULL);
        _exit(status == RK_OK ? 0 : 1);
    }
    for (int a = 0; a < size; a++)
        for (int b = 0; b < size; b++)
            if (a != b) close(pairs[a][b]);
    int n_failed = 0;
    for (int r = 0; r < size; r++) {
        int how;
        assert_int_equal(waitpid(children[r], &how, 0), children[r]);
        n_failed += how != 0;
    }
    assert_int_equal(n_failed, 0);
}

static rk_status add_prediction(void *user, int64_t row, const float *predictions, const float *labels) {
    (void)labels;
    ((float *)user)[row] = predictions[0];
    return RK_OK;
}

static void predict(const char *name, float *out) {
    char path[300];
    rk_predictor *predictor;
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    OK(rk_predictor_open(path, &options, &predictor));
    snprintf(path, sizeof path, "%s/a.csv", directory);
    OK(rk_predictor_file(predictor, path, add_prediction, out));
    rk_predictor_free(predictor);
}

static void test_the_bits_of_one_process(void **state) {
    (void)state;
    static const struct {
        const char *name, *setting;
        int size;
    } runs[] = {{"two", NULL, 2},
                {"three", NULL, 3},
                {"server", "cluster.embedding_ranks=1", 3},
                {"reader", "cluster.reader_ranks=1", 3}};
    static float expected[ROWS], have[ROWS];
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        train_over(runs[i].size, runs[i].name, runs[i].setting);
    train_over(1, "one", NULL);
    train_over(2, "late", "train.staleness=1");
    predict("one", expected);
    float least = expected[0], most = expected[0];
    for (int i = 0; i < ROWS; i++) {
        least = expected[i] < least ? expected[i] : least;
        most = expected[i] > most ? expected[i] : most;
    }
    assert_true(least < 0.2f && most > 0.8f); /* it has learned */
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        predict(runs[i].name, have);
        if (memcmp(have, expected, sizeof have) != 0)
            fail_msg("'%s' is not what one process has", runs[i].name);
    }
    predict("late", have);
    assert_true(memcmp(have, expected, sizeof have) != 0);
}

static int make_directory(void **state) {
    (void)state;
    if (!mkdtemp(directory)) return 1;
    write_clicks();
    return 0;
}

static int remove_directory(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", directory);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_bits_of_one_process)};
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
