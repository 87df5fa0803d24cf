/* The request log without a server: a queue that is full drops and counts, files are named and gone on with,
 * memory runs out. */
#include "testing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "format/protobuf/tfrecord.h"
#include "server/log/log_file.h"
#include "server/log/request_log.h"

static char folder[] = "/tmp/reckon-log-XXXXXX";
static char path[100];

static const char *path_of(const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static long size_of(const char *name) {
    struct stat there;
    return stat(path_of(name), &there) == 0 ? (long)there.st_size : -1;
}

static rk_status append(rk_request_log *log, int64_t n_records, size_t n_bytes) {
    static const char payload[1000];
    rk_buffer records = {0};
    for (int64_t i = 0; i < n_records; i++) rk_tfrecord_write(payload, n_bytes, &records);
    rk_status status = records.status;
    rk_request_log_append(log, &records, n_records);
    assert_null(records.data);
    return status;
}

static void test_queue(void **state) {
    (void)state;
    rk_request_log *log;
    rk_request_log_options options = {
        .path = path_of("queue"), .sampling_rate = 1, .max_bytes = 1 << 20, .max_queue_bytes = 300};
    OK(rk_request_log_open(&options, &log));
    OK(append(log, 3, 100)); /* 348 bytes: never room */
    rk_buffer failed = {.status = RK_NO_MEMORY};
    rk_request_log_append(log, &failed, 2);
    rk_request_log_counts counts = rk_request_log_count(log);
    assert_int_equal(counts.n_dropped, 5);
    OK(append(log, 2, 100));
    while (rk_request_log_count(log).n_written < 2) usleep(1000);
    for (int i = 0; i < 1000; i++) OK(append(log, 2, 100)); /* faster than any disk, or not */
    rk_request_log_close(log);
    assert_int_equal(size_of("queue") % 232, 0);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_sample(void **state) {
    (void)state;
    rk_request_log *log;
    char id[20];
    int n = 0, n_all = 0, n_none = 0;
    const double rates[] = {0.25, 1, 0};
    int *const counts[] = {&n, &n_all, &n_none};
    for (int r = 0; r < 3; r++) {
        const rk_request_log_options options = {
            .path = path_of("sample"), .sampling_rate = rates[r], .max_bytes = 1 << 20, .max_queue_bytes = 1};
        OK(rk_request_log_open(&options, &log));
        for (int i = 0; i < 10000; i++)
            *counts[r] += rk_request_log_is_sampled(log, (rk_span){id, (size_t)sprintf(id, "%d", i)});
        rk_request_log_close(log);
    }
    assert_in_range(n, 2300, 2700);
    assert_int_equal(n_all, 10000);
    assert_int_equal(n_none, 0);
    assert_false(rk_request_log_is_sampled(NULL, (rk_span){"x", 1}));
}

static void test_files(void **state) {
    (void)state;
    rk_log_file file;
    rk_buffer record = {0};
    const char *log = path_of("new.log/x");
    assert_int_equal(rk_log_file_open(log, 100, 0, &file), RK_NOT_FOUND);
    rk_log_file_close(&file);
    rk_tfrecord_write("0123456789", 10, &record); /* 26 bytes */
    char own[100];
    strcpy(own, path_of("plain")); /* no ending; four records a file */
    for (int i = 0; i < 11; i++) {
        OK(rk_log_file_open(own, 104, 0, &file));
        OK(rk_log_file_append(&file, record.data, record.n_bytes));
        rk_log_file other;
        assert_int_equal(rk_log_file_open(own, 104, 1, &other), RK_BUSY);
        rk_log_file_close(&other);
        rk_log_file_close(&file);
    }
    assert_int_equal(size_of("plain-000001"), 104);
    assert_int_equal(size_of("plain-000002"), 104);
    assert_int_equal(size_of("plain"), 78);
    OK(rk_log_file_open(own, 104, 2, &file));
    assert_int_equal(access(path_of("plain-000001"), F_OK), -1);
    assert_int_equal(size_of("plain-000002"), 104);
    for (int i = 0; i < 3; i++) OK(rk_log_file_append(&file, record.data, record.n_bytes));
    rk_log_file_close(&file);
    assert_int_equal(access(path_of("plain-000002"), F_OK), -1);
    assert_int_equal(size_of("plain-000003"), 104);
    assert_int_equal(size_of("plain"), 52);
    assert_int_equal(mkdir(path_of("plain-000001"), 0700), 0); /* what cannot be deleted keeps no other */
    assert_int_equal(mkdir(path_of("plain-000001/x"), 0700), 0);
    OK(rk_log_file_open(own, 104, 1, &file));
    rk_log_file_close(&file);
    assert_int_equal(access(path_of("plain-000003"), F_OK), -1);
    assert_int_equal(access(path_of("plain-000001"), F_OK), 0);
    assert_int_equal(truncate(path_of("plain"), 5), 0); /* all that is left is a part of a head */
    OK(rk_log_file_open(own, 104, 0, &file));
    assert_int_equal(size_of("plain"), 0);
    OK(rk_log_file_append(&file, record.data, record.n_bytes));
    rk_log_file_close(&file);
    assert_int_equal(size_of("plain"), 26);
    rk_buffer_release(&record);
    assert_int_equal(rk_alloc_live(), 0);
}

/* A file of somebody else's at the path of one that was moved away stays as it is, however often it is tried.
 */
static void test_foreign_file(void **state) {
    (void)state;
    rk_log_file file;
    rk_buffer record = {0};
    char own[100], moved[100];
    strcpy(own, path_of("mine"));
    strcpy(moved, path_of("mine.old"));
    rk_tfrecord_write("0123456789", 10, &record);
    OK(rk_log_file_open(own, 1000, 0, &file));
    OK(rk_log_file_append(&file, record.data, record.n_bytes));
    assert_int_equal(rename(own, moved), 0);
    FILE *foreign = fopen(own, "w");
    assert_non_null(foreign);
    fputs("I am not a log, and longer than a head", foreign);
    fclose(foreign);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rk_log_file_append(&file, record.data, record.n_bytes), RK_BAD_DATA);
    assert_int_equal(size_of("mine"), 38);
    assert_int_equal(unlink(own), 0);
    OK(rk_log_file_append(&file, record.data, record.n_bytes));
    rk_log_file_close(&file);
    assert_int_equal(size_of("mine"), 26);
    rk_buffer_release(&record);
    assert_int_equal(rk_alloc_live(), 0);
}

enum { N_RECORDS = 200 };

typedef struct rotation {
    rk_log_file file;
    rk_buffer record;
    rk_status status;
    atomic_bool done;
} rotation;

static void *append_a_file_a_record(void *argument) {
    rotation *r = argument;
    for (int i = 0; i < N_RECORDS && r->status == RK_OK; i++)
        r->status = rk_log_file_append(&r->file, r->record.data, r->record.n_bytes);
    atomic_store(&r->done, true);
    return NULL;
}

static void assert_busy(const char *log) {
    rk_log_file other;
    assert_int_equal(rk_log_file_open(log, 26, 0, &other), RK_BUSY);
    rk_log_file_close(&other);
}

/* No other takes the path while the file is moved away or rotated. */
static void test_lock(void **state) {
    (void)state;
    static rotation r;
    pthread_t writer;
    static char own[100], moved[100];
    strcpy(own, path_of("own"));
    strcpy(moved, path_of("moved"));
    rk_tfrecord_write("0123456789", 10, &r.record);
    OK(rk_log_file_open(own, 26, 3, &r.file));
    OK(rk_log_file_append(&r.file, r.record.data, r.record.n_bytes));
    assert_int_equal(rename(own, moved), 0);
    assert_busy(own);
    assert_int_equal(pthread_create(&writer, NULL, append_a_file_a_record, &r), 0);
    while (!atomic_load(&r.done)) assert_busy(own);
    pthread_join(writer, NULL);
    OK(r.status);
    rk_log_file_close(&r.file);
    char last[20];
    snprintf(last, sizeof last, "own-%06d", N_RECORDS - 1);
    assert_int_equal(size_of(last), 26);
    assert_int_equal(size_of("own"), 26);
    assert_int_equal(size_of("moved"), 26);
    OK(rk_log_file_open(own, 26, 3, &r.file)); /* the lock has ended */
    rk_log_file_close(&r.file);
    rk_buffer_release(&r.record);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_out_of_memory(void **state) {
    (void)state;
    rk_status status = RK_NO_MEMORY;
    for (long n = 1; status != RK_OK; n++) {
        rk_request_log *log = NULL;
        rk_request_log_options options = {
            .path = path_of("memory"), .sampling_rate = 1, .max_bytes = 1 << 20, .max_queue_bytes = 1000};
        rk_alloc_fail_after(n, true);
        status = rk_request_log_open(&options, &log);
        if (status == RK_OK) status = append(log, 1, 10);
        rk_alloc_fail_after(0, false);
        assert_true(status == RK_OK || status == RK_NO_MEMORY);
        rk_request_log_close(log);
        assert_int_equal(rk_alloc_live(), 0);
    }
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_queue), cmocka_unit_test(test_sample),
                                       cmocka_unit_test(test_files), cmocka_unit_test(test_foreign_file),
                                       cmocka_unit_test(test_lock),  cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
