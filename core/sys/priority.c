/* SPDX-License-Identifier: MIT */
#include "sys/priority.h"

#include <sched.h>
#include <sys/resource.h>

#define ABOVE_NICE 100

int dl_priority_of_thread(void)
{
    struct sched_param param = {0};

    switch (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) {
    case SCHED_IDLE:
        return -ABOVE_NICE;
    case SCHED_OTHER:
    case SCHED_BATCH:
        return -getpriority(PRIO_PROCESS, 0);
    case SCHED_FIFO:
    case SCHED_RR:
        (void)sched_getparam(0, &param);
        return ABOVE_NICE + param.sched_priority;
    default: /* SCHED_DEADLINE */
        return 2 * ABOVE_NICE;
    }
}
