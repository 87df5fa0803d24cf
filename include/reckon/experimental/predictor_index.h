/* An index (reckon/experimental/index.h) of the items of a trained two_tower. docs/index.md.
 * Experimental: it may change in any release (docs/api.md). */
#ifndef RECKON_EXPERIMENTAL_PREDICTOR_INDEX_H
#define RECKON_EXPERIMENTAL_PREDICTOR_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/experimental/index.h>
#include <reckon/predictor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_predictor_index_options {
    size_t struct_size;
    const rk_index_options *index; /* NULL: its defaults. Its pool is the predictor's where it is NULL */
    double recall;                 /* that is wanted, 0 to 1; 0: 0.95 */
    int32_t k;                     /* of the k best; 0: 100 */
    const char *users; /* whose vectors it is tuned and measured on, the first 2,000: "train" (NULL), "valid",
                          "test", or a file as rk_recommend_options.users */
    const char
        *items;      /* a file of items, one a line: no others are in it. NULL: those of the training data */
    bool with_known; /* items that a user is known to have are among the best that it is to find */
} rk_predictor_index_options;
#define RK_PREDICTOR_INDEX_OPTIONS_INIT \
    { sizeof(rk_predictor_index_options), 0, 0, 0, 0, 0, false }

/* Of a two_tower: an index of its items' vectors; ids are those of the item's feature. Tuned by rk_index_tune
 * on users of the run; result may be NULL. options may be NULL. Over ranks all make the call, and each gets
 * the index. Errors: RK_UNSUPPORTED (another kind of model), those of rk_predictor_recommend and of
 * rk_index_build. */
RK_API rk_status rk_predictor_build_index(rk_predictor *predictor, const rk_predictor_index_options *options,
                                          rk_index **out, rk_index_recall *result);

#ifdef __cplusplus
}
#endif
#endif
