/* A model's parameters, as others see them. */
#include <string.h>

#include "base/integers.h"
#include "base/memory.h"
#include "model/model_internal.h"

static const rk_parameter_kind kinds[] = {
    [RK_STATE_ROWS] = RK_PARAMETER_TABLE,          [RK_STATE_ROWS_READ] = RK_PARAMETER_TABLE,
    [RK_STATE_KEYS] = RK_PARAMETER_KEYS,           [RK_STATE_DENSE] = RK_PARAMETER_DENSE,
    [RK_STATE_STATISTIC] = RK_PARAMETER_STATISTIC,
};

static rk_status describe_parameter(const rk_state_dict_entry *entry, void *data, rk_model_parameter *out) {
    out->name = entry->name;
    out->kind = kinds[entry->kind];
    RK_TRY(rk_tensor_init(&out->tensor, data, entry->type, entry->n_dims, entry->dims));
    out->tensor.read_only = true;
    return RK_OK;
}

/* What stands in another order or wider apart than it is to be shown, or where the next step may take it
 * away. */
static bool needs_copy(const rk_model *model, const rk_state_dict_entry *entry) {
    return entry->kind != RK_STATE_OTHER &&
           (entry->order || entry->stride || (entry->moves && model->optimizer));
}

/* The next copy begins behind them. */
static size_t aligned_copy_bytes(const rk_state_dict_entry *entry) {
    return rk_round_up((size_t)rk_state_dict_entry_bytes(entry), sizeof(int64_t));
}

static rk_status allocate_copies(const rk_model *model, const rk_state_dict *state, char **out) {
    size_t bytes = 0;
    for (size_t i = 0; i < state->n; i++)
        if (needs_copy(model, &state->entries[i])) bytes += aligned_copy_bytes(&state->entries[i]);
    return rk_alloc(bytes, 1, out);
}

/* known: the copies have been made. */
static rk_status describe_parameters(const rk_model *model, const rk_state_dict *state, bool known,
                                     char *copies, rk_model_parameter *list, int32_t *n) {
    *n = 0;
    for (size_t i = 0; i < state->n; i++) {
        const rk_state_dict_entry *entry = &state->entries[i];
        if (entry->kind == RK_STATE_OTHER) continue;
        void *data = entry->data;
        if (needs_copy(model, entry)) {
            if (!known) rk_state_dict_copy_rows(entry, 0, entry->dims[0], copies);
            data = copies;
            copies += aligned_copy_bytes(entry);
        }
        RK_TRY(describe_parameter(entry, data, &list[(*n)++]));
    }
    return RK_OK;
}

rk_status rk_model_parameters(rk_model *model, const rk_model_parameter **parameters, int32_t *n) {
    RK_FAIL_IF(model->is_outline, RK_INVALID_ARGUMENT,
               "an outline of a model has no parameters\n"
               "hint: rk_model_create makes the model itself");
    rk_state_dict state = {.n = 0};
    rk_model_parameter *list = NULL;
    char *copies = NULL;
    bool known =
        !model->optimizer && model->parameter_copies; /* a model that does not train stays as it is */
    int32_t n_shown;
    rk_status status;
    RK_GOTO(rk_model_number_keys_over_ranks(model));
    RK_GOTO(rk_model_state_dict(model, &state));
    RK_GOTO(rk_alloc(state.n, sizeof *list, &list));
    if (!known) RK_GOTO(allocate_copies(model, &state, &copies));
    RK_GOTO(
        describe_parameters(model, &state, known, known ? model->parameter_copies : copies, list, &n_shown));
    rk_state_dict_release(&model->parameter_state);
    rk_free(model->parameters);
    model->parameter_state = state;
    model->parameters = list;
    if (!known) {
        rk_free(model->parameter_copies);
        model->parameter_copies = copies;
    }
    *parameters = list;
    *n = n_shown;
    return RK_OK;
done:
    rk_state_dict_release(&state);
    RK_FREE_ALL(list, copies);
    return status;
}
