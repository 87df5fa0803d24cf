/* The contract of the stores of one process. */
#include "embedding/sharded_kind.h"

#include "embedding/local/local_store.h"

static rk_status make_local(const store_kind *kind, rk_store **out) {
    rk_embeddings *e;
    RK_TRY(try_make_usual(NULL, kind->dtype, &e));
    return rk_local_store_create(e, kind->late, out);
}

static rk_status make_local_dynamic(const store_kind *kind, rk_store **out) {
    rk_embeddings *e;
    rk_dynamic_config keyed = keyed_config(kind);
    RK_TRY(try_make_usual_dynamic(NULL, kind->dtype, &keyed, &e));
    return rk_local_store_create(e, kind->late, out);
}

static rk_embeddings *rows; /* that `eval` reads */

static rk_status make_eval(const store_kind *kind, rk_store **out) {
    if (!rows) RK_TRY(try_make_usual(NULL, kind->dtype, &rows));
    return rk_eval_store_create(rows, out);
}

static int free_rows(void **state) {
    (void)state;
    rk_embeddings_free(rows);
    return 0;
}

int main(void) {
    static const store_kind of_process[] = {
        {"local", make_local, RK_BF16, .late = false},
        {"local, dynamic", make_local_dynamic, RK_BF16, .keys = true},
        {"local, dynamic, late", make_local_dynamic, RK_BF16, .keys = true, .oov = true, .late = true},
        {"local, on a disk", make_local_dynamic, RK_BF16, .keys = true, .on_disk = true},
        {"local, on a disk, late", make_local_dynamic, RK_BF16, .keys = true, .oov = true, .on_disk = true,
         .late = true},
        {"local, dynamic, cold rows", make_local_dynamic, RK_BF16, .keys = true, .cold = true},
        {"local, dynamic, cold rows, late", make_local_dynamic, RK_BF16, .keys = true, .cold = true,
         .late = true},
        {"local, cold rows, on a disk", make_local_dynamic, RK_BF16, .keys = true, .cold = true,
         .on_disk = true},
        {"local, cold rows, on a disk, late", make_local_dynamic, RK_BF16, .keys = true, .cold = true,
         .on_disk = true, .late = true},
        {"local, late", make_local, RK_BF16, .late = true},
        SHARDED_KINDS,
        {"eval", make_eval, RK_BF16, .only_reads = true},
        {.name = NULL}};
    if (rk_comm_self(&comm) != RK_OK) return 1;
    return run_store_contract(of_process, NULL, free_rows);
}
