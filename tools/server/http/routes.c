#include "server/http/routes.h"

#include "server/server_config.h"

typedef struct ending {
    const char *text;
    rk_route_kind kind;
    bool post;
} ending;

/* What stands behind a model's name and version. */
static const ending v1_endings[] = {{"", RK_ROUTE_STATUS, false},
                                    {"/metadata", RK_ROUTE_METADATA, false},
                                    {":predict", RK_ROUTE_PREDICT, true},
                                    {":classify", RK_ROUTE_CLASSIFY, true},
                                    {":regress", RK_ROUTE_REGRESS, true},
                                    {":retrieve", RK_ROUTE_RETRIEVE, true},
                                    {0}};
static const ending v2_endings[] = {{"", RK_ROUTE_MODEL, false},
                                    {"/ready", RK_ROUTE_MODEL_READY, false},
                                    {"/infer", RK_ROUTE_INFER, true},
                                    {0}};
static const ending whole[] = {{"/v2", RK_ROUTE_SERVER, false},
                               {"/v2/", RK_ROUTE_SERVER, false},
                               {"/v2/health/live", RK_ROUTE_LIVE, false},
                               {"/v2/health/ready", RK_ROUTE_READY, false},
                               {"/metrics", RK_ROUTE_METRICS, false},
                               {"/openapi.json", RK_ROUTE_OPENAPI, false},
                               {"/", RK_ROUTE_PAGE, false},
                               {0}};

static bool skip_prefix(const char **at, const char *text) {
    size_t n = strlen(text);
    if (strncmp(*at, text, n) != 0) return false;
    *at += n;
    return true;
}

/* Up to a slash or colon. */
static bool read_model_name(const char **at, rk_span *out) {
    *out = (rk_span){*at, strcspn(*at, "/:")};
    *at += out->n_bytes;
    return rk_is_model_name(out->data, out->n_bytes);
}

static void match_route_ending(const ending *endings, const char *at, rk_route *route) {
    for (; endings->text; endings++)
        if (strcmp(at, endings->text) == 0) {
            route->kind = endings->kind;
            route->post = endings->post;
        }
}

rk_route rk_parse_route(const char *url) {
    rk_route route = {0};
    const char *at = url;
    bool v1 = skip_prefix(&at, "/v1/models/");
    if (!v1 && !skip_prefix(&at, "/v2/models/")) {
        match_route_ending(whole, url, &route);
        return route;
    }
    if (!read_model_name(&at, &route.model)) return route;
    if (skip_prefix(&at, "/versions/") && !read_model_name(&at, &route.version)) return route;
    if (v1 && !route.version.data && skip_prefix(&at, "/labels/") && !read_model_name(&at, &route.label))
        return route;
    match_route_ending(v1 ? v1_endings : v2_endings, at, &route);
    return route;
}
