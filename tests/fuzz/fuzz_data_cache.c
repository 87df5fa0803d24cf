/* Entries of the cache of data (docs/formats/data_cache.md): the first byte says of which kind, the others
 * are what follows its head; the checksum is right. Rows that come of it can be read to their ends, and
 * whatever is not taken is read anew. */
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "batch/ids.h"
#include "data/cache/cached_transforms.h"
#include "data/dataset/dataset.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char section_text[] =
    "train: x.csv\nreader_threads: 1\ncache: {path: kept, max_bytes: 50000}\nlabels: [{name: "
    "y}]\nsample_weight: w\ngroup: a\n"
    "features: [{name: a, dense: true, normalize: true}, {name: b, column: a, quantiles: 6}, {name: c, "
    "vocabulary: {oov: 2}}, {name: d, column: c, weights: e, separator: '|', hash: 9}]\n";
static const char rows[] =
    "a,c,e,y,w\n1,x,1,1,1\n3,y,2,0,2\n5,,,1,1\n2,long word|x,1|2,0,1\n4,x,1,1,2\n77,n,3,0,1\n";

enum { TRANSFORMS, WINDOWS, N_KINDS, HEAD = 16, FILE_BYTES = 16, MOST_WAITS = 100 };

static rk_yaml yaml;
static rk_data_section section;
static struct entry {
    char path[256];
    rk_buffer head;
} entries[N_KINDS];

static uint64_t touched;

/* To their ends, so that a sanitizer sees what is not there. */
static void touch_batch(const rk_batch *b) {
    for (int64_t i = 0; i < b->n * b->n_dense; i++) touched += b->dense[i] > 0;
    for (int64_t i = 0; i < b->n; i++)
        touched += (b->labels[i] > 0) + (b->sample_weights[i] > 0) + (uint64_t)b->groups[i];
    for (int32_t f = 0; f < b->n_features; f++) {
        const rk_ids *ids = &b->features[f];
        for (int64_t i = 0; i < b->n; i++)
            if (rk_ids_begin_of_sample(ids, i + 1) < rk_ids_begin_of_sample(ids, i)) abort();
        for (int64_t i = rk_ids_begin_of_sample(ids, 0); i < rk_ids_begin_of_sample(ids, b->n); i++)
            touched += (uint64_t)ids->ids[i] + (ids->weights && ids->weights[i] > 0);
    }
}

static void read_all(void) {
    rk_transforms *transforms;
    rk_dataset *dataset;
    const rk_batch *batch;
    rk_fit_options fit = {.directory = scratch_folder()};
    rk_dataset_options options = {.directory = scratch_folder(), .split = "train", .batch_size = 4};
    if (rk_cached_transforms_fit(&section, &yaml, &fit, &transforms) != RK_OK) abort();
    if (rk_dataset_create(&section, transforms, &options, &dataset) != RK_OK) abort();
    for (int epoch = 0; epoch < 2; epoch++)
        while (rk_dataset_next(dataset, &batch) == RK_OK) touch_batch(batch);
    rk_dataset_free(dataset);
    rk_transforms_free(transforms);
}

static void keep_head(const char *name) {
    char path[256], *bytes;
    size_t n_bytes;
    uint64_t n_settings, n_files;
    snprintf(path, sizeof path, "%s/kept/%s", scratch_folder(), name);
    if (rk_file_read(path, &bytes, &n_bytes) != RK_OK) abort();
    memcpy(&n_settings, bytes + 8, sizeof n_settings);
    memcpy(&n_files, bytes + HEAD + n_settings, sizeof n_files);
    size_t n_head = HEAD + n_settings + sizeof n_files + n_files * FILE_BYTES;
    struct entry *entry = &entries[memmem(bytes, n_head, "what: windows", 13) ? WINDOWS : TRANSFORMS];
    snprintf(entry->path, sizeof entry->path, "%s", path);
    rk_buffer_append(&entry->head, bytes, n_head);
    rk_free(bytes);
}

static void prepare(void) {
    static bool is_done;
    rk_text_list names = {0};
    char folder[128];
    if (is_done) return;
    is_done = true;
    scratch_file("x.csv", rows, sizeof rows - 1);
    if (rk_yaml_parse("d.yaml", section_text, sizeof section_text - 1, &yaml) != RK_OK) abort();
    if (rk_schema_bind(&rk_data_schema_table, &yaml, yaml.root, &section) != RK_OK) abort();
    snprintf(folder, sizeof folder, "%s/kept", scratch_folder());
    for (int waits = 0; names.n != N_KINDS; waits++) { /* what has just changed, by the clock, is not kept */
        if (waits == MOST_WAITS) abort();
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        read_all();
        rk_text_list_release(&names);
        (void)rk_list_directory(folder, &names); /* it may not be there yet */
    }
    for (size_t i = 0; i < names.n; i++) keep_head(names.texts[i]);
    rk_text_list_release(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    prepare();
    if (n_bytes == 0) return 0;
    struct entry *entry = &entries[data[0] % N_KINDS];
    size_t n_head = entry->head.n_bytes;
    rk_buffer_append(&entry->head, data + 1, n_bytes - 1);
    rk_buffer_append_u32le(&entry->head, rk_crc32c(0, entry->head.data, entry->head.n_bytes));
    if (entry->head.status != RK_OK) abort();
    FILE *file = fopen(entry->path, "wb");
    if (!file || fwrite(entry->head.data, 1, entry->head.n_bytes, file) != entry->head.n_bytes ||
        fclose(file) != 0)
        abort();
    entry->head.n_bytes = n_head;
    read_all();
    return 0;
}
