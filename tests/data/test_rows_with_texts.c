/* Rows with the texts of their columns: of splits and files, each text once, some not wanted, bad ones
 * skipped; the ids of values, and the values of ids. */
#include "testing.h"

#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "batch/ids.h"
#include "data/dataset/rows_with_texts.h"
#include "data/section.h"

static char directory[] = "/tmp/reckon-named-XXXXXX";

#include "data/written_file.h"

/* All rows as "text=number:id " or, of two columns, "text,text=number:id "; the id of the first feature. */
static rk_status read_all(const opened *o, rk_rows_with_texts_options options, char *out) {
    RK_AUTO(rk_rows_with_texts_auto_free) rk_rows_with_texts *rows = NULL;
    rk_batch_with_texts batch;
    rk_status status;
    options.directory = directory;
    if (!options.batch_size) options.batch_size = 3;
    RK_TRY(rk_rows_with_texts_open(&o->section, o->transforms, &options, &rows));
    for (*out = 0; (status = rk_rows_with_texts_next(rows, &batch)) == RK_OK;) {
        assert_true(batch.batch->n >= 1 && batch.batch->n <= options.batch_size);
        const rk_ids *ids = &batch.batch->features[0];
        for (int64_t i = 0; i < batch.batch->n; i++) {
            for (size_t c = 0; c < options.n_columns; c++) {
                rk_span text = batch.texts[(size_t)i * options.n_columns + c];
                sprintf(out + strlen(out), "%s%.*s", c ? "," : "", (int)text.n_bytes, text.data);
            }
            int64_t id = rk_ids_begin_of_sample(ids, i + 1) > rk_ids_begin_of_sample(ids, i)
                             ? ids->ids[rk_ids_begin_of_sample(ids, i)]
                             : -1;
            sprintf(out + strlen(out), "=%lld:%lld ", (long long)batch.rows[i], (long long)id);
        }
    }
    return status == RK_END ? RK_OK : status;
}

static const char *const user[] = {"user"}, *const both[] = {"user", "item"};
static char found[4000];

#define FEATURES "features: [{name: user, vocabulary: {}}, {name: item, hash: 9}]\n"

static rk_status choose(void *context, rk_span text, bool *wanted) {
    ++*(int *)context;
    *wanted = text.data[0] != 'b';
    return RK_OK;
}

static void test_rows(void **state) {
    (void)state;
    opened o;
    int n_asked = 0;
    write_file("a.csv", "item,user\nx,b\n\"y, z\",a\nx,a\nw,b\n\xff,a\n");
    OK(open_section(&o, directory, "train: a.csv\n" FEATURES));
    OK(read_all(&o, (rk_rows_with_texts_options){.split = "train", .columns = both, .n_columns = 2}, found));
    assert_string_equal(found, "b,x=0:2 a,y, z=1:1 a,x=2:1 b,w=3:2 a,\xff=4:1 ");
    rk_rows_with_texts_options once = {.split = "train", .columns = user, .n_columns = 1, .once = true};
    OK(read_all(&o, once, found));
    assert_string_equal(found, "b=0:2 a=1:1 ");
    once.choose = choose;
    once.context = &n_asked;
    OK(read_all(&o, once, found));
    assert_string_equal(found, "a=1:1 ");
    assert_int_equal(n_asked, 2);
    /* A file without the item's column, with values that nobody knows. */
    char path[256], message[600];
    snprintf(path, sizeof path, "%s/users.csv", directory);
    write_file("users.csv", "user\na\nnew\na\n");
    rk_rows_with_texts_options file = {.split = path, .columns = user, .n_columns = 1, .may_miss = "item"};
    OK(read_all(&o, file, found));
    assert_string_equal(found, "a=0:1 new=1:0 a=2:1 ");
    file.may_miss = NULL;
    snprintf(message, sizeof message, "'%s' has no column 'item'\nhint: its columns are user", path);
    FAILS(read_all(&o, file, found), RK_CONFIG, message);
    write_file("users.csv", "item,user\n");
    snprintf(message, sizeof message, "'%s' has no rows", path);
    FAILS(read_all(&o, file, found), RK_BAD_DATA, message);
    close_section(&o);
    assert_int_equal(rk_alloc_live(), 0);
}

/* The rows of a split by fractions are those that a dataset has, and each is in one split. */
static void test_fractions(void **state) {
    (void)state;
    opened o;
    char text[4000] = "user,item\n";
    static const char *const splits[] = {"train", "valid", "test"};
    bool seen[100] = {false};
    for (int i = 0; i < 100; i++) sprintf(text + strlen(text), "%d,%d\n", i, i % 7);
    write_file("f.csv", text);
    OK(open_section(&o, directory,
                    "train: f.csv\nvalid: {fraction: 0.2}\ntest: {fraction: 0.3}\nfeatures: [{name: user, "
                    "identity: 100}]\n"));
    for (int s = 0; s < 3; s++) {
        const rk_batch *batch;
        rk_dataset *dataset;
        char wanted[4000] = "";
        int n = 0;
        OK(rk_dataset_create(
            &o.section, o.transforms,
            &(rk_dataset_options){.directory = directory, .split = splits[s], .batch_size = 8}, &dataset));
        while (rk_dataset_next(dataset, &batch) == RK_OK)
            for (int64_t i = 0; i < batch->n; i++) {
                int id = (int)batch->features[0].ids[i];
                sprintf(wanted + strlen(wanted), "%d=%d:%d ", id, n++, id);
                assert_false(seen[id]);
                seen[id] = true;
            }
        rk_dataset_free(dataset);
        OK(read_all(&o, (rk_rows_with_texts_options){.split = splits[s], .columns = user, .n_columns = 1},
                    found));
        assert_string_equal(found, wanted);
    }
    for (int i = 0; i < 100; i++) assert_true(seen[i]);
    close_section(&o);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_bad_rows(void **state) {
    (void)state;
    opened o;
    char message[600];
    rk_rows_with_texts_options options = {.split = "train", .columns = user, .n_columns = 1};
    write_file("b.csv", "user,item\n1,1\n7,0\n\"2\"x,1\n3,3\n1,2\n");
#define IDS "features: [{name: user, identity: 4}, {name: item, identity: 4}]\n"
    OK(open_section(&o, directory, "train: b.csv\non_bad_row: skip\n" IDS));
    OK(read_all(&o, options, found));
    assert_string_equal(found, "1=0:1 3=2:3 1=3:1 ");
    options.once = true;
    OK(read_all(&o, options, found));
    assert_string_equal(found, "1=0:1 3=2:3 ");
    close_section(&o);
    OK(open_section(&o, directory, "train: b.csv\n" IDS));
    options.batch_size = 1;
    snprintf(
        message, sizeof message,
        "'%s/b.csv': line 3: column 'user': id 7 is not within 0 to 3\nhint: set the feature's 'identity' to "
        "a larger number, or use 'hash'",
        directory);
    write_file("b.csv", "user,item\n1,1\n7,0\n");
    FAILS(read_all(&o, options, found), RK_BAD_DATA, message);
    close_section(&o);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Of an adjacency list a user alone is a row where the item may be missing. */
static void test_adjacency(void **state) {
    (void)state;
    opened o;
    write_file("pairs", "0 2 1\n\n3\n1 0\n");
    OK(open_section(&o, directory, "format: adjacency\ntrain: pairs\n" IDS));
    rk_rows_with_texts_options options = {.split = "train", .columns = user, .n_columns = 1};
    OK(read_all(&o, options, found));
    assert_string_equal(found, "0=0:0 0=1:0 1=2:1 ");
    options.may_miss = "item";
    OK(read_all(&o, options, found));
    assert_string_equal(found, "0=0:0 0=1:0 3=2:3 1=3:1 ");
    close_section(&o);
    assert_int_equal(rk_alloc_live(), 0);
}

static int64_t id_of(const opened *o, int64_t feature, const char *text) {
    int64_t id;
    return rk_transforms_id_of_value(o->transforms, feature, (rk_span){text, strlen(text)}, &id) ? id : -1;
}

static void assert_value(const opened *o, int64_t feature, int64_t id, const char *wanted) {
    char scratch[RK_I64_BYTES];
    rk_span text;
    assert_int_equal(rk_transforms_value_of_id(o->transforms, feature, id, scratch, &text), wanted != NULL);
    if (wanted) assert_true(rk_span_equal(text, wanted));
}

static void test_values(void **state) {
    (void)state;
    opened o;
    write_file("v.csv", "a,b,c,d\nx,5,p,2.5\ny,6,p,1\nx,7,q,3\n");
    OK(open_section(
        &o, directory,
        "train: v.csv\nfeatures: [{name: d, dense: true}, {name: a, vocabulary: {oov: 2}}, {name: b, "
        "identity: 9, identity_offset: 3}, {name: c, hash: 7}]\n"));
    assert_int_equal(rk_transforms_find_feature(o.transforms, "b"), 2);
    assert_int_equal(rk_transforms_find_feature(o.transforms, "e"), -1);
    assert_int_equal(id_of(&o, 1, "x"), 2);
    assert_int_equal(id_of(&o, 1, "y"), 3);
    assert_int_equal(id_of(&o, 1, "z"), -1);
    assert_int_equal(id_of(&o, 2, "5"), 2);
    assert_int_equal(id_of(&o, 2, "12"), -1);
    assert_int_equal(id_of(&o, 2, "x"), -1);
    assert_true(id_of(&o, 3, "anything") >= 0);
    assert_value(&o, 1, 2, "x");
    assert_value(&o, 1, 1, NULL);
    assert_value(&o, 2, 0, "3");
    assert_value(&o, 3, 0, NULL);
    close_section(&o);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_out_of_memory(void **state) {
    (void)state;
    opened o;
    write_file("m.csv", "user,item\na,1\nb,2\na,3\nc,4\n");
    OK(open_section(&o, directory, "train: m.csv\n" FEATURES));
    long live = rk_alloc_live();
    for (long n = 1;; n++) {
        rk_alloc_fail_after(n, n % 2);
        rk_status status = read_all(
            &o, (rk_rows_with_texts_options){.split = "train", .columns = both, .n_columns = 2, .once = true},
            found);
        rk_alloc_fail_after(0, false);
        assert_int_equal(rk_alloc_live(), live);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
        assert_true(n < 2000);
    }
    assert_string_equal(found, "a,1=0:1 b,2=1:2 c,4=3:3 ");
    close_section(&o);
}

static int make_directory(void **state) {
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
    (void)state;
    OK(rk_remove_tree(directory));
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),     cmocka_unit_test(test_fractions),
                                       cmocka_unit_test(test_bad_rows), cmocka_unit_test(test_adjacency),
                                       cmocka_unit_test(test_values),   cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
