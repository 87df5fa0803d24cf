/* The labels that a model learns: what each is, and the nodes of their logits. Their losses:
 * step/task_losses.c. */
#include <stdio.h>

#include "base/memory.h"
#include "base/text/find_text.h"
#include "model/model_internal.h"

static rk_status init_task_from_label(const rk_data_schema *schema, const rk_label_section *label,
                                      rk_model_task *task) {
    task->loss = label->loss ? RK_LOSS_MSE : RK_LOSS_SIGMOID_CROSS_ENTROPY;
    task->weight = label->weight;
    task->weight_decay_rate = label->weight_decay_rate;
    task->smoothing = label->smoothing;
    task->optional = label->optional;
    task->is_product = label->n_product_of > 0;
    for (int64_t i = 0; i < label->n_product_of && i < 2; i++) {
        task->factors[i] =
            (int32_t)RK_POSITION_BY(name, label->product_of[i], schema->tasks, schema->n_tasks);
        RK_FAIL_IF(task->factors[i] < 0, RK_CONFIG, "label '%s': product_of names '%s', which is not a label",
                   label->name, label->product_of[i]);
    }
    return rk_strdup(label->name, &task->name);
}

rk_status rk_model_tasks_init(rk_model *model, const rk_data_schema *schema) {
    bool pairs = rk_model_is_two_tower(model);
    size_t n = pairs ? 1 : (size_t)schema->n_tasks;
    RK_TRY(rk_alloc(n, sizeof *model->tasks, &model->tasks));
    model->n_tasks = (int32_t)n;
    if (pairs) { /* their one prediction */
        model->tasks[0] = (rk_model_task){.loss = RK_LOSS_MSE, .weight = 1};
        return rk_strdup("score", &model->tasks[0].name);
    }
    for (int32_t t = 0; t < schema->n_tasks; t++)
        RK_TRY(init_task_from_label(schema, &schema->tasks[t], &model->tasks[t]));
    return RK_OK;
}

int32_t rk_model_n_logits(const rk_model *model) {
    int32_t n = 0;
    for (int32_t t = 0; t < model->n_tasks; t++) n += !model->tasks[t].is_product;
    return n;
}

/* The node of a task's logit. */
static rk_value add_logit_node(const rk_model *model, const rk_model_task *task, const char *op,
                               const rk_op_options *options, const rk_value *inputs, int32_t n_inputs) {
    char name[512];
    snprintf(name, sizeof name, "task:%s", task->name);
    return rk_graph_add_op(model->graph, op, name, options, inputs, n_inputs);
}

/* Each task's column of the logits, which have none for products, and then the products'. */
static void add_logit_columns(const rk_model *model, rk_value *columns) {
    int32_t column = 0;
    for (int32_t t = 0; t < model->n_tasks; t++)
        if (!model->tasks[t].is_product)
            columns[t] = add_logit_node(model, &model->tasks[t], "slice",
                                        &(rk_op_options){.first = column++, .count = 1}, &model->logits, 1);
    for (int32_t t = 0; t < model->n_tasks; t++) {
        const rk_model_task *task = &model->tasks[t];
        rk_value factors[] = {columns[task->factors[0]], columns[task->factors[1]]};
        if (task->is_product) columns[t] = add_logit_node(model, task, "product_logit", NULL, factors, 2);
    }
}

rk_status rk_model_concat_task_logits(rk_model *model, bool learns_weights) {
    if (rk_model_n_logits(model) < model->n_tasks) {
        RK_AUTOFREE rk_value *columns = NULL;
        RK_TRY(rk_alloc((size_t)model->n_tasks, sizeof *columns, &columns));
        add_logit_columns(model, columns);
        model->logits =
            rk_graph_add_op(model->graph, "concat", "tasks:logits", NULL, columns, model->n_tasks);
    }
    rk_graph_mark_output(model->graph, model->logits);
    model->log_variances =
        learns_weights ? rk_constant(model->graph, RK_LOG_VARIANCES_NAME, model->n_tasks) : -1;
    if (learns_weights) rk_graph_mark_output(model->graph, model->log_variances);
    return RK_OK;
}
