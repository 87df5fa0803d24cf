#include "train/run/run_log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread/clock.h"
#include "base/file/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "format/protobuf/tensorboard.h"
#include "format/protobuf/tfrecord.h"

void rk_run_log_release(rk_run_log *log) {
    RK_FREE_ALL(log->jsonl_path, log->events_path);
    *log = (rk_run_log){0};
}

static rk_status append_to_file(const char *path, const void *data, size_t n_bytes) {
    int descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) return rk_error_errno(RK_IO, errno, "could not open '%s'", path);
    const char *at = data;
    rk_status status = RK_OK;
    while (status == RK_OK && n_bytes) {
        ssize_t n = write(descriptor, at, n_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) status = rk_error_errno(RK_IO, errno, "could not write '%s'", path);
        if (n > 0) {
            at += n;
            n_bytes -= (size_t)n;
        }
    }
    if (close(descriptor) != 0 && status == RK_OK)
        status = rk_error_errno(RK_IO, errno, "could not write '%s'", path);
    return status;
}

static int64_t file_size_or_zero(const char *path) {
    uint64_t n = 0;
    return path && rk_file_exists(path) && rk_file_size(path, &n) == RK_OK ? (int64_t)n : 0;
}

/* The whole lines of the first n_bytes. */
static size_t end_of_last_whole_line(const uint8_t *data, size_t n_bytes) {
    while (n_bytes && data[n_bytes - 1] != '\n') n_bytes--;
    return n_bytes;
}

/* The whole records of the first n_bytes. */
static size_t end_of_last_whole_record(const uint8_t *data, size_t n_bytes) {
    size_t at = 0, n;
    while ((n = rk_tfrecord_frame_bytes(data + at, n_bytes - at)) > 0 && n <= n_bytes - at) at += n;
    return at;
}

static void warn_of_shorter_log(const char *path, size_t n_bytes, int64_t wanted) {
    if ((uint64_t)wanted <= n_bytes) return;
    rk_log(
        RK_LOG_WARNING,
        "'%s' has %zu bytes, but had %lld when the checkpoint was saved: the lost entries are not restored",
        path, n_bytes, (long long)wanted);
}

/* Back to n_bytes, or to fewer: to the end of what is whole in a log that has become shorter since. */
static rk_status truncate_file(const char *path, int64_t n_bytes, size_t (*end_of)(const uint8_t *, size_t)) {
    RK_AUTO(rk_mapped_file_release) rk_mapped_file map = {0};
    bool there = rk_file_exists(path);
    if (there) RK_TRY(rk_mapped_file_open(path, &map));
    warn_of_shorter_log(path, map.n_bytes, n_bytes);
    if (!there) return RK_OK;
    size_t end =
        map.n_bytes ? end_of(map.data, (uint64_t)n_bytes < map.n_bytes ? (size_t)n_bytes : map.n_bytes) : 0;
    return truncate(path, (off_t)end) == 0 ? RK_OK : rk_error_errno(RK_IO, errno, "could not cut '%s'", path);
}

static rk_status write_events_header(const char *path) {
    if (file_size_or_zero(path) > 0) return RK_OK;
    RK_AUTO(rk_buffer_release) rk_buffer event = {0};
    rk_tensorboard_write_header(rk_clock_wall_seconds(), &event);
    RK_TRY(event.status);
    return append_to_file(path, event.data, event.n_bytes);
}

rk_status rk_run_log_open(const char *directory, bool tensorboard, int64_t keep_bytes, int64_t events_bytes,
                          rk_run_log *out) {
    RK_AUTO(rk_run_log_release) rk_run_log log = {0};
    RK_TRY(rk_path_join(directory, "metrics.jsonl", &log.jsonl_path));
    RK_TRY(rk_path_join(directory, "events.out.tfevents.reckon", &log.events_path));
    RK_TRY(truncate_file(log.jsonl_path, keep_bytes > 0 ? keep_bytes : 0, end_of_last_whole_line));
    if (tensorboard && events_bytes > 0)
        RK_TRY(truncate_file(log.events_path, events_bytes, end_of_last_whole_record));
    if ((tensorboard || keep_bytes < 0) && events_bytes <= 0 && unlink(log.events_path) != 0 &&
        errno != ENOENT)
        return rk_error_errno(RK_IO, errno, "could not remove '%s'", log.events_path);
    if (tensorboard) {
        RK_TRY(write_events_header(log.events_path));
    } else {
        rk_free(log.events_path);
        log.events_path = NULL;
    }
    *out = log;
    log = (rk_run_log){0};
    return RK_OK;
}

static void set_finite_number(json_t *object, const char *key, double value) {
    if (isfinite(value)) json_object_set_new(object, key, json_real(value));
}

static rk_status write_json_line(rk_run_log *log, const rk_log_entry *entry) {
    json_auto_t *object = json_pack("{s:s, s:I, s:I}", "kind", entry->kind, "epoch", (json_int_t)entry->epoch,
                                    "step", (json_int_t)entry->step);
    if (!object) return RK_NO_MEMORY_ERROR(0);
    set_finite_number(object, "loss", entry->loss);
    set_finite_number(object, "samples_per_second", entry->samples_per_second);
    set_finite_number(object, "learning_rate_factor", entry->learning_rate_factor);
    set_finite_number(object, "time", rk_clock_wall_seconds());
    for (int32_t i = 0; i < entry->n_metrics; i++)
        json_object_set_new(
            object, entry->metrics[i].name,
            isfinite(entry->metrics[i].value) ? json_real(entry->metrics[i].value) : json_null());
    char *text = json_dumps(object, JSON_COMPACT);
    if (!text) return RK_NO_MEMORY_ERROR(0);
    size_t n = strlen(text);
    text[n] = '\n'; /* in place of the NUL: one write a line */
    rk_status status = append_to_file(log->jsonl_path, text, n + 1);
    free(text);
    return status;
}

static rk_status write_tensorboard_events(rk_run_log *log, const rk_log_entry *entry) {
    RK_AUTO(rk_buffer_release) rk_buffer events = {0};
    char tag[300];
    double now = rk_clock_wall_seconds();
    if (isfinite(entry->loss)) {
        snprintf(tag, sizeof tag, "%s/loss", entry->kind);
        rk_tensorboard_write_scalar(tag, entry->loss, entry->step, now, &events);
    }
    if (isfinite(entry->samples_per_second))
        rk_tensorboard_write_scalar("train/samples_per_second", entry->samples_per_second, entry->step, now,
                                    &events);
    for (int32_t i = 0; i < entry->n_metrics; i++) {
        if (!isfinite(entry->metrics[i].value)) continue;
        snprintf(tag, sizeof tag, "%s/%s", entry->kind, entry->metrics[i].name);
        rk_tensorboard_write_scalar(tag, entry->metrics[i].value, entry->step, now, &events);
    }
    RK_TRY(events.status);
    return append_to_file(log->events_path, events.data, events.n_bytes);
}

rk_status rk_run_log_add(rk_run_log *log, const rk_log_entry *entry) {
    RK_TRY(write_json_line(log, entry));
    return log->events_path ? write_tensorboard_events(log, entry) : RK_OK;
}

void rk_run_log_bytes(const rk_run_log *log, int64_t *jsonl, int64_t *events) {
    *jsonl = file_size_or_zero(log->jsonl_path);
    *events = file_size_or_zero(log->events_path);
}
