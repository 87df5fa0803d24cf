#include "data/dataset/window_reader.h"

#include <math.h>

#include "base/thread/instruction_set.h"
#include "base/file/file.h"
#include "base/log.h"
#include "base/memory.h"

enum { PARTS_PER_THREAD = 3 };
/* Windows of so many rows have whole pieces from many places of the files, if they hold many; smaller ones
 * have runs of rows of pieces that are open together. */
enum { ROWS_OF_WHOLE_PIECES = 1 << 17 };
/* A window has runs of about so many rounds, so that one that ends within a round has about as many rows of
 * each piece, unless runs would be shorter than this for it. */
enum { ROUNDS_OF_WINDOW = 8, ROWS_OF_RUN = 4 };

/* The index, and the rows that it is of, stay for the next pass. */
static void end_pass_over_files(rk_window_reader *r) {
    if (r->team) rk_worker_pool_discard_tasks(r->team);
    if (r->is_open && !r->index) rk_joined_rows_release(&r->rows);
    r->is_open = false;
}

/* A pass is the only one that is wanted until another begins after it. */
static bool keeps_windows_in_memory(const rk_window_reader *r) {
    bool is_only = r->n_epochs == 1 && r->n_rows < 0;
    return r->section->cache_bytes > 0 && r->first_window == 0 && !is_only;
}

void rk_window_reader_rewind(rk_window_reader *r, int64_t row) {
    end_pass_over_files(r);
    r->first_window = row / r->window_rows;
    r->group = 0;
    r->next = 0;
    r->n_taken = r->n_placed = r->n_used = 0;
    r->file_row = r->epoch_row = r->ahead_file_row = r->ahead_row = 0;
    if (!r->complete) { /* a pass that was broken off is begun anew */
        rk_window_list_release(&r->kept);
        r->kept_bytes = 0;
        r->n_skipped = 0;
        r->keeps = keeps_windows_in_memory(r);
    }
}

/* What parses and transforms, which a split that is kept whole needs no more. */
static void release_parts(rk_window_reader *r) {
    for (size_t i = 0; r->parts && i < r->n_parts; i++) {
        rk_chunk_release(&r->parts[i].chunk);
        if (r->parts[i].rows.schema) rk_window_release(&r->parts[i].rows);
        rk_transform_scratch_release(&r->parts[i].memory);
    }
    rk_worker_pool_free(r->team);
    rk_free(r->parts);
    r->team = NULL;
    r->parts = NULL;
}

void rk_window_reader_release(rk_window_reader *r) {
    end_pass_over_files(r);
    release_parts(r);
    rk_source_index_free(r->index);
    rk_joined_rows_release(&r->rows);
    rk_free(r->order);
    rk_window_list_release(&r->kept);
    rk_cache_key_release(&r->cache_key);
    if (r->current.schema) rk_window_release(&r->current);
    rk_text_list_release(&r->files.paths);
    rk_free(r->directory);
    *r = (rk_window_reader){0};
}

/* Whether the files have all label columns; they must, unless labels are optional. */
static rk_status check_labels(rk_window_reader *r, const rk_columns *chunk) {
    r->has_labels = rk_transforms_has_label_columns(r->transforms, &r->rows, chunk, r->labels_optional);
    RK_FAIL_IF(!r->has_labels && !r->labels_optional, RK_BAD_DATA, "'%s' has no labels",
               r->rows.paths.texts[0]);
    return RK_OK;
}

/* Values beside ids (libsvm's) are the feature's only where it asks for them. */
static void warn_of_unused_weights(rk_window_reader *r, const rk_columns *chunk) {
    const rk_transforms *t = r->transforms;
    for (int64_t i = 0; i < t->section->n_features && chunk->n_rows > 0; i++) {
        const rk_data_feature *f = &t->section->features[i];
        if (t->fitted[i].name < 0 || f->weights || f->dense) continue;
        rk_binding binding = r->rows.bindings[t->fitted[i].name];
        if (binding.join >= 0 || !chunk->columns[binding.column].weights) continue;
        rk_log(RK_LOG_WARNING,
               "'%s': ids of '%s' have values other than 1, which the feature '%s' ignores\n"
               "hint: 'weights: %s' uses them as weights; with 'combiner: sum' they multiply rows unchanged",
               r->rows.paths.texts[0], chunk->columns[binding.column].name, f->name,
               chunk->columns[binding.column].name);
    }
}

/* What is not trained on turns no clock. */
static bool has_timestamps(const rk_window_reader *r) {
    return r->files.part == 0 && r->transforms->timestamp_name >= 0;
}

static rk_status init_window(const rk_window_reader *r, rk_window *out) {
    const rk_transforms *t = r->transforms;
    const rk_window_columns has = {.labels = r->has_labels,
                                   .weights = r->has_labels && t->weight_name >= 0,
                                   .groups = r->has_labels && t->group_name >= 0,
                                   .timestamps = has_timestamps(r)};
    return rk_window_init(out, &t->schema, has);
}

static void record_part_failure(rk_window_reader_part *part, rk_status status, int64_t bad_row) {
    part->status = status;
    part->bad_row = bad_row;
    rk_error_copy(part->error, sizeof part->error);
}

/* Rows first .. first+n-1 of the part's chunk. Where one of them is bad, the halves are tried, down to the
 * row that says what it is. */
static rk_status transform_rows_or_find_bad_one(const rk_window_reader *r, rk_window_reader_part *part,
                                                int64_t first, int64_t n) {
    const rk_piece piece = {&r->rows, &part->chunk.columns, first, n, &part->memory, NULL};
    rk_status status = rk_transforms_transform_rows(r->transforms, &piece, &part->rows);
    bool halves = status == RK_BAD_DATA && n > 1;
    if (halves && (status = rk_columns_unpack_ints(&part->chunk.columns)) == RK_OK) {
        RK_TRY(transform_rows_or_find_bad_one(r, part, first, n / 2));
        return transform_rows_or_find_bad_one(r, part, first + n / 2, n - n / 2);
    }
    if (status == RK_BAD_DATA && r->section->on_bad_row == 1) {
        part->n_skipped++;
        return RK_OK;
    }
    if (status != RK_OK) record_part_failure(part, status, first);
    return status;
}

static bool is_split_by_fractions(const rk_split_files *files, const rk_data_section *s) {
    return files->part >= 0 && (s->valid.fraction != 0 || s->test.fraction != 0);
}

bool rk_split_files_have_row(const rk_split_files *files, const rk_data_section *s, int64_t file_row) {
    return !is_split_by_fractions(files, s) || rk_split_of_row(s, (uint64_t)s->seed, file_row) == files->part;
}

static bool reads_fraction_of_files(const rk_window_reader *r) {
    return is_split_by_fractions(&r->files, r->section);
}

/* The piece's rows that belong to the split, in runs as long as they are. */
static rk_status transform_rows_of_split(const rk_window_reader *r, rk_window_reader_part *part) {
    int64_t first = part->first_row,
            end = part->n_rows < 0 ? part->chunk.columns.n_rows : first + part->n_rows;
    if (!reads_fraction_of_files(r))
        return first < end ? transform_rows_or_find_bad_one(r, part, first, end - first) : RK_OK;
    const int64_t before = part->file_row - first;
    for (int64_t row = first; row <= end; row++) {
        if (row < end && rk_split_files_have_row(&r->files, r->section, before + row)) continue;
        if (row > first) RK_TRY(transform_rows_or_find_bad_one(r, part, first, row - first));
        first = row + 1;
    }
    return RK_OK;
}

/* Of as many rows of the files a window's are those of the split. */
static int64_t file_rows_of_window(const rk_window_reader *r) {
    const double valid = r->section->valid.fraction, test = r->section->test.fraction;
    double share = !reads_fraction_of_files(r) ? 1
                   : r->files.part == 0        ? 1 - valid - test
                   : r->files.part == 1        ? valid
                                               : test;
    return (int64_t)((double)r->window_rows / share);
}

/* A row that fails is earlier than the one that could not be parsed, if there is one. */
static void transform_rows_of_part(const rk_window_reader *r, rk_window_reader_part *part) {
    rk_status status = RK_OK;
    if (part->rows.schema) rk_window_clear(&part->rows);
    const int64_t n = part->chunk.columns.n_rows;
    bool is_whole = part->n_rows < 0 || part->n_rows == n;
    if (n == 0) return;
    if (n == 1 || !is_whole)
        status = rk_columns_unpack_ints(&part->chunk.columns); /* its values are looked at one by one */
    if (status == RK_OK && !part->rows.schema) status = init_window(r, &part->rows);
    if (status != RK_OK)
        record_part_failure(part, status, -1);
    else
        (void)transform_rows_of_split(r, part);
    part->n_bytes = rk_chunk_bytes(&part->chunk) + (part->rows.schema ? rk_window_bytes(&part->rows) : 0);
}

static void parse_and_transform_part(void *context, size_t task) {
    rk_window_reader *r = context;
    rk_window_reader_part *part = &r->parts[task];
    if (!part->is_parsed) rk_source_parse_chunk(part->source, &part->chunk);
    if (part->is_parsed || !part->two_steps) transform_rows_of_part(r, part);
    part->is_parsed = true;
}

/* Some parts a thread, so that none waits long for another; one alone needs no more than one. */
static rk_status create_parts(rk_window_reader *r) {
    if (r->parts) return RK_OK;
    int n_threads = (int)r->section->reader_threads, share = rk_cpu_count() / 4;
    if (n_threads == 0)
        n_threads = share < 1 ? 1 : share > RK_MAX_READER_THREADS ? RK_MAX_READER_THREADS : share;
    r->n_parts =
        (r->n_groups ? RK_INDEX_LANES - 1 : 0) + (n_threads == 1 ? 1 : PARTS_PER_THREAD * (size_t)n_threads);
    if (!r->team) RK_TRY(rk_worker_pool_create(n_threads, r->n_parts, parse_and_transform_part, r, &r->team));
    return rk_alloc(r->n_parts, sizeof *r->parts, &r->parts);
}

/* Rows of the split in the piece just taken; -1: not known before it, or one before it, is parsed. */
static int64_t count_piece_rows(const rk_window_reader *r, const rk_window_reader_part *part) {
    const int64_t known_rows = part->chunk.known_rows;
    bool reads_all = r->n_shares == 1 && r->first_window == 0;
    if (reads_all || r->n_groups || known_rows < 0 || r->ahead_row < 0 || r->section->on_bad_row == 1)
        return -1;
    if (!reads_fraction_of_files(r)) return known_rows;
    int64_t n = 0, file_row = r->index ? part->file_row : r->ahead_file_row;
    for (int64_t row = 0; row < known_rows; row++)
        n += rk_split_files_have_row(&r->files, r->section, file_row + row);
    return n;
}

static bool is_window_of_share(const rk_window_reader *r, int64_t window) {
    return window >= r->first_window && window % r->n_shares == r->share;
}

static bool has_no_window_of_share(const rk_window_reader *r, int64_t first, int64_t last) {
    for (int64_t window = first / r->window_rows; window * r->window_rows < last; window++)
        if (is_window_of_share(r, window)) return false;
    return true;
}

/* Whether the piece just taken is passed over. The first rows never are: they show whether there are
 * labels. */
static bool skip_part_of_other_shares(rk_window_reader *r, rk_window_reader_part *part) {
    int64_t n = count_piece_rows(r, part);
    part->is_passed =
        n >= 0 && r->ahead_file_row > 0 && has_no_window_of_share(r, r->ahead_row, r->ahead_row + n);
    part->passed_rows = n;
    r->ahead_row = n < 0 ? -1 : r->ahead_row + n;
    r->ahead_file_row += part->chunk.known_rows;
    if (!part->is_passed) return false;
    rk_source_skip_chunk(part->source, &part->chunk);
    part->is_parsed = true;
    part->two_steps = false;
    return true;
}

/* The next piece, in whichever order. */
static rk_status read_next_piece(rk_window_reader *r, rk_window_reader_part *part, bool *found) {
    part->source = r->rows.source;
    part->first_row = 0;
    part->n_rows = -1;
    if (!r->index) return rk_source_next_piece(r->rows.source, &part->chunk, found);
    *found = r->n_taken < r->index->n_places;
    if (!*found) return RK_OK;
    size_t place = r->order[r->n_taken];
    const rk_piece_location *piece = &r->index->places[place];
    part->source = rk_source_index_source_of_piece(r->index, place);
    part->place = place;
    part->file_row = piece->file_row;
    part->first_row = piece->first_row;
    if (piece->n_bytes == 0) part->n_rows = piece->n_rows;
    return rk_source_index_read_piece(r->index, place, &part->chunk);
}

/* All parts are on their way, unless the file has not so many pieces. Which rows belong to a split by
 * fractions, and whether there are labels, is known only once the pieces before are placed. */
static void start_reading_parts(rk_window_reader *r) {
    while (!r->file_ends && r->n_taken - r->n_used < r->n_parts) {
        size_t place = r->n_taken % r->n_parts;
        rk_window_reader_part *part = &r->parts[place];
        bool found = false;
        part->n_used = part->n_skipped = 0;
        part->is_parsed = false;
        part->two_steps = r->file_row == 0 || reads_fraction_of_files(r);
        part->status = RK_OK;
        rk_status status = read_next_piece(r, part, &found);
        r->file_ends = status != RK_OK || !found;
        if (status == RK_OK && found && !skip_part_of_other_shares(r, part))
            rk_worker_pool_start_task(r->team, place);
        if (status != RK_OK) { /* as a part that is done and cannot be used */
            record_part_failure(part, status, -1);
            part->two_steps = false;
        }
        if (status != RK_OK || found) r->n_taken++;
    }
}

/* In the file's order. */
static rk_status finish_reading_part(rk_window_reader *r, size_t place) {
    rk_window_reader_part *part = &r->parts[place];
    rk_worker_pool_wait_for_task(r->team, place);
    r->n_placed++;
    if (!part->is_parsed) return RK_OK;
    rk_status status = r->index ? rk_source_index_finish_piece(r->index, part->place, &part->chunk)
                                : rk_source_finish_chunk(part->source, &part->chunk);
    if (status != RK_OK && part->status == RK_OK) record_part_failure(part, status, -1);
    bool is_first = r->file_row == 0;
    if (!r->index) part->file_row = r->file_row;
    r->file_row += part->is_passed ? part->chunk.known_rows : part->chunk.columns.n_rows;
    if (is_first) {
        RK_TRY(check_labels(r, &part->chunk.columns));
        warn_of_unused_weights(r, &part->chunk.columns);
    }
    if (part->two_steps) rk_worker_pool_start_task(r->team, place);
    return RK_OK;
}

/* Part number `at` of the pass, which is open; NULL: the files are through before it. */
static rk_status start_reading_part(rk_window_reader *r, uint64_t at, rk_window_reader_part **out) {
    *out = NULL;
    for (bool more = true; more;) {
        start_reading_parts(r);
        if (at < r->n_taken || r->index) break;
        RK_TRY(rk_source_next_file(r->rows.source, &more));
        r->file_ends = !more;
    }
    if (at >= r->n_taken) return RK_OK;
    while (r->n_placed < r->n_taken && (r->n_placed <= at || r->parts[r->n_placed % r->n_parts].two_steps))
        RK_TRY(finish_reading_part(r, r->n_placed % r->n_parts));
    size_t place = at % r->n_parts;
    rk_worker_pool_wait_for_task(r->team, place);
    *out = &r->parts[place];
    if ((*out)->n_bytes > r->piece_bytes) r->piece_bytes = (*out)->n_bytes;
    return RK_OK;
}

/* The pieces from n_used on that are open together, and their rounds. */
static void open_pieces_read_together(rk_window_reader *r) {
    r->turn = 0;
    r->round = 0;
    r->n_open = 1;
    r->n_rounds = 1;
    if (r->group >= r->n_groups) return;
    uint64_t n = r->index->n_places, end = (r->group + 1) * n / r->n_groups;
    int64_t n_rows = 0;
    for (uint64_t i = r->n_used; i < end; i++) n_rows += r->index->places[r->order[i]].n_rows;
    r->n_open = (size_t)(end - r->n_used);
    int64_t n_windows = n_rows / file_rows_of_window(r) + 1;
    int64_t most = n_rows / ROWS_OF_RUN / (int64_t)r->n_open;
    if (most > n_windows * ROUNDS_OF_WINDOW) most = n_windows * ROUNDS_OF_WINDOW;
    while (r->n_rounds < n_windows || 2 * r->n_rounds <= most) r->n_rounds *= 2;
}

/* The run of a part's rows whose turn it is. A piece's runs come in an order that is spread over it, and the
 * open pieces' not in step: files may be alike in what they begin with, each sorted, each a day. */
static void find_rows_of_turn(const rk_window_reader *r, int64_t n_rows, int64_t *begin, int64_t *end) {
    uint64_t n = (uint64_t)r->n_rounds, step = n * 0x9e3779b9u >> 32 | 1; /* odd, and n a power of 2 */
    int64_t run = (int64_t)(((uint64_t)r->round + r->turn) * step % n);
    *begin = n_rows * run / r->n_rounds;
    *end = n_rows * (run + 1) / r->n_rounds;
}

static void pass_turn_to_next_piece(rk_window_reader *r, rk_window_reader_part *part) {
    part->n_used = 0;
    if (r->round + 1 == r->n_rounds) r->n_skipped += part->n_skipped + part->chunk.n_skipped;
    if (++r->turn < r->n_open) return;
    r->turn = 0;
    if (++r->round < r->n_rounds) return;
    r->n_used += r->n_open;
    r->group++;
    open_pieces_read_together(r);
}

static rk_status part_error(const rk_window_reader_part *part) {
    rk_status status = rk_error(part->status, "%s", part->error);
    if (part->bad_row < 0) return status;
    char where[4200];
    rk_source_format_location(part->source, &part->chunk, part->bad_row, where, sizeof where);
    return rk_error_context(status, "%s", where);
}

static rk_status open_files(const rk_window_reader *r, rk_joined_rows *rows) {
    const rk_transforms *t = r->transforms;
    RK_TRY(rk_joined_rows_open(&r->files.manner, r->directory, r->files.paths.texts, r->files.paths.n,
                               t->names, t->n_names + has_timestamps(r),
                               r->labels_optional ? t->n_labels_names : 0, rows));
    rk_source_take_any_bits(rows->source);
    return RK_OK;
}

rk_status rk_window_reader_check(const rk_window_reader *r) {
    RK_AUTO(rk_joined_rows_release) rk_joined_rows rows = {0};
    RK_TRY(open_files(r, &rows));
    return rk_source_check(rows.source);
}

/* The order of the pieces of files that have more rows than a window, once for all passes. */
static rk_status shuffle_order_of_pieces(rk_window_reader *r) {
    RK_AUTO(rk_source_index_auto_free) rk_source_index *x = NULL;
    RK_AUTOFREE uint32_t *order = NULL;
    RK_TRY(rk_source_index_create(r->rows.source, reads_fraction_of_files(r), r->window_rows, &x, &r->alone));
    if (x) {
        size_t n = x->n_places;
        double pieces = (double)file_rows_of_window(r) * (double)n / (double)x->n_rows;
        bool by_turns = r->window_rows < ROWS_OF_WHOLE_PIECES || pieces < RK_INDEX_LANES;
        RK_TRY(rk_alloc(n, sizeof *order, &order));
        RK_TRY(rk_source_index_shuffle_pieces(x, r->seed, file_rows_of_window(r), by_turns, order));
        if (by_turns) r->n_groups = (n + RK_INDEX_LANES - 1) / RK_INDEX_LANES;
    }
    r->has_looked = true;
    r->index = x;
    r->order = order;
    x = NULL;
    order = NULL;
    return RK_OK;
}

static rk_status open_rows(rk_window_reader *r) {
    const rk_transforms *t = r->transforms;
    rk_window_reader_part *first;
    if (!r->index) {
        RK_FAIL_IF(r->has_read_stream, RK_UNSUPPORTED, "'%s' is a pipe and can be read only once",
                   r->files.paths.texts[0]);
        RK_TRY(open_files(r, &r->rows));
        r->is_open = true;
        for (size_t i = 0; i < r->rows.paths.n; i++)
            r->has_read_stream |= rk_file_is_stream(r->rows.paths.texts[i]);
        for (int64_t i = 0; i < t->section->n_features && !reads_fraction_of_files(r); i++)
            if (rk_transform_accepts_packed(t, i))
                RK_TRY(rk_joined_rows_allow_packed_column(&r->rows, t->fitted[i].name));
    }
    r->is_open = true;
    r->file_ends = false;
    if (r->shuffles && !r->has_looked) RK_TRY(shuffle_order_of_pieces(r));
    RK_TRY(create_parts(r));
    open_pieces_read_together(r);
    return start_reading_part(r, 0, &first);
}

/* Rows of the split from where the pass stands up to row `end`, into the window; NULL: past it. Fewer of
 * them: the split has ended. */
static rk_status append_rows_until(rk_window_reader *r, int64_t end, rk_window *window) {
    while (r->epoch_row < end && !atomic_load_explicit(&r->stop, memory_order_relaxed)) {
        rk_window_reader_part *part;
        RK_TRY(start_reading_part(r, r->n_used + r->turn, &part));
        if (!part) return RK_OK;
        if (part->status != RK_OK) return part_error(part);
        int64_t n_rows = part->is_passed ? part->passed_rows : part->rows.n_rows;
        int64_t begin, end_of_run, room = end - r->epoch_row;
        find_rows_of_turn(r, n_rows, &begin, &end_of_run);
        begin += part->n_used;
        int64_t left = end_of_run - begin, n = left < room ? left : room;
        if (window && n && window->n_rows == 0 && !r->keeps)
            RK_TRY(rk_window_reserve_like(window, &part->rows, r->window_rows));
        if (window && n) RK_TRY(rk_window_append(window, &part->rows, begin, n));
        part->n_used += n;
        r->epoch_row += n;
        if (n == left) pass_turn_to_next_piece(r, part);
    }
    return RK_OK;
}

/* The next window of this share. */
static rk_status read_window(rk_window_reader *r, rk_window *window) {
    int64_t number = r->epoch_row / r->window_rows;
    while (!is_window_of_share(r, number)) number++;
    if (number * r->window_rows > r->epoch_row) RK_TRY(append_rows_until(r, number * r->window_rows, NULL));
    window->first_row = r->epoch_row;
    return append_rows_until(r, r->epoch_row + r->window_rows, window);
}

/* The window just filled stays in memory if it fits; if not, none does from now on. */
static rk_status keep_window_in_memory(rk_window_reader *r, rk_window *window) {
    uint64_t bytes = rk_window_bytes(window);
    if (r->kept_bytes + bytes > (uint64_t)r->section->cache_bytes) {
        r->keeps = false;
        return RK_OK;
    }
    rk_window_list *list = &r->kept;
    RK_TRY(rk_reserve_one_more(&list->windows, list->n, &list->capacity, sizeof *list->windows));
    list->windows[list->n++] = *window;
    r->kept_bytes += bytes;
    *window = (rk_window){0};
    return RK_OK;
}

/* Rows are to come from all over the files: where they cannot, or labels say that they do not, it is told
 * once. */
static void warn_of_sorted_rows(rk_window_reader *r, const rk_window *window) {
    if (!r->shuffles || (r->drift.has_warned && r->alone < 0)) return;
    if (r->alone >= 0 && window->first_row > 0) {
        const char *path = r->rows.paths.texts[r->alone];
        rk_log(
            RK_LOG_WARNING,
            "'%s' can only be read from beginning to end, so rows are shuffled only within windows of %lld "
            "consecutive rows\nhint: if the rows are sorted, %s",
            path, (long long)r->window_rows,
            rk_path_is_memory_stream(path)
                ? "let the stream give them in another order"
                : "shuffle the file, decompress it, or convert it with 'reckon convert': windows of plain "
                  "text, TFRecord and rkb files have rows from everywhere");
        r->alone = -1;
    }
    rk_label_drift_check_window(&r->drift, window, r->rows.paths.texts[0]);
}

/* Rows of a split of the run file, all of which stay in memory between epochs. */
static bool may_cache_windows_on_disk(const rk_window_reader *r) {
    return r->files.split && !r->labels_optional && r->n_shares == 1 && r->n_epochs != 1 &&
           r->section->cache_bytes > 0;
}

static rk_window_settings make_window_settings(const rk_window_reader *r) {
    return (rk_window_settings){.transforms = r->transforms,
                                .directory = r->directory,
                                .split = r->files.split,
                                .window_rows = r->window_rows,
                                .seed = r->seed,
                                .shuffles = r->shuffles,
                                .has = {.labels = true,
                                        .weights = r->transforms->weight_name >= 0,
                                        .groups = r->transforms->group_name >= 0,
                                        .timestamps = has_timestamps(r)}};
}

/* The windows that an earlier run made of the same files. */
static rk_status load_windows_from_disk_cache(rk_window_reader *r) {
    r->has_asked_cache = true;
    if (!may_cache_windows_on_disk(r)) return RK_OK;
    const rk_window_settings manner = make_window_settings(r);
    RK_TRY(rk_cached_windows_key(&manner, r->files.paths.texts, r->files.paths.n, &r->cache_key));
    RK_TRY(rk_cached_windows_find(&r->cache_key, &manner, (uint64_t)r->section->cache_bytes, &r->kept,
                                  &r->complete));
    r->n_rows = -1;
    for (size_t i = 0; i < r->kept.n; i++) {
        r->kept_bytes += rk_window_bytes(&r->kept.windows[i]);
        r->n_rows = r->kept.windows[i].first_row + r->kept.windows[i].n_rows;
    }
    return RK_OK;
}

/* Not of rows of which a warning told: the next run is to tell it too. */
static void store_windows_in_disk_cache(rk_window_reader *r) {
    if (r->complete && r->n_skipped == 0 && !r->has_warned && r->kept.n)
        rk_cached_windows_store(&r->cache_key, &r->kept);
}

/* The next window of a pass that may not have begun yet; without rows at its end, or if it is to stop. */
static rk_status fill_window(rk_window_reader *r) {
    uint64_t n_warnings = rk_log_n_warnings();
    if (!r->is_open) RK_TRY(open_rows(r));
    if (!r->current.schema)
        RK_TRY(init_window(r, &r->current));
    else
        rk_window_clear(&r->current);
    RK_TRY(read_window(r, &r->current));
    bool stops = atomic_load_explicit(&r->stop, memory_order_relaxed);
    if (!stops && r->current.n_rows) warn_of_sorted_rows(r, &r->current);
    r->has_warned |= rk_log_n_warnings() != n_warnings;
    return RK_OK;
}

rk_status rk_window_reader_next(rk_window_reader *r, const rk_window **out) {
    if (r->complete) {
        *out = r->next < r->kept.n ? &r->kept.windows[r->next++] : NULL;
        return RK_OK;
    }
    if (!r->has_asked_cache) {
        RK_TRY(load_windows_from_disk_cache(r));
        if (r->complete) return rk_window_reader_next(r, out);
    }
    RK_TRY(fill_window(r));
    *out = NULL;
    if (atomic_load_explicit(&r->stop, memory_order_relaxed)) return RK_OK;
    if (r->current.n_rows == 0) {
        r->complete = r->keeps;
        r->n_rows = r->epoch_row;
        end_pass_over_files(r);
        store_windows_in_disk_cache(r);
        if (r->complete) release_parts(r);
        return RK_OK;
    }
    r->next++;
    const rk_window *window = &r->current;
    if (r->keeps) {
        RK_TRY(keep_window_in_memory(r, &r->current));
        if (r->keeps) window = &r->kept.windows[r->kept.n - 1];
    }
    *out = window;
    return RK_OK;
}
