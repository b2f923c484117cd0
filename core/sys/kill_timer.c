/* SPDX-License-Identifier: MIT */
#include "sys/kill_timer.h"
#include "sys/clock.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static int posix_open(struct dl_kill_timer *timer)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};

    if (getpid() == 1)
        return EPERM;
    return timer_create(CLOCK_BOOTTIME, &event, &timer->id) == 0 ? 0 : errno;
}

/* A moment that has passed fires at once; only zero disarms. */
static void posix_set(struct dl_kill_timer *timer, int64_t at_ns)
{
    struct itimerspec spec = {{0, 0}, {0, 0}};

    if (at_ns != DL_NEVER)
        spec.it_value = dl_time_spec(dl_later(at_ns, 1));
    (void)timer_settime(timer->id, TIMER_ABSTIME, &spec, NULL);
}

static void posix_close(struct dl_kill_timer *timer)
{
    (void)timer_delete(timer->id);
}

const struct dl_kill_timer dl_kill_timer_posix = {
    .open = posix_open, .set = posix_set, .close = posix_close};
