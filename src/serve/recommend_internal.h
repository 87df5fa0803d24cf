/* Inside recommendations: which items, which users, and how an answer is written. */
#ifndef RK_SERVE_RECOMMEND_INTERNAL_H
#define RK_SERVE_RECOMMEND_INTERNAL_H

#include <reckon/experimental/recommend.h>

#include "base/buffer.h"
#include "data/dataset/interactions.h"
#include "data/dataset/rows_with_texts.h"
#include "data/transform/vocabulary.h"
#include "format/byte_stream.h"
#include "index/index_internal.h"
#include "serve/predictor_internal.h"

/* The caller's options, checked; and over ranks, that all have the same. */
rk_status rk_recommend_options_copy_in(rk_recommend_options *out, const rk_recommend_options *options);
rk_status rk_recommend_check_same_on_ranks(const rk_predictor *predictor,
                                           const rk_recommend_options *options);

/* Values that the training data has not: how many, and the first of them for a message. */
typedef struct rk_unknown_values {
    int64_t n;
    rk_buffer text; /* "'a', 'b' and 3 more", but for the end */
} rk_unknown_values;
rk_status rk_unknown_values_add(rk_unknown_values *values, rk_span value);
/* The text, until the next call. */
const char *rk_unknown_values_text(rk_unknown_values *values);
void rk_unknown_values_release(rk_unknown_values *values);

/* The items that may be recommended, by their places 0 .. n-1: ascending by id, or in the order of
 * rk_key_rank. Of a feature with keys they are those that have rows. */
typedef struct rk_item_choice {
    const rk_transforms *transforms;
    int64_t feature; /* of the section */
    bool has_keys;
    int64_t n, n_ids;    /* n_ids: of the feature; 0: it has keys */
    int64_t *ids;        /* [n], ascending, as an index has them: ids, or the low 63 bits of keys */
    int64_t *keys;       /* [n]; NULL: the ids are those of the feature */
    rk_vocabulary texts; /* names that were read, */
    int64_t *text_of;    /* [n]: an item's; NULL: ids say them */
} rk_item_choice;
/* known: the training data's pairs; NULL if options->items says which items. Zeroed before; to be released,
 * after a failure too. All ranks call it, and have the same status. */
rk_status rk_item_choice_make(const rk_predictor *predictor, const rk_recommend_options *options,
                              const rk_interactions *known, rk_item_choice *out);
void rk_item_choice_release(rk_item_choice *choice);
/* The feature's id or key of the item at a place; the place of one, or of an index's id: -1, it has none. */
static inline int64_t rk_item_choice_id(const rk_item_choice *choice, int64_t place) {
    return choice->keys ? choice->keys[place] : choice->ids[place];
}
int64_t rk_item_choice_place(const rk_item_choice *choice, int64_t id);
int64_t rk_item_choice_place_of_index(const rk_item_choice *choice, int64_t id);
/* RK_UNSUPPORTED: an index would have one id for two of them. */
rk_status rk_item_choice_check_index(const rk_item_choice *choice);
/* The item at a place, as the data names it; it may stand in scratch. */
rk_span rk_item_choice_name(const rk_item_choice *choice, int64_t place, char scratch[RK_I64_BYTES]);
/* Vectors of the items at places first .. first+n-1, of a context that is an rk_item_reader: an rk_item_rows.
 */
typedef struct rk_item_reader {
    rk_model *model;
    const rk_item_choice *choice;
    int64_t *ids;   /* [n_vectors] */
    float *vectors; /* [n_vectors, dim]: of ids from first_id on, read last */
    int64_t first_id, n_vectors;
} rk_item_reader;
rk_status rk_item_reader_init(rk_model *model, const rk_item_choice *choice, rk_item_reader *out);
rk_status rk_item_reader_read_vectors(void *reader, int64_t first, int64_t n, float *rows);
void rk_item_reader_release(rk_item_reader *reader);

/* The items that may be recommended, and which of them users are known to have. */
typedef struct rk_candidate_items {
    rk_interactions *known;    /* NULL: not needed. The config's */
    rk_interactions *left_out; /* pairs that are not recommended, or NULL */
    rk_item_choice items;
    int64_t *excluded;        /* beside left_out->items: their places, those that have one, */
    int64_t *excluded_begins; /* [n_users + 1] by user */
} rk_candidate_items;
/* Zeroed before; to be released, after a failure too. All ranks call it, and have the same status. */
rk_status rk_candidate_items_create(const rk_predictor *predictor, const rk_recommend_options *options,
                                    rk_candidate_items *out);
void rk_candidate_items_release(rk_candidate_items *from);
/* Places [*n], ascending, that are left out for a user, by the number in left_out; -1: none are. */
const int64_t *rk_candidate_items_excluded_of_user(const rk_candidate_items *from, int64_t user, int64_t *n);
/* RK_UNSUPPORTED: the model scores rows. */
rk_status rk_recommend_check_model(const rk_predictor *predictor);

/* Users to be answered, each once, in batches. */
typedef struct rk_user_rows {
    const rk_predictor *predictor;
    const rk_interactions *known; /* the training data's pairs, or NULL */
    const char *split;
    int64_t feature;   /* of the section */
    bool is_only_name; /* the user tower sees the user's id and history, and nothing else */
    int64_t n_users;
    rk_unknown_values unknown; /* users who are left out */
    rk_rows_with_texts *rows;
} rk_user_rows;
/* Without rows: for questions about users alone. */
void rk_user_rows_init(const rk_predictor *predictor, const rk_interactions *known, rk_user_rows *out);
/* A user whom the training data has not can only be answered by features that say more than a name; a history
 * is looked up by an id, which one that no vocabulary has may be without. */
bool rk_user_rows_is_answerable(const rk_user_rows *users, rk_span name);
/* It is called by its address until it is released, after a failure too. */
rk_status rk_user_rows_open(const rk_predictor *predictor, const char *split, const rk_interactions *known,
                            rk_user_rows *out);
/* texts [n]: the users' names. RK_END after the last, when those left out are warned of, by the first rank.
 */
rk_status rk_user_rows_next(rk_user_rows *users, rk_batch_with_texts *out);
/* A user's number among those of the pairs; -1: there are none, or the name has no number. */
int64_t rk_user_rows_number(const rk_user_rows *users, const rk_interactions *pairs, rk_span name);
void rk_user_rows_release(rk_user_rows *users);

/* Users' bags of items that they must not be given, by the ids of an index. Zero-initialize. */
typedef struct rk_user_bags {
    int64_t *begins; /* [n + 1] in ids */
    int64_t *ids;
    int64_t n;
    size_t begins_capacity, ids_capacity;
} rk_user_bags;
/* One more user's, of the pairs; NULL: of none. */
rk_status rk_user_bags_add_user(rk_user_bags *bags, const rk_user_rows *users, const rk_interactions *pairs,
                                rk_span name);
void rk_user_bags_release(rk_user_bags *bags);

/* An index that finds the best items, zeroed before; to be released, after a failure too. */
typedef struct rk_index_ranking {
    rk_index *index; /* NULL: there is none */
    int64_t *best;   /* of a sample of users, by all lists */
    float *best_scores;
    size_t best_capacity, best_scores_capacity;
    int64_t n_measured, n_best, n_found;
} rk_index_ranking;
/* The index must have the vectors of the model's items. */
rk_status rk_index_ranking_open(const char *path, rk_model *model, const rk_item_choice *items,
                                rk_index_ranking *out);
/* Of users [n] with `vectors` [n, dim]: places [n, k] of their best items, -1 behind them, and scores.
 * excluded: bags of ids. */
rk_status rk_index_ranking_search(rk_index_ranking *ranking, const rk_item_choice *items,
                                  const rk_ids *excluded, const float *vectors, int64_t n, int32_t k,
                                  int64_t *places, float *scores);
/* The search alone; it finds ids. */
rk_status rk_index_ranking_search_vectors(const rk_index_ranking *ranking, const rk_index_search_call *call);
/* The part of the best that it found, of the first 1,000 users. */
double rk_index_ranking_recall(const rk_index_ranking *ranking);
void rk_index_ranking_release(rk_index_ranking *ranking);

/* An answer: the best of one user or group. */
typedef struct rk_ranked {
    rk_span name;
    int64_t n;
    const rk_span *items; /* [n], or NULL */
    const int64_t *rows;  /* [n], or NULL */
    const float *scores;  /* [n] */
} rk_ranked;
/* Answers on their way to a file. */
typedef struct rk_ranked_output {
    rk_byte_sink *sink; /* NULL: another rank writes */
    rk_recommend_format format;
    const char *key; /* what an answer is of: "user" */
    rk_buffer line;
} rk_ranked_output;
/* path NULL: standard output. columns: between the rank and the score, "item". */
rk_status rk_ranked_output_open(const char *path, rk_recommend_format format, const char *key,
                                const char *columns, rk_ranked_output *out);
rk_status rk_ranked_output_write(rk_ranked_output *output, const rk_ranked *ranked);
rk_status rk_ranked_output_commit(rk_ranked_output *output);
void rk_ranked_output_release(rk_ranked_output *output); /* without commit: no file appears */

#endif
