/* bench_rows DIRECTORY OUTPUT.csv|OUTPUT.tfrecord [--batch 1]: a workload's arrays as one file of rows.
 *
 * csv: the ids of a feature with '|' between them, numbers with three decimals. tfrecord: tf.train.Examples
 * of so many rows each; a feature's values are those of the Example's rows one after another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "format/protobuf/tfrecord.h"
#include "workload.h"

static char *append_id(char *to, int64_t id) {
    char digits[20];
    int n = 0;
    do digits[n++] = (char)('0' + id % 10);
    while (id /= 10);
    while (n) *to++ = digits[--n];
    return to;
}

static char *append_row(char *to, const workload *w, int64_t row) {
    *to++ = w->labels[row] != 0 ? '1' : '0';
    for (int64_t c = 0; c < w->n_dense; c++)
        to += sprintf(to, ",%.3f", (double)w->dense[row * w->n_dense + c]);
    for (int64_t f = 0; f < w->n_features; f++) {
        const workload_feature *feature = &w->features[f];
        for (int64_t k = 0; k < feature->hotness; k++) {
            *to++ = k ? '|' : ',';
            to = append_id(to, feature->ids[row * feature->hotness + k]);
        }
    }
    *to++ = '\n';
    return to;
}

static void write_csv(const workload *w, FILE *file) {
    int64_t n_values = 1 + w->n_dense;
    for (int64_t f = 0; f < w->n_features; f++) n_values += w->features[f].hotness;
    char *line = malloc((size_t)n_values * 24);
    if (!line) die("no memory for a line");
    fputs("label", file);
    for (int64_t c = 0; c < w->n_dense; c++) fprintf(file, ",n%lld", (long long)c);
    for (int64_t f = 0; f < w->n_features; f++) fprintf(file, ",%s", w->features[f].name);
    fputc('\n', file);
    for (int64_t row = 0; row < w->n_batches * w->n; row++)
        fwrite(line, 1, (size_t)(append_row(line, w, row) - line), file);
    free(line);
}

static void write_tfrecord(const workload *w, int64_t batch, FILE *file) {
    rk_example_writer writer = {0};
    rk_buffer example = {0}, record = {0};
    int64_t *labels = malloc((size_t)batch * sizeof *labels);
    float *column = malloc((size_t)batch * sizeof *column);
    if (!labels || !column) die("no memory for a batch");
    for (int64_t row = 0, n; row < w->n_batches * w->n; row += n) {
        n = w->n_batches * w->n - row < batch ? w->n_batches * w->n - row : batch;
        for (int64_t i = 0; i < n; i++) labels[i] = w->labels[row + i] != 0;
        rk_example_add_i64(&writer, "label", labels, (size_t)n);
        for (int64_t c = 0; c < w->n_dense; c++) {
            char name[32];
            snprintf(name, sizeof name, "n%lld", (long long)c);
            for (int64_t i = 0; i < n; i++) column[i] = w->dense[(row + i) * w->n_dense + c];
            rk_example_add_f32(&writer, name, column, (size_t)n);
        }
        for (int64_t f = 0; f < w->n_features; f++) {
            const workload_feature *feature = &w->features[f];
            rk_example_add_i64(&writer, feature->name, feature->ids + row * feature->hotness,
                               (size_t)(n * feature->hotness));
        }
        rk_buffer_clear(&example);
        rk_buffer_clear(&record);
        if (rk_example_finish(&writer, &example) != RK_OK) die("an Example cannot be made");
        rk_tfrecord_write(example.data, example.n_bytes, &record);
        fwrite(record.data, 1, record.n_bytes, file);
    }
    rk_example_writer_release(&writer);
    rk_buffer_release(&example);
    rk_buffer_release(&record);
    free(labels);
    free(column);
}

int main(int argc, char **argv) {
    const char *kind = argc >= 3 ? strrchr(argv[2], '.') : NULL;
    if (!kind) die("usage: bench_rows DIRECTORY OUTPUT.csv|OUTPUT.tfrecord [--batch 1]");
    workload w;
    workload_load(argv[1], &w);
    FILE *file = fopen(argv[2], "wb");
    if (!file || !w.labels || (w.n_dense && !w.dense))
        die("no labels.f32 or dense.f32, or '%s' cannot be written", argv[2]);
    if (strcmp(kind, ".csv") == 0)
        write_csv(&w, file);
    else
        write_tfrecord(&w, atoll(option(argc, argv, "--batch", "1")), file);
    if (fclose(file) != 0) die("'%s' cannot be written", argv[2]);
    return 0;
}
