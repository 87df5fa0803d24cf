/* Files of a test in its `directory`, an array of chars that it has before it includes this. */
#ifndef RK_TESTS_DATA_WRITTEN_FILE_H
#define RK_TESTS_DATA_WRITTEN_FILE_H

#include "testing.h"

#include "base/file/file.h"

static void write_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    OK(rk_file_write(path, text, strlen(text)));
}

#endif
