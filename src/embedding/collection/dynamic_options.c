#include "embedding/collection/dynamic_options.h"

#include "base/integers.h"
#include "base/struct_size.h"

static rk_status check_fraction(double share, const char *what) {
    RK_FAIL_IF(!(share > 0 && share <= 1), RK_INVALID_ARGUMENT, "%s must be above 0 and at most 1, not %g",
               what, share);
    return RK_OK;
}

static rk_status check_capacity_options(const rk_dynamic_options *o) {
    RK_FAIL_IF(o->max_capacity < 1, RK_INVALID_ARGUMENT, "max_capacity must be 1 or more, not %lld",
               (long long)o->max_capacity);
    RK_FAIL_IF(o->buckets < 0 || o->buckets > o->max_capacity, RK_INVALID_ARGUMENT,
               "buckets (%lld) must be 0 to max_capacity (%lld)", (long long)o->buckets,
               (long long)o->max_capacity);
    RK_FAIL_IF(rk_dynamic_choose_buckets(o->max_capacity, o->buckets) > RK_MOST_BUCKETS, RK_INVALID_ARGUMENT,
               "a table of %lld rows has more than %lld buckets\nhint: give %lld 'buckets' at most",
               (long long)o->max_capacity, (long long)RK_MOST_BUCKETS, (long long)RK_MOST_BUCKETS);
    RK_FAIL_IF(o->keep < 0 || o->keep > o->max_capacity, RK_INVALID_ARGUMENT,
               "keep (%lld) must be 0 to max_capacity (%lld)", (long long)o->keep,
               (long long)o->max_capacity);
    RK_FAIL_IF(o->ttl_steps < 0 || o->ttl_steps > RK_MOST_TTL_STEPS, RK_INVALID_ARGUMENT,
               "ttl_steps must be 0 to %d, not %lld", RK_MOST_TTL_STEPS, (long long)o->ttl_steps);
    RK_FAIL_IF(o->ttl < 0 || o->ttl > RK_MOST_TTL, RK_INVALID_ARGUMENT, "ttl must be 0 to %lld, not %lld",
               RK_MOST_TTL, (long long)o->ttl);
    RK_FAIL_IF(o->cold_rows < 0 || o->cold_rows > RK_MOST_COLD_ROWS, RK_INVALID_ARGUMENT,
               "cold_rows must be 0 to %lld, not %lld", RK_MOST_COLD_ROWS, (long long)o->cold_rows);
    RK_FAIL_IF(o->cold_rows && o->oov, RK_INVALID_ARGUMENT,
               "keys without a row share one row (oov), or several (cold_rows), not both");
    RK_FAIL_IF((unsigned)o->eviction > RK_EVICTION_NONE, RK_INVALID_ARGUMENT, "invalid eviction policy %d",
               (int)o->eviction);
    return check_fraction(o->evict_to, "evict_to");
}

static rk_status check_admission_options(const rk_dynamic_options *o) {
    RK_FAIL_IF((unsigned)o->counter > RK_COUNTER_BLOOM, RK_INVALID_ARGUMENT, "invalid counter of keys %d",
               (int)o->counter);
    RK_FAIL_IF(o->min_count < 1 || o->min_count > rk_counter_max_min_count(o->counter), RK_INVALID_ARGUMENT,
               "min_count must be 1 to %lld with the counter %s, not %lld",
               (long long)rk_counter_max_min_count(o->counter), rk_counter_name(o->counter),
               (long long)o->min_count);
    RK_FAIL_IF(o->min_count == 1 && o->counter != RK_COUNTER_EXACT, RK_INVALID_ARGUMENT,
               "with a min_count of 1 nothing is counted: the counter %s has no use\n"
               "hint: give a larger min_count, or leave the counter out",
               rk_counter_name(o->counter));
    return check_fraction(o->probability, "probability");
}

static rk_status check_dynamic_table(const rk_table_config *table) {
    RK_FAIL_IF(table->n_rows, RK_INVALID_ARGUMENT,
               "n_rows must be 0 of a dynamic table, not %lld\nhint: its rows are max_capacity at most",
               (long long)table->n_rows);
    RK_FAIL_IF(table->frozen, RK_INVALID_ARGUMENT,
               "a dynamic table gets its rows in training, and cannot be frozen");
    return RK_OK;
}

static rk_dynamic_config make_dynamic_config(const rk_dynamic_options *o) {
    int64_t buckets = rk_dynamic_choose_buckets(o->max_capacity, o->buckets);
    return (rk_dynamic_config){.max_capacity = o->max_capacity,
                               .n_buckets = buckets,
                               .policy = o->eviction,
                               .evict_to = o->evict_to,
                               .ttl_steps = o->ttl_steps,
                               .ttl = o->ttl,
                               .keep = o->keep,
                               .min_count = o->min_count,
                               .probability = o->probability,
                               .counter = o->counter,
                               .oov = o->oov,
                               .n_cold = (int64_t)rk_round_up((size_t)o->cold_rows, (size_t)buckets)};
}

rk_status rk_dynamic_options_copy_in(const rk_table_config *table, rk_dynamic_config *out) {
    rk_dynamic_options o = RK_DYNAMIC_OPTIONS_INIT;
    RK_TRY(rk_options_copy_in(&o, sizeof o, table->dynamic, RK_SIZE_WITH(rk_dynamic_options, oov),
                              "rk_dynamic_options"));
    rk_status status = check_dynamic_table(table);
    if (status == RK_OK) status = check_capacity_options(&o);
    if (status == RK_OK) status = check_admission_options(&o);
    if (status != RK_OK) return rk_error_context(status, "table '%s'", table->name ? table->name : "");
    *out = make_dynamic_config(&o);
    return RK_OK;
}
