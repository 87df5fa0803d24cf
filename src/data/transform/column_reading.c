#include <reckon/experimental/column_reading.h>

#include <string.h>

#include "base/text/find_text.h"
#include "data/transform/transforms_internal.h"

/* A text that a number may be. */
static bool can_be_a_number(const char *text) {
    static const char *const others[] = {"nan", "inf", "-inf"};
    double number;
    return rk_parse_f64((rk_span){text, strlen(text)}, &number) || rk_text_is_one_of(text, others, 3);
}

/* What the section says of texts would say it of numbers, too. */
static bool has_numbers_of_its_own(const rk_data_section *s) {
    bool has = false;
    for (int64_t i = 0; i < s->n_missing; i++) has |= can_be_a_number(s->missing[i]);
    return has;
}

static bool is_label_or_key(const rk_transforms *t, const char *column) {
    bool is = false;
    for (size_t i = 0; i < t->n_labels_names; i++) is |= strcmp(t->names[i], column) == 0;
    for (int64_t j = 0; j < t->section->n_joins; j++) is |= strcmp(t->section->joins[j].key, column) == 0;
    return is;
}

static rk_column_reading find_reading_of_feature(const rk_data_feature *f, bool as_weights) {
    static const char in_numbers[] = "0123456789+-.einfa";
    bool is_own_weight = f->weights && strcmp(f->weights, rk_feature_column(f)) == 0;
    if (is_own_weight || (f->separator && strchr(in_numbers, f->separator[0]))) return RK_READS_TEXTS;
    if (as_weights || (f->dense && !f->log1p && !f->normalize)) return RK_READS_F32;
    return f->dense || f->n_bucketize || f->quantiles ? RK_READS_NUMBERS : RK_READS_INTEGERS;
}

rk_column_reading rk_transforms_column_reading(const rk_transforms *t, const char *column) {
    const rk_data_section *s = t->section;
    rk_column_reading least = RK_READS_F32;
    bool is_read = false;
    if (has_numbers_of_its_own(s) || is_label_or_key(t, column)) return RK_READS_TEXTS;
    for (int64_t i = 0; i < s->n_features; i++) {
        const rk_data_feature *f = &s->features[i];
        bool as_weights = f->weights && strcmp(f->weights, column) == 0;
        if (!as_weights && (f->n_cross || strcmp(rk_feature_column(f), column) != 0)) continue;
        rk_column_reading reading = find_reading_of_feature(f, as_weights);
        if (reading < least) least = reading;
        is_read = true;
    }
    return is_read ? least : RK_READS_TEXTS;
}

bool rk_transforms_is_missing(const rk_transforms *t, const char *text, size_t n_bytes) {
    return rk_span_is_one_of((rk_span){text, n_bytes}, t->section->missing, t->section->n_missing);
}
