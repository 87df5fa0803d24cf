/* How many processors a control group leaves a process: folders as the kernel shows them. */
#include "testing.h"

#include <limits.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/thread/cpu_quota.h"

static char mount[] = "/tmp/reckon-cgroup-XXXXXX";

static void write_at(const char *name, const char *text) {
    char path[PATH_MAX], *slash;
    snprintf(path, sizeof path, "%s/%s", mount, name);
    slash = strrchr(path, '/');
    *slash = 0;
    OK(rk_make_directories(path));
    *slash = '/';
    OK(rk_file_write(path, text, strlen(text)));
}

/* The quota of a process in these groups. */
static int quota(const char *own) {
    char path[PATH_MAX];
    write_at("own", own);
    snprintf(path, sizeof path, "%s/own", mount);
    return rk_cpu_quota(path, mount);
}

static int begin(void **state) {
    (void)state;
    strcpy(strrchr(mount, '-') + 1, "XXXXXX");
    return mkdtemp(mount) ? 0 : -1;
}
static int end(void **state) {
    (void)state;
    return rk_remove_tree(mount) == RK_OK ? 0 : -1;
}

static void test_v2(void **state) {
    (void)state;
    write_at("cpu.max", "150000 100000\n");
    assert_int_equal(quota("0::/\n"), 2);
    write_at("cpu.max", "100000 100000\n");
    assert_int_equal(quota("0::/\n"), 1);
    write_at("cpu.max", "5000 100000\n");
    assert_int_equal(quota("0::/\n"), 1);
    write_at("cpu.max", "max 100000\n");
    assert_int_equal(quota("0::/\n"), INT_MAX);
}

static void test_groups_above(void **state) {
    (void)state;
    write_at("pods/cpu.max", "300000 100000\n");
    write_at("pods/one/cpu.max", "max 100000\n");
    write_at("pods/two/cpu.max", "100000 50000\n");
    assert_int_equal(quota("0::/pods/one\n"), 3);
    assert_int_equal(quota("0::/pods/two\n"), 2);
    assert_int_equal(quota("0::/pods\n"), 3);
    assert_int_equal(quota("0::/other\n"), INT_MAX);
}

/* A container sees its own group at the top, by the host's path. */
static void test_v1(void **state) {
    (void)state;
    write_at("cpu/cpu.cfs_quota_us", "250000\n");
    write_at("cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota("9:cpuset:/\n4:cpu,cpuacct:/docker/0123\n0::/\n"), 3);
    assert_int_equal(quota("9:cpuset:/\n4:cpuacct:/docker/0123\n"), INT_MAX);
    write_at("cpu/docker/0123/cpu.cfs_quota_us", "-1\n");
    write_at("cpu/docker/0123/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota("4:cpuacct,cpu:/docker/0123\n"), 3);
}

static void test_unreadable(void **state) {
    (void)state;
    assert_int_equal(quota(""), INT_MAX);
    assert_int_equal(quota("no line\n0:\n::\n"), INT_MAX);
    write_at("cpu.max", "\n");
    assert_int_equal(quota("0::/\n"), INT_MAX);
    write_at("cpu.max", "100000 0\n");
    assert_int_equal(quota("0::/\n"), INT_MAX);
    write_at("cpu.max", "9000000000000000000 1\n");
    assert_int_equal(quota("0::/\n"), INT_MAX);
    assert_int_equal(rk_cpu_quota("/nowhere", "/nowhere"), INT_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_v2), TEST(test_groups_above), TEST(test_v1),
                                       TEST(test_unreadable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
