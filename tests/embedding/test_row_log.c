/* Rows on a disk (docs/formats/row_log.md): random operations beside a model, limits, full disks, threads. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing.h"
#include "base/hash.h"
#include "embedding/row_log_model.h"
#include "embedding/tiered/row_log_internal.h"

static char folder[64];

/* The same string for the same name, as long as there is the folder. */
static char paths[16][128];
static char *path_of(const char *name) {
    char path[128];
    size_t i = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    while (*paths[i] && strcmp(paths[i], path) != 0) i++;
    return strcpy(paths[i], path);
}

static int make_folder(void **state) {
    (void)state;
    memset(paths, 0, sizeof paths);
    snprintf(folder, sizeof folder, "/tmp/reckon-rows-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

/* In memory, which is quicker, for tests that ask no disk. */
static int make_quick_folder(void **state) {
    if (access("/dev/shm", W_OK) != 0) return make_folder(state);
    memset(paths, 0, sizeof paths);
    snprintf(folder, sizeof folder, "/dev/shm/reckon-rows-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return rk_remove_tree(folder) == RK_OK ? 0 : -1;
}

static rk_row_log_options small_files(uint32_t record_bytes) {
    return (rk_row_log_options){.directory = path_of("log"),
                                .table = 7,
                                .record_bytes = record_bytes,
                                .file_pages = 16,
                                .write_pages = 4,
                                .buffered = true};
}

static void open_model(row_model *m, const rk_row_log_options *options) {
    *m = (row_model){.record_bytes = options->record_bytes,
                     .compacts = options->max_bytes > 0,
                     .rng = {3, options->record_bytes, 0}};
    OK(rk_row_log_create(options, &m->log));
    OK(rk_row_log_reader_create(m->log, 16, &m->reader));
}

/* What the checkpoint has is what there was, in a log of its own and where it is. */
static void check_checkpoint(const row_model *m, const rk_row_log_options *options, const char *checkpoint) {
    rk_row_log_options again = *options;
    for (int only_read = 0; only_read < 2; only_read++) {
        row_model other = *m;
        again.directory = only_read ? NULL : path_of("again");
        again.without_uring = !options->without_uring;
        OK(rk_row_log_restore(&again, checkpoint, &other.log));
        OK(rk_row_log_reader_create(other.log, 0, &other.reader));
        OK(model_scan(&other));
        assert_int_equal(rk_row_log_read_counts(other.log).n_live, model_n_live(&other));
        OK(model_read(&other, true));
        for (int i = 0; i < 20 && !only_read; i++) OK(model_act(&other));
        if (!only_read) OK(model_read(&other, true));
        model_close(&other);
    }
}

/* Once compact knows of nothing to do, a look at all files finds nothing either. */
static void check_compacted(row_model *m) {
    do OK(model_compact(m));
    while (m->log->may_compact);
    rk_row_log_counts before = rk_row_log_read_counts(m->log), after;
    m->log->may_compact = true;
    OK(model_compact(m));
    after = rk_row_log_read_counts(m->log);
    assert_int_equal(after.n_moved, before.n_moved);
    assert_int_equal(after.n_files, before.n_files);
}

static void run_random(const rk_row_log_options *options, int n_rounds) {
    row_model m;
    open_model(&m, options);
    for (int round = 0; round < n_rounds; round++) {
        for (int i = 0; i < 40; i++) OK(model_act(&m));
        check_compacted(&m);
        rk_row_log_counts counts = rk_row_log_read_counts(m.log);
        assert_int_equal(counts.n_live, model_n_live(&m));
        assert_true(counts.n_bytes <= options->max_bytes || !options->max_bytes);
        OK(rk_make_directories(path_of("checkpoint")));
        OK(rk_row_log_link_files(m.log, path_of("checkpoint")));
        check_checkpoint(&m, options, path_of("checkpoint"));
        OK(rk_remove_tree(path_of("checkpoint")));
        OK(model_read(&m, true));
    }
    model_close(&m);
    OK(rk_remove_tree(options->directory));
}

static void test_random(void **state) {
    (void)state;
    static const uint32_t bytes[] = {12, 13, 264, 528, 2032, 2033, 4064, 4065, 8128, 20000};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        rk_row_log_options options = small_files(bytes[i]);
        options.without_uring = i % 3 == 0;
        options.open_files = i % 4 == 0 ? 2 : 0;
        run_random(&options, 4);
    }
}

/* Past the system's cache, where /tmp lets it. */
static void test_random_on_disk(void **state) {
    (void)state;
    for (int without_uring = 0; without_uring < 2; without_uring++) {
        rk_row_log_options options = small_files(528);
        options.without_uring = without_uring;
        options.buffered = false;
        run_random(&options, 1);
    }
}

/* As much as is needed at most: rows, twice, and four files. */
static void test_random_with_limit(void **state) {
    (void)state;
    rk_row_log_options options = small_files(528);
    options.max_bytes = (uint64_t)(2 * (MODEL_KEYS / 7 + 1) + 4 * options.file_pages) * RK_PAGE_BYTES;
    run_random(&options, 10);
}

/* Pages around 2^31 and 2^32 and at the last of 2^40, steps around 2^31, 2^32 and 2^40. */
static void test_wide_numbers(void **state) {
    (void)state;
    static const uint64_t files[] = {1u << 17, 1u << 18, (1u << 26) - 16},
                          steps[] = {1ull << 31, 1ull << 32, 1ull << 40};
    for (int i = 0; i < 3; i++) {
        row_model m;
        rk_row_log_options options = small_files(528);
        options.first_file = files[i] - (i < 2);
        open_model(&m, &options);
        m.step = steps[i] - 5;
        for (int k = 0; k < 15; k++) OK(model_put(&m));
        assert_true(m.step > steps[i]);
        OK(model_read(&m, true));
        OK(rk_make_directories(path_of("checkpoint")));
        rk_status status = RK_OK;
        for (int k = 0; i == 2 && k < 100 && status == RK_OK; k++) status = model_put(&m);
        if (i == 2) {
            char message[300];
            snprintf(message, sizeof message,
                     "'%s': 2^26 files were written, and numbers for more of them are not there",
                     options.directory);
            FAILS(status, RK_IO, message);
            OK(model_read(&m, true));
        }
        OK(rk_row_log_link_files(m.log, path_of("checkpoint")));
        model_close(&m);
        OK(rk_remove_tree(path_of("checkpoint")));
    }
}

static rk_status visit_nothing(void *context, uint64_t place, const void *record) {
    (void)place, (void)record;
    ++*(uint64_t *)context;
    return RK_OK;
}

/* More than 2^32 bytes in files that are empty but for their last page. */
static void test_sparse_files(void **state) {
    (void)state;
    enum { FILES = 70 };
    rk_row_log_options options = {
        .directory = path_of("log"), .table = 1, .record_bytes = 528, .buffered = true};
    rk_row_log *log;
    rk_row_log_reader *reader;
    uint8_t record[528] = {1}, page[RK_PAGE_BYTES], got[528];
    uint64_t place;
    char *list;
    size_t n_bytes;
    OK(rk_row_log_create(&options, &log));
    OK(rk_row_log_append_records(log, 1, 1, record, &place));
    OK(rk_make_directories(path_of("checkpoint")));
    OK(rk_row_log_link_files(log, path_of("checkpoint")));
    rk_row_log_free(log);
    OK(rk_file_read(path_of("checkpoint/rows.list"), &list, &n_bytes));
    OK(rk_realloc(n_bytes + FILES * 16, 1, &list));
    *(uint64_t *)(list + 16) = *(uint64_t *)(list + 24) = FILES; /* files, and the number of the next */
    rk_page_shape shape = rk_page_shape_for_record(1, 528);
    for (uint32_t i = 0; i < FILES; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/checkpoint/rows-%08x.log", folder, i);
        int file = open(path, O_CREAT | O_WRONLY, 0666);
        assert_int_equal(ftruncate(file, (off_t)RK_FILE_PAGES * RK_PAGE_BYTES), 0);
        rk_unit_write_record(&shape, page, 0, record);
        rk_page_seal(&shape, (rk_page_at){i, RK_FILE_PAGES - 1, 0}, 1, 1, page);
        assert_int_equal(pwrite(file, page, sizeof page, (off_t)(RK_FILE_PAGES - 1) * RK_PAGE_BYTES),
                         sizeof page);
        close(file);
        memcpy(list + 40 + i * 16, &(struct {
                   uint64_t n;
                   uint32_t pages, digest;
               }){i, RK_FILE_PAGES, 0},
               16);
    }
    uint32_t crc = rk_crc32c(0, list + 8, 40 + FILES * 16 - 8);
    memcpy(list + 4, &crc, 4);
    OK(rk_file_write(path_of("checkpoint/rows.list"), list, 40 + FILES * 16));
    rk_free(list);
    options.directory = NULL;
    OK(rk_row_log_restore(&options, path_of("checkpoint"), &log));
    assert_int_equal(rk_row_log_read_counts(log).n_bytes, (uint64_t)FILES << 26);
    OK(rk_row_log_reader_create(log, 0, &reader));
    place = rk_place_make(FILES - 1, RK_FILE_PAGES - 1, 0);
    OK(rk_row_log_reader_read_records(reader, 1, &place, got));
    assert_memory_equal(got, record, sizeof got);
    place = rk_place_make(FILES - 1, RK_FILE_PAGES - 2, 0);
    char message[300];
    snprintf(message, sizeof message, "'%s': page 16382: it is no page of rows",
             path_of("checkpoint/rows-00000045.log"));
    FAILS(rk_row_log_reader_read_records(reader, 1, &place, got), RK_BAD_DATA, message);
    uint64_t n = 0;
    snprintf(message, sizeof message, "'%s': page 1: it is no page of rows",
             path_of("checkpoint/rows-00000000.log"));
    FAILS(rk_row_log_scan(log, visit_nothing, &n), RK_BAD_DATA, message);
    rk_row_log_reader_free(reader);
    rk_row_log_free(log);
}

/* Few small files become one, and a folder does not fill with them. */
static void test_many_checkpoints(void **state) {
    (void)state;
    row_model m;
    rk_row_log_options options = small_files(528);
    open_model(&m, &options);
    for (int i = 0; i < 200; i++) {
        OK(model_put(&m));
        OK(rk_row_log_sync(m.log));
        OK(model_compact(&m));
        rk_row_log_counts counts = rk_row_log_read_counts(m.log);
        assert_true(counts.n_files <= 8 + MODEL_KEYS / 50);
        assert_true(counts.n_live * 2 + 8 * 112 >= counts.n_records);
    }
    OK(model_read(&m, true));
    assert_true(rk_row_log_read_counts(m.log).n_moved > 0);
    model_close(&m);
}

enum { SMALL_FILES = 8, IN_SMALL = 60 /* of 112 */, SMALL_ROWS = SMALL_FILES * IN_SMALL };

static bool is_place(void *context, uint64_t place, const void *record) {
    return ((const uint64_t *)context)[rk_load_u64(record)] == place;
}

static void take_new_place(void *context, const void *record, uint64_t from, uint64_t to) {
    (void)from;
    ((uint64_t *)context)[rk_load_u64(record)] = to;
}

/* Files that have few records since a checkpoint, and few enough since some were dropped. */
static void test_files_become_small(void **state) {
    (void)state;
    static uint8_t records[IN_SMALL][528];
    static uint64_t places[SMALL_ROWS];
    rk_row_log_options options = small_files(528);
    rk_row_mover mover = {places, is_place, take_new_place};
    rk_row_log *log;
    OK(rk_row_log_create(&options, &log));
    for (uint64_t f = 0; f < SMALL_FILES; f++) {
        for (uint64_t i = 0; i < IN_SMALL; i++) {
            uint64_t key = f * IN_SMALL + i;
            memcpy(records[i], &key, sizeof key);
        }
        OK(rk_row_log_append_records(log, f, IN_SMALL, records, places + f * IN_SMALL));
        OK(rk_row_log_sync(log));
    }
    OK(rk_row_log_compact(log, &mover));
    assert_int_equal(rk_row_log_read_counts(log).n_moved, 0);
    for (uint64_t f = 0; f < SMALL_FILES; f++) {
        rk_row_log_drop_records(log, 5, places + f * IN_SMALL);
        memset(places + f * IN_SMALL, 0xFF, 5 * sizeof *places);
    }
    OK(rk_row_log_compact(log, &mover));
    assert_int_equal(rk_row_log_read_counts(log).n_moved, SMALL_ROWS - SMALL_FILES * 5);
    assert_true(rk_row_log_read_counts(log).n_files <= SMALL_ROWS / 112 + 1);
    rk_row_log_free(log);
}

static void test_wrong_options(void **state) {
    (void)state;
    rk_row_log *log;
    rk_row_log_options options = small_files(7);
    FAILS(rk_row_log_create(&options, &log), RK_INVALID_ARGUMENT,
          "rows of 7 bytes on a disk; they have 8 to 65024");
    options = small_files(65025);
    FAILS(rk_row_log_create(&options, &log), RK_INVALID_ARGUMENT,
          "rows of 65025 bytes on a disk; they have 8 to 65024");
    options = small_files(100);
    options.max_bytes = 4 * 65536 - 1;
    FAILS(rk_row_log_create(&options, &log), RK_CONFIG,
          "storage.max_bytes: 262143 is too little; at least 262144, four files");
    options = small_files(65024);
    run_random(&(rk_row_log_options){.directory = options.directory,
                                     .table = 7,
                                     .record_bytes = 16000,
                                     .file_pages = 16,
                                     .write_pages = 1},
               1);
    options = small_files(12);
    OK(rk_row_log_create(&options, &log));
    rk_row_log *second;
    assert_int_equal(rk_row_log_create(&options, &second), RK_BUSY);
    char message[300];
    uint64_t place;
    OK(rk_row_log_append_records(log, 5, 1, "012345678901", &place));
    snprintf(message, sizeof message, "'%s': step 4 after step 5", options.directory);
    FAILS(rk_row_log_append_records(log, 4, 1, "012345678901", &place), RK_INVALID_ARGUMENT, message);
    OK(rk_make_directories(path_of("checkpoint")));
    OK(rk_row_log_link_files(log, path_of("checkpoint")));
    assert_int_equal(rk_row_log_link_files(log, path_of("checkpoint")),
                     RK_IO); /* there are such files already */
    rk_row_log_free(log);
    options.directory = path_of("checkpoint");
    snprintf(message, sizeof message, "'%s' is a checkpoint, and cannot be the folder of the log as well",
             options.directory);
    FAILS(rk_row_log_restore(&options, options.directory, &log), RK_INVALID_ARGUMENT, message);
    options.directory = NULL;
    OK(rk_row_log_restore(&options, path_of("checkpoint"), &log));
    snprintf(message, sizeof message, "'%s' is only read", path_of("checkpoint"));
    FAILS(rk_row_log_append_records(log, 6, 1, "012345678901", &place), RK_INVALID_ARGUMENT, message);
    rk_row_log_free(log);
    options.table = 8;
    snprintf(message, sizeof message, "'%s' is another table's", path_of("checkpoint/rows.list"));
    FAILS(rk_row_log_restore(&options, path_of("checkpoint"), &log), RK_BAD_DATA, message);
    options.table = 7;
    options.record_bytes = 13;
    snprintf(message, sizeof message, "'%s' is of rows of 12 bytes, not 13", path_of("checkpoint/rows.list"));
    FAILS(rk_row_log_restore(&options, path_of("checkpoint"), &log), RK_BAD_DATA, message);
    assert_int_equal(rk_row_log_restore(&options, path_of("nothing"), &log), RK_NOT_FOUND);
}

static void test_max_bytes(void **state) {
    (void)state;
    row_model m;
    rk_row_log_options options = small_files(528);
    options.max_bytes = 4 * 65536;
    open_model(&m, &options);
    rk_status status = RK_OK;
    static uint8_t records[MODEL_KEYS * 528];
    uint64_t places[MODEL_KEYS];
    for (uint64_t key = 0; key < MODEL_KEYS; key++) model_record(&m, key, 1, records + key * 528);
    OK(rk_row_log_append_records(m.log, 0, MODEL_KEYS, records, places));
    memcpy(m.places, places, sizeof places);
    for (int key = 0; key < MODEL_KEYS; key++) m.versions[key] = 1;
    for (int i = 0; i < 3 && status == RK_OK; i++)
        status = rk_row_log_append_records(m.log, 0, MODEL_KEYS, records, places);
    char message[400];
    snprintf(
        message, sizeof message,
        "'%s': its files have 196608 bytes, and one more would pass max_bytes, 262144\nhint: files need at "
        "most twice the bytes of the rows that they hold, and four files more: set a larger "
        "storage.max_bytes",
        options.directory);
    FAILS(status, RK_IO, message);
    OK(model_read(&m, true));
    assert_int_equal(rk_row_log_read_counts(m.log).n_live, MODEL_KEYS);
    model_close(&m);
}

/* In a child, whose files may have so many bytes: the system says no in the middle of a file. */
static void write_until_full(void) {
    row_model m;
    rk_row_log_options options = small_files(528);
    options.directory = path_of("log");
    open_model(&m, &options);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {6 * RK_PAGE_BYTES + 100, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
    rk_status status = RK_OK;
    rk_rng before = m.rng;
    uint64_t step = m.step;
    for (int i = 0; i < 1000 && status == RK_OK; i++) {
        before = m.rng;
        step = m.step;
        status = model_put(&m);
    }
    if (status != RK_IO || !strstr(rk_last_error(), "rows-00000000.log': page 6: could not write it"))
        _exit(2);
    if (model_read(&m, true) != RK_OK) _exit(3);
    limit.rlim_cur = RLIM_INFINITY;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(4);
    m.rng = before;
    m.step = step;
    for (int i = 0; i < 50; i++)
        if (model_put(&m) != RK_OK || model_read(&m, true) != RK_OK || model_compact(&m) != RK_OK) _exit(5);
    rk_row_log_counts counts = rk_row_log_read_counts(m.log);
    if (counts.n_live != model_n_live(&m)) _exit(6);
    model_close(&m);
    _exit(0);
}

/* In a child that has a small file system of its own. 77: not where it may not. */
static void fill_disk(void) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, "size=300k") != 0)
        _exit(77);
    row_model m;
    rk_row_log_options options = small_files(528);
    options.directory = path_of("log");
    open_model(&m, &options);
    rk_status status = RK_OK;
    while (status == RK_OK) status = model_put(&m);
    if (status != RK_IO || !strstr(rk_last_error(), "no room for '") ||
        !strstr(rk_last_error(), "No space left on device"))
        _exit(2);
    if (model_read(&m, true) != RK_OK) _exit(3);
    if (model_compact(&m) != RK_OK && model_read(&m, true) != RK_OK) _exit(4);
    model_close(&m);
    _exit(0);
}

static void in_child(void (*act)(void), bool may_skip) {
    int how;
    pid_t child = fork();
    if (child == 0) act();
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    if (may_skip && WEXITSTATUS(how) == 77)
        print_message("no file system of its own: skipped\n");
    else
        assert_int_equal(WEXITSTATUS(how), 0);
}

static void test_full_disk(void **state) {
    (void)state;
    in_child(write_until_full, false);
    in_child(fill_disk, true);
}

/* In a child that may have 60 files open: two logs of 45 files each leave it a part of them. */
static void read_two_logs(void) {
    enum { LOGS = 2, FILES = 45, LIMIT = 60, OTHERS = 20 };
    static uint64_t places[LOGS][FILES];
    rk_row_log *logs[LOGS];
    rk_row_log_reader *readers[LOGS];
    uint8_t record[528] = {0}, records[FILES * 528];
    const struct rlimit limit = {LIMIT, LIMIT};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(1);
    for (int i = 0; i < LOGS; i++) {
        rk_row_log_options options = small_files(sizeof record);
        options.directory = path_of(i ? "log" : "other");
        options.without_uring = true;
        if (rk_row_log_create(&options, &logs[i]) != RK_OK) _exit(2);
        if (rk_row_log_reader_create(logs[i], 4, &readers[i]) != RK_OK) _exit(3);
        for (uint64_t place = 0; rk_place_file(place) < FILES;) {
            if (rk_row_log_append_records(logs[i], 0, 1, record, &place) != RK_OK) _exit(4);
            if (rk_place_file(place) < FILES) places[i][rk_place_file(place)] = place;
        }
    }
    for (int i = 0; i < 2 * LOGS; i++)
        if (rk_row_log_reader_read_records(readers[i % LOGS], FILES, places[i % LOGS], records) != RK_OK)
            _exit(5);
    for (int i = 0; i < OTHERS; i++)
        if (open("/dev/null", O_RDONLY) < 0) _exit(6);
    _exit(0);
}

static void test_logs_share_open_files(void **state) {
    (void)state;
    in_child(read_two_logs, false);
}

/* Each allocation fails once; nothing leaks, and what was there is there still. */
static rk_status live_once(const char *log, const char *checkpoint) {
    row_model m = {.record_bytes = 528, .rng = {3, 1, 0}};
    rk_row_log_options options = small_files(528);
    options.directory = log;
    rk_status status = rk_row_log_create(&options, &m.log);
    if (status == RK_OK) status = rk_row_log_reader_create(m.log, 4, &m.reader);
    for (int i = 0; i < 25 && status == RK_OK; i++) status = model_act(&m);
    if (status == RK_OK) status = rk_row_log_link_files(m.log, checkpoint);
    model_close(&m);
    if (status == RK_OK) status = rk_row_log_restore(&options, checkpoint, &m.log);
    if (status == RK_OK) status = rk_row_log_reader_create(m.log, 4, &m.reader);
    if (status == RK_OK) status = model_scan(&m);
    if (status == RK_OK) status = model_read(&m, true);
    model_close(&m);
    return status;
}

static void test_no_memory(void **state) {
    (void)state;
    char log[128], checkpoint[128];
    strcpy(log, path_of("log"));
    strcpy(checkpoint, path_of("checkpoint"));
    rk_status status = RK_NO_MEMORY;
    long n = 0, live = rk_alloc_live();
    while (status != RK_OK) {
        OK(rk_remove_tree(checkpoint));
        OK(rk_make_directories(checkpoint));
        rk_alloc_fail_after(++n, false);
        status = live_once(log, checkpoint);
        rk_alloc_fail_after(0, false);
        assert_true(status == RK_OK || status == RK_NO_MEMORY);
        assert_int_equal(rk_alloc_live(), live);
        assert_true(n < 5000);
    }
    assert_true(n > 100);
}

/* Readers on threads of their own, beside one that appends. */
typedef struct shared {
    row_model *m;
    uint64_t places[4000];
    _Atomic uint32_t n; /* places that are there */
    _Atomic bool failed;
} shared;

static void *read_on(void *argument) {
    shared *s = argument;
    rk_row_log_reader *reader;
    static _Thread_local uint8_t records[64 * 528], wanted[528];
    rk_rng rng = {9, (uint64_t)(size_t)&reader, 0};
    if (rk_row_log_reader_create(s->m->log, 8, &reader) != RK_OK) {
        s->failed = true;
        return NULL;
    }
    while (s->n < 4000 && !s->failed) {
        uint64_t places[64], keys[64], n = s->n;
        for (int i = 0; i < 64 && n; i++) {
            keys[i] = i % 2 ? n - 1 - rk_rng_below(&rng, n < 20 ? n : 20) : rk_rng_below(&rng, n);
            places[i] = s->places[keys[i]];
        }
        if (n && rk_row_log_reader_read_records(reader, 64, places, records) != RK_OK) s->failed = true;
        for (int i = 0; i < 64 && n; i++) {
            model_record(s->m, keys[i], 1, wanted);
            if (memcmp(wanted, records + i * 528, 528) != 0) s->failed = true;
        }
    }
    rk_row_log_reader_free(reader);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    for (int without_uring = 0; without_uring < 2; without_uring++) {
        row_model m;
        static shared s;
        pthread_t threads[2];
        uint8_t record[528];
        rk_row_log_options options = small_files(528);
        options.without_uring = without_uring;
        options.open_files = 3;
        open_model(&m, &options);
        memset(&s, 0, sizeof s);
        s.m = &m;
        for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, read_on, &s), 0);
        for (uint64_t key = 0; key < 4000; key++) {
            model_record(&m, key, 1, record);
            OK(rk_row_log_append_records(m.log, key, 1, record, &s.places[key]));
            s.n++;
        }
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
        assert_false(s.failed);
        model_close(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random, make_quick_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_random_on_disk, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_random_with_limit, make_quick_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_wide_numbers, make_quick_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_sparse_files, make_quick_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_files_become_small, make_quick_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_many_checkpoints, make_quick_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_wrong_options, make_quick_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_max_bytes, make_quick_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_full_disk, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_logs_share_open_files, make_quick_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_no_memory, make_quick_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_threads, make_quick_folder, remove_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
