/* The same bits at any number of threads and on every instruction set. */
#include "embedding_fixture.h"

#include "base/thread/instruction_set.h"
#include "base/hash.h"
#include "base/thread/parallel.h"

static drawn batch;

/* A hash over everything that a few steps of every optimizer and dtype write: activations, rows, slots,
 * steps. */
static uint64_t digest(void) {
    uint64_t hash = 0;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++)
        for (int dtype = 0; dtype < RK_ROW_DTYPE_COUNT; dtype++) {
            rk_optimizer o;
            OK(rk_optimizer_init(&o, (rk_optimizer_kind)kind));
            o.weight_decay = 0.01;
            rk_embeddings *e = make_usual(&o, (rk_dtype)dtype);
            OK(rk_embeddings_set_l2(e, "user", 0.01, 0));
            OK(rk_embeddings_set_l2(e, "item", 0, 0.02));
            train_steps(e, &batch, 0, 2, 300);
            draw(&batch, 99, 260);
            OK(look_up_eval(e, batch.n, batch.ids, batch.activations));
            for (int f = 0; f < N_FEATURES; f++)
                for (int64_t s = 0; s < batch.n; s++)
                    hash = rk_hash_bytes(batch.out[f] + s * batch.activations[f].stride,
                                         (size_t)width_of(f) * sizeof(float), hash);
            size_t n_bytes;
            char *copy = copy_state(e, &n_bytes);
            hash = rk_hash_bytes(copy, n_bytes, hash);
            rk_free(copy);
            rk_embeddings_free(e);
        }
    return hash;
}

static void test_any_thread_count(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 8};
    uint64_t first = 0;
    for (int i = 0; i < 4; i++) {
        OK(rk_parallel_set_threads(counts[i]));
        uint64_t hash = digest();
        if (i == 0) first = hash;
        assert_true(hash == first);
    }
}

/* The choice of instruction set is made once a process, so each is asked of a process of its own: this
 * program, again. */
static void test_any_instruction_set(void **state) {
    const char *self = *state;
    uint64_t first = 0;
    for (int isa = 0; isa < RK_ISA_COUNT; isa++) {
        if (!rk_cpu_has_isa((rk_isa)isa)) continue;
        char command[4096], line[64] = "";
        snprintf(command, sizeof command, "RK_ISA=%s '%s' digest", rk_isa_name((rk_isa)isa), self);
        FILE *pipe = popen(command, "r");
        assert_non_null(pipe);
        assert_non_null(fgets(line, sizeof line, pipe));
        assert_int_equal(pclose(pipe), 0);
        uint64_t hash = strtoull(line, NULL, 16);
        if (isa == 0) first = hash;
        if (hash != first) fail_msg("%s gives other bits than scalar", rk_isa_name((rk_isa)isa));
    }
}

int main(int argc, char **argv) {
    if (argc > 1) {
        printf("%llx\n", (unsigned long long)digest());
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_thread_count),
        cmocka_unit_test_prestate(test_any_instruction_set, argv[0]),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
