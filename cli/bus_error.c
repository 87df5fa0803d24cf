#include "bus_error.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* All here is async-signal-safe: no memory is allocated, no stdio is used. */

static void write_to_stderr(const char *text) {
    for (size_t left = strlen(text); left > 0;) {
        ssize_t n = write(STDERR_FILENO, text, left);
        if (n <= 0) return;
        text += n;
        left -= (size_t)n;
    }
}

static uintptr_t read_hex(const char **at) {
    uintptr_t value = 0;
    for (;; ++*at) {
        char c = **at;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return value;
        value = value << 4 | (uintptr_t)digit;
    }
}

/* Of a line "FIRST-END r--p OFFSET DEVICE INODE /PATH" the path, if the address is within; else NULL. */
static const char *path_mapped_at(const char *line, uintptr_t address) {
    uintptr_t first = read_hex(&line);
    if (*line++ != '-') return NULL;
    uintptr_t end = read_hex(&line);
    return address >= first && address < end ? strchr(line, '/') : NULL;
}

/* The name of the file that is mapped at an address, into line; NULL: none is. */
static const char *find_mapped_file(uintptr_t address, char *line, size_t line_bytes) {
    static char bytes[4096];
    const char *path = NULL;
    size_t n_line = 0;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (ssize_t n; !path && maps >= 0 && (n = read(maps, bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < n && !path; i++) {
            if (bytes[i] != '\n' && n_line < line_bytes - 1) line[n_line++] = bytes[i];
            if (bytes[i] != '\n') continue;
            line[n_line] = 0;
            n_line = 0;
            path = path_mapped_at(line, address);
        }
    if (maps >= 0) close(maps);
    return path;
}

/* The signal comes again, and ends the program as if nobody had heard it. */
static void on_bus_error(int number, siginfo_t *info, void *context) {
    static char line[8192];
    (void)context;
    signal(number, SIG_DFL);
    if (info->si_code <= 0) { /* another program sent it */
        raise(number);
        return;
    }
    const char *path = find_mapped_file((uintptr_t)info->si_addr, line, sizeof line);
    if (!path) return;
    write_to_stderr("reckon: error: '");
    write_to_stderr(path);
    write_to_stderr(
        "' was cut while it was mapped, or its disk does not answer (SIGBUS)\n"
        "hint: replace an export by a rename of another directory to its place, and never write into it\n");
}

void bus_error_install_handler(void) {
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
}
