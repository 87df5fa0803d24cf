/* How checkpoints take their names and lose them; what an interrupted run leaves; one run in a directory. */
#include "testing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/file/directory_lock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "train/checkpoint/checkpoint.h"

static char directory[] = "/tmp/reckon-keep-XXXXXX";

/* In place of the C library's, for a file system that has none. */
static bool has_locks = true;
int flock(int descriptor, int operation) {
    if (has_locks) return (int)syscall(SYS_flock, descriptor, operation);
    errno = ENOLCK;
    return -1;
}
static const char *const progress_text =
    "{\"step\":%lld,\"epoch\":0,\"row\":0,\"best\":null,\"plateau_best\":null,\"best_step\":0,\"bad\":0,"
    "\"plateau_bad\":0,\"learning_rate_factor\":1.0,\"n_evaluations\":0,"
    "\"loss_sum\":0.0,\"loss_steps\":0,\"log_bytes\":0,\"events_bytes\":0,\"is_best\":false,\"finished\":"
    "false}";

static char *path_of(const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "%s/run/checkpoints/%s", directory, name);
    return path;
}

/* A checkpoint of no files but its manifest and one that says what it is. */
static void make(const char *name, int64_t step, const char *content, bool whole) {
    char manifest[1200], progress[600], path[400], text[1300];
    OK(rk_make_directories(path_of(name)));
    snprintf(path, sizeof path, "%s/content", path_of(name));
    OK(rk_file_write(path, content, strlen(content)));
    snprintf(progress, sizeof progress, progress_text, (long long)step);
    snprintf(manifest, sizeof manifest,
             "{\"format\":\"reckon "
             "checkpoint\",\"version\":1,\"progress\":%s,\"files\":[{\"name\":\"content\",\"bytes\":%zu,"
             "\"crc32c\":%u}]}",
             progress, strlen(content), (unsigned)(rk_crc32c(0, content, strlen(content)) + !whole));
    int n = snprintf(text, sizeof text, "%s\ncrc32c %08" PRIx32 "\n", manifest,
                     rk_crc32c(0, manifest, strlen(manifest)));
    snprintf(path, sizeof path, "%s/manifest.json", path_of(name));
    OK(rk_file_write(path, text, (size_t)n));
}

static void assert_content(const char *name, const char *expected) {
    char path[400], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/content", path_of(name));
    OK(rk_file_read(path, &text, &n));
    assert_string_equal(text, expected);
    rk_free(text);
}

/* All that is in the directory of checkpoints, in one text. */
static void assert_names(const char *expected) {
    char all[600] = "";
    rk_text_list names = {0};
    OK(rk_list_directory(path_of(""), &names));
    for (size_t i = 0; i < names.n; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s ", names.texts[i]);
    rk_text_list_release(&names);
    assert_string_equal(all, expected);
}

static char *output_path(void) {
    static char path[300];
    snprintf(path, sizeof path, "%s/run", directory);
    return path;
}

static void clear(void) {
    OK(rk_remove_tree(output_path()));
}

static void test_steps_are_sorted_as_numbers(void **state) {
    (void)state;
    static const char *const made[] = {"step-999999998", "step-1000000000", "step-000000007",
                                       "step-20000000000"};
    char *newest;
    rk_text_list names = {0};
    clear();
    for (int i = 0; i < 4; i++) make(made[i], strtoll(made[i] + 5, NULL, 10), made[i], true);
    OK(rk_make_directories(path_of("step-000000009.copy")));
    OK(rk_make_directories(path_of("step-9")));
    OK(rk_checkpoint_list(output_path(), &names));
    assert_int_equal(names.n, 4);
    assert_string_equal(names.texts[0], "step-000000007");
    assert_string_equal(names.texts[1], "step-999999998");
    assert_string_equal(names.texts[2], "step-1000000000");
    assert_string_equal(names.texts[3], "step-20000000000");
    rk_text_list_release(&names);
    OK(rk_checkpoint_find(output_path(), &newest));
    assert_string_equal(newest, path_of("step-20000000000"));
    rk_free(newest);
}

static void retain(int64_t keep, bool keeps_best, int64_t saved, int64_t best) {
    rk_config config = {.keeps_best = keeps_best};
    config.train.output = output_path();
    config.train.checkpoint.keep = keep;
    OK(rk_checkpoint_remove_old(&config, &(rk_progress){.step = saved, .stopping.best_step = best}));
}

/* A later one is there where a run went on behind it because it is damaged. */
static void test_what_was_saved_stays(void **state) {
    (void)state;
    clear();
    make("step-000000010", 10, "10", true);
    make("step-000000020", 20, "20", true);
    make("step-000000025", 25, "25", true);
    make("step-000000030", 30, "30", false);
    retain(2, true, 25, 10);
    assert_names("step-000000010 step-000000020 step-000000025 ");
    retain(2, false, 25, 10);
    assert_names("step-000000020 step-000000025 ");
    make("step-000000030", 30, "30", false);
    retain(1, false, 25, 10);
    assert_names("step-000000025 ");
    make("step-1000000000", 1000000000, "1e9", true);
    retain(1, false, 1000000000, 10);
    assert_names("step-1000000000 ");
}

static void test_same_step_again(void **state) {
    (void)state;
    clear();
    make("step-000000010", 10, "before", true);
    make(".tmp-step-000000010", 10, "after", true);
    char *temporary;
    OK(rk_path_join(path_of(""), ".tmp-step-000000010", &temporary));
    OK(rk_checkpoint_commit(path_of(""), temporary, "step-000000010"));
    rk_free(temporary);
    assert_names("step-000000010 ");
    assert_content("step-000000010", "after");
}

/* Whole but for its name; half written; half removed. */
static void test_leftovers(void **state) {
    (void)state;
    clear();
    make(".tmp-step-000000010", 10, "10", true);
    make(".old-step-000000010", 10, "older", true);
    make(".tmp-step-000000020", 20, "20", false);
    make("step-000000030", 30, "30", true);
    make(".tmp-step-000000030", 30, "before it was replaced", true);
    make("step-000000040", 40, "damaged", false);
    make(".tmp-step-000000040", 40, "40", true);
    make(".tmp-step-000000050", 51, "of another step", true);
    make(".old-model", 60, "the user's own", true);
    make(".tmp-step-60", 60, "the user's own", true);
    OK(rk_checkpoint_recover_interrupted(output_path()));
    assert_names(".old-model .tmp-step-60 step-000000010 step-000000030 step-000000040 ");
    assert_content("step-000000010", "10");
    assert_content("step-000000030", "30");
    assert_content("step-000000040", "40");
}

static void test_one_run_in_a_directory(void **state) {
    (void)state;
    clear();
    char file[400], expected[400];
    rk_directory_lock *lock, *other;
    snprintf(file, sizeof file, "%s/.lock", output_path());
    OK(rk_directory_lock_acquire(output_path(), &lock));
    assert_int_equal(rk_directory_lock_acquire(output_path(), &other), RK_BUSY);
    snprintf(expected, sizeof expected, "'%s' is in use: process %ld on host ", output_path(),
             (long)getpid());
    assert_memory_equal(rk_last_error(), expected, strlen(expected));
    assert_non_null(strstr(rk_last_error(), "\nhint: "));
    rk_directory_lock_free(lock);
    assert_false(rk_file_exists(output_path())); /* there was nothing else in it */
    OK(rk_make_directories(output_path()));
    OK(rk_file_write(file, "pid 1\nhost h\nbegan 1\nsince then\nend\n",
                     35)); /* of a process that was killed */
    OK(rk_directory_lock_acquire(output_path(), &lock));
    rk_directory_lock_free(lock);
    assert_false(rk_file_exists(file));
    assert_true(rk_file_exists(output_path()));
    clear();
    assert_int_equal(symlink("nowhere", output_path()), 0);
    assert_int_equal(rk_directory_lock_acquire(output_path(), &lock), RK_IO);
    assert_non_null(strstr(rk_last_error(), "could not open"));
    clear();
}

static void write_holder(long pid, const char *host, unsigned long long began) {
    char file[400], text[400];
    int n = snprintf(text, sizeof text, "pid %ld\nhost %s\nbegan %llu\nsince then\nend\n", pid, host, began);
    snprintf(file, sizeof file, "%s/.lock", output_path());
    OK(rk_make_directories(output_path()));
    OK(rk_file_write(file, text, (size_t)n));
}

/* A file system without locks: what the file says counts, unless its process has ended. */
static void test_without_kernel_locks(void **state) {
    (void)state;
    char host[256], expected[600];
    rk_directory_lock *lock, *other;
    assert_int_equal(gethostname(host, sizeof host), 0);
    has_locks = false;
    clear();
    OK(rk_directory_lock_acquire(output_path(), &lock));
    snprintf(expected, sizeof expected, "'%s' is in use: process %ld on host %s ", output_path(),
             (long)getpid(), host);
    assert_int_equal(rk_directory_lock_acquire(output_path(), &other), RK_BUSY);
    assert_memory_equal(rk_last_error(), expected, strlen(expected));
    assert_non_null(strstr(rk_last_error(), "if that process has ended, remove the file"));
    rk_directory_lock_free(lock);
    write_holder(getpid(), "another", 1);
    assert_int_equal(rk_directory_lock_acquire(output_path(), &other), RK_BUSY);
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    write_holder((long)child, host, 1);
    OK(rk_directory_lock_acquire(output_path(), &lock));
    rk_directory_lock_free(lock);
    write_holder(getpid(), host, 1); /* of an earlier process of that number */
    OK(rk_directory_lock_acquire(output_path(), &lock));
    rk_directory_lock_free(lock);
    has_locks = true;
}

/* Processes that all begin at once, again and again: never two at a time, and who is refused hears of one
 * that was there. */
static void test_many_at_once(void **state) {
    (void)state;
    enum { PROCESSES = 6, ROUNDS = 40 };
    clear();
    OK(rk_make_directories(output_path()));
    char inside[400];
    snprintf(inside, sizeof inside, "%s/inside", output_path());
    pid_t children[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        children[p] = fork();
        for (int round = 0; children[p] == 0 && round < ROUNDS; round++) {
            rk_directory_lock *lock;
            rk_status status = rk_directory_lock_acquire(output_path(), &lock);
            if (status == RK_BUSY) continue;
            if (status != RK_OK || mkdir(inside, 0700) != 0 || rmdir(inside) != 0) _exit(1);
            rk_directory_lock_free(lock);
        }
        if (children[p] == 0) _exit(0);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        waitpid(children[p], &status, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int tear_down(void **state) {
    (void)state;
    return rk_remove_tree(directory) != RK_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_sorted_as_numbers),
        cmocka_unit_test(test_what_was_saved_stays),
        cmocka_unit_test(test_same_step_again),
        cmocka_unit_test(test_leftovers),
        cmocka_unit_test(test_one_run_in_a_directory),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_without_kernel_locks),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
