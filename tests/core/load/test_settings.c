/* SPDX-License-Identifier: MIT */
/* Tests: core/load/settings.c */
/* Do defaults, URI and the caller's struct come together as promised? */
#include "load/option.h"
#include "load/settings.h"
#include "sys/error.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dl_settings base;
static struct dl_settings out;
static struct dlock_error err;

static void set_up(void)
{
    dl_settings_init(&base);
    memset(&out, 0x55, sizeof out);
    dl_error_reset(&err);
}

TestSuite(settings, .init = set_up);

Test(settings, the_table_is_valid)
{
    char why[DL_OPTION_WHY] = "";

    cr_assert(dl_option_table_valid(dl_settings_options, why), "%s", why);
}

Test(settings, fallbacks)
{
    cr_expect_eq(base.ttl_ms, 30000);
    cr_expect_eq(base.wait_ms, DLOCK_FOREVER);
    cr_expect_eq(base.op_timeout_ms, 0);
    cr_expect_eq(base.connect_timeout_ms, 5000);
    cr_expect_eq(base.max_hold_ms, 0);
    cr_expect_eq(base.poll_max_ms, 1000);
    cr_expect_eq(base.connections, 16);
    cr_expect_eq(base.renew, DLOCK_ON);
    cr_expect_eq(base.fence, DLOCK_DEFAULT);
    cr_expect_str_eq(base.label, "");
}

static void expect_same(const struct dl_settings *a, const struct dl_settings *b)
{
    cr_expect_eq(a->ttl_ms, b->ttl_ms);
    cr_expect_eq(a->wait_ms, b->wait_ms);
    cr_expect_eq(a->op_timeout_ms, b->op_timeout_ms);
    cr_expect_eq(a->connect_timeout_ms, b->connect_timeout_ms);
    cr_expect_eq(a->max_hold_ms, b->max_hold_ms);
    cr_expect_eq(a->poll_max_ms, b->poll_max_ms);
    cr_expect_eq(a->connections, b->connections);
    cr_expect_eq(a->renew, b->renew);
    cr_expect_eq(a->fence, b->fence);
    cr_expect_str_eq(a->label, b->label);
}

static void set(const char *name, const char *text)
{
    char why[DL_OPTION_WHY] = "";
    int64_t number = 0;

    cr_assert(dl_option_parse(dl_option_find(dl_settings_options, name), text, &number, why), "%s",
              why);
    cr_assert(dl_settings_set(&base, name, text, number));
}

Test(settings, every_option_arrives)
{
    set("ttl", "2s");
    set("wait", "0");
    set("op_timeout", "70ms");
    set("connect_timeout", "80ms");
    set("max_hold", "9m");
    set("poll_max", "20ms");
    set("connections", "3");
    set("renew", "off");
    set("fence", "on");
    set("label", "nightly");
    cr_expect_eq(base.ttl_ms, 2000);
    cr_expect_eq(base.wait_ms, 0);
    cr_expect_eq(base.op_timeout_ms, 70);
    cr_expect_eq(base.connect_timeout_ms, 80);
    cr_expect_eq(base.max_hold_ms, 540000);
    cr_expect_eq(base.poll_max_ms, 20);
    cr_expect_eq(base.connections, 3);
    cr_expect_eq(base.renew, DLOCK_OFF);
    cr_expect_eq(base.fence, DLOCK_ON);
    cr_expect_str_eq(base.label, "nightly");
    set("fence", "off");
    cr_expect_eq(base.fence, DLOCK_OFF);
    set("fence", "auto");
    cr_expect_eq(base.fence, DLOCK_DEFAULT);
    set("wait", "forever");
    cr_expect_eq(base.wait_ms, DLOCK_FOREVER);
    cr_expect_not(dl_settings_set(&base, "label", "\xc2\x9b", 0), "not printable");
}

Test(settings, no_options_means_the_clients)
{
    set("ttl", "2s");
    cr_assert_eq(dl_settings_for_lock(&base, NULL, &out, &err), DLOCK_OK);
    expect_same(&out, &base);
    cr_assert_eq(dl_settings_for_lock(&base, &(struct dlock_options)DLOCK_OPTIONS_INIT, &out, &err),
                 DLOCK_OK);
    expect_same(&out, &base);
}

Test(settings, options_override)
{
    const struct dlock_options options = {.struct_size = sizeof options,
                                          .ttl_ms = 50,
                                          .wait_ms = 0,
                                          .op_timeout_ms = 10,
                                          .max_hold_ms = 1,
                                          .renew = DLOCK_OFF,
                                          .fence = DLOCK_ON,
                                          .label = "x"};

    cr_assert_eq(dl_settings_for_lock(&base, &options, &out, &err), DLOCK_OK);
    cr_expect_eq(out.ttl_ms, 50);
    cr_expect_eq(out.wait_ms, 0);
    cr_expect_eq(out.op_timeout_ms, 10);
    cr_expect_eq(out.max_hold_ms, 1);
    cr_expect_eq(out.renew, DLOCK_OFF);
    cr_expect_eq(out.fence, DLOCK_ON);
    cr_expect_str_eq(out.label, "x");
}

Test(settings, wait_forms)
{
    struct dlock_options options = {.struct_size = sizeof options, .wait_ms = DLOCK_FOREVER};

    base.wait_ms = 7;
    cr_assert_eq(dl_settings_for_lock(&base, &options, &out, &err), DLOCK_OK);
    cr_expect_eq(out.wait_ms, DLOCK_FOREVER);
    options.wait_ms = DLOCK_AS_OPTIONS;
    cr_assert_eq(dl_settings_for_lock(&base, &options, &out, &err), DLOCK_OK);
    cr_expect_eq(out.wait_ms, 7);
    options.wait_ms = 0;
    cr_assert_eq(dl_settings_for_lock(&base, &options, &out, &err), DLOCK_OK);
    cr_expect_eq(out.wait_ms, 0);
    options.wait_ms = INT64_MAX;
    cr_assert_eq(dl_settings_for_lock(&base, &options, &out, &err), DLOCK_OK);
    cr_expect_eq(out.wait_ms, INT64_MAX);
    options.wait_ms = -3;
    cr_assert_eq(dl_settings_for_lock(&base, &options, &out, &err), DLOCK_INVALID);
    cr_expect(strstr(err.message, "wait_ms is -3") != NULL, "%s", err.message);
}

static void refused(struct dlock_options options, const char *member)
{
    options.struct_size = sizeof options;
    cr_expect_eq(dl_settings_for_lock(&base, &options, &out, &err), DLOCK_INVALID, "%s", member);
    cr_expect(strstr(err.message, member) != NULL, "%s: %s", member, err.message);
}

/* T24 and the issue: no wrap, no silent correction. */
Test(settings, out_of_range)
{
    static const char long_label[] =
        "12345678901234567890123456789012345678901234567890123456789012345";

    refused((struct dlock_options){.ttl_ms = -1}, "ttl_ms is -1");
    refused((struct dlock_options){.ttl_ms = 49}, "ttl_ms is 49");
    refused((struct dlock_options){.ttl_ms = DL_TTL_MAX_MS + 1}, "ttl_ms");
    refused((struct dlock_options){.ttl_ms = INT64_MAX}, "ttl_ms");
    refused((struct dlock_options){.op_timeout_ms = 9}, "op_timeout_ms");
    refused((struct dlock_options){.op_timeout_ms = INT64_MIN}, "op_timeout_ms");
    refused((struct dlock_options){.max_hold_ms = -1}, "max_hold_ms");
    refused((struct dlock_options){.renew = (enum dlock_tri)3}, "renew is 3");
    refused((struct dlock_options){.fence = (enum dlock_tri) - 1}, "fence");
    refused((struct dlock_options){.label = "a\nb"}, "label");
    refused((struct dlock_options){.label = long_label}, "label");
}

Test(settings, a_size_that_was_never_published)
{
    static const uint32_t sizes[] = {0, 3, offsetof(struct dlock_options, end),
                                     sizeof(struct dlock_options) + 8, UINT32_MAX};
    struct dlock_options options = DLOCK_OPTIONS_INIT;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        options.struct_size = sizes[i];
        cr_assert_eq(dl_settings_for_lock(&base, &options, &out, &err), DLOCK_INVALID);
    }
    options.struct_size = 3;
    (void)dl_settings_for_lock(&base, &options, &out, &err);
    cr_expect(strstr(err.message, "struct_size is 3") != NULL, "%s", err.message);
}

Test(settings, end)
{
    struct dlock_options options = {.struct_size = sizeof options, .end = DLOCK_END_TTL};

    cr_assert_eq(dl_settings_for_lock(&base, &options, &out, &err), DLOCK_OK);
    cr_expect_eq(out.end, DLOCK_END_TTL);
    options.end = 3;
    cr_assert_eq(dl_settings_for_lock(&base, &options, &out, &err), DLOCK_INVALID);
    cr_expect_str_eq(err.message, "option end is 3, want 0 to 2");
}

Test(settings, op_timeout)
{
    cr_expect_eq(dl_settings_op_timeout_ms(0, 30000), 2000);
    cr_expect_eq(dl_settings_op_timeout_ms(0, 4000), 1000);
    cr_expect_eq(dl_settings_op_timeout_ms(0, 50), 12, "the least there is");
    cr_expect_eq(dl_settings_op_timeout_ms(70, 50), 70);
}
