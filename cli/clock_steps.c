/* SPDX-License-Identifier: MIT */
#include "clock_steps.h"

#define SLACK_NS INT64_C(20000000)

int64_t clock_steps_read(struct clock_steps *steps, int64_t wall_ns, int64_t boot_ns)
{
    int64_t moved_ns = wall_ns - boot_ns - steps->offset_ns;
    int64_t most_ns = SLACK_NS + (boot_ns - steps->read_ns) / 1000;
    bool is_first = steps->read_ns == 0;

    steps->offset_ns = wall_ns - boot_ns;
    steps->read_ns = boot_ns;
    if (is_first || (moved_ns <= most_ns && moved_ns >= -most_ns))
        return 0;
    steps->step_ns = moved_ns;
    steps->count++;
    return moved_ns;
}
