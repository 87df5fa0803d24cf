/* What every test of device code begins with. */
#ifndef RK_DEVICE_TESTING_H
#define RK_DEVICE_TESTING_H

#include "testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/rng.h" /* before `stream` is a name here */
#include "cuda/device/device.h"

static rk_device *device;
static rk_stream *stream;

/* For tests that open it themselves: without a GPU the program ends with 77. */
static inline void need_device(void) {
    rk_device *found;
    if (rk_device_open(0, &found) == RK_OK) {
        rk_device_close(found);
        return;
    }
    printf("skipped: %s\n", rk_last_error());
    exit(77);
}

/* Opens GPU 0 and a stream; without one the program ends with 77, which ctest calls skipped. */
static inline int open_device(void **state) {
    (void)state;
    rk_status status = rk_device_open(0, &device);
    if (status == RK_UNSUPPORTED) {
        printf("skipped: %s\n", rk_last_error());
        exit(77);
    }
    OK(status);
    OK(rk_stream_create(device, &stream));
    return 0;
}
static inline int close_device(void **state) {
    (void)state;
    rk_stream_free(stream);
    rk_device_close(device);
    return 0;
}

/* Device memory of n_bytes: zeroed, or with a copy of `from`. */
static inline void *on_device(const void *from, size_t n_bytes) {
    void *memory = NULL;
    OK(rk_device_alloc(device, n_bytes, &memory));
    if (from) OK(rk_device_upload(device, memory, from, n_bytes));
    return memory;
}

#endif
