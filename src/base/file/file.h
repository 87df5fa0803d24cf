#ifndef RK_BASE_FILE_FILE_H
#define RK_BASE_FILE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/text_list.h"

/* The whole file, NUL added after the end. Free with rk_free. Errors name the path. */
rk_status rk_file_read(const char *path, char **out, size_t *out_bytes);
bool rk_file_exists(const char *path);
/* Which file or directory stands at a path: another one has others. Zeros: none. */
typedef struct rk_file_identity {
    uint64_t device, inode;
} rk_file_identity;
rk_file_identity rk_file_read_identity(const char *path);
/* What can be read once only: a pipe, a terminal, "-" for standard input. */
bool rk_file_is_stream(const char *path);
/* What is no file but rows in the program's memory, by a name of its own: no directory is put before it. */
#define RK_MEMORY_PATH "arrow:"
bool rk_path_is_memory_stream(const char *path);
/* Fails on what other programs take for a path and no system call does: a URL, "~/". */
rk_status rk_path_check(const char *path);
rk_status rk_file_size(const char *path, uint64_t *out);
/* Bytes of an open file from an offset on; n_read: how many there are, fewer where it ends. 0, or an errno.
 */
int rk_file_read_at(int descriptor, uint64_t offset, void *out, size_t n_bytes, size_t *n_read);
rk_status rk_make_directories(const char *path);
rk_status rk_remove_tree(const char *path); /* no error if it does not exist */
rk_status rk_sync_directory(const char *path);

/* "a/b" into out (allocated), of what rk_path_check lets pass. An absolute b stands alone, as does one in
 * memory. */
rk_status rk_path_join(const char *a, const char *b, char **out);
/* A path that is relative to where the program runs, as one that is not. */
rk_status rk_path_absolute(const char *path, char **out);
/* The names in a directory, sorted, into a list that has none yet. */
rk_status rk_list_directory(const char *path, rk_text_list *out);

/* A file mapped for reading. */
typedef struct rk_mapped_file {
    const uint8_t *data;
    size_t n_bytes;
} rk_mapped_file;
rk_status rk_mapped_file_open(const char *path, rk_mapped_file *out);
/* An open file, to be read here and there: the system reads what is looked at, and nothing around it. path:
 * for messages. */
rk_status rk_mapped_file_open_descriptor(int descriptor, const char *path, rk_mapped_file *out);
void rk_mapped_file_release(rk_mapped_file *map);
/* Whole pages of bytes begin .. end-1 leave this process's memory; where they are looked at again, they are
 * read again. */
void rk_mapped_file_drop(const rk_mapped_file *map, uint64_t begin, uint64_t end);

/* A writer that handles short writes, computes a crc32c as it goes, and makes a file appear whole or not at
 * all: it writes `path`.tmp; commit does fsync, rename, and fsync of the directory; release without commit
 * removes it. A link stays, and what it leads to is replaced. What is no ordinary file (a device, a pipe,
 * /dev/stdout) is written straight through. */
typedef struct rk_writer {
    char *path, *temporary_path; /* temporary_path NULL: straight through */
    int descriptor;
    uint64_t n_bytes, n_begun; /* appended; of these, what the disk has been told to write */
    uint32_t crc32c;
    bool without_crc;  /* nobody asks for it: crc32c stays 0 */
    bool without_sync; /* a crash of the machine may leave the file cut or gone */
    char *buffer;
    size_t n_buffered;
} rk_writer;
rk_status rk_writer_open(const char *path, rk_writer *out);
rk_status rk_writer_append(rk_writer *writer, const void *data, size_t n_bytes);
rk_status rk_writer_commit(rk_writer *writer);
void rk_writer_release(rk_writer *writer);

/* A file's bytes as another one, atomically; they are not in memory as a whole. */
rk_status rk_file_copy(const char *from, const char *to);

/* Write a small file atomically. */
rk_status rk_file_write(const char *path, const void *data, size_t n_bytes);

/* Test hook: writes fail with ENOSPC once `n_bytes` more have been written; negative turns it off. */
void rk_file_fail_after(int64_t n_bytes);

#endif
