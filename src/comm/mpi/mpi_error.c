#include <stdarg.h>
#include <stdio.h>

#include "comm/mpi/mpi_world.h"

rk_status rk_mpi_error(rk_status status, int code, const char *format, ...) {
    char text[512], reason[MPI_MAX_ERROR_STRING] = "unknown error of MPI";
    int n;
    MPI_Error_string(code, reason, &n);
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return rk_error(status, "%s: %s", text, reason);
}
