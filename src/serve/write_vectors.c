/* Vectors of users or items as a file, and their names beside it. */
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "base/struct_size.h"
#include "base/thread/parallel.h"
#include "comm/comm.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "serve/recommend_internal.h"

typedef struct rk_named_vectors {
    float *values; /* [n, dim] */
    size_t capacity;
    int64_t n, dim;
    rk_buffer names; /* one a line */
} rk_named_vectors;

static void release_vectors(rk_named_vectors *v) {
    rk_free(v->values);
    rk_buffer_release(&v->names);
}

static rk_status add_vector_name(rk_named_vectors *v, rk_span name) {
    RK_FAIL_IF(memchr(name.data, '\n', name.n_bytes), RK_BAD_DATA,
               "a name has a line end, but names are written one a line: '%.*s'", rk_span_printed_bytes(name),
               name.data);
    rk_buffer_append(&v->names, name.data, name.n_bytes);
    rk_buffer_append_u8(&v->names, '\n');
    return v->names.status;
}

static rk_status compute_item_vectors(rk_predictor *p, const rk_item_choice *items, rk_named_vectors *v) {
    RK_AUTO(rk_item_reader_release) rk_item_reader reader = {0};
    rk_status status;
    char scratch[RK_I64_BYTES];
    RK_GOTO(rk_item_reader_init(p->model, items, &reader));
    RK_GOTO(rk_alloc((size_t)(items->n * v->dim), sizeof *v->values, &v->values));
    for (int64_t i = 0; i < items->n; i++)
        RK_GOTO(add_vector_name(v, rk_item_choice_name(items, i, scratch)));
done:
    RK_TRY(rk_comm_agree_on_status(p->comm, status));
    v->n = items->n;
    return rk_item_reader_read_vectors(&reader, 0, v->n, v->values);
}

static rk_status read_next_users(rk_user_rows *users, rk_named_vectors *v, rk_batch_with_texts *batch) {
    RK_TRY(rk_user_rows_next(users, batch));
    for (int64_t i = 0; i < batch->batch->n; i++) RK_TRY(add_vector_name(v, batch->texts[i]));
    return rk_reserve(&v->values, &v->capacity, (size_t)((v->n + batch->batch->n) * v->dim),
                      sizeof *v->values);
}

static rk_status compute_user_vectors(rk_predictor *p, rk_user_rows *users, rk_named_vectors *v) {
    rk_batch_with_texts batch;
    rk_status status;
    while ((status = rk_comm_agree_on_status(p->comm, read_next_users(users, v, &batch))) == RK_OK) {
        RK_TRY(rk_model_user_vectors(p->model, batch.batch, v->values + v->n * v->dim));
        v->n += batch.batch->n;
    }
    return status == RK_END ? RK_OK : status;
}

static rk_status write_safetensors(const char *path, rk_named_vectors *v) {
    RK_AUTO(rk_state_dict_release) rk_state_dict state = {0};
    uint32_t crc;
    uint64_t n_bytes;
    RK_TRY(rk_state_dict_add(&state, "vectors", RK_F32, v->n, v->dim, v->values));
    return rk_safetensors_write(path, &state, &crc, &n_bytes);
}

/* The names first: where the vectors are, they are. */
static rk_status write_names_and_vectors(const char *path, rk_named_vectors *v) {
    const bool is_npy = rk_has_ending(path, ".npy");
    const int stem = (int)(strlen(path) - strlen(is_npy ? ".npy" : ".safetensors"));
    RK_AUTO(rk_buffer_release) rk_buffer names = {0};
    rk_buffer_printf(&names, "%.*s.ids.txt", stem, path);
    RK_TRY(names.status);
    RK_TRY(rk_file_write(names.data, v->names.data, v->names.n_bytes));
    return is_npy ? rk_npy_write(path, v->values, v->n, v->dim) : write_safetensors(path, v);
}

static rk_status check_vector_options(const rk_predictor *p, const rk_recommend_options *o) {
    RK_FAIL_IF(!rk_predictor_can_retrieve(p), RK_UNSUPPORTED,
               "only a two_tower has vectors of users and items");
    RK_FAIL_IF(!o->output || (!rk_has_ending(o->output, ".npy") && !rk_has_ending(o->output, ".safetensors")),
               RK_INVALID_ARGUMENT, "vectors are written as .npy or .safetensors, not to '%s'",
               o->output ? o->output : "standard output");
    return RK_OK;
}

static rk_status compute_vectors(rk_predictor *p, bool of_items, const rk_recommend_options *o,
                                 rk_named_vectors *v) {
    RK_AUTO(rk_item_choice_release) rk_item_choice items = {0};
    RK_AUTO(rk_user_rows_release) rk_user_rows users = {0};
    rk_interactions *known = NULL;
    RK_TRY(rk_comm_agree_on_status(
        p->comm, of_items && o->items ? RK_OK : rk_config_load_interactions(p->config, &known)));
    if (of_items) {
        RK_TRY(rk_item_choice_make(p, o, known, &items));
        return compute_item_vectors(p, &items, v);
    }
    RK_TRY(
        rk_comm_agree_on_status(p->comm, rk_user_rows_open(p, o->users ? o->users : "train", known, &users)));
    return compute_user_vectors(p, &users, v);
}

static rk_status compute_and_write_vectors(rk_predictor *p, bool of_items, const rk_recommend_options *o,
                                           int64_t *n) {
    RK_AUTO(release_vectors) rk_named_vectors v = {.dim = rk_model_vector_dim(p->model)};
    RK_TRY(check_vector_options(p, o));
    RK_TRY(rk_recommend_check_same_on_ranks(p, o));
    RK_TRY(compute_vectors(p, of_items, o, &v));
    RK_TRY(rk_comm_agree_on_status(
        p->comm, rk_predictor_is_first_rank(p) ? write_names_and_vectors(o->output, &v) : RK_OK));
    if (n) *n = v.n;
    return RK_OK;
}

rk_status rk_predictor_write_vectors(rk_predictor *p, bool of_items, const rk_recommend_options *options,
                                     int64_t *n) {
    rk_recommend_options o = RK_RECOMMEND_OPTIONS_INIT;
    RK_TRY(rk_recommend_options_copy_in(&o, options));
    rk_status status;
    RK_ON_POOL(p->pool, status = compute_and_write_vectors(p, of_items, &o, n));
    return status;
}
