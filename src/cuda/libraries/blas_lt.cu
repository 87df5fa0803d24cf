/* Matrix products by cuBLASLt. Its matrices are column-major: ours, row-major, are their transposes there, so
 * it is given c^T = op(b)^T op(a)^T.
 *
 * Which of its algorithms multiplies a shape is asked once and kept: its heuristic's first few, of which the
 * first that it does not refuse is taken from then on. Sums of split products that depend on who comes first
 * are excluded, so the same card gives the same bits. */
#include "cuda/libraries/blas_multiply.h"

#include "cuda/libraries/blas_lt_library.h"

extern "C" {
#include "base/log.h"
}

enum { MOST_ALGORITHMS = 4 };
static const size_t WORKSPACE_BYTES = 32u << 20; /* what NVIDIA advises for sm_90; one a stream */

typedef struct plan {
    rk_blas_shape key;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c;                   /* ours: b is cuBLASLt's first */
    cublasLtMatmulAlgo_t algorithms[MOST_ALGORITHMS]; /* the fastest first, as its heuristic has it */
    int n_algorithms, chosen; /* those before `chosen` were refused when they were to multiply; where all
                                 were, plain loops multiply */
    bool is_told;             /* that plain loops do */
} plan;

struct rk_blas {
    rk_blas_lt lt;
    cublasLtHandle_t handle;
    plan *plans;
    size_t n_plans, capacity;
};

static rk_status blas_error(const rk_blas *blas, cublasStatus_t status, const char *what) {
    return rk_error(RK_UNSUPPORTED, "%s: %s", what, blas->lt.cublasLtGetStatusString(status));
}
/* Calls one of cuBLASLt's functions; returns early with its failure. */
#define TRY_BLAS(blas, function, ...)                                                                \
    do {                                                                                             \
        cublasStatus_t try_status_ = (blas)->lt.function(__VA_ARGS__);                               \
        if (try_status_ != CUBLAS_STATUS_SUCCESS) return blas_error((blas), try_status_, #function); \
    } while (0)

static rk_status create_cublaslt_handle(rk_blas *blas) {
    TRY_BLAS(blas, cublasLtCreate, &blas->handle);
    return RK_OK;
}

rk_status rk_blas_create(rk_device *device, rk_blas **out) {
    rk_blas *blas;
    (void)device;
    RK_TRY(rk_alloc(1, sizeof *blas, &blas));
    rk_status status = rk_blas_lt_load(&blas->lt);
    if (status == RK_OK) status = create_cublaslt_handle(blas);
    if (status == RK_OK)
        *out = blas;
    else
        rk_free(blas);
    return status;
}

static void free_plan(const rk_blas *blas, plan *plan) {
    if (plan->operation) blas->lt.cublasLtMatmulDescDestroy(plan->operation);
    if (plan->a) blas->lt.cublasLtMatrixLayoutDestroy(plan->a);
    if (plan->b) blas->lt.cublasLtMatrixLayoutDestroy(plan->b);
    if (plan->c) blas->lt.cublasLtMatrixLayoutDestroy(plan->c);
}

void rk_blas_free(rk_blas *blas) {
    if (!blas) return;
    for (size_t i = 0; i < blas->n_plans; i++) free_plan(blas, &blas->plans[i]);
    blas->lt.cublasLtDestroy(blas->handle);
    rk_free(blas->plans);
    rk_free(blas);
}

static rk_status set_operation(const rk_blas *blas, const rk_blas_shape *key, plan *plan) {
    cublasOperation_t a = key->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                      b = key->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t after = key->bias && key->relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                               : key->bias            ? CUBLASLT_EPILOGUE_BIAS
                               : key->relu            ? CUBLASLT_EPILOGUE_RELU
                                                      : CUBLASLT_EPILOGUE_DEFAULT;
    TRY_BLAS(blas, cublasLtMatmulDescCreate, &plan->operation,
             key->math == RK_CUDA_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    TRY_BLAS(blas, cublasLtMatmulDescSetAttribute, plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &b,
             sizeof b);
    TRY_BLAS(blas, cublasLtMatmulDescSetAttribute, plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &a,
             sizeof a);
    TRY_BLAS(blas, cublasLtMatmulDescSetAttribute, plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &after,
             sizeof after);
    return RK_OK;
}

/* A row-major [rows, cols] as cuBLASLt's column-major [cols, rows]. */
static rk_status set_layout(const rk_blas *blas, cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                            int64_t rows, int64_t cols, int64_t ld, const rk_blas_shape *key,
                            int64_t stride) {
    int32_t batch = (int32_t)key->batch;
    TRY_BLAS(blas, cublasLtMatrixLayoutCreate, layout, type, (uint64_t)cols, (uint64_t)rows, ld);
    TRY_BLAS(blas, cublasLtMatrixLayoutSetAttribute, *layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
             sizeof batch);
    TRY_BLAS(blas, cublasLtMatrixLayoutSetAttribute, *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
             &stride, sizeof stride);
    return RK_OK;
}

static rk_status set_layouts(const rk_blas *blas, const rk_blas_shape *key, plan *plan) {
    cudaDataType_t type = key->math == RK_CUDA_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    RK_TRY(set_layout(blas, &plan->a, type, key->a_transposed ? key->k : key->m,
                      key->a_transposed ? key->m : key->k, key->lda, key, key->stride_a));
    RK_TRY(set_layout(blas, &plan->b, type, key->b_transposed ? key->n : key->k,
                      key->b_transposed ? key->k : key->n, key->ldb, key, key->stride_b));
    return set_layout(blas, &plan->c, CUDA_R_32F, key->m, key->n, key->ldc, key, key->stride_c);
}

static rk_status set_preference(const rk_blas *blas, cublasLtMatmulPreference_t preference,
                                const rk_blas_shape *key, uint32_t reductions) {
    uint64_t workspace = WORKSPACE_BYTES;
    TRY_BLAS(blas, cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
             &workspace, sizeof workspace);
    TRY_BLAS(blas, cublasLtMatmulPreferenceSetAttribute, preference,
             CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
    TRY_BLAS(blas, cublasLtMatmulPreferenceSetAttribute, preference,
             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &key->align_b, sizeof key->align_b);
    TRY_BLAS(blas, cublasLtMatmulPreferenceSetAttribute, preference,
             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &key->align_a, sizeof key->align_a);
    TRY_BLAS(blas, cublasLtMatmulPreferenceSetAttribute, preference,
             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &key->align_c, sizeof key->align_c);
    TRY_BLAS(blas, cublasLtMatmulPreferenceSetAttribute, preference,
             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &key->align_c, sizeof key->align_c);
    return RK_OK;
}

/* How a product that is split along k may be added up, as bits: its parts stand in the workspace and a step
 * of its own adds them. Results are f32 as sums are, so the second is no less exact; some algorithms have
 * that one alone. Not in place, where blocks add to c one after the other and nobody promises which comes
 * first. */
static const uint32_t REDUCTIONS[] = {
    CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
    CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE};

/* Of its checks of what it was given, before a stream gets anything: another algorithm, or plain loops, may
 * do it. */
static bool is_algorithm_refused(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

/* Its heuristic's first few with these reductions, if it has any. */
static rk_status ask_for_algorithms(const rk_blas *blas, const rk_blas_shape *key, uint32_t reductions,
                                    plan *plan) {
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found[MOST_ALGORITHMS];
    int n_found = 0;
    TRY_BLAS(blas, cublasLtMatmulPreferenceCreate, &preference);
    rk_status status = set_preference(blas, preference, key, reductions);
    cublasStatus_t asked = CUBLAS_STATUS_SUCCESS;
    if (status == RK_OK)
        asked =
            blas->lt.cublasLtMatmulAlgoGetHeuristic(blas->handle, plan->operation, plan->b, plan->a, plan->c,
                                                    plan->c, preference, MOST_ALGORITHMS, found, &n_found);
    blas->lt.cublasLtMatmulPreferenceDestroy(preference);
    if (status != RK_OK || is_algorithm_refused(asked)) return status;
    if (asked != CUBLAS_STATUS_SUCCESS) return blas_error(blas, asked, "cublasLtMatmulAlgoGetHeuristic");
    for (int i = 0; i < n_found; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS) plan->algorithms[plan->n_algorithms++] = found[i].algo;
    return RK_OK;
}

static rk_status choose_algorithms(const rk_blas *blas, const rk_blas_shape *key, plan *plan) {
    for (size_t i = 0; i < sizeof REDUCTIONS / sizeof *REDUCTIONS && plan->n_algorithms == 0; i++)
        RK_TRY(ask_for_algorithms(blas, key, REDUCTIONS[i], plan));
    return RK_OK;
}

static rk_status set_bias(const rk_blas *blas, const plan *plan, const float *bias) {
    if (bias)
        TRY_BLAS(blas, cublasLtMatmulDescSetAttribute, plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                 &bias, sizeof bias);
    return RK_OK;
}

static rk_status make_plan(rk_blas *blas, const rk_blas_shape *key, const float *bias, plan *made) {
    made->key = *key;
    RK_TRY(set_operation(blas, key, made));
    RK_TRY(set_bias(blas, made, bias));
    RK_TRY(set_layouts(blas, key, made));
    return choose_algorithms(blas, key, made);
}

static rk_status find_or_make_plan(rk_stream *stream, const rk_blas_shape *key, const float *bias,
                                   plan **out) {
    rk_blas *blas = stream->device->blas;
    for (size_t i = 0; i < blas->n_plans; i++)
        if (memcmp(&blas->plans[i].key, key, sizeof *key) == 0) {
            *out = &blas->plans[i];
            return RK_OK;
        }
    RK_TRY(rk_blas_check_not_captured(stream));
    plan made = {};
    rk_status status = make_plan(blas, key, bias, &made);
    if (status == RK_OK)
        status = rk_reserve_one_more(&blas->plans, blas->n_plans, &blas->capacity, sizeof *blas->plans);
    if (status != RK_OK) {
        free_plan(blas, &made);
        return status;
    }
    *out = &blas->plans[blas->n_plans++];
    **out = made;
    return RK_OK;
}

/* By the first of the plan's algorithms that is not refused; a refusal where none is left. */
static cublasStatus_t multiply_by_plan(rk_stream *stream, plan *plan, const rk_cuda_gemm_args *g,
                                       const rk_blas_operand *a, const rk_blas_operand *b, void *workspace) {
    const rk_blas *blas = stream->device->blas;
    for (; plan->chosen < plan->n_algorithms; plan->chosen++) {
        cublasStatus_t status = blas->lt.cublasLtMatmul(blas->handle, plan->operation, &g->alpha, b->values,
                                                        plan->b, a->values, plan->a, &g->beta, g->c, plan->c,
                                                        g->c, plan->c, &plan->algorithms[plan->chosen],
                                                        workspace, WORKSPACE_BYTES, rk_stream_native(stream));
        if (!is_algorithm_refused(status)) return status;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Slow, and told once a shape. */
static void multiply_plainly(rk_stream *stream, plan *plan, const rk_cuda_gemm_args *g,
                             const rk_blas_operand *a, const rk_blas_operand *b) {
    if (!plan->is_told)
        rk_log(RK_LOG_WARNING,
               "cuBLASLt has no algorithm for %lld products of [%lld, %lld] and [%lld, %lld]: a slow kernel "
               "of ours is used",
               (long long)g->batch, (long long)g->m, (long long)g->k, (long long)g->k, (long long)g->n);
    plan->is_told = true;
    rk_blas_multiply_plainly(stream, g, a, b);
}

rk_status rk_blas_multiply(rk_stream *stream, const rk_cuda_gemm_args *g, const rk_blas_operand *a,
                           const rk_blas_operand *b) {
    const rk_blas *blas = stream->device->blas;
    rk_blas_shape key = rk_blas_shape_of(g, a, b);
    plan *plan;
    RK_TRY(find_or_make_plan(stream, &key, g->bias, &plan));
    RK_TRY(set_bias(blas, plan, g->bias));
    void *workspace = rk_stream_scratch(stream, RK_SCRATCH_WORKSPACE, WORKSPACE_BYTES);
    if (!workspace) return rk_device_failure(stream->device);
    cublasStatus_t status = multiply_by_plan(stream, plan, g, a, b, workspace);
    if (is_algorithm_refused(status))
        multiply_plainly(stream, plan, g, a, b);
    else if (status != CUBLAS_STATUS_SUCCESS)
        return blas_error(blas, status, "cublasLtMatmul");
    return RK_OK;
}
