/* transforms.json and a vocabulary beside it (behind a NUL of the input): with what is loaded, any row
 * becomes finite numbers and ids that there are, and it is saved as what loads again. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "data/dataset/dataset.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char section_text[] =
    "train: x.csv\nreader_threads: 1\non_bad_row: skip\nlabels: [{name: y}]\n"
    "features: [{name: a, dense: true, normalize: true}, {name: b, column: a, quantiles: 6}, {name: c, "
    "vocabulary: {oov: 2}}, {name: d, column: c, vocabulary: {oov: 0}}]\n";
static const char rows[] = "a,c,y\n1,x,1\n-3e38,y,0\n0.5,,1\n,long word,0\n1e-40,x,1\n77,\\n,0\n";

static rk_yaml yaml;
static rk_data_section section;

static void prepare(void) {
    if (section.line) return;
    scratch_file("x.csv", rows, sizeof rows - 1);
    if (rk_yaml_parse("d.yaml", section_text, sizeof section_text - 1, &yaml) != RK_OK) abort();
    if (rk_schema_bind(&rk_data_schema_table, &yaml, yaml.root, &section) != RK_OK ||
        rk_data_section_check(&section, &yaml) != RK_OK)
        abort();
    char folder[128];
    snprintf(folder, sizeof folder, "%s/vocabulary", scratch_folder());
    if (rk_make_directories(folder) != RK_OK) abort();
    section.line = 1;
}

static void check_batch(const rk_batch *b, const rk_data_schema *schema) {
    for (int64_t i = 0; i < b->n * b->n_dense; i++)
        if (!isfinite(b->dense[i])) abort();
    for (int32_t f = 0; f < b->n_features; f++) {
        const rk_ids *ids = &b->features[f];
        int64_t n = ids->offsets ? ids->offsets[b->n] : b->n * ids->ids_per_sample;
        for (int64_t i = 0; i < n; i++)
            if (ids->ids[i] < 0 || ids->ids[i] >= schema->features[f].cardinality) abort();
    }
}

static void read_rows(const rk_transforms *transforms) {
    rk_dataset *dataset;
    const rk_batch *batch;
    rk_dataset_options options = {.directory = scratch_folder(), .split = "train", .batch_size = 4};
    if (rk_dataset_create(&section, transforms, &options, &dataset) != RK_OK) abort();
    while (rk_dataset_next(dataset, &batch) == RK_OK) check_batch(batch, rk_dataset_schema(dataset));
    rk_dataset_free(dataset);
}

static void save_again(const rk_transforms *transforms) {
    rk_text_list names = {0};
    rk_transforms *again;
    if (rk_transforms_save(transforms, scratch_folder(), &names) != RK_OK) abort();
    if (rk_transforms_load_files(&section, scratch_folder(), &again) != RK_OK) abort();
    rk_transforms_free(again);
    rk_text_list_release(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    const uint8_t *cut = n_bytes ? memchr(data, 0, n_bytes) : NULL;
    size_t n_json = cut ? (size_t)(cut - data) : n_bytes, n_words = cut ? n_bytes - n_json - 1 : 0;
    rk_transforms *transforms;
    prepare();
    scratch_file("transforms.json", data, n_json);
    scratch_file("vocabulary/c.txt", cut ? cut + 1 : data, n_words);
    scratch_file("vocabulary/d.txt", cut ? cut + 1 : data, n_words);
    if (rk_transforms_load_files(&section, scratch_folder(), &transforms) != RK_OK) return 0;
    read_rows(transforms);
    save_again(transforms);
    rk_transforms_free(transforms);
    return 0;
}
