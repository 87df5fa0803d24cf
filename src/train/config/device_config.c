#include "train/config/device_config.h"

#include "base/text/text.h"

static const char *const kinds[] = {"cpu", "cuda"};
static const char *const doc = "where the run computes: on the CPU, or on an NVIDIA GPU (docs/gpu.md)";

static const rk_field device_fields[] = {RK_FIELD_ENUM(rk_device_section, kind, RK_DEVICE_CPU, kinds, "")};
const rk_schema rk_device_schema = {.name = "device",
                                    .struct_bytes = sizeof(rk_device_section),
                                    .fields = device_fields,
                                    .n_fields = 1,
                                    .scalar_key = "kind"};

static const rk_field cuda_fields[] = {
    RK_FIELD_TEXT(rk_cuda_section, memory, false, NULL,
                  "GPU memory for rows and their slots: bytes, or 40GB, 512MB; larger tables stay in host "
                  "memory behind a cache. By default what is free"),
    RK_FIELD_BOOL(rk_cuda_section, tf32, false,
                  "dense products in TF32: faster, with 10 bits of mantissa instead of 23"),
    RK_FIELD_I64(rk_cuda_section, number, 0, 0, 1023,
                 "which GPU, where there are several; over ranks: the first one of a host, its other ranks "
                 "take the next ones"),
};
const rk_schema rk_cuda_schema = RK_SECTION_SCHEMA("cuda", rk_cuda_section, cuda_fields, NULL);

rk_status rk_cuda_section_resolve(const rk_cuda_section *section, const rk_yaml *yaml, rk_model_device *out) {
    *out = (rk_model_device){.number = (int32_t)section->number, .tf32 = section->tf32, .late = true};
    if (!section->memory || rk_parse_bytes(section->memory, &out->memory_bytes)) return RK_OK;
    rk_status status = rk_yaml_error(yaml, rk_yaml_find_key(rk_yaml_find_key(yaml->root, "cuda"), "memory"),
                                     "must be a number of bytes, not '%s'", section->memory);
    return rk_error_hint(status, "such as 40GB, 512MB or 1.5TB");
}

void rk_device_section_emit(const rk_device_section *section, rk_buffer *out) {
    rk_buffer_printf(out, "device: %s\n", kinds[section->kind]);
}

void rk_device_section_document(rk_buffer *out) {
    rk_buffer_printf(out, "| `device` | `%s`, `%s` | %s | %s |\n", kinds[RK_DEVICE_CPU],
                     kinds[RK_DEVICE_CUDA], kinds[RK_DEVICE_CPU], doc);
}
