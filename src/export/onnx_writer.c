#include "export/onnx_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <reckon/version.h>

#include "base/memory.h"
#include "format/protobuf/protobuf_wire.h"

enum { IR_VERSION = 8, OPERATOR_SET = 17, BITWISE_OPERATOR_SET = 18, ML_OPERATOR_SET = 3 };
static const char ml[] = "ai.onnx.ml";
enum {
    ATTRIBUTE_FLOAT = 1,
    ATTRIBUTE_INT = 2,
    ATTRIBUTE_STRING = 3,
    ATTRIBUTE_INTS = 7,
    ATTRIBUTE_STRINGS = 8,
    EXTERNAL = 1
};

void rk_onnx_writer_release(rk_onnx_writer *w) {
    for (size_t i = 0; i < w->n_names; i++) rk_free(w->names[i]);
    rk_free(w->names);
    rk_name_map_release(&w->numbers);
    rk_buffer_release(&w->nodes);
    rk_buffer_release(&w->initializers);
    rk_buffer_release(&w->inputs);
    rk_buffer_release(&w->outputs);
    *w = (rk_onnx_writer){0};
}

static void write_string_field(rk_buffer *out, uint32_t field, const char *text) {
    rk_wire_write_bytes(out, field, text, strlen(text));
}

/* The message as a field of another one; it is empty afterwards. */
static void write_submessage(rk_buffer *out, uint32_t field, rk_buffer *message) {
    if (message->status == RK_OK)
        rk_wire_write_bytes(out, field, message->data, message->n_bytes);
    else if (out->status == RK_OK)
        out->status = message->status;
    rk_buffer_release(message);
    *message = (rk_buffer){0};
}

static void write_key_value(rk_buffer *out, uint32_t field, const char *key, const char *value) {
    rk_buffer pair = {0};
    write_string_field(&pair, 1, key);
    write_string_field(&pair, 2, value);
    write_submessage(out, field, &pair);
}

static rk_status register_name(rk_onnx_writer *w, const char *name) {
    char *own;
    if (rk_name_map_find(&w->numbers, name) >= 0) {
        rk_error(RK_UNSUPPORTED, "two values of the ONNX model are named '%s'", name);
        return rk_error_hint(RK_UNSUPPORTED, "give the label or the feature another name");
    }
    RK_TRY(rk_reserve_one_more(&w->names, w->n_names, &w->capacity, sizeof *w->names));
    RK_TRY(rk_strdup(name, &own));
    w->names[w->n_names] = own;
    RK_TRY(rk_name_map_add(&w->numbers, own, (int64_t)w->n_names++));
    return RK_OK;
}

static rk_onnx_value add_named_value(rk_onnx_writer *w, const char *name) {
    if (w->status == RK_OK) w->status = register_name(w, name);
    return w->status == RK_OK ? (rk_onnx_value)w->n_names - 1 : -1;
}

/* Ends in the value's number, so that no other can be named alike. */
static rk_onnx_value add_generated_value(rk_onnx_writer *w, const char *what) {
    rk_buffer name = {0};
    rk_buffer_printf(&name, "/%s/%s_%zu", w->scope ? w->scope : "", what, w->n_names);
    if (w->status == RK_OK) w->status = name.status;
    rk_onnx_value value = w->status == RK_OK ? add_named_value(w, name.data) : -1;
    rk_buffer_release(&name);
    return value;
}

static void write_value_info(rk_buffer *out, uint32_t field, const char *name, rk_onnx_type type,
                             const rk_onnx_dim *dims, size_t n_dims) {
    rk_buffer shape = {0}, tensor = {0}, wrapped = {0}, info = {0};
    for (size_t d = 0; d < n_dims; d++) {
        rk_buffer dim = {0};
        if (dims[d].name)
            write_string_field(&dim, 2, dims[d].name);
        else
            rk_wire_write_number(&dim, 1, (uint64_t)dims[d].size);
        write_submessage(&shape, 1, &dim);
    }
    rk_wire_write_number(&tensor, 1, type);
    write_submessage(&tensor, 2, &shape);
    write_submessage(&wrapped, 1, &tensor);
    write_string_field(&info, 1, name);
    write_submessage(&info, 2, &wrapped);
    write_submessage(out, field, &info);
}

rk_onnx_value rk_onnx_add_input(rk_onnx_writer *w, const char *name, rk_onnx_type type,
                                const rk_onnx_dim *dims, size_t n_dims) {
    rk_onnx_value value = add_named_value(w, name);
    if (value >= 0) write_value_info(&w->inputs, 11, name, type, dims, n_dims);
    return value;
}

static void write_tensor_header(rk_buffer *tensor, const char *name, rk_onnx_type type, const int64_t *dims,
                                size_t n_dims) {
    for (size_t d = 0; d < n_dims; d++) rk_wire_write_number(tensor, 1, (uint64_t)dims[d]);
    rk_wire_write_number(tensor, 2, type);
    write_string_field(tensor, 8, name);
}

rk_onnx_value rk_onnx_add_external_tensor(rk_onnx_writer *w, const char *name, rk_onnx_type type,
                                          const int64_t *dims, size_t n_dims, rk_onnx_place place) {
    rk_onnx_value value = add_named_value(w, name);
    if (value < 0) return value;
    rk_buffer tensor = {0};
    char number[24];
    write_tensor_header(&tensor, name, type, dims, n_dims);
    write_key_value(&tensor, 13, "location", place.file);
    snprintf(number, sizeof number, "%" PRIu64, place.begin);
    write_key_value(&tensor, 13, "offset", number);
    snprintf(number, sizeof number, "%" PRIu64, place.n_bytes);
    write_key_value(&tensor, 13, "length", number);
    rk_wire_write_number(&tensor, 14, EXTERNAL);
    write_submessage(&w->initializers, 5, &tensor);
    return value;
}

/* Numbers in the file are little endian, as this machine's are. */
static void write_constant_tensor(rk_onnx_writer *w, rk_onnx_value value, rk_onnx_type type, size_t n_dims,
                                  const void *data, size_t n, size_t bytes) {
    rk_buffer tensor = {0};
    int64_t dim = (int64_t)n;
    if (value < 0) return;
    write_tensor_header(&tensor, w->names[value], type, &dim, n_dims);
    rk_wire_write_bytes(&tensor, 9, data, n * bytes);
    write_submessage(&w->initializers, 5, &tensor);
}

static rk_onnx_value add_int_constant(rk_onnx_writer *w, rk_onnx_type type, size_t n_dims,
                                      const int64_t *values, size_t n) {
    rk_buffer name = {0};
    rk_onnx_value value = -1;
    if (w->status != RK_OK) return -1;
    rk_buffer_append_text(&name, type == RK_ONNX_U64 ? "//uint" : n_dims ? "//ints" : "//int");
    for (size_t i = 0; i < n; i++) rk_buffer_printf(&name, ":%lld", (long long)values[i]);
    w->status = name.status;
    if (w->status == RK_OK) value = (rk_onnx_value)rk_name_map_find(&w->numbers, name.data);
    if (w->status == RK_OK && value < 0) {
        value = add_named_value(w, name.data);
        write_constant_tensor(w, value, type, n_dims, values, n, sizeof *values);
    }
    rk_buffer_release(&name);
    return value;
}

rk_onnx_value rk_onnx_constant_ints(rk_onnx_writer *w, const int64_t *values, size_t n) {
    return add_int_constant(w, RK_ONNX_I64, 1, values, n);
}

rk_onnx_value rk_onnx_constant_int(rk_onnx_writer *w, int64_t value) {
    return add_int_constant(w, RK_ONNX_I64, 0, &value, 1);
}

rk_onnx_value rk_onnx_constant_uint(rk_onnx_writer *w, uint64_t value) {
    return add_int_constant(w, RK_ONNX_U64, 0, &(int64_t){(int64_t)value}, 1);
}

rk_onnx_value rk_onnx_constant_floats(rk_onnx_writer *w, const float *values, size_t n) {
    rk_onnx_value value = add_generated_value(w, "floats");
    write_constant_tensor(w, value, RK_ONNX_F32, 1, values, n, sizeof *values);
    return value;
}

rk_onnx_value rk_onnx_constant_double(rk_onnx_writer *w, double number) {
    rk_onnx_value value = add_generated_value(w, "double");
    write_constant_tensor(w, value, RK_ONNX_F64, 0, &number, 1, sizeof number);
    return value;
}

rk_onnx_value rk_onnx_constant_doubles(rk_onnx_writer *w, const double *values, size_t n) {
    rk_onnx_value value = add_generated_value(w, "doubles");
    write_constant_tensor(w, value, RK_ONNX_F64, 1, values, n, sizeof *values);
    return value;
}

static void write_attribute(rk_buffer *node, const rk_onnx_attribute *a) {
    static const int types[] = {[RK_ONNX_INT] = ATTRIBUTE_INT,
                                [RK_ONNX_INTS] = ATTRIBUTE_INTS,
                                [RK_ONNX_FLOAT] = ATTRIBUTE_FLOAT,
                                [RK_ONNX_STRING] = ATTRIBUTE_STRING,
                                [RK_ONNX_TEXTS] = ATTRIBUTE_STRINGS};
    rk_buffer attribute = {0};
    write_string_field(&attribute, 1, a->name);
    if (a->kind == RK_ONNX_INT) rk_wire_write_number(&attribute, 3, (uint64_t)a->number);
    for (size_t i = 0; i < a->n_numbers && a->numbers; i++)
        rk_wire_write_number(&attribute, 8, (uint64_t)a->numbers[i]);
    for (size_t i = 0; i < a->n_numbers && a->texts; i++)
        rk_wire_write_bytes(&attribute, a->kind == RK_ONNX_STRING ? 4 : 9, a->texts[i].data,
                            a->texts[i].n_bytes);
    if (a->kind == RK_ONNX_FLOAT) {
        rk_wire_write_varint(&attribute, 2 << 3 | RK_WIRE_FIXED32);
        rk_buffer_append(&attribute, &a->real, sizeof a->real);
    }
    rk_wire_write_number(&attribute, 20, (uint64_t)types[a->kind]);
    write_submessage(node, 5, &attribute);
}

/* domain: of the operator; NULL: ONNX's own. */
static void write_node_message(rk_onnx_writer *w, const char *domain, const char *op,
                               const rk_onnx_value *inputs, size_t n_inputs, const char *output,
                               const rk_onnx_attribute *attributes, size_t n_attributes) {
    rk_buffer node = {0};
    for (size_t i = 0; i < n_inputs; i++) write_string_field(&node, 1, w->names[inputs[i]]);
    write_string_field(&node, 2, output);
    write_string_field(&node, 3, output);
    write_string_field(&node, 4, op);
    if (domain) write_string_field(&node, 7, domain);
    for (size_t i = 0; i < n_attributes; i++) write_attribute(&node, &attributes[i]);
    write_submessage(&w->nodes, 1, &node);
}

rk_onnx_value rk_onnx_add_node(rk_onnx_writer *w, const char *op, const rk_onnx_value *inputs,
                               size_t n_inputs, const rk_onnx_attribute *attributes, size_t n_attributes) {
    rk_onnx_value value = add_generated_value(w, op);
    if (value >= 0)
        write_node_message(w, NULL, op, inputs, n_inputs, w->names[value], attributes, n_attributes);
    return value;
}

rk_onnx_value rk_onnx_add_ml_node(rk_onnx_writer *w, const char *op, const rk_onnx_value *inputs,
                                  size_t n_inputs, const rk_onnx_attribute *attributes, size_t n_attributes) {
    rk_onnx_value value = add_generated_value(w, op);
    if (value >= 0)
        write_node_message(w, ml, op, inputs, n_inputs, w->names[value], attributes, n_attributes);
    w->uses_ml = true;
    return value;
}

void rk_onnx_add_output(rk_onnx_writer *w, rk_onnx_value value, const char *name, rk_onnx_type type,
                        const rk_onnx_dim *dims, size_t n_dims) {
    if (add_named_value(w, name) < 0) return;
    write_node_message(w, NULL, "Identity", &value, 1, name, NULL, 0);
    write_value_info(&w->outputs, 12, name, type, dims, n_dims);
}

static rk_status first_buffer_failure(const rk_onnx_writer *w) {
    const rk_buffer *parts[] = {&w->nodes, &w->initializers, &w->inputs, &w->outputs};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) RK_TRY(parts[i]->status);
    return w->status;
}

rk_status rk_onnx_write_model(rk_onnx_writer *w, const char *name, rk_buffer *out) {
    rk_buffer graph = {0}, set = {0};
    RK_TRY(first_buffer_failure(w));
    rk_buffer_append(&graph, w->nodes.data, w->nodes.n_bytes);
    write_string_field(&graph, 2, name);
    rk_buffer_append(&graph, w->initializers.data, w->initializers.n_bytes);
    rk_buffer_append(&graph, w->inputs.data, w->inputs.n_bytes);
    rk_buffer_append(&graph, w->outputs.data, w->outputs.n_bytes);
    rk_wire_write_number(out, 1, IR_VERSION);
    write_string_field(out, 2, "reckon");
    write_string_field(out, 3, rk_version());
    write_submessage(out, 7, &graph);
    write_string_field(&set, 1, ""); /* ONNX's own operators */
    rk_wire_write_number(&set, 2, w->uses_bits ? BITWISE_OPERATOR_SET : OPERATOR_SET);
    write_submessage(out, 8, &set);
    if (w->uses_ml) {
        write_string_field(&set, 1, ml);
        rk_wire_write_number(&set, 2, ML_OPERATOR_SET);
        write_submessage(out, 8, &set);
    }
    return out->status;
}
