#include "base/thread/cpu_quota.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* Up to two numbers that a file of a group begins with; how many. */
static int read_numbers_of_cgroup_file(const char *group, const char *name, long long *first,
                                       long long *second) {
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", group, name);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    int n = fscanf(file, "%lld %lld", first, second);
    fclose(file);
    return n;
}

static int cpu_limit_of_cgroup(const char *group, bool is_v1) {
    long long quota = 0, period = 0, none;
    if (is_v1) {
        if (read_numbers_of_cgroup_file(group, "cpu.cfs_quota_us", &quota, &none) < 1 ||
            read_numbers_of_cgroup_file(group, "cpu.cfs_period_us", &period, &none) < 1)
            return INT_MAX;
    } else if (read_numbers_of_cgroup_file(group, "cpu.max", &quota, &period) < 2) { /* "max": no limit */
        return INT_MAX;
    }
    if (quota < 1 || period < 1) return INT_MAX;
    long long n = (quota - 1) / period + 1;
    return n < INT_MAX ? (int)n : INT_MAX;
}

/* The least of a group and those above it. In a container the path may be the host's, of which there is
 * nothing but the top. */
static int least_cpu_limit_of_ancestors(const char *top, const char *path, bool is_v1) {
    char group[PATH_BYTES];
    size_t n_top = strlen(top);
    int least = INT_MAX;
    if (snprintf(group, sizeof group, "%s%s", top, path) >= (int)sizeof group) return INT_MAX;
    for (;;) {
        int limit = cpu_limit_of_cgroup(group, is_v1);
        if (limit < least) least = limit;
        char *slash = strrchr(group + n_top, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

static bool lists_cpu_controller(const char *controllers) {
    for (const char *at = controllers; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, "cpu", 3) == 0 && (at[3] == 0 || at[3] == ',')) return true;
    }
    return false;
}

/* A line "NUMBER:CONTROLLERS:PATH"; v2 names no controllers. */
static int cpu_limit_of_cgroup_line(char *line, const char *mount) {
    char top[PATH_BYTES];
    char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) return INT_MAX;
    *controllers++ = 0;
    *path++ = 0;
    path[strcspn(path, "\n")] = 0;
    bool is_v1 = *controllers != 0;
    if (is_v1 && !lists_cpu_controller(controllers)) return INT_MAX;
    if (snprintf(top, sizeof top, "%s%s", mount, is_v1 ? "/cpu" : "") >= (int)sizeof top) return INT_MAX;
    return least_cpu_limit_of_ancestors(top, path, is_v1);
}

int rk_cpu_quota(const char *own, const char *mount) {
    char line[PATH_BYTES];
    int least = INT_MAX;
    FILE *file = fopen(own, "r");
    if (!file) return INT_MAX;
    while (fgets(line, sizeof line, file)) {
        int limit = cpu_limit_of_cgroup_line(line, mount);
        if (limit < least) least = limit;
    }
    fclose(file);
    return least;
}
