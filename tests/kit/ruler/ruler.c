/* SPDX-License-Identifier: MIT */
#include "ruler.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  (1000 * NS_PER_MS)
#define STEP_MS   5
#define STALL_NS  (100 * NS_PER_MS)
#define STEPS     65536 /* five minutes */
#define SILENT_MS 20000 /* somebody has killed it */

/* The sampler is a copy of a process that may have threads, and sanitizers with locks of their own:
 * it makes system calls, and calls nothing that a sanitizer or a shim has replaced. */
#define IN_SAMPLER __attribute__((no_sanitize("address", "thread", "undefined")))

/* late_ns: of this step; the rest is of all steps up to it. */
struct step {
    int64_t at_ns, late_ns, stalls_ns, pressure_ns;
};

/* The sampler writes, the starter and its forked children read. */
struct board {
    pid_t group; /* of the starter */
    _Atomic int has_ended;
    _Atomic uint64_t count;
    struct step steps[STEPS];
};

static struct board *_Atomic board;
static long sampler_pid; /* of dlt_ruler_start */
static pid_t starter_pid;

IN_SAMPLER static int64_t now_ns(void)
{
    struct timespec ts = {0};

    (void)syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* Some task waited for a processor: nanoseconds since the machine began; -1 where the kernel does
 * not count. */
IN_SAMPLER static int64_t pressure_ns(int fd)
{
    char text[128];
    int64_t us = 0;
    long got = syscall(SYS_pread64, fd, text, sizeof text, 0L), at = 0;

    while (at < got && text[at] != '\n' && text[at] != 't')
        at++;
    for (at += 6; at < got && text[at] >= '0' && text[at] <= '9'; at++) /* "total=" */
        us = us * 10 + text[at] - '0';
    return at < got ? us * 1000 : -1;
}

IN_SAMPLER static void step_add(struct board *to, struct step step)
{
    uint64_t n = atomic_load(&to->count);

    to->steps[n % STEPS] = step;
    atomic_store(&to->count, n + 1);
}

/* The state in /proc/PID/stat: "PID (name) T ...". */
IN_SAMPLER static bool is_stopped(int fd)
{
    char text[64];
    long at = syscall(SYS_pread64, fd, text, sizeof text, 0L) - 3;

    while (at >= 0 && text[at] != ')')
        at--;
    return at >= 0 && (text[at + 2] == 'T' || text[at + 2] == 't');
}

struct watched {
    int starter, state, pressure; /* a pidfd, /proc/PID/stat, /proc/pressure/cpu */
};

/* Sleeps again and again, until the starter has ended. While it is stopped the sampler is late. */
IN_SAMPLER static void watch(struct board *to, struct step step, const struct watched *fds)
{
    int64_t before = pressure_ns(fds->pressure), awake_ns = step.at_ns;
    struct pollfd end = {.fd = fds->starter, .events = POLLIN};

    while (end.revents == 0) {
        int64_t due_ns = step.at_ns + STEP_MS * NS_PER_MS, more = 0;
        struct timespec pause = {0, STEP_MS * NS_PER_MS};
        bool stopped = false;

        (void)syscall(SYS_ppoll, &end, 1, &pause, NULL, 8);
        step.at_ns = now_ns();
        step.late_ns = step.at_ns > due_ns ? step.at_ns - due_ns : 0;
        stopped = is_stopped(fds->state);
        if (stopped || step.late_ns >= STALL_NS)
            step.stalls_ns += step.at_ns - due_ns + STEP_MS * NS_PER_MS;
        if (stopped)
            step.late_ns = step.at_ns - awake_ns;
        else
            awake_ns = step.at_ns;
        more = pressure_ns(fds->pressure);
        step.pressure_ns += more > before && before >= 0 ? more - before : 0;
        before = more;
        step_add(to, step);
    }
}

IN_SAMPLER static int stat_open(pid_t pid)
{
    char full[32] = "/proc/", number[11];
    size_t digits = 0, at = 6;

    for (; pid > 0; pid /= 10)
        number[digits++] = (char)('0' + pid % 10);
    while (digits > 0)
        full[at++] = number[--digits];
    for (const char *tail = "/stat"; *tail != '\0'; tail++)
        full[at++] = *tail;
    full[at] = '\0';
    return (int)syscall(SYS_openat, AT_FDCWD, full, O_RDONLY);
}

/* A copy of the starter with none of its descriptors: nothing that the starter closes stays open.
 * In a group of its own: when a starter that has gone to another group ends, the kernel sends
 * SIGHUP to the group of a child that stayed behind, if a process there is stopped. */
IN_SAMPLER static void sample(struct board *to, pid_t starter)
{
    struct step first = to->steps[0];
    struct watched fds;

    (void)syscall(SYS_setpgid, 0, 0);
    (void)syscall(SYS_close_range, 0U, ~0U, 0U);
    fds.starter = (int)syscall(SYS_pidfd_open, starter, 0);
    fds.pressure = (int)syscall(SYS_openat, AT_FDCWD, "/proc/pressure/cpu", O_RDONLY);
    fds.state = stat_open(starter);
    (void)syscall(SYS_prctl, PR_SET_NAME, "ruler", 0, 0, 0);
    if (fds.starter >= 0)
        watch(to, first, &fds);
    atomic_store(&to->has_ended, 1);
    (void)syscall(SYS_exit_group, 0);
}

/* No exit signal: no wait of the starter, and no handler of SIGCHLD, sees the sampler. */
IN_SAMPLER static long sampler_start(struct board *to, pid_t starter)
{
    uint64_t all = ~UINT64_C(0), old = 0;
    long pid = 0;

    to->group = (pid_t)syscall(SYS_getpgid, 0);
    to->steps[0].at_ns = now_ns();
    atomic_store(&to->count, 1);
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof all);
    pid = syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
    if (pid == 0)
        sample(to, starter);
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
    if (pid < 0)
        atomic_store(&to->has_ended, 1);
    else
        (void)syscall(SYS_setpgid, pid, 0); /* the starter may end before the sampler does that */
    return pid;
}

static struct board *board_map(int fd)
{
    void *map = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE,
                     MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

    return map == MAP_FAILED ? NULL : map;
}

void dlt_ruler_start(void)
{
    struct board *before = atomic_load(&board), *made = NULL;
    int number = errno;

    if (before != NULL && !atomic_load(&before->has_ended) && before->group == getpgrp())
        return;
    made = board_map(-1);
    if (made != NULL && atomic_compare_exchange_strong(&board, &before, made)) {
        starter_pid = getpid();
        sampler_pid = sampler_start(made, starter_pid);
    } else if (made != NULL) {
        (void)munmap(made, sizeof *made);
    }
    errno = number;
}

/* Where nobody reaps orphans, samplers would pile up. */
__attribute__((destructor)) static void sampler_end(void)
{
    if (sampler_pid <= 0 || starter_pid != getpid())
        return;
    (void)kill((pid_t)sampler_pid, SIGKILL);
    (void)syscall(SYS_wait4, sampler_pid, NULL, __WALL, NULL);
}

int dlt_ruler_open(const char *path, pid_t starter)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | (starter > 0 ? O_CREAT | O_EXCL : 0), 0600);
    struct board *map = NULL;

    if (fd >= 0 && (starter == 0 || ftruncate(fd, sizeof *map) == 0))
        map = board_map(fd);
    if (fd >= 0)
        (void)close(fd);
    if (map != NULL && starter > 0)
        (void)sampler_start(map, starter);
    atomic_store(&board, map);
    return map != NULL;
}

int64_t dlt_ruler_now_ns(void)
{
    return now_ns();
}

/* The first step that is not before at_ns, or else the last one. */
static uint64_t step_at(const struct board *from, int64_t at_ns)
{
    uint64_t end = atomic_load(&from->count) - 1, begin = end > STEPS / 2 ? end - STEPS / 2 : 0;

    while (begin < end) {
        uint64_t middle = begin + (end - begin) / 2;

        if (from->steps[middle % STEPS].at_ns < at_ns)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* Until the sampler has made a step at or after at_ns, which it does as soon as it can run; not
 * for ever: its starter may have ended, or somebody may have killed it. */
static void steps_await(const struct board *from, int64_t at_ns)
{
    const struct timespec pause = {0, NS_PER_MS};

    for (int ms = 0; ms < SILENT_MS && !atomic_load(&from->has_ended); ms++) {
        uint64_t n = atomic_load(&from->count);

        if (from->steps[(n - 1) % STEPS].at_ns >= at_ns)
            return;
        (void)nanosleep(&pause, NULL);
    }
}

static int64_t stolen_between(const struct board *from, int64_t begin_ns, int64_t end_ns)
{
    uint64_t begin = 0, end = 0;
    const struct step *first = NULL, *last = NULL;
    int64_t late_ns = 0;

    steps_await(from, end_ns);
    begin = step_at(from, begin_ns);
    end = step_at(from, end_ns);
    first = &from->steps[begin % STEPS];
    last = &from->steps[end % STEPS];
    for (uint64_t n = begin; n <= end; n++) {
        if (from->steps[n % STEPS].late_ns > late_ns)
            late_ns = from->steps[n % STEPS].late_ns;
    }
    return dlt_ruler_stolen(late_ns, last->stalls_ns - first->stalls_ns,
                            last->pressure_ns - first->pressure_ns);
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
    const struct board *from = atomic_load(&board);
    int64_t took_ns = end_ns - begin_ns, stolen_ns = 0;

    if (took_ns > most_ms * NS_PER_MS && from != NULL)
        stolen_ns = stolen_between(from, begin_ns, end_ns);
    if (measure != NULL) {
        measure->took_ms = (double)took_ns / NS_PER_MS;
        measure->stolen_ms = (double)stolen_ns / NS_PER_MS;
        (void)snprintf(measure->text, sizeof measure->text,
                       "%.0f ms, of which the machine took %.0f; at most %lld", measure->took_ms,
                       measure->stolen_ms, (long long)most_ms);
    }
    return dlt_ruling(took_ns, stolen_ns, most_ms * NS_PER_MS);
}
