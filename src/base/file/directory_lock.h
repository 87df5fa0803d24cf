/* One writer in a directory: a file `.lock` in it that the kernel locks, and that names its holder. */
#ifndef RK_BASE_FILE_DIRECTORY_LOCK_H
#define RK_BASE_FILE_DIRECTORY_LOCK_H

#include "base/error.h"

typedef struct rk_directory_lock rk_directory_lock;

/* Makes the directory if need be. RK_BUSY names the holder: another process, or another lock of this one. The
 * kernel ends the lock with the process, so that a file which a killed one left is no lock. Where the file
 * system has no locks the file alone tells: of a process that has ended on this host it is taken over, and
 * two that begin at the same moment may both get it, of which a warning tells. */
rk_status rk_directory_lock_acquire(const char *directory, rk_directory_lock **out);
/* Removes the file, and the directory if nothing else is in it. */
void rk_directory_lock_free(rk_directory_lock *lock);

#endif
