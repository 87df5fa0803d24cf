#include "train/checkpoint/external_rows.h"

#include <jansson.h>
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "format/json_writer.h"

static const char file_name[] = "rows.json";

rk_status rk_external_rows_write(const char *directory, const char *url, const char *version) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    RK_AUTOFREE char *path = NULL;
    rk_buffer_append_text(&text, "{\"rows\": \"redis\", \"url\": ");
    RK_TRY(rk_json_write_string(&text, url));
    rk_buffer_printf(&text, ", \"version\": \"%s\"}\n", version);
    RK_TRY(text.status);
    RK_TRY(rk_path_join(directory, file_name, &path));
    return rk_file_write(path, text.data, text.n_bytes);
}

static rk_status parse_external_rows(const char *path, const char *text, size_t n_bytes,
                                     rk_external_rows *out) {
    json_error_t error;
    json_auto_t *root = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &error);
    RK_FAIL_IF(!json_is_object(root), RK_BAD_DATA, "'%s' is no JSON object", path);
    const char *rows = json_string_value(json_object_get(root, "rows")),
               *url = json_string_value(json_object_get(root, "url")),
               *version = json_string_value(json_object_get(root, "version"));
    RK_FAIL_IF(!rows || strcmp(rows, "redis") != 0, RK_UNSUPPORTED,
               "'%s': rows are in '%s', which is not redis", path, rows ? rows : "");
    RK_FAIL_IF(!url || !version, RK_BAD_DATA, "'%s' has no text 'url', or no 'version'", path);
    RK_TRY(rk_strdup(url, &out->url));
    return rk_strdup(version, &out->version);
}

rk_status rk_external_rows_read(const char *directory, rk_external_rows *out) {
    RK_AUTOFREE char *path = NULL, *text = NULL;
    size_t n_bytes;
    *out = (rk_external_rows){0};
    RK_TRY(rk_path_join(directory, file_name, &path));
    if (!rk_file_exists(path)) return RK_OK;
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    rk_status status = parse_external_rows(path, text, n_bytes, out);
    if (status != RK_OK) rk_external_rows_release(out);
    return status;
}

void rk_external_rows_release(rk_external_rows *external) {
    RK_FREE_ALL(external->url, external->version);
    *external = (rk_external_rows){0};
}
