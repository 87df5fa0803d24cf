/* How texts of a column are read: which of its values need not be texts to give the same bits as those of a
 * CSV file, and which texts are no value. For who collects rows that come as texts and numbers.
 * Experimental: it may change in any release (docs/api.md). */
#ifndef RECKON_EXPERIMENTAL_COLUMN_READING_H
#define RECKON_EXPERIMENTAL_COLUMN_READING_H

#include <reckon/transforms.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rk_session;

/* As far as all that reads the column goes; others have to be texts. */
typedef enum rk_column_reading {
    RK_READS_TEXTS,    /* all have to be */
    RK_READS_INTEGERS, /* i64: whole numbers of at most 18 digits in their shortest form */
    RK_READS_NUMBERS,  /* f64: any numbers, as their texts are read */
    RK_READS_F32       /* f64, of which the nearest f32 is looked at */
} rk_column_reading;

/* Of a column that is looked at without labels; one that nothing reads: RK_READS_TEXTS. */
RK_API rk_column_reading rk_transforms_column_reading(const rk_transforms *transforms, const char *column);
RK_API rk_column_reading rk_session_column_reading(const struct rk_session *session, const char *column);

/* Whether the text is one of `data.missing`, which are no values. */
RK_API bool rk_transforms_is_missing(const rk_transforms *transforms, const char *text, size_t n_bytes);
RK_API bool rk_session_is_missing(const struct rk_session *session, const char *text, size_t n_bytes);

#ifdef __cplusplus
}
#endif

#endif
