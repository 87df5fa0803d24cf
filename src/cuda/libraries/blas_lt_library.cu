#include "cuda/libraries/blas_lt_library.h"

#include <dlfcn.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define LIBRARY    "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

rk_status rk_blas_lt_load(rk_blas_lt *lt) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen(RK_CUDA_LIBRARY_DIR "/" LIBRARY,
                         RTLD_NOW | RTLD_LOCAL); /* where it was when this was built */
    RK_FAIL_IF(!library, RK_UNSUPPORTED, "%s\nhint: it is part of CUDA; add its directory to LD_LIBRARY_PATH",
               dlerror());
#define FIND(name)                                       \
    lt->name = (decltype(&::name))dlsym(library, #name); \
    RK_FAIL_IF(!lt->name, RK_UNSUPPORTED, LIBRARY " has no %s", #name);
    RK_BLAS_LT_LIST(FIND)
#undef FIND
    return RK_OK;
}
