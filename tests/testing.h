/* What every test program includes: cmocka, and short names for what tests ask most. */
#ifndef RK_TESTING_H
#define RK_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <reckon/status.h>

/* A call that must succeed; prints the reason if it does not. */
#define OK(expr)                                                       \
    do {                                                               \
        rk_status ok_status_ = (expr);                                 \
        if (ok_status_ != RK_OK) print_error("%s\n", rk_last_error()); \
        assert_int_equal(ok_status_, RK_OK);                           \
    } while (0)

/* A call that must fail with a status and exactly this message. */
#define FAILS(expr, status, message)                     \
    do {                                                 \
        assert_int_equal((expr), (status));              \
        assert_string_equal(rk_last_error(), (message)); \
    } while (0)

#endif
