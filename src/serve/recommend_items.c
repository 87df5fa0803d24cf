/* Which items may be recommended, what the data calls them, and their vectors. */
#include <string.h>

#include "base/file/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "serve/recommend_internal.h"

enum { ITEMS_AT_ONCE = 8192, SHOWN = 5 };

rk_status rk_unknown_values_add(rk_unknown_values *u, rk_span value) {
    int shown = rk_span_message_bytes(value);
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

static const char *item_column(const rk_item_choice *c) {
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

/* Items while they are chosen. */
typedef struct choosing {
    rk_item_choice *choice;
    bool *chosen;     /* [n_ids] */
    bool is_wanted;   /* what the lines of the file at hand are */
    int64_t *text_of; /* [n_ids]: a name, or -1; NULL: names are not kept */
    int64_t n_lines;
    rk_unknown_values unknown;
} choosing;

static void release_choosing(choosing *g) {
    RK_FREE_ALL(g->chosen, g->text_of);
    rk_unknown_values_release(&g->unknown);
}

static rk_status add_item(void *context, rk_span text) {
    choosing *g = context;
    int64_t id = rk_transforms_id_of(g->choice->transforms, g->choice->feature, text), number;
    g->n_lines++;
    if (id < 0) return rk_unknown_values_add(&g->unknown, text);
    g->chosen[id] = g->is_wanted;
    if (!g->text_of || !g->is_wanted || g->text_of[id] >= 0) return RK_OK;
    RK_TRY(rk_vocabulary_add(&g->choice->texts, text, 1, &number));
    g->text_of[id] = number;
    return RK_OK;
}

static rk_status add_items_of_file(choosing *g, const char *path, bool is_wanted) {
    g->is_wanted = is_wanted;
    g->n_lines = 0;
    RK_TRY(for_each_line(path, add_item, g));
    const char *names = g->unknown.n ? rk_unknown_values_text(&g->unknown) : "";
    RK_FAIL_IF(
        is_wanted && g->unknown.n == g->n_lines, RK_BAD_DATA,
        "'%s': the model knows none of the %lld items: %s\nhint: an item a line, as the column '%s' of "
        "the run's data has it",
        path, (long long)g->n_lines, names, item_column(g->choice));
    if (g->unknown.n)
        rk_log(RK_LOG_WARNING, "'%s': the model does not know %lld of %lld items: %s", path,
               (long long)g->unknown.n, (long long)g->n_lines, names);
    rk_unknown_values_release(&g->unknown);
    return RK_OK;
}

/* Names of hashed items are those of the training data; that of several in one bucket is the first one's. */
static rk_status read_names(const rk_predictor *p, choosing *g) {
    const char *column = item_column(g->choice);
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
        for (int64_t i = 0; i < batch.batch->n; i++) RK_TRY(add_item(g, batch.texts[i]));
    return status == RK_END ? RK_OK : status;
}

/* The chosen items by their places. */
static rk_status index_chosen_items(choosing *g) {
    rk_item_choice *c = g->choice;
    for (int64_t id = 0; id < c->n_ids; id++) c->n += g->chosen[id];
    RK_FAIL_IF(c->n == 0, RK_BAD_DATA, "no item is left to recommend");
    RK_TRY(rk_alloc((size_t)c->n, sizeof *c->ids, &c->ids));
    RK_TRY(rk_alloc((size_t)c->n_ids, sizeof *c->places, &c->places));
    if (g->text_of) RK_TRY(rk_alloc((size_t)c->n, sizeof *c->text_of, &c->text_of));
    for (int64_t id = 0, place = 0; id < c->n_ids; id++) {
        c->places[id] = g->chosen[id] ? place : -1;
        if (!g->chosen[id]) continue;
        c->ids[place] = id;
        if (g->text_of) c->text_of[place] = g->text_of[id];
        place++;
    }
    return RK_OK;
}

rk_status rk_item_choice_make(const rk_predictor *p, const rk_recommend_options *o,
                              const rk_interactions *known, rk_item_choice *out) {
    const rk_transforms *t = p->config->transforms;
    rk_pair_features pair;
    char scratch[RK_I64_BYTES];
    rk_span name;
    RK_AUTO(release_choosing) choosing g = {.choice = out};
    RK_TRY(rk_config_pair_features(p->config, rk_transforms_schema(t), &pair));
    *out = (rk_item_choice){.transforms = t,
                            .feature = rk_transforms_find_feature(t, p->config->model.retrieval.item),
                            .n_ids = rk_transforms_schema(t)->features[pair.item].cardinality};
    bool say_names = rk_transforms_value_of(t, out->feature, out->n_ids - 1, scratch, &name);
    RK_TRY(rk_alloc((size_t)out->n_ids, sizeof *g.chosen, &g.chosen));
    if (!say_names) RK_TRY(rk_alloc((size_t)out->n_ids, sizeof *g.text_of, &g.text_of));
    for (int64_t id = 0; id < out->n_ids; id++) {
        if (g.text_of) g.text_of[id] = -1;
        g.chosen[id] = !o->items && say_names && known->counts[id] > 0 &&
                       rk_transforms_value_of(t, out->feature, id, scratch, &name);
    }
    if (o->items)
        RK_TRY(add_items_of_file(&g, o->items, true));
    else if (!say_names)
        RK_TRY(read_names(p, &g));
    if (o->without_items) RK_TRY(add_items_of_file(&g, o->without_items, false));
    return index_chosen_items(&g);
}

void rk_item_choice_release(rk_item_choice *c) {
    RK_FREE_ALL(c->ids, c->places, c->text_of);
    rk_vocabulary_release(&c->texts);
    *c = (rk_item_choice){0};
}

rk_span rk_item_choice_name(const rk_item_choice *c, int64_t place, char scratch[RK_I64_BYTES]) {
    rk_span name = {"", 0};
    if (c->text_of) return rk_vocabulary_text(&c->texts, (size_t)c->text_of[place]);
    rk_transforms_value_of(c->transforms, c->feature, c->ids[place], scratch, &name);
    return name;
}

rk_status rk_item_reader_init(rk_model *model, const rk_item_choice *choice, rk_item_reader *out) {
    *out = (rk_item_reader){.model = model, .choice = choice};
    return rk_alloc((size_t)ITEMS_AT_ONCE * (size_t)rk_model_vector_dim(model), sizeof *out->vectors,
                    &out->vectors);
}

void rk_item_reader_release(rk_item_reader *r) {
    rk_free(r->vectors);
    *r = (rk_item_reader){0};
}

/* All ids are read in the blocks that an evaluation reads, so that an item's vector has the same bits. */
rk_status rk_item_reader_rows(void *context, int64_t first, int64_t n, float *rows) {
    rk_item_reader *r = context;
    const rk_item_choice *c = r->choice;
    const int64_t dim = rk_model_vector_dim(r->model);
    for (int64_t i = 0; i < n; i++) {
        int64_t id = c->ids[first + i];
        if (id >= r->first_id + r->n_vectors || id < r->first_id) {
            int64_t begin = id / ITEMS_AT_ONCE * ITEMS_AT_ONCE, left = c->n_ids - begin;
            r->first_id = begin;
            r->n_vectors = left < ITEMS_AT_ONCE ? left : (int64_t)ITEMS_AT_ONCE;
            RK_TRY(rk_model_item_vectors(r->model, begin, r->n_vectors, r->vectors));
        }
        memcpy(rows + i * dim, r->vectors + (id - r->first_id) * dim, (size_t)dim * sizeof *rows);
    }
    return RK_OK;
}
