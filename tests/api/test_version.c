/* The version and the status codes that programs are compiled with are those of the library. */
#include "testing.h"

#include <reckon/reckon.h>

static void test_version_is_the_project_s(void **state) {
    (void)state;
    char macros[64];
    snprintf(macros, sizeof macros, "%d.%d.%d", RK_VERSION_MAJOR, RK_VERSION_MINOR, RK_VERSION_PATCH);
    assert_string_equal(macros, RK_PROJECT_VERSION);
    assert_string_equal(rk_version(), RK_PROJECT_VERSION);
    assert_true(RK_VERSION_NUMBER >= RK_VERSION_MAKE(0, 1, 0));
    assert_true(RK_VERSION_NUMBER < RK_VERSION_MAKE(RK_VERSION_MAJOR, RK_VERSION_MINOR + 1, 0));
}

static void test_statuses(void **state) {
    (void)state;
    static const struct {
        rk_status status;
        int value;
        const char *name;
    } statuses[] = {
#define ENTRY(name, value, text) {RK_##name, value, "RK_" #name},
        RK_STATUS_LIST(ENTRY)
#undef ENTRY
    };
    size_t n = sizeof statuses / sizeof *statuses;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(statuses[i].status, statuses[i].value);
        assert_string_equal(rk_status_name(statuses[i].status), statuses[i].name);
        assert_string_not_equal(rk_status_text(statuses[i].status), "no such status");
    }
    assert_int_equal(RK_OK, 0);
    assert_string_equal(rk_status_text(RK_NO_MEMORY), "memory ran out");
    assert_string_equal(rk_status_name((rk_status)9999), "RK_UNKNOWN");
    assert_string_equal(rk_status_name((rk_status)-1), "RK_UNKNOWN");
    assert_string_equal(rk_status_text((rk_status)9999), "no such status");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_is_the_project_s),
        cmocka_unit_test(test_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
