#include "model/presets/preset_experts.h"

#include <stdio.h>
#include <string.h>

enum { MAX_GROUPS = RK_MAX_TOWERS + 1, NAME_BYTES = 96 };

/* Some equal stacks of layers over each of several values: a level's experts, or the towers. */
typedef struct stacks {
    rk_graph *graph;
    const rk_model_section *section;
    rk_dtype dtype;
    const char *prefix, *name;
    const rk_value *x;     /* [n_groups] */
    const int32_t *counts; /* [n_groups]: stacks over each */
    int32_t n_groups;
    const int64_t *units; /* [n_units]: of each stack's layers */
    int64_t n_units;
} stacks;

static rk_value build_mlp_layers(const stacks *s, const char *name, rk_value x, const int64_t *units,
                                 int64_t n, int64_t first) {
    rk_mlp mlp = {
        .units = units,
        .n = n,
        .first = first,
        .activation = s->section->activation ? s->section->activation : "relu",
        .batch_norm = s->section->batch_norm,
        .dropout = s->section->dropout,
        .dtype = s->dtype,
    };
    return rk_mlp_build(s->graph, name, x, &mlp);
}

static bool are_all_values_equal(const rk_value *x, int32_t n) {
    for (int32_t i = 1; i < n; i++)
        if (x[i] != x[0]) return false;
    return true;
}

/* Columns first .. first+count-1 of x, which may be all of them. */
static rk_value slice_columns(rk_graph *graph, rk_value x, int32_t first, int32_t count) {
    return rk_graph_shape(graph, x).cols == count ? x : rk_slice(graph, x, first, count);
}

/* The first layer of so many stacks over one value: one wide product. */
static rk_value build_first_expert_layers(const stacks *s, const char *name, rk_value x, int32_t n_stacks) {
    int64_t units = n_stacks * s->units[0];
    if (units > RK_MAX_UNITS)
        rk_graph_set_error(
            s->graph, rk_error(RK_CONFIG,
                               "%d %ss of %lld units have %lld units together in their first layer; at most "
                               "%d are supported",
                               n_stacks, s->name, (long long)s->units[0], (long long)units, RK_MAX_UNITS));
    return build_mlp_layers(s, name, x, &units, 1, 0);
}

/* The other layers of `count` stacks, whose first ones stand in `first` from stack number `before` on: their
 * outputs side by side. */
static rk_value build_other_expert_layers(const stacks *s, rk_value first, int32_t before, int32_t count,
                                          int32_t stack) {
    int32_t width = (int32_t)s->units[0];
    rk_value ends[RK_MAX_EXPERTS];
    if (s->n_units == 1) return slice_columns(s->graph, first, before * width, count * width);
    for (int32_t i = 0; i < count; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%s%s_%d", s->prefix, s->name, stack + i);
        ends[i] = build_mlp_layers(s, name, slice_columns(s->graph, first, (before + i) * width, width),
                                   s->units + 1, s->n_units - 1, 1);
    }
    return rk_concat(s->graph, ends, count);
}

/* out[group]: the stacks' outputs side by side. First layers that read the same value are one product, named
 * "<name>s" where that is all of them and "<name>s_<group>" else; a layer of one stack is
 * "<name>_<stack>". */
static void build_expert_stacks(const stacks *s, rk_value *out) {
    bool one = are_all_values_equal(s->x, s->n_groups);
    int32_t total = 0, stack = 0;
    rk_value first = -1;
    char name[NAME_BYTES];
    for (int32_t g = 0; g < s->n_groups; g++) total += s->counts[g];
    snprintf(name, sizeof name, "%s%ss", s->prefix, s->name);
    if (one) first = build_first_expert_layers(s, name, s->x[0], total);
    for (int32_t g = 0; g < s->n_groups; stack += s->counts[g++]) {
        if (s->counts[g] == 0) continue;
        bool single = s->counts[g] == 1;
        snprintf(name, sizeof name, "%s%s%s_%d", s->prefix, s->name, single ? "" : "s", single ? stack : g);
        if (!one) first = build_first_expert_layers(s, name, s->x[g], s->counts[g]);
        out[g] = build_other_expert_layers(s, first, one ? stack : 0, s->counts[g], stack);
    }
}

/* softmax(x W) of so many gates each, without bias; those that read one value are one product. */
static void build_gates(rk_graph *graph, const char *prefix, const rk_value *x, const int32_t *counts,
                        int32_t n_groups, rk_value *out) {
    bool one = are_all_values_equal(x, n_groups);
    int32_t total = 0, before = 0;
    rk_value all = -1;
    char name[NAME_BYTES];
    for (int32_t g = 0; g < n_groups; g++) total += counts[g];
    snprintf(name, sizeof name, "%sgates", prefix);
    if (one) all = rk_linear(graph, name, x[0], total, false, RK_F32);
    for (int32_t g = 0; g < n_groups; before += counts[g++]) {
        snprintf(name, sizeof name, "%sgate_%d", prefix, g);
        out[g] = rk_softmax(graph, one ? slice_columns(graph, all, before, counts[g])
                                       : rk_linear(graph, name, x[g], counts[g], false, RK_F32));
    }
}

void rk_block_ple_level(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs,
                        const rk_ple_level *level, rk_value *x) {
    int32_t n_tasks = inputs->n_tasks, n_gates = n_tasks + !level->is_last,
            width = (int32_t)level->units[level->n_units - 1];
    int32_t counts[MAX_GROUPS], covered[MAX_GROUPS];
    rk_value experts[MAX_GROUPS], gates[MAX_GROUPS];
    for (int32_t k = 0; k < n_tasks; k++) {
        counts[k] = level->n_own;
        covered[k] = level->n_own + level->n_shared;
    }
    counts[n_tasks] = level->n_shared;
    covered[n_tasks] = n_tasks * level->n_own + level->n_shared;
    stacks s = {graph, section, inputs->dtype, level->prefix, "expert",
                x,     counts,  n_tasks + 1,   level->units,  level->n_units};
    build_expert_stacks(&s, experts);
    build_gates(graph, level->prefix, x, covered, n_gates, gates);
    for (int32_t k = 0; k < n_gates; k++) {
        rk_value own = level->n_own == 0 ? -1 : k < n_tasks ? experts[k] : rk_concat(graph, experts, n_tasks);
        rk_value rows = rk_block_concat_two(graph, own, experts[n_tasks]);
        x[k] = rk_batch_matmul(graph, gates[k], rk_reshape(graph, rows, covered[k], width));
    }
}

rk_value rk_block_task_towers(rk_graph *graph, const rk_model_section *section,
                              const rk_preset_inputs *inputs, const rk_value *x) {
    static const int64_t usual[] = {64};
    int32_t counts[MAX_GROUPS];
    rk_value ends[MAX_GROUPS], logits[MAX_GROUPS];
    for (int32_t k = 0; k < inputs->n_tasks; k++) counts[k] = 1;
    bool given = section->towers != NULL;
    stacks s = {graph,
                section,
                inputs->dtype,
                "",
                "tower",
                x,
                counts,
                inputs->n_tasks,
                given ? section->towers : usual,
                given ? section->n_towers : 1};
    if (s.n_units)
        build_expert_stacks(&s, ends);
    else
        memcpy(ends, x, (size_t)inputs->n_tasks * sizeof *ends);
    for (int32_t k = 0; k < inputs->n_tasks; k++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "logits_%d", k);
        logits[k] = rk_linear(graph, name, ends[k], 1, true, RK_F32);
    }
    return rk_concat(graph, logits, inputs->n_tasks);
}

const int64_t *rk_block_expert_units(const rk_model_section *section, int64_t *n) {
    static const int64_t usual[] = {256, 128};
    *n = section->n_expert_units ? section->n_expert_units : 2;
    return section->n_expert_units ? section->expert_units : usual;
}

bool rk_block_repeat_for_tasks(rk_graph *graph, const rk_preset_inputs *inputs, rk_value value,
                               rk_value x[RK_MAX_TOWERS + 1]) {
    if (inputs->n_tasks > RK_MAX_TOWERS) {
        rk_graph_set_error(
            graph, rk_error(RK_CONFIG, "data.labels has %d labels; a multi-task model supports up to %d",
                            inputs->n_tasks, RK_MAX_TOWERS));
        return false;
    }
    for (int32_t k = 0; k <= inputs->n_tasks; k++) x[k] = value;
    return true;
}
