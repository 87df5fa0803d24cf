/* The writing side of a schema: a bound struct as YAML or JSON, and the reference of all keys. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/yaml/schema.h"
#include "base/text/text.h"

static const void *member_at(const void *object, size_t offset) {
    return (const char *)object + offset;
}

/* Plain where it reads back as the same text, else quoted. */
static void emit_text(const char *text, rk_buffer *out) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    double number;
    size_t n = strlen(text);
    bool simple = n && strspn(text, plain) == n && text[0] != '-' &&
                  !rk_parse_f64((rk_span){text, n}, &number) && strcmp(text, "null") != 0;
    if (simple) {
        rk_buffer_append_text(out, text);
        return;
    }
    rk_buffer_append_u8(out, '"');
    for (const char *at = text; *at; at++) {
        if (*at == '"' || *at == '\\')
            rk_buffer_printf(out, "\\%c", *at);
        else if ((unsigned char)*at < 32)
            rk_buffer_printf(out, "\\x%02x", (unsigned char)*at);
        else
            rk_buffer_append_u8(out, (uint8_t)*at);
    }
    rk_buffer_append_u8(out, '"');
}

/* The shortest of 15, 16 or 17 digits that reads back as the same number. */
static void emit_f64(double value, rk_buffer *out) {
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        double again = 0;
        rk_snprintf(text, sizeof text, "%.*g", digits, value);
        if (rk_parse_f64((rk_span){text, strlen(text)}, &again) && again == value) break;
    }
    rk_buffer_append_text(out, text);
}

static void emit_array(const rk_field *field, const void *object, bool flow, rk_buffer *out) {
    int64_t n = *(const int64_t *)member_at(object, field->count_offset);
    const void *array = *(const void *const *)member_at(object, field->offset);
    bool bare = flow && n == 1; /* one value stands for a list of one */
    if (!bare) rk_buffer_append_text(out, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i) rk_buffer_append_text(out, ", ");
        if (field->kind == RK_FIELD_KIND_I64S) rk_buffer_printf(out, "%" PRId64, ((const int64_t *)array)[i]);
        if (field->kind == RK_FIELD_KIND_F64S) emit_f64(((const double *)array)[i], out);
        if (field->kind == RK_FIELD_KIND_TEXTS) emit_text(((const char *const *)array)[i], out);
    }
    if (!bare) rk_buffer_append_text(out, "]");
}

static void emit_flow_mapping(const rk_schema *schema, const void *object, rk_buffer *out);

/* On the line that is being written. */
static void emit_value(const rk_field *field, const void *object, bool flow, rk_buffer *out) {
    const void *place = member_at(object, field->offset);
    switch (field->kind) {
        case RK_FIELD_KIND_BOOL:
            rk_buffer_append_text(out, *(const bool *)place ? "true" : "false");
            break;
        case RK_FIELD_KIND_I64:
            rk_buffer_printf(out, "%" PRId64, *(const int64_t *)place);
            break;
        case RK_FIELD_KIND_F64:
            emit_f64(*(const double *)place, out);
            break;
        case RK_FIELD_KIND_ENUM:
            rk_buffer_append_text(out, field->names[*(const int *)place]);
            break;
        case RK_FIELD_KIND_TEXT:
            emit_text(*(char *const *)place, out);
            break;
        case RK_FIELD_KIND_STRUCT:
            emit_flow_mapping(field->sub, place, out);
            break;
        default:
            emit_array(field, object, flow, out);
            break;
    }
}

static void emit_list_of_structs(const rk_field *field, const void *object, int indent, rk_buffer *out) {
    int64_t n = *(const int64_t *)member_at(object, field->count_offset);
    const char *array = *(const char *const *)member_at(object, field->offset);
    rk_buffer_append_text(out, "\n");
    for (int64_t i = 0; i < n; i++) {
        const void *item = array + (size_t)i * field->sub->struct_bytes;
        if (field->sub->flow) {
            rk_buffer_printf(out, "%*s- ", indent + 2, "");
            emit_flow_mapping(field->sub, item, out);
            rk_buffer_append_text(out, "\n");
            continue;
        }
        size_t before = out->n_bytes;
        rk_schema_emit(field->sub, item, indent + 4, out);
        if (out->status == RK_OK && out->n_bytes > before + (size_t)indent + 2)
            out->data[before + (size_t)indent + 2] = '-';
    }
}

/* Whether a field says anything: what is unset is left out, so that the text reads back as the same
 * struct. */
static bool is_field_set(const rk_field *field, const void *object) {
    const void *place = member_at(object, field->offset);
    switch (field->kind) {
        case RK_FIELD_KIND_F64:
            return isfinite(*(const double *)place);
        case RK_FIELD_KIND_TEXT:
            return *(char *const *)place != NULL;
        case RK_FIELD_KIND_ENUM:
            return *(const int *)place >= 0;
        case RK_FIELD_KIND_STRUCT:
            return !field->sub->has_line || *(const int *)member_at(place, field->sub->line_offset) != 0;
        case RK_FIELD_KIND_BOOL:
        case RK_FIELD_KIND_I64:
            return true;
        case RK_FIELD_KIND_LIST:
            return *(const int64_t *)member_at(object, field->count_offset) > 0;
        default:
            return *(const void *const *)place != NULL; /* an empty one says something too */
    }
}

static bool is_field_default(const rk_field *field, const void *object) {
    const void *place = member_at(object, field->offset);
    switch (field->kind) {
        case RK_FIELD_KIND_BOOL:
            return *(const bool *)place == (field->default_number != 0);
        case RK_FIELD_KIND_I64:
            return (double)*(const int64_t *)place == field->default_number;
        case RK_FIELD_KIND_F64:
            return *(const double *)place == field->default_number;
        case RK_FIELD_KIND_ENUM:
            return (double)*(const int *)place == field->default_number;
        case RK_FIELD_KIND_TEXT:
            return field->default_text && strcmp(*(char *const *)place, field->default_text) == 0;
        default:
            return false;
    }
}

static void emit_flow_mapping(const rk_schema *schema, const void *object, rk_buffer *out) {
    const char *between = "{";
    for (size_t i = 0; i < schema->n_fields; i++) {
        const rk_field *field = &schema->fields[i];
        if (!is_field_set(field, object) || is_field_default(field, object)) continue;
        rk_buffer_printf(out, "%s%s: ", between, field->key);
        emit_value(field, object, true, out);
        between = ", ";
    }
    rk_buffer_append_text(out, *between == '{' ? "{}" : "}");
}

static void emit_field(const rk_field *field, const void *object, int indent, rk_buffer *out) {
    const void *place = member_at(object, field->offset);
    rk_buffer_printf(out, "%*s%s:", indent, "", field->key);
    if (field->kind == RK_FIELD_KIND_STRUCT) {
        size_t before = out->n_bytes;
        rk_buffer_append_text(out, "\n");
        rk_schema_emit(field->sub, place, indent + 2, out);
        if (out->status == RK_OK && out->n_bytes == before + 1) {
            out->n_bytes = before;
            rk_buffer_append_text(out, " {}\n");
        }
        return;
    }
    if (field->kind == RK_FIELD_KIND_LIST) {
        emit_list_of_structs(field, object, indent, out);
        return;
    }
    rk_buffer_append_text(out, " ");
    emit_value(field, object, false, out);
    rk_buffer_append_text(out, "\n");
}

void rk_schema_emit(const rk_schema *schema, const void *object, int indent, rk_buffer *out) {
    for (size_t i = 0; i < schema->n_fields; i++)
        if (is_field_set(&schema->fields[i], object)) emit_field(&schema->fields[i], object, indent, out);
}

static json_t *element_to_json(const rk_field *field, const void *array, int64_t i) {
    switch (field->kind) {
        case RK_FIELD_KIND_I64S:
            return json_integer(((const int64_t *)array)[i]);
        case RK_FIELD_KIND_F64S:
            return json_real(((const double *)array)[i]);
        case RK_FIELD_KIND_TEXTS:
            return json_string(((const char *const *)array)[i]);
        default:
            return rk_schema_to_json(field->sub, (const char *)array + (size_t)i * field->sub->struct_bytes);
    }
}

static json_t *array_to_json(const rk_field *field, const void *object) {
    int64_t n = *(const int64_t *)member_at(object, field->count_offset);
    const void *array = *(const void *const *)member_at(object, field->offset);
    json_t *out = json_array();
    for (int64_t i = 0; i < n; i++) {
        if (json_array_append_new(out, element_to_json(field, array, i)) == 0) continue;
        json_decref(out);
        return NULL;
    }
    return out;
}

static json_t *field_to_json(const rk_field *field, const void *object) {
    const void *place = member_at(object, field->offset);
    switch (field->kind) {
        case RK_FIELD_KIND_BOOL:
            return json_boolean(*(const bool *)place);
        case RK_FIELD_KIND_I64:
            return json_integer(*(const int64_t *)place);
        case RK_FIELD_KIND_F64:
            return json_real(*(const double *)place);
        case RK_FIELD_KIND_ENUM:
            return json_string(field->names[*(const int *)place]);
        case RK_FIELD_KIND_TEXT:
            return json_string(*(char *const *)place);
        case RK_FIELD_KIND_STRUCT:
            return rk_schema_to_json(field->sub, place);
        default:
            return array_to_json(field, object);
    }
}

json_t *rk_schema_to_json(const rk_schema *schema, const void *object) {
    json_t *out = json_object();
    for (size_t i = 0; i < schema->n_fields; i++) {
        const rk_field *field = &schema->fields[i];
        if (!is_field_set(field, object)) continue;
        if (json_object_set_new(out, field->key, field_to_json(field, object)) == 0) continue;
        json_decref(out);
        return NULL;
    }
    return out;
}

static const char *field_kind_name(rk_field_kind kind) {
    static const char *const names[] = {
        "true or false",    "whole number",          "number",          "text",         "name", "mapping",
        "list of mappings", "list of whole numbers", "list of numbers", "list of texts"};
    return names[kind];
}

static void write_default_of_field(const rk_field *field, rk_buffer *out) {
    bool number = field->kind <= RK_FIELD_KIND_F64;
    if (field->required || ((field->kind == RK_FIELD_KIND_I64 || field->kind == RK_FIELD_KIND_ENUM) &&
                            isnan(field->default_number)))
        rk_buffer_append_text(out, "required");
    else if (field->kind == RK_FIELD_KIND_BOOL)
        rk_buffer_append_text(out, field->default_number != 0 ? "true" : "false");
    else if (field->kind == RK_FIELD_KIND_ENUM && field->default_number >= 0)
        rk_buffer_append_text(out, field->names[(int)field->default_number]);
    else if (number && isfinite(field->default_number))
        emit_f64(field->default_number, out);
    else if (field->default_text)
        rk_buffer_printf(out, "`%s`", field->default_text);
}

static void write_type_of_field(const rk_field *field, rk_buffer *out) {
    if (field->kind != RK_FIELD_KIND_ENUM) {
        rk_buffer_append_text(out, field_kind_name(field->kind));
        return;
    }
    for (size_t i = 0; i < field->n_names; i++)
        rk_buffer_printf(out, "%s`%s`", i ? ", " : "", field->names[i]);
}

void rk_schema_write_reference(const rk_schema *schema, const char *prefix, rk_buffer *out) {
    for (size_t i = 0; i < schema->n_fields; i++) {
        const rk_field *field = &schema->fields[i];
        char key[256];
        snprintf(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "", field->key);
        rk_buffer_printf(out, "| `%s%s` | ", key, field->kind == RK_FIELD_KIND_LIST ? "[]" : "");
        write_type_of_field(field, out);
        rk_buffer_append_text(out, " | ");
        write_default_of_field(field, out);
        rk_buffer_printf(out, " | %s |\n", field->doc ? field->doc : "");
        if (!field->sub) continue;
        if (field->kind == RK_FIELD_KIND_LIST) strncat(key, "[]", sizeof key - strlen(key) - 1);
        rk_schema_write_reference(field->sub, key, out);
    }
}
