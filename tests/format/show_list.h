/* The values of an Example's feature as text. */
#ifndef RK_TESTS_FORMAT_SHOW_LIST_H
#define RK_TESTS_FORMAT_SHOW_LIST_H

#include "testing.h"

#include "format/protobuf/tfrecord.h"

/* before and after: each value, but for what comes after a text. */
static inline rk_status show_list(rk_example_kind kind, rk_span list, const char *before, const char *after,
                                  rk_buffer *out) {
    enum { MOST = 100 };
    int64_t whole[MOST];
    float numbers[MOST];
    rk_span texts[MOST];
    size_t n = 0;
    assert_true(rk_example_max_values(kind, list) <= MOST);
    RK_TRY(kind == RK_EXAMPLE_BYTES   ? rk_example_read_bytes(list, texts, &n)
           : kind == RK_EXAMPLE_FLOAT ? rk_example_read_f32(list, numbers, &n)
                                      : rk_example_read_i64(list, whole, &n));
    assert_true(n <= rk_example_max_values(kind, list));
    for (size_t i = 0; i < n; i++) {
        rk_buffer_append_text(out, before);
        if (kind == RK_EXAMPLE_BYTES) rk_buffer_printf(out, "<%.*s>", (int)texts[i].n_bytes, texts[i].data);
        if (kind == RK_EXAMPLE_FLOAT) rk_buffer_printf(out, "%g%s", (double)numbers[i], after);
        if (kind == RK_EXAMPLE_INT64) rk_buffer_printf(out, "%lld%s", (long long)whole[i], after);
    }
    return RK_OK;
}

#endif
