/* A folder in memory for targets that read files by their names. */
#ifndef RK_FUZZ_SCRATCH_H
#define RK_FUZZ_SCRATCH_H

#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch[64];

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

static void remove_scratch(void) {
    nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *scratch_folder(void) {
    if (*scratch) return scratch;
    snprintf(scratch, sizeof scratch, "%s/reckon-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(scratch)) abort();
    atexit(remove_scratch);
    return scratch;
}

/* The file's path; written anew. */
static const char *scratch_file(const char *name, const void *data, size_t n_bytes) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", scratch_folder(), name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, n_bytes, file) != n_bytes || fclose(file) != 0) abort();
    return path;
}

#endif
