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
    RK_TRY(try_make_usual_dynamic(NULL, kind->dtype, &keyed, &e));
    return rk_local_store_create(e, kind->late, out);
}

int main(void) {
    static const store_kind of_process[] = {
        {"local", make_local, RK_BF16, .late = false},
        {"local, dynamic", make_local_dynamic, RK_BF16, .keys = true},
        {"local, late", make_local, RK_BF16, .late = true},
        {"sharded", make_sharded, RK_BF16, .of_ranks = true},
        {"sharded, late", make_sharded, RK_BF16, .of_ranks = true, .late = true},
        {.name = NULL}};
    if (rk_comm_self(&comm) != RK_OK) return 1;
    return run_store_contract(of_process, NULL, NULL);
}
