/* A run file, whole: what <reckon/config.h> hands out. */
#ifndef RK_TRAIN_CONFIG_RUN_CONFIG_H
#define RK_TRAIN_CONFIG_RUN_CONFIG_H

#include <reckon/config.h>

#include "data/dataset/interactions.h"
#include "data/source/arrow_streams.h"
#include "data/transform/transforms.h"
#include "embedding/config/embedding_config.h"
#include "metrics/metrics.h"
#include "model/model.h"
#include "train/config/cluster_config.h"
#include "train/config/device_config.h"
#include "train/config/plan_file.h"
#include "train/config/train_config.h"

struct rk_config {
    rk_yaml yaml;
    char *text;      /* the file as it was read */
    char *directory; /* what paths are relative to */
    rk_text_list overrides;
    rk_data_section data;
    rk_arrow_streams streams; /* of data, unless it is a copy's: those of what it is a copy of */
    rk_embedding_section embedding;
    rk_model_section model;
    rk_train_section train;
    rk_cluster_section cluster;
    rk_device_section device;
    rk_cuda_section cuda;
    rk_model_device model_device;     /* cuda, resolved */
    rk_optimizer optimizer;           /* train.optimizer, resolved */
    int watched_task, watched_metric; /* what early stopping and keep_best use */
    int plateau_task, plateau_metric;
    bool has_valid, keeps_best;
    rk_transforms *transforms;          /* fitted at the first need, or loaded from a checkpoint */
    const rk_transforms *given;         /* of the configuration that this is a copy of; NULL: it has none */
    rk_planner_constraint *constraints; /* [cluster.n_tables], of that section */
    rk_interactions *interactions;      /* the training data's pairs, collected at the first need */
    rk_plan_file plan;                  /* likewise what cluster.plan names; without tables: not read */
};

static inline void rk_config_auto_free(rk_config **config) { /* for RK_AUTO */
    rk_config_free(*config);
}

/* The same run file read again. What follows from a configuration and its data (features in the place of
 * patterns, transforms, pairs) is kept in a copy that belongs to whoever needs it, because callers may share
 * theirs between threads. The first one must outlive the copy, whose transforms are its own if it has any. */
rk_status rk_config_copy(const rk_config *config, rk_config **out);

/* Features in the place of patterns of columns, read from the training data now if there are any: before the
 * configuration is written or compared. */
rk_status rk_config_expand_patterns(rk_config *config);

/* The transforms, fitted now if they are not there. */
rk_status rk_config_transforms(rk_config *config, void (*on_stage)(void *user, const char *message),
                               void *user, const rk_transforms **out);

/* Whether they are there: fitted, loaded or given. */
bool rk_config_has_transforms(const rk_config *config);
/* How training reads a split, in its batches; valid as long as the configuration. */
rk_dataset_options rk_config_dataset_options(const rk_config *config, const char *split);
/* A split of the run's data so, by the transforms. */
rk_status rk_config_open_data(const rk_config *config, const rk_transforms *transforms, const char *split,
                              rk_dataset **out);
/* Transformed rows of train that stay in memory, at most: none if there is one epoch. */
int64_t rk_config_row_cache_bytes(const rk_config *config);

/* Whether a task has the metric; task n_labels stands for the mean over all that have it, of which there must
 * be several labels. */
bool rk_config_has_metric(const rk_config *config, int64_t task, int metric);
#define RK_MEAN_PREFIX "mean_"
/* "auc", "task/auc", "mean_auc" or "recall@20"; RK_CONFIG with a hint. place: where the name stands, for the
 * message. */
rk_status rk_config_find_metric(const rk_config *config, const char *name, const char *place, int *task,
                                int *metric);
/* The name that the run's log has for it. */
void rk_config_metric_name(const rk_config *config, int task, int metric, char *out, size_t out_bytes);

/* Whether the model is one of pairs (two_tower), which features these are, and all pairs of the training
 * data. */
bool rk_config_has_pairs(const rk_config *config);
rk_status rk_config_pair_features(const rk_config *config, const rk_data_schema *schema,
                                  rk_pair_features *out);
rk_status rk_config_load_interactions(rk_config *config, rk_interactions **out);

/* What the cluster section asks of placements on so many ranks, readers among them: all of a request but
 * tables, features, optimizer, loads and capacities. Its constraints live as long as the config. */
/* What the sums of dense gradients travel as: between GPUs as they are. */
rk_dense_wire rk_config_dense_wire(const rk_config *config);
rk_status rk_config_planner_request(rk_config *config, int32_t n_ranks, rk_planner_request *out);

/* All options but interactions; */
rk_status rk_config_model_options(const rk_config *config, const rk_data_schema *schema, bool training,
                                  rk_model_options *out);
/* then those, which stay the config's; */
rk_status rk_config_set_interactions(rk_config *config, rk_model_options *options);
/* or all for training on a dataset: the caller frees the interactions when the model is built. */
rk_status rk_config_training_options(const rk_config *config, const rk_dataset *dataset,
                                     rk_model_options *out);
void rk_config_set_device(const rk_config *config,
                          rk_model_options *options); /* the model trains where the run file says */

#endif
