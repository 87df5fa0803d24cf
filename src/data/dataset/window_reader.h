/* Windows of a split's rows, in the order of an epoch: parsed, transformed, and kept in memory while they
 * fit. */
#ifndef RK_DATA_DATASET_WINDOW_READER_H
#define RK_DATA_DATASET_WINDOW_READER_H

#include <stdatomic.h>

#include "data/cache/cached_windows.h"
#include "data/dataset/dataset.h"
#include "data/dataset/label_drift.h"
#include "data/source/source_index.h"
#include "base/thread/worker_pool.h"
#include "data/transform/transforms_internal.h"

/* A piece of a file on its way: parsed, placed, transformed. Pieces may be transformed before they are
 * placed, unless two_steps. */
typedef struct rk_window_reader_part {
    rk_chunk chunk;
    rk_source *source;         /* that parses it */
    int64_t first_row, n_rows; /* of the chunk, that belong to the piece; n_rows -1: all */
    int64_t file_row; /* number of the piece's first row in the files; without an index once it is placed */
    size_t place;     /* of the index */
    rk_window rows;   /* those of the split */
    rk_transform_scratch memory;
    uint64_t n_bytes; /* memory of the chunk and of the rows, once it is transformed */
    bool two_steps, is_parsed;
    bool is_passed;      /* all of its rows are in windows of other shares, and so it is not parsed */
    int64_t passed_rows; /* of the split */
    int64_t n_used;      /* of the run of rows whose turn it is, that stand in windows */
    int64_t n_skipped;
    rk_status status; /* met when this part's turn has come */
    int64_t bad_row;  /* of the chunk, that the error is about, or -1 */
    char error[4096];
} rk_window_reader_part;

/* The files of a split, and which of their rows are the split's. */
typedef struct rk_split_files {
    rk_data_section manner; /* how they are written: the section's way, or the split's own */
    rk_text_list paths;     /* not yet expanded */
    int part;               /* which rows: 0 train's own, 1 valid's share, 2 test's share; -1: all */
    const char *split;      /* of the run file; NULL: it is a file of the caller's */
} rk_split_files;
/* Zeroed before; its paths are to be released, after a failure too. */
rk_status rk_split_files_find(const rk_data_section *section, const char *directory, const char *split,
                              rk_split_files *out);
/* Whether the row, by its number in the files, is one of the split's. */
bool rk_split_files_have_row(const rk_split_files *files, const rk_data_section *section, int64_t file_row);

typedef struct rk_window_reader {
    const rk_data_section *section;
    const rk_transforms *transforms;
    char *directory;
    rk_split_files files;
    bool labels_optional;
    int64_t window_rows;
    bool shuffles;           /* rows of a window are to be from all over the files */
    uint64_t seed;           /* of the order */
    int64_t n_epochs;        /* that are wanted, 0: not known */
    int32_t share, n_shares; /* window w is read where w mod n_shares is `share` */
    atomic_bool stop;    /* set by another thread: there is no next window, and the pass must be begun anew */
    rk_joined_rows rows; /* open during a pass */
    bool is_open, has_labels;
    bool has_read_stream; /* a pipe: there is no second pass */
    rk_worker_pool *team;
    rk_window_reader_part *parts; /* [n_parts], made with the first pass */
    size_t n_parts;
    uint64_t n_taken, n_placed, n_used; /* pieces of a pass so far; piece i is parts[i % n_parts]. Those on
                                         * their way are of one file, unless there is an index */
    /* Pieces in an order of their own. Those of a group are open together: in each of its rounds they give,
     * one after the other, a run of rows, an equal share of theirs. */
    rk_source_index *index;   /* NULL: in the files' order */
    uint32_t *order;          /* [index->n_places] */
    bool has_looked;          /* for an index */
    uint64_t n_groups, group; /* 0 groups: each piece is one */
    size_t n_open, turn;      /* pieces of the group, and whose turn it is */
    int64_t n_rounds, round;
    int64_t alone;               /* the file for which there is no index, or -1 */
    rk_label_drift drift;        /* of windows' labels */
    bool file_ends;              /* it has no more pieces, or one could not be taken */
    int64_t first_window;        /* the pass begins with it: rows before are only counted */
    int64_t file_row, epoch_row; /* rows of the files and of the split so far */
    int64_t ahead_file_row,
        ahead_row;     /* the same of the pieces taken; -1: not known before they are parsed */
    int64_t n_rows;    /* of the split, once a pass has come to its end; else -1 */
    int64_t n_skipped; /* bad rows of the pass */
    bool has_warned;   /* of what the files or the rows are like */
    /* windows kept between epochs, and on the disk from one run to the next */
    rk_window_list kept;
    bool keeps, complete; /* keeps: for a further epoch, still within cache_bytes; complete: all of the split
                           * is kept */
    uint64_t kept_bytes;
    rk_cache_key cache_key;
    bool has_asked_cache;
    uint64_t piece_bytes; /* of the largest part so far */
    rk_window current;    /* where windows are not kept */
    size_t next;          /* window of the epoch */
} rk_window_reader;

/* To the beginning of an epoch, or to one of its rows: windows before that row's may be left out. */
void rk_window_reader_rewind(rk_window_reader *reader, int64_t row);
/* The next window of the epoch that is of this share; NULL at its end. */
rk_status rk_window_reader_next(rk_window_reader *reader, const rk_window **out);
void rk_window_reader_release(rk_window_reader *reader);
/* That the files of a split can be read, and have a row, by their beginnings. */
rk_status rk_window_reader_check(const rk_window_reader *reader);

#endif
