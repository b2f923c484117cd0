/* SPDX-License-Identifier: MIT */
#include "sys/own_thread.h"
#include "lib/thread.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

/* Which attributes of the thread are set instead of inherited from its creator. */
enum change { CHANGE_NOTHING, CHANGE_PROCESSORS, CHANGE_ALL };

void dl_own_thread_nice(void)
{
    int whole = getpriority(PRIO_PROCESS, (id_t)getpid());

    if (getpriority(PRIO_PROCESS, 0) != whole)
        (void)setpriority(PRIO_PROCESS, 0, whole);
}

/* The calling thread may be bound to one processor, or have another priority than the process. An
 * attribute that is right already is not set: a sandbox may end a process for the system call. */
static int attr_init(pthread_attr_t *attr, enum change change)
{
    cpu_set_t ours, whole;
    int rc = pthread_attr_init(attr);

    if (rc != 0)
        return rc;
    if (change >= CHANGE_PROCESSORS && sched_getaffinity(0, sizeof ours, &ours) == 0 &&
        sched_getaffinity(getpid(), sizeof whole, &whole) == 0 && !CPU_EQUAL(&ours, &whole))
        (void)pthread_attr_setaffinity_np(attr, sizeof whole, &whole);
    if (change >= CHANGE_ALL && sched_getscheduler(0) != SCHED_OTHER) {
        (void)pthread_attr_setschedpolicy(attr, SCHED_OTHER);
        (void)pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED);
    }
    return 0;
}

static int thread_create(pthread_t *thread, enum change change, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    int rc = attr_init(&attr, change);

    if (rc != 0)
        return rc;
    rc = dl_thread_start(thread, &attr, run, arg);
    (void)pthread_attr_destroy(&attr);
    return rc;
}

int dl_own_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    int rc = thread_create(thread, CHANGE_ALL, run, arg);

    if (rc == EPERM) /* RLIMIT_NICE holds a SCHED_IDLE thread in that class */
        rc = thread_create(thread, CHANGE_PROCESSORS, run, arg);
    if (rc == EPERM || rc == EINVAL) /* a sandbox refuses, or processors have gone */
        rc = thread_create(thread, CHANGE_NOTHING, run, arg);
    return rc;
}

#define ABOVE_NICE 100

int dl_own_thread_priority(void)
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
