#include "model/presets/preset.h"

#define RK_PRESET_DECLARE(name) extern const rk_preset rk_preset_##name;
RK_PRESET_LIST(RK_PRESET_DECLARE)
#undef RK_PRESET_DECLARE

const rk_preset *rk_preset_of(int kind) {
    static const rk_preset *const list[] = {
#define RK_PRESET_ROW(name) &rk_preset_##name,
        RK_PRESET_LIST(RK_PRESET_ROW)
#undef RK_PRESET_ROW
    };
    return kind >= 0 && (size_t)kind < sizeof list / sizeof list[0] ? list[kind] : NULL;
}
