#include <math.h>

#include <reckon/optimizer.h>

double rk_schedule_factor(const rk_schedule *schedule, int64_t step) {
    if (step < schedule->warmup_steps) return (double)(step + 1) / (double)schedule->warmup_steps;
    int64_t since = step - schedule->warmup_steps;
    if (schedule->kind == RK_SCHEDULE_CONSTANT || schedule->decay_steps <= 0) return 1;
    if (schedule->kind == RK_SCHEDULE_STEP)
        return pow(schedule->step_factor, (double)(since / schedule->decay_steps));
    double done = since >= schedule->decay_steps ? 1 : (double)since / (double)schedule->decay_steps;
    double left = schedule->kind == RK_SCHEDULE_COSINE ? 0.5 * (1 + cos(3.14159265358979323846 * done))
                                                       : pow(1 - done, schedule->power);
    return schedule->end_factor + (1 - schedule->end_factor) * left;
}
