/* SPDX-License-Identifier: MIT */
/* Tests: core/session/dispatch.c */
/* Do core and a plugin of another minor version exchange structures of different sizes? */
#include "engine.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_engine engine;
static struct dlock_plugin plugin;
static struct dlock_backend_ops ops;
static uint32_t said; /* struct_size of what the plugin shows */
static unsigned calls;

static const struct dlock_backend_ops *hooked(void)
{
    return dlock_plugin_memory_hooked()->ops;
}

static void set_up(void)
{
    plugin = *dlock_plugin_memory_hooked();
    plugin.abi_minor = DLOCK_PLUGIN_ABI_MINOR + 7;
    ops = *plugin.ops;
    plugin.ops = &ops;
}

static void tear_down(void)
{
    dlt_engine_close(&engine);
}

TestSuite(sizes, .init = set_up, .fini = tear_down);

/* A holder of a plugin that knows one member more, or whose size is not said. */
static enum dlock_status grown_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                       int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                       struct dlock_error *err)
{
    struct {
        struct dlock_holder known;
        uint64_t later;
    } holder = {.known = {.struct_size = said,
                          .name = name,
                          .name_len = name_len,
                          .waiters = 3,
                          .owner = "00",
                          .label = "somebody"},
                .later = UINT64_MAX};

    (void)self;
    (void)deadline_ns;
    (void)err;
    (void)fn(arg, &holder.known);
    return DLOCK_OK;
}

static bool holder_check(void *arg, const struct dlock_holder *holder)
{
    (void)arg;
    calls++;
    cr_expect_eq(holder->struct_size, sizeof *holder);
    cr_expect_eq(holder->waiters, 3u);
    cr_expect_str_eq(holder->label, "somebody");
    return false;
}

Test(sizes, a_holder_of_a_newer_plugin_is_cut)
{
    static const uint32_t sizes[] = {sizeof(struct dlock_holder),
                                     sizeof(struct dlock_holder) + sizeof(uint64_t)};

    ops.inspect = grown_inspect;
    dlt_engine_open(&engine, "sizes", &(struct dlt_setup){.plugin = &plugin});
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        said = sizes[i];
        cr_assert_eq(dlock_client_inspect(engine.client, "a", 1, holder_check, NULL, NULL),
                     DLOCK_OK);
    }
    cr_expect_eq(calls, 2u);
}

Test(sizes, a_holder_without_a_size_is_not_shown)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    ops.inspect = grown_inspect;
    dlt_engine_open(&engine, "sizes", &(struct dlt_setup){.plugin = &plugin});
    said = 0;
    cr_assert_eq(dlock_client_inspect(engine.client, "a", 1, holder_check, NULL, &err),
                 DLOCK_PLUGIN_ABI);
    cr_expect(strstr(err.message, "dlock_holder") != NULL, "%s", err.message);
    cr_expect_eq(calls, 0u);
}

/* What core allocates says its size. */
static enum dlock_status sized_trylock(void *self, const struct dlock_request *req,
                                       struct dlock_grant *grant, struct dlock_error *err)
{
    calls++;
    cr_expect_eq(req->struct_size, sizeof *req);
    cr_expect_eq(grant->struct_size, sizeof *grant);
    return hooked()->trylock(self, req, grant, err);
}

static enum dlock_status sized_open(void *self, const struct dlock_host *host,
                                    const struct dlock_target *target, int64_t deadline_ns,
                                    struct dlock_session_info *info, struct dlock_error *err)
{
    cr_expect_eq(host->struct_size, sizeof *host);
    cr_expect_eq(target->struct_size, sizeof *target);
    cr_expect_eq(info->struct_size, sizeof *info);
    return hooked()->open(self, host, target, deadline_ns, info, err);
}

static enum dlock_status sized_renew(void *self, struct dlock_lease_op *const *op, size_t n,
                                     int64_t deadline_ns, struct dlock_error *err)
{
    calls++;
    for (size_t i = 0; i < n; i++) {
        cr_expect_eq(op[i]->struct_size, sizeof *op[i]);
        cr_expect_eq(op[i]->grant.struct_size, sizeof op[i]->grant);
    }
    return hooked()->renew(self, op, n, deadline_ns, err);
}

Test(sizes, core_says_the_size_of_each_structure)
{
    struct dlock_handle *lock;

    ops.open = sized_open;
    ops.trylock = sized_trylock;
    ops.renew = sized_renew;
    dlt_engine_open(&engine, "sizes", &(struct dlt_setup){.plugin = &plugin});
    lock = dlt_engine_lock(&engine, "a", NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlock_renew(lock, 0, NULL), DLOCK_OK);
    cr_expect_eq(calls, 2u);
    dlock_free(lock);
}

/* Gives a capability that is in no map, in its descriptor and in its sessions. */
static enum dlock_status abler_open(void *self, const struct dlock_host *host,
                                    const struct dlock_target *target, int64_t deadline_ns,
                                    struct dlock_session_info *info, struct dlock_error *err)
{
    enum dlock_status status = hooked()->open(self, host, target, deadline_ns, info, err);

    info->caps |= DLOCK_CAP_ALL + 1u;
    return status;
}

Test(sizes, a_capability_of_a_newer_plugin_is_cut)
{
    uint64_t caps;

    plugin.caps |= DLOCK_CAP_ALL + 1u;
    ops.open = abler_open;
    dlt_engine_open(&engine, "sizes", &(struct dlt_setup){.plugin = &plugin});
    caps = dlock_client_caps(engine.client);
    cr_expect_neq(caps, 0u);
    cr_expect_eq(caps & ~DLOCK_CAP_ALL, 0u);
}
