/* Damaged files of a row log: every byte of small ones, every length, files lost, exchanged or of an earlier
 * time. Nothing is taken for a row that is none, and what is wrong is named. */
#include <fcntl.h>
#include <unistd.h>

#include "testing.h"
#include "embedding/row_log_model.h"

static char folder[64], list_path[128], first_path[128], second_path[128];

static rk_row_log_options options_of(uint32_t record_bytes) {
    static char log[128];
    snprintf(log, sizeof log, "%s/log", folder);
    return (rk_row_log_options){.directory = log,
                                .table = 7,
                                .record_bytes = record_bytes,
                                .file_pages = 3,
                                .write_pages = 3,
                                .buffered = true};
}

static void read_file(const char *path, char **out, size_t *n) {
    OK(rk_file_read(path, out, n));
}

/* Two files in the folder's "checkpoint", of 3 pages and of 1 or 3. */
static void make_checkpoint(uint32_t record_bytes) {
    rk_row_log_options options = options_of(record_bytes);
    row_model m = {.record_bytes = record_bytes, .rng = {1, 1, 0}};
    static uint8_t record[MODEL_MOST_BYTES];
    char path[128];
    OK(rk_row_log_create(&options, &m.log));
    uint64_t place = 0;
    for (uint64_t key = 0; rk_place_file(place) == 0; key++) {
        model_record(&m, key % MODEL_KEYS, 1, record);
        OK(rk_row_log_append_records(m.log, 1, 1, record, &place));
    }
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    OK(rk_make_directories(path));
    OK(rk_row_log_link_files(m.log, path));
    model_close(&m);
    snprintf(list_path, sizeof list_path, "%s/rows.list", path);
    snprintf(first_path, sizeof first_path, "%s/rows-00000000.log", path);
    snprintf(second_path, sizeof second_path, "%s/rows-00000001.log", path);
}

static rk_status visit(void *context, uint64_t place, const void *record) {
    (void)place, (void)record;
    ++*(uint64_t *)context;
    return RK_OK;
}

/* Opens and scans. */
static rk_status try_all(uint32_t record_bytes, uint64_t *n_records) {
    rk_row_log_options options = options_of(record_bytes);
    rk_row_log *log;
    char path[128];
    options.directory = NULL;
    *n_records = 0;
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    RK_TRY(rk_row_log_restore(&options, path, &log));
    rk_status status = rk_row_log_scan(log, visit, n_records);
    rk_row_log_free(log);
    return status;
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/reckon-damage-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return rk_remove_tree(folder) == RK_OK ? 0 : -1;
}

static void write_in_place(const char *path, const char *data, size_t n_bytes) {
    int file = open(path, O_WRONLY | O_TRUNC);
    assert_int_equal(write(file, data, n_bytes), n_bytes);
    close(file);
}

/* A read of one record, by a reader; of files that the scan may have refused. */
static rk_status read_place(uint32_t record_bytes, uint64_t place) {
    static uint8_t record[MODEL_MOST_BYTES];
    rk_row_log_options options = options_of(record_bytes);
    rk_row_log *log;
    rk_row_log_reader *reader;
    char path[128];
    options.directory = NULL;
    options.without_uring = rk_place_page(place) % 2;
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    RK_TRY(rk_row_log_restore(&options, path, &log));
    OK(rk_row_log_reader_create(log, 1, &reader));
    rk_status status = rk_row_log_reader_read_records(reader, 1, &place, record);
    rk_row_log_reader_free(reader);
    rk_row_log_free(log);
    return status;
}

static rk_status read_page(uint32_t record_bytes, uint64_t file, uint32_t page) {
    return read_place(record_bytes, rk_place_make(file, page, 0));
}

static void flip_all(uint32_t record_bytes) {
    char *data, wanted[300];
    size_t n_bytes;
    uint64_t n, n_all;
    make_checkpoint(record_bytes);
    OK(try_all(record_bytes, &n_all));
    read_file(first_path, &data, &n_bytes);
    assert_int_equal(n_bytes, 3 * RK_PAGE_BYTES);
    int file = open(first_path, O_WRONLY);
    for (size_t i = 0; i < n_bytes; i++) {
        char flipped = (char)(data[i] ^ 1 << i % 8);
        assert_int_equal(pwrite(file, &flipped, 1, (off_t)i), 1);
        assert_int_equal(try_all(record_bytes, &n), RK_BAD_DATA);
        snprintf(wanted, sizeof wanted, "'%s': page %d: ", first_path, (int)(i / RK_PAGE_BYTES));
        assert_memory_equal(rk_last_error(), wanted, strlen(wanted));
        if (i % 97 == 0) {
            uint32_t first = record_bytes > RK_PAGE_ROOM ? 0 : (uint32_t)(i / RK_PAGE_BYTES);
            assert_int_equal(read_page(record_bytes, 0, first), RK_BAD_DATA);
            assert_memory_equal(rk_last_error(), wanted, strlen(wanted));
        }
        assert_int_equal(pwrite(file, data + i, 1, (off_t)i), 1);
    }
    close(file);
    rk_free(data);
    OK(try_all(record_bytes, &n));
    assert_int_equal(n, n_all);
}

static void test_flipped_bytes(void **state) {
    (void)state;
    flip_all(528);
}

static void test_flipped_bytes_of_large_rows(void **state) {
    (void)state;
    flip_all(10000); /* a record is a file */
}

static void test_flipped_list(void **state) {
    (void)state;
    char *data;
    size_t n_bytes;
    uint64_t n;
    make_checkpoint(528);
    read_file(list_path, &data, &n_bytes);
    assert_int_equal(n_bytes, 40 + 2 * 16);
    for (size_t i = 0; i < n_bytes; i++) {
        data[i] = (char)(data[i] ^ 1 << i % 8);
        write_in_place(list_path, data, n_bytes);
        assert_int_equal(try_all(528, &n), RK_BAD_DATA);
        assert_non_null(strstr(rk_last_error(), "rows.list'"));
        data[i] = (char)(data[i] ^ 1 << i % 8);
    }
    for (size_t length = 0; length < n_bytes; length++) {
        write_in_place(list_path, data, length);
        assert_int_equal(try_all(528, &n), RK_BAD_DATA);
    }
    write_in_place(list_path, data, n_bytes);
    OK(try_all(528, &n));
    rk_free(data);
}

/* A page of which the disk has an older part; a length that is another. */
static void test_torn_and_cut(void **state) {
    (void)state;
    char *data, wanted[300];
    size_t n_bytes;
    uint64_t n;
    make_checkpoint(528);
    read_file(first_path, &data, &n_bytes);
    int file = open(first_path, O_WRONLY);
    for (size_t sector = 0; sector < n_bytes; sector += 512) {
        static const char zeros[512];
        assert_int_equal(pwrite(file, zeros, 512, (off_t)sector), 512);
        assert_int_equal(try_all(528, &n), RK_BAD_DATA);
        snprintf(wanted, sizeof wanted, "'%s': page %d: ", first_path, (int)(sector / RK_PAGE_BYTES));
        assert_memory_equal(rk_last_error(), wanted, strlen(wanted));
        assert_int_equal(pwrite(file, data + sector, 512, (off_t)sector), 512);
    }
    for (int i = 0; i < 6; i++) {
        static const int lengths[] = {0, 1, 4096, 12287, 12289, 16384};
        assert_int_equal(ftruncate(file, lengths[i]), 0);
        snprintf(wanted, sizeof wanted, "'%s' has %d bytes, not 12288", first_path, lengths[i]);
        FAILS(try_all(528, &n), RK_BAD_DATA, wanted);
    }
    close(file);
    rk_free(data);
}

static void test_exchanged_pages(void **state) {
    (void)state;
    char *data, wanted[300];
    size_t n_bytes;
    uint64_t n;
    make_checkpoint(528);
    read_file(first_path, &data, &n_bytes);
    int file = open(first_path, O_WRONLY);
    assert_int_equal(pwrite(file, data + RK_PAGE_BYTES, RK_PAGE_BYTES, 0), RK_PAGE_BYTES);
    snprintf(wanted, sizeof wanted, "'%s': page 0: its checksum is wrong", first_path);
    FAILS(try_all(528, &n), RK_BAD_DATA, wanted);
    FAILS(read_page(528, 0, 0), RK_BAD_DATA, wanted);
    close(file);
    file = open(second_path, O_WRONLY);
    assert_int_equal(pwrite(file, data, RK_PAGE_BYTES, 0), RK_PAGE_BYTES);
    close(file);
    write_in_place(first_path, data, n_bytes);
    snprintf(wanted, sizeof wanted, "'%s': page 0: it is another file's", second_path);
    FAILS(try_all(528, &n), RK_BAD_DATA, wanted);
    FAILS(read_page(528, 1, 0), RK_BAD_DATA, wanted);
    rk_free(data);
}

static void test_lost_file(void **state) {
    (void)state;
    char wanted[300];
    uint64_t n;
    make_checkpoint(528);
    assert_int_equal(unlink(second_path), 0);
    snprintf(wanted, sizeof wanted, "'%s': No such file or directory", second_path);
    FAILS(try_all(528, &n), RK_NOT_FOUND, wanted);
}

/* A checkpoint that the run removes while it is read is gone, not broken. */
static void test_file_lost_meanwhile(void **state) {
    (void)state;
    char path[128], wanted[300];
    uint64_t n = 0;
    rk_row_log_options options = options_of(528);
    rk_row_log *log;
    make_checkpoint(528);
    options.directory = NULL;
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    OK(rk_row_log_restore(&options, path, &log));
    assert_int_equal(unlink(second_path), 0);
    snprintf(wanted, sizeof wanted, "could not open '%s': No such file or directory", second_path);
    FAILS(rk_row_log_scan(log, visit, &n), RK_NOT_FOUND, wanted);
    rk_row_log_free(log);
}

/* A whole file that another run of the same table wrote under that number: its pages are right, each. */
static void test_file_of_another_run(void **state) {
    (void)state;
    char *data, wanted[300], path[128];
    size_t n_bytes;
    uint64_t n;
    make_checkpoint(528);
    read_file(second_path, &data, &n_bytes);
    rk_page_shape shape = rk_page_shape_for_record(7, 528);
    memset(data + RK_PAGE_HEAD_BYTES, 5, 528);
    rk_page_seal(&shape, (rk_page_at){1, 0, 0}, 1, 1, (uint8_t *)data);
    write_in_place(second_path, data, n_bytes);
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    snprintf(wanted, sizeof wanted,
             "'%s': file 1 is another one than the log wrote: its pages have other checksums", path);
    FAILS(try_all(528, &n), RK_BAD_DATA, wanted);
    rk_page_seal(&shape, (rk_page_at){1, 0, 0}, 1, 2, (uint8_t *)data);
    write_in_place(second_path, data, n_bytes);
    snprintf(wanted, sizeof wanted, "'%s': page 0: its step is wrong", second_path);
    FAILS(try_all(528, &n), RK_BAD_DATA, wanted);
    rk_free(data);
}

static void test_places_that_are_none(void **state) {
    (void)state;
    char wanted[300];
    make_checkpoint(528); /* the second file has one record */
    OK(read_place(528, rk_place_make(1, 0, 0)));
    snprintf(wanted, sizeof wanted, "'%s': page 0: it has fewer records", second_path);
    FAILS(read_place(528, rk_place_make(1, 0, 1)), RK_BAD_DATA, wanted);
    snprintf(wanted, sizeof wanted, "'%s': page 1: the file ends before it", second_path);
    FAILS(read_page(528, 1, 1), RK_BAD_DATA, wanted);
    snprintf(wanted, sizeof wanted,
             "'%s/checkpoint/rows-00000002.log': page 0: the file is none of the log's", folder);
    FAILS(read_page(528, 2, 0), RK_BAD_DATA, wanted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_flipped_bytes, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_flipped_bytes_of_large_rows, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_flipped_list, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_torn_and_cut, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_exchanged_pages, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_places_that_are_none, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_lost_file, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_file_lost_meanwhile, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_file_of_another_run, make_folder, remove_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
