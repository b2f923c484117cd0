/* SPDX-License-Identifier: MIT */
/* Tests: core/api/api.c */
/*
 * What does a forked child get from the client of its parent (C10)? Each function of dlock.h is
 * asked; so is a child that was forked while other threads held whatever mutex there is.
 */
#include "engine.h"
#include "hold/handle.h"
#include "hold/operation.h"
#include "hold/run_queue.h"
#include "notices.h"
#include "tap.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_S 20 /* a child that hangs is killed by its alarm */

static struct dlt_engine engine;
static struct dlock_handle *held, *waiting, *started;
static struct dlock_handle
    *rivals; /* waited for: of another client, so that we wait in the store */

/* Slots called in this process but close(forked). */
static _Atomic unsigned slot_calls, forked_closes;
static struct dlock_plugin plugin;
static struct dlock_backend_ops ops;

static const struct dlock_backend_ops *hooked; /* asked for once: a child must not wait for it */

static enum dlock_status count_trylock(void *self, const struct dlock_request *req,
                                       struct dlock_grant *grant, struct dlock_error *err)
{
    slot_calls++;
    return hooked->trylock(self, req, grant, err);
}

static enum dlock_status count_unlock(void *self, const struct dlock_request *req,
                                      struct dlock_error *err)
{
    slot_calls++;
    return hooked->unlock(self, req, err);
}

static enum dlock_status count_renew(void *self, struct dlock_lease_op *const *op, size_t n,
                                     int64_t deadline_ns, struct dlock_error *err)
{
    slot_calls++;
    return hooked->renew(self, op, n, deadline_ns, err);
}

static void count_forget(void *self, const struct dlock_request *req)
{
    slot_calls++;
    hooked->forget(self, req);
}

static void count_interrupt(void *self, const struct dlock_request *req)
{
    slot_calls++;
    hooked->interrupt(self, req);
}

static void count_close(void *self, bool forked)
{
    if (forked)
        forked_closes++;
    else
        slot_calls++;
    hooked->close(self, forked);
}

static void plugin_make(void)
{
    plugin = *dlock_plugin_memory_hooked();
    hooked = plugin.ops;
    ops = *hooked;
    ops.trylock = count_trylock;
    ops.unlock = count_unlock;
    ops.renew = count_renew;
    ops.forget = count_forget;
    ops.interrupt = count_interrupt;
    ops.close = count_close;
    plugin.ops = &ops;
}

static bool info_none(void *arg, const struct dlock_holder *info)
{
    (void)arg;
    (void)info;
    return 0;
}

/* Exit status of a child that runs body: 0, or the number of the first thing that was wrong. */
static int in_child(int (*body)(void))
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        (void)alarm(CHILD_S);
        slot_calls = 0;
        forked_closes = 0;
        _exit(body());
    }
    if (pid < 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define WANT(n, condition) \
    do {                   \
        if (!(condition))  \
            return n;      \
    } while (0)

static int child_acquires(void)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    WANT(1, dlock_lock(held, &err) == DLOCK_FORKED && err.status == DLOCK_FORKED);
    WANT(2, dlock_trylock(held, NULL) == DLOCK_FORKED);
    WANT(3, dlock_timedlock(held, 0, NULL) == DLOCK_FORKED);
    WANT(4, dlock_rdlock(held, NULL) == DLOCK_FORKED);
    WANT(5, dlock_tryrdlock(held, NULL) == DLOCK_FORKED);
    WANT(6, dlock_timedrdlock(held, 0, NULL) == DLOCK_FORKED);
    WANT(7, dlock_unlock(held, NULL) == DLOCK_FORKED);
    WANT(8, dlock_renew(held, 0, NULL) == DLOCK_FORKED);
    dlock_cancel(waiting);
    WANT(9, slot_calls == 0);
    return 0;
}

static int child_looks(void)
{
    struct dlock_notice event = {.struct_size = sizeof event};
    char hex[DLOCK_TOKEN_CHARS];

    WANT(1, dlock_state(held) == DLOCK_STATE_FREE);
    WANT(2, dlock_remaining_ms(held) == 0);
    WANT(3, dlock_fence(held) == 0);
    WANT(4, dlock_token(held, hex, sizeof hex) == 0);
    WANT(5, dlock_client_caps(engine.client) == 0);
    WANT(6, dlock_client_fd(engine.client) == -1);
    WANT(7, dlt_notice_take(engine.client, &event, NULL) == -1);
    WANT(8, dlock_client_uri(engine.client) != NULL);
    WANT(9, dlock_client_server(engine.client) != NULL);
    WANT(10, slot_calls == 0);
    return 0;
}

static int child_queries(void)
{
    struct dlock_handle *lock = NULL;

    WANT(1, dlock_new(engine.client, "b", 1, NULL, &lock, NULL) == DLOCK_FORKED && lock == NULL);
    WANT(2, dlock_client_inspect(engine.client, "b", 1, info_none, NULL, NULL) == DLOCK_FORKED);
    WANT(3, dlock_client_list(engine.client, "", 0, info_none, NULL, NULL) == DLOCK_FORKED);
    WANT(4, dlock_client_break(engine.client, "b", 1, NULL, NULL) == DLOCK_FORKED);
    dlock_client_shutdown(engine.client);
    WANT(5, slot_calls == 0);
    return 0;
}

static int child_frees_and_closes(void)
{
    dlock_free(held);
    dlock_free(waiting);
    dlock_client_close(engine.client);
    WANT(1, slot_calls == 0);
    WANT(2, forked_closes == 1);
    return 0;
}

static int child_closes_and_frees(void)
{
    dlock_client_close(engine.client);
    dlock_free(waiting);
    dlock_free(held);
    WANT(1, slot_calls == 0);
    WANT(2, forked_closes == 1);
    return 0;
}

/* The parent was forked while other threads handed a claim on, and had freed what they were about
 * to replace. */
static int child_frees_what_was_being_changed(void)
{
    struct dlock_client *client = engine.client;

    waiting->claim = held->claim;
    free(started->operation->error);
    free(client->last_options);
    free(client->run_queue->waiting.heap);
    free(client->renewer->schedule.heap);
    dlock_free(held);
    dlock_free(waiting);
    dlock_free(started);
    dlock_client_close(client);
    WANT(1, slot_calls == 0);
    WANT(2, forked_closes == 1);
    return 0;
}

static int grandchild_looks(void)
{
    int status = in_child(child_looks);

    return status == 0 ? 0 : 100;
}

/* A client of the child's own, in a store of its own. */
static int child_opens_its_own(void)
{
    struct dlt_engine own;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock = NULL;

    WANT(1, dlt_engine_try_open(&own, "child", &(struct dlt_setup){.runs = 1}, &err) == DLOCK_OK);
    WANT(2, dlock_new(own.client, "a", 1, NULL, &lock, NULL) == DLOCK_OK);
    WANT(3, dlock_lock(lock, NULL) == DLOCK_OK);
    WANT(4, dlock_renew(lock, 0, NULL) == DLOCK_OK);
    WANT(5, dlock_state(lock) == DLOCK_STATE_HELD);
    WANT(6, dlock_unlock(lock, NULL) == DLOCK_OK);
    WANT(7, dlock_trylock(held, NULL) == DLOCK_FORKED);
    dlock_free(lock);
    dlock_client_close(own.client);
    return 0;
}

static void *wait_for_it(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)(dlock_lock(waiting, NULL) == DLOCK_CANCELED ? 0 : 1);
}

/* In each child one thread of the parent holds a lock, and another one waits for it: in the watch
 * slot, or asleep on the handle itself. */
static void ask_everything(bool in_watch)
{
    static const struct {
        const char *what;
        int (*body)(void);
    } cases[] = {
        {"every acquire, unlock and renew", child_acquires},
        {"every look at a handle or client", child_looks},
        {"every query, new and shutdown", child_queries},
        {"free, then close", child_frees_and_closes},
        {"close, then free", child_closes_and_frees},
        {"free, and nothing twice", child_frees_what_was_being_changed},
        {"a child of the child", grandchild_looks},
        {"a client of its own", child_opens_its_own},
    };
    struct memory_fault no_watch = {
        .kind = MEMORY_REFUSE, .status = DLOCK_UNAVAILABLE, .times = 1000000};
    pthread_t thread;
    struct dlock_client *rival;
    void *rc = NULL;

    dlt_engine_open(&engine, "fork", &(struct dlt_setup){.plugin = &plugin, .runs = 1});
    memory_hooks_reset("fork");
    if (!in_watch)
        (void)memory_hooks_fault("fork", MEMORY_WATCH, &no_watch);
    held = dlt_engine_lock(&engine, "a", NULL);
    waiting = dlt_engine_lock(&engine, "b", NULL);
    started = dlt_engine_lock(&engine, "c", NULL);
    rival = dlt_engine_rival(&engine);
    rivals = dlt_rival_hold(rival, "b", DLOCK_EXCLUSIVE);
    if (dlock_lock(held, NULL) != DLOCK_OK ||
        dlock_op_start(started, DLOCK_OP_UNLOCK, 0, NULL) != DLOCK_OK ||
        pthread_create(&thread, NULL, wait_for_it, NULL) != 0 ||
        memory_hooks_await("fork", MEMORY_WATCH, 1, 10000) != 0)
        abort();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int status = in_child(cases[i].body);

        (void)dlt_ok(status == 0, "C10: %s, a waiter %s", cases[i].what,
                     in_watch ? "in the watch" : "asleep");
        if (status != 0)
            printf("# the child ended with %d\n", status);
    }
    (void)dlt_ok(dlock_state(held) == DLOCK_STATE_HELD && dlock_renew(held, 0, NULL) == DLOCK_OK,
                 "C10: the parent has its lock still");
    dlock_cancel(waiting);
    (void)pthread_join(thread, &rc);
    (void)dlt_ok(rc == NULL, "C10: and its waiter");
    dlock_free(held);
    dlock_free(waiting);
    dlock_free(started);
    dlock_free(rivals);
    dlock_client_close(rival);
    dlock_client_close(engine.client);
}

/* ---- forks at any moment ---- */

static _Atomic int stop;

static void *keep_busy(void *arg)
{
    struct dlock_handle *lock = arg;

    while (!stop) {
        if (dlock_lock(lock, NULL) != DLOCK_OK || dlock_renew(lock, 0, NULL) != DLOCK_OK ||
            dlock_unlock(lock, NULL) != DLOCK_OK)
            abort();
    }
    return NULL;
}

static void *open_and_close(void *arg)
{
    (void)arg;
    while (!stop) {
        struct dlt_engine own;

        dlt_engine_open(&own, "other", &(struct dlt_setup){.runs = 1});
        dlt_engine_close(&own);
    }
    return NULL;
}

static int child_of_a_storm(void)
{
    int status = child_looks();

    if (status == 0)
        status = child_queries();
    if (status == 0) {
        dlock_free(held);
        dlock_client_close(engine.client);
    }
    return status;
}

static void fork_in_a_storm(void)
{
    pthread_t threads[3];
    struct dlock_handle *locks[2];
    int bad = 0;

    dlt_engine_open(&engine, "fork", &(struct dlt_setup){.plugin = &plugin, .runs = 1});
    memory_hooks_reset("fork");
    held = dlt_engine_lock(&engine, "held", NULL);
    waiting = held;
    if (dlock_lock(held, NULL) != DLOCK_OK)
        abort();
    for (int i = 0; i < 2; i++) {
        locks[i] = dlt_engine_lock(&engine, "a", NULL);
        if (pthread_create(&threads[i], NULL, keep_busy, locks[i]) != 0)
            abort();
    }
    if (pthread_create(&threads[2], NULL, open_and_close, NULL) != 0)
        abort();
    for (int i = 0; i < 200 && bad == 0; i++)
        bad = in_child(child_of_a_storm);
    stop = 1;
    for (int i = 0; i < 3; i++)
        (void)pthread_join(threads[i], NULL);
    if (!dlt_ok(bad == 0, "C10: 200 forks amid locks, renewals, opens and closes"))
        printf("# a child ended with %d\n", bad);
    for (int i = 0; i < 2; i++)
        dlock_free(locks[i]);
    dlock_free(held);
    dlock_client_close(engine.client);
}

int main(void)
{
    plugin_make();
    ask_everything(true);
    ask_everything(false);
    fork_in_a_storm();
    return dlt_done();
}
