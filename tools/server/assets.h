/* Files of assets/, embedded by the build (cmake/embed.cmake). A NUL stands behind each, which is not
 * counted. */
#ifndef RK_SERVER_ASSETS_H
#define RK_SERVER_ASSETS_H

#include <stddef.h>

extern const unsigned char rk_asset_openapi[], rk_asset_status_page_css[], rk_asset_status_page_js[];
extern const size_t rk_asset_openapi_bytes, rk_asset_status_page_css_bytes, rk_asset_status_page_js_bytes;

#endif
