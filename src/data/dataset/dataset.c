/* Batches made ahead on a background thread: windows, shuffled, cut. */
#include "data/dataset/dataset.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/thread/trace.h"
#include "batch/ids.h"
#include "data/dataset/window_reader.h"

/* Rows of a window that is not shuffled, if a batch has not as many: they stay in the cache until they are
 * cut. */
enum { ROWS_IN_ORDER = 4096 };
enum { LARGE_BATCH_BYTES = 64 << 20 };

/* One place of the queue. */
typedef struct slot {
    rk_batch_memory memory;
    bool ready;  /* filled, not yet taken */
    bool is_end; /* the epoch ends here */
    rk_dataset_position after;
    int64_t n_skipped; /* bad rows up to its end */
    rk_status status;  /* reading failed */
    char error[4096];
} slot;

struct rk_dataset {
    rk_window_reader reader;
    rk_transforms *own_transforms; /* NULL: they are the caller's */
    int64_t batch_size;
    slot *slots; /* [n_slots]; one is in the caller's hands, the others are filled ahead */
    int32_t n_slots;
    uint64_t large_batch_bytes;
    int32_t taken; /* slot that the caller holds, or -1 */
    rk_dataset_position position;
    int64_t timestamp;         /* of the batch that the caller holds */
    int64_t n_skipped, n_told; /* bad rows up to there; those that were warned of */
    pthread_t thread;
    bool running;
    /* shared with the thread, under the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stop;
    int32_t head; /* next slot to take */
    int64_t n_rows;
    uint64_t kept_bytes;       /* of the rows, once all of the split are kept; else 0 */
    uint64_t piece_bytes;      /* of what is parsed at once, until then */
    rk_dataset_position start; /* where the thread began */
};

const rk_data_schema *rk_dataset_schema(const rk_dataset *d) {
    return &d->reader.transforms->schema;
}

static const rk_split_section *find_split(const rk_data_section *s, const char *split) {
    return strcmp(split, "train") == 0   ? &s->train
           : strcmp(split, "valid") == 0 ? &s->valid
           : strcmp(split, "test") == 0  ? &s->test
                                         : NULL;
}

bool rk_dataset_has_split(const rk_data_section *section, const char *split) {
    const rk_split_section *found = find_split(section, split);
    return found && found->line;
}

rk_status rk_dataset_check(const rk_dataset *d) {
    return d->reader.files.part < 0 ? rk_window_reader_check(&d->reader) : RK_OK;
}

/* Wait until slot `index` is free; false: the dataset stops. */
static bool wait_for_free_slot(rk_dataset *d, int32_t index) {
    pthread_mutex_lock(&d->mutex);
    while (!d->stop && d->slots[index].ready) pthread_cond_wait(&d->changed, &d->mutex);
    bool go = !d->stop;
    pthread_mutex_unlock(&d->mutex);
    return go;
}

/* What the thread counts on its way. */
typedef struct pass {
    int64_t epoch;
    uint32_t *order; /* [rows of the window at hand] */
    size_t order_capacity;
    int32_t at; /* the slot to be filled next */
} pass;

/* The slot at hand is filled; `row` of the epoch comes after it, or at its end, the next epoch. */
static void publish_slot(rk_dataset *d, pass *p, bool is_end, int64_t row, rk_status status) {
    slot *s = &d->slots[p->at];
    p->at = (p->at + 1) % d->n_slots;
    s->is_end = is_end;
    s->after = is_end ? (rk_dataset_position){p->epoch + 1, 0} : (rk_dataset_position){p->epoch, row};
    s->status = status;
    s->n_skipped = d->reader.n_skipped;
    if (status != RK_OK) rk_error_copy(s->error, sizeof s->error);
    pthread_mutex_lock(&d->mutex);
    s->ready = true;
    if (is_end) d->n_rows = d->reader.n_rows;
    d->kept_bytes = d->reader.complete ? d->reader.kept_bytes : 0;
    d->piece_bytes = d->reader.n_parts * d->reader.piece_bytes;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
}

/* Rows in order need not be copied: out of windows that stay, or of one that is used up by the batch. */
static rk_status make_batch(rk_dataset *d, const rk_window *window, const uint32_t *order, int64_t first,
                            int64_t n, rk_batch_memory *out) {
    rk_window_reader *r = &d->reader;
    if (!order && r->complete) return rk_batch_view_window(out, window, first, n);
    if (!order && window == &r->current && n == window->n_rows) return rk_batch_take_window(out, &r->current);
    return rk_batch_gather_window_rows(out, window, order, first, n);
}

static rk_status fill_slot(rk_dataset *d, const rk_window *window, const uint32_t *order, int64_t first,
                           int64_t n, slot *s) {
    uint64_t begin = rk_trace_begin();
    bool is_first = s == d->slots && !s->memory.rows.schema;
    rk_status status = s->memory.rows.schema ? RK_OK : rk_batch_memory_init(&s->memory, window);
    if (status == RK_OK) status = make_batch(d, window, order, first, n, &s->memory);
    if (status == RK_OK && is_first && d->n_slots > 2 &&
        rk_window_bytes(&s->memory.rows) > d->large_batch_bytes)
        d->n_slots = 2;
    rk_trace_end(begin, "gather");
    return status;
}

/* The batches of one window from row `from` of it. false: stop. */
static bool publish_batches_of_window(rk_dataset *d, pass *p, const rk_window *window, int64_t from,
                                      rk_status *status) {
    uint64_t number = (uint64_t)(window->first_row / d->reader.window_rows);
    if (d->reader.shuffles) {
        *status = rk_reserve(&p->order, &p->order_capacity, (size_t)window->n_rows, sizeof *p->order);
        if (*status != RK_OK) return true;
        rk_rng_permutation(d->reader.seed, (uint64_t)p->epoch << 32 | number, p->order,
                           (uint32_t)window->n_rows);
    }
    for (int64_t first = from; first < window->n_rows; first += d->batch_size) {
        if (!wait_for_free_slot(d, p->at)) return false;
        int64_t n = window->n_rows - first < d->batch_size ? window->n_rows - first : d->batch_size;
        *status = fill_slot(d, window, d->reader.shuffles ? p->order : NULL, first, n, &d->slots[p->at]);
        if (*status != RK_OK) return true;
        publish_slot(d, p, false, window->first_row + first + n, RK_OK);
    }
    return true;
}

/* One epoch from `row` of it. false: stop. */
static bool publish_batches_of_epoch(rk_dataset *d, pass *p, int64_t row, rk_status *status) {
    rk_window_reader_rewind(&d->reader, row);
    for (;;) {
        const rk_window *window;
        uint64_t begin = rk_trace_begin();
        *status = rk_window_reader_next(&d->reader, &window);
        rk_trace_end(begin, "parse");
        if (*status != RK_OK || !window) return true;
        int64_t from = row - window->first_row;
        if (from < window->n_rows && !publish_batches_of_window(d, p, window, from > 0 ? from : 0, status))
            return false;
        if (*status != RK_OK) return true;
    }
}

static void *run_read_thread(void *argument) {
    rk_dataset *d = argument;
    rk_trace_name_thread("reader");
    pass p = {.epoch = d->start.epoch};
    rk_status status = RK_OK;
    for (int64_t row = d->start.row; status == RK_OK; p.epoch++, row = 0) {
        if (!publish_batches_of_epoch(d, &p, row, &status)) break;
        if (status != RK_OK || !wait_for_free_slot(d, p.at)) break;
        publish_slot(d, &p, true, 0, RK_OK);
    }
    if (status != RK_OK && wait_for_free_slot(d, p.at)) publish_slot(d, &p, false, 0, status);
    rk_free(p.order);
    return NULL;
}

static void stop_read_thread(rk_dataset *d) {
    if (!d->running) return;
    atomic_store(&d->reader.stop, true);
    pthread_mutex_lock(&d->mutex);
    d->stop = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
    pthread_join(d->thread, NULL);
    d->running = d->stop = false;
    atomic_store(&d->reader.stop, false);
    for (int32_t i = 0; i < d->n_slots; i++) d->slots[i].ready = false;
    d->head = 0;
    d->taken = -1;
}

static rk_status start_read_thread(rk_dataset *d) {
    if (d->running) return RK_OK;
    d->start = d->position;
    int code = pthread_create(&d->thread, NULL, run_read_thread, d);
    if (code != 0) return rk_error_errno(RK_NO_MEMORY, code, "could not start the reader's thread");
    d->running = true;
    return RK_OK;
}

rk_status rk_split_files_find(const rk_data_section *section, const char *directory, const char *split,
                              rk_split_files *out) {
    const rk_split_section *named = find_split(section, split), *files = named;
    RK_FAIL_IF(named && !named->line, RK_NOT_FOUND, "the run file has no 'data.%s'", split);
    out->part = -1;
    out->split = named == &section->train   ? "train"
                 : named == &section->valid ? "valid"
                 : named                    ? "test"
                                            : NULL;
    if (named && (named->fraction > 0 || named == &section->train)) {
        out->part = named == &section->train ? 0 : named == &section->valid ? 1 : 2;
        files = &section->train;
    }
    out->manner =
        files ? rk_data_section_of_split(section, files) : rk_data_section_of_file(section, directory, split);
    char *alone[1] = {(char *)(size_t)split};
    char *const *paths = files ? files->path : alone;
    size_t n = files ? (size_t)files->n_path : 1;
    for (size_t i = 0; i < n; i++) RK_TRY(rk_text_list_add(&out->paths, paths[i]));
    return RK_OK;
}

int64_t rk_dataset_batch_size(const rk_dataset *d) {
    return d->batch_size;
}

/* Whole batches, so that a batch is of one window and its rows follow from its number. */
int64_t rk_dataset_window_rows(const rk_dataset *d, int64_t batch_size) {
    int64_t least = d->reader.shuffles ? d->reader.section->shuffle_window : ROWS_IN_ORDER;
    return (least + batch_size - 1) / batch_size * batch_size;
}

rk_status rk_dataset_create(const rk_data_section *section, const rk_transforms *transforms,
                            const rk_dataset_options *options, rk_dataset **out) {
    RK_FAIL_IF(options->batch_size < 1, RK_INVALID_ARGUMENT, "batch_size must be 1 or more, not %lld",
               (long long)options->batch_size);
    RK_FAIL_IF(options->n_shares && (options->share < 0 || options->share >= options->n_shares),
               RK_INVALID_ARGUMENT, "share %d of %d", options->share, options->n_shares);
    RK_AUTO(rk_dataset_auto_free) rk_dataset *d = NULL;
    RK_TRY(rk_alloc(1, sizeof *d, &d));
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->changed, NULL);
    d->batch_size = options->batch_size;
    d->taken = -1;
    d->n_rows = -1;
    d->timestamp = RK_NO_TIMESTAMP;
    rk_window_reader *r = &d->reader;
    *r = (rk_window_reader){.section = section,
                            .transforms = transforms,
                            .labels_optional = options->labels_optional,
                            .n_epochs = options->n_epochs,
                            .share = options->share,
                            .n_shares = options->n_shares ? options->n_shares : 1,
                            .n_rows = -1,
                            .shuffles = options->shuffle,
                            .seed = options->seed,
                            .alone = -1};
    r->window_rows = rk_dataset_window_rows(d, d->batch_size);
    RK_TRY(rk_strdup(options->directory ? options->directory : "", &r->directory));
    RK_TRY(rk_split_files_find(section, r->directory, options->split, &r->files));
    d->n_slots = options->prefetch > 0 ? options->prefetch : 4;
    d->large_batch_bytes = options->large_batch_bytes ? options->large_batch_bytes : LARGE_BATCH_BYTES;
    RK_TRY(rk_alloc((size_t)d->n_slots, sizeof *d->slots, &d->slots));
    *out = d;
    d = NULL;
    return RK_OK;
}

void rk_dataset_free(rk_dataset *d) {
    if (!d) return;
    stop_read_thread(d);
    for (int32_t i = 0; d->slots && i < d->n_slots; i++) rk_batch_memory_release(&d->slots[i].memory);
    rk_free(d->slots);
    if (d->reader.section) rk_window_reader_release(&d->reader);
    rk_transforms_free(d->own_transforms);
    pthread_mutex_destroy(&d->mutex);
    pthread_cond_destroy(&d->changed);
    rk_free(d);
}

void rk_dataset_take_transforms(rk_dataset *d, rk_transforms *transforms) {
    d->own_transforms = transforms;
}

const rk_transforms *rk_dataset_transforms(const rk_dataset *d) {
    return d->reader.transforms;
}

static void release_taken_slot(rk_dataset *d) {
    if (d->taken < 0) return;
    d->slots[d->taken].ready = false;
    d->taken = -1;
    pthread_cond_broadcast(&d->changed);
}

/* on_bad_row: skip is no reason to be silent: a file that is read wrongly may lose most of its rows. */
static void log_skipped_rows(rk_dataset *d) {
    static const char *const splits[] = {"train", "valid", "test"};
    const rk_window_reader *r = &d->reader;
    if (d->n_skipped > d->n_told)
        rk_log(RK_LOG_WARNING, "'%s': %lld bad rows were skipped",
               r->files.part < 0 ? r->files.paths.texts[0] : splits[r->files.part], (long long)d->n_skipped);
    d->n_told = d->n_skipped;
}

rk_status rk_dataset_next(rk_dataset *d, const rk_batch **out) {
    RK_TRY(start_read_thread(d));
    pthread_mutex_lock(&d->mutex);
    release_taken_slot(d);
    slot *s = &d->slots[d->head];
    while (!s->ready) pthread_cond_wait(&d->changed, &d->mutex);
    pthread_mutex_unlock(&d->mutex);
    if (s->status != RK_OK) { /* stays where it is: every further call fails the same way */
        return rk_error(s->status, "%s", s->error);
    }
    d->taken = d->head;
    d->head = (d->head + 1) % d->n_slots;
    d->position = s->after;
    d->n_skipped = s->n_skipped;
    d->timestamp = s->is_end ? RK_NO_TIMESTAMP : s->memory.timestamp;
    if (s->is_end) {
        log_skipped_rows(d);
        return RK_END;
    }
    *out = &s->memory.batch;
    return RK_OK;
}

int64_t rk_dataset_batch_timestamp(const rk_dataset *d) {
    return d->timestamp;
}

double rk_dataset_timestamp(const rk_dataset *d) {
    return d->timestamp == RK_NO_TIMESTAMP ? NAN : (double)d->timestamp / RK_MICROSECONDS;
}

const rk_batch *rk_dataset_peek(rk_dataset *d) {
    pthread_mutex_lock(&d->mutex);
    const slot *s = &d->slots[d->head];
    bool is_batch = s->ready && d->head != d->taken && !s->is_end && s->status == RK_OK;
    pthread_mutex_unlock(&d->mutex);
    return is_batch ? &s->memory.batch : NULL;
}

rk_status rk_dataset_next_endless(rk_dataset *d, const rk_batch **out) {
    rk_status status = rk_dataset_next(d, out);
    if (status == RK_END) status = rk_dataset_next(d, out);
    return status == RK_END ? rk_error(RK_BAD_DATA, "the training data has no rows") : status;
}

rk_dataset_position rk_dataset_current_position(const rk_dataset *d) {
    return d->position;
}

rk_status rk_dataset_seek(rk_dataset *d, rk_dataset_position position) {
    RK_FAIL_IF(position.epoch < 0 || position.row < 0, RK_INVALID_ARGUMENT,
               "a position must not be negative");
    stop_read_thread(d);
    d->position = position;
    return RK_OK;
}

int64_t rk_dataset_n_rows(const rk_dataset *d) {
    pthread_mutex_t *mutex = (pthread_mutex_t *)(size_t)&d->mutex;
    pthread_mutex_lock(mutex);
    int64_t n = d->n_rows;
    pthread_mutex_unlock(mutex);
    return n;
}

int64_t rk_dataset_n_skipped(const rk_dataset *d) {
    return d->n_skipped;
}

static double batch_row_bytes(const rk_dataset *d, const rk_batch *b) {
    double bytes = 4.0 * b->n_dense + 4.0 * b->n_tasks + (b->sample_weights ? 4 : 0) + (b->groups ? 8 : 0) +
                   (d->reader.transforms->timestamp_name >= 0 ? 8 : 0);
    for (int32_t f = 0; f < b->n_features && b->n; f++) {
        const rk_ids *ids = &b->features[f];
        double n_ids = (double)rk_ids_begin_of_sample(ids, b->n) / (double)b->n;
        bytes += n_ids * (ids->weights ? 12 : 8) + (ids->offsets ? 8 : 0);
    }
    return bytes;
}

/* Of rows that are not known to be kept whole: what is kept grows by quarters; beyond the cache a window is
 * read while the cache holds those before it. */
static double estimate_bytes_of_rows(const rk_dataset *d, double row, int64_t n_rows) {
    static const double growth = 1.2;
    double all = n_rows < 0 ? 1e18 : (double)n_rows * row, window = row * (double)d->reader.window_rows,
           cache = d->reader.n_epochs == 1 ? 0 : (double)d->reader.section->cache_bytes;
    return growth * all <= cache ? growth * all : cache + (window < all ? window : all);
}

uint64_t rk_dataset_peak_bytes(const rk_dataset *d, const rk_batch *usual, int64_t n_rows) {
    pthread_mutex_t *mutex = (pthread_mutex_t *)(size_t)&d->mutex;
    pthread_mutex_lock(mutex);
    uint64_t kept = d->kept_bytes, pieces = d->piece_bytes;
    pthread_mutex_unlock(mutex);
    double row = batch_row_bytes(d, usual), batches = row * (double)(d->batch_size * d->n_slots);
    return (uint64_t)batches + (kept ? kept : pieces + (uint64_t)estimate_bytes_of_rows(d, row, n_rows));
}
