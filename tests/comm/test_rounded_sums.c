/* Sums that travel as int8 with error feedback, with threads as ranks: by their definition, to the bit, and
 * that nothing is lost of what the ranks add up. */
#include <math.h>

#include "testing.h"

#include "base/memory.h"
#include "comm/comm.h"
#include "comm/int8_pieces.h"
#include "comm/progress_thread.h"
#include "thread_ranks.h"

enum { N_STEPS = 12, BLOCK = 256 };

static const size_t sizes[] = {1, 1024, 1025, 3 * 4 * BLOCK, 20011};

/* Blocks of very different sizes, some of which are 0. */
static float value_of(int rank, int step, size_t i) {
    size_t block = i / 100;
    if (block % 11 == 3) return 0;
    return sinf((float)i * 1.7f + (float)rank * 3.1f + (float)step) * expf((float)(block % 9) * 3 - 12);
}

/* Rounds values [n], whose first is at a block's begin, in place, by the definition; what that leaves is
 * added to left [n], which had what was left before. */
static void round_by_definition(float *values, float *left, size_t n) {
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t end = at + BLOCK < n ? at + BLOCK : n;
        float greatest = 0;
        for (size_t i = at; i < end; i++) {
            values[i] += left[i];
            greatest = fmaxf(greatest, fabsf(values[i]));
        }
        float scale = greatest < ldexpf(1, -110) ? 0 : greatest / 127;
        for (size_t i = at; i < end; i++) {
            int code = scale == 0 ? 0 : (int)rintf(values[i] * (127 / greatest));
            float sent = (float)code * scale;
            left[i] = values[i] - sent;
            values[i] = sent;
        }
    }
}

/* All ranks, computed by one: left [size, n], their residuals; out [n]. */
static void sum_by_definition(int size, int step, size_t n, float *left, float *parts, float *out) {
    for (int owner = 0; owner < size; owner++) {
        size_t most = n % (size_t)size, o = (size_t)owner,
               first = n / (size_t)size * o + (most < o ? most : o),
               end = first + n / (size_t)size + (o < most);
        for (int r = 0; r < size; r++) {
            float *part = parts + (size_t)r * n;
            for (size_t i = first; i < end; i++) part[i] = value_of(r, step, i);
            if (r != owner) round_by_definition(part + first, left + (size_t)r * n + first, end - first);
        }
        for (int half = 1; half < size; half *= 2)
            for (int r = 0; r + half < size; r += 2 * half)
                for (size_t i = first; i < end; i++)
                    parts[(size_t)r * n + i] += parts[(size_t)(r + half) * n + i];
        memcpy(out + first, parts + first, (end - first) * sizeof *out);
        round_by_definition(out + first, left + (size_t)owner * n + first, end - first);
    }
}

/* What a rank has of a sum, step after step. */
typedef struct rounded {
    float *values, *residual, *next;
    size_t n;
} rounded;

static rk_status open_rounded(size_t n, rounded *out) {
    out->n = n;
    RK_TRY(rk_alloc(n, sizeof *out->values, &out->values));
    RK_TRY(rk_alloc(n, sizeof *out->residual, &out->residual));
    return rk_alloc(n, sizeof *out->next, &out->next);
}

static void close_rounded(rounded *r) {
    RK_FREE_ALL(r->values, r->residual, r->next);
}

/* Of values that are there. */
static rk_status sum_values(rk_comm *comm, rounded *r) {
    rk_sum_rounding rounding = {RK_SUM_INT8, r->residual, r->next};
    rk_all_reduce *sum;
    RK_TRY(rk_all_reduce_begin_rounded(comm, RK_CHANNEL_DENSE, &rounding, r->values, r->n, &sum));
    rk_status status = rk_all_reduce_wait(sum);
    rk_all_reduce_free(sum);
    float *residual = r->residual;
    r->residual = r->next;
    r->next = residual;
    return status;
}

static rk_status sum_by_int8(rk_comm *comm, int step, rounded *r) {
    for (size_t i = 0; i < r->n; i++) r->values[i] = value_of(comm->rank, step, i);
    return sum_values(comm, r);
}

static rk_status compare_with_definition(rk_comm *comm, size_t n) {
    size_t size = (size_t)comm->size;
    RK_AUTOFREE float *left = NULL, *parts = NULL, *expected = NULL;
    rounded r = {0};
    rk_status status;
    RK_GOTO(rk_alloc(size * n, sizeof *left, &left));
    RK_GOTO(rk_alloc(size * n, sizeof *parts, &parts));
    RK_GOTO(rk_alloc(n, sizeof *expected, &expected));
    RK_GOTO(open_rounded(n, &r));
    for (int step = 0; step < N_STEPS; step++) {
        sum_by_definition(comm->size, step, n, left, parts, expected);
        RK_GOTO(sum_by_int8(comm, step, &r));
        EXPECT(memcmp(r.values, expected, n * sizeof *expected) == 0);
        EXPECT(memcmp(r.residual, left + (size_t)comm->rank * n, n * sizeof *left) == 0);
    }
done:
    close_rounded(&r);
    return status;
}

/* In f64: the sums of all steps and what the ranks keep back are what the ranks' values are together; so is
 * one step's sum, within half a code of each rank and of the sum. */
static rk_status lose_nothing(rk_comm *comm, size_t n) {
    RK_AUTOFREE double *sums = NULL;
    RK_AUTOFREE float *left = NULL;
    rounded r = {0};
    rk_status status;
    RK_GOTO(rk_alloc(n, sizeof *sums, &sums));
    RK_GOTO(rk_alloc(n, sizeof *left, &left));
    RK_GOTO(open_rounded(n, &r));
    for (int step = 0; step < N_STEPS; step++) {
        RK_GOTO(sum_by_int8(comm, step, &r));
        for (size_t i = 0; i < n; i++) sums[i] += r.values[i];
    }
    memcpy(left, r.residual, n * sizeof *left);
    RK_GOTO(rk_comm_all_reduce_f32(comm, left, n));
    for (size_t i = 0; i < n; i++) {
        double all = 0, magnitudes = 1e-30;
        for (int step = 0; step < N_STEPS; step++)
            for (int rank = 0; rank < comm->size; rank++) {
                all += value_of(rank, step, i);
                magnitudes += expf((float)(i / 100 % 9) * 3 - 12);
            }
        EXPECT(fabs(sums[i] + left[i] - all) < 1e-4 * magnitudes + 1e-6);
    }
done:
    close_rounded(&r);
    return status;
}

/* What is not finite is NaN in its place on all ranks, and nowhere else. */
static rk_status pass_on_what_is_not_finite(rk_comm *comm, size_t n) {
    static const float wrong[] = {INFINITY, -INFINITY, NAN};
    rounded r = {0};
    rk_status status;
    size_t place = n / 2;
    RK_GOTO(open_rounded(n, &r));
    for (int k = 0; k < 3; k++) {
        for (size_t i = 0; i < n; i++) r.values[i] = value_of(comm->rank, 0, i), r.residual[i] = 0;
        if (comm->rank == k % comm->size) r.values[place] = wrong[k];
        RK_GOTO(sum_values(comm, &r));
        for (size_t i = 0; i < n; i++) EXPECT((i == place) == !isfinite(r.values[i]));
    }
done:
    close_rounded(&r);
    return status;
}

static rk_status add_up(rk_comm *comm) {
    for (size_t i = 2; i < sizeof sizes / sizeof *sizes && comm->size > 1; i++)
        RK_TRY(compare_with_definition(comm, sizes[i]));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        RK_TRY(lose_nothing(comm, sizes[i]));
        RK_TRY(pass_on_what_is_not_finite(comm, sizes[i]));
    }
    return RK_OK;
}

static void sums(thread_rank *t) {
    rk_comm *comm = NULL;
    keep(t, open_rank(t, 60, &comm));
    if (comm) keep(t, add_up(comm));
    rk_comm_free(comm);
}

static void test_sums(void **state) {
    (void)state;
    for (int size = 1; size <= MAX_RANKS; size++) {
        thread_rank ranks[MAX_RANKS] = {{0}};
        run_ranks(size, ranks, sums);
        assert_all_went_well(size, ranks);
    }
}

/* A quarter of f32, and little more. */
static void test_bytes(void **state) {
    (void)state;
    assert_int_equal(rk_sum_wire_bytes(RK_SUM_F32, 1000), 4000);
    assert_int_equal(rk_sum_wire_bytes(RK_SUM_BF16, 1000), 2000);
    assert_int_equal(rk_sum_wire_bytes(RK_SUM_INT8, 1000), 1000 + 4 * 4);
    assert_int_equal(rk_sum_wire_bytes(RK_SUM_INT8, 256), 256 + 4);
    assert_int_equal(rk_sum_wire_bytes(RK_SUM_INT8, 0), 0);
}

/* Magnitudes up to the largest come out finite, and within half a code; small ones stay in the residual. */
static void test_range(void **state) {
    (void)state;
    static const float greatest[] = {0x1.fffffep127f, 1, 0x1p-109f, 0x1p-111f, 0x1p-149f, 0};
    float values[BLOCK], zeros[BLOCK] = {0}, next[BLOCK], out[BLOCK];
    float piece[1 + BLOCK / sizeof(float)];
    for (size_t k = 0; k < sizeof greatest / sizeof *greatest; k++) {
        for (int i = 0; i < BLOCK; i++) values[i] = greatest[k] * (((float)i - 127.5f) / 127.5f);
        rk_int8_encode(values, zeros, BLOCK, 0, BLOCK, piece, next);
        rk_int8_decode(piece, BLOCK, 0, BLOCK, out);
        for (int i = 0; i < BLOCK; i++) {
            assert_true(isfinite(out[i]) && out[i] + next[i] - values[i] == 0);
            if (greatest[k] >= 0x1p-110f)
                assert_true(fabsf(next[i]) <= greatest[k] / 253);
            else
                assert_true(out[i] == 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_range)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
