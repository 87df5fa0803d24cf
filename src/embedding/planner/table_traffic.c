#include "embedding/planner/table_traffic.h"

#include <math.h>
#include <string.h>

#include "embedding/local/table_storage.h"
#include "optim/optimizer_slots.h"

double rk_stored_row_bytes(const rk_table_config *table, const rk_optimizer *optimizer, int32_t dim) {
    rk_slot slots[RK_MAX_SLOTS];
    double bytes = dim * (double)rk_dtype_bytes(table->dtype);
    for (int n = rk_optimizer_list_slots(optimizer, slots), i = 0; i < n; i++)
        bytes += sizeof(float) * (slots[i].per_row ? 1.0 : dim);
    return bytes;
}

int64_t rk_table_part_rows(int64_t n_rows, int32_t part, int32_t n_parts) {
    return n_rows / n_parts + (part < n_rows % n_parts);
}

int64_t rk_planner_request_part_rows(const rk_planner_request *request, int32_t t, int32_t part,
                                     int32_t n_parts) {
    const rk_dynamic_config *dynamic = rk_planner_request_dynamic_config(request, t);
    return dynamic ? rk_dynamic_part_capacity(dynamic, part, n_parts) +
                         rk_dynamic_part_cold_rows(dynamic, part, n_parts)
                   : rk_table_part_rows(request->tables[t].n_rows, part, n_parts);
}

int64_t rk_planner_request_max_parts(const rk_planner_request *request, int32_t t) {
    const rk_dynamic_config *dynamic = rk_planner_request_dynamic_config(request, t);
    return dynamic ? dynamic->n_buckets : request->tables[t].n_rows;
}

bool rk_planner_request_is_on_disk(const rk_planner_request *request, int32_t t) {
    const rk_dynamic_config *dynamic = rk_planner_request_dynamic_config(request, t);
    return dynamic && dynamic->storage;
}

static double row_and_slot_bytes(const rk_planner_request *request, int32_t t) {
    rk_optimizer usual;
    const rk_table_config *table = &request->tables[t];
    return rk_stored_row_bytes(table, rk_planner_request_table_optimizer(request, t, &usual), table->dim);
}

/* Of rows of the table, those that keys share: always in memory. */
static double count_cold_rows(const rk_planner_request *request, int32_t t, int64_t n_rows) {
    const rk_dynamic_config *dynamic = rk_planner_request_dynamic_config(request, t);
    return (double)n_rows * (double)dynamic->n_cold / (double)(dynamic->max_capacity + dynamic->n_cold);
}

double rk_planner_request_bytes_of_rows(const rk_planner_request *request, int32_t t, int64_t n_rows) {
    const rk_dynamic_config *dynamic = rk_planner_request_dynamic_config(request, t);
    double rows = (double)n_rows, row = row_and_slot_bytes(request, t),
           keys = dynamic ? rows * rk_dynamic_key_bytes(dynamic) : 0;
    if (!rk_planner_request_is_on_disk(request, t)) return rows * row + keys;
    double least = count_cold_rows(request, t, n_rows) * (row + RK_TIER_PLACE_BYTES),
           most = rows * (row + RK_TIER_PLACE_BYTES);
    return fmax(least, fmin(most, (double)dynamic->memory_bytes)) + keys;
}

double rk_planner_request_disk_bytes(const rk_planner_request *request, int32_t t, int64_t n_rows) {
    if (!rk_planner_request_is_on_disk(request, t)) return 0;
    return (double)n_rows * (row_and_slot_bytes(request, t) + sizeof(int64_t));
}

double rk_table_part_load_share(const rk_planner_request *request, const rk_table_statistics *load,
                                int32_t part, int32_t n_parts) {
    double ids = load->ids * (double)request->batch_size / request->roles.n_trainers, hot = 0, here = 0;
    for (int32_t i = 0; i < load->n_hot && load->local_rows > 0; i++) {
        double share = -expm1(-load->hot[i].share * ids) / load->local_rows;
        hot += share;
        if (load->hot[i].id % n_parts == part) here += share;
    }
    return here + fmax(1 - hot, 0) / n_parts;
}

/* Local row numbers travel in as few bytes as the largest part's rows need. */
static double id_bytes_on_wire(int64_t n_rows, int32_t n_parts) {
    int64_t rows = rk_table_part_rows(n_rows, 0, n_parts);
    return rows <= (int64_t)UINT16_MAX + 1 ? 2 : rows <= (int64_t)UINT32_MAX + 1 ? 4 : 8;
}

static int32_t count_features_of_table(const rk_planner_request *request, const char *table) {
    int32_t n = 0;
    for (int32_t f = 0; f < request->n_features; f++) n += strcmp(request->features[f].table, table) == 0;
    return n;
}

static rk_table_traffic estimate_pooled_traffic(const rk_planner_request *request,
                                                const rk_table_config *table, const rk_table_statistics *load,
                                                const rk_table_placement *placement) {
    double bags = (double)request->batch_size * count_features_of_table(request, table->name),
           ids = (double)request->batch_size * load->ids;
    double values = bags * table->dim, wire = (double)rk_dtype_bytes(request->wire);
    rk_table_traffic traffic = {.requests = bags};
    traffic.id_bytes =
        placement->n_slices * (bags * sizeof(uint32_t) + ids * id_bytes_on_wire(table->n_rows, 1));
    traffic.row_bytes = values * wire;
    traffic.lookup_bytes = ids * table->dim * (double)rk_dtype_bytes(table->dtype) + values * wire;
    if (table->frozen) return traffic;
    traffic.gradient_bytes = traffic.row_bytes;
    traffic.update_bytes = ids * table->dim * (double)sizeof(float);
    return traffic;
}

/* A key travels whole, and with it how often it is used; and of a table whose rows are read ahead from a
 * disk, also with the batch before. */
enum { KEY_ON_WIRE = 8 + 4, KEY_AHEAD_ON_WIRE = 8 };

static double key_bytes_on_wire(const rk_planner_request *request, int32_t t) {
    return rk_planner_request_is_on_disk(request, t) ? KEY_ON_WIRE + KEY_AHEAD_ON_WIRE : KEY_ON_WIRE;
}

static rk_table_traffic estimate_row_traffic(const rk_planner_request *request, int32_t t,
                                             const rk_table_statistics *load,
                                             const rk_table_placement *placement) {
    const rk_table_config *table = &request->tables[t];
    double id_bytes = rk_planner_request_dynamic_config(request, t)
                          ? key_bytes_on_wire(request, t)
                          : id_bytes_on_wire(table->n_rows, placement->n_parts);
    rk_table_traffic traffic = {.requests = load->local_rows * request->roles.n_trainers};
    double values = traffic.requests * table->dim, wire = (double)rk_dtype_bytes(request->wire);
    traffic.id_bytes = traffic.requests * placement->n_slices * id_bytes;
    traffic.row_bytes = values * wire;
    traffic.lookup_bytes = values * ((double)rk_dtype_bytes(table->dtype) + wire);
    if (table->frozen) return traffic;
    traffic.gradient_bytes = traffic.row_bytes;
    traffic.update_bytes = values * wire;
    return traffic;
}

rk_table_traffic rk_table_traffic_estimate(const rk_planner_request *request, int32_t table,
                                           const rk_table_statistics *load,
                                           const rk_table_placement *placement) {
    const rk_table_config *config = &request->tables[table];
    rk_optimizer usual;
    const rk_optimizer *optimizer = rk_planner_request_table_optimizer(request, table, &usual);
    rk_table_traffic traffic = placement->owner_pooling
                                   ? estimate_pooled_traffic(request, config, load, placement)
                                   : estimate_row_traffic(request, table, load, placement);
    if (!config->frozen)
        traffic.update_bytes += 2 * load->batch_rows * rk_stored_row_bytes(config, optimizer, config->dim);
    return traffic;
}
