#include <stdio.h>
#include <string.h>

#include <reckon/experimental/profile.h>
#include <reckon/reckon.h>

#include "command.h"
#include "terminal.h"

enum { OPT_SET, OPT_STEPS, OPT_JSON };

static void print_json(const rk_profile *p) {
    printf(
        "{\"isa\": \"%s\", \"threads\": %d, \"steps\": %lld, \"batch_size\": %lld, \"ids\": %lld, \"rows\": "
        "%lld, \"seconds\": %.6g,",
        rk_runtime_isa(), rk_threads(), (long long)p->n_steps, (long long)p->batch_size, (long long)p->n_ids,
        (long long)p->n_rows, p->seconds);
    printf(" \"gather_bytes_per_second\": %.6g, \"gemm_flops_per_second\": %.6g, \"stages\": [",
           p->gather_limit, p->gemm_limit);
    for (int i = 0; i < RK_PROFILE_STAGES && p->stages[i].name; i++)
        printf("%s{\"name\": \"%s\", \"seconds\": %.6g, \"work\": %.6g, \"unit\": \"%s\", \"limit\": %.6g}",
               i ? ", " : "", p->stages[i].name, p->stages[i].seconds, p->stages[i].work, p->stages[i].unit,
               p->stages[i].limit);
    printf("], \"limits_spread\": %.6g, \"device\": \"%s\"}\n", p->limits_spread, p->device);
}

static void print_stage(const rk_profile *p, const rk_profile_stage *s) {
    static const double shortest = 1e-5; /* that microseconds can measure */
    printf("  %-13s %9.3f ms %5.1f%%", s->name, s->seconds * 1e3, 100 * s->seconds / p->seconds);
    if (s->work > 0 && s->seconds > 0) {
        double reached = s->work / s->seconds;
        printf("  %9.2f G%s/s", reached * 1e-9, s->unit);
        if (s->limit > 0 && s->seconds > shortest)
            printf("  %9.2f G%s/s  %4.0f%%", s->limit * 1e-9, s->unit, 100 * reached / s->limit);
    }
    putchar('\n');
}

static void print_table(const rk_profile *p) {
    const rk_profile_stage *longest = &p->stages[0], *other = NULL;
    printf("%s: %d threads, kernels %s\n", rk_runtime_cpu(), rk_threads(), rk_runtime_isa());
    bool on_cpu = strcmp(p->device, "cpu") == 0;
    printf("a step of %lld samples", (long long)p->batch_size);
    if (on_cpu) printf(" (%lld ids, %lld rows)", (long long)p->n_ids, (long long)p->n_rows);
    printf(": %.3f ms, %.0f samples/s; mean of %lld steps\n\n", p->seconds * 1e3,
           (double)p->batch_size / p->seconds, (long long)p->n_steps);
    printf("  %-13s %12s %6s  %14s  %14s  %5s\n", "stage", "time", "share", "reached", "this machine",
           "of it");
    for (int i = 0; i < RK_PROFILE_STAGES && p->stages[i].name; i++) {
        print_stage(p, &p->stages[i]);
        if (strcmp(p->stages[i].name, "other") == 0)
            other = &p->stages[i];
        else if (p->stages[i].seconds > longest->seconds)
            longest = &p->stages[i];
    }
    printf("\nthe longest stage is '%s'. ", longest->name);
    puts(on_cpu ? "The stages from 'lookup' to 'sum gradients' run in parallel, one block of samples a "
                  "thread; bytes are what the algorithm moves, some of which caches save."
                : "These are the host's stages; the GPU's part of a step is not split.");
    if (other && other->seconds > longest->seconds)
        puts(
            "Even more time went to no stage: threads waited for a CPU core, or steps are too short to "
            "time.");
    if (p->limits_spread > RK_PROFILE_STEADY)
        printf(
            "The machine is busy with something else: what it reaches was measured between the steps, and "
            "took up to %.1f times as long as at best. "
            "Shares of it cannot be trusted; measure again when it is idle.\n",
            p->limits_spread);
}

static int run_bench(const arguments *args) {
    rk_config *config;
    if (rk_config_load(args->positional[0], args->options[OPT_SET].list, args->options[OPT_SET].n_list,
                       &config) != RK_OK)
        return report_last_error();
    long n_steps = args->options[OPT_STEPS].given ? args->options[OPT_STEPS].number : 0;
    int code = EXIT_OK;
    rk_profile profile = RK_PROFILE_INIT;
    if (rk_profile_run(config, n_steps, 3, &profile) != RK_OK) {
        code = report_last_error();
    } else if (args->options[OPT_JSON].given) {
        print_json(&profile);
    } else {
        print_table(&profile);
    }
    rk_config_free(config);
    return code;
}

const command command_bench = {
    .name = "bench",
    .summary = "time the training steps of a run file, by stage",
    .positional = "RUN.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .description =
        "Trains some steps with parameters that are thrown away and prints where the time goes, what each "
        "stage reaches, and what this machine's\n"
        "memory and processor reach in the same run.",
    .options =
        {
            [OPT_SET] = {"set", 's', OPTION_LIST, "KEY=VALUE", NULL,
                         "override a key of the run file; may be repeated"},
            [OPT_STEPS] = {"steps", 'n', OPTION_INT, "N", NULL,
                           "steps that are timed, in up to 4 turns, each after 3 that are not; 20"},
            [OPT_JSON] = {"json", 'j', OPTION_FLAG, NULL, NULL, "one line of JSON"},
        },
    .examples =
        "reckon bench examples/adult.yaml\nreckon bench --set train.batch_size=65536 --steps 5 "
        "run.yaml",
    .run = run_bench,
};
