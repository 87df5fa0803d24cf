/* A `data` section written in a test, with its transforms fitted, and a dataset of it where the test opens
 * one. */
#ifndef RK_TEST_DATA_SECTION_H
#define RK_TEST_DATA_SECTION_H

#include <string.h>

#include "data/dataset/dataset.h"

typedef struct opened {
    rk_yaml yaml;
    rk_data_section section;
    rk_transforms *transforms;
    rk_dataset *dataset;
} opened;

/* directory: what paths count from. To be closed after an error too. */
static inline rk_status open_section(opened *o, const char *directory, const char *text) {
    *o = (opened){0};
    RK_TRY(rk_yaml_parse("d.yaml", text, strlen(text), &o->yaml));
    RK_TRY(rk_schema_bind(&rk_data_schema_table, &o->yaml, o->yaml.root, &o->section));
    RK_TRY(rk_data_section_check(&o->section, &o->yaml));
    return rk_transforms_fit_section(&o->section, &o->yaml, &(rk_fit_options){.directory = directory},
                                     &o->transforms);
}

static inline void close_section(opened *o) {
    rk_dataset_free(o->dataset);
    rk_transforms_free(o->transforms);
    rk_schema_release(&rk_data_schema_table, &o->section);
    rk_yaml_release(&o->yaml);
}

#endif
