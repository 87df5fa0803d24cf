#include "base/thread/instruction_set.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text/find_text.h"
#include "base/thread/cpu_quota.h"

static const char *const isa_names[RK_ISA_COUNT] = {"scalar", "avx2", "avx512"};

const char *rk_isa_name(rk_isa isa) {
    return isa_names[isa];
}

bool rk_cpu_has_isa(rk_isa isa) {
    if (isa == RK_ISA_SCALAR) return true;
#ifdef __x86_64__
    bool avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    if (isa == RK_ISA_AVX2) return avx2;
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

static rk_isa choice;
static pthread_once_t choice_once = PTHREAD_ONCE_INIT;

static void choose_isa(void) {
    int most = RK_ISA_COUNT - 1;
    const char *wanted = getenv("RK_ISA");
    if (wanted && *wanted) {
        int i = (int)rk_text_position(wanted, isa_names, RK_ISA_COUNT);
        if (i < 0)
            rk_log(RK_LOG_WARNING,
                   "RK_ISA '%s' is not one of scalar, avx2, avx512; using the best this processor has",
                   wanted);
        else
            most = i;
        if (i >= 0 && !rk_cpu_has_isa((rk_isa)i))
            rk_log(RK_LOG_WARNING,
                   "this processor does not support %s; using the best version that it supports", wanted);
    }
    while (!rk_cpu_has_isa((rk_isa)most)) most--;
    choice = (rk_isa)most;
    rk_log(RK_LOG_INFO, "kernels: %s (%s)", isa_names[choice], rk_cpu_name());
}

rk_isa rk_cpu_isa(void) {
    pthread_once(&choice_once, choose_isa);
    return choice;
}

static char cpu_name[128] = "unknown processor";
static pthread_once_t name_once = PTHREAD_ONCE_INIT;

static void read_cpu_name(void) {
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file) return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value) continue;
        value[strcspn(value, "\n")] = 0;
        snprintf(cpu_name, sizeof cpu_name, "%.127s", value + 2);
        break;
    }
    fclose(file);
}

const char *rk_cpu_name(void) {
    pthread_once(&name_once, read_cpu_name);
    return cpu_name;
}

int rk_cpu_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int n = CPU_COUNT(&set), quota = rk_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    if (n > quota) n = quota;
    return n > 0 ? n : 1;
}

size_t rk_cpu_cache_bytes(void) {
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (bytes <= 0) bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? (size_t)bytes : 0;
}
