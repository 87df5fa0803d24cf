/* A model's parameters, as others see them. */
#include "base/memory.h"
#include "embedding/local/collection.h"
#include "model/model_internal.h"

static const rk_parameter_kind kinds[] = {
    [RK_STATE_ROWS] = RK_PARAMETER_TABLE,
    [RK_STATE_ROWS_READ] = RK_PARAMETER_TABLE,
    [RK_STATE_DENSE] = RK_PARAMETER_DENSE,
    [RK_STATE_STATISTIC] = RK_PARAMETER_STATISTIC,
};

static rk_status describe_parameter(const rk_state_dict_entry *entry, rk_model_parameter *out) {
    out->name = entry->name;
    out->kind = kinds[entry->kind];
    RK_TRY(rk_tensor_init(&out->tensor, entry->data, entry->type, entry->n_dims, entry->dims));
    out->tensor.read_only = true;
    return RK_OK;
}

/* Their rows are in the order in which keys came, and elsewhere when the table grows. */
static rk_status refuse_dynamic_tables(const rk_model *model) {
    int32_t n_tables = rk_embeddings_n_tables(model->embeddings);
    for (int32_t t = 0; t < n_tables; t++) {
        const char *name = rk_embeddings_table(model->embeddings, t)->name;
        RK_FAIL_IF(rk_embeddings_dynamic(model->embeddings, t), RK_UNSUPPORTED,
                   "table '%s' is dynamic: its rows move in memory as keys come and go\n"
                   "hint: read 'table/%s/keys' and 'table/%s/rows' of a checkpoint (docs/dynamic_tables.md)",
                   name, name, name);
    }
    return RK_OK;
}

rk_status rk_model_parameters(rk_model *model, const rk_model_parameter **parameters, int32_t *n) {
    RK_FAIL_IF(model->is_outline, RK_INVALID_ARGUMENT,
               "an outline of a model has no parameters\n"
               "hint: rk_model_create makes the model itself");
    RK_TRY(refuse_dynamic_tables(model));
    rk_state_dict state = {.n = 0};
    rk_model_parameter *list = NULL;
    int32_t n_shown = 0;
    rk_status status;
    RK_GOTO(rk_model_state_dict(model, &state));
    RK_GOTO(rk_alloc(state.n, sizeof *list, &list));
    for (size_t i = 0; i < state.n; i++)
        if (state.entries[i].kind != RK_STATE_OTHER)
            RK_GOTO(describe_parameter(&state.entries[i], &list[n_shown++]));
    rk_state_dict_release(&model->parameter_state);
    rk_free(model->parameters);
    model->parameter_state = state;
    model->parameters = list;
    *parameters = list;
    *n = n_shown;
    return RK_OK;
done:
    rk_state_dict_release(&state);
    rk_free(list);
    return status;
}
