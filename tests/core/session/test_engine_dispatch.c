/* SPDX-License-Identifier: MIT */
/* Tests: core/session/dispatch.c */
/* Is a plugin held to its word, and named when it breaks it? */
#include "engine.h"

#include <criterion/criterion.h>
#include <string.h>

#define MAY(name) (1u << DLOCK_##name)
/* What every slot may answer. */
#define MAY_FAIL                                                                                  \
    (MAY(UNKNOWN) | MAY(UNAVAILABLE) | MAY(NO_QUORUM) | MAY(AUTH) | MAY(PROTOCOL) | MAY(CONFIG) | \
     MAY(UNSUPPORTED) | MAY(INVALID) | MAY(FORKED) | MAY(NOMEM) | MAY(INTERNAL) | MAY(NO_STORE))

static struct dlt_engine engine;
static struct dlock_plugin plugin;
static struct dlock_backend_ops ops;

/* What the plugin does from now on. */
static enum dlock_status say;
static int64_t lease_ms;
static uint64_t fence;
static uint32_t flags; /* DLOCK_GRANT_* */

static const struct dlock_backend_ops *hooked(void)
{
    return dlock_plugin_memory_hooked()->ops;
}

static enum dlock_status say_trylock(void *self, const struct dlock_request *req,
                                     struct dlock_grant *grant, struct dlock_error *err)
{
    (void)self;
    (void)req;
    (void)err;
    grant->lease_ms = lease_ms;
    grant->fence = fence;
    grant->flags = flags;
    return say;
}

static enum dlock_status say_unlock(void *self, const struct dlock_request *req,
                                    struct dlock_error *err)
{
    (void)self;
    (void)req;
    (void)err;
    return say;
}

static enum dlock_status say_renew(void *self, struct dlock_lease_op *const *op, size_t n,
                                   int64_t deadline_ns, struct dlock_error *err)
{
    (void)self;
    (void)n;
    (void)deadline_ns;
    (void)err;
    op[0]->status = say;
    op[0]->grant.lease_ms = lease_ms;
    return DLOCK_OK;
}

static enum dlock_status say_renew_whole(void *self, struct dlock_lease_op *const *op, size_t n,
                                         int64_t deadline_ns, struct dlock_error *err)
{
    (void)self;
    (void)op;
    (void)n;
    (void)deadline_ns;
    (void)err;
    return say;
}

static enum dlock_status say_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                     int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                     struct dlock_error *err)
{
    (void)self;
    (void)name;
    (void)name_len;
    (void)deadline_ns;
    (void)fn;
    (void)arg;
    (void)err;
    return say;
}

static enum dlock_status say_break(void *self, const unsigned char *name, uint32_t name_len,
                                   const char *owner, int64_t deadline_ns, struct dlock_error *err)
{
    (void)self;
    (void)name;
    (void)name_len;
    (void)owner;
    (void)deadline_ns;
    (void)err;
    return say;
}

static uint64_t probe_caps;

static enum dlock_status say_probe(void *self, int64_t deadline_ns, struct dlock_session_info *info,
                                   dlock_check_fn *fn, void *arg, struct dlock_error *err)
{
    (void)self;
    (void)deadline_ns;
    (void)err;
    info->caps = probe_caps;
    for (int i = 0; i < 2; i++) /* a plugin need not look whether the list has ended */
        (void)fn(arg, &(struct dlock_check){.struct_size = sizeof(struct dlock_check),
                                            .name = "sync",
                                            .found = "off",
                                            .advice = "switch it on"});
    return say;
}

static bool finding_check(void *arg, const struct dlock_check *finding)
{
    unsigned *calls = arg;

    cr_expect_str_eq(finding->name, "sync");
    cr_expect_str_eq(finding->found, "off");
    cr_expect_str_eq(finding->advice, "switch it on");
    cr_expect_eq(finding->struct_size, sizeof *finding);
    ++*calls;
    return true;
}

static enum dlock_status too_many_caps(void *self, const struct dlock_host *host,
                                       const struct dlock_target *target, int64_t deadline_ns,
                                       struct dlock_session_info *info, struct dlock_error *err)
{
    enum dlock_status status = hooked()->open(self, host, target, deadline_ns, info, err);

    info->caps |= DLOCK_CAP_CRASH_SAFE;
    return status;
}

static void set_up(void)
{
    plugin = *dlock_plugin_memory_hooked();
    ops = *plugin.ops;
    plugin.ops = &ops;
    dlt_engine_open(&engine, "dispatch", &(struct dlt_setup){.plugin = &plugin});
}

/* The table is copied at open: a new client for every change of a slot. */
static void reopen(void)
{
    dlt_engine_close(&engine);
    dlt_engine_open(&engine, "dispatch", &(struct dlt_setup){.plugin = &plugin});
}

static void tear_down(void)
{
    dlt_engine_close(&engine);
}

TestSuite(dispatch, .init = set_up, .fini = tear_down);

/* INTERNAL, from core, with the names of the plugin and the slot. */
static void expect_named(const struct dlock_error *err, const char *slot)
{
    cr_assert_eq(err->status, DLOCK_INTERNAL);
    cr_assert_str_eq(err->origin, "core");
    cr_assert_not_null(strstr(err->message, "plugin memory"), "%s", err->message);
    cr_assert_not_null(strstr(err->message, slot), "%s", err->message);
}

static bool allowed(unsigned set, int status)
{
    return status >= 0 && status < 32 && (set >> status & 1) != 0;
}

static const int odd[] = {-1, 23, 31, 32, 33, 64, 1000};
#define ODD (int)(sizeof odd / sizeof odd[0])

/* Every status there is, and some that there are not. */
static int nth_status(int i)
{
    return i <= DLOCK_NO_STORE ? i : odd[i - DLOCK_NO_STORE - 1];
}

#define STATUSES (DLOCK_NO_STORE + 1 + ODD)

Test(dispatch, trylock_may_not_answer_everything)
{
    struct dlock_handle *lock;

    ops.trylock = say_trylock;
    ops.unlock = say_unlock;
    reopen();
    lock = dlt_engine_lock(&engine, "a", NULL);
    for (int i = 0; i < STATUSES; i++) {
        struct dlt_call call;
        int status = nth_status(i);

        if (allowed(MAY(OK) | MAY(BUSY) | MAY_FAIL, status))
            continue;
        say = (enum dlock_status)status;
        dlt_call_start(&call, &engine, DLT_TRYLOCK, lock, 0);
        cr_assert_eq(dlt_call_finish(&call, 5000), DLOCK_INTERNAL, "%d", status);
        expect_named(&call.err, "trylock");
    }
    dlock_free(lock);
}

Test(dispatch, unlock_may_not_answer_everything)
{
    struct dlock_handle *lock;

    ops.unlock = say_unlock;
    reopen();
    for (int i = 0; i < STATUSES; i++) {
        struct dlt_call call;
        int status = nth_status(i);
        char name[16];

        if (allowed(MAY(OK) | MAY(LOST) | MAY_FAIL, status))
            continue;
        (void)snprintf(name, sizeof name, "n%d", i);
        lock = dlt_engine_lock(&engine, name, NULL);
        cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
        say = (enum dlock_status)status;
        dlt_call_start(&call, &engine, DLT_UNLOCK, lock, 0);
        cr_assert_eq(dlt_call_finish(&call, 5000), DLOCK_INTERNAL, "%d", status);
        expect_named(&call.err, "unlock");
        dlock_free(lock);
    }
}

Test(dispatch, renew_may_not_answer_everything)
{
    ops.renew = say_renew;
    lease_ms = 30000;
    for (int turn = 0; turn < 2; turn++) {
        unsigned may = turn == 0 ? MAY(OK) | MAY(LOST) | MAY_FAIL : MAY(OK) | MAY_FAIL;
        struct dlock_handle *lock;

        reopen();
        lock = dlt_engine_lock(&engine, "a", NULL);
        cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
        for (int i = 0; i < STATUSES; i++) {
            struct dlt_call call;
            int status = nth_status(i);

            if (allowed(may, status))
                continue;
            say = (enum dlock_status)status;
            dlt_call_start(&call, &engine, DLT_RENEW, lock, 0);
            cr_assert_eq(dlt_call_finish(&call, 5000), DLOCK_INTERNAL, "%d", status);
            expect_named(&call.err, "renew");
            cr_assert_eq(dlock_state(lock), DLOCK_STATE_DOUBTFUL);
        }
        cr_assert_eq(dlt_do(&engine, DLT_FREE, lock, 0), DLOCK_OK);
        ops.renew = say_renew_whole;
    }
}

Test(dispatch, queries_may_not_answer_everything)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    ops.inspect = say_inspect;
    ops.break_lock = say_break;
    reopen();
    for (int i = 0; i < STATUSES; i++) {
        int status = nth_status(i);

        say = (enum dlock_status)status;
        if (!allowed(MAY(OK) | MAY_FAIL, status)) {
            dlock_holder_fn *never = (dlock_holder_fn *)1;

            cr_assert_eq(dlock_client_inspect(engine.client, "a", 1, never, NULL, &err),
                         DLOCK_INTERNAL);
            expect_named(&err, "inspect");
        }
        if (!allowed(MAY(OK) | MAY(NOT_HELD) | MAY_FAIL, status)) {
            cr_assert_eq(dlock_client_break(engine.client, "a", 1, NULL, &err), DLOCK_INTERNAL);
            expect_named(&err, "break_lock");
        }
    }
}

/* C16: what is in force is what was found last. */
Test(dispatch, a_probe_takes_back_and_never_adds)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    unsigned calls = 0;
    uint64_t caps;

    plugin.caps |= DLOCK_CAP_CRASH_SAFE;
    ops.open = too_many_caps;
    ops.probe = say_probe;
    reopen();
    caps = dlock_client_caps(engine.client);
    cr_assert(caps & DLOCK_CAP_CRASH_SAFE);
    say = DLOCK_OK;
    probe_caps = caps;
    cr_assert_eq(dlock_client_probe(engine.client, finding_check, &calls, &err), DLOCK_OK);
    cr_assert_eq(calls, 1);
    cr_assert_eq(dlock_client_caps(engine.client), caps);
    probe_caps = caps & ~DLOCK_CAP_CRASH_SAFE;
    cr_assert_eq(dlock_client_probe(engine.client, NULL, NULL, &err), DLOCK_OK, "nobody listens");
    cr_assert_eq(dlock_client_caps(engine.client), probe_caps);
    probe_caps = caps;
    cr_assert_eq(dlock_client_probe(engine.client, NULL, NULL, &err), DLOCK_OK);
    cr_assert_eq(dlock_client_caps(engine.client), caps & ~DLOCK_CAP_CRASH_SAFE);
    probe_caps = caps | DLOCK_CAP_SESSION;
    cr_assert_eq(dlock_client_probe(engine.client, NULL, NULL, &err), DLOCK_INTERNAL);
    expect_named(&err, "probe");
    for (int i = 0; i < STATUSES; i++)
        if (!allowed(MAY(OK) | MAY_FAIL, nth_status(i))) {
            say = (enum dlock_status)nth_status(i);
            cr_assert_eq(dlock_client_probe(engine.client, NULL, NULL, &err), DLOCK_INTERNAL);
            expect_named(&err, "probe");
        }
    ops.probe = NULL;
    reopen();
    cr_assert_eq(dlock_client_probe(engine.client, NULL, NULL, &err), DLOCK_UNSUPPORTED);
}

/* C16: a store that can no longer keep a lock safely is not used. */
Test(dispatch, a_probe_that_finds_the_store_unfit)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock, *held;

    plugin.caps |= DLOCK_CAP_CRASH_SAFE;
    ops.open = too_many_caps;
    ops.probe = say_probe;
    reopen();
    held = dlt_engine_lock(&engine, "held", NULL);
    lock = dlt_engine_lock(&engine, "a", NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, held, 0), DLOCK_OK);
    probe_caps = dlock_client_caps(engine.client);
    say = DLOCK_CONFIG;
    cr_assert_eq(dlock_client_probe(engine.client, NULL, NULL, &err), DLOCK_CONFIG);
    cr_expect_eq(dlock_client_caps(engine.client) & DLOCK_CAP_CRASH_SAFE, 0);
    cr_expect_eq(dlock_trylock(lock, &err), DLOCK_CONFIG);
    cr_expect_not_null(strstr(err.message, "dlock_client_probe found"), "%s", err.message);
    cr_expect_eq(dlock_state(held), DLOCK_STATE_HELD, "what is held is renewed and given back");
    cr_expect_eq(dlt_do(&engine, DLT_UNLOCK, held, 0), DLOCK_OK);
    say = DLOCK_OK;
    cr_assert_eq(dlock_client_probe(engine.client, NULL, NULL, &err), DLOCK_OK);
    cr_expect_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_expect_eq(dlock_client_caps(engine.client) & DLOCK_CAP_CRASH_SAFE, 0, "gone is gone");
    dlock_free(lock);
    dlock_free(held);
}

Test(dispatch, a_grant_has_a_lease_and_a_fence)
{
    static const struct {
        int64_t lease_ms;
        uint64_t fence;
        const char *text;
    } cases[] = {
        {0, 1, "lease"},
        {-1, 1, "lease"},
        {INT64_MIN, 1, "lease"},
        {INT64_MAX, 1, "lease"},
        {30001, 1, "lease of 30001 ms, want 1 to 30000"},
        {30000, 0, "fencing"},
    };
    struct dlock_handle *lock;

    ops.trylock = say_trylock;
    ops.unlock = say_unlock;
    reopen();
    lock = dlt_engine_lock(&engine, "a", NULL);
    say = DLOCK_OK;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dlt_call call;

        lease_ms = cases[i].lease_ms;
        fence = cases[i].fence;
        dlt_call_start(&call, &engine, DLT_TRYLOCK, lock, 0);
        cr_assert_eq(dlt_call_finish(&call, 5000), DLOCK_INTERNAL, "%zu", i);
        expect_named(&call.err, "trylock");
        cr_assert_not_null(strstr(call.err.message, cases[i].text), "%s", call.err.message);
        cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    }
    dlock_free(lock);
}

Test(dispatch, a_queue_entry_is_asked_for_and_lasts_for_some_time)
{
    static const struct {
        enum dlt_kind kind;
        int64_t lease_ms;
        const char *text;
    } cases[] = {
        {DLT_TRYLOCK, 3000, "unasked"},
        {DLT_LOCK, 0, "a queue entry"},
        {DLT_LOCK, -1, "a queue entry"},
        {DLT_LOCK, INT64_MAX, "a queue entry"},
    };
    struct dlock_handle *lock;

    ops.trylock = say_trylock;
    reopen();
    lock = dlt_engine_lock(&engine, "a", NULL);
    say = DLOCK_BUSY;
    flags = DLOCK_GRANT_QUEUED;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dlt_call call;

        lease_ms = cases[i].lease_ms;
        dlt_call_start(&call, &engine, cases[i].kind, lock, 0);
        cr_assert_eq(dlt_call_finish(&call, 5000), DLOCK_INTERNAL, "%zu", i);
        expect_named(&call.err, "trylock");
        cr_assert_not_null(strstr(call.err.message, cases[i].text), "%s", call.err.message);
    }
    dlock_free(lock);
}

/* C2: core counts with the lease that a plugin tells. */
Test(dispatch, a_renewal_extends_by_the_ttl_at_most)
{
    static const int64_t leases[] = {0, -1, 30001, INT64_MAX};
    struct dlock_handle *lock;

    ops.renew = say_renew;
    reopen();
    lock = dlt_engine_lock(&engine, "a", NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    dlt_engine_advance(&engine, 1000);
    say = DLOCK_OK;
    for (size_t i = 0; i < sizeof leases / sizeof leases[0]; i++) {
        struct dlt_call call;

        lease_ms = leases[i];
        dlt_call_start(&call, &engine, DLT_RENEW, lock, 0);
        cr_assert_eq(dlt_call_finish(&call, 5000), DLOCK_INTERNAL, "%zu", i);
        expect_named(&call.err, "renew");
        cr_assert_eq(dlock_remaining_ms(lock), 30000 - 3000 - 1000);
    }
    cr_assert_eq(dlt_do(&engine, DLT_FREE, lock, 0), DLOCK_OK);
}

Test(dispatch, a_session_gives_no_more_than_the_descriptor)
{
    struct dlt_engine second;
    struct dlock_error err = DLOCK_ERROR_INIT;

    ops.open = too_many_caps;
    cr_assert_eq(
        dlt_engine_try_open(&second, "dispatch2", &(struct dlt_setup){.plugin = &plugin}, &err),
        DLOCK_INTERNAL);
    expect_named(&err, "open");
    cr_assert_not_null(strstr(err.message, "has not: CRASH_SAFE"), "%s", err.message);
}

Test(dispatch, a_failure_without_a_text_gets_one)
{
    struct dlock_handle *lock;
    struct dlt_call call;

    ops.trylock = say_trylock;
    reopen();
    lock = dlt_engine_lock(&engine, "a", NULL);
    say = DLOCK_AUTH;
    dlt_call_start(&call, &engine, DLT_TRYLOCK, lock, 0);
    cr_assert_eq(dlt_call_finish(&call, 10), DLOCK_AUTH);
    cr_assert_str_eq(call.err.origin, "memory");
    cr_assert_not_null(strstr(call.err.message, dlock_status_text(DLOCK_AUTH)));
    cr_assert_not_null(strstr(call.err.message, "plugin memory gives no reason, from trylock"));
    dlock_free(lock);
}
