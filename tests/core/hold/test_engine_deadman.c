/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/deadman.c core/sys/kill_timer.c */
/* Is the timer that ends the process set to the end of the claims that ask for it, and to nothing
 * else (C25)? Virtual time: the kit's timer notes what it is set to. */
#include "engine.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TTL_MS   3000
#define VALID_MS 2700

static struct dlt_engine engine;
static struct dlock_handle *lock;
static int64_t begin_ns;

static struct dlock_options killing(void)
{
    struct dlock_options options = DLOCK_OPTIONS_INIT;

    options.ttl_ms = TTL_MS;
    options.on_expiry = DLOCK_EXPIRE_KILL;
    return options;
}

static struct dlock_handle *lock_new(const char *name)
{
    struct dlock_options options = killing();

    return dlt_engine_lock(&engine, name, &options);
}

static void set_up(void)
{
    dlt_engine_open(&engine, "deadman", NULL);
    begin_ns = engine.now_ns;
    lock = lock_new("a");
}

static void tear_down(void)
{
    dlock_free(lock);
    dlt_engine_close(&engine);
    cr_assert_eq(engine.kill_ns, 0, "closed with the client");
}

TestSuite(deadman, .init = set_up, .fini = tear_down);

/* When the process would be ended, in ms since the begin; -1: never. */
static int64_t kill_ms(void)
{
    return engine.kill_ns == DL_NEVER ? -1 : (engine.kill_ns - begin_ns) / DLT_MS;
}

static void take(struct dlock_handle *handle)
{
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, handle, 0), DLOCK_OK);
}

static void *set_unlock_main(void *set)
{
    cr_expect_eq(dlock_set_unlock(set, NULL), DLOCK_OK);
    return NULL;
}

Test(deadman, C25_it_is_armed_from_the_grant_to_the_unlock)
{
    cr_expect_eq(kill_ms(), -1);
    take(lock);
    cr_expect_eq(kill_ms(), VALID_MS);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_expect_eq(kill_ms(), -1);
}

/* The process may be stopped between any two instructions, and another thread may have read the
 * state before. */
Test(deadman, C25_no_thread_reads_held_before_it_is_armed_or_after_it_is_disarmed)
{
    engine.kill_of = lock;
    engine.kill_state = DLOCK_STATE_LOST;
    take(lock);
    cr_expect_eq(engine.kill_state, DLOCK_STATE_FREE);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_expect_eq(engine.kill_state, DLOCK_STATE_FREE);
    engine.kill_of = NULL;
}

Test(deadman, C25_a_confirmed_renewal_moves_it_on)
{
    take(lock);
    dlt_engine_advance(&engine, TTL_MS / 3);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    cr_expect_eq(kill_ms(), TTL_MS / 3 + VALID_MS);
}

Test(deadman, C25_a_renewal_that_is_not_confirmed_does_not)
{
    take(lock);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_engine_advance(&engine, TTL_MS / 3);
    cr_assert_eq(memory_hooks_held(engine.store), 1);
    cr_expect_eq(kill_ms(), VALID_MS, "sent, and not answered");
    memory_hooks_go(engine.store);
    dlt_settle();
    cr_expect_eq(kill_ms(), TTL_MS / 3 + VALID_MS);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LOST_REQUEST, (struct memory_fault){.times = 100});
    dlt_engine_advance(&engine, TTL_MS / 3);
    dlt_engine_run(&engine, 300);
    cr_expect_eq(kill_ms(), TTL_MS / 3 + VALID_MS, "doubtful");
    memory_hooks_heal(engine.store, MEMORY_RENEW);
}

Test(deadman, C25_it_is_disarmed_before_the_release_is_sent)
{
    struct dlt_call call;

    take(lock);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_SLOW, (struct memory_fault){.ms = 300});
    dlt_call_start(&call, &engine, DLT_UNLOCK, lock, 0);
    cr_expect_eq(kill_ms(), -1, "the release is on its way");
    cr_assert_eq(dlt_call_finish(&call, 2000), DLOCK_OK);
}

Test(deadman, C25_the_earliest_claim_counts)
{
    struct dlock_handle *second = lock_new("b");

    take(lock);
    dlt_engine_advance(&engine, 500);
    take(second);
    cr_expect_eq(kill_ms(), VALID_MS);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_expect_eq(kill_ms(), 500 + VALID_MS);
    dlock_free(second);
    cr_expect_eq(kill_ms(), -1);
}

Test(deadman, C25_who_does_not_ask_has_none)
{
    struct dlock_handle *other = dlt_engine_lock(&engine, "b", NULL);

    take(other);
    cr_expect_eq(kill_ms(), -1);
    take(lock);
    dlt_engine_advance(&engine, TTL_MS / 3);
    cr_expect_eq(kill_ms(), TTL_MS / 3 + VALID_MS);
    dlock_free(other);
}

Test(deadman, C25_a_claim_that_is_handed_on_is_armed)
{
    struct dlock_handle *taker = lock_new("a");
    struct dlt_call wait;

    take(lock);
    dlt_call_start(&wait, &engine, DLT_LOCK, taker, 0);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 2000), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0, "handed on");
    cr_expect_eq(kill_ms(), VALID_MS, "the rest of the lease");
    dlock_free(taker);
    cr_expect_eq(kill_ms(), -1);
}

Test(deadman, C25_an_adopted_claim_is_armed)
{
    struct dlock_client *rival = dlt_engine_rival(&engine);
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    char token[DLOCK_TOKEN_CHARS];

    cr_assert_eq(dlock_token(held, token, sizeof token), 32);
    cr_assert_eq(dlock_adopt(lock, token, NULL), DLOCK_OK);
    cr_expect_eq(kill_ms(), dlock_remaining_ms(lock));
    cr_expect_geq(kill_ms(), VALID_MS);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_expect_eq(kill_ms(), -1);
    dlock_client_close(rival);
    dlock_free(held);
}

Test(deadman, C25_a_recursive_unlock_leaves_it_until_the_last)
{
    struct dlock_options options = killing();
    struct dlock_handle *nested;

    options.recursive = DLOCK_ON;
    nested = dlt_engine_lock(&engine, "b", &options);
    take(nested);
    take(nested);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, nested, 0), DLOCK_OK);
    cr_expect_eq(kill_ms(), VALID_MS);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, nested, 0), DLOCK_OK);
    cr_expect_eq(kill_ms(), -1);
    dlock_free(nested);
}

Test(deadman, C25_after_a_loss_it_stays_until_the_loss_is_acknowledged)
{
    take(lock);
    cr_assert_eq(dlock_client_break(engine.client, "a", DLOCK_NUL, NULL, NULL), DLOCK_OK);
    dlt_engine_advance(&engine, TTL_MS / 3);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
    cr_expect_eq(kill_ms(), VALID_MS);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_expect_eq(kill_ms(), -1);
}

Test(deadman, C25_the_end_of_max_hold_is_an_end)
{
    struct dlock_options options = killing();
    struct dlock_handle *bounded;

    options.max_hold_ms = 1500;
    bounded = dlt_engine_lock(&engine, "b", &options);
    take(bounded);
    cr_expect_eq(kill_ms(), 1500);
    dlock_free(bounded);
}

Test(deadman, C25_a_lock_that_nobody_renews_is_refused)
{
    struct dlock_options options = killing();
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *refused = NULL;

    options.renew = DLOCK_OFF;
    cr_expect_eq(dlock_new(engine.client, "b", DLOCK_NUL, &options, &refused, &err), DLOCK_CONFIG);
    cr_expect_not_null(strstr(err.message, "DLOCK_EXPIRE_REPORT"), "%s", err.message);
    options = killing();
    options.on_expiry = (enum dlock_expire)2;
    cr_expect_eq(dlock_new(engine.client, "b", DLOCK_NUL, &options, &refused, &err), DLOCK_INVALID);
}

/* The second release is sent long after the first one, and renewals fail meanwhile. */
Test(deadman, C25_a_set_is_disarmed_before_its_first_release)
{
    static const char *const names[] = {"b", "c", "d"};
    struct dlock_options options = killing();
    struct dlock_set *set = NULL;
    pthread_t thread;

    cr_assert_eq(dlock_set_new(engine.client, names, NULL, 3, &options, &set, NULL), DLOCK_OK);
    cr_assert_eq(dlock_set_acquire(set, DLOCK_EXCLUSIVE, 0, NULL), DLOCK_OK);
    cr_expect_eq(kill_ms(), VALID_MS);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_SLOW, (struct memory_fault){.ms = 700, .times = 3});
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LOST_REQUEST, (struct memory_fault){.times = 100});
    cr_assert_eq(pthread_create(&thread, NULL, set_unlock_main, set), 0);
    dlt_settle();
    for (int i = 0; i < 2200; i++) {
        cr_assert_eq(kill_ms(), -1, "after %d ms", i);
        dlt_engine_run(&engine, 1);
    }
    (void)pthread_join(thread, NULL);
    memory_hooks_heal(engine.store, MEMORY_RENEW);
    cr_assert_eq(dlock_set_acquire(set, DLOCK_EXCLUSIVE, 0, NULL), DLOCK_OK);
    cr_expect_neq(kill_ms(), -1, "the next claim is armed");
    dlock_set_free(set);
}

/* Before the first session the capabilities are those of all strategies of the plugin. */
Test(deadman, C25_a_lazy_client_is_judged_by_its_first_session)
{
    struct dlock_plugin plugin = *dlock_plugin_memory_hooked();
    struct dlock_options options = killing();

    dlock_free(lock);
    dlt_engine_close(&engine);
    plugin.caps |= DLOCK_CAP_SESSION;
    dlt_engine_open(&engine, "deadman",
                    &(struct dlt_setup){.plugin = &plugin, .options = "open=lazy"});
    begin_ns = engine.now_ns;
    lock = dlt_engine_lock(&engine, "a", &options);
    take(lock);
    cr_expect_eq(kill_ms(), VALID_MS);
}

static enum dlock_status made_after(int error)
{
    struct dlock_options options = killing();
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *refused = NULL;

    engine.kill_error = error;
    return dlock_new(engine.client, "b", DLOCK_NUL, &options, &refused, &err);
}

/* A caller that can do without the timer tells a system that has none from one that is full. */
Test(deadman_refused, C25_a_system_without_such_a_timer_is_told_from_a_full_one)
{
    dlt_engine_open(&engine, "deadman", NULL);
    cr_expect_eq(made_after(EPERM), DLOCK_UNSUPPORTED);
    cr_expect_eq(made_after(ENOSYS), DLOCK_UNSUPPORTED);
    cr_expect_eq(made_after(EINVAL), DLOCK_UNSUPPORTED);
    cr_expect_eq(made_after(EAGAIN), DLOCK_NOMEM);
    cr_expect_eq(made_after(ENOMEM), DLOCK_NOMEM);
    engine.kill_error = 0;
    dlt_engine_close(&engine);
}

/* With the timer of the kernel: armed, moved, disarmed, closed. Its end is by SIGKILL. */
static int ended_by(int64_t in_ms, bool disarm, bool fork_first)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        struct dl_kill_timer timer = dl_kill_timer_posix;
        pid_t child = 0;

        if (timer.open(&timer) != 0)
            _exit(9);
        timer.set(&timer, dl_clock_now(&dl_clock_boottime) + in_ms * DLT_MS);
        if (disarm)
            timer.set(&timer, DL_NEVER);
        if (fork_first)
            child = fork();
        if (!disarm && child == 0 && !fork_first)
            for (;;)
                (void)pause();
        if (fork_first && child > 0)
            timer.close(&timer);
        if (fork_first && child > 0)
            _exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? 3 : 4);
        dl_clock_pause((in_ms + 100) * DLT_MS);
        _exit(3);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

Test(kill_timer, C25_it_ends_the_process)
{
    cr_expect_eq(ended_by(30, false, false), -SIGKILL);
    cr_expect_eq(ended_by(-30, false, false), -SIGKILL, "a moment that has passed");
}

Test(kill_timer, C25_it_does_not_if_it_is_disarmed)
{
    cr_expect_eq(ended_by(1000, true, false), 3);
}

Test(kill_timer, C25_a_forked_child_has_none)
{
    cr_expect_eq(ended_by(50, false, true), 3);
}
