/* What a model is and how much of it there is. */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/text/text.h"
#include "batch/ids.h"
#include "model/retrieval/retrieval.h"
#include "embedding/local/collection.h"
#include "embedding/planner/table_traffic.h"

/* The value's text in a buffer that lives to the end of the caller's statement. */
typedef struct short_text {
    char text[32];
} short_text;

static short_text format_bytes(uint64_t bytes) {
    short_text out;
    rk_format_bytes((double)bytes, out.text, sizeof out.text);
    return out;
}

static short_text format_count(uint64_t count) {
    short_text out;
    rk_format_count((double)count, out.text, sizeof out.text);
    return out;
}

/* That a table has, or, a dynamic one, may have, with cold ones. */
static int64_t max_rows_of_table(const rk_model *model, int32_t t) {
    const rk_dynamic_config *dynamic = rk_embeddings_dynamic_config(model->embeddings, t);
    return dynamic ? dynamic->max_capacity + dynamic->n_cold
                   : rk_embeddings_table_config(model->embeddings, t)->n_rows;
}

static uint64_t max_values_of_table(const rk_model *model, int32_t t) {
    return (uint64_t)max_rows_of_table(model, t) *
           (uint64_t)rk_embeddings_table_config(model->embeddings, t)->dim;
}

rk_model_bytes rk_model_count_bytes(const rk_model *model) {
    rk_model_bytes bytes = {.arena = rk_graph_memory_bytes(model->graph, rk_parallel_threads())};
    for (int i = 0; i < 4; i++) bytes.arena += model->memory[i].n_bytes;
    bytes.arena += model->loss->bytes(model);
    for (int32_t t = 0; t < rk_embeddings_n_tables(model->embeddings); t++) {
        const rk_table_config *table = rk_embeddings_table_config(model->embeddings, t);
        uint64_t rows = max_values_of_table(model, t) * rk_dtype_bytes(table->dtype),
                 all = rk_embeddings_table_bytes(model->embeddings, t);
        if (all < rows) rows = all; /* codes */
        bytes.tables += rows;
        bytes.slots += all - rows;
    }
    for (int32_t i = 0; i < rk_graph_n_parameters(model->graph); i++) {
        const rk_parameter *parameter = rk_graph_parameter(model->graph, i);
        uint64_t copies = !parameter->is_bias
                              ? model->optimizer ? 3 : 2
                              : 1; /* weights are also packed for the products that they take part in */
        bytes.dense += copies * (uint64_t)(parameter->rows * parameter->cols) * sizeof *parameter->value;
    }
    if (model->optimizer) bytes.dense += rk_dense_optimizer_bytes(model->optimizer);
    return bytes;
}

rk_model_work rk_model_estimate_work(const rk_model *model, int64_t n) {
    rk_memory_traffic rows = rk_embeddings_memory_traffic(model->embeddings);
    rk_model_work work = {.flops = rk_graph_flops(model->graph, true) * (double)n,
                          .lookup_bytes = rows.lookup_bytes,
                          .update_bytes = rows.update_bytes,
                          .n_ids = rows.n_ids,
                          .n_rows = rows.n_rows,
                          .table_bytes = rk_embeddings_bytes(model->embeddings)};
    rk_graph_largest_layer(model->graph, &work.layer_in, &work.layer_out);
    uint64_t most = 0;
    for (int32_t t = 0; t < rk_embeddings_n_tables(model->embeddings); t++) {
        uint64_t bytes = rk_embeddings_table_bytes(model->embeddings, t);
        if (bytes <= most) continue;
        most = bytes;
        work.row_dim = rk_embeddings_table_config(model->embeddings, t)->dim;
    }
    return work;
}

static void describe_tasks(const rk_model *model, rk_buffer *out) {
    rk_buffer_printf(out, "model %s: %d categorical features, %d dense numbers\n\ntasks\n",
                     rk_model_kind_name(model), model->n_features, model->n_dense);
    for (int32_t t = 0; t < model->n_tasks; t++)
        rk_buffer_printf(out, "  %s: %s, weight %g\n", model->tasks[t].name, model->loss->name(model, t),
                         model->tasks[t].weight);
}

static uint64_t describe_tables(const rk_model *model, rk_buffer *out) {
    uint64_t values = 0, rows = 0;
    int32_t n = rk_embeddings_n_tables(model->embeddings);
    int width = 5;
    for (int32_t t = 0; t < n; t++) {
        int length = (int)strlen(rk_embeddings_table_config(model->embeddings, t)->name);
        if (length > width) width = length;
    }
    if (n)
        rk_buffer_printf(out, "\ntables\n  %-*s %12s %5s  %-5s %-16s %12s\n", width, "name", "rows", "dim",
                         "dtype", "optimizer", "bytes");
    for (int32_t t = 0; t < n; t++) {
        const rk_table_config *table = rk_embeddings_table_config(model->embeddings, t);
        const char *optimizer =
            !model->optimizer ? "-"
            : table->frozen   ? "frozen"
                              : rk_optimizer_name(rk_embeddings_table_optimizer(model->embeddings, t)->kind);
        rk_buffer_printf(out, "  %-*s %12" PRId64 " %5d  %-5s %-16s %12s\n", width, table->name,
                         max_rows_of_table(model, t), table->dim, rk_dtype_name(table->dtype), optimizer,
                         format_bytes(rk_embeddings_table_bytes(model->embeddings, t)).text);
        values += max_values_of_table(model, t);
        rows += (uint64_t)max_rows_of_table(model, t);
    }
    if (n)
        rk_buffer_printf(out, "  %-*s %12" PRIu64 " %5s  %-5s %-16s %12s\n", width, "total", rows, "", "", "",
                         format_bytes(rk_embeddings_bytes(model->embeddings)).text);
    return values;
}

/* Records of key, row and slots, once. */
static uint64_t disk_bytes_of_table(const rk_model *model, int32_t t) {
    const rk_table_config *table = rk_embeddings_table_config(model->embeddings, t);
    double row = rk_stored_row_bytes(table, rk_embeddings_table_optimizer(model->embeddings, t), table->dim);
    return (uint64_t)rk_embeddings_dynamic_config(model->embeddings, t)->max_capacity *
           ((uint64_t)row + sizeof(int64_t));
}

static void describe_dynamic_tables(const rk_model *model, rk_buffer *out) {
    int32_t n = rk_embeddings_n_tables(model->embeddings);
    bool first = true;
    for (int32_t t = 0; t < n; t++) {
        const rk_dynamic_config *d = rk_embeddings_dynamic_config(model->embeddings, t);
        if (!d) continue;
        if (first) rk_buffer_append_text(out, "\ndynamic tables (rows are those of a full one)\n");
        first = false;
        rk_buffer_printf(out, "  %s: %" PRId64 " buckets, eviction %s",
                         rk_embeddings_table_config(model->embeddings, t)->name, d->n_buckets,
                         rk_eviction_name(d->policy));
        if (d->policy != RK_EVICTION_NONE) rk_buffer_printf(out, " to %g", d->evict_to);
        if (d->ttl_steps) rk_buffer_printf(out, " and after %" PRId64 " batches without a use", d->ttl_steps);
        if (d->ttl)
            rk_buffer_printf(out, " and after %" PRId64 " seconds of the stream without a use", d->ttl);
        if (d->keep) rk_buffer_printf(out, ", keeping %" PRId64 " rows", d->keep);
        rk_buffer_printf(out, ", admission after %" PRId64 " uses", d->min_count);
        if (rk_dynamic_has_sketches(d)) rk_buffer_printf(out, " (%s)", rk_counter_name(d->counter));
        if (d->probability < 1) rk_buffer_printf(out, " with probability %g", d->probability);
        if (d->storage)
            rk_buffer_printf(out, ", rows on a disk (%s) behind %s of memory",
                             format_bytes(disk_bytes_of_table(model, t)).text,
                             format_bytes(d->memory_bytes).text);
        rk_buffer_printf(out, ", missing %s", d->n_cold ? "hash" : d->oov ? "oov" : "zeros");
        if (d->n_cold) rk_buffer_printf(out, " of %" PRId64 " rows", d->n_cold);
        uint64_t n_rows = (uint64_t)(d->max_capacity + rk_dynamic_n_shared_rows(d));
        rk_buffer_printf(out, ", %s a row\n",
                         format_bytes(rk_embeddings_table_bytes(model->embeddings, t) / n_rows).text);
    }
}

rk_status rk_model_describe(const rk_model *model, char **out) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    describe_tasks(model, &text);
    uint64_t values = describe_tables(model, &text), dense = 0;
    describe_dynamic_tables(model, &text);
    rk_buffer_append_text(&text, "\ngraph\n");
    rk_graph_describe(model->graph, &text);
    for (int32_t i = 0; i < rk_graph_n_parameters(model->graph); i++)
        dense +=
            (uint64_t)(rk_graph_parameter(model->graph, i)->rows * rk_graph_parameter(model->graph, i)->cols);
    rk_model_bytes bytes = rk_model_count_bytes(model);
    rk_buffer_printf(&text, "\nparameters: %s in tables, %s dense\n", format_count(values).text,
                     format_count(dense).text);
    rk_buffer_printf(&text,
                     "memory: tables %s, their slots %s, dense %s, arena %s (batches of up to %" PRId64 ")\n",
                     format_bytes(bytes.tables).text, format_bytes(bytes.slots).text,
                     format_bytes(bytes.dense).text, format_bytes(bytes.arena).text, model->max_batch);
    return rk_buffer_detach(&text, out);
}

/* What the collection keeps of a batch: uses, offsets and scales, with a quarter to spare. Room to sort in is
 * a thread's own, but for single rows or parts of tables with more than 32,768 of the uses: of those, 8 bytes
 * a use more. */
static double estimate_routing_bytes(const rk_model *model, const rk_batch *usual) {
    double bytes = 0, n = (double)(usual->n ? usual->n : 1);
    for (int32_t f = 0; f < model->n_lookups; f++) {
        if (model->lookups[f].source == model->n_features) { /* a history */
            bytes += 16 * rk_retrieval_mean_history_length(model->retrieval) + 8;
            continue;
        }
        const rk_ids *ids = &usual->features[model->lookups[f].source];
        double n_ids = (double)rk_ids_begin_of_sample(ids, usual->n) / n;
        bytes += 8 * n_ids + (ids->weights ? 12 * n_ids : 0) + (ids->offsets ? 0 : 8) + (n_ids > 1 ? 4 : 0);
    }
    return 1.25 * bytes * (double)model->max_batch * (model->stale ? 2 : 1);
}

uint64_t rk_model_peak_bytes(const rk_model *model, const rk_batch *usual) {
    static const double program = 22e6; /* code, libraries and what they keep */
    rk_model_bytes bytes = rk_model_count_bytes(model);
    double ranking = rk_model_is_two_tower(model)
                         ? rk_retrieval_ranking_memory_bytes(model->retrieval, rk_model_vector_dim(model))
                         : 0;
    return bytes.tables + bytes.slots + bytes.dense + bytes.arena +
           (uint64_t)(program + ranking + estimate_routing_bytes(model, usual));
}
