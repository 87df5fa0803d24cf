#include "embedding/dynamic/key_bucket.h"

#include <stdint.h>
#include <string.h>

#include "base/memory.h"

enum {
    LEAST_SIZE = 8,
    USUAL_ROWS = 10 /* that a line has, at most, in the mean */
};

/* Steps from one place to another. */
static uint32_t probe_distance(uint32_t from, uint32_t to, uint32_t size) {
    return to >= from ? to - from : to + size - from;
}

static bool is_hash_table_full(uint64_t n, uint64_t size) {
    return 5 * n > 4 * size;
}

static uint64_t entries_for_keys(uint64_t n) {
    uint64_t size = (5 * n + 3) / 4;
    return size > LEAST_SIZE ? size : LEAST_SIZE;
}

uint64_t rk_key_bucket_lines(uint64_t n) {
    return n ? (n + USUAL_ROWS - 1) / USUAL_ROWS : 1;
}

static rk_status check_n_keys(uint32_t n) {
    RK_FAIL_IF(n > INT32_MAX, RK_NO_MEMORY, "one bucket of a dynamic table has more than 2^31 keys");
    return RK_OK;
}

uint32_t rk_grown_hash_size(uint32_t size, uint64_t wanted, uint64_t enough) {
    uint64_t grown = (uint64_t)size + size / 4;
    if (grown > enough) grown = enough;
    return (uint32_t)(grown > wanted ? grown : wanted);
}

int64_t rk_key_bucket_find(const rk_key_bucket *b, const rk_key_info *info, int64_t key) {
    if (b->n == 0) return 0;
    uint64_t hash = rk_key_hash(key);
    for (uint32_t at = rk_key_first_entry(hash, b->n_lines);; at = rk_key_next_entry(at, b->n_lines)) {
        const rk_index_line *line = &b->lines[at];
        for (unsigned left = rk_line_match_tag(line, rk_key_tag_of_hash(hash)); left; left &= left - 1) {
            int64_t row = rk_line_read_row(line, rk_lowest_place(left));
            if (info[row].key == key) return row;
        }
        if (!line->is_passed) return 0; /* not all lines are: not all are full */
    }
}

static void write_row(rk_index_line *line, unsigned place, uint8_t tag, int64_t row) {
    unsigned shift = place % 4 * 2;
    line->rows[place] = (uint32_t)row;
    line->tags[place] = tag;
    line->high[place / 4] =
        (uint8_t)((line->high[place / 4] & ~(3u << shift)) | (unsigned)(row >> 32 & 3) << shift);
}

void rk_key_bucket_insert(rk_key_bucket *b, int64_t key, int64_t row) {
    uint64_t hash = rk_key_hash(key);
    uint32_t at = rk_key_first_entry(hash, b->n_lines);
    unsigned free_places;
    while (!(free_places = rk_line_match_tag(&b->lines[at], 0))) {
        b->lines[at].is_passed = 1;
        at = rk_key_next_entry(at, b->n_lines);
    }
    write_row(&b->lines[at], rk_lowest_place(free_places), rk_key_tag_of_hash(hash), row);
    b->n++;
}

void rk_key_bucket_list_rows(const rk_key_bucket *b, int64_t *rows) {
    for (uint32_t i = 0; i < b->n_lines; i++)
        for (unsigned place = 0; place < RK_LINE_ROWS; place++)
            if (b->lines[i].tags[place]) *rows++ = rk_line_read_row(&b->lines[i], place);
}

void rk_key_bucket_clear(rk_key_bucket *b) {
    if (b->lines) memset(b->lines, 0, sizeof *b->lines * b->n_lines);
    b->n = 0;
}

static void insert_line(rk_key_bucket *b, const rk_key_info *info, const rk_index_line *line) {
    for (unsigned place = 0; place < RK_LINE_ROWS; place++)
        if (line->tags[place]) {
            int64_t row = rk_line_read_row(line, place);
            rk_key_bucket_insert(b, info[row].key, row);
        }
}

static void free_lines(rk_key_bucket *b) {
    if (!b->is_in_room) rk_free(b->lines);
}

/* A bucket that leaves its room has more keys than there is room for, and never comes back. */
rk_status rk_key_bucket_reserve(rk_key_bucket *b, const rk_key_info *info, uint32_t n, uint32_t most,
                                rk_index_line *room) {
    if (b->lines && n <= (uint64_t)USUAL_ROWS * b->n_lines) return RK_OK;
    RK_TRY(check_n_keys(n));
    uint64_t usual = rk_key_bucket_lines(most);
    rk_key_bucket grown = {.n_lines = rk_grown_hash_size(b->n_lines, rk_key_bucket_lines(n), usual)};
    grown.is_in_room = room && grown.n_lines <= usual && 2 * (uint64_t)grown.n_lines >= usual;
    if (grown.is_in_room) {
        grown.lines = room;
        grown.n_lines = (uint32_t)usual;
    } else {
        RK_TRY(rk_alloc(grown.n_lines, sizeof *grown.lines, &grown.lines));
    }
    for (uint32_t i = 0; i < b->n_lines; i++) insert_line(&grown, info, &b->lines[i]);
    free_lines(b);
    b->lines = grown.lines;
    b->n_lines = grown.n_lines;
    b->is_in_room = grown.is_in_room;
    return RK_OK;
}

/* Where a key is, or would be. */
static uint32_t find_count_entry(const rk_key_bucket *b, int64_t key) {
    uint32_t at = rk_key_first_entry(rk_key_hash(key), b->counted_size);
    while (b->uses[at] && b->counted[at] != key) at = rk_key_next_entry(at, b->counted_size);
    return at;
}

uint32_t rk_key_bucket_read_count(const rk_key_bucket *b, int64_t key) {
    return b->n_counted ? b->uses[find_count_entry(b, key)] : 0;
}

static void add_count(rk_key_bucket *b, int64_t key, uint32_t uses) {
    uint32_t at = find_count_entry(b, key);
    b->n_counted += b->uses[at] == 0;
    b->counted[at] = key;
    b->uses[at] = uses > INT32_MAX - b->uses[at] ? INT32_MAX : b->uses[at] + uses;
}

rk_status rk_key_bucket_reserve_counts(rk_key_bucket *b, uint32_t n, uint32_t most) {
    if (b->uses && !is_hash_table_full(n, b->counted_size)) return RK_OK;
    RK_TRY(check_n_keys(n));
    rk_key_bucket grown = {
        .counted_size = rk_grown_hash_size(b->counted_size, entries_for_keys(n), entries_for_keys(most))};
    rk_status status =
        RK_ALLOC_ALL(RK_ARRAY(grown.counted_size, grown.counted), RK_ARRAY(grown.counted_size, grown.uses));
    if (status != RK_OK) {
        RK_FREE_ALL(grown.counted, grown.uses);
        return status;
    }
    for (uint32_t i = 0; i < b->counted_size; i++)
        if (b->uses[i]) add_count(&grown, b->counted[i], b->uses[i]);
    RK_FREE_ALL(b->counted, b->uses);
    b->counted = grown.counted;
    b->uses = grown.uses;
    b->counted_size = grown.counted_size;
    return RK_OK;
}

void rk_key_bucket_add_count(rk_key_bucket *b, int64_t key, uint32_t uses) {
    if (uses) add_count(b, key, uses);
}

/* What follows a place that becomes free moves up, as far as its own place allows. */
static void remove_count_entry(rk_key_bucket *b, uint32_t at) {
    uint32_t size = b->counted_size;
    for (uint32_t next = rk_key_next_entry(at, size); b->uses[next]; next = rk_key_next_entry(next, size)) {
        uint32_t home = rk_key_first_entry(rk_key_hash(b->counted[next]), size);
        if (probe_distance(home, next, size) < probe_distance(at, next, size))
            continue; /* it would stand before its home */
        b->counted[at] = b->counted[next];
        b->uses[at] = b->uses[next];
        at = next;
    }
    b->uses[at] = 0;
    b->n_counted--;
}

void rk_key_bucket_remove_count(rk_key_bucket *b, int64_t key) {
    if (!b->n_counted) return;
    uint32_t at = find_count_entry(b, key);
    if (b->uses[at]) remove_count_entry(b, at);
}

void rk_key_bucket_clear_counts(rk_key_bucket *b) {
    if (b->uses) memset(b->uses, 0, sizeof *b->uses * b->counted_size);
    b->n_counted = 0;
}

static bool has_more_counts_above(const rk_key_bucket *b, uint32_t least, uint32_t most) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->counted_size; i++) n += b->uses[i] > least;
    return n > most;
}

/* Mostly 1: keys that were used once. */
static uint32_t choose_subtracted_count(const rk_key_bucket *b, uint32_t most) {
    uint32_t below = 0, enough = 1;
    while (has_more_counts_above(b, enough, most)) below = enough, enough *= 2;
    while (enough - below > 1) {
        uint32_t middle = below + (enough - below) / 2;
        if (has_more_counts_above(b, middle, most))
            below = middle;
        else
            enough = middle;
    }
    return enough;
}

/* Entries that would be 0 are removed first: what moves into such a place is looked at next. */
void rk_key_bucket_lower_counts(rk_key_bucket *b, uint32_t most) {
    if (b->n_counted <= most) return;
    uint32_t subtracted = choose_subtracted_count(b, most);
    for (uint32_t i = 0; i < b->counted_size; i++)
        while (b->uses[i] && b->uses[i] <= subtracted) remove_count_entry(b, i);
    for (uint32_t i = 0; i < b->counted_size; i++)
        if (b->uses[i]) b->uses[i] -= subtracted;
}

void rk_key_bucket_release(rk_key_bucket *b) {
    free_lines(b);
    RK_FREE_ALL(b->counted, b->uses);
    *b = (rk_key_bucket){0};
}
