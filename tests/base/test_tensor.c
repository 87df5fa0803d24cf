/* Tensors: what is one, copies between strides, and the exchange by DLPack with bad input of every kind. */
#include "testing.h"

#include <reckon/dlpack.h>
#include <reckon/tensor.h>

#include "base/memory.h"

static float values[24];

static void set_values(void) {
    for (int i = 0; i < 24; i++) values[i] = (float)i;
}

static rk_tensor tensor_of(int32_t n_dims, const int64_t *shape) {
    rk_tensor t;
    OK(rk_tensor_init(&t, values, RK_F32, n_dims, shape));
    return t;
}

static void test_dtypes(void **state) {
    (void)state;
    assert_string_equal(rk_dtype_name(RK_F32), "f32");
    assert_string_equal(rk_dtype_name(RK_BOOL), "bool");
    assert_string_equal(rk_dtype_name(RK_DTYPE_COUNT), "unknown");
    assert_int_equal(rk_dtype_bytes(RK_BF16), 2);
    assert_int_equal(rk_dtype_bytes(RK_I64), 8);
    assert_int_equal(rk_dtype_bytes((rk_dtype)-1), 0);
    for (int dtype = 0; dtype < RK_DTYPE_COUNT; dtype++) assert_true(rk_dtype_bytes((rk_dtype)dtype) > 0);
}

static void test_init(void **state) {
    (void)state;
    rk_tensor t = tensor_of(3, (int64_t[]){2, 3, 4});
    assert_true(t.strides[0] == 12 && t.strides[1] == 4 && t.strides[2] == 1);
    assert_int_equal(rk_tensor_n_values(&t), 24);
    assert_true(rk_tensor_is_contiguous(&t) && !t.read_only && t.device == RK_DEVICE_CPU);
    t = tensor_of(0, NULL);
    assert_true(rk_tensor_n_values(&t) == 1 && rk_tensor_is_contiguous(&t));
    OK(rk_tensor_init(&t, NULL, RK_I64, 2, (int64_t[]){3, 0}));
    assert_true(rk_tensor_n_values(&t) == 0 && rk_tensor_is_contiguous(&t));
    OK(rk_tensor_init(&t, NULL, RK_I64, 3, (int64_t[]){INT64_MAX, 0, 1}));
    assert_int_equal(rk_tensor_n_values(&t), 0);
}

static void test_init_refuses(void **state) {
    (void)state;
    const rk_tensor before = tensor_of(1, (int64_t[]){5});
    rk_tensor t = before;
    const int64_t one[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
#define REFUSED(message, ...) FAILS(rk_tensor_init(&t, __VA_ARGS__), RK_INVALID_ARGUMENT, message)
    REFUSED("tensor: invalid dtype 13", values, RK_DTYPE_COUNT, 1, one);
    REFUSED("tensor: -1 dimensions; must be 0 to 8", values, RK_F32, -1, one);
    REFUSED("tensor: 9 dimensions; must be 0 to 8", values, RK_F32, 9, one);
    REFUSED("tensor: shape[1] is -2, and must be 0 or more", values, RK_F32, 2, ((int64_t[]){1, -2}));
    REFUSED("tensor: it has values, and 'data' is NULL", NULL, RK_F32, 1, one);
    REFUSED("tensor: 'data' is not aligned to the 4 bytes of f32", (char *)values + 2, RK_F32, 1, one);
    const int64_t large[][3] = {{INT64_MAX, 1, 1},
                                {INT64_MAX / 4 + 1, 1, 1},
                                {(int64_t)1 << 32, (int64_t)1 << 32, 1},
                                {(int64_t)1 << 62, 4, 4},
                                {0, INT64_MAX, INT64_MAX}};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        REFUSED("tensor: more values than memory has addresses", values, RK_F32, 3, large[i]);
    assert_memory_equal(&t, &before, sizeof t);
}

static void test_check_refuses(void **state) {
    (void)state;
    const rk_tensor good = tensor_of(2, (int64_t[]){4, 6});
    OK(rk_tensor_check(&good));
    const struct {
        int64_t stride;
        bool good;
    } strides[] = {{-6, true},
                   {0, true},
                   {INT64_MAX, false},
                   {INT64_MIN, false},
                   {-1 - INT64_MAX / 3, false},
                   {INT64_MAX / 12, false},
                   {-INT64_MAX / 12, false}};
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        rk_tensor t = good;
        t.strides[0] = strides[i].stride;
        if (strides[i].good)
            OK(rk_tensor_check(&t));
        else
            FAILS(rk_tensor_check(&t), RK_INVALID_ARGUMENT, "tensor: more values than memory has addresses");
        t.shape[1] = 0;
        OK(rk_tensor_check(&t));
    }
    rk_tensor t = good;
    t.device = (rk_device_kind)7;
    FAILS(rk_tensor_check(&t), RK_INVALID_ARGUMENT, "tensor: invalid device 7");
    t = good;
    t.device_number = -1;
    FAILS(rk_tensor_check(&t), RK_INVALID_ARGUMENT, "tensor: GPU number -1 is negative");
}

static void test_copy(void **state) {
    (void)state;
    set_values();
    rk_tensor from = tensor_of(2, (int64_t[]){4, 6}), to;
    float out[24];
    /* Rows from the last to the first, and every other column. */
    from.data = values + 18;
    from.strides[0] = -6;
    from.strides[1] = 2;
    from.shape[1] = 3;
    OK(rk_tensor_init(&to, out, RK_F32, 2, from.shape));
    assert_false(rk_tensor_is_contiguous(&from));
    OK(rk_tensor_copy(&from, &to));
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 3; c++) assert_true(out[r * 3 + c] == values[(3 - r) * 6 + 2 * c]);
    from = tensor_of(2, (int64_t[]){4, 6});
    OK(rk_tensor_init(&to, out, RK_F32, 2, from.shape));
    to.strides[0] = 1; /* by columns */
    to.strides[1] = 4;
    OK(rk_tensor_copy(&from, &to));
    assert_true(out[1] == 6 && out[4] == 1 && out[23] == 23);
    to.read_only = true;
    FAILS(rk_tensor_copy(&from, &to), RK_INVALID_ARGUMENT, "tensor: a read-only tensor cannot be written to");
    to = from;
    to.shape[0] = 3;
    FAILS(rk_tensor_copy(&from, &to), RK_INVALID_ARGUMENT,
          "tensor: a tensor can only be copied into one of the same shape");
    to = from;
    to.dtype = RK_I32;
    FAILS(rk_tensor_copy(&from, &to), RK_INVALID_ARGUMENT, "tensor: f32 cannot be copied into i32");
    to = from;
    to.device = RK_DEVICE_CUDA;
    FAILS(rk_tensor_copy(&from, &to), RK_INVALID_ARGUMENT, "tensor: only tensors on the CPU can be copied");
    OK(rk_tensor_init(&from, NULL, RK_F32, 1, (int64_t[]){0}));
    OK(rk_tensor_copy(&from, &from));
}

static int n_released;

static void release(void *owner) {
    assert_ptr_equal(owner, values);
    n_released++;
}

static void test_to_dlpack_and_back(void **state) {
    (void)state;
    long live = rk_alloc_live();
    for (int dtype = 0; dtype < RK_DTYPE_COUNT; dtype++) {
        n_released = 0;
        rk_tensor t, back;
        OK(rk_tensor_init(&t, values, (rk_dtype)dtype, 2, (int64_t[]){2, 3}));
        t.strides[0] = 4;
        t.read_only = dtype % 2;
        DLManagedTensorVersioned *managed;
        OK(rk_tensor_to_dlpack(&t, release, values, &managed));
        const DLTensor *d = &managed->dl_tensor;
        assert_true(managed->version.major == 1 && managed->version.minor == 0);
        assert_true(managed->flags == (t.read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0));
        assert_true(d->data == values && d->byte_offset == 0 && d->ndim == 2);
        assert_true(d->device.device_type == kDLCPU && d->device.device_id == 0);
        assert_true(d->dtype.bits == 8 * rk_dtype_bytes(t.dtype) && d->dtype.lanes == 1);
        assert_true(d->shape[0] == 2 && d->shape[1] == 3 && d->strides[0] == 4 && d->strides[1] == 1);
        OK(rk_tensor_from_dlpack(managed, &back));
        assert_memory_equal(&back, &t, sizeof t);
        assert_int_equal(n_released, 0);
        managed->deleter(managed);
        assert_int_equal(n_released, 1);
        DLManagedTensor *legacy;
        t.read_only = false;
        OK(rk_tensor_to_dlpack_legacy(&t, release, values, &legacy));
        OK(rk_tensor_from_dlpack_legacy(legacy, &back));
        assert_memory_equal(&back, &t, sizeof t);
        legacy->deleter(legacy);
        assert_int_equal(n_released, 2);
    }
    assert_int_equal(rk_alloc_live(), live);
}

static void test_to_dlpack_of_few_values(void **state) {
    (void)state;
    rk_tensor t = tensor_of(0, NULL), back;
    DLManagedTensorVersioned *managed;
    OK(rk_tensor_to_dlpack(&t, NULL, NULL, &managed));
    assert_true(managed->dl_tensor.ndim == 0 && managed->dl_tensor.data == values);
    OK(rk_tensor_from_dlpack(managed, &back));
    assert_int_equal(rk_tensor_n_values(&back), 1);
    managed->deleter(managed);
    t = tensor_of(2, (int64_t[]){0, 3});
    OK(rk_tensor_to_dlpack(&t, NULL, NULL, &managed));
    assert_true(managed->dl_tensor.data == NULL && managed->dl_tensor.shape[1] == 3);
    OK(rk_tensor_from_dlpack(managed, &back));
    assert_int_equal(rk_tensor_n_values(&back), 0);
    managed->deleter(managed);
    t = tensor_of(1, (int64_t[]){4});
    t.device = RK_DEVICE_CUDA;
    t.device_number = 3;
    OK(rk_tensor_to_dlpack(&t, NULL, NULL, &managed));
    assert_true(managed->dl_tensor.device.device_type == kDLCUDA && managed->dl_tensor.device.device_id == 3);
    OK(rk_tensor_from_dlpack(managed, &back));
    assert_true(back.device == RK_DEVICE_CUDA && back.device_number == 3);
    managed->deleter(managed);
}

static void test_to_dlpack_fails(void **state) {
    (void)state;
    long live = rk_alloc_live();
    n_released = 0;
    rk_tensor t = tensor_of(1, (int64_t[]){4});
    DLManagedTensorVersioned *managed = NULL;
    DLManagedTensor *legacy = NULL;
    rk_alloc_fail_after(1, true);
    assert_int_equal(rk_tensor_to_dlpack(&t, release, values, &managed), RK_NO_MEMORY);
    assert_int_equal(rk_tensor_to_dlpack_legacy(&t, release, values, &legacy), RK_NO_MEMORY);
    rk_alloc_fail_after(0, false);
    t.read_only = true;
    FAILS(rk_tensor_to_dlpack_legacy(&t, release, values, &legacy), RK_UNSUPPORTED,
          "tensor: it is read-only, which DLPack before 1.0 cannot say\n"
          "hint: use rk_tensor_to_dlpack, or copy it");
    t.shape[0] = -1;
    assert_int_equal(rk_tensor_to_dlpack(&t, release, values, &managed), RK_INVALID_ARGUMENT);
    assert_true(!managed && !legacy && n_released == 0 && rk_alloc_live() == live);
}

/* A tensor of 2 rows of 3 values, 4 apart, behind 8 bytes. */
static int64_t shape[9], strides[9];
static DLManagedTensorVersioned usual(void) {
    memcpy(shape, (int64_t[9]){2, 3, 1, 1, 1, 1, 1, 1, 1}, sizeof shape);
    memcpy(strides, (int64_t[9]){4, 1, 1, 1, 1, 1, 1, 1, 1}, sizeof strides);
    return (DLManagedTensorVersioned){
        .version = {1, 3},
        .dl_tensor = {.data = values,
                      .device = {kDLCPU, 0},
                      .ndim = 2,
                      .dtype = {kDLFloat, 32, 1},
                      .shape = shape,
                      .strides = strides,
                      .byte_offset = 8},
    };
}

static void test_from_dlpack(void **state) {
    (void)state;
    DLManagedTensorVersioned m = usual();
    m.flags = DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED | 64;
    rk_tensor t;
    OK(rk_tensor_from_dlpack(&m, &t));
    assert_true(t.data == values + 2 && t.dtype == RK_F32 && t.device == RK_DEVICE_CPU && t.n_dims == 2);
    assert_true(t.shape[0] == 2 && t.shape[1] == 3 && t.strides[0] == 4 && t.strides[1] == 1 && t.read_only);
    m.flags = 0;
    m.dl_tensor.strides = NULL;
    OK(rk_tensor_from_dlpack(&m, &t));
    assert_true(t.strides[0] == 3 && t.strides[1] == 1 && !t.read_only);
    m = usual();
    strides[0] = -4;
    m.dl_tensor.byte_offset = 32;
    OK(rk_tensor_from_dlpack(&m, &t));
    assert_true(t.data == values + 8 && t.strides[0] == -4);
    m.dl_tensor.ndim = 0;
    m.dl_tensor.shape = m.dl_tensor.strides = NULL;
    OK(rk_tensor_from_dlpack(&m, &t));
    assert_true(t.n_dims == 0 && rk_tensor_n_values(&t) == 1);
    m = usual();
    shape[0] = 0;
    m.dl_tensor.data = NULL;
    OK(rk_tensor_from_dlpack(&m, &t));
    assert_true(t.data == NULL && rk_tensor_n_values(&t) == 0);
    m = usual();
    m.dl_tensor.device.device_type = kDLCUDAHost;
    OK(rk_tensor_from_dlpack(&m, &t));
    assert_int_equal(t.device, RK_DEVICE_CPU);
    m.dl_tensor.device = (DLDevice){kDLCUDAManaged, 2};
    OK(rk_tensor_from_dlpack(&m, &t));
    assert_true(t.device == RK_DEVICE_CUDA && t.device_number == 2);
}

static void test_from_dlpack_refuses(void **state) {
    (void)state;
    const rk_tensor before = tensor_of(1, (int64_t[]){5});
    rk_tensor t = before;
    DLManagedTensorVersioned m;
#define BAD(change, code, message)                           \
    do {                                                     \
        m = usual();                                         \
        change;                                              \
        FAILS(rk_tensor_from_dlpack(&m, &t), code, message); \
    } while (0)
    BAD(m.version.major = 2, RK_UNSUPPORTED,
        "DLPack tensor: it is of version 2.3, and only versions 1.x are supported");
    BAD(m.version.major = 0, RK_UNSUPPORTED,
        "DLPack tensor: it is of version 0.3, and only versions 1.x are supported");
    BAD(m.dl_tensor.dtype.lanes = 4, RK_UNSUPPORTED, "DLPack tensor: values of 4 lanes are not supported");
    BAD(m.dl_tensor.dtype.lanes = 0, RK_UNSUPPORTED, "DLPack tensor: values of 0 lanes are not supported");
    BAD(m.dl_tensor.dtype.bits = 8, RK_UNSUPPORTED,
        "DLPack tensor: values of type code 2 with 8 bits are not supported");
    BAD(m.dl_tensor.dtype.code = kDLComplex, RK_UNSUPPORTED,
        "DLPack tensor: values of type code 5 with 32 bits are not supported");
    BAD(m.dl_tensor.device.device_type = kDLROCM, RK_UNSUPPORTED,
        "DLPack tensor: device type 10 is not supported\nhint: copy it to the CPU or to a CUDA GPU");
    BAD(m.dl_tensor.device = ((DLDevice){kDLCUDA, -1}), RK_INVALID_ARGUMENT,
        "tensor: GPU number -1 is negative");
    BAD(m.dl_tensor.ndim = -1, RK_INVALID_ARGUMENT, "DLPack tensor: -1 dimensions");
    BAD(m.dl_tensor.ndim = 9, RK_UNSUPPORTED, "DLPack tensor: 9 dimensions are not supported; at most 8 are");
    BAD(m.dl_tensor.shape = NULL, RK_INVALID_ARGUMENT, "DLPack tensor: 'shape' is NULL");
    BAD(shape[1] = -3, RK_INVALID_ARGUMENT, "DLPack tensor: shape[1] is -3, and must be 0 or more");
    BAD(m.dl_tensor.data = NULL, RK_INVALID_ARGUMENT, "tensor: it has values, and 'data' is NULL");
    BAD(m.dl_tensor.byte_offset = 6, RK_INVALID_ARGUMENT,
        "tensor: 'data' is not aligned to the 4 bytes of f32");
    BAD(m.dl_tensor.byte_offset = UINT64_MAX - 3, RK_INVALID_ARGUMENT,
        "DLPack tensor: byte_offset 18446744073709551612 leads out of memory");
    const char *large = "tensor: more values than memory has addresses";
    BAD(shape[0] = INT64_MAX, RK_INVALID_ARGUMENT, large);
    BAD((shape[0] = shape[1] = (int64_t)1 << 32), RK_INVALID_ARGUMENT, large);
    BAD((shape[0] = shape[1] = (int64_t)1 << 32, strides[0] = strides[1] = 0), RK_INVALID_ARGUMENT, large);
    BAD((shape[0] = shape[1] = (int64_t)1 << 32, m.dl_tensor.strides = NULL), RK_INVALID_ARGUMENT, large);
    BAD(strides[0] = INT64_MIN, RK_INVALID_ARGUMENT, large);
    BAD(strides[0] = INT64_MAX, RK_INVALID_ARGUMENT, large);
    BAD(strides[0] = -((int64_t)1 << 60), RK_INVALID_ARGUMENT, large);
    FAILS(rk_tensor_from_dlpack(NULL, &t), RK_INVALID_ARGUMENT, "DLPack tensor: it is NULL");
    FAILS(rk_tensor_from_dlpack_legacy(NULL, &t), RK_INVALID_ARGUMENT, "DLPack tensor: it is NULL");
    assert_memory_equal(&t, &before, sizeof t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_init_refuses),
        cmocka_unit_test(test_check_refuses),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_to_dlpack_and_back),
        cmocka_unit_test(test_to_dlpack_of_few_values),
        cmocka_unit_test(test_to_dlpack_fails),
        cmocka_unit_test(test_from_dlpack),
        cmocka_unit_test(test_from_dlpack_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
