#include "data/source/arrow_streams.h"

#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/find_text.h"
#include "base/text/text.h"

static const rk_arrow_opener *find_stream(const rk_arrow_streams *s, const char *name) {
    return s ? RK_FIND_BY(name, name, s->openers, s->n) : NULL;
}

rk_status rk_arrow_streams_add(rk_arrow_streams *s, const char *name, rk_open_stream open, void *user) {
    RK_FAIL_IF(!open || !name || !*name, RK_INVALID_ARGUMENT, "a stream needs a name and a function");
    RK_FAIL_IF(find_stream(s, name), RK_INVALID_ARGUMENT, "there is a stream '%s' already", name);
    RK_TRY(rk_reserve_one_more(&s->openers, s->n, &s->capacity, sizeof *s->openers));
    rk_arrow_opener *opener = &s->openers[s->n];
    *opener = (rk_arrow_opener){.open = open, .user = user};
    RK_TRY(rk_strdup(name, &opener->name));
    s->n++;
    return RK_OK;
}

void rk_arrow_streams_release(rk_arrow_streams *s) {
    for (size_t i = 0; i < s->n; i++) rk_free(s->openers[i].name);
    rk_free(s->openers);
    *s = (rk_arrow_streams){0};
}

static rk_status unknown_stream_error(const rk_arrow_streams *s, const char *path, const char *name) {
    rk_status status = rk_error(RK_NOT_FOUND, "'%s': the program gives no stream of this name", path);
    const char *nearest =
        s ? rk_nearest_name_of(name, s->openers, sizeof *s->openers, offsetof(rk_arrow_opener, name), s->n)
          : NULL;
    return nearest ? rk_error_hint(status, "is 'arrow:%s' meant?", nearest)
                   : rk_error_hint(status, "rk_config_add_stream gives one; a file's path has no 'arrow:'");
}

rk_status rk_arrow_streams_open(const rk_arrow_streams *s, const char *path, struct ArrowArrayStream *out) {
    const char *name = path + strlen(RK_MEMORY_PATH);
    const rk_arrow_opener *opener = find_stream(s, name);
    if (!opener) return unknown_stream_error(s, path, name);
    struct ArrowArrayStream stream = {0};
    int code = opener->open(opener->user, &stream);
    if (code != 0) return rk_error_errno(RK_IO, code, "'%s': the stream could not be opened", path);
    RK_FAIL_IF(!stream.release || !stream.get_schema || !stream.get_next, RK_INVALID_ARGUMENT,
               "'%s': what was opened is no stream, or was released", path);
    *out = stream;
    return RK_OK;
}

void rk_arrow_array_unref(rk_arrow_array *a) {
    if (!a || --a->n_users > 0) return;
    if (a->array.release) a->array.release(&a->array);
    rk_free(a);
}
