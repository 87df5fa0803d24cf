/* What the server says of its resources to programs: an OpenAPI 3.1 document. */
#ifndef RK_SERVER_OPENAPI_H
#define RK_SERVER_OPENAPI_H

#include "base/buffer.h"

/* assets/openapi.json, with what it says once written out for each resource: a model's forms by version and
 * label, the model's parameter, failures. */
rk_status rk_write_openapi(rk_buffer *out);

#endif
