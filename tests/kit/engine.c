/* SPDX-License-Identifier: MIT */
#include "engine.h"
#include "hold/run_queue.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define START_NS     (INT64_C(86400) * 1000 * DLT_MS) /* a day after boot */
#define SETTLE_MS    20000
#define SNAPSHOT_MAX 4096

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "engine.c: %s: %s\n", what, why);
    abort();
}

/* ---- the seams ---- */

/*
 * The linker puts these in front of the functions they are named after (see CMakeLists.txt). While
 * the clock stands still, a real timer that is due soon would wake its sleeper over and over; in
 * virtual time there is none, and wake_all() wakes everybody whenever the clock moves.
 */
static _Atomic bool time_is_virtual;

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *new_value,
                           struct itimerspec *old_value);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new_value,
                           struct itimerspec *old_value);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new_value,
                           struct itimerspec *old_value)
{
    static const struct itimerspec never = {{0, 0}, {0, 0}};

    return __real_timerfd_settime(fd, flags, time_is_virtual ? &never : new_value, old_value);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    return time_is_virtual ? pthread_cond_wait(cond, mutex)
                           : __real_pthread_cond_timedwait(cond, mutex, until);
}

/* The engine whose clock pauses count on, and the thread that moves it. */
static struct dlt_engine *_Atomic pausing;
static pthread_t mover;

int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left);

/* The mover itself pauses in real time: nobody else would wake it. */
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left)
{
    struct dlt_engine *engine = pausing;

    if (!time_is_virtual || engine == NULL || pthread_equal(pthread_self(), mover) != 0)
        return __real_clock_nanosleep(clock, flags, time, left);
    dlt_engine_sleep_until(engine,
                           engine->now_ns + time->tv_sec * INT64_C(1000000000) + time->tv_nsec);
    return 0;
}

static int64_t engine_now(void *ctx)
{
    struct dlt_engine *engine = ctx;

    return engine->runs ? dl_clock_now(&dl_clock_boottime) : engine->now_ns;
}

static int kill_open(struct dl_kill_timer *timer)
{
    struct dlt_engine *of = timer->ctx;

    if (of->kill_error == 0)
        of->kill_ns = DL_NEVER;
    return of->kill_error;
}

static void kill_set(struct dl_kill_timer *timer, int64_t at_ns)
{
    struct dlt_engine *of = timer->ctx;

    of->kill_ns = at_ns;
    if (of->kill_of != NULL)
        of->kill_state = dlock_state(of->kill_of);
}

static void kill_close(struct dl_kill_timer *timer)
{
    ((struct dlt_engine *)timer->ctx)->kill_ns = 0;
}

static int engine_random(void *buf, size_t len)
{
    static _Atomic uint64_t count;
    unsigned char *at = buf;

    while (len > 0) {
        uint64_t word = ++count * UINT64_C(0x9E3779B97F4A7C15);
        size_t part = len < sizeof word ? len : sizeof word;

        word ^= word >> 29;
        memcpy(at, &word, part);
        at += part;
        len -= part;
    }
    return 0;
}

static void engine_log(void *arg, enum dlock_log_level level, const char *message)
{
    struct dlt_engine *engine = arg;
    size_t used;

    (void)level;
    (void)pthread_mutex_lock(&engine->mutex);
    used = strlen(engine->log);
    (void)snprintf(engine->log + used, sizeof engine->log - used, "%s\n", message);
    (void)pthread_mutex_unlock(&engine->mutex);
}

static void engine_lost(void *arg, const struct dlock_notice *event)
{
    struct dlt_engine *engine = arg;

    (void)pthread_mutex_lock(&engine->mutex);
    if (engine->loss_count < DLT_LOSSES_MAX) {
        engine->losses[engine->loss_count] = *event;
        engine->loss_ns[engine->loss_count] = engine_now(engine);
    }
    engine->loss_count++;
    (void)pthread_mutex_unlock(&engine->mutex);
    if (engine->own != NULL)
        engine->own(engine, event);
}

/* ---- opening ---- */

enum dlock_status dlt_engine_try_open(struct dlt_engine *engine, const char *store,
                                      const struct dlt_setup *setup, struct dlock_error *err)
{
    static const struct dlt_setup defaults = {.plugin = NULL};
    struct dlock_client_options options = {.struct_size = sizeof options};
    struct dl_host host = {.random = engine_random};
    char uri[512];

    if (setup == NULL)
        setup = &defaults;
    memset(engine, 0, sizeof *engine);
    engine->store = store;
    engine->now_ns = START_NS;
    engine->runs = setup->runs;
    time_is_virtual = !setup->runs;
    engine->own = setup->own;
    (void)pthread_mutex_init(&engine->mutex, NULL);
    (void)pthread_cond_init(&engine->moved, NULL);
    mover = pthread_self();
    pausing = engine;
    options.log = engine_log;
    options.log_arg = engine;
    if (setup->callback) {
        options.on_lost = engine_lost;
        options.on_lost_arg = engine;
    }
    host.clock = (struct dl_clock){engine_now, engine};
    host.kill_timer = (struct dl_kill_timer){
        .open = kill_open, .set = kill_set, .close = kill_close, .ctx = engine};
    (void)snprintf(uri, sizeof uri, "memory://%s%s%s", store, setup->options == NULL ? "" : "?",
                   setup->options == NULL ? "" : setup->options);
    return dl_client_open_static(setup->plugin == NULL ? dlock_plugin_memory_hooked()
                                                       : setup->plugin,
                                 uri, &options, &host, &engine->client, err);
}

void dlt_engine_open(struct dlt_engine *engine, const char *store, const struct dlt_setup *setup)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (dlt_engine_try_open(engine, store, setup, &err) != DLOCK_OK)
        die("open", err.message);
}

struct dlock_client *dlt_engine_rival(struct dlt_engine *engine)
{
    struct dl_host host = {.random = engine_random, .clock = {engine_now, engine}};
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client;
    char uri[512];

    (void)snprintf(uri, sizeof uri, "memory://%s?renew=off&ttl=1h", engine->store);
    if (dl_client_open_static(dlock_plugin_memory_hooked(), uri, NULL, &host, &client, &err) !=
        DLOCK_OK)
        die("open a rival", err.message);
    return client;
}

struct dlock_handle *dlt_rival_hold(struct dlock_client *rival, const char *name,
                                    enum dlock_mode mode)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock = NULL;

    if (dlock_new(rival, name, strlen(name), NULL, &lock, &err) != DLOCK_OK)
        die("dlock_new", err.message);
    if ((mode == DLOCK_SHARED ? dlock_tryrdlock(lock, &err) : dlock_trylock(lock, &err)) !=
        DLOCK_OK)
        die("a rival's lock", err.message);
    return lock;
}

void dlt_engine_close(struct dlt_engine *engine)
{
    dlock_client_close(engine->client); /* NULL is fine */
    engine->client = NULL;
    pausing = NULL;
    (void)pthread_cond_destroy(&engine->moved);
    (void)pthread_mutex_destroy(&engine->mutex);
}

struct dlock_handle *dlt_engine_lock(struct dlt_engine *engine, const char *name,
                                     const struct dlock_options *options)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock = NULL;

    if (dlock_new(engine->client, name, strlen(name), options, &lock, &err) != DLOCK_OK)
        die("dlock_new", err.message);
    return lock;
}

/* ---- time ---- */

/* State and switches of one thread. false: it runs. */
static bool thread_asleep(const char *tid, char *text, size_t size)
{
    char path[300];
    char *state, *switches;
    ssize_t len;
    int file;

    (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", tid);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false; /* just ended */
    len = read(file, text, size - 1);
    (void)close(file);
    if (len < 0)
        return false;
    text[len] = '\0';
    state = strstr(text, "State:\t");
    switches = strstr(text, "voluntary_ctxt_switches:");
    if (state == NULL || switches == NULL || state[7] != 'S')
        return false;
    memmove(text, switches, strlen(switches) + 1);
    return true;
}

/* What the other threads have done so far, as text. false: one of them runs. */
static bool threads_asleep(char *all, size_t size)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    bool asleep = true;
    char own[16], text[4096];
    size_t used = 0;

    if (dir == NULL)
        die("settle", "no /proc/self/task");
    (void)snprintf(own, sizeof own, "%ld", (long)gettid());
    all[0] = '\0';
    while (asleep && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, own) == 0)
            continue;
        asleep = thread_asleep(entry->d_name, text, sizeof text);
        used += (size_t)snprintf(all + used, size - used, "%s %s", entry->d_name, text);
        if (used >= size)
            die("settle", "too many threads");
    }
    (void)closedir(dir);
    return asleep;
}

void dlt_settle(void)
{
    char before[SNAPSHOT_MAX], after[SNAPSHOT_MAX];
    int64_t give_up_ns = dl_clock_now(&dl_clock_boottime) + SETTLE_MS * DLT_MS;

    while (dl_clock_now(&dl_clock_boottime) < give_up_ns) {
        if (threads_asleep(before, sizeof before) && threads_asleep(after, sizeof after) &&
            strcmp(before, after) == 0)
            return;
        (void)sched_yield();
    }
    die("settle", "some thread runs all the time");
}

static void fifo_wake(const struct dl_wait_fifo *fifo)
{
    for (struct dl_wait_fifo_waiter *w = fifo->first; w != NULL; w = w->next) {
        (void)pthread_mutex_lock(&w->mutex);
        (void)pthread_cond_signal(&w->served_changed);
        (void)pthread_mutex_unlock(&w->mutex);
    }
}

static void line_wake(struct dl_wait_combine *line)
{
    (void)pthread_mutex_lock(&line->mutex);
    fifo_wake(&line->fifo);
    (void)pthread_mutex_unlock(&line->mutex);
}

/* Whoever sleeps on the clock looks at it again. */
static void wake_all(struct dlt_engine *engine)
{
    struct dlock_client *client = engine->client;

    (void)pthread_mutex_lock(&client->mutex);
    dl_renew_schedule_wake_locked(client);
    for (struct dlock_handle *lock = client->locks; lock != NULL; lock = lock->next)
        dl_handle_changed_locked(lock);
    for (unsigned i = 0; client->run_queue != NULL && i < DL_RUN_THREADS; i++)
        (void)pthread_cond_broadcast(&client->run_queue->work[i]);
    (void)pthread_mutex_lock(&client->pool.mutex);
    (void)pthread_cond_broadcast(&client->pool.connected_changed);
    (void)pthread_cond_broadcast(&client->call_ended);
    for (int use = 0; use < DL_USE_COUNT; use++)
        fifo_wake(&client->pool.fifo[use]);
    (void)pthread_mutex_unlock(&client->pool.mutex);
    line_wake(&client->tries);
    line_wake(&client->releases);
    (void)pthread_mutex_unlock(&client->mutex); /* with it held, nobody can close the client */
    memory_hooks_wake(engine->store);
}

/* The threads have settled before. */
static void engine_step(struct dlt_engine *engine, int64_t ms)
{
    (void)pthread_mutex_lock(&engine->mutex);
    engine->now_ns += ms * DLT_MS;
    (void)pthread_cond_broadcast(&engine->moved);
    (void)pthread_mutex_unlock(&engine->mutex);
    if (engine->client != NULL)
        wake_all(engine);
    dlt_settle();
}

void dlt_engine_advance(struct dlt_engine *engine, int64_t ms)
{
    dlt_settle();
    engine_step(engine, ms);
}

void dlt_engine_sleep_until(struct dlt_engine *engine, int64_t until_ns)
{
    (void)pthread_mutex_lock(&engine->mutex);
    while (engine->now_ns < until_ns)
        (void)pthread_cond_wait(&engine->moved, &engine->mutex);
    (void)pthread_mutex_unlock(&engine->mutex);
}

void dlt_engine_run(struct dlt_engine *engine, int64_t ms)
{
    dlt_settle();
    while (ms-- > 0)
        engine_step(engine, 1);
}

int64_t dlt_engine_ms(struct dlt_engine *engine)
{
    return (engine->now_ns - START_NS) / DLT_MS;
}

unsigned dlt_engine_losses(struct dlt_engine *engine)
{
    unsigned count;

    (void)pthread_mutex_lock(&engine->mutex);
    count = engine->loss_count;
    (void)pthread_mutex_unlock(&engine->mutex);
    return count;
}

int dlt_engine_logged(struct dlt_engine *engine, const char *text)
{
    int found;

    (void)pthread_mutex_lock(&engine->mutex);
    found = strstr(engine->log, text) != NULL;
    (void)pthread_mutex_unlock(&engine->mutex);
    return found;
}

/* ---- calls ---- */

static enum dlock_status call_make(struct dlt_call *call)
{
    switch (call->kind) {
    case DLT_LOCK:
        return dlock_lock(call->lock, &call->err);
    case DLT_TRYLOCK:
        return dlock_trylock(call->lock, &call->err);
    case DLT_TIMEDLOCK:
        return dlock_timedlock(call->lock, call->arg, &call->err);
    case DLT_RDLOCK:
        return dlock_rdlock(call->lock, &call->err);
    case DLT_DOWNGRADE:
        return dlock_downgrade(call->lock, &call->err);
    case DLT_UNLOCK:
        return dlock_unlock(call->lock, &call->err);
    case DLT_RENEW:
        return dlock_renew(call->lock, call->arg, &call->err);
    case DLT_FREE:
        dlock_free(call->lock);
        return DLOCK_OK;
    case DLT_CLOSE:
        dlock_client_close(call->engine->client);
        call->engine->client = NULL;
        return DLOCK_OK;
    }
    return DLOCK_INTERNAL;
}

static void *call_main(void *arg)
{
    struct dlt_call *call = arg;

    call->status = call_make(call);
    call->end_ns = engine_now(call->engine);
    call->done = 1;
    return NULL;
}

void dlt_call_start(struct dlt_call *call, struct dlt_engine *engine, enum dlt_kind kind,
                    struct dlock_handle *lock, int64_t arg)
{
    memset(call, 0, sizeof *call);
    call->engine = engine;
    call->lock = lock;
    call->kind = kind;
    call->arg = arg;
    call->status = DLT_STUCK;
    call->start_ns = engine_now(engine);
    if (pthread_create(&call->thread, NULL, call_main, call) != 0)
        die("pthread_create", "failed");
    if (!engine->runs)
        dlt_settle();
}

enum dlock_status dlt_call_finish(struct dlt_call *call, int64_t most_ms)
{
    if (!call->engine->runs)
        dlt_settle();
    while (!call->engine->runs && !call->done && most_ms-- > 0)
        engine_step(call->engine, 1);
    if (!call->engine->runs && !call->done)
        return DLT_STUCK;
    (void)pthread_join(call->thread, NULL);
    return call->status;
}

int64_t dlt_call_ms(const struct dlt_call *call)
{
    return (call->end_ns - call->start_ns) / DLT_MS;
}

enum dlock_status dlt_do(struct dlt_engine *engine, enum dlt_kind kind, struct dlock_handle *lock,
                         int64_t arg)
{
    struct dlt_call call;

    dlt_call_start(&call, engine, kind, lock, arg);
    return dlt_call_finish(&call, 60000);
}

/* ---- the store ---- */

void dlt_fault(struct dlt_engine *engine, enum memory_slot slot, enum memory_fault_kind kind,
               struct memory_fault more)
{
    more.kind = kind;
    if (memory_hooks_fault(engine->store, slot, &more) != 0)
        die("fault", "too many");
}

unsigned dlt_calls(struct dlt_engine *engine, enum memory_slot slot)
{
    return memory_hooks_calls(engine->store, slot);
}

static bool owner_take(void *arg, const struct dlock_holder *info)
{
    char *hex = arg;

    (void)snprintf(hex, DLOCK_TOKEN_CHARS, "%s", info->owner);
    return 0;
}

const char *dlt_owner(struct dlt_engine *engine, const char *name, char hex[DLOCK_TOKEN_CHARS])
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    hex[0] = '\0';
    if (dlock_client_inspect(engine->client, name, strlen(name), owner_take, hex, &err) != DLOCK_OK)
        die("inspect", err.message);
    return hex;
}
