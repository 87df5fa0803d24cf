#include "train/source/input_fingerprints.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "data/source/source.h"

/* Of files of more bytes N_SAMPLES samples are read: a changed row of a large one may be missed, another
 * number of bytes is not. */
enum { SAMPLE_BYTES = 1 << 14, N_SAMPLES = 16 };
static const char *const kind_names[RK_INPUT_KINDS] = {"train", "valid", "joins"};

void rk_input_fingerprints_release(rk_input_fingerprints *inputs) {
    for (int k = 0; k < RK_INPUT_KINDS; k++) {
        rk_free(inputs->files[k]);
        rk_text_list_release(&inputs->paths[k]);
    }
    *inputs = (rk_input_fingerprints){0};
}

static rk_status checksum_sample(int descriptor, const char *path, int64_t at, char *bytes, uint32_t *crc) {
    size_t n_read;
    int code = rk_file_read_at(descriptor, (uint64_t)at, bytes, SAMPLE_BYTES, &n_read);
    if (code) return rk_error_errno(RK_IO, code, "could not read '%s'", path);
    *crc = rk_crc32c(*crc, bytes, n_read);
    return RK_OK;
}

static rk_status checksum_samples(int descriptor, const char *path, rk_input *out) {
    static const int64_t all = (int64_t)SAMPLE_BYTES * N_SAMPLES;
    uint32_t crc = 0;
    RK_AUTOFREE char *bytes = NULL;
    int64_t step = out->n_bytes <= all ? SAMPLE_BYTES : (out->n_bytes - SAMPLE_BYTES) / (N_SAMPLES - 1);
    RK_TRY(rk_alloc(SAMPLE_BYTES, 1, &bytes));
    for (int i = 0; i < N_SAMPLES && i * step < out->n_bytes; i++)
        RK_TRY(checksum_sample(
            descriptor, path,
            i == N_SAMPLES - 1 && out->n_bytes > all ? out->n_bytes - SAMPLE_BYTES : i * step, bytes, &crc));
    out->crc32c = crc;
    return RK_OK;
}

/* One that is missing is no matter here: who reads the data says so. */
static rk_status fingerprint_file(const char *path, rk_input *out) {
    struct stat info;
    *out = (rk_input){-1, -1};
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return RK_OK;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return RK_OK;
    out->n_bytes = (int64_t)info.st_size;
    rk_status status = checksum_samples(descriptor, path, out);
    close(descriptor);
    return status;
}

static rk_status fingerprint_files(const rk_config *c, char *const *patterns, size_t n_patterns, int kind,
                                   rk_input_fingerprints *out) {
    rk_status status = rk_expand_paths(c->directory, patterns, n_patterns, &out->paths[kind]);
    if (status == RK_NOT_FOUND) return RK_OK;
    RK_TRY(status);
    out->n[kind] = out->paths[kind].n;
    RK_TRY(rk_alloc(out->n[kind], sizeof *out->files[kind], &out->files[kind]));
    for (size_t i = 0; i < out->n[kind]; i++)
        RK_TRY(fingerprint_file(out->paths[kind].texts[i], &out->files[kind][i]));
    return RK_OK;
}

static rk_status fingerprint_all_kinds(const rk_config *c, rk_input_fingerprints *out) {
    const rk_data_section *s = &c->data;
    RK_AUTOFREE char **joined = NULL;
    RK_TRY(fingerprint_files(c, s->train.path, (size_t)s->train.n_path, RK_INPUT_TRAIN, out));
    RK_TRY(fingerprint_files(c, s->valid.path, (size_t)s->valid.n_path, RK_INPUT_VALID, out));
    RK_TRY(rk_alloc((size_t)s->n_joins, sizeof *joined, &joined));
    for (int64_t i = 0; i < s->n_joins; i++) joined[i] = s->joins[i].path;
    return fingerprint_files(c, joined, (size_t)s->n_joins, RK_INPUT_JOINS, out);
}

rk_status rk_input_fingerprints_compute(const rk_config *config, rk_input_fingerprints *out) {
    RK_AUTO(rk_input_fingerprints_release) rk_input_fingerprints inputs = {0};
    RK_TRY(fingerprint_all_kinds(config, &inputs));
    *out = inputs;
    inputs = (rk_input_fingerprints){0};
    return RK_OK;
}

static rk_status compare_file_fingerprint(const rk_input *then, const rk_input *now, const char *path) {
    if (then->n_bytes < 0 || now->n_bytes < 0) return RK_OK;
    RK_FAIL_IF(then->n_bytes != now->n_bytes, RK_CONFIG,
               "the training data changed: '%s' had %lld bytes and now has %lld", path,
               (long long)then->n_bytes, (long long)now->n_bytes);
    RK_FAIL_IF(then->crc32c != now->crc32c, RK_CONFIG,
               "the training data changed: '%s' has other content than before", path);
    return RK_OK;
}

rk_status rk_input_fingerprints_compare(const rk_input_fingerprints *then, const rk_input_fingerprints *now) {
    for (int k = 0; k < RK_INPUT_KINDS; k++) {
        for (size_t i = 0; i < then->n[k] && i < now->n[k]; i++)
            RK_TRY(compare_file_fingerprint(&then->files[k][i], &now->files[k][i], now->paths[k].texts[i]));
        RK_FAIL_IF(then->n[k] != now->n[k], RK_CONFIG,
                   "the training data changed: '%s' had %zu files and now has %zu", kind_names[k], then->n[k],
                   now->n[k]);
    }
    return RK_OK;
}

/* {"train":[[bytes,crc32c],...],...} */
json_t *rk_input_fingerprints_to_json(const rk_input_fingerprints *inputs) {
    json_t *object = json_object();
    for (int k = 0; k < RK_INPUT_KINDS; k++) {
        json_t *list = json_array();
        for (size_t i = 0; i < inputs->n[k]; i++)
            json_array_append_new(list, json_pack("[I, I]", (json_int_t)inputs->files[k][i].n_bytes,
                                                  (json_int_t)inputs->files[k][i].crc32c));
        json_object_set_new(object, kind_names[k], list);
    }
    return object;
}

rk_status rk_input_fingerprints_from_json(json_t *json, rk_input_fingerprints *out) {
    RK_AUTO(rk_input_fingerprints_release) rk_input_fingerprints inputs = {0};
    for (int k = 0; k < RK_INPUT_KINDS; k++) {
        json_t *list = json_object_get(json, kind_names[k]);
        RK_TRY(rk_alloc(json_array_size(list), sizeof *inputs.files[k], &inputs.files[k]));
        RK_FAIL_IF(!json_is_array(list), RK_BAD_DATA, "invalid entries of the data files");
        for (size_t i = 0; i < json_array_size(list); i++) {
            json_t *pair = json_array_get(list, i), *bytes = json_array_get(pair, 0),
                   *crc = json_array_get(pair, 1);
            RK_FAIL_IF(!json_is_integer(bytes) || !json_is_integer(crc), RK_BAD_DATA,
                       "invalid entries of the data files");
            inputs.files[k][inputs.n[k]++] = (rk_input){json_integer_value(bytes), json_integer_value(crc)};
        }
    }
    *out = inputs;
    inputs = (rk_input_fingerprints){0};
    return RK_OK;
}
