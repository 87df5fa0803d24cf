/* What a writer puts where: in place of a file, through links, and straight through what is no file. */
#include "testing.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"

static char directory[] = "/tmp/reckon-writer-XXXXXX";

static const char *in(const char *name) {
    static char paths[4][300];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static void assert_text(const char *path, const char *expected) {
    char *text;
    size_t n;
    OK(rk_file_read(path, &text, &n));
    assert_string_equal(text, expected);
    rk_free(text);
}

static bool is_link(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

static bool is_device(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISCHR(info.st_mode);
}

static void test_links(void **state) {
    (void)state;
    OK(rk_make_directories(in("sub")));
    OK(rk_file_write(in("sub/target"), "old", 3));
    assert_int_equal(chmod(in("sub/target"), 0640), 0);
    assert_int_equal(symlink("sub/target", in("link")), 0);
    assert_int_equal(symlink("link", in("chain")), 0);
    assert_int_equal(symlink(in("sub/later"), in("dangling")), 0);
    OK(rk_file_write(in("chain"), "new", 3));
    assert_true(is_link(in("chain")) && is_link(in("link")) && !is_link(in("sub/target")));
    assert_text(in("sub/target"), "new");
    struct stat info;
    assert_int_equal(stat(in("sub/target"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0640);
    OK(rk_file_write(in("dangling"), "new", 3));
    assert_true(is_link(in("dangling")));
    assert_text(in("sub/later"), "new");
    assert_int_equal(symlink("loop", in("loop")), 0);
    assert_int_equal(rk_file_write(in("loop"), "new", 3), RK_IO);
    assert_int_equal(symlink("sub", in("folder")), 0);
    assert_int_equal(rk_file_write(in("folder"), "new", 3), RK_IO);
    /* A link where the file is written until it is whole */
    assert_int_equal(symlink("link", in("fresh.tmp")), 0);
    OK(rk_file_write(in("fresh"), "fresh", 5));
    assert_text(in("sub/target"), "new");
    assert_text(in("fresh"), "fresh");
}

static void test_devices(void **state) {
    (void)state;
    OK(rk_file_write("/dev/null", "text", 4));
    assert_true(is_device("/dev/null"));
    assert_int_equal(rk_file_write("/dev/full", "text", 4), RK_IO);
    assert_non_null(strstr(rk_last_error(), "No space left on device"));
    assert_true(is_device("/dev/full"));
    assert_int_equal(symlink("/dev/null", in("null")), 0);
    OK(rk_file_write(in("null"), "text", 4));
    assert_true(is_link(in("null")) && is_device("/dev/null"));
    assert_false(rk_file_exists("/dev/null.tmp"));
}

static void test_pipe(void **state) {
    (void)state;
    assert_int_equal(mkfifo(in("pipe"), 0600), 0);
    pid_t child = fork();
    if (child == 0) _exit(rk_file_write(in("pipe"), "through", 7) == RK_OK ? 0 : 1);
    char text[16] = "";
    int descriptor = open(in("pipe"), O_RDONLY), status;
    assert_true(descriptor >= 0);
    assert_int_equal(read(descriptor, text, 15), 7);
    close(descriptor);
    assert_string_equal(text, "through");
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    struct stat info;
    assert_true(lstat(in("pipe"), &info) == 0 && S_ISFIFO(info.st_mode));
}

/* /dev/stdout and its like: what is open there is written on from where it is. */
static void test_open_files(void **state) {
    (void)state;
    char name[64];
    int descriptor = open(in("open"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(descriptor, "first ", 6), 6);
    snprintf(name, sizeof name, "/dev/fd/%d", descriptor);
    OK(rk_file_write(name, "second ", 7));
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    assert_int_equal(symlink(name, in("to_open")), 0);
    OK(rk_file_write(in("to_open"), "third", 5));
    close(descriptor);
    assert_text(in("open"), "first second third");
    assert_int_equal(rk_file_write("/dev/fd/9999", "x", 1), RK_IO);
}

/* Released without commit: what was there stays. */
static void test_given_up(void **state) {
    (void)state;
    rk_writer writer;
    OK(rk_file_write(in("kept"), "kept", 4));
    assert_int_equal(symlink("kept", in("link_to_kept")), 0);
    OK(rk_writer_open(in("link_to_kept"), &writer));
    OK(rk_writer_append(&writer, "lost", 4));
    rk_writer_release(&writer);
    assert_text(in("kept"), "kept");
    assert_false(rk_file_exists(in("kept.tmp")));
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
        cmocka_unit_test(test_links),      cmocka_unit_test(test_devices),  cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_open_files), cmocka_unit_test(test_given_up),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
