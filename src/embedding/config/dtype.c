#include <reckon/table.h>

const char *rk_dtype_name(rk_dtype dtype) {
    static const char *const names[] = {"f32", "bf16", "f16"};
    return (unsigned)dtype < RK_DTYPE_COUNT ? names[dtype] : "unknown";
}

size_t rk_dtype_bytes(rk_dtype dtype) {
    return dtype == RK_F32 ? 4 : 2;
}

const char *rk_combiner_name(rk_combiner combiner) {
    static const char *const names[] = {"mean", "sum", "sqrtn"};
    return (unsigned)combiner < RK_COMBINER_COUNT ? names[combiner] : "unknown";
}
