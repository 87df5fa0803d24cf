/* The page: tables and charts of runs that were looked at, as HTML. */
#ifndef RK_REPORT_REPORT_PAGE_H
#define RK_REPORT_REPORT_PAGE_H

#include "report/report_run.h"

/* The whole page, from <!doctype html> on. split: the data's name in headings. */
rk_status rk_report_write_page(const rk_report_run *runs, size_t n, const char *split, int32_t n_features,
                               rk_buffer *out);

#endif
