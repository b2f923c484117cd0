/* SPDX-License-Identifier: MIT */
/* clock_steps.h - steps of the wall clock of this host, against the clock that never steps. Pure.
 */
#ifndef CLI_CLOCK_STEPS_H
#define CLI_CLOCK_STEPS_H

#include <stdbool.h>
#include <stdint.h>

struct clock_steps {
    int64_t offset_ns; /* wall clock less CLOCK_BOOTTIME, when both were read last */
    int64_t read_ns;   /* when that was, on CLOCK_BOOTTIME; 0: never */
    int64_t step_ns;   /* the last step; 0: none so far */
    uint64_t count;
};

/*
 * Both clocks were read. Returns the step since they were read before; 0: none. A clock that is
 * slewed gains or loses a thousandth at most, and that is no step; nor are 20 ms, which the reading
 * itself may take.
 */
int64_t clock_steps_read(struct clock_steps *steps, int64_t wall_ns, int64_t boot_ns);

#endif
