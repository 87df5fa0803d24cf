#include "model/step/data_parallel.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "embedding/planner/lookup_counter.h"
#include "model/retrieval/retrieval.h"

static int64_t n_micro_batches_of(const rk_data_parallel *sp, int32_t trainer) {
    return sp->first_micro_batches[trainer + 1] - sp->first_micro_batches[trainer];
}

rk_comm *rk_model_trainers(const rk_model *model) {
    return model->data_parallel ? model->data_parallel->trainers : NULL;
}

bool rk_model_trains(const rk_model *model) {
    return !model->data_parallel || model->data_parallel->rank < model->data_parallel->roles.n_trainers;
}

void rk_model_ask_to_stop(rk_model *model) {
    if (model->data_parallel) model->data_parallel->asks_to_stop = true;
}

bool rk_model_stop_received(const rk_model *model) {
    return model->data_parallel && model->data_parallel->stop_received;
}

/* A rank that only holds rows is given a graph for its shapes, of which it runs nothing. */
rk_graph_local_part rk_data_parallel_local_batch(const rk_data_parallel *sp) {
    bool trains = sp->rank < sp->roles.n_trainers;
    return trains ? (rk_graph_local_part){sp->first_micro_batches[sp->rank], n_micro_batches_of(sp, sp->rank)}
                  : (rk_graph_local_part){0, 1};
}

static rk_status make_trainers(rk_data_parallel *sp) {
    int32_t n = sp->roles.n_trainers, *members;
    sp->trainers = sp->comm;
    if (sp->roles.n_owners == 0 || sp->rank >= n) return RK_OK;
    RK_TRY(rk_alloc((size_t)n, sizeof *members, &members));
    for (int32_t r = 0; r < n; r++) members[r] = r;
    rk_status status = rk_comm_members(sp->comm, members, n, &sp->trainers);
    rk_free(members);
    return status;
}

static rk_status check_shards(const rk_model_options *options, int64_t n_micro_batches, int32_t n_trainers) {
    if (n_micro_batches >= n_trainers && n_micro_batches <= RK_MAX_LEAVES) return RK_OK;
    const rk_yaml_node *key =
        options->yaml ? rk_yaml_get(rk_yaml_get(options->yaml->root, "cluster"), "virtual_shards") : NULL;
    rk_status status = rk_yaml_error(options->yaml, key, "%lld shards for %d trainers",
                                     (long long)n_micro_batches, n_trainers);
    return rk_error_hint(
        status,
        "each trainer has one or more: give %d to %d, a power of two for the same bits on fewer ranks",
        n_trainers, RK_MAX_LEAVES);
}

rk_status rk_data_parallel_create(rk_model *model, const rk_model_options *options) {
    rk_data_parallel *sp;
    RK_TRY(rk_alloc(1, sizeof *sp, &sp));
    model->data_parallel = sp;
    sp->comm = sp->trainers = options->cluster->comm;
    sp->roles = options->cluster->request.roles;
    sp->rank = rk_comm_rank(sp->comm);
    sp->staleness = options->staleness;
    sp->narrow = options->cluster->request.wire == RK_BF16;
    int32_t n = sp->roles.n_trainers;
    sp->n_micro_batches = options->n_micro_batches ? options->n_micro_batches : n;
    RK_TRY(check_shards(options, sp->n_micro_batches, n));
    RK_TRY(rk_alloc((size_t)n + 1, sizeof *sp->first_micro_batches, &sp->first_micro_batches));
    RK_TRY(rk_alloc((size_t)n + 1, sizeof *sp->cuts, &sp->cuts));
    for (int32_t r = 0; r <= n; r++) sp->first_micro_batches[r] = sp->n_micro_batches * r / n;
    return make_trainers(sp);
}

/* Each rank has chosen by itself, with floating-point arithmetic that another libm may round otherwise. */
static rk_status check_same_placements(rk_comm *comm, const rk_table_placement *placements, int32_t n) {
    uint64_t hash = 0;
    for (int32_t t = 0; t < n; t++) {
        const rk_table_placement *p = &placements[t];
        int32_t head[4] = {p->replicated, p->replicated ? 0 : p->n_slices, p->replicated ? 0 : p->n_parts,
                           p->owner_pooling};
        hash = rk_hash_bytes(head, sizeof head, hash);
        if (!p->replicated)
            hash = rk_hash_bytes(p->owners, (size_t)(p->n_slices * p->n_parts) * sizeof *p->owners, hash);
    }
    rk_all_to_all *all_to_all;
    RK_TRY(rk_comm_gather(comm, RK_LANE_SUMS, &hash, sizeof hash, &all_to_all));
    bool same = true;
    rk_status status = RK_OK;
    for (int32_t r = 0; r < rk_comm_size(comm) && status == RK_OK; r++) {
        const void *theirs;
        status = rk_all_to_all_take(all_to_all, r, sizeof hash, &theirs);
        same = same && status == RK_OK && memcmp(theirs, &hash, sizeof hash) == 0;
    }
    rk_all_to_all_free(all_to_all);
    RK_TRY(status);
    if (same) return RK_OK;
    return rk_error_hint(
        rk_error(RK_CONFIG, "the ranks' machines came to different placements of the tables"),
        "place them by one plan: 'reckon plan --write', and 'cluster.plan'");
}

/* A two_tower also asks for items that are drawn and for histories, which no batch of the data has: which
 * rows those are is assumed. */
static rk_status assume_loads(const rk_retrieval *retrieval, const rk_model_lookup *lookups,
                              const rk_collection_config *plan, const rk_model_cluster *cluster,
                              rk_table_statistics *loads) {
    const rk_planner_request *request = &cluster->request;
    double *ids;
    RK_TRY(rk_alloc((size_t)plan->n_tables, sizeof *ids, &ids));
    for (int32_t f = 0; f < plan->n_features; f++) {
        double most =
            plan->features[f].max_sequence_length ? plan->features[f].max_sequence_length : INFINITY;
        ids[plan->table_of[f]] +=
            fmin(rk_retrieval_ids(retrieval, lookups[f].source, cluster->sample, request->batch_size), most);
    }
    for (int32_t t = 0; t < plan->n_tables; t++)
        loads[t] = rk_table_statistics_assume(plan->tables[t].n_rows, ids[t], request->batch_size,
                                              request->roles.n_trainers);
    rk_free(ids);
    return RK_OK;
}

/* The count keeps the hot rows. */
static rk_status count_loads(const rk_collection_config *plan, const rk_model_cluster *cluster,
                             rk_table_statistics *loads, rk_lookup_counter **out) {
    RK_TRY(rk_lookup_counter_create(plan, cluster->request.roles.n_trainers, out));
    RK_TRY(rk_lookup_counter_add(*out, cluster->sample));
    rk_lookup_counter_conclude(*out, loads);
    return RK_OK;
}

static rk_status create_sharded(rk_model *model, const rk_model_options *options,
                                const rk_collection_config *plan) {
    rk_data_parallel *sp = model->data_parallel;
    rk_embeddings_config config = rk_collection_config_config(plan, options->seed);
    rk_planner_request request = options->cluster->request;
    rk_table_placement *placements = NULL;
    rk_table_statistics *loads = NULL;
    rk_lookup_counter *count = NULL;
    rk_status status;
    request.tables = config.tables;
    request.n_tables = config.n_tables;
    request.features = config.features;
    request.n_features = config.n_features;
    RK_GOTO(rk_alloc((size_t)config.n_tables, sizeof *placements, &placements));
    RK_GOTO(rk_alloc((size_t)config.n_tables, sizeof *loads, &loads));
    if (options->cluster->sample && model->retrieval)
        RK_GOTO(assume_loads(model->retrieval, model->lookups, plan, options->cluster, loads));
    if (options->cluster->sample && !model->retrieval)
        RK_GOTO(count_loads(plan, options->cluster, loads, &count));
    request.loads = options->cluster->sample ? loads : NULL;
    RK_GOTO(rk_sharding_plan_choose(&request, placements));
    RK_GOTO(check_same_placements(sp->comm, placements, config.n_tables));
    rk_sharded_options wanted = {.config = &config,
                                 .placements = placements,
                                 .comm = sp->comm,
                                 .roles = sp->roles,
                                 .first_micro_batches = sp->first_micro_batches,
                                 .micro_batch_samples = rk_graph_micro_batch(model->graph),
                                 .wire = request.wire,
                                 .staleness = sp->staleness};
    RK_GOTO(rk_sharded_create(&wanted, &sp->sharded));
    for (int32_t t = 0; t < plan->n_tables; t++)
        RK_GOTO(rk_sharded_set_l2(sp->sharded, plan->tables[t].name, plan->l2[t], plan->l2_full[t]));
done:
    for (int32_t t = 0; t < config.n_tables && placements; t++) rk_table_placement_release(&placements[t]);
    rk_free(placements);
    rk_lookup_counter_free(count);
    rk_free(loads);
    return status;
}

/* Of all reductions, no more buckets than a lane takes. A single one could set off only when backward is
 * done. */
static rk_status split_buckets(rk_data_parallel *sp, size_t n, size_t n_reductions) {
    size_t most = RK_MAX_BUCKETS / n_reductions ? RK_MAX_BUCKETS / n_reductions : 1;
    sp->bucket = n / most < RK_BUCKET_VALUES ? RK_BUCKET_VALUES : n / most + 1;
    return n > sp->bucket && sp->roles.n_trainers > 1
               ? rk_progress_thread_init(&sp->progress_thread, sp->trainers)
               : RK_OK;
}

static rk_status reserve_reductions(rk_model *model, const rk_model_options *options) {
    rk_data_parallel *sp = model->data_parallel;
    size_t n, loss_bytes = (size_t)n_micro_batches_of(sp, sp->rank) * (size_t)model->n_tasks * sizeof(double);
    float *gradients = rk_graph_gradients(model->graph, &n);
    size_t wanted = options->cluster->asynchronous ? (size_t)sp->staleness + 1 : 1;
    RK_TRY(split_buckets(sp, n, wanted));
    RK_TRY(rk_alloc(wanted, sizeof *sp->reductions, &sp->reductions));
    for (; sp->n_reductions < wanted; sp->n_reductions++) {
        rk_reduction *r = &sp->reductions[sp->n_reductions];
        RK_TRY(rk_alloc(1, sizeof *r->step_status + loss_bytes, &r->step_status));
        if (wanted == 1)
            r->values = gradients;
        else
            RK_TRY(rk_alloc(n, sizeof *r->values, &r->values));
    }
    return RK_OK;
}

static void release_reductions(rk_data_parallel *sp) {
    for (size_t i = 0; i < sp->n_reductions; i++) {
        rk_reduction *r = &sp->reductions[i];
        rk_all_to_all_free(r->step_statuses);
        for (size_t k = 0; k < r->n_sums; k++) rk_sum_free(r->sums[k]);
        rk_free(r->step_status);
        if (sp->n_reductions > 1) rk_free(r->values);
    }
    rk_free(sp->reductions);
}

rk_status rk_data_parallel_finish(rk_model *model, const rk_model_options *options,
                                  const rk_collection_config *plan) {
    rk_data_parallel *sp = model->data_parallel;
    int64_t micro_batch = rk_graph_micro_batch(model->graph);
    if (plan->n_features) RK_TRY(create_sharded(model, options, plan));
    if (!rk_model_trains(model)) {
        rk_graph_free(model->graph);
        model->graph = NULL;
        return RK_OK;
    }
    int64_t longest = model->max_here; /* with the items that are drawn for it */
    model->max_here = micro_batch * n_micro_batches_of(sp, sp->rank);
    for (int32_t r = 0; r <= sp->roles.n_trainers; r++)
        sp->cuts[r] = sp->first_micro_batches[r] * micro_batch < longest
                          ? sp->first_micro_batches[r] * micro_batch
                          : longest;
    sp->n_shares = (size_t)sp->staleness + 1;
    RK_TRY(rk_alloc(sp->n_shares, sizeof *sp->shares, &sp->shares));
    for (size_t i = 0; i < sp->n_shares; i++)
        RK_TRY(rk_local_batch_init(model, sp->staleness > 0, &sp->shares[i]));
    RK_TRY(rk_local_batch_init(model, false, &sp->peek));
    RK_TRY(rk_alloc((size_t)sp->roles.n_trainers, sizeof *sp->messages, &sp->messages));
    return options->training && !options->device ? reserve_reductions(model, options) : RK_OK;
}

void rk_data_parallel_receive(rk_data_parallel *sp, int32_t stop, uint64_t bytes_sent) {
    sp->stop_received |= stop != 0;
    sp->bytes_sent += (double)bytes_sent / sp->roles.n_trainers;
    sp->bytes_sent_most = fmax(sp->bytes_sent_most, (double)bytes_sent);
}

void rk_data_parallel_free(rk_model *model) {
    rk_data_parallel *sp = model->data_parallel;
    if (!sp) return;
    rk_progress_thread_release(&sp->progress_thread);
    rk_sharded_free(sp->sharded);
    for (size_t i = 0; i < sp->n_shares && sp->shares; i++) rk_local_batch_release(model, &sp->shares[i]);
    rk_local_batch_release(model, &sp->peek);
    if (sp->trainers != sp->comm) rk_comm_free(sp->trainers);
    rk_free(sp->shares);
    rk_free(sp->first_micro_batches);
    rk_free(sp->cuts);
    release_reductions(sp);
    rk_free(sp->messages);
    rk_free(sp);
    model->data_parallel = NULL;
}

void rk_model_splits(const rk_model *model, int64_t *cuts) {
    const rk_data_parallel *sp = model->data_parallel;
    if (sp)
        memcpy(cuts, sp->cuts, ((size_t)sp->roles.n_trainers + 1) * sizeof *cuts);
    else
        cuts[0] = 0, cuts[1] = INT64_MAX;
}

static bool has_servers(const rk_model *model) {
    return model->data_parallel && model->data_parallel->sharded && model->data_parallel->roles.n_owners > 0;
}

rk_status rk_model_send_control(rk_model *model, int64_t word) {
    return has_servers(model) ? rk_sharded_send_control(model->data_parallel->sharded, word) : RK_OK;
}

rk_status rk_model_serve(rk_model *model, int64_t *word) {
    RK_FAIL_IF(!has_servers(model), RK_INVALID_ARGUMENT,
               "the model has no tables, so ranks that only hold rows have nothing to do");
    return rk_sharded_serve(model->data_parallel->sharded, word);
}

rk_model_traffic rk_model_count_traffic(const rk_model *model) {
    const rk_data_parallel *sp = model->data_parallel;
    if (!sp) return (rk_model_traffic){0};
    rk_sharded_counts rows = sp->sharded ? rk_sharded_count(sp->sharded) : (rk_sharded_counts){0};
    return (rk_model_traffic){sp->n_trained, sp->bytes_sent, sp->bytes_sent_most,
                              rows.wait_s,   sp->sum_wait_s, rows.staleness_sum};
}
