/* Training by oneDNN's matmul, one thread a call, with W in the layout that it likes best, and bias and relu
 * in the same pass; predictions, and small products of training, by batch_invariant.c.
 *
 * bf16: where the processor has bf16 products (AVX512-BF16, AMX) oneDNN gets bf16 operands. Elsewhere it
 * would imitate them slowly, so rounded operands are multiplied in f32: a product of two bf16 values is exact
 * in f32, so that gives what a bf16 unit would, but for the order of sums. */
#include <dnnl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/thread/instruction_set.h"
#include "base/memory.h"
#include "kernels/kernels.h"
#include "gemm/gemm.h"
#include "gemm/batch_invariant.h"

/* oneDNN runs its loops by OpenMP; its two functions are declared here, since clang's omp.h belongs to
 * another OpenMP. */
extern int omp_get_max_threads(void);
extern void omp_set_num_threads(int n_threads);

enum { FORWARD, INPUT_GRADIENT, INPUT_GRADIENT_ADD, WEIGHT_GRADIENT, WEIGHT_GRADIENT_ADD, N_PRODUCTS };

enum { MOST_ARGUMENTS = 5, SPARE_CALLS = 4 };

/* What oneDNN runs a primitive with. To make it takes as long as a small product, so it is used again. */
typedef struct call {
    dnnl_stream_t stream;
    dnnl_memory_t memories[MOST_ARGUMENTS];
    const void *data[MOST_ARGUMENTS]; /* that these are of */
} call;

/* W packed for one of the two products that it takes part in. */
typedef struct packed {
    dnnl_memory_desc_t desc;
    void *data;
    size_t n_bytes;
    dnnl_primitive_t reorder; /* that packs it, made when first needed */
    call *reorder_call;
} packed;

/* A matrix product of some number of rows. */
typedef struct product {
    dnnl_primitive_t primitive;
    dnnl_memory_desc_t scratch; /* memory that it needs while it runs */
    size_t scratch_bytes;
    _Atomic(call *) spare[SPARE_CALLS]; /* that no thread uses now, or NULL */
} product;

struct rk_packed_matrix {
    int64_t in, out, max_rows;
    rk_dtype dtype;
    bool is_small; /* oneDNN has no part in it */
    bool units;    /* bf16 operands as such, in training */
    bool training; /* what W was packed for */
    packed w, w_transposed;
    rk_batch_invariant_matrix batch_invariant, transposed; /* W', where it is small: for the gradient of x */
    void *rounded;                                         /* [in, out]: W in bf16, or rounded to it */
    _Atomic(product *) *products; /* [N_PRODUCTS * 4, max_rows + 1]: made when first needed; by product, then
                                     2 * relu + bias */
    size_t scratch_bytes;         /* of products of max_rows rows */
};

static dnnl_engine_t engine;
static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* held by who asks oneDNN for products: its cache
                                                              of them is the process's own */

/* RK_ISA holds for oneDNN as for the kernels. */
static void create_dnnl_engine(void) {
    if (rk_cpu_isa() < RK_ISA_AVX512)
        dnnl_set_max_cpu_isa(rk_cpu_isa() == RK_ISA_AVX2 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41);
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) engine = NULL;
}

static rk_status status_from_dnnl(dnnl_status_t status, const char *what) {
    if (status == dnnl_success) return RK_OK;
    return rk_error(status == dnnl_out_of_memory ? RK_NO_MEMORY : RK_INTERNAL,
                    "oneDNN: %s failed with status %d", what, (int)status);
}
#define DNNL_TRY(call) RK_TRY(status_from_dnnl(call, #call))

static bool has_bf16_product_units(void) {
    const char *asked = getenv("RK_BF16_UNITS"); /* 1: oneDNN emulates them, for tests */
    if (rk_cpu_isa() < RK_ISA_AVX512) return false;
    if (asked) return *asked == '1';
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return isa >= dnnl_cpu_isa_avx512_core_bf16 && isa != dnnl_cpu_isa_avx2_vnni;
}

static dnnl_data_type_t operand_type(const rk_packed_matrix *matrix) {
    return matrix->units ? dnnl_bf16 : dnnl_f32;
}

static rk_status init_matrix_descriptor(dnnl_memory_desc_t *desc, int64_t rows, int64_t cols,
                                        dnnl_data_type_t type, dnnl_format_tag_t tag) {
    dnnl_dims_t dims = {rows, cols};
    return status_from_dnnl(dnnl_memory_desc_init_by_tag(desc, 2, dims, type, tag), "a memory description");
}

/* A product's operands: [rows, inner] x [inner, cols]. */
static rk_status init_product_descriptors(const rk_packed_matrix *matrix, int kind, int64_t m,
                                          dnnl_memory_desc_t *a, dnnl_memory_desc_t *b,
                                          dnnl_memory_desc_t *c) {
    int64_t in = matrix->in, out = matrix->out;
    dnnl_data_type_t type = operand_type(matrix);
    if (kind == FORWARD) {
        RK_TRY(init_matrix_descriptor(a, m, in, type, dnnl_ab));
        if (matrix->w.data)
            *b = matrix->w.desc;
        else
            RK_TRY(init_matrix_descriptor(b, in, out, type, dnnl_format_tag_any));
        return init_matrix_descriptor(c, m, out, dnnl_f32, dnnl_ab);
    }
    if (kind >= WEIGHT_GRADIENT) {
        RK_TRY(init_matrix_descriptor(a, in, m, type, dnnl_ba));
        RK_TRY(init_matrix_descriptor(b, m, out, type, dnnl_ab));
        return init_matrix_descriptor(c, in, out, dnnl_f32, dnnl_ab);
    }
    RK_TRY(init_matrix_descriptor(a, m, out, type, dnnl_ab));
    if (matrix->w_transposed.data)
        *b = matrix->w_transposed.desc;
    else
        RK_TRY(init_matrix_descriptor(b, out, in, type, dnnl_format_tag_any));
    return init_matrix_descriptor(c, m, in, dnnl_f32, dnnl_ab);
}

/* oneDNN writes the code of a product into memory that it does not look at: where there is none it ends the
 * process. So we ask first, for more than the code of one takes. */
static rk_status check_memory_for_jit_code(void) {
    const size_t code_bytes = 8 << 20;
    void *room;
    rk_status status = rk_pages_alloc(code_bytes, &room);
    if (status != RK_OK) return rk_error_context(status, "oneDNN: making a matrix product");
    rk_pages_free(room, code_bytes);
    return RK_OK;
}

static rk_status create_primitive_descriptor(const rk_packed_matrix *matrix, int kind, int64_t m, bool relu,
                                             bool bias, dnnl_primitive_desc_t *out) {
    dnnl_memory_desc_t a, b, c, bias_desc;
    RK_TRY(check_memory_for_jit_code());
    RK_TRY(init_product_descriptors(matrix, kind, m, &a, &b, &c));
    RK_TRY(init_matrix_descriptor(&bias_desc, 1, matrix->out, dnnl_f32, dnnl_ab));
    dnnl_matmul_desc_t matmul;
    DNNL_TRY(dnnl_matmul_desc_init(&matmul, &a, &b, bias ? &bias_desc : NULL, &c));
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t after = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attributes);
    if (status == dnnl_success) status = dnnl_post_ops_create(&after);
    if (status == dnnl_success && relu)
        status = dnnl_post_ops_append_eltwise(after, 1, dnnl_eltwise_relu, 0, 0);
    if (status == dnnl_success && (kind == INPUT_GRADIENT_ADD || kind == WEIGHT_GRADIENT_ADD))
        status = dnnl_post_ops_append_sum(after, 1);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, after);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(
            attributes, dnnl_scratchpad_mode_user); /* threads share primitives */
    if (status == dnnl_success) status = dnnl_primitive_desc_create(out, &matmul, attributes, engine, NULL);
    dnnl_post_ops_destroy(after);
    dnnl_primitive_attr_destroy(attributes);
    return status_from_dnnl(status, "describing a matrix product");
}

/* Up to five arguments: descriptions, data and what they are. */
typedef struct argument {
    int number;
    const dnnl_memory_desc_t *desc;
    const void *data;
} argument;

static void free_primitive_call(call *c) {
    if (!c) return;
    for (int i = 0; i < MOST_ARGUMENTS; i++)
        if (c->memories[i]) dnnl_memory_destroy(c->memories[i]);
    if (c->stream) dnnl_stream_destroy(c->stream);
    rk_free(c);
}

static rk_status create_primitive_call(const argument *arguments, int n, call **out) {
    call *made;
    RK_TRY(rk_alloc(1, sizeof *made, &made));
    dnnl_status_t status = dnnl_stream_create(&made->stream, engine, dnnl_stream_default_flags);
    for (int i = 0; i < n && status == dnnl_success; i++) {
        made->data[i] = arguments[i].data;
        status = dnnl_memory_create(&made->memories[i], arguments[i].desc, engine,
                                    (void *)(size_t)arguments[i].data);
    }
    if (status == dnnl_success)
        *out = made;
    else
        free_primitive_call(made);
    return status_from_dnnl(status, "a matrix product");
}

static rk_status run_primitive_call(dnnl_primitive_t primitive, call *c, const argument *arguments, int n) {
    dnnl_exec_arg_t given[MOST_ARGUMENTS];
    for (int i = 0; i < n; i++) {
        given[i] = (dnnl_exec_arg_t){arguments[i].number, c->memories[i]};
        if (c->data[i] == arguments[i].data) continue;
        DNNL_TRY(dnnl_memory_set_data_handle(c->memories[i], (void *)(size_t)arguments[i].data));
        c->data[i] = arguments[i].data;
    }
    return status_from_dnnl(dnnl_primitive_execute(primitive, c->stream, n, given), "a matrix product");
}

/* A spare call of the product; NULL: there is none. */
static call *take_idle_primitive_call(product *p) {
    call *found = NULL;
    for (int i = 0; i < SPARE_CALLS && !found; i++)
        if (atomic_load_explicit(&p->spare[i], memory_order_relaxed))
            found = atomic_exchange_explicit(&p->spare[i], NULL, memory_order_acquire);
    return found;
}

static void return_idle_primitive_call(product *p, call *c) {
    for (int i = 0; i < SPARE_CALLS; i++) {
        call *none = NULL;
        if (atomic_compare_exchange_strong_explicit(&p->spare[i], &none, c, memory_order_release,
                                                    memory_order_relaxed))
            return;
    }
    free_primitive_call(c);
}

static void free_product_primitive(product *p) {
    if (!p) return;
    for (int i = 0; i < SPARE_CALLS; i++) free_primitive_call(atomic_load(&p->spare[i]));
    dnnl_primitive_destroy(p->primitive);
    rk_free(p);
}

/* One thread for oneDNN within, put back after: the thread may be the caller's own. */
static int set_one_openmp_thread(void) {
    int before = omp_get_max_threads();
    if (before != 1) omp_set_num_threads(1);
    return before;
}
static void restore_openmp_threads(int before) {
    if (before != 1) omp_set_num_threads(before);
}

static rk_status create_product_primitive(const rk_packed_matrix *matrix, int kind, int64_t m, bool relu,
                                          bool bias, product **out) {
    dnnl_primitive_desc_t desc;
    product *made;
    RK_TRY(create_primitive_descriptor(matrix, kind, m, relu, bias, &desc));
    rk_status status = rk_alloc(1, sizeof *made, &made);
    if (status == RK_OK) {
        made->scratch = *dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
        made->scratch_bytes = dnnl_memory_desc_get_size(&made->scratch);
        status = status_from_dnnl(dnnl_primitive_create(&made->primitive, desc), "making a matrix product");
        if (status != RK_OK) rk_free(made);
    }
    dnnl_primitive_desc_destroy(desc);
    if (status == RK_OK) *out = made;
    return status;
}

static rk_status find_or_create_product_primitive(const rk_packed_matrix *matrix, int kind, int64_t m,
                                                  bool relu, bool bias, product **out) {
    int64_t variant = kind * 4 + 2 * relu + bias;
    _Atomic(product *) *place = &matrix->products[variant * (matrix->max_rows + 1) + m];
    *out = atomic_load_explicit(place, memory_order_acquire);
    if (*out) return RK_OK;
    pthread_mutex_lock(&making);
    rk_status status = RK_OK;
    *out = atomic_load(place);
    if (!*out) status = create_product_primitive(matrix, kind, m, relu, bias, out);
    if (status == RK_OK) atomic_store_explicit(place, *out, memory_order_release);
    pthread_mutex_unlock(&making);
    return status;
}

/* The layout that oneDNN picks for W in a product of max_rows rows. */
static rk_status choose_weight_layout(const rk_packed_matrix *matrix, int kind, packed *out) {
    dnnl_primitive_desc_t desc;
    pthread_mutex_lock(&making);
    rk_status status = create_primitive_descriptor(matrix, kind, matrix->max_rows, false, false, &desc);
    pthread_mutex_unlock(&making);
    RK_TRY(status);
    out->desc = *dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
    dnnl_primitive_desc_destroy(desc);
    out->n_bytes = dnnl_memory_desc_get_size(&out->desc);
    return rk_pages_alloc(out->n_bytes, &out->data);
}

/* What oneDNN does before it multiplies takes as long as some ten thousand products, which our own kernels do
 * not (docs/speed_history.md). */
static bool is_small_matrix(int64_t in, int64_t out, rk_dtype dtype) {
    enum { FEW_WEIGHTS = 1 << 14 };
    return dtype == RK_F32 && (out == 1 || in * out <= FEW_WEIGHTS);
}

static rk_status init_packed_matrix(rk_packed_matrix *matrix) {
    RK_TRY(rk_batch_invariant_matrix_init(&matrix->batch_invariant, matrix->in, matrix->out));
    if (matrix->is_small) return rk_batch_invariant_matrix_init(&matrix->transposed, matrix->out, matrix->in);
    pthread_once(&engine_once, create_dnnl_engine);
    RK_FAIL_IF(!engine, RK_INTERNAL, "oneDNN has no engine for this processor");
    RK_TRY(rk_alloc((size_t)(N_PRODUCTS * 4 * (matrix->max_rows + 1)), sizeof *matrix->products,
                    &matrix->products));
    if (matrix->dtype == RK_BF16)
        RK_TRY(rk_alloc((size_t)(matrix->in * matrix->out), sizeof(float), &matrix->rounded));
    RK_TRY(choose_weight_layout(matrix, FORWARD, &matrix->w));
    RK_TRY(choose_weight_layout(matrix, INPUT_GRADIENT, &matrix->w_transposed));
    for (int kind = 0; kind < N_PRODUCTS; kind++) {
        product *made;
        RK_TRY(find_or_create_product_primitive(matrix, kind, matrix->max_rows, false, false, &made));
        if (made->scratch_bytes > matrix->scratch_bytes) matrix->scratch_bytes = made->scratch_bytes;
    }
    return RK_OK;
}

rk_status rk_packed_matrix_create(int64_t in, int64_t out, rk_dtype dtype, int64_t max_rows,
                                  rk_packed_matrix **result) {
    rk_packed_matrix *matrix;
    RK_TRY(rk_alloc(1, sizeof *matrix, &matrix));
    *matrix = (rk_packed_matrix){.in = in,
                                 .out = out,
                                 .max_rows = max_rows,
                                 .dtype = dtype,
                                 .is_small = is_small_matrix(in, out, dtype),
                                 .units = dtype == RK_BF16 && has_bf16_product_units()};
    int before = set_one_openmp_thread();
    rk_status status = init_packed_matrix(matrix);
    restore_openmp_threads(before);
    if (status == RK_OK)
        *result = matrix;
    else
        rk_packed_matrix_free(matrix);
    return status;
}

void rk_packed_matrix_free(rk_packed_matrix *matrix) {
    if (!matrix) return;
    int64_t n = matrix->products ? N_PRODUCTS * 4 * (matrix->max_rows + 1) : 0;
    for (int64_t i = 0; i < n; i++) free_product_primitive(atomic_load(&matrix->products[i]));
    RK_FREE_ALL(matrix->products, matrix->rounded);
    rk_batch_invariant_matrix_release(&matrix->batch_invariant);
    rk_batch_invariant_matrix_release(&matrix->transposed);
    packed *both[] = {&matrix->w, &matrix->w_transposed};
    for (int i = 0; i < 2; i++) {
        if (both[i]->reorder) dnnl_primitive_destroy(both[i]->reorder);
        free_primitive_call(both[i]->reorder_call);
        rk_pages_free(both[i]->data, both[i]->n_bytes);
    }
    rk_free(matrix);
}

/* The values that products read: rounded into scratch, or as they are. */
static const void *round_operand_to_bf16(const rk_packed_matrix *matrix, const float *values, int64_t n,
                                         void *scratch) {
    if (matrix->dtype != RK_BF16) return values;
    rk_bf16_round(values, scratch, n, !(matrix->units && matrix->training));
    return scratch;
}

static size_t bytes_of_rounded_operands(const rk_packed_matrix *matrix) {
    size_t values = matrix->dtype == RK_BF16 ? (size_t)((matrix->in + matrix->out) * matrix->max_rows) : 0;
    return (values * sizeof(float) + 63) / 64 * 64;
}

/* First rounded operands, then oneDNN's own. */
size_t rk_packed_matrix_workspace_bytes(const rk_packed_matrix *matrix) {
    return bytes_of_rounded_operands(matrix) + matrix->scratch_bytes;
}

static rk_status make_reorder(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                              dnnl_primitive_t *out) {
    dnnl_primitive_desc_t desc;
    RK_TRY(check_memory_for_jit_code());
    pthread_mutex_lock(&making);
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(&desc, from, engine, to, engine, NULL);
    if (status == dnnl_success) {
        status = dnnl_primitive_create(out, desc);
        dnnl_primitive_desc_destroy(desc);
    }
    pthread_mutex_unlock(&making);
    return status_from_dnnl(status, "making a reorder");
}

static rk_status reorder_weights(const dnnl_memory_desc_t *from, const void *data, packed *to) {
    const argument arguments[] = {{DNNL_ARG_FROM, from, data}, {DNNL_ARG_TO, &to->desc, to->data}};
    if (!to->reorder) RK_TRY(make_reorder(from, &to->desc, &to->reorder));
    if (!to->reorder_call) RK_TRY(create_primitive_call(arguments, 2, &to->reorder_call));
    return run_primitive_call(to->reorder, to->reorder_call, arguments, 2);
}

static rk_status pack_weights(rk_packed_matrix *matrix, const float *w) {
    dnnl_memory_desc_t plain, transposed;
    RK_TRY(init_matrix_descriptor(&plain, matrix->in, matrix->out, operand_type(matrix), dnnl_ab));
    RK_TRY(reorder_weights(&plain, w, &matrix->w));
    RK_TRY(init_matrix_descriptor(&transposed, matrix->out, matrix->in, operand_type(matrix), dnnl_ba));
    return reorder_weights(&transposed, w, &matrix->w_transposed);
}

rk_status rk_packed_matrix_set_weights(rk_packed_matrix *matrix, const rk_real *w, bool training) {
    matrix->training = training;
    const void *values = round_operand_to_bf16(matrix, w, matrix->in * matrix->out, matrix->rounded);
    if (!training || matrix->is_small) {
        rk_batch_invariant_matrix_set_weights(&matrix->batch_invariant, values);
        if (training) rk_batch_invariant_matrix_set_transposed_weights(&matrix->transposed, values);
        return RK_OK;
    }
    int before = set_one_openmp_thread();
    rk_status status = pack_weights(matrix, values);
    restore_openmp_threads(before);
    return status;
}

static rk_status create_product_call(const rk_packed_matrix *matrix, int kind, int64_t m, argument *arguments,
                                     int n, call **out) {
    dnnl_memory_desc_t a, b, c, bias;
    RK_TRY(init_product_descriptors(matrix, kind, m, &a, &b, &c));
    RK_TRY(init_matrix_descriptor(&bias, 1, matrix->out, dnnl_f32, dnnl_ab));
    arguments[0].desc = &a;
    arguments[1].desc = &b;
    arguments[2].desc = &c;
    arguments[4].desc = &bias;
    return create_primitive_call(arguments, n, out);
}

/* a, b and c are the product's operands. */
static rk_status run_product(const rk_packed_matrix *matrix, int kind, int64_t m, const void *a,
                             const void *b, const float *bias, bool relu, float *c, void *scratch) {
    product *p;
    RK_TRY(find_or_create_product_primitive(matrix, kind, m, relu, bias != NULL, &p));
    RK_AUTOFREE void *larger = NULL; /* fewer rows might want more memory, though none has been seen to */
    if (p->scratch_bytes > matrix->scratch_bytes) RK_TRY(rk_alloc(p->scratch_bytes, 1, &larger));
    argument arguments[] = {{DNNL_ARG_SRC, NULL, a},
                            {DNNL_ARG_WEIGHTS, NULL, b},
                            {DNNL_ARG_DST, NULL, c},
                            {DNNL_ARG_SCRATCHPAD, &p->scratch, larger ? larger : scratch},
                            {DNNL_ARG_BIAS, NULL, bias}};
    int n = bias ? 5 : 4;
    call *made = take_idle_primitive_call(p);
    if (!made) RK_TRY(create_product_call(matrix, kind, m, arguments, n, &made));
    rk_status status = run_primitive_call(p->primitive, made, arguments, n);
    return_idle_primitive_call(p, made);
    return status;
}

/* What products have of a workspace, after the rounded operands. */
static void *find_product_workspace(const rk_packed_matrix *matrix, void *workspace) {
    return (char *)workspace + bytes_of_rounded_operands(matrix);
}

rk_status rk_packed_matrix_forward_input_lines(const rk_packed_matrix *matrix, rk_lines lines, int64_t m,
                                               const rk_real *x, const rk_real *b, bool relu, rk_real *y,
                                               void *workspace) {
    rk_batch_invariant_matrix_multiply(&matrix->batch_invariant, lines, m,
                                       round_operand_to_bf16(matrix, x, m * matrix->in, workspace), b, relu,
                                       y);
    return RK_OK;
}

rk_status rk_packed_matrix_forward(const rk_packed_matrix *matrix, int64_t m, const rk_real *x,
                                   const rk_real *b, bool relu, rk_real *y, void *workspace) {
    if (!matrix->training || matrix->is_small)
        return rk_packed_matrix_forward_input_lines(matrix, (rk_lines){0, matrix->in}, m, x, b, relu, y,
                                                    workspace);
    const void *rows = round_operand_to_bf16(matrix, x, m * matrix->in, workspace);
    int before = set_one_openmp_thread();
    rk_status status = run_product(matrix, FORWARD, m, rows, matrix->w.data, b, relu, y,
                                   find_product_workspace(matrix, workspace));
    restore_openmp_threads(before);
    return status;
}

rk_status rk_packed_matrix_backward(const rk_packed_matrix *matrix, int64_t m, const rk_real *x,
                                    const rk_real *dy, bool add_dw, rk_real *dw, bool add_dx, rk_real *dx,
                                    void *workspace) {
    if (matrix->is_small) {
        rk_batch_invariant_matrix_gradients(&matrix->transposed, m, x, dy, add_dw, dw, add_dx, dx);
        return RK_OK;
    }
    const void *left = round_operand_to_bf16(matrix, x, m * matrix->in, workspace),
               *right =
                   round_operand_to_bf16(matrix, dy, m * matrix->out, (float *)workspace + m * matrix->in);
    int before = set_one_openmp_thread();
    rk_status status = run_product(matrix, add_dw ? WEIGHT_GRADIENT_ADD : WEIGHT_GRADIENT, m, left, right,
                                   NULL, false, dw, find_product_workspace(matrix, workspace));
    if (status == RK_OK)
        status = run_product(matrix, add_dx ? INPUT_GRADIENT_ADD : INPUT_GRADIENT, m, right,
                             matrix->w_transposed.data, NULL, false, dx,
                             find_product_workspace(matrix, workspace));
    restore_openmp_threads(before);
    return status;
}
