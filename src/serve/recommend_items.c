/* Which items may be recommended, what the data calls them, and their vectors. */
#include <stdlib.h>
#include <string.h>

#include "base/file/file.h"
#include "base/integers.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "serve/recommend_internal.h"

enum { ITEMS_AT_ONCE = 8192, SHOWN = 5 };

rk_status rk_unknown_values_add(rk_unknown_values *u, rk_span value) {
    int shown = rk_span_printed_bytes(value);
    if (u->n++ < SHOWN) rk_buffer_printf(&u->text, "%s'%.*s'", u->n > 1 ? ", " : "", shown, value.data);
    return u->text.status;
}

const char *rk_unknown_values_text(rk_unknown_values *u) {
    if (u->n > SHOWN) rk_buffer_printf(&u->text, " and %lld more", (long long)(u->n - SHOWN));
    return u->text.status == RK_OK ? u->text.data : "";
}

void rk_unknown_values_release(rk_unknown_values *u) {
    rk_buffer_release(&u->text);
    *u = (rk_unknown_values){0};
}

static const char *item_column_name(const rk_item_choice *c) {
    return rk_feature_column(&rk_transforms_section(c->transforms)->features[c->feature]);
}

/* Calls `take` for each line that is not empty. */
static rk_status for_each_line(const char *path, rk_status (*take)(void *context, rk_span line),
                               void *context) {
    RK_AUTOFREE char *text = NULL;
    size_t n_bytes;
    bool any = false;
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    for (char *at = text, *end = text + n_bytes; at < end;) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        rk_span line = {at, (size_t)(stop - at)};
        if (line.n_bytes && line.data[line.n_bytes - 1] == '\r') line.n_bytes--;
        if (line.n_bytes) RK_TRY(take(context, line));
        any |= line.n_bytes > 0;
        at = stop + 1;
    }
    RK_FAIL_IF(!any, RK_BAD_DATA, "'%s' has no items", path);
    return RK_OK;
}

/* An item as it was read. */
typedef struct named_item {
    int64_t id, text; /* text: its name's number, or -1 */
    size_t order;
    bool is_wanted;
} named_item;

/* Items while they are chosen. */
typedef struct choosing {
    rk_item_choice *choice;
    named_item *items; /* [n] */
    size_t n, capacity;
    bool keeps_names;
    bool is_wanted; /* what the lines of the file at hand are */
    int64_t n_lines;
    rk_unknown_values unknown;
} choosing;

static void release_choosing(choosing *g) {
    rk_free(g->items);
    rk_unknown_values_release(&g->unknown);
}

static rk_status add_id(choosing *g, int64_t id, int64_t text) {
    RK_TRY(rk_reserve_one_more(&g->items, g->n, &g->capacity, sizeof *g->items));
    g->items[g->n] = (named_item){.id = id, .text = text, .order = g->n, .is_wanted = g->is_wanted};
    g->n++;
    return RK_OK;
}

static rk_status choose_item_of_line(void *context, rk_span text) {
    choosing *g = context;
    int64_t id, number = -1;
    g->n_lines++;
    if (!rk_transforms_id_of_value(g->choice->transforms, g->choice->feature, text, &id))
        return rk_unknown_values_add(&g->unknown, text);
    if (g->keeps_names && g->is_wanted) RK_TRY(rk_vocabulary_add(&g->choice->texts, text, 1, &number));
    return add_id(g, id, number);
}

static rk_status choose_items_of_file(choosing *g, const char *path, bool is_wanted) {
    g->is_wanted = is_wanted;
    g->n_lines = 0;
    RK_TRY(for_each_line(path, choose_item_of_line, g));
    const char *names = g->unknown.n ? rk_unknown_values_text(&g->unknown) : "";
    RK_FAIL_IF(
        is_wanted && g->unknown.n == g->n_lines, RK_BAD_DATA,
        "'%s': the model knows none of the %lld items: %s\nhint: an item a line, as the column '%s' of "
        "the run's data has it",
        path, (long long)g->n_lines, names, item_column_name(g->choice));
    if (g->unknown.n)
        rk_log(RK_LOG_WARNING, "'%s': the model does not know %lld of %lld items: %s", path,
               (long long)g->unknown.n, (long long)g->n_lines, names);
    rk_unknown_values_release(&g->unknown);
    return RK_OK;
}

/* Names of hashed items are those of the training data; that of several in one bucket is the first one's. */
static rk_status read_names_of_hashed_items(const rk_predictor *p, choosing *g) {
    const char *column = item_column_name(g->choice);
    const rk_rows_with_texts_options options = {.directory = p->config->directory,
                                                .split = "train",
                                                .batch_size = ITEMS_AT_ONCE,
                                                .columns = &column,
                                                .n_columns = 1,
                                                .once = true};
    rk_batch_with_texts batch;
    RK_AUTO(rk_rows_with_texts_auto_free) rk_rows_with_texts *rows = NULL;
    g->is_wanted = true;
    RK_TRY(rk_rows_with_texts_open(&p->config->data, g->choice->transforms, &options, &rows));
    rk_status status;
    while ((status = rk_rows_with_texts_next(rows, &batch)) == RK_OK)
        for (int64_t i = 0; i < batch.batch->n; i++) RK_TRY(choose_item_of_line(g, batch.texts[i]));
    return status == RK_END ? RK_OK : status;
}

static rk_status add_known_items(choosing *g, const rk_interactions *known) {
    char scratch[RK_I64_BYTES];
    rk_span name;
    for (int64_t id = 0; id < g->choice->n_ids; id++)
        if (known->counts[id] > 0 &&
            rk_transforms_value_of_id(g->choice->transforms, g->choice->feature, id, scratch, &name))
            RK_TRY(add_id(g, id, -1));
    return RK_OK;
}

static int compare_items(const void *a, const void *b) {
    const named_item *x = a, *y = b;
    uint64_t rank_x = rk_key_rank(x->id), rank_y = rk_key_rank(y->id);
    return rank_x != rank_y ? (rank_x > rank_y) - (rank_x < rank_y)
                            : (x->order > y->order) - (x->order < y->order);
}

/* The id that an index has for an item. */
static int64_t index_id(const rk_item_choice *c, int64_t id) {
    return c->has_keys ? id & INT64_MAX : id;
}

/* Each item once, if it is wanted where it was read last, by the name that it has first. */
static size_t merge_items(choosing *g) {
    size_t n = 0;
    if (g->n) qsort(g->items, g->n, sizeof *g->items, compare_items);
    for (size_t i = 0, end; i < g->n; i = end) {
        named_item item = g->items[i];
        for (end = i + 1; end < g->n && g->items[end].id == item.id; end++) {
            item.is_wanted = g->items[end].is_wanted;
            if (item.text < 0) item.text = g->items[end].text;
        }
        if (item.is_wanted) g->items[n++] = item;
    }
    return n;
}

/* The chosen items by their places. */
static rk_status place_items(choosing *g) {
    rk_item_choice *c = g->choice;
    size_t n = merge_items(g);
    RK_FAIL_IF(n == 0, RK_BAD_DATA, "no item is left to recommend");
    RK_TRY(rk_alloc(n, sizeof *c->ids, &c->ids));
    if (c->has_keys) RK_TRY(rk_alloc(n, sizeof *c->keys, &c->keys));
    if (g->keeps_names) RK_TRY(rk_alloc(n, sizeof *c->text_of, &c->text_of));
    c->n = (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        c->ids[i] = index_id(c, g->items[i].id);
        if (c->keys) c->keys[i] = g->items[i].id;
        if (c->text_of) c->text_of[i] = g->items[i].text;
    }
    return RK_OK;
}

static rk_status choose_items(const rk_predictor *p, const rk_recommend_options *o,
                              const rk_interactions *known, rk_item_choice *out) {
    const rk_transforms *t = p->config->transforms;
    rk_pair_features pair;
    char scratch[RK_I64_BYTES];
    rk_span name;
    RK_AUTO(release_choosing) choosing g = {.choice = out, .is_wanted = true};
    RK_TRY(rk_config_pair_features(p->config, rk_transforms_schema(t), &pair));
    *out = (rk_item_choice){.transforms = t,
                            .feature = rk_transforms_find_feature(t, p->config->model.retrieval.item),
                            .n_ids = rk_transforms_schema(t)->features[pair.item].cardinality};
    out->has_keys = out->n_ids == 0;
    g.keeps_names = !rk_transforms_value_of_id(t, out->feature, out->n_ids - 1, scratch, &name);
    if (o->items)
        RK_TRY(choose_items_of_file(&g, o->items, true));
    else
        RK_TRY(g.keeps_names ? read_names_of_hashed_items(p, &g) : add_known_items(&g, known));
    if (o->without_items) RK_TRY(choose_items_of_file(&g, o->without_items, false));
    return place_items(&g);
}

/* Only items with rows stay; the others are counted. */
static rk_status keep_items(rk_item_choice *c, const bool *has_row, rk_unknown_values *missing) {
    int64_t n = 0;
    char scratch[RK_I64_BYTES];
    for (int64_t place = 0; place < c->n; place++) {
        if (!has_row[place]) {
            RK_TRY(rk_unknown_values_add(missing, rk_item_choice_name(c, place, scratch)));
            continue;
        }
        c->ids[n] = c->ids[place];
        c->keys[n] = c->keys[place];
        c->text_of[n++] = c->text_of[place];
    }
    c->n = n;
    return RK_OK;
}

/* What the model knows nothing of is not recommended: it has one vector for all of these. */
static rk_status leave_out_items(const rk_predictor *p, rk_item_choice *c, const bool *has_row) {
    RK_AUTO(rk_unknown_values_release) rk_unknown_values missing = {0};
    long long n = (long long)c->n;
    RK_TRY(keep_items(c, has_row, &missing));
    if (missing.n == 0) return RK_OK;
    const char *names = rk_unknown_values_text(&missing);
    RK_FAIL_IF(
        c->n == 0, RK_BAD_DATA,
        "none of the %lld items has a row in the model's table: %s\nhint: an item is named as the column "
        "'%s' of the run's data has it",
        n, names, item_column_name(c));
    if (rk_predictor_is_first_rank(p))
        rk_log(RK_LOG_WARNING, "%lld of %lld items have no row in the model's table and are left out: %s",
               (long long)missing.n, n, names);
    return RK_OK;
}

static rk_status keep_items_with_rows(const rk_predictor *p, rk_item_choice *c) {
    RK_AUTOFREE bool *has_row = NULL;
    RK_TRY(rk_comm_agree_on_status(p->comm, rk_alloc((size_t)c->n, sizeof *has_row, &has_row)));
    RK_TRY(rk_model_find_item_rows(p->model, c->keys, c->n, has_row));
    return rk_comm_agree_on_status(p->comm, leave_out_items(p, c, has_row));
}

rk_status rk_item_choice_make(const rk_predictor *p, const rk_recommend_options *o,
                              const rk_interactions *known, rk_item_choice *out) {
    RK_TRY(rk_comm_agree_on_status(p->comm, choose_items(p, o, known, out)));
    return out->has_keys ? keep_items_with_rows(p, out) : RK_OK;
}

int64_t rk_item_choice_place_of_index(const rk_item_choice *c, int64_t id) {
    return rk_sorted_find(c->ids, c->n, id);
}

int64_t rk_item_choice_place(const rk_item_choice *c, int64_t id) {
    int64_t place = rk_item_choice_place_of_index(c, index_id(c, id));
    if (place >= 0 && rk_item_choice_id(c, place) != id) place++; /* of two keys with these bits */
    return place >= 0 && place < c->n && rk_item_choice_id(c, place) == id ? place : -1;
}

rk_status rk_item_choice_check_index(const rk_item_choice *c) {
    char scratch[2][RK_I64_BYTES];
    for (int64_t place = 1; place < c->n; place++) {
        if (c->ids[place] != c->ids[place - 1]) continue;
        rk_span a = rk_item_choice_name(c, place - 1, scratch[0]),
                b = rk_item_choice_name(c, place, scratch[1]);
        return rk_error_hint(
            rk_error(
                RK_UNSUPPORTED,
                "the items '%.*s' and '%.*s' have keys with the same low 63 bits, and an index has no more",
                rk_span_printed_bytes(a), a.data, rk_span_printed_bytes(b), b.data),
            "leave one of them out (--items)");
    }
    return RK_OK;
}

void rk_item_choice_release(rk_item_choice *c) {
    RK_FREE_ALL(c->ids, c->keys, c->text_of);
    rk_vocabulary_release(&c->texts);
    *c = (rk_item_choice){0};
}

rk_span rk_item_choice_name(const rk_item_choice *c, int64_t place, char scratch[RK_I64_BYTES]) {
    rk_span name = {"", 0};
    if (c->text_of) return rk_vocabulary_text(&c->texts, (size_t)c->text_of[place]);
    rk_transforms_value_of_id(c->transforms, c->feature, c->ids[place], scratch, &name);
    return name;
}

rk_status rk_item_reader_init(rk_model *model, const rk_item_choice *choice, rk_item_reader *out) {
    *out = (rk_item_reader){.model = model, .choice = choice};
    RK_TRY(rk_alloc(ITEMS_AT_ONCE, sizeof *out->ids, &out->ids));
    return rk_alloc((size_t)ITEMS_AT_ONCE * (size_t)rk_model_vector_dim(model), sizeof *out->vectors,
                    &out->vectors);
}

void rk_item_reader_release(rk_item_reader *r) {
    RK_FREE_ALL(r->ids, r->vectors);
    *r = (rk_item_reader){0};
}

/* All ids are read in the blocks that an evaluation reads, so that an item's vector has the same bits. */
static rk_status read_vectors_of_ids(rk_item_reader *r, int64_t first) {
    int64_t left = r->choice->n_ids - first;
    r->first_id = first;
    r->n_vectors = left < ITEMS_AT_ONCE ? left : (int64_t)ITEMS_AT_ONCE;
    for (int64_t i = 0; i < r->n_vectors; i++) r->ids[i] = first + i;
    return rk_model_item_vectors(r->model, r->ids, r->n_vectors, r->vectors);
}

rk_status rk_item_reader_read_vectors(void *context, int64_t first, int64_t n, float *rows) {
    rk_item_reader *r = context;
    const rk_item_choice *c = r->choice;
    const int64_t dim = rk_model_vector_dim(r->model);
    if (c->has_keys) return rk_model_item_vectors(r->model, c->keys + first, n, rows);
    for (int64_t i = 0; i < n; i++) {
        int64_t id = c->ids[first + i];
        if (id >= r->first_id + r->n_vectors || id < r->first_id)
            RK_TRY(read_vectors_of_ids(r, id / ITEMS_AT_ONCE * ITEMS_AT_ONCE));
        memcpy(rows + i * dim, r->vectors + (id - r->first_id) * dim, (size_t)dim * sizeof *rows);
    }
    return RK_OK;
}
