#include "format/protobuf/example_feature_header.h"

#include "format/protobuf/protobuf_wire.h"

rk_example_feature_header rk_example_feature_header_make(const char *name, size_t n_name,
                                                         rk_example_kind kind) {
    enum { OTHERS = 10, MOST_LENGTH = 127 };
    rk_example_feature_header head = {.n_bytes = n_name + OTHERS};
    if (head.n_bytes > RK_EXAMPLE_HEAD_BYTES) return (rk_example_feature_header){0};
    uint8_t bytes[RK_EXAMPLE_HEAD_BYTES] = {1 << 3 | RK_WIRE_BYTES, (uint8_t)(n_name + 8),
                                            1 << 3 | RK_WIRE_BYTES, (uint8_t)n_name};
    uint8_t lengths[RK_EXAMPLE_HEAD_BYTES] = {0, UINT8_MAX}, mask[RK_EXAMPLE_HEAD_BYTES] = {0};
    const uint8_t rest[6] = {2 << 3 | RK_WIRE_BYTES, 4, (uint8_t)((kind + 1) << 3 | RK_WIRE_BYTES), 2,
                             1 << 3 | RK_WIRE_BYTES, 0};
    memcpy(bytes + 4, name, n_name);
    memcpy(bytes + 4 + n_name, rest, sizeof rest);
    for (size_t i = 1; i < sizeof rest; i += 2) lengths[4 + n_name + i] = UINT8_MAX;
    memset(mask, UINT8_MAX, head.n_bytes);
    for (size_t i = 0; i < RK_EXAMPLE_HEAD_WORDS; i++) {
        memcpy(&head.words[i].bytes, bytes + 8 * i, 8);
        memcpy(&head.words[i].lengths, lengths + 8 * i, 8);
        memcpy(&head.words[i].mask, mask + 8 * i, 8);
    }
    head.n_words = (head.n_bytes + 15) / 16 * 2;
    head.most = MOST_LENGTH - 8 - n_name;
    return head;
}
