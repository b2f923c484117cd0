/* SPDX-License-Identifier: MIT */
/* The descriptors, clocks and chance of threads.h. */
#include "threads.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>

#define FD_FIRST 100000
#define FD_MOST  256

struct file {
    bool open, timer;
    uint64_t count;            /* of an event descriptor */
    int64_t at_ns;             /* of a timer */
    struct sim_fiber *sleeper; /* one at most polls it */
    struct sim_host *host;
};

static struct file files[FD_MOST];

#define WRAP(name) __wrap_##name
#define REAL(name) __real_##name

int REAL(eventfd)(unsigned count, int flags);
int REAL(eventfd_read)(int fd, eventfd_t *value);
int REAL(eventfd_write)(int fd, eventfd_t value);
int REAL(timerfd_create)(clockid_t clock, int flags);
int REAL(timerfd_settime)(int fd, int flags, const struct itimerspec *new_value,
                          struct itimerspec *old_value);
int REAL(poll)(struct pollfd *fds, nfds_t n, int timeout_ms);
int REAL(close)(int fd);
ssize_t REAL(getrandom)(void *buf, size_t len, unsigned flags);
int REAL(clock_gettime)(clockid_t id, struct timespec *now);
int REAL(clock_nanosleep)(clockid_t id, int flags, const struct timespec *request,
                          struct timespec *left);

int WRAP(eventfd)(unsigned count, int flags);
int WRAP(eventfd_read)(int fd, eventfd_t *value);
int WRAP(eventfd_write)(int fd, eventfd_t value);
int WRAP(timerfd_create)(clockid_t clock, int flags);
int WRAP(timerfd_settime)(int fd, int flags, const struct itimerspec *new_value,
                          struct itimerspec *old_value);
int WRAP(poll)(struct pollfd *fds, nfds_t n, int timeout_ms);
int WRAP(close)(int fd);
ssize_t WRAP(getrandom)(void *buf, size_t len, unsigned flags);
int WRAP(clock_gettime)(clockid_t id, struct timespec *now);
int WRAP(clock_nanosleep)(clockid_t id, int flags, const struct timespec *request,
                          struct timespec *left);

static struct file *file_of(int fd)
{
    if (fd < FD_FIRST || fd >= FD_FIRST + FD_MOST || !files[fd - FD_FIRST].open)
        return NULL;
    return &files[fd - FD_FIRST];
}

/* The same, of one that is simulated. */
static struct file *file_known(int fd)
{
    struct file *file = file_of(fd);

    if (file == NULL)
        abort();
    return file;
}

static int file_open(bool timer)
{
    for (int i = 0; i < FD_MOST; i++)
        if (!files[i].open) {
            files[i] = (struct file){
                .open = true, .timer = timer, .at_ns = SIM_NEVER, .host = sim_self_host()};
            return FD_FIRST + i;
        }
    errno = EMFILE;
    return -1;
}

static bool readable(const struct file *file)
{
    return file->timer ? file->at_ns <= sim_now() : file->count > 0;
}

int WRAP(eventfd)(unsigned count, int flags)
{
    return sim_fiber_self() == NULL ? REAL(eventfd)(count, flags) : file_open(false);
}

int WRAP(eventfd_read)(int fd, eventfd_t *value)
{
    struct file *file = file_of(fd);

    if (file == NULL)
        return REAL(eventfd_read)(fd, value);
    *value = file->count;
    file->count = 0;
    return *value > 0 ? 0 : -1;
}

int WRAP(eventfd_write)(int fd, eventfd_t value)
{
    struct file *file = file_of(fd);

    if (file == NULL)
        return REAL(eventfd_write)(fd, value);
    file->count += value;
    if (file->sleeper != NULL)
        sim_wake(file->sleeper);
    return 0;
}

int WRAP(timerfd_create)(clockid_t clock, int flags)
{
    return sim_fiber_self() == NULL ? REAL(timerfd_create)(clock, flags) : file_open(true);
}

int WRAP(timerfd_settime)(int fd, int flags, const struct itimerspec *new_value,
                          struct itimerspec *old_value)
{
    struct file *file = file_of(fd);
    int64_t left_ns =
        (int64_t)new_value->it_value.tv_sec * 1000000000 + new_value->it_value.tv_nsec;

    if (file == NULL)
        return REAL(timerfd_settime)(fd, flags, new_value, old_value);
    file->at_ns = SIM_NEVER;
    if (left_ns > 0)
        file->at_ns = sim_host_to_sim(file->host, sim_host_now(file->host) + left_ns);
    return 0;
}

/* The earliest moment at which one is readable as far as is known; 0: one is. */
static int64_t readable_at(const struct pollfd *fds, nfds_t n)
{
    int64_t at_ns = SIM_NEVER;

    for (nfds_t i = 0; i < n; i++) {
        const struct file *file = file_known(fds[i].fd);

        if (readable(file))
            return 0;
        if (file->timer && file->at_ns < at_ns)
            at_ns = file->at_ns;
    }
    return at_ns;
}

int WRAP(poll)(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    int64_t until_ns = timeout_ms < 0 ? SIM_NEVER : sim_now() + timeout_ms * SIM_MS;
    int ready = 0;

    if (n == 0 || file_of(fds[0].fd) == NULL)
        return REAL(poll)(fds, n, timeout_ms);
    for (nfds_t i = 0; i < n; i++)
        file_known(fds[i].fd)->sleeper = sim_fiber_self();
    while (sim_now() < until_ns) {
        int64_t at_ns = readable_at(fds, n);

        if (at_ns == 0)
            break;
        (void)sim_block(at_ns < until_ns ? at_ns : until_ns);
    }
    for (nfds_t i = 0; i < n; i++) {
        struct file *file = file_known(fds[i].fd);

        file->sleeper = NULL;
        fds[i].revents = readable(file) ? POLLIN : 0;
        ready += fds[i].revents != 0;
    }
    return ready;
}

void sim_await_readable(int fd, int64_t until_ns)
{
    struct file *file = file_known(fd);

    file->sleeper = sim_fiber_self();
    if (!readable(file))
        (void)sim_block(until_ns);
    file->sleeper = NULL;
}

int WRAP(close)(int fd)
{
    struct file *file = file_of(fd);

    if (file == NULL)
        return REAL(close)(fd);
    if (file->sleeper != NULL)
        sim_set_misuse("a descriptor was closed while somebody polled it");
    file->open = false;
    return 0;
}

int WRAP(clock_gettime)(clockid_t id, struct timespec *now)
{
    int64_t now_ns;

    if (sim_fiber_self() == NULL)
        return REAL(clock_gettime)(id, now);
    now_ns = sim_host_now(sim_self_host());
    now->tv_sec = (time_t)(now_ns / 1000000000);
    now->tv_nsec = (long)(now_ns % 1000000000);
    return 0;
}

int WRAP(clock_nanosleep)(clockid_t id, int flags, const struct timespec *request,
                          struct timespec *left)
{
    if (sim_fiber_self() == NULL)
        return REAL(clock_nanosleep)(id, flags, request, left);
    sim_pause((int64_t)request->tv_sec * 1000000000 + request->tv_nsec);
    return 0;
}

ssize_t WRAP(getrandom)(void *buf, size_t len, unsigned flags)
{
    unsigned char *at = buf;

    if (sim_fiber_self() == NULL)
        return REAL(getrandom)(buf, len, flags);
    for (size_t i = 0; i < len; i++)
        at[i] = (unsigned char)(sim_random() >> 24);
    return (ssize_t)len;
}
