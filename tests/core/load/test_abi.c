/* SPDX-License-Identifier: MIT */
/* Tests: core/load/abi.c */
/* Is every rule of a plugin's descriptor checked, in release builds too? */
#include "load/abi.h"
#include "sys/error.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *const schemes[] = {"x", "x+tls", NULL};
static struct dlock_backend_ops ops;
static struct dlock_plugin descriptor;
static struct dl_plugin out;
static struct dlock_error err;

static enum dlock_status x_open(void *self, const struct dlock_host *host,
                                const struct dlock_target *target, int64_t deadline_ns,
                                struct dlock_session_info *info, struct dlock_error *e)
{
    (void)self, (void)host, (void)target, (void)deadline_ns, (void)info, (void)e;
    return DLOCK_OK;
}

static void x_close(void *self, bool forked)
{
    (void)self, (void)forked;
}

static enum dlock_status x_try(void *self, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *e)
{
    (void)self, (void)req, (void)grant, (void)e;
    return DLOCK_OK;
}

static enum dlock_status x_renew(void *self, struct dlock_lease_op *const *lease_ops, size_t n,
                                 int64_t deadline_ns, struct dlock_error *e)
{
    (void)self, (void)lease_ops, (void)n, (void)deadline_ns, (void)e;
    return DLOCK_OK;
}

static enum dlock_status x_unlock(void *self, const struct dlock_request *req,
                                  struct dlock_error *e)
{
    (void)self, (void)req, (void)e;
    return DLOCK_OK;
}

static void x_interrupt(void *self, const struct dlock_request *req)
{
    (void)self, (void)req;
}

static void set_up(void)
{
    ops = (struct dlock_backend_ops){.struct_size = sizeof ops,
                                     .open = x_open,
                                     .close = x_close,
                                     .trylock = x_try,
                                     .renew = x_renew,
                                     .unlock = x_unlock};
    descriptor = (struct dlock_plugin){.magic = DLOCK_PLUGIN_MAGIC,
                                       .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
                                       .struct_size = sizeof descriptor,
                                       .name = "x",
                                       .version = "1",
                                       .schemes = schemes,
                                       .ops = &ops};
    dl_error_reset(&err);
    memset(&out, 0x55, sizeof out);
}

TestSuite(abi, .init = set_up);

static void taken(void)
{
    cr_expect_eq(dl_abi_check(&descriptor, "file", &out, &err), DLOCK_OK, "%s", err.message);
    set_up();
}

static void refused(const char *words)
{
    cr_expect_eq(dl_abi_check(&descriptor, "file", &out, &err), DLOCK_PLUGIN_ABI, "%s", words);
    cr_expect(strncmp(err.message, "file: ", 6) == 0 && strstr(err.message, words) != NULL,
              "\"%s\" is not in \"%s\"", words, err.message);
    set_up();
}

Test(abi, a_right_one)
{
    cr_assert_eq(dl_abi_check(&descriptor, "file", &out, &err), DLOCK_OK, "%s", err.message);
    cr_expect_str_eq(out.name, "x");
    cr_expect_eq(out.ops.open, x_open);
    cr_expect_null(out.ops.lock);
    cr_assert_not_null(out.options);
    cr_expect_null(out.options[0].name);
}

Test(abi, header)
{
    cr_expect_eq(dl_abi_check(NULL, "file", &out, &err), DLOCK_PLUGIN_ABI);
    descriptor.magic = 1;
    refused("magic: expected 0x444c4b50, got 0x00000001");
    descriptor.abi_major = 2, descriptor.abi_minor = 6;
    refused("plugin ABI: expected 3, got 2.6: the plugin was built for an older dlock, and has to "
            "be built for this one");
    descriptor.abi_minor = 77;
    taken();
    descriptor.struct_size = 8;
    refused("descriptor struct_size: expected");
    descriptor.struct_size = 1u << 30;
    refused("descriptor struct_size: expected");
    descriptor.ops = NULL;
    refused("ops: expected a table, got NULL");
    ops.struct_size = 0;
    refused("ops struct_size: expected");
    ops.struct_size = sizeof ops - 3;
    refused("ops struct_size: expected");
    ops.session_size = UINT32_MAX;
    refused("session_size");
    ops.attempt_size = UINT32_MAX;
    refused("attempt_size");
}

Test(abi, names)
{
    static const char *const none[] = {NULL};
    static const char *const wrong[] = {"x", "X", NULL};

    descriptor.name = NULL;
    refused("name: expected [a-z]");
    descriptor.name = "../x";
    refused("name: expected [a-z]");
    descriptor.name = "";
    refused("name: expected [a-z]");
    descriptor.version = NULL;
    refused("version");
    descriptor.schemes = NULL;
    refused("schemes: expected one");
    descriptor.schemes = none;
    refused("schemes: expected one");
    descriptor.schemes = wrong;
    refused("schemes: expected [a-z][a-z0-9+.-]{0,31}, got X");
}

Test(abi, options)
{
    static const struct dlock_option_spec bad[] = {{"colour", "hue", NULL, NULL, "h"}, {0}};
    static const struct dlock_option_spec clash[] = {{"pass_file", "text", NULL, NULL, "h"}, {0}};

    descriptor.options = bad;
    refused("option 'colour': expected a type");
    descriptor.options = clash;
    refused("option 'pass_file': expected a name that dlock itself does not use");
}

Test(abi, required_slots)
{
    ops.open = NULL;
    refused("slot open: expected a function, got NULL");
    ops.close = NULL;
    refused("slot close");
    ops.trylock = NULL;
    refused("slot trylock");
    ops.renew = NULL;
    refused("slot renew");
    ops.unlock = NULL;
    refused("slot unlock");
}

Test(abi, wait_pairs)
{
    descriptor.caps = DLOCK_CAP_NATIVE_WAIT;
    refused("capability NATIVE_WAIT: expected slot lock");
    ops.lock = x_try;
    refused("slot lock: expected capability NATIVE_WAIT");
    descriptor.caps = DLOCK_CAP_NATIVE_WAIT, ops.lock = x_try;
    refused("expected slot interrupt with it, got NULL");
    descriptor.caps = DLOCK_CAP_NATIVE_WAIT, ops.lock = x_try, ops.interrupt = x_interrupt;
    taken();
    descriptor.caps = DLOCK_CAP_WATCH;
    refused("capability WATCH: expected slot watch");
    ops.watch = x_try;
    refused("slot watch: expected capability WATCH");
    descriptor.caps = DLOCK_CAP_WATCH, ops.watch = x_try;
    refused("expected slot interrupt with it, got NULL");
    descriptor.caps = DLOCK_CAP_WATCH, ops.watch = x_try, ops.interrupt = x_interrupt;
    taken();
    ops.interrupt = x_interrupt;
    refused("slot interrupt: expected capability NATIVE_WAIT or WATCH");
}

Test(abi, queue_and_implications)
{
    descriptor.caps = DLOCK_CAP_QUEUE;
    refused("capability QUEUE: expected slot dequeue");
    ops.dequeue = x_unlock;
    refused("slot dequeue: expected capability QUEUE");
    descriptor.caps = DLOCK_CAP_QUEUE, ops.dequeue = x_unlock;
    refused("capability QUEUE: expected WATCH");
    descriptor.caps = DLOCK_CAP_QUEUE | DLOCK_CAP_WATCH, ops.dequeue = x_unlock, ops.watch = x_try,
    ops.interrupt = x_interrupt;
    taken();
    descriptor.caps = DLOCK_CAP_DOWNGRADE;
    refused("capability DOWNGRADE: expected RWLOCK");
    descriptor.caps = DLOCK_CAP_DOWNGRADE | DLOCK_CAP_RWLOCK;
    taken();
    descriptor.caps = DLOCK_CAP_FENCE_DURABLE;
    refused("capability FENCE_DURABLE: expected FENCE");
    descriptor.caps = DLOCK_CAP_FENCE_DURABLE | DLOCK_CAP_FENCE;
    taken();
    descriptor.caps = DLOCK_CAP_TETHERED | DLOCK_CAP_SESSION;
    refused("capability TETHERED: expected no SESSION with it, got both");
    descriptor.caps = DLOCK_CAP_TETHERED;
    taken();
}

Test(abi, a_newer_table_is_cut)
{
    struct {
        struct dlock_backend_ops known;
        void *later[4];
    } newer = {.known = ops};

    newer.known.struct_size = sizeof newer;
    descriptor.ops = &newer.known;
    descriptor.caps = 1u << 31 | DLOCK_CAP_FENCE;
    cr_assert_eq(dl_abi_check(&descriptor, "file", &out, &err), DLOCK_OK, "%s", err.message);
    cr_expect_eq(out.caps, DLOCK_CAP_FENCE, "unknown bits are dropped");
}

static const struct dlock_option_spec two_ways[] = {
    {"strategy", "enum", "row", "row|session", "how"},
    {0},
};
static struct dlock_backend_ops session_ops;
static struct dlock_strategy strategies[3];

static void set_up_strategies(void)
{
    set_up();
    session_ops = ops;
    session_ops.lock = x_try;
    session_ops.interrupt = x_interrupt;
    session_ops.session_size = 7;
    strategies[0] = (struct dlock_strategy){"row", DLOCK_CAP_FENCE | DLOCK_CAP_KEEP, &ops};
    strategies[1] = (struct dlock_strategy){
        "session", DLOCK_CAP_FENCE | DLOCK_CAP_NATIVE_WAIT | DLOCK_CAP_SESSION, &session_ops};
    descriptor.options = two_ways;
    descriptor.strategies = strategies;
    descriptor.ops = NULL;
}

Test(abi, STG_1_each_strategy_has_its_slots_and_capabilities)
{
    struct dl_plugin way;

    set_up_strategies();
    cr_assert_eq(dl_abi_check(&descriptor, "file", &out, &err), DLOCK_OK, "%s", err.message);
    cr_expect_eq(out.caps,
                 DLOCK_CAP_FENCE | DLOCK_CAP_KEEP | DLOCK_CAP_NATIVE_WAIT | DLOCK_CAP_SESSION);
    dl_abi_choose(&out, "row", &way);
    cr_expect_eq(way.caps, DLOCK_CAP_FENCE | DLOCK_CAP_KEEP);
    cr_expect_null(way.ops.lock);
    dl_abi_choose(&out, "session", &out);
    cr_expect_eq(out.caps, strategies[1].caps);
    cr_expect_eq(out.ops.lock, x_try);
    cr_expect_eq(out.ops.session_size, 7u);
    cr_expect_null(out.strategies, "it is chosen");
}

Test(abi, STG_1_strategies_and_values_of_the_option_are_the_same)
{
    static const struct dlock_option_spec text[] = {{"strategy", "text", "row", NULL, "how"}, {0}};
    static const struct dlock_option_spec no_default[] = {
        {"strategy", "enum", NULL, "row|session", "how"}, {0}};

    set_up_strategies();
    descriptor.options = NULL;
    refused("strategies: expected an option 'strategy', an enum with a default");
    set_up_strategies();
    descriptor.options = text;
    refused("strategies: expected an option 'strategy', an enum with a default");
    set_up_strategies();
    descriptor.options = no_default;
    refused("strategies: expected an option 'strategy', an enum with a default");
    set_up_strategies();
    strategies[1].name = NULL;
    refused("strategies: expected one for each value of the option 'strategy'");
    set_up_strategies();
    strategies[1].name = "table";
    refused("strategy table: expected a value of the option 'strategy'");
    set_up_strategies();
    strategies[1].name = "row|session";
    refused("strategy row|session: expected a value of the option 'strategy'");
    set_up_strategies();
    strategies[1].name = "row";
    refused("strategy row: expected one of that name, got two");
}

Test(abi, STG_1_each_strategy_is_checked_as_one_table)
{
    set_up_strategies();
    descriptor.ops = &ops;
    refused("strategies: expected no ops and no caps beside them");
    set_up_strategies();
    descriptor.caps = DLOCK_CAP_FENCE;
    refused("strategies: expected no ops and no caps beside them");
    set_up_strategies();
    strategies[1].ops = NULL;
    refused("ops: expected a table, got NULL");
    set_up_strategies();
    session_ops.struct_size = 8;
    refused("ops struct_size: expected");
    set_up_strategies();
    session_ops.unlock = NULL;
    refused("slot unlock");
    set_up_strategies();
    strategies[0].caps |= DLOCK_CAP_NATIVE_WAIT;
    refused("capability NATIVE_WAIT: expected slot lock");
    set_up_strategies();
    strategies[1].caps |= DLOCK_CAP_TETHERED;
    refused("capability TETHERED: expected no SESSION with it, got both");
}

Test(abi, schemes_served)
{
    cr_assert_eq(dl_abi_check(&descriptor, "file", &out, &err), DLOCK_OK);
    cr_expect_eq(dl_abi_serves(&out, "x+tls", &err), DLOCK_OK);
    cr_expect_eq(dl_abi_serves(&out, "x+t", &err), DLOCK_INVALID);
    cr_expect(strstr(err.message, "unknown scheme 'x+t'") != NULL, "%s", err.message);
    cr_expect(strstr(err.message, "serves x, x+tls") != NULL, "all it serves: %s", err.message);
}
