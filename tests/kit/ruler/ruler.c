/* SPDX-License-Identifier: MIT */
#include "ruler.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  (1000 * NS_PER_MS)
#define STEP_NS   (5 * NS_PER_MS)
#define STALL_NS  (100 * NS_PER_MS)
#define STEPS     65536 /* five minutes */

/* late_ns: of this step; the rest is of all steps up to it. */
struct step {
    int64_t at_ns, late_ns, stalls_ns, pressure_ns;
};

static struct step steps[STEPS];
static _Atomic uint64_t step_count;
static _Atomic pid_t started_by;
static _Thread_local struct dlt_measure last;

static int64_t now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* Some task waited for a processor: nanoseconds since the machine began; -1 where the kernel does
 * not count. */
static int64_t pressure_ns(void)
{
    char text[256] = "";
    const char *total = NULL;
    int fd = open("/proc/pressure/cpu", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (read(fd, text, sizeof text - 1) > 0)
        total = strstr(text, "total=");
    (void)close(fd);
    return total == NULL ? -1 : strtoll(total + strlen("total="), NULL, 10) * 1000;
}

static void step_add(struct step step)
{
    uint64_t n = atomic_load(&step_count);

    steps[n % STEPS] = step;
    atomic_store(&step_count, n + 1);
}

static void *watch(void *arg)
{
    struct step step = {.at_ns = now_ns()};
    int64_t pressure = pressure_ns();

    (void)arg;
    for (;;) {
        int64_t due_ns = step.at_ns + STEP_NS, more = 0;
        struct timespec until = {due_ns / NS_PER_S, due_ns % NS_PER_S};

        step_add(step);
        (void)clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL);
        step.at_ns = now_ns();
        step.late_ns = step.at_ns - due_ns;
        step.stalls_ns += step.late_ns >= STALL_NS ? step.late_ns : 0;
        more = pressure_ns();
        step.pressure_ns += more > pressure && pressure >= 0 ? more - pressure : 0;
        pressure = more >= 0 ? more : pressure;
    }
    return NULL;
}

void dlt_ruler_start(void)
{
    pid_t before = atomic_load(&started_by), self = getpid();
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;

    if (before == self || !atomic_compare_exchange_strong(&started_by, &before, self))
        return;
    atomic_store(&step_count, 0);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, watch, NULL) != 0)
        abort();
    (void)pthread_attr_destroy(&attr);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    /* A fork while a thread begins leaves locks of a sanitizer taken in the child. */
    while (atomic_load(&step_count) == 0)
        (void)nanosleep(&(const struct timespec){0, NS_PER_MS / 10}, NULL);
}

int64_t dlt_ruler_now_ns(void)
{
    dlt_ruler_start();
    return now_ns();
}

/* The first step that is not before at_ns. */
static uint64_t step_at(int64_t at_ns)
{
    uint64_t end = atomic_load(&step_count), begin = end > STEPS / 2 ? end - STEPS / 2 : 0;

    while (begin < end) {
        uint64_t middle = begin + (end - begin) / 2;

        if (steps[middle % STEPS].at_ns < at_ns)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static int64_t stolen_between(int64_t begin_ns, int64_t end_ns)
{
    uint64_t begin = step_at(begin_ns), end = step_at(end_ns);
    const struct step *from = &steps[begin % STEPS], *to = &steps[end % STEPS];
    int64_t late_ns = 0;

    for (uint64_t n = begin; n <= end; n++) {
        if (steps[n % STEPS].late_ns > late_ns)
            late_ns = steps[n % STEPS].late_ns;
    }
    return dlt_ruler_stolen(late_ns, to->stalls_ns - from->stalls_ns,
                            to->pressure_ns - from->pressure_ns);
}

/* Until the thread has made a step at or after at_ns, which it does as soon as it can run. */
static void steps_await(int64_t at_ns)
{
    const struct timespec pause = {0, NS_PER_MS};

    for (;;) {
        uint64_t n = atomic_load(&step_count);

        if (n > 0 && steps[(n - 1) % STEPS].at_ns >= at_ns)
            return;
        (void)nanosleep(&pause, NULL);
    }
}

int64_t dlt_ruler_stolen(int64_t late_ns, int64_t stalls_ns, int64_t pressure_ns)
{
    int64_t stolen_ns = stalls_ns > late_ns ? stalls_ns : late_ns;

    if (pressure_ns > DLT_RULER_WAKES * late_ns)
        pressure_ns = DLT_RULER_WAKES * late_ns;
    return pressure_ns > stolen_ns ? pressure_ns : stolen_ns;
}

enum dlt_ruling dlt_ruling(int64_t took_ns, int64_t stolen_ns, int64_t most_ns)
{
    if (took_ns <= most_ns)
        return DLT_IN_TIME;
    if (took_ns - stolen_ns > most_ns)
        return DLT_LATE;
    return stolen_ns > most_ns ? DLT_VOID : DLT_IN_TIME;
}

enum dlt_ruling dlt_ruler_judge(int64_t begin_ns, int64_t end_ns, int64_t most_ms,
                                struct dlt_measure *measure)
{
    int64_t took_ns = end_ns - begin_ns, stolen_ns = 0;

    if (took_ns > most_ms * NS_PER_MS && atomic_load(&started_by) == getpid()) {
        steps_await(end_ns);
        stolen_ns = stolen_between(begin_ns, end_ns);
    }
    if (measure != NULL) {
        measure->took_ms = (double)took_ns / NS_PER_MS;
        measure->stolen_ms = (double)stolen_ns / NS_PER_MS;
        (void)snprintf(measure->text, sizeof measure->text,
                       "%.0f ms, of which the machine took %.0f; at most %lld", measure->took_ms,
                       measure->stolen_ms, (long long)most_ms);
    }
    return dlt_ruling(took_ns, stolen_ns, most_ms * NS_PER_MS);
}

int dlt_within(int64_t begin_ns, int64_t most_ms)
{
    enum dlt_ruling ruling = dlt_ruler_judge(begin_ns, now_ns(), most_ms, &last);

    if (ruling == DLT_VOID) {
        (void)printf("# void: %s\n", last.text);
        (void)fflush(stdout);
    }
    return ruling != DLT_LATE;
}

int dlt_took_within(int64_t took_ms, int64_t most_ms)
{
    return dlt_within(now_ns() - took_ms * NS_PER_MS, most_ms);
}

const char *dlt_within_text(void)
{
    return last.text;
}
