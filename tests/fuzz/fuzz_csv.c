#include <stddef.h>
#include <stdint.h>

#include "format/text/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    if (n_bytes < 1) return 0;
    static const rk_csv_dialect dialects[] = {{',', '"', true}, {'\t', 0, false}, {'|', '\'', false}};
    rk_csv_record record = {0};
    size_t consumed = 1;
    const rk_csv_dialect *dialect = &dialects[data[0] % 3];
    for (size_t at = 1; at < n_bytes && consumed; at += consumed) {
        if (rk_csv_parse(dialect, (const char *)data + at, n_bytes - at, data[0] & 64, &record, &consumed) !=
            RK_OK)
            break;
        size_t total = 0; /* every field must be readable */
        for (size_t i = 0; i < record.n_fields; i++)
            for (size_t k = 0; k < record.fields[i].n_bytes; k++)
                total += (unsigned char)record.fields[i].data[k];
        if (total == (size_t)-1) __builtin_trap();
    }
    rk_csv_record_release(&record);
    return 0;
}
