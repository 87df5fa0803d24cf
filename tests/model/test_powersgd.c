/* Dense gradients summed by PowerSGD, with threads as ranks: by the definition of powersgd.h in f64, that
 * nothing is lost, that all ranks have the same bits, what the next step begins with, and what is not
 * finite. */
#include <math.h>

#include "comm/thread_ranks.h"

#include "model/step/powersgd.h"
#include "nn/graph/layers.h"

enum { IN = 40, FIRST = 64, SECOND = 32, LAST = 16, VECTORS = 6, N_STEPS = 6 };
/* The parameters, which fill whole cache lines: IN x FIRST and FIRST x SECOND are large. */
enum { N = IN * FIRST + FIRST + FIRST * SECOND + SECOND + SECOND * LAST };

static rk_status make_graph(rk_graph **out) {
    rk_status status;
    RK_GOTO(rk_graph_create(1, out));
    rk_value x = rk_graph_add_input(*out, "x", (rk_shape){1, IN});
    x = rk_linear(*out, "a", x, FIRST, true, RK_F32);
    x = rk_linear(*out, "b", x, SECOND, true, RK_F32);
    rk_graph_mark_output(*out, rk_linear(*out, "c", x, LAST, false, RK_F32));
    RK_GOTO(rk_graph_finish(*out, 1, true));
done:
    return status;
}

/* What a trainer has. */
typedef struct trainer {
    rk_graph *graph;
    rk_powersgd powersgd;
    rk_residual residual;
    float gradients[N];
} trainer;

static rk_status open_trainer(trainer *t, const rk_comm *comm) {
    *t = (trainer){0};
    RK_TRY(make_graph(&t->graph));
    RK_TRY(rk_residual_init(&t->residual, N, comm->rank, comm->size));
    return rk_powersgd_init(&t->powersgd, t->graph, VECTORS, comm->size);
}

static void close_trainer(trainer *t) {
    rk_powersgd_release(&t->powersgd);
    rk_residual_release(&t->residual);
    rk_graph_free(t->graph);
}

static float gradient_of(int rank, int step, size_t i) {
    return sinf((float)i * 1.7f + (float)rank * 3.1f + (float)(step * step)) * expf((float)(i / 100 % 5) - 8);
}

static rk_status sum_gradients(rk_comm *comm, trainer *t, bool is_wanted) {
    RK_TRY(rk_powersgd_begin(&t->powersgd, comm, t->gradients, &t->residual));
    return rk_powersgd_finish(&t->powersgd, comm, is_wanted, &t->residual);
}

static void accept(trainer *t) {
    rk_residual_accept(&t->residual);
    rk_powersgd_accept(&t->powersgd);
}

/* Columns [VECTORS, n], by Gram and Schmidt. */
static void orthonormalize_by_definition(double *columns, int64_t n) {
    for (int k = 0; k < VECTORS; k++) {
        double *v = columns + k * n, length = 0;
        for (int j = 0; j < k; j++) {
            double along = 0;
            for (int64_t i = 0; i < n; i++) along += v[i] * columns[j * n + i];
            for (int64_t i = 0; i < n; i++) v[i] -= along * columns[j * n + i];
        }
        for (int64_t i = 0; i < n; i++) length += v[i] * v[i];
        for (int64_t i = 0; i < n; i++) v[i] /= sqrt(length);
    }
}

/* One matrix: m [size, rows, cols], each trainer's gradients and residual, becomes their next residuals; sum
 * [rows, cols]; q [VECTORS, cols] becomes the next Q. */
static void step_by_definition(int size, int64_t rows, int64_t cols, double *m, double *q, double *sum) {
    double p[VECTORS * FIRST], next[VECTORS * FIRST], own[VECTORS * FIRST];
    memset(p, 0, sizeof p);
    memset(next, 0, sizeof next);
    for (int64_t t = 0; t < size * rows; t++)
        for (int k = 0; k < VECTORS; k++)
            for (int64_t j = 0; j < cols; j++) p[k * rows + t % rows] += m[t * cols + j] * q[k * cols + j];
    orthonormalize_by_definition(p, rows);
    for (int t = 0; t < size; t++) {
        double *mt = m + t * rows * cols;
        memset(own, 0, sizeof own);
        for (int k = 0; k < VECTORS; k++)
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < cols; j++) own[k * cols + j] += mt[i * cols + j] * p[k * rows + i];
        for (int k = 0; k < VECTORS; k++)
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < cols; j++) mt[i * cols + j] -= p[k * rows + i] * own[k * cols + j];
        for (int64_t j = 0; j < VECTORS * cols; j++) next[j] += own[j];
    }
    memset(sum, 0, (size_t)(rows * cols) * sizeof *sum);
    for (int k = 0; k < VECTORS; k++) {
        double length = 0;
        for (int64_t j = 0; j < cols; j++) length += next[k * cols + j] * next[k * cols + j];
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) sum[i * cols + j] += p[k * rows + i] * next[k * cols + j];
        for (int64_t j = 0; j < cols; j++) q[k * cols + j] = next[k * cols + j] / sqrt(length);
    }
}

static bool is_near(const float *a, const double *b, size_t n, double tolerance) {
    for (size_t i = 0; i < n; i++)
        if (fabs(a[i] - b[i]) > tolerance) return false;
    return true;
}

/* Both matrices, and what is whole; what is left in f32 of sums of some thousand products. */
static rk_status compare_with_definition(rk_comm *comm) {
    static const double TOLERANCE = 1e-4;
    RK_AUTOFREE trainer *t = NULL;
    RK_AUTOFREE double *m = NULL, *q = NULL, *sum = NULL;
    rk_status status;
    RK_GOTO(rk_alloc(1, sizeof *t, &t));
    RK_GOTO(rk_alloc(MAX_RANKS * N, sizeof *m, &m));
    RK_GOTO(rk_alloc(VECTORS * (FIRST + SECOND), sizeof *q, &q));
    RK_GOTO(rk_alloc(N, sizeof *sum, &sum));
    RK_GOTO(open_trainer(t, comm));
    EXPECT(t->powersgd.n_matrices == 2 && t->powersgd.n_q == VECTORS * (FIRST + SECOND));
    EXPECT(rk_powersgd_count_values(t->graph, VECTORS) == t->powersgd.n_sent + t->powersgd.n_q);
    for (size_t i = 0; i < t->powersgd.n_q; i++) q[i] = t->powersgd.q[i];
    for (int step = 0; step < N_STEPS; step++) {
        for (size_t i = 0; i < N; i++) t->gradients[i] = gradient_of(comm->rank, step, i);
        RK_GOTO(sum_gradients(comm, t, true));
        for (int k = 0; k < 2; k++) {
            const rk_powersgd_matrix *at = &t->powersgd.matrices[k];
            size_t n = (size_t)(at->rows * at->cols);
            double *own = m + (size_t)MAX_RANKS * at->offset; /* kept from step to step */
            for (size_t i = 0; i < n * (size_t)comm->size; i++)
                own[i] += gradient_of((int)(i / n), step, at->offset + i % n);
            step_by_definition(comm->size, at->rows, at->cols, own, q + at->q, sum);
            EXPECT(is_near(t->gradients + at->offset, sum, n, TOLERANCE));
            EXPECT(is_near(t->residual.next + at->offset, own + (size_t)comm->rank * n, n, TOLERANCE));
        }
        EXPECT(is_near(t->powersgd.next_q, q, t->powersgd.n_q, 20 * TOLERANCE));
        accept(t);
    }
done:
    if (t) close_trainer(t);
    return status;
}

/* The sums of all steps and what the ranks keep back are what the ranks' gradients are together, and the
 * ranks' sums have the same bits. A step that is not wanted changes nothing. */
static rk_status lose_nothing(rk_comm *comm) {
    RK_AUTOFREE trainer *t = NULL;
    RK_AUTOFREE double *sums = NULL;
    rk_status status;
    bool same;
    RK_GOTO(rk_alloc(1, sizeof *t, &t));
    RK_GOTO(rk_alloc(N, sizeof *sums, &sums));
    RK_GOTO(open_trainer(t, comm));
    for (int step = 0; step < N_STEPS; step++) {
        for (int wanted = 0; wanted < 2; wanted++) {
            for (size_t i = 0; i < N; i++)
                t->gradients[i] = wanted ? gradient_of(comm->rank, step, i) : (float)comm->rank;
            RK_GOTO(sum_gradients(comm, t, wanted));
        }
        RK_GOTO(rk_comm_all_equal(comm, t->gradients, sizeof t->gradients, &same));
        EXPECT(same);
        for (size_t i = 0; i < N; i++) sums[i] += t->gradients[i];
        accept(t);
        RK_GOTO(rk_comm_all_equal(comm, t->powersgd.q, t->powersgd.n_q * sizeof(float), &same));
        EXPECT(same);
    }
    memcpy(t->gradients, t->residual.values, sizeof t->gradients);
    RK_GOTO(rk_comm_all_reduce_f32(comm, t->gradients, N));
    for (size_t i = 0; i < N; i++) {
        double all = 0;
        for (int step = 0; step < N_STEPS; step++)
            for (int rank = 0; rank < comm->size; rank++) all += gradient_of(rank, step, i);
        EXPECT(fabs(sums[i] + t->gradients[i] - all) < 1e-6 * N_STEPS * comm->size);
        EXPECT(comm->size > 1 || t->gradients[i] == 0);
    }
done:
    if (t) close_trainer(t);
    return status;
}

/* A matrix of as many vectors as travel is summed as it is; one of zeros keeps no trainer from learning
 * later. */
static rk_status sum_low_ranks(rk_comm *comm) {
    RK_AUTOFREE trainer *t = NULL;
    rk_status status;
    RK_GOTO(rk_alloc(1, sizeof *t, &t));
    RK_GOTO(open_trainer(t, comm));
    for (int step = 0; step < 4; step++) {
        float factor = step % 2 ? 1 : 0, all = 0;
        for (int rank = 0; rank < comm->size; rank++) all += factor * (float)(rank + 1);
        for (size_t i = 0; i < N; i++)
            t->gradients[i] = factor * (float)(comm->rank + 1) * (float)(1 + i % (IN * FIRST) % FIRST % 7);
        RK_GOTO(sum_gradients(comm, t, true));
        for (size_t i = 0; i < IN * FIRST; i++)
            EXPECT(fabsf(t->gradients[i] - all * (float)(1 + i % FIRST % 7)) <= 1e-3f);
        accept(t);
    }
done:
    if (t) close_trainer(t);
    return status;
}

/* What is not finite is found in its matrix, and in no other; the step is not accepted, and the next is well.
 */
static rk_status pass_on_what_is_not_finite(rk_comm *comm) {
    static const float wrong[] = {INFINITY, -INFINITY, NAN};
    RK_AUTOFREE trainer *t = NULL;
    rk_status status;
    RK_GOTO(rk_alloc(1, sizeof *t, &t));
    RK_GOTO(open_trainer(t, comm));
    for (int k = 0; k < 4; k++) {
        for (size_t i = 0; i < N; i++) t->gradients[i] = gradient_of(comm->rank, k, i);
        if (k < 3 && comm->rank == k % comm->size) t->gradients[IN * FIRST / 2] = wrong[k];
        RK_GOTO(sum_gradients(comm, t, true));
        size_t n_wrong = 0;
        for (size_t i = 0; i < N; i++) {
            EXPECT(i < IN * FIRST || isfinite(t->gradients[i]));
            n_wrong += !isfinite(t->gradients[i]);
        }
        EXPECT((n_wrong > 0) == (k < 3));
    }
done:
    if (t) close_trainer(t);
    return status;
}

/* Q goes into a state and back, at any byte; that of another rank is left out. */
static rk_status pass_on_q(rk_comm *comm) {
    RK_AUTOFREE trainer *from = NULL, *to = NULL;
    RK_AUTO(rk_state_dict_release) rk_state_dict state = {0};
    static char bytes[MAX_RANKS][1 + N * sizeof(float)];
    char *values = bytes[comm->rank] + 1;
    rk_status status;
    RK_GOTO(rk_alloc(1, sizeof *from, &from));
    RK_GOTO(rk_alloc(1, sizeof *to, &to));
    RK_GOTO(open_trainer(from, comm));
    RK_GOTO(open_trainer(to, comm));
    for (size_t i = 0; i < N; i++) from->gradients[i] = gradient_of(comm->rank, 0, i);
    RK_GOTO(sum_gradients(comm, from, true));
    accept(from);
    RK_GOTO(rk_powersgd_state_dict(&from->powersgd, &state));
    EXPECT(state.n == (comm->size > 1) && (comm->size == 1 || state.entries[0].shared));
    if (comm->size > 1) {
        size_t n = from->powersgd.n_q;
        memcpy(values, state.entries[0].data, n * sizeof(float));
        rk_powersgd_read(&to->powersgd, n - 1, values);
        EXPECT(to->powersgd.q[0] != from->powersgd.q[0]);
        rk_powersgd_read(&to->powersgd, n, values);
        EXPECT(memcmp(to->powersgd.q, from->powersgd.q, n * sizeof(float)) == 0);
    }
done:
    if (from) close_trainer(from);
    if (to) close_trainer(to);
    return status;
}

static void work_of_rank(thread_rank *t, rk_status (*work)(rk_comm *comm)) {
    rk_comm *comm = NULL;
    keep(t, open_rank(t, 60, &comm));
    if (comm) keep(t, work(comm));
    rk_comm_free(comm);
}

#define TEST(name)                                      \
    static void name##_on_rank(thread_rank *t) {        \
        work_of_rank(t, name);                          \
    }                                                   \
    static void test_##name(void **state) {             \
        (void)state;                                    \
        for (int size = 1; size <= MAX_RANKS; size++) { \
            thread_rank ranks[MAX_RANKS] = {{0}};       \
            run_ranks(size, ranks, name##_on_rank);     \
            assert_all_went_well(size, ranks);          \
        }                                               \
    }
static rk_status compare_several(rk_comm *comm) {
    return comm->size > 1 ? compare_with_definition(comm) : RK_OK; /* one sums nothing */
}
TEST(compare_several)
TEST(lose_nothing)
TEST(sum_low_ranks)
TEST(pass_on_what_is_not_finite)
TEST(pass_on_q)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare_several), cmocka_unit_test(test_lose_nothing),
        cmocka_unit_test(test_sum_low_ranks), cmocka_unit_test(test_pass_on_what_is_not_finite),
        cmocka_unit_test(test_pass_on_q)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
