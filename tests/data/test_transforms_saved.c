/* transforms.json and vocabularies as a checkpoint holds them: what cannot be is refused by its name. */
#include "testing.h"

#include <jansson.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "data/section.h"

static char directory[] = "/tmp/reckon-saved-XXXXXX";

static void write_text(const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    OK(rk_file_write(path, text, strlen(text)));
}

static const char *const section_text =
    "train: a.csv\nlabels: [{name: y}]\n"
    "features: [{name: x, dense: true, normalize: true}, {name: q, column: x, quantiles: 4}, {name: v, "
    "vocabulary: {}}]";

static const struct {
    const char *x, *q, *words, *message; /* NULL: loads */
} cases[] = {
    {"{\"mean\": 1, \"deviation\": 0.5}", "{\"boundaries\": [1, 2.5, 3]}", "a\nb\n", NULL},
    {"{\"mean\": 1, \"deviation\": 0.5}", "{\"boundaries\": []}", "", NULL},
    {"{\"deviation\": 0.5}", "{\"boundaries\": [1]}", "a\n", "transforms.json: the feature 'x' has no mean"},
    {"{\"mean\": null, \"deviation\": 0.5}", "{\"boundaries\": [1]}", "a\n",
     "transforms.json: the feature 'x' has no mean"},
    {"{\"mean\": \"1\", \"deviation\": 0.5}", "{\"boundaries\": [1]}", "a\n",
     "transforms.json: the feature 'x' has no mean"},
    {"{\"mean\": 1}", "{\"boundaries\": [1]}", "a\n", "transforms.json: the feature 'x' has no deviation"},
    {"{\"mean\": 1, \"deviation\": 0}", "{\"boundaries\": [1]}", "a\n",
     "transforms.json: the feature 'x' has no deviation"},
    {"{\"mean\": 1, \"deviation\": -1}", "{\"boundaries\": [1]}", "a\n",
     "transforms.json: the feature 'x' has no deviation"},
    {"[]", "{\"boundaries\": [1]}", "a\n", "transforms.json: the feature 'x' has no mean"},
    {"{\"mean\": 1, \"deviation\": 1}", "{}", "a\n", "transforms.json: the feature 'q' has no boundaries"},
    {"{\"mean\": 1, \"deviation\": 1}", "{\"boundaries\": {}}", "a\n",
     "transforms.json: the feature 'q' has no boundaries"},
    {"{\"mean\": 1, \"deviation\": 1}", "{\"boundaries\": [1, 2, 3, 4]}", "a\n",
     "transforms.json: the feature 'q' has more boundaries than its quantiles have"},
    {"{\"mean\": 1, \"deviation\": 1}", "{\"boundaries\": [2, 1]}", "a\n",
     "transforms.json: the feature 'q' has boundaries that are no ascending numbers"},
    {"{\"mean\": 1, \"deviation\": 1}", "{\"boundaries\": [1, 1]}", "a\n",
     "transforms.json: the feature 'q' has boundaries that are no ascending numbers"},
    {"{\"mean\": 1, \"deviation\": 1}", "{\"boundaries\": [\"a\"]}", "a\n",
     "transforms.json: the feature 'q' has boundaries that are no ascending numbers"},
    {"{\"mean\": 1, \"deviation\": 1}", NULL, "a\n", "transforms.json has no entry for the feature 'q'"},
};

static void test_damaged(void **state) {
    (void)state;
    opened o;
    write_text("a.csv", "x,v,y\n1,a,1\n2,b,0\n");
    OK(open_section(&o, directory, section_text));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char json[400];
        rk_transforms *loaded;
        snprintf(json, sizeof json, "{\"version\": 1, \"features\": {\"v\": {}, \"x\": %s, \"%s\": %s}}",
                 cases[i].x, cases[i].q ? "q" : "none", cases[i].q ? cases[i].q : "{}");
        write_text("transforms.json", json);
        write_text("vocabulary/v.txt", cases[i].words);
        rk_status status = rk_transforms_load_files(&o.section, directory, &loaded);
        if (cases[i].message)
            FAILS(status, RK_BAD_DATA, cases[i].message);
        else
            OK(status);
        if (status == RK_OK) rk_transforms_free(loaded);
    }
    rk_transforms *loaded;
    write_text("transforms.json", "[1]");
    FAILS(rk_transforms_load_files(&o.section, directory, &loaded), RK_BAD_DATA,
          "transforms.json: its version is not 1");
    close_section(&o);
}

/* For programs that apply them elsewhere. */
static void test_json(void **state) {
    (void)state;
    opened o;
    rk_transforms *loaded;
    char *text;
    write_text("a.csv", "x,v,y\n1,a,1\n2,b,0\n");
    write_text("transforms.json",
               "{\"version\": 1, \"features\": {\"v\": {}, \"x\": {\"mean\": 0.1, "
               "\"deviation\": 0.5}, \"q\": {\"boundaries\": [1, 2.5]}}}");
    write_text("vocabulary/v.txt", "a\nb\n");
    OK(open_section(&o, directory, section_text));
    OK(rk_transforms_load_files(&o.section, directory, &loaded));
    OK(rk_transforms_to_json(loaded, &text));
    json_t *json = json_loads(text, 0, NULL), *features = json_object_get(json, "features");
    json_t *x = json_array_get(features, 0), *q = json_array_get(features, 1),
           *v = json_array_get(features, 2);
    const char *file, *column;
    double mean, deviation, bound;
    int quantiles, oov, dense, version;
    assert_int_equal(json_array_size(features), 3);
    assert_int_equal(json_unpack(json, "{s:i, s:[!]}", "version", &version, "missing"), 0);
    assert_int_equal(version, 1);
    assert_int_equal(
        json_unpack(x, "{s:f, s:f, s:b}", "mean", &mean, "deviation", &deviation, "dense", &dense), 0);
    assert_true(mean == 0.1 && deviation == 0.5 && dense);
    assert_int_equal(json_unpack(q, "{s:s, s:i, s:[F, f!]}", "column", &column, "quantiles", &quantiles,
                                 "boundaries", &mean, &bound),
                     0);
    assert_string_equal(column, "x");
    assert_true(quantiles == 4 && bound == 2.5);
    assert_int_equal(json_unpack(v, "{s:{s:s, s:i}}", "vocabulary", "file", &file, "oov", &oov), 0);
    assert_string_equal(file, "vocabulary/v.txt");
    assert_int_equal(oov, 1);
    assert_null(json_object_get(x, "vocabulary"));
    json_decref(json);
    rk_free(text);
    rk_transforms_free(loaded);
    close_section(&o);
}

static int set_up(void **state) {
    (void)state;
    char folder[300];
    if (!mkdtemp(directory)) return -1;
    snprintf(folder, sizeof folder, "%s/vocabulary", directory);
    OK(rk_make_directories(folder));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    assert_int_equal(rk_alloc_live(), 0);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_damaged), cmocka_unit_test(test_json)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
