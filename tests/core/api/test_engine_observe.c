/* SPDX-License-Identifier: MIT */
/* Tests: core/api/query.c */
/* How often does a call that observes ask, and does it outlast a store that fails? (C20) Virtual
 * time. */
#include "engine.h"

#include <criterion/criterion.h>
#include <dlock/dlock.h>

static struct dlt_engine engine;
static struct dlock_client *rival;

static void set_up(void)
{
    dlt_engine_open(&engine, "observe", &(struct dlt_setup){.options = "poll_max=1s"});
    rival = dlt_engine_rival(&engine);
}

static void tear_down(void)
{
    dlock_client_close(rival);
    dlt_engine_close(&engine);
}

TestSuite(observe, .init = set_up, .fini = tear_down);

struct watcher {
    int64_t timeout_ms;
    uint64_t fence; /* of the holder that was observed */
    enum dlock_status status;
    _Atomic bool done;
};

static bool fence_take(void *arg, const struct dlock_holder *holder)
{
    ((struct watcher *)arg)->fence = holder->fence;
    return false;
}

static void *watcher_main(void *arg)
{
    struct watcher *watcher = arg;

    watcher->status = dlock_client_observe(engine.client, "x", 1, 0, watcher->timeout_ms,
                                           fence_take, watcher, NULL);
    atomic_store(&watcher->done, true);
    return NULL;
}

static void watcher_finish(struct watcher *watcher, pthread_t thread, int64_t most_ms)
{
    while (!atomic_load(&watcher->done) && most_ms-- > 0)
        dlt_engine_run(&engine, 1);
    cr_assert(atomic_load(&watcher->done));
    (void)pthread_join(thread, NULL);
}

Test(observe, C20_asks_after_pauses_that_grow_to_poll_max)
{
    struct watcher watcher = {.timeout_ms = 10000};
    struct dlock_handle *held;
    pthread_t thread;
    unsigned asked;

    cr_assert_eq(pthread_create(&thread, NULL, watcher_main, &watcher), 0);
    dlt_settle();
    dlt_engine_run(&engine, 5000);
    asked = dlt_calls(&engine, MEMORY_INSPECT);
    cr_assert(asked >= 8 && asked <= 25, "%u questions in 5 s", asked);
    held = dlt_rival_hold(rival, "x", DLOCK_EXCLUSIVE);
    watcher_finish(&watcher, thread, 1100);
    cr_assert_eq(watcher.status, DLOCK_OK);
    cr_assert_eq(watcher.fence, dlock_fence(held));
    dlock_free(held);
}

Test(observe, C20_outlasts_a_store_that_fails_and_ends_at_the_deadline)
{
    struct watcher watcher = {.timeout_ms = 3000}, late = {.timeout_ms = 500};
    struct dlock_handle *held = dlt_rival_hold(rival, "x", DLOCK_EXCLUSIVE);
    pthread_t thread;

    dlt_fault(&engine, MEMORY_INSPECT, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .times = 1000});
    cr_assert_eq(pthread_create(&thread, NULL, watcher_main, &late), 0);
    watcher_finish(&late, thread, 1500);
    cr_assert_eq(late.status, DLOCK_UNAVAILABLE);
    cr_assert_eq(pthread_create(&thread, NULL, watcher_main, &watcher), 0);
    dlt_settle();
    dlt_engine_run(&engine, 1000);
    cr_assert_not(atomic_load(&watcher.done));
    memory_hooks_heal(engine.store, MEMORY_INSPECT);
    watcher_finish(&watcher, thread, 2500);
    cr_assert_eq(watcher.status, DLOCK_OK);
    dlock_free(held);
}

/* Also if the name is free, and if a lazy client finds it out with the first answer. */
Test(observe_poor, C20_a_store_without_fences_is_refused)
{
    static const char *const options[] = {"poll_max=1s", "open=lazy"};
    static struct dlock_plugin plugin;

    plugin = *dlock_plugin_memory_hooked();
    for (size_t i = 0; i < 2; i++) {
        struct watcher watcher = {.fence = 7};

        (void)dlock_plugin_memory_limited("poor", DLOCK_CAP_FENCE); /* sessions have none */
        dlt_engine_open(&engine, "poor",
                        &(struct dlt_setup){.plugin = &plugin, .options = options[i]});
        cr_assert_eq(dlock_client_observe(engine.client, "x", 1, 0, 0, fence_take, &watcher, NULL),
                     DLOCK_UNSUPPORTED, "%s", options[i]);
        cr_assert_eq(watcher.fence, 7, "nobody was told");
        dlt_engine_close(&engine);
    }
}

/* A holder with one number, whose plugin does not say that it is the last one. */
static enum dlock_status one_number_inspect(void *self, const unsigned char *name,
                                            uint32_t name_len, int64_t deadline_ns,
                                            dlock_holder_fn *fn, void *arg, struct dlock_error *err)
{
    const struct dlock_holder holder = {.struct_size = sizeof holder,
                                        .name = name,
                                        .name_len = name_len,
                                        .fence = 7,
                                        .owner = "00",
                                        .label = ""};

    (void)self;
    (void)deadline_ns;
    (void)err;
    (void)fn(arg, &holder);
    return DLOCK_OK;
}

static bool last_take(void *arg, const struct dlock_holder *holder)
{
    *(uint64_t *)arg = holder->fence_last;
    return false;
}

Test(observe_poor, C6_a_holder_has_no_last_number_below_its_first)
{
    static struct dlock_plugin plugin;
    static struct dlock_backend_ops ops;
    uint64_t last = 0;

    plugin = *dlock_plugin_memory_hooked();
    ops = *plugin.ops;
    ops.inspect = one_number_inspect;
    plugin.ops = &ops;
    dlt_engine_open(&engine, "one", &(struct dlt_setup){.plugin = &plugin});
    cr_assert_eq(dlock_client_inspect(engine.client, "x", 1, last_take, &last, NULL), DLOCK_OK);
    cr_expect_eq(last, 7u);
    dlt_engine_close(&engine);
}
