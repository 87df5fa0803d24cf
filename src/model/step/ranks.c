#include "model/step/ranks.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/fused_update.h"
#include "base/integers.h"

rk_graph_local_part rk_ranks_local_micro_batches(const rk_ranks *ranks) {
    if (!rk_ranks_is_trainer(ranks)) return (rk_graph_local_part){0, 1};
    return (rk_graph_local_part){ranks->first_micro_batches[ranks->rank],
                                 rk_ranks_n_micro_batches(ranks, ranks->rank)};
}

int64_t rk_ranks_first_sample(const rk_ranks *ranks, int32_t r, int64_t n) {
    return rk_min_i64(ranks->splits[r], n);
}

void rk_ranks_local_samples(const rk_ranks *ranks, int64_t n, int64_t *begin, int64_t *end) {
    *begin = rk_ranks_first_sample(ranks, ranks->rank, n);
    *end = rk_ranks_first_sample(ranks, ranks->rank + 1, n);
}

/* The ranks that train, where some do not. */
static rk_status create_trainer_comm(rk_ranks *ranks) {
    ranks->trainers = ranks->comm;
    if (ranks->roles.n_owners == 0 || !rk_ranks_is_trainer(ranks)) return RK_OK;
    return rk_comm_create_group_of_first_ranks(ranks->comm, ranks->roles.n_trainers, &ranks->trainers);
}

static rk_status check_micro_batch_count(const rk_model_options *options, const rk_ranks *ranks) {
    int32_t n_trainers = ranks->roles.n_trainers;
    if (ranks->n_micro_batches >= n_trainers && ranks->n_micro_batches <= RK_MAX_LEAVES) return RK_OK;
    const rk_yaml_node *key =
        options->yaml ? rk_yaml_find_key(rk_yaml_find_key(options->yaml->root, "cluster"), "virtual_shards")
                      : NULL;
    rk_status status =
        rk_yaml_error(options->yaml, key, "%lld virtual shards cannot be used with %d trainers",
                      (long long)ranks->n_micro_batches, n_trainers);
    return rk_error_hint(status,
                         "each trainer needs at least one: set virtual_shards to %d to %d; a power of two "
                         "gives the same bits on fewer ranks",
                         n_trainers, RK_MAX_LEAVES);
}

static rk_status init_ranks_from_options(const rk_model_options *options, rk_ranks *ranks) {
    const rk_model_cluster *cluster = options->cluster;
    ranks->roles = cluster ? cluster->request.roles : (rk_roles){.n_trainers = 1};
    ranks->is_distributed = cluster != NULL;
    if (cluster)
        ranks->comm = cluster->comm;
    else
        RK_TRY(rk_comm_self(&ranks->comm));
    ranks->rank = rk_comm_rank(ranks->comm);
    int32_t n = ranks->roles.n_trainers;
    bool splits = (cluster || options->training) && options->n_micro_batches;
    ranks->n_micro_batches = splits ? options->n_micro_batches : n;
    if (cluster) RK_TRY(check_micro_batch_count(options, ranks));
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)n + 1, ranks->first_micro_batches),
                        RK_ARRAY((size_t)n + 1, ranks->splits), RK_ARRAY((size_t)n, ranks->messages)));
    for (int32_t r = 0; r <= n; r++) ranks->first_micro_batches[r] = ranks->n_micro_batches * r / n;
    return create_trainer_comm(ranks);
}

rk_status rk_ranks_create(const rk_model_options *options, rk_ranks **out) {
    RK_TRY(rk_alloc(1, sizeof **out, out));
    return init_ranks_from_options(options, *out);
}

void rk_ranks_set_sample_splits(rk_ranks *ranks, int64_t micro_batch_samples, int64_t longest) {
    for (int32_t r = 0; r <= ranks->roles.n_trainers; r++)
        ranks->splits[r] = rk_min_i64(ranks->first_micro_batches[r] * micro_batch_samples, longest);
    if (!ranks->is_distributed) ranks->splits[1] = INT64_MAX; /* all of any batch */
}

void rk_ranks_free(rk_ranks *ranks) {
    if (!ranks) return;
    if (ranks->trainers != ranks->comm) rk_comm_free(ranks->trainers);
    if (!ranks->is_distributed) rk_comm_free(ranks->comm);
    RK_FREE_ALL(ranks->first_micro_batches, ranks->splits, ranks->messages, ranks);
}

rk_status rk_ranks_all_gather(const rk_ranks *ranks, const float *mine, int64_t n, int64_t total,
                              int64_t width, float *out) {
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    int64_t begin, end;
    rk_ranks_local_samples(ranks, total, &begin, &end);
    begin = rk_min_i64(begin, n), end = rk_min_i64(end, n);
    if (ranks->roles.n_trainers == 1) {
        if (mine != out) memcpy(out, mine, (size_t)(n * width) * sizeof *out);
        return RK_OK;
    }
    RK_TRY(rk_comm_all_gather(ranks->trainers, RK_CHANNEL_VALUES, mine,
                              (size_t)((end - begin) * width) * sizeof *mine, &all_to_all));
    for (int32_t t = 0; t < ranks->roles.n_trainers; t++) {
        int64_t first = rk_min_i64(rk_ranks_first_sample(ranks, t, total), n),
                last = rk_min_i64(rk_ranks_first_sample(ranks, t + 1, total), n);
        size_t n_bytes = (size_t)((last - first) * width) * sizeof *out;
        RK_TRY(rk_all_to_all_copy_message(all_to_all, t, n_bytes, out + first * width));
    }
    return RK_OK;
}

void rk_ranks_add_received_status(rk_ranks *ranks, int32_t stop, uint64_t bytes_sent) {
    ranks->stop_received |= stop != 0;
    ranks->bytes_sent += (double)bytes_sent / ranks->roles.n_trainers;
    ranks->bytes_sent_most = fmax(ranks->bytes_sent_most, (double)bytes_sent);
}
