/* SPDX-License-Identifier: MIT */
#include "threads.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Waits in line, on the stack of its fiber. */
struct sleeper {
    struct sim_fiber *fiber;
    struct sleeper *next;
    bool called;
};

struct line {
    struct sleeper *first;
};

/* In the memory of a pthread_mutex_t or pthread_cond_t; all zero is what an initialiser leaves. */
struct mutex {
    struct sim_fiber *owner;
    struct line line;
    bool destroyed;
};

struct cond {
    struct line line;
    bool destroyed;
};

_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "a mutex of ours fits in");
_Static_assert(sizeof(struct cond) <= sizeof(pthread_cond_t), "a condition of ours fits in");

static struct {
    int64_t (*now_ns)(struct sim_host *host);
    int64_t (*to_sim)(struct sim_host *host, int64_t host_ns);
    unsigned spurious;
    const char *misuse;
} sim;

static char library_thread;

/* ---- the rest of the simulation asks ---- */

struct sim_host *sim_self_host(void)
{
    struct sim_fiber *self = sim_fiber_self();

    return self == NULL ? NULL : sim_fiber_host(self);
}

void sim_set_clock(int64_t (*now_ns)(struct sim_host *host),
                   int64_t (*to_sim)(struct sim_host *host, int64_t host_ns))
{
    sim.now_ns = now_ns;
    sim.to_sim = to_sim;
}

int64_t sim_host_now(struct sim_host *host)
{
    return host == NULL ? sim_now() : sim.now_ns(host);
}

int64_t sim_host_to_sim(struct sim_host *host, int64_t host_ns)
{
    return host == NULL || host_ns == SIM_NEVER ? host_ns : sim.to_sim(host, host_ns);
}

bool sim_is_library_thread(void)
{
    return sim_fiber_mark(sim_fiber_self()) == &library_thread;
}

void sim_set_spurious(unsigned per_million)
{
    sim.spurious = per_million;
}

const char *sim_misuse(void)
{
    return sim.misuse;
}

void sim_set_misuse(const char *what)
{
    if (sim.misuse == NULL || what == NULL)
        sim.misuse = what;
}

/* ---- lines ---- */

static void line_join(struct line *line, struct sleeper *sleeper)
{
    struct sleeper **link = &line->first;

    while (*link != NULL)
        link = &(*link)->next;
    sleeper->next = NULL;
    *link = sleeper;
}

static void line_leave(struct line *line, const struct sleeper *sleeper)
{
    struct sleeper **link = &line->first;

    while (*link != NULL && *link != sleeper)
        link = &(*link)->next;
    if (*link != NULL)
        *link = sleeper->next;
}

static struct sleeper *line_call(struct line *line)
{
    struct sleeper *first = line->first;

    if (first == NULL)
        return NULL;
    line->first = first->next;
    first->called = true;
    sim_wake(first->fiber);
    return first;
}

/* ---- mutexes ---- */

#define WRAP(name) __wrap_##name
#define REAL(name) __real_##name

int REAL(pthread_mutex_init)(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int REAL(pthread_mutex_lock)(pthread_mutex_t *mutex);
int REAL(pthread_mutex_unlock)(pthread_mutex_t *mutex);
int REAL(pthread_mutex_destroy)(pthread_mutex_t *mutex);
int REAL(pthread_cond_init)(pthread_cond_t *cond, const pthread_condattr_t *attr);
int REAL(pthread_cond_destroy)(pthread_cond_t *cond);
int REAL(pthread_cond_wait)(pthread_cond_t *cond, pthread_mutex_t *mutex);
int REAL(pthread_cond_timedwait)(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                 const struct timespec *until);
int REAL(pthread_cond_broadcast)(pthread_cond_t *cond);
int REAL(pthread_create)(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *),
                         void *arg);
int REAL(pthread_join)(pthread_t thread, void **result);
pthread_t REAL(pthread_self)(void);
int REAL(pthread_sigmask)(int how, const sigset_t *set, sigset_t *before);

int WRAP(pthread_mutex_init)(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int WRAP(pthread_mutex_lock)(pthread_mutex_t *mutex);
int WRAP(pthread_mutex_unlock)(pthread_mutex_t *mutex);
int WRAP(pthread_mutex_destroy)(pthread_mutex_t *mutex);
int WRAP(pthread_cond_init)(pthread_cond_t *cond, const pthread_condattr_t *attr);
int WRAP(pthread_cond_destroy)(pthread_cond_t *cond);
int WRAP(pthread_cond_wait)(pthread_cond_t *cond, pthread_mutex_t *mutex);
int WRAP(pthread_cond_timedwait)(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                 const struct timespec *until);
int WRAP(pthread_cond_broadcast)(pthread_cond_t *cond);
int WRAP(pthread_create)(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *),
                         void *arg);
int WRAP(pthread_join)(pthread_t thread, void **result);
pthread_t WRAP(pthread_self)(void);
int WRAP(pthread_sigmask)(int how, const sigset_t *set, sigset_t *before);

static struct mutex *mutex_of(pthread_mutex_t *mutex)
{
    return (struct mutex *)(void *)mutex;
}

static struct cond *cond_of(pthread_cond_t *cond)
{
    return (struct cond *)(void *)cond;
}

/* First come, first served: the order of calls is the order of what they do. */
static void mutex_take(struct mutex *mutex)
{
    struct sleeper self = {.fiber = sim_fiber_self()};

    if (mutex->destroyed)
        sim_set_misuse("a mutex was locked after its end");
    if (mutex->owner == self.fiber)
        sim_set_misuse("a thread locked a mutex twice");
    if (mutex->owner == NULL) {
        mutex->owner = self.fiber;
        return;
    }
    line_join(&mutex->line, &self);
    while (!self.called)
        (void)sim_block(SIM_NEVER);
}

static void mutex_give(struct mutex *mutex)
{
    struct sleeper *next;

    if (mutex->owner != sim_fiber_self())
        sim_set_misuse("a mutex was unlocked by a thread that did not hold it");
    next = line_call(&mutex->line);
    mutex->owner = next == NULL ? NULL : next->fiber;
}

bool sim_mutex_held(const pthread_mutex_t *mutex)
{
    return ((const struct mutex *)(const void *)mutex)->owner != NULL;
}

int WRAP(pthread_mutex_init)(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
    if (sim_fiber_self() == NULL)
        return REAL(pthread_mutex_init)(mutex, attr);
    *mutex_of(mutex) = (struct mutex){0};
    return 0;
}

int WRAP(pthread_mutex_lock)(pthread_mutex_t *mutex)
{
    if (sim_fiber_self() == NULL)
        return REAL(pthread_mutex_lock)(mutex);
    mutex_take(mutex_of(mutex));
    sim_yield();
    return 0;
}

int WRAP(pthread_mutex_unlock)(pthread_mutex_t *mutex)
{
    if (sim_fiber_self() == NULL)
        return REAL(pthread_mutex_unlock)(mutex);
    mutex_give(mutex_of(mutex));
    sim_yield();
    return 0;
}

int WRAP(pthread_mutex_destroy)(pthread_mutex_t *mutex)
{
    if (sim_fiber_self() == NULL)
        return REAL(pthread_mutex_destroy)(mutex);
    if (mutex_of(mutex)->owner != NULL)
        sim_set_misuse("a mutex was destroyed while somebody held it");
    mutex_of(mutex)->destroyed = true;
    return 0;
}

/* ---- conditions ---- */

int WRAP(pthread_cond_init)(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    if (sim_fiber_self() == NULL)
        return REAL(pthread_cond_init)(cond, attr);
    memset(cond, 0, sizeof *cond);
    return 0;
}

int WRAP(pthread_cond_destroy)(pthread_cond_t *cond)
{
    if (sim_fiber_self() == NULL)
        return REAL(pthread_cond_destroy)(cond);
    if (cond_of(cond)->line.first != NULL)
        sim_set_misuse("a condition was destroyed while somebody waited");
    cond_of(cond)->destroyed = true;
    return 0;
}

/* true: called, or woken for no reason. */
static bool cond_wait(struct cond *cond, struct mutex *mutex, int64_t until_ns)
{
    struct sleeper self = {.fiber = sim_fiber_self()};
    int64_t early_ns = SIM_NEVER;

    if (cond->destroyed)
        sim_set_misuse("a condition was waited for after its end");
    if (sim_chance(sim.spurious))
        early_ns = sim_now() + sim_between(1, 10 * SIM_MS);
    line_join(&cond->line, &self);
    mutex_give(mutex);
    (void)sim_block(early_ns < until_ns ? early_ns : until_ns);
    if (!self.called)
        line_leave(&cond->line, &self);
    mutex_take(mutex);
    return self.called || early_ns < until_ns;
}

int WRAP(pthread_cond_wait)(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    if (sim_fiber_self() == NULL)
        return REAL(pthread_cond_wait)(cond, mutex);
    (void)cond_wait(cond_of(cond), mutex_of(mutex), SIM_NEVER);
    return 0;
}

int WRAP(pthread_cond_timedwait)(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                 const struct timespec *until)
{
    int64_t until_ns;

    if (sim_fiber_self() == NULL)
        return REAL(pthread_cond_timedwait)(cond, mutex, until);
    until_ns = (int64_t)until->tv_sec * 1000000000 + until->tv_nsec;
    until_ns = sim_host_to_sim(sim_self_host(), until_ns);
    return cond_wait(cond_of(cond), mutex_of(mutex), until_ns) ? 0 : ETIMEDOUT;
}

int WRAP(pthread_cond_broadcast)(pthread_cond_t *cond)
{
    if (sim_fiber_self() == NULL)
        return REAL(pthread_cond_broadcast)(cond);
    if (cond_of(cond)->destroyed)
        sim_set_misuse("a condition was signalled after its end");
    while (line_call(&cond_of(cond)->line) != NULL)
        continue;
    return 0;
}

/* ---- threads ---- */

struct start {
    void *(*main)(void *);
    void *arg;
};

static void thread_main(void *arg)
{
    struct start start = *(struct start *)arg;

    free(arg);
    (void)start.main(start.arg);
}

int WRAP(pthread_create)(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *),
                         void *arg)
{
    struct start *start;
    struct sim_fiber *fiber;

    if (sim_fiber_self() == NULL)
        return REAL(pthread_create)(thread, attr, main, arg);
    start = malloc(sizeof *start);
    if (start == NULL)
        return EAGAIN;
    *start = (struct start){main, arg};
    fiber = sim_fiber_start(sim_self_host(), false, thread_main, start);
    sim_fiber_set_mark(fiber, &library_thread);
    *thread = (pthread_t)fiber;
    return 0;
}

int WRAP(pthread_join)(pthread_t thread, void **result)
{
    if (sim_fiber_self() == NULL)
        return REAL(pthread_join)(thread, result);
    sim_fiber_join((struct sim_fiber *)thread);
    return 0;
}

pthread_t WRAP(pthread_self)(void)
{
    struct sim_fiber *self = sim_fiber_self();

    return self == NULL ? REAL(pthread_self)() : (pthread_t)self;
}

int WRAP(pthread_sigmask)(int how, const sigset_t *set, sigset_t *before)
{
    return sim_fiber_self() == NULL ? REAL(pthread_sigmask)(how, set, before) : 0;
}
