/* A process that may take little more memory is refused a matrix; it does not end in the library that makes
 * it. */
#include "testing.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gemm/gemm.h"

enum { STEP_BYTES = 256 << 10, MOST_STEPS = 64, N = 24, ROWS = 20, REFUSED = 3 };

/* Of the process as it is, in bytes of addresses. */
static size_t address_bytes(void) {
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%llu", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static int try_matrix(size_t more_bytes) {
    static float w[N * N], x[ROWS * N], y[ROWS * N];
    struct rlimit limit = {address_bytes() + more_bytes, RLIM_INFINITY};
    rk_packed_matrix *matrix;
    setrlimit(RLIMIT_AS, &limit);
    rk_status status = rk_packed_matrix_create(N, N, RK_F32, ROWS, &matrix);
    if (status == RK_OK) {
        void *workspace = malloc(rk_packed_matrix_workspace_bytes(matrix) + 1);
        status = workspace ? rk_packed_matrix_set_weights(matrix, w, true) : RK_NO_MEMORY;
        if (status == RK_OK) status = rk_packed_matrix_forward(matrix, ROWS, x, NULL, false, y, workspace);
        free(workspace);
        rk_packed_matrix_free(matrix);
    }
    return status == RK_OK ? 0 : status == RK_NO_MEMORY ? REFUSED : 1;
}

static void test_matrices(void **state) {
    (void)state;
    if (address_bytes() == 0 || address_bytes() > (size_t)1 << 40)
        skip(); /* no /proc, or a sanitizer's addresses */
    int n_refused = 0;
    for (int i = 0; i < MOST_STEPS; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) _exit(try_matrix((size_t)i * STEP_BYTES));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != REFUSED))
            fail_msg("with %d KB: status %d", i * STEP_BYTES >> 10, status);
        n_refused += WEXITSTATUS(status) == REFUSED;
    }
    assert_true(n_refused < MOST_STEPS); /* plain loops are never refused: they take next to nothing */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matrices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
