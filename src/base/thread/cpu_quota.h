/* What a control group lets a process take of the machine's processors, as containers have it. */
#ifndef RK_BASE_THREAD_CPU_QUOTA_H
#define RK_BASE_THREAD_CPU_QUOTA_H

/* Processors that the process may keep busy, rounded up: the least of its groups, of cgroup v2 (cpu.max) or
 * v1 (cpu.cfs_quota_us); INT_MAX: no limit, or none that can be read. `own` is its /proc/self/cgroup, `mount`
 * where groups are mounted. */
int rk_cpu_quota(const char *own, const char *mount);

#endif
