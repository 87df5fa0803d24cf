/* Rows and gradients between GPUs. What has the layout of the wire in memory is sent from there and received
 * there; the rest is staged. */
#include "embedding/cuda_sharded/device_sharded_internal.h"

/* This trainer's side of a stream. */
typedef struct here {
    const rk_table_shard_stream *stream;
    const rk_table_shard *shard;
    int64_t n;
    rk_device_buffer *staged;
    rk_cuda_rows_at values; /* its columns of the table's values */
} here;

static here values_at_trainer(const rk_device_sharded *ds, rk_in_flight_batch *j, int32_t number) {
    const rk_sharded *s = ds->sharded;
    here h = {.stream = &s->streams[number], .staged = &ds->staged_here[number]};
    h.shard = &s->shards[h.stream->shard];
    int32_t dim = s->trainer_tables->tables[h.shard->table].config.dim;
    h.n = rk_in_flight_batch_stream_count(s, j, h.stream);
    float *first = (float *)(void *)ds->values[h.shard->table].data;
    h.values = (rk_cuda_rows_at){
        first ? first + rk_in_flight_batch_stream_offset(s, j, h.stream) * dim + h.shard->first_column : NULL,
        dim, RK_F32};
    return h;
}

static bool rows_need_no_conversion(const here *h) {
    return h->stream->rows_wire == RK_F32 && h->values.stride == h->shard->dim;
}

/* Bags' gradients are not among the values. */
static bool gradients_need_no_conversion(const here *h) {
    return h->stream->gradients_wire == RK_F32 && h->values.stride == h->shard->dim && h->stream->feature < 0;
}

static size_t wire_bytes(int64_t n, const rk_table_shard *shard, rk_dtype wire) {
    return (size_t)n * (size_t)shard->dim * rk_dtype_bytes(wire);
}

/* The owner's side. */
typedef struct there {
    const rk_table_shard_stream *stream;
    const rk_table_shard *shard;
    int64_t n;
    rk_device_buffer *served, *staged;
} there;

static there values_at_owner(const rk_device_sharded *ds, const rk_in_flight_batch *j, int32_t trainer,
                             int32_t i) {
    const rk_sharded *s = ds->sharded;
    int32_t f = rk_sharded_stored_feature(s, trainer, i);
    there t = {.stream = &s->streams[s->streams_of[s->rank][i]],
               .n = j->counts[f],
               .served = &ds->served[f],
               .staged = &ds->staged_there[f]};
    t.shard = &s->shards[t.stream->shard];
    return t;
}

static rk_cuda_rows_at packed_rows_of_buffer(const rk_device_buffer *buffer, const rk_table_shard *shard,
                                             rk_dtype dtype) {
    return (rk_cuda_rows_at){buffer->data, shard->dim, dtype};
}

/* Work that uses the old memory may be under way. */
static rk_status grow_buffer(rk_device_sharded *ds, rk_device_buffer *buffer, size_t n_bytes, bool *grown) {
    if (n_bytes <= buffer->n_bytes) return RK_OK;
    if (ds->stream) RK_TRY(rk_device_comm_wait(ds->comm, ds->stream));
    rk_device_free(ds->device, buffer->data);
    *buffer = (rk_device_buffer){0};
    n_bytes += n_bytes / 4;
    RK_TRY(rk_device_alloc(ds->device, n_bytes, &buffer->data));
    buffer->n_bytes = n_bytes;
    if (grown) *grown = true;
    return RK_OK;
}

static rk_status reserve_trainer_values(rk_device_sharded *ds, const rk_in_flight_batch *j) {
    const rk_embeddings *e = ds->sharded->trainer_tables;
    bool grown = false;
    for (int32_t t = 0; t < e->n_tables; t++) {
        size_t row_bytes = (size_t)e->tables[t].config.dim * sizeof(float);
        int64_t n = j->unique[t].n ? j->unique[t].n : 1; /* lookups of no row read one all the same */
        RK_TRY(grow_buffer(ds, &ds->values[t], (size_t)n * row_bytes, &grown));
        ds->lent[t] = (float *)(void *)ds->values[t].data;
        ds->n_lent[t] = (int64_t)(ds->values[t].n_bytes / row_bytes);
    }
    return grown ? rk_device_tables_borrow_rows(ds->trainer_tables, ds->lent, ds->n_lent) : RK_OK;
}

static bool is_stream_answered(const rk_device_sharded *ds, const there *t, int32_t trainer) {
    return rk_table_shard_stream_answers(ds->sharded, t->stream, trainer, ds->sharded->rank);
}

/* What is not answered is not looked up. */
static rk_status reserve_owner_values(rk_device_sharded *ds, const rk_in_flight_batch *j) {
    const rk_sharded *s = ds->sharded;
    bool grown = false;
    for (int32_t r = 0; r < s->size; r++)
        for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++) {
            there t = values_at_owner(ds, j, r, i);
            int32_t f = rk_sharded_stored_feature(s, r, i);
            RK_TRY(grow_buffer(ds, t.served, wire_bytes(t.n, t.shard, RK_F32), &grown));
            if (t.stream->rows_wire != RK_F32 || t.stream->gradients_wire != RK_F32)
                RK_TRY(grow_buffer(ds, t.staged, wire_bytes(t.n, t.shard, RK_BF16), NULL));
            ds->gradients_at[f] = ds->served_at[f] =
                (rk_activation){(float *)(void *)t.served->data, t.shard->dim, NULL};
            if (!is_stream_answered(ds, &t, r)) ds->served_at[f].data = NULL;
        }
    if (grown) rk_device_tables_unbind_activations(ds->store);
    return RK_OK;
}

rk_status rk_device_sharded_reserve_buffers(rk_device_sharded *ds, rk_in_flight_batch *j) {
    const rk_sharded *s = ds->sharded;
    RK_TRY(reserve_trainer_values(ds, j));
    for (int32_t i = 0; i < s->n_streams; i++) {
        here h = values_at_trainer(ds, j, i);
        if (!rows_need_no_conversion(&h))
            RK_TRY(grow_buffer(ds, h.staged, wire_bytes(h.n, h.shard, h.stream->rows_wire), NULL));
        if (!gradients_need_no_conversion(&h))
            RK_TRY(grow_buffer(ds, h.staged, wire_bytes(h.n, h.shard, h.stream->gradients_wire), NULL));
    }
    return reserve_owner_values(ds, j);
}

/* The list of what goes between this trainer and the owners, rows or gradients. */
static size_t list_trainer_messages(const rk_device_sharded *ds, rk_in_flight_batch *j, bool rows,
                                    rk_device_message *out) {
    const rk_sharded *s = ds->sharded;
    size_t n = 0;
    for (int32_t owner = 0; owner < s->size; owner++)
        for (int32_t i = 0; i < s->n_streams_of[owner]; i++) {
            here h = values_at_trainer(ds, j, s->streams_of[owner][i]);
            bool travels =
                     rows ? rk_table_shard_stream_answers(s, h.stream, s->rank, owner) : h.stream->trainable,
                 plain = rows ? rows_need_no_conversion(&h) : gradients_need_no_conversion(&h);
            if (travels && h.n)
                out[n++] = (rk_device_message){
                    owner, plain ? h.values.data : h.staged->data,
                    wire_bytes(h.n, h.shard, rows ? h.stream->rows_wire : h.stream->gradients_wire)};
        }
    return n;
}

/* And between this owner and the trainers. */
static size_t list_owner_messages(const rk_device_sharded *ds, const rk_in_flight_batch *j, bool rows,
                                  rk_device_message *out) {
    const rk_sharded *s = ds->sharded;
    size_t n = 0;
    for (int32_t r = 0; r < s->size; r++)
        for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++) {
            there t = values_at_owner(ds, j, r, i);
            rk_dtype wire = rows ? t.stream->rows_wire : t.stream->gradients_wire;
            bool travels = rows ? is_stream_answered(ds, &t, r) : t.stream->trainable;
            if (travels && t.n)
                out[n++] = (rk_device_message){r, wire == RK_F32 ? t.served->data : t.staged->data,
                                               wire_bytes(t.n, t.shard, wire)};
        }
    return n;
}

/* Between what was served and what is on the wire. */
static void convert_owner_rows(const rk_device_sharded *ds, const rk_in_flight_batch *j, bool rows,
                               rk_stream *stream) {
    const rk_sharded *s = ds->sharded;
    for (int32_t r = 0; r < s->size; r++)
        for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++) {
            there t = values_at_owner(ds, j, r, i);
            rk_dtype wire = rows ? t.stream->rows_wire : t.stream->gradients_wire;
            rk_cuda_rows_at own = packed_rows_of_buffer(t.served, t.shard, RK_F32),
                            other = packed_rows_of_buffer(t.staged, t.shard, wire);
            if (wire != RK_F32 && (rows ? is_stream_answered(ds, &t, r) : t.stream->trainable))
                rk_cuda_convert_rows(stream, t.n, t.shard->dim, rows ? &own : &other, rows ? &other : &own);
        }
}

static void unpack_received_rows(const rk_device_sharded *ds, rk_in_flight_batch *j, rk_stream *stream) {
    for (int32_t i = 0; i < ds->sharded->n_streams; i++) {
        here h = values_at_trainer(ds, j, i);
        rk_cuda_rows_at staged = packed_rows_of_buffer(h.staged, h.shard, h.stream->rows_wire);
        if (!rows_need_no_conversion(&h)) rk_cuda_convert_rows(stream, h.n, h.shard->dim, &staged, &h.values);
    }
}

static void stage_gradients(const rk_device_sharded *ds, rk_in_flight_batch *j,
                            const rk_activation *gradients, rk_stream *stream) {
    for (int32_t i = 0; i < ds->sharded->n_streams; i++) {
        here h = values_at_trainer(ds, j, i);
        rk_cuda_rows_at from = h.values,
                        staged = packed_rows_of_buffer(h.staged, h.shard, h.stream->gradients_wire);
        if (h.stream->feature >= 0)
            from = (rk_cuda_rows_at){gradients[h.stream->feature].data + h.shard->first_column,
                                     gradients[h.stream->feature].stride, RK_F32};
        if (h.stream->trainable && !gradients_need_no_conversion(&h))
            rk_cuda_convert_rows(stream, h.n, h.shard->dim, &from, &staged);
    }
}

rk_status rk_device_sharded_fetch_rows(rk_device_store *store, rk_stream *stream) {
    rk_device_sharded *ds = (rk_device_sharded *)store;
    rk_in_flight_batch *j = rk_sharded_batch_at(ds->sharded, ds->sharded->finished);
    ds->stream = stream;
    ds->sharded->keys = j->keys;
    RK_TRY(rk_device_tables_prepare_batch(ds->trainer_tables, stream));
    RK_TRY(rk_device_tables_prepare_batch(ds->store, stream));
    RK_TRY(rk_device_tables_lookup(ds->store, stream, ds->served_at));
    convert_owner_rows(ds, j, true, stream);
    size_t n_send = list_owner_messages(ds, j, true, ds->send),
           n_receive = list_trainer_messages(ds, j, true, ds->receive);
    RK_TRY(rk_device_comm_all_to_all(ds->comm, stream, ds->send, n_send, ds->receive, n_receive));
    unpack_received_rows(ds, j, stream);
    return RK_OK;
}

rk_status rk_device_sharded_apply_gradients(rk_device_store *store, rk_stream *stream,
                                            const rk_activation *gradients, const uint32_t *stop) {
    rk_device_sharded *ds = (rk_device_sharded *)store;
    rk_in_flight_batch *j = rk_sharded_batch_at(ds->sharded, ds->sharded->finished);
    stage_gradients(ds, j, gradients, stream);
    size_t n_send = list_trainer_messages(ds, j, false, ds->send),
           n_receive = list_owner_messages(ds, j, false, ds->receive);
    RK_TRY(rk_device_comm_all_to_all(ds->comm, stream, ds->send, n_send, ds->receive, n_receive));
    convert_owner_rows(ds, j, false, stream);
    return rk_device_tables_apply_gradients(ds->store, stream, ds->gradients_at, stop);
}
