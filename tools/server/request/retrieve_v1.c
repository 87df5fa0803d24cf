#include "server/request/retrieve_v1.h"

#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "base/memory.h"
#include "format/json_writer.h"

/* Items that are listed for users who are searched together. */
enum { MOST_EXCLUDED = 1 << 20, MOST_ITEMS = 100 };

static rk_status read_list_of_items_once(rk_json *json, rk_span *list) {
    rk_json_kind kind;
    if (list->data) return rk_json_error(json, "a list of items is given twice");
    RK_TRY(rk_json_peek_kind(json, &kind));
    if (kind != RK_JSON_ARRAY) return rk_json_error(json, "items are a list");
    return rk_json_skip_value(json, list);
}

static rk_status read_k(rk_json *json, int64_t *k) {
    RK_TRY(rk_json_read_i64(json, k));
    return *k < 1 ? rk_json_error(json, "\"k\" must be 1 or more") : RK_OK;
}

rk_status rk_read_retrieve_request(rk_call *call, const rk_call_limits *limits, rk_json *json,
                                   rk_request_rows *rows, size_t n_before) {
    rk_span key, context = {0}, given = {0};
    call->k = MOST_ITEMS;
    call->exclude = call->filter = (rk_span){0};
    call->with_known = false;
    rk_json_begin_document(json, call->body, limits->max_depth);
    RK_TRY(rk_json_open_object(json));
    while (rk_json_next_key(json, &key)) {
        if (rk_span_equal(key, "instances")) {
            if (given.data) return rk_json_error(json, "rows are given twice");
            given.data = json->at;
            RK_TRY(rk_read_request_rows(call, limits, json, (rk_span){0}, rows, n_before));
            given.n_bytes = (size_t)(json->at - given.data);
        } else if (rk_span_equal(key, "context")) {
            if (context.data) return rk_json_error(json, "\"context\" is given twice");
            RK_TRY(rk_json_skip_value(json, &context));
        } else if (rk_span_equal(key, "k")) {
            RK_TRY(read_k(json, &call->k));
        } else if (rk_span_equal(key, "exclude") || rk_span_equal(key, "filter")) {
            RK_TRY(
                read_list_of_items_once(json, rk_span_equal(key, "filter") ? &call->filter : &call->exclude));
        } else if (rk_span_equal(key, "with_known")) {
            RK_TRY(rk_json_read_bool(json, &call->with_known));
        } else {
            return rk_json_error(json, "the request has a key that is not known");
        }
    }
    RK_TRY(rk_json_check_end(json));
    RK_FAIL_IF(!given.data && !context.data, RK_BAD_DATA,
               "the request has no \"context\" and no \"instances\"");
    call->form = given.data ? RK_FORM_ROWS : RK_FORM_COLUMNS;
    if (!given.data) call->n_rows = 1;
    return context.data ? rk_copy_context_to_rows(call, limits, context, given, rows, n_before) : RK_OK;
}

/* Each once, in their order. */
static void sort_unique_items(rk_item_list *list) {
    int64_t n = 0;
    qsort(list->items, (size_t)list->n, sizeof *list->items, rk_compare_i64);
    for (int64_t i = 0; i < list->n; i++)
        if (i == 0 || list->items[i] != list->items[i - 1]) list->items[n++] = list->items[i];
    list->n = n;
}

/* The items of a JSON list; NULL: of none. Names that the model does not know are passed over: a shop's list
 * may be newer. */
static rk_status read_item_list(const rk_call *call, const rk_call_limits *limits, const char *what,
                                rk_span names, rk_item_list *out) {
    RK_AUTO(rk_json_release) rk_json json = {0};
    out->n = 0;
    RK_TRY(rk_reserve(&out->items, &out->capacity, 1, sizeof *out->items));
    if (!names.data) return RK_OK;
    rk_json_begin_part(&json, call->body, names, limits->max_depth);
    RK_TRY(rk_json_open_array(&json));
    while (rk_json_next_item(&json)) {
        rk_json_kind kind;
        rk_span name;
        RK_TRY(rk_json_peek_kind(&json, &kind));
        rk_status status = rk_request_read_scalar(&json, kind, &name);
        if (status != RK_OK) return rk_error_context(status, "%s", what);
        if (kind == RK_JSON_NULL) continue;
        int64_t item = rk_item_catalog_find(call->version->catalog, name.data, name.n_bytes);
        if (item < 0) continue;
        RK_TRY(rk_reserve_one_more(&out->items, (size_t)out->n, &out->capacity, sizeof *out->items));
        out->items[out->n++] = item;
    }
    RK_TRY(json.status);
    sort_unique_items(out);
    return RK_OK;
}

/* Both ascending, as one behind the n that are there; returns how many there are then. */
static int64_t merge_sorted_items(int64_t *to, int64_t n, const int64_t *a, int64_t n_a, const int64_t *b,
                                  int64_t n_b) {
    for (int64_t i = 0, j = 0; i < n_a || j < n_b; n++) {
        int64_t next = j == n_b || (i < n_a && a[i] <= b[j]) ? a[i] : b[j];
        i += i < n_a && a[i] == next;
        j += j < n_b && b[j] == next;
        to[n] = next;
    }
    return n;
}

/* Users from `first` on who are searched together, with their bags; those whom the model knows nothing of are
 * left out as `reckon recommend` leaves them out, and end the run. */
static rk_status gather_users_searched_together(const rk_call *call, const rk_request_column *users,
                                                int64_t first, rk_retrieval *m, int64_t *n) {
    const int64_t *known;
    int64_t n_known, n_all = 0;
    *n = 0;
    for (int64_t row = first; row < call->n_rows && (*n == 0 || n_all < MOST_EXCLUDED); row++, ++*n) {
        char scratch[RK_NUMBER_BYTES];
        rk_span name = rk_request_get_first_value(users, (size_t)row, scratch);
        if (!rk_item_catalog_knows_user(call->version->catalog, name.data, name.n_bytes, &known, &n_known))
            return RK_OK;
        if (call->with_known) n_known = 0;
        size_t most = (size_t)(n_all + n_known + m->exclude.n);
        RK_TRY(rk_reserve(&m->begins, &m->begins_capacity, (size_t)*n + 2, sizeof *m->begins));
        RK_TRY(rk_reserve(&m->excluded, &m->excluded_capacity, most + 1, sizeof *m->excluded));
        m->begins[*n] = n_all;
        n_all = merge_sorted_items(m->excluded, n_all, known, n_known, m->exclude.items, m->exclude.n);
        m->begins[*n + 1] = n_all;
    }
    return RK_OK;
}

static rk_status search_users(const rk_call *call, const struct ArrowSchema *schema,
                              const struct ArrowArray *array, int64_t first, int64_t n, rk_session *session,
                              rk_retrieval *m) {
    const rk_ids excluded = {.offsets = m->begins, .ids = m->excluded};
    rk_item_search search = RK_ITEM_SEARCH_INIT;
    struct ArrowArray some = *array;
    search.k = (int32_t)m->k;
    search.excluded = &excluded;
    search.only = call->filter.data ? m->filter.items : NULL;
    search.n_only = m->filter.n;
    some.offset = first;
    some.length = n;
    rk_status status = rk_item_catalog_retrieve(call->version->catalog, session, schema, &some, &search,
                                                m->items + first * m->k, m->scores + first * m->k);
    if (status != RK_OK && first > 0)
        return rk_error_context(status, "of the rows from %lld on", (long long)first);
    if (status == RK_OK) rk_served_version_count_unknown(call->version, session);
    return status;
}

static rk_status search_all_users(const rk_call *call, rk_request_rows *rows, rk_session *session,
                                  rk_retrieval *m) {
    rk_request_table table, context;
    const char *column = rk_item_catalog_user_column(call->version->catalog);
    const rk_request_column *users = rk_request_rows_find(rows, (rk_span){column, strlen(column)});
    RK_TRY(rk_request_rows_to_arrow(rows, (size_t)call->n_rows, &table, &context));
    for (int64_t first = 0, n; first < call->n_rows; first += n) {
        RK_TRY(gather_users_searched_together(call, users, first, m, &n));
        if (n > 0) {
            RK_TRY(search_users(call, table.schema, table.array, first, n, session, m));
        } else {
            for (int64_t i = 0; i < m->k; i++) m->items[first * m->k + i] = -1;
            n = 1;
        }
    }
    return RK_OK;
}

rk_status rk_run_retrieval(rk_call *call, const rk_call_limits *limits, rk_request_rows *rows,
                           rk_session *session, rk_retrieval *m) {
    int64_t n_items = rk_item_catalog_n_items(call->version->catalog);
    m->k = call->k < n_items ? call->k : n_items;
    RK_FAIL_IF(call->n_rows > 0 && m->k > limits->max_rows / call->n_rows, RK_INVALID_ARGUMENT,
               "%lld items for each of %lld users: a request may have %lld in all", (long long)m->k,
               (long long)call->n_rows, (long long)limits->max_rows);
    size_t n = (size_t)(call->n_rows * m->k);
    RK_TRY(rk_reserve(&m->items, &m->items_capacity, n, sizeof *m->items));
    RK_TRY(rk_reserve(&m->scores, &m->scores_capacity, n, sizeof *m->scores));
    RK_TRY(read_item_list(call, limits, "\"exclude\"", call->exclude, &m->exclude));
    RK_TRY(read_item_list(call, limits, "\"filter\"", call->filter, &m->filter));
    return search_all_users(call, rows, session, m);
}

static void write_items_of_user(const rk_item_catalog *catalog, rk_buffer *out, const int64_t *items,
                                const float *scores, int64_t k) {
    char room[24];
    size_t n_bytes;
    int64_t n = 0;
    rk_buffer_append_text(out, "{\"items\": [");
    for (; n < k && items[n] >= 0; n++) {
        const char *name = rk_item_catalog_name(catalog, items[n], room, &n_bytes);
        if (n) rk_buffer_append_text(out, ", ");
        rk_json_write_string_repaired(out, (rk_span){name, n_bytes});
    }
    rk_buffer_append_text(out, "], \"scores\": [");
    for (int64_t i = 0; i < n; i++) {
        if (i) rk_buffer_append_text(out, ", ");
        rk_json_write_f32(out, scores[i]);
    }
    rk_buffer_append_text(out, "]}");
}

void rk_write_retrieve_reply(rk_call *call, const rk_retrieval *m) {
    rk_buffer *out = &call->reply;
    call->code = 200;
    rk_buffer_append_text(out, "{\"result\": [");
    for (int64_t row = 0; row < call->n_rows; row++) {
        if (row) rk_buffer_append_text(out, ", ");
        write_items_of_user(call->version->catalog, out, m->items + row * m->k, m->scores + row * m->k, m->k);
    }
    rk_buffer_append_text(out, "]}\n");
    rk_call_check_reply(call);
}

void rk_retrieval_release(rk_retrieval *m) {
    RK_FREE_ALL(m->items, m->scores, m->exclude.items, m->filter.items, m->begins, m->excluded);
    *m = (rk_retrieval){0};
}
