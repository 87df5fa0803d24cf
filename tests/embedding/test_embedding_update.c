/* Updates against a dense reference in double precision: every optimizer, regularization, clipping,
 * schedules. */
#include "embedding_fixture.h"

static drawn batch;

/* The reference's table: what the rules of docs/optimizers.md say, value by value. */
typedef struct reference {
    double w[MAX_ROWS * MAX_TABLE_DIM], a[MAX_ROWS * MAX_TABLE_DIM], b[MAX_ROWS * MAX_TABLE_DIM];
    int64_t step;
} reference;

static void clip(double *x, int n, double min, double max) {
    for (int k = 0; k < n; k++) x[k] = fmin(fmax(x[k], min), max);
}

static double mean_square(const double *x, int n) {
    double sum = 0;
    for (int k = 0; k < n; k++) sum += x[k] * x[k];
    return sum / n;
}

static void update_by_definition(const rk_optimizer *o, double rate, int64_t step, double *w, double *a,
                                 double *b, double *g, int n) {
    clip(g, n, o->clip_gradient_min, o->clip_gradient_max);
    bool inside = o->kind == RK_OPTIMIZER_LAMB || o->kind == RK_OPTIMIZER_LARS;
    double decay = inside ? 0 : o->weight_decay * (o->weight_decay_by_learning_rate ? rate : 1);
    for (int k = 0; k < n; k++) w[k] -= decay * w[k];
    double m_scale = o->bias_correction ? 1 / (1 - pow(o->beta1, (double)step + 1)) : 1,
           v_scale = o->bias_correction ? 1 / (1 - pow(o->beta2, (double)step + 1)) : 1;
    double square = mean_square(g, n), norm = sqrt(n * mean_square(w, n)), steps[MAX_TABLE_DIM], trust;
    switch (o->kind) {
        case RK_OPTIMIZER_SGD:
            for (int k = 0; k < n; k++) w[k] -= rate * g[k];
            break;
        case RK_OPTIMIZER_MOMENTUM:
            for (int k = 0; k < n; k++) {
                a[k] = o->momentum * a[k] + g[k];
                w[k] -= rate * (o->nesterov ? o->momentum * a[k] + g[k] : a[k]);
            }
            break;
        case RK_OPTIMIZER_ADAGRAD:
            for (int k = 0; k < n; k++) {
                a[k] += g[k] * g[k];
                w[k] -= rate * g[k] / (sqrt(a[k]) + o->epsilon);
            }
            break;
        case RK_OPTIMIZER_ROWWISE_ADAGRAD:
            a[0] += square;
            for (int k = 0; k < n; k++) w[k] -= rate * g[k] / (sqrt(a[0]) + o->epsilon);
            break;
        case RK_OPTIMIZER_ADAM:
        case RK_OPTIMIZER_ADAMW:
        case RK_OPTIMIZER_ROWWISE_ADAM:
        case RK_OPTIMIZER_LAMB:
            if (o->kind == RK_OPTIMIZER_ROWWISE_ADAM) b[0] = o->beta2 * b[0] + (1 - o->beta2) * square;
            for (int k = 0; k < n; k++) {
                a[k] = o->beta1 * a[k] + (1 - o->beta1) * g[k];
                if (o->kind != RK_OPTIMIZER_ROWWISE_ADAM)
                    b[k] = o->beta2 * b[k] + (1 - o->beta2) * g[k] * g[k];
                double v = v_scale * b[o->kind == RK_OPTIMIZER_ROWWISE_ADAM ? 0 : k];
                steps[k] = m_scale * a[k] /
                           (o->sum_inside_sqrt ? sqrt(v + o->epsilon * o->epsilon) : sqrt(v) + o->epsilon);
                if (inside) steps[k] += o->weight_decay * w[k];
            }
            trust = inside && norm > 0 ? norm / sqrt(n * mean_square(steps, n)) : 1;
            for (int k = 0; k < n; k++) w[k] -= rate * trust * steps[k];
            break;
        case RK_OPTIMIZER_FTRL:
            for (int k = 0; k < n; k++) {
                double before = pow(a[k], -o->learning_rate_power),
                       after = pow(a[k] + g[k] * g[k], -o->learning_rate_power);
                a[k] += g[k] * g[k];
                b[k] += g[k] - (after - before) / rate * w[k];
                w[k] = fabs(b[k]) <= o->l1
                           ? 0
                           : (copysign(o->l1, b[k]) - b[k]) / ((after + o->beta) / rate + 2 * o->l2);
            }
            break;
        case RK_OPTIMIZER_ADAGRAD_MOMENTUM:
            for (int k = 0; k < n; k++) {
                a[k] = o->beta2 == 1 ? a[k] + g[k] * g[k] : o->beta2 * a[k] + (1 - o->beta2) * g[k] * g[k];
                double s = g[k] * pow(a[k] + o->epsilon, -1 / o->exponent);
                b[k] = o->momentum * b[k] + s;
                w[k] -= rate * (o->nesterov ? o->momentum * b[k] + s : b[k]);
            }
            break;
        case RK_OPTIMIZER_LARS:
            trust = norm > 0 && square > 0 ? o->trust_coefficient * norm /
                                                 (sqrt(n * square) + o->weight_decay * norm + o->epsilon)
                                           : 1;
            for (int k = 0; k < n; k++) {
                a[k] = o->momentum * a[k] + rate * trust * (g[k] + o->weight_decay * w[k]);
                w[k] -= a[k];
            }
            break;
        case RK_OPTIMIZER_COUNT:
            break;
    }
    clip(w, n, o->clip_weight_min, o->clip_weight_max);
}

static void reference_init(reference *r, rk_embeddings *e, int t) {
    static float rows[MAX_ROWS * MAX_TABLE_DIM];
    const rk_optimizer *o = rk_embeddings_table_optimizer(e, t);
    bool accumulates = o->kind == RK_OPTIMIZER_ADAGRAD || o->kind == RK_OPTIMIZER_ROWWISE_ADAGRAD ||
                       o->kind == RK_OPTIMIZER_FTRL || o->kind == RK_OPTIMIZER_ADAGRAD_MOMENTUM;
    OK(rk_embeddings_read_rows(e, table_names[t], 0, table_rows[t], rows));
    memset(r, 0, sizeof *r);
    for (int64_t i = 0; i < table_rows[t] * table_dims[t]; i++) {
        r->w[i] = rows[i];
        r->a[i] = accumulates ? o->initial_accumulator : 0;
    }
}

static void reference_step(reference *r, const rk_optimizer *o, int t, double factor, double l2,
                           double l2_full) {
    static double sums[MAX_ROWS * MAX_TABLE_DIM];
    static bool touched[MAX_ROWS];
    sum_by_definition(&batch, t, sums, touched);
    int dim = table_dims[t];
    double rate = o->learning_rate * rk_schedule_factor(&o->schedule, r->step) * factor;
    for (int64_t row = 0; row < table_rows[t]; row++) {
        if (!touched[row] && l2_full == 0) continue;
        double *w = r->w + row * dim, *g = sums + row * dim;
        for (int k = 0; k < dim; k++) g[k] += (l2_full + (touched[row] ? l2 : 0)) * w[k];
        update_by_definition(o, rate, r->step, w, r->a + row * dim, r->b + row * dim, g, dim);
    }
    r->step++;
}

/* Several steps of a collection beside the reference. */
static void assert_trains_alike(const rk_optimizer *o, double l2, double l2_full, double factor,
                                double tolerance) {
    static reference references[N_TABLES];
    rk_embeddings *e = make_usual(o, RK_F32);
    OK(rk_embeddings_scale_learning_rate(e, factor));
    for (int t = 0; t < N_TABLES; t++) {
        OK(rk_embeddings_set_l2(e, table_names[t], l2, l2_full));
        reference_init(&references[t], e, t);
    }
    for (uint64_t step = 0; step < 8; step++) {
        draw(&batch, step, 60 + (int64_t)step * 10);
        OK(look_up(e, batch.n, batch.ids, batch.activations));
        draw_gradients(&batch, step);
        OK(apply_gradients(e, batch.activations));
        for (int t = 0; t < N_TABLES - 1; t++) reference_step(&references[t], o, t, factor, l2, l2_full);
    }
    for (int t = 0; t < N_TABLES; t++) { /* the last is frozen: it must stand where the reference began */
        static float rows[MAX_ROWS * MAX_TABLE_DIM];
        OK(rk_embeddings_read_rows(e, table_names[t], 0, table_rows[t], rows));
        for (int64_t i = 0; i < table_rows[t] * table_dims[t]; i++)
            if (!(fabs(rows[i] - references[t].w[i]) <= tolerance * (1 + fabs(references[t].w[i]))))
                fail_msg("%s, table %s, value %d: %g, not %g", rk_optimizer_name(o->kind), table_names[t],
                         (int)i, rows[i], references[t].w[i]);
    }
    rk_embeddings_free(e);
}

static rk_optimizer defaults(rk_optimizer_kind kind) {
    rk_optimizer o;
    OK(rk_optimizer_init(&o, kind));
    o.learning_rate = 0.05;
    return o;
}

static void test_every_optimizer(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++) {
        rk_optimizer o = defaults((rk_optimizer_kind)kind);
        assert_trains_alike(&o, 0, 0, 1, 2e-4);
    }
}

static void test_options(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++) {
        rk_optimizer o = defaults((rk_optimizer_kind)kind);
        o.nesterov = true;
        o.bias_correction = false;
        o.sum_inside_sqrt = true;
        o.epsilon = 1e-3;
        o.weight_decay = 0.01;
        o.weight_decay_by_learning_rate = !o.weight_decay_by_learning_rate;
        o.l1 = 0.3;
        o.l2 = 0.1;
        o.beta = 0.2;
        if (kind == RK_OPTIMIZER_ADAGRAD_MOMENTUM) o.beta2 = 0.9;
        assert_trains_alike(&o, 0, 0, 0.7, 2e-4);
    }
}

static void test_clipping(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++) {
        rk_optimizer o = defaults((rk_optimizer_kind)kind);
        o.clip_gradient_min = -0.5;
        o.clip_gradient_max = 0.25;
        o.clip_weight_min = -0.1;
        o.clip_weight_max = 0.15;
        assert_trains_alike(&o, 0, 0, 1, 2e-4);
    }
}

static void test_schedules(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_SCHEDULE_COUNT; kind++) {
        rk_optimizer o = defaults(RK_OPTIMIZER_ADAGRAD);
        o.schedule = (rk_schedule){(rk_schedule_kind)kind, 3, 4, 0.1, 2, 0.5};
        assert_trains_alike(&o, 0, 0, 1, 2e-4);
    }
}

/* l2 touches the rows of the batch; l2_full moves every row's weights and slots, as a dense optimizer
 * would. */
static void test_l2(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++) {
        rk_optimizer o = defaults((rk_optimizer_kind)kind);
        assert_trains_alike(&o, 0.3, 0, 1, 5e-4);
        assert_trains_alike(&o, 0, 0.2, 1, 5e-4);
        assert_trains_alike(&o, 0.1, 0.2, 1, 5e-4);
    }
}

static void test_l2_mistakes(void **state) {
    (void)state;
    rk_embeddings *e = make_usual(NULL, RK_F32);
    FAILS(rk_embeddings_set_l2(e, "usr", 0, 0), RK_NOT_FOUND, "there is no table 'usr'");
    static const double wrong[] = {-1, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        FAILS(rk_embeddings_set_l2(e, "user", wrong[i], 0), RK_INVALID_ARGUMENT,
              "table 'user': l2 and l2_full must be finite numbers of 0 or more");
        FAILS(rk_embeddings_set_l2(e, "user", 0, wrong[i]), RK_INVALID_ARGUMENT,
              "table 'user': l2 and l2_full must be finite numbers of 0 or more");
        assert_int_equal(rk_embeddings_scale_learning_rate(e, wrong[i]), RK_INVALID_ARGUMENT);
    }
    rk_embeddings_free(e);
}

/* An id that is missing must not shift the gradients of those after it: each sample's gradient reaches its
 * own row. */
static void test_missing_ids_shift_nothing(void **state) {
    (void)state;
    enum { N = 400 };
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    table.name = "t";
    table.n_rows = N;
    table.dim = 2;
    table.initializer.kind = RK_INIT_ZEROS;
    rk_optimizer sgd = defaults(RK_OPTIMIZER_SGD);
    sgd.learning_rate = 1;
    for (int length = 0; length < 2; length++)
        for (int combiner = 0; combiner < RK_COMBINER_COUNT; combiner++)
            for (int weighted = 0; weighted < 2 - length; weighted++) {
                rk_feature_config feature = {sizeof feature, "f",   "t",  (rk_combiner)combiner,
                                             length,         false, false};
                rk_embeddings_config config = {sizeof config, 1, &table, 1, &feature, 1, &sgd, NULL, NULL};
                rk_embeddings *e;
                OK(rk_embeddings_create(&config, &e));
                static int64_t ids[N];
                static float weights[N], values[2 * N], rows[2 * N];
                for (int s = 0; s < N; s++) {
                    ids[s] = s % 7 == 3 ? -1 : N - 1 - s;
                    weights[s] = s % 5 == 4 ? 0.0f : 1.0f;
                }
                rk_activation to = {values, 2, NULL};
                OK(look_up(e, N, &(rk_ids){NULL, 1, ids, weighted ? weights : NULL}, &to));
                for (int i = 0; i < 2 * N; i++) values[i] = (float)(i + 1);
                OK(apply_gradients(e, &to));
                OK(rk_embeddings_read_rows(e, "t", 0, N, rows));
                for (int s = 0; s < N; s++) {
                    bool counts = s % 7 != 3 && !(weighted && s % 5 == 4);
                    for (int k = 0; k < 2; k++)
                        assert_true(rows[2 * (N - 1 - s) + k] == (counts ? -(float)(2 * s + k + 1) : 0));
                }
                rk_embeddings_free(e);
            }
}

/* Duplicates of one feature and of several that share a table are summed first; the optimizer steps once. */
static void test_duplicates_make_one_step(void **state) {
    (void)state;
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    table.name = "t";
    table.n_rows = 3;
    table.dim = 1;
    table.initializer.kind = RK_INIT_ZEROS;
    rk_optimizer o = defaults(RK_OPTIMIZER_ADAGRAD);
    o.learning_rate = 1;
    o.initial_accumulator = 0.25;
    o.epsilon = 0;
    rk_feature_config features[2] = {{sizeof *features, "a", "t", RK_COMBINER_SUM, 0, false, false},
                                     {sizeof *features, "b", "t", RK_COMBINER_SUM, 2, false, false}};
    rk_embeddings_config config = {sizeof config, 1, &table, 1, features, 2, &o, NULL, NULL};
    rk_embeddings *e;
    OK(rk_embeddings_create(&config, &e));
    int64_t ids[2][4] = {{1, 1, 1, 0}, {1, 2, 1, 1}};
    float values[2][4], rows[3];
    rk_ids in[2] = {{NULL, 2, ids[0], NULL}, {NULL, 2, ids[1], NULL}};
    rk_activation to[2] = {{values[0], 1, NULL}, {values[1], 2, NULL}};
    OK(look_up(e, 2, in, to));
    values[0][0] = 1;
    values[0][1] = 10;
    for (int i = 0; i < 4; i++) values[1][i] = (float)(100 * (i + 1));
    OK(apply_gradients(e, to));
    OK(rk_embeddings_read_rows(e, "t", 0, 3, rows));
    float sum = 1 + 1 + 10 + 100 + 300 + 400;
    assert_true(fabsf(rows[1] + sum / sqrtf(0.25f + sum * sum)) < 1e-6f);
    assert_true(fabsf(rows[0] + 10 / sqrtf(0.25f + 100)) < 1e-6f &&
                fabsf(rows[2] + 200 / sqrtf(0.25f + 40000)) < 1e-6f);
    rk_embeddings_free(e);
}

/* Steps smaller than a 16-bit row can tell are not lost: rounding is right on the average, and never beyond
 * the next value. */
static void test_half_rows(void **state) {
    (void)state;
    enum { ROWS = 4000, STEPS = 10 };
    for (int dtype = RK_BF16; dtype <= RK_F16; dtype++) {
        rk_table_config table = RK_TABLE_CONFIG_INIT;
        table.name = "t";
        table.n_rows = ROWS;
        table.dim = 3;
        table.dtype = (rk_dtype)dtype;
        table.initializer.kind = RK_INIT_ONES;
        rk_optimizer o = defaults(RK_OPTIMIZER_SGD);
        o.learning_rate = 1;
        rk_feature_config feature = {sizeof feature, "f", "t", RK_COMBINER_SUM, 0, false, false};
        rk_embeddings_config config = {sizeof config, 1, &table, 1, &feature, 1, &o, NULL, NULL};
        rk_embeddings *e;
        OK(rk_embeddings_create(&config, &e));
        assert_int_equal(rk_embeddings_bytes(e), ROWS * 3 * 2);
        static int64_t ids[ROWS];
        static float values[3 * ROWS], rows[3 * ROWS];
        double next = dtype == RK_BF16 ? 0x1p-7 : 0x1p-10,
               small = next / 16; /* above 1, and a step too small to be seen */
        for (int i = 0; i < ROWS; i++) ids[i] = i;
        rk_activation to = {values, 3, NULL};
        for (int step = 0; step < STEPS; step++) {
            OK(look_up(e, ROWS, &(rk_ids){NULL, 1, ids, NULL}, &to));
            for (int i = 0; i < 3 * ROWS; i++) values[i] = (float)-small;
            OK(apply_gradients(e, &to));
        }
        OK(rk_embeddings_read_rows(e, "t", 0, ROWS, rows));
        double mean = 0;
        int equal_neighbours = 0;
        for (int i = 0; i < 3 * ROWS; i++) {
            mean += (rows[i] - 1) / (3.0 * ROWS);
            double steps = (rows[i] - 1) / next;
            assert_true(steps == floor(steps) && steps >= 0 && steps <= STEPS);
            equal_neighbours += i > 0 && rows[i] == rows[i - 1];
        }
        assert_true(fabs(mean / (STEPS * small) - 1) < 0.03);
        assert_true(equal_neighbours < 0.7 * 3 * ROWS); /* rows and columns are rounded apart */
        OK(rk_embeddings_write_rows(e, "t", 0, ROWS,
                                    rows)); /* values that the dtype has are kept as they are */
        OK(rk_embeddings_read_rows(e, "t", 0, ROWS, values));
        assert_memory_equal(rows, values, sizeof rows);
        rk_embeddings_free(e);
    }
}

/* A gradient that is no number stops the step before any table is written, and says whose it is. */
static void test_not_finite(void **state) {
    (void)state;
    rk_optimizer adam = defaults(RK_OPTIMIZER_ADAM);
    rk_embeddings *e = make_usual(&adam, RK_F32), *untouched = make_usual(&adam, RK_F32);
    static const float wrong[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int f = 0; f < N_FEATURES; f++)
        for (int i = 0; i < 4; i++) {
            draw(&batch, 5, 700);
            OK(look_up(e, batch.n, batch.ids, batch.activations));
            draw_gradients(&batch, 5);
            for (int64_t s = 0; s < batch.n && batch.activations[f].stride > width_of(f); s++)
                batch.out[f][s * batch.activations[f].stride + width_of(f)] =
                    NAN; /* the gap is nobody's gradient */
            batch.out[f][650 * batch.activations[f].stride + width_of(f) - 1] = wrong[i];
            if (sorts[f].table == N_TABLES - 1) continue; /* a frozen table's gradients are not looked at */
            char message[200];
            snprintf(message, sizeof message, "feature '%s': sample 650: the gradient is not a finite number",
                     sorts[f].name);
            FAILS(apply_gradients(e, batch.activations), RK_NOT_FINITE, message);
            assert_same_state(e, untouched, true);
        }
    draw_gradients(&batch, 5); /* set right, the same lookup can still be applied, once */
    batch.activations[6].data = NULL;
    OK(apply_gradients(e, batch.activations));
    FAILS(apply_gradients(e, batch.activations), RK_INVALID_ARGUMENT,
          "apply_gradients must follow a lookup for training");
    assert_same_state(e, untouched, false);
    draw(&batch, 5, 7);
    OK(look_up(e, batch.n, batch.ids, batch.activations));
    batch.activations[1].stride = 4;
    FAILS(apply_gradients(e, batch.activations), RK_INVALID_ARGUMENT,
          "feature 'item': its gradients need memory and a stride of at least 5");
    FAILS(apply_gradients(e, NULL), RK_INVALID_ARGUMENT, "apply_gradients needs gradients");
    rk_embeddings_free(e);
    rk_embeddings_free(untouched);
}

/* The same where gradients lie beside each other in one array, a frozen table's among them. */
static void test_not_finite_side_by_side(void **state) {
    (void)state;
    enum { N = 300, WIDTH = 2 + 3 + 2 + 2 };
    rk_optimizer o = defaults(RK_OPTIMIZER_SGD);
    rk_table_config tables[2] = {RK_TABLE_CONFIG_INIT, RK_TABLE_CONFIG_INIT};
    tables[0].name = "t", tables[0].n_rows = 3, tables[0].dim = 2;
    tables[1].name = "still", tables[1].n_rows = 3, tables[1].dim = 3, tables[1].frozen = true;
    static const char *const names[] = {"a", "b", "c", "d"};
    static const int widths[] = {2, 3, 2, 2};
    rk_feature_config features[4];
    rk_ids ids[4];
    rk_activation to[4];
    static float values[N * WIDTH];
    static int64_t rows[N];
    for (int f = 0, at = 0; f < 4; at += widths[f++]) {
        features[f] = (rk_feature_config){
            sizeof *features, names[f], f == 1 ? "still" : "t", RK_COMBINER_SUM, 0, false, false};
        ids[f] = (rk_ids){NULL, 1, rows, NULL};
        to[f] = (rk_activation){values + at, WIDTH, NULL};
    }
    rk_embeddings_config config = {sizeof config, 1, tables, 2, features, 4, &o, NULL, NULL};
    rk_embeddings *e;
    OK(rk_embeddings_create(&config, &e));
    for (int f = 0, at = 0; f < 4; at += widths[f++])
        for (int64_t s = 0; s < N; s += N - 1) {
            OK(look_up(e, N, ids, to));
            memset(values, 0, sizeof values);
            values[s * WIDTH + at + widths[f] - 1] = NAN;
            char message[200];
            snprintf(message, sizeof message,
                     "feature '%s': sample %lld: the gradient is not a finite number", names[f],
                     (long long)s);
            if (f == 1)
                OK(apply_gradients(e, to));
            else
                FAILS(apply_gradients(e, to), RK_NOT_FINITE, message);
        }
    for (int f = 0; f < 4; f++) to[f].data = NULL; /* of no sample nothing is read */
    OK(look_up(e, 0, ids, to));
    OK(apply_gradients(e, to));
    rk_embeddings_free(e);
}

/* Everything that an update reads is in the state, Adam's step and the rounding's draws too: a copy trains on
 * to the same bits. */
static void test_state_is_all_there_is(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++) {
        rk_optimizer o = defaults((rk_optimizer_kind)kind);
        o.schedule = (rk_schedule){RK_SCHEDULE_POLYNOMIAL, 2, 20, 0.1, 1, 0};
        rk_embeddings *whole = make_usual(&o, RK_BF16), *resumed = make_usual(&o, RK_BF16);
        train_steps(whole, &batch, 0, 5, 50);
        rk_state_dict from = {0}, to = {0};
        OK(rk_embeddings_state_dict(whole, &from));
        OK(rk_embeddings_state_dict(resumed, &to));
        assert_int_equal(from.n, to.n);
        for (size_t i = 0; i < from.n; i++) {
            assert_string_equal(from.entries[i].name, to.entries[i].name);
            memcpy(to.entries[i].data, from.entries[i].data, rk_state_dict_entry_bytes(&from.entries[i]));
        }
        assert_int_equal(*(int64_t *)rk_state_dict_find(&from, "table/user/step")->data, 5);
        assert_int_equal(*(int64_t *)rk_state_dict_find(&from, "table/still/step")->data, 0);
        assert_null(rk_state_dict_find(&from, "table/still/accumulator"));
        const rk_state_dict_entry *rows = rk_state_dict_find(&from, "table/item/rows");
        assert_true(rows->type == RK_BF16 && rows->n_dims == 2 && rows->dims[0] == 50 && rows->dims[1] == 5);
        rk_state_dict_release(&from);
        rk_state_dict_release(&to);
        train_steps(whole, &batch, 5, 4, 50);
        train_steps(resumed, &batch, 5, 4, 50);
        assert_same_state(whole, resumed, true);
        rk_embeddings_free(whole);
        rk_embeddings_free(resumed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_optimizer),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_l2),
        cmocka_unit_test(test_l2_mistakes),
        cmocka_unit_test(test_missing_ids_shift_nothing),
        cmocka_unit_test(test_duplicates_make_one_step),
        cmocka_unit_test(test_half_rows),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_not_finite_side_by_side),
        cmocka_unit_test(test_state_is_all_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
