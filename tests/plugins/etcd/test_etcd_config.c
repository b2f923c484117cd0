/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/config.c */
/* URIs: what they mean, and which are refused before a server is asked. */
#include "config.h"
#include "session_kit.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct dlock_plugin no_plugin;
static struct dlt_session s;
static struct etcd_config config;
static const char *hosts[ETCD_MEMBERS_MAX + 2];

static void target(const char *scheme)
{
    dlt_session_target(&s, &no_plugin, scheme, "h1");
    hosts[0] = "h1";
    s.target.hosts = hosts;
    s.target.path = "";
}

static void set_up(void)
{
    target("etcd");
}

TestSuite(config, .init = set_up);

static enum dlock_status take(void)
{
    s.err = (struct dlock_error)DLOCK_ERROR_INIT;
    return etcd_config_init(&config, &s.target, &s.err);
}

static void want_ok(void)
{
    cr_assert_eq(take(), DLOCK_OK, "%s", s.err.message);
}

static void want_invalid(const char *text)
{
    cr_assert_eq(take(), DLOCK_INVALID, "want \"%s\"", text);
    cr_assert(strstr(s.err.message, text) != NULL, "\"%s\" has no \"%s\"", s.err.message, text);
    cr_assert(strstr(s.err.message, "secret") == NULL, "C17");
    cr_assert_str_eq(s.err.origin, "etcd");
}

Test(config, defaults)
{
    dlt_session_option(&s, "waiter_lease", "3000");
    want_ok();
    cr_assert_eq(config.count, 1);
    cr_assert_str_eq(config.members[0].host, "h1");
    cr_assert_eq(config.members[0].port, 2379);
    cr_assert_str_eq(config.prefix, "");
    cr_assert_eq(config.prefix_len, 0);
    cr_assert(!config.raw && !config.secure && config.user == NULL && config.sni == NULL);
    cr_assert_eq(config.fence_scale, 32);
    cr_assert_eq(config.waiter_lease_ms, 3000);
}

Test(config, several_members)
{
    hosts[1] = "h2:4000";
    hosts[2] = "[::1]:5000";
    want_ok();
    cr_assert_eq(config.count, 3);
    cr_assert_eq(config.members[1].port, 4000);
    cr_assert_str_eq(config.members[2].host, "::1");
}

Test(config, OPN_3_members_that_are_refused)
{
    static const char *const bad[] = {"h:0", "h:65536", "h:x", "[::1", ""};
    static const char *const many[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        hosts[1] = bad[i];
        want_invalid("not one that can be looked up");
    }
    hosts[1] = "H1:2379";
    want_invalid("'H1:2379' is there twice");
    hosts[1] = "h1:2380";
    want_ok();
    memcpy(hosts, many, sizeof many);
    want_invalid("more than 9 hosts");
    hosts[9] = NULL;
    want_ok();
    cr_assert_eq(config.count, 9);
    hosts[0] = NULL;
    want_invalid("want a host, as in etcd://");
}

Test(config, the_path_is_a_prefix_of_keys)
{
    static const char *const paths[][2] = {
        {"", ""},       {"/", ""},        {"//", ""},
        {"/a", "a/"},   {"/a/", "a/"},    {"/a/b//", "a/b/"},
        {"//a", "/a/"}, {"/a b", "a b/"}, {"/\xc3\xa9", "\xc3\xa9/"}};

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        s.target.path = paths[i][0];
        want_ok();
        cr_assert_str_eq(config.prefix, paths[i][1], "%s", paths[i][0]);
        cr_assert_eq(config.prefix_len, strlen(paths[i][1]));
    }
}

Test(config, OPN_3_prefixes_that_are_refused)
{
    static const char *const bad[] = {"/a\nb", "/\x01", "/a\x7f", "/\t"};
    char path[ETCD_PREFIX_MAX + 3];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        s.target.path = bad[i];
        want_invalid("control characters");
    }
    memset(path, 'p', sizeof path);
    path[0] = '/';
    path[ETCD_PREFIX_MAX + 2] = '\0';
    s.target.path = path;
    want_invalid("has 256 bytes");
    path[ETCD_PREFIX_MAX + 1] = '\0';
    want_ok();
    cr_assert_eq(config.prefix_len, ETCD_PREFIX_MAX + 1);
}

Test(config, users)
{
    s.target.user = "u";
    s.target.password = "secret";
    want_ok();
    cr_assert_str_eq(config.user, "u");
    s.target.user = "";
    want_invalid("name of the user");
    s.target.user = NULL;
    want_invalid("a password is for a user");
}

Test(config, options)
{
    dlt_session_option(&s, "key", "raw");
    dlt_session_option(&s, "fence_scale", "1");
    want_ok();
    cr_assert(config.raw);
    cr_assert_eq(config.fence_scale, 1);
    dlt_session_option(&s, "key", "name");
    dlt_session_option(&s, "fence_scale", "32");
    want_ok();
    cr_assert(!config.raw);
    cr_assert_eq(config.fence_scale, 32);
}

Test(config, TLS)
{
    static const char *const names[] = {"ca", "cert", "key_file", "verify", "sni"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        target("etcd");
        dlt_session_option(&s, names[i], "full");
        want_invalid("= is for TLS: etcds:// and not etcd://");
        cr_assert_eq(strncmp(s.err.message, names[i], strlen(names[i])), 0);
    }
    target("etcds");
    dlt_session_option(&s, "sni", "name");
    dlt_session_option(&s, "verify", "ca");
    want_ok();
    cr_assert(config.secure);
    cr_assert_str_eq(config.sni, "name");
    cr_assert_eq(config.tls.verify, TLS_VERIFY_CA);
    cr_assert_str_eq(config.tls.alpn, "h2");
    dlt_session_option(&s, "cert", "/c.pem");
    want_invalid("cert= and key_file= go together");
}
