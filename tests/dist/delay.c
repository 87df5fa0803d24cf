/* A switch that delays: `delay MS MBIT CONTROL PID...` makes a tap device eth0 in the network namespace of
 * each process and passes frames between them, each MS milliseconds after it came and no faster than MBIT to
 * each device (0: as fast as it goes). Devices have the hardware addresses 02:00:00:00:00:<n>, n from 0.
 * Lines of the FIFO CONTROL: "cut N" drops what comes from and goes to device N from then on, "join N" ends
 * that. For kernels without netem; tests/dist/hosts builds and starts it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_DEVICES = 64,
    VNET_HEADER_BYTES = 10,
    MAX_FRAME_BYTES = VNET_HEADER_BYTES + 14 + 65536,
    MAX_QUEUED_BYTES = 64 << 20,
    BATCH = 64
};

typedef struct frame {
    struct frame *next;
    int64_t at_ns; /* when it is to go out */
    size_t n_bytes;
    char bytes[];
} frame;

typedef struct device {
    int fd;
    bool is_cut;
    frame *first, **end; /* waiting to go out, the earliest first */
    size_t queued_bytes;
    int64_t free_ns; /* when what was queued last has gone out */
} device;

static device devices[MAX_DEVICES];
static int n_devices;
static int64_t delay_ns;
static double ns_per_byte;

static void fail(const char *what) {
    fprintf(stderr, "delay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* With offloads, the kernel hands over what it would cut into packets as one frame of up to 64 KiB, and takes
 * it back so. */
static void open_device(device *d, const char *pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) fail(path);
    close(space);
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    strcpy(request.ifr_name, "eth0");
    d->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (d->fd < 0 || ioctl(d->fd, TUNSETIFF, &request) != 0) fail("/dev/net/tun");
    if (ioctl(d->fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN) != 0)
        fail("offloads");
    d->end = &d->first;
}

static void queue(device *to, const char *bytes, size_t n_bytes, int64_t now) {
    if (to->is_cut || to->queued_bytes + n_bytes > MAX_QUEUED_BYTES) return;
    frame *f = malloc(sizeof *f + n_bytes);
    if (!f) fail("memory");
    f->next = NULL;
    f->n_bytes = n_bytes;
    memcpy(f->bytes, bytes, n_bytes);
    int64_t due = now + delay_ns;
    f->at_ns = due > to->free_ns ? due : to->free_ns;
    to->free_ns = f->at_ns + (int64_t)((double)n_bytes * ns_per_byte);
    to->queued_bytes += n_bytes;
    *to->end = f;
    to->end = &f->next;
}

static void receive(device *from) {
    static char bytes[MAX_FRAME_BYTES];
    for (int i = 0; i < BATCH; i++) {
        ssize_t n = read(from->fd, bytes, sizeof bytes);
        if (n < VNET_HEADER_BYTES + 14) return; /* nothing there, or the device is down */
        if (from->is_cut) continue;
        int64_t now = now_ns();
        const unsigned char *address = (unsigned char *)bytes + VNET_HEADER_BYTES;
        for (int d = 0; d < n_devices; d++) {
            bool is_its = address[0] & 1 || address[5] == d;
            if (is_its && &devices[d] != from) queue(&devices[d], bytes, (size_t)n, now);
        }
    }
}

/* Returns when the next frame is due; INT64_MAX: none waits. */
static int64_t send_due(device *d) {
    while (d->first) {
        frame *f = d->first;
        if (f->at_ns > now_ns()) return f->at_ns;
        if (!d->is_cut && write(d->fd, f->bytes, f->n_bytes) < 0 && errno == EAGAIN) return f->at_ns;
        d->first = f->next;
        if (!d->first) d->end = &d->first;
        d->queued_bytes -= f->n_bytes;
        free(f);
    }
    return INT64_MAX;
}

static void obey(int control) {
    char text[256], word[8];
    int d;
    ssize_t n = read(control, text, sizeof text - 1);
    if (n <= 0) return;
    text[n] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (sscanf(line, "%7s %d", word, &d) == 2 && d >= 0 && d < n_devices)
            devices[d].is_cut = strcmp(word, "cut") == 0;
    }
}

int main(int argc, char **argv) {
    if (argc < 5 || argc - 4 > MAX_DEVICES) {
        fprintf(stderr, "usage: delay MS MBIT CONTROL PID...\n");
        return 2;
    }
    delay_ns = (int64_t)(atof(argv[1]) * 1e6);
    ns_per_byte = atof(argv[2]) > 0 ? 8000 / atof(argv[2]) : 0;
    int control = open(argv[3], O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (control < 0) fail(argv[3]);
    for (; n_devices < argc - 4; n_devices++) open_device(&devices[n_devices], argv[4 + n_devices]);
    prctl(PR_SET_TIMERSLACK, 1000);
    printf("ready\n");
    fflush(stdout);
    struct pollfd polled[MAX_DEVICES + 1];
    for (;;) {
        int64_t next = INT64_MAX;
        for (int d = 0; d < n_devices; d++) {
            int64_t due = send_due(&devices[d]);
            next = due < next ? due : next;
            polled[d] = (struct pollfd){devices[d].fd, POLLIN, 0};
        }
        polled[n_devices] = (struct pollfd){control, POLLIN, 0};
        int64_t wait = next == INT64_MAX ? INT64_C(1000000000) : next - now_ns();
        if (wait < 0) wait = 0;
        struct timespec timeout = {wait / 1000000000, wait % 1000000000};
        if (ppoll(polled, (nfds_t)n_devices + 1, &timeout, NULL) < 0 && errno != EINTR) fail("poll");
        for (int d = 0; d < n_devices; d++) {
            if (polled[d].revents & POLLIN) receive(&devices[d]);
        }
        if (polled[n_devices].revents & POLLIN) obey(control);
    }
}
