#include "embedding/tiered/async_page_reads.h"

rk_status rk_page_reads_create_uring(size_t n, rk_page_reads **out) {
    (void)n, (void)out;
    return rk_error(RK_UNSUPPORTED, "this build is without liburing");
}
