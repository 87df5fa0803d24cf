/* Rows of a checkpoint that has them in logs of many parts, more than files may be open. */
#include "testing.h"

#include <sys/resource.h>
#include <unistd.h>

#include "base/file/file.h"
#include "embedding/local/table_storage.h"
#include "train/checkpoint/rows_on_disk.h"

enum { PARTS = 60, KEYS = PARTS * 3, OPEN_FILES = 32 };

typedef struct record {
    int64_t key;
    double value;
} record;

static int64_t key_of(int64_t number) {
    return number * 7919 % 1000003;
}

/* Key i is in part i mod PARTS, first with another value. */
static void write_part(const char *folder, int part) {
    char log_folder[128], saved[128];
    uint64_t places[2];
    rk_row_log *log;
    snprintf(log_folder, sizeof log_folder, "%s/log", folder);
    snprintf(saved, sizeof saved, "%s/saved/t.%d-of-%d", folder, part, PARTS);
    OK(rk_make_directories(saved));
    OK(rk_row_log_create(&(rk_row_log_options){.directory = log_folder,
                                               .table = rk_table_row_log_id("t"),
                                               .record_bytes = sizeof(record),
                                               .file_pages = 8},
                         &log));
    for (int64_t i = part; i < KEYS; i += PARTS) {
        record records[2] = {{key_of(i), -1}, {key_of(i), (double)i}};
        OK(rk_row_log_append_records(log, 1, 2, records, places));
    }
    OK(rk_row_log_link_files(log, saved));
    rk_row_log_free(log);
}

static void read_all(const char *folder) {
    char saved[128];
    int64_t keys[KEYS], numbers[KEYS];
    double values[KEYS];
    rk_rows_on_disk *rows;
    snprintf(saved, sizeof saved, "%s/saved", folder);
    for (int64_t i = 0; i < KEYS; i++) keys[i] = key_of(i), numbers[i] = KEYS - 1 - i;
    OK(rk_rows_on_disk_open(saved, "t", sizeof(record), keys, KEYS, &rows));
    OK(rk_rows_on_disk_read(rows, numbers, KEYS, offsetof(record, value), sizeof *values, values));
    for (int64_t i = 0; i < KEYS; i++) assert_true(values[i] == (double)numbers[i]);
    rk_rows_on_disk_close(rows);
}

static void test_more_parts_than_files(void **state) {
    (void)state;
    char folder[64];
    struct rlimit before, few;
    snprintf(folder, sizeof folder, "%s/reckon-parts-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(folder));
    for (int part = 0; part < PARTS; part++) write_part(folder, part);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = OPEN_FILES;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    read_all(folder);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    OK(rk_remove_tree(folder));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_more_parts_than_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
