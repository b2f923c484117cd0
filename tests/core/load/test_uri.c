/* SPDX-License-Identifier: MIT */
/* Tests: core/load/uri.c */
/* Is a URI understood or refused with its place, never half understood, and never shown with its
 * password (C17, T75)? */
#include "load/uri.h"
#include "sys/error.h"
#include "sys/random.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum dlock_status parse(const char *text, struct dl_uri *uri, struct dlock_error *err)
{
    dl_error_reset(err);
    return dl_uri_parse(text, "URI", uri, err);
}

/* Refused, and the text has the place and the words. */
static void refused(const char *text, size_t offset, const char *words)
{
    struct dl_uri uri;
    struct dlock_error err;
    char place[40];

    (void)snprintf(place, sizeof place, "URI at offset %zu: ", offset);
    cr_expect_eq(parse(text, &uri, &err), DLOCK_INVALID, "%s", text);
    cr_expect(strstr(err.message, place) != NULL, "%s: not \"%s\" in \"%s\"", text, place,
              err.message);
    cr_expect(strstr(err.message, words) != NULL, "%s: not \"%s\" in \"%s\"", text, words,
              err.message);
    dl_uri_fini(&uri);
}

static void printed(const char *text, const char *expected)
{
    struct dl_uri uri;
    struct dlock_error err;
    char *out = NULL;

    cr_expect_eq(parse(text, &uri, &err), DLOCK_OK, "%s: %s", text, err.message);
    if (err.status == DLOCK_OK)
        out = dl_uri_print(&uri);
    cr_expect(out != NULL && strcmp(out, expected) == 0, "%s is printed as %s", text, out);
    free(out);
    dl_uri_fini(&uri);
}

Test(uri, all_parts)
{
    struct dl_uri uri;
    struct dlock_error err;

    cr_assert_eq(
        parse("mysql://bob:s%65cret@db1:3306,[::1]:33,10.0.0.9/my%2Fdb?a=1&b2_=x=%26y", &uri, &err),
        DLOCK_OK, "%s", err.message);
    cr_assert_str_eq(uri.scheme, "mysql");
    cr_assert_str_eq(uri.user, "bob");
    cr_assert_str_eq(uri.password, "secret");
    cr_assert_str_eq(uri.hosts[0], "db1:3306");
    cr_assert_str_eq(uri.hosts[1], "[::1]:33");
    cr_assert_str_eq(uri.hosts[2], "10.0.0.9");
    cr_assert_null(uri.hosts[3]);
    cr_assert_str_eq(uri.path, "/my/db");
    cr_assert_eq(uri.query.count, 2);
    cr_assert_str_eq(uri.query.options[0].name, "a");
    cr_assert_str_eq(uri.query.options[1].name, "b2_");
    cr_assert_str_eq(uri.query.options[1].value, "x=&y");
    cr_assert_eq(uri.query.options[1].offset, 60);
    dl_uri_fini(&uri);
}

Test(uri, without_authority)
{
    struct dl_uri uri;
    struct dlock_error err;

    cr_assert_eq(parse("sqlite:some/rel@tive.db?sync=full", &uri, &err), DLOCK_OK);
    cr_assert_not(uri.authority);
    cr_assert_null(uri.hosts[0]);
    cr_assert_null(uri.user);
    cr_assert_str_eq(uri.path, "some/rel@tive.db");
    dl_uri_fini(&uri);
    cr_assert_eq(parse("sqlite:///srv/a@b.db", &uri, &err), DLOCK_OK);
    cr_assert(uri.authority);
    cr_assert_null(uri.hosts[0]);
    cr_assert_str_eq(uri.path, "/srv/a@b.db");
    dl_uri_fini(&uri);
}

Test(uri, user_and_password_forms)
{
    struct dl_uri uri;
    struct dlock_error err;

    cr_assert_eq(parse("redis://:pw@h", &uri, &err), DLOCK_OK);
    cr_assert_null(uri.user);
    cr_assert_str_eq(uri.password, "pw");
    dl_uri_fini(&uri);
    cr_assert_eq(parse("redis://u:@h", &uri, &err), DLOCK_OK);
    cr_assert_str_eq(uri.password, "");
    dl_uri_fini(&uri);
    cr_assert_eq(parse("redis://u@h", &uri, &err), DLOCK_OK);
    cr_assert_null(uri.password);
    dl_uri_fini(&uri);
    cr_assert_eq(parse("redis+unix://u:a:b@/run/redis.sock?db=1", &uri, &err), DLOCK_OK);
    cr_assert_str_eq(uri.password, "a:b");
    cr_assert_null(uri.hosts[0]);
    dl_uri_fini(&uri);
}

Test(uri, scheme_refused)
{
    refused("", 0, "begins with a scheme");
    refused("Redis://h", 0, "begins with a scheme");
    refused("1redis://h", 0, "begins with a scheme");
    refused("/var/lib/locks.db", 0, "begins with a scheme");
    refused("a23456789012345678901234567890123://h", 0, "begins with a scheme");
    refused("redis", 5, "':' expected");
    refused("redis/x:", 5, "':' expected");
}

Test(uri, host_refused)
{
    refused("redis://h_x", 8, "letters, digits, hyphens");
    refused("redis://-h", 8, "begin or end with a hyphen");
    refused("redis://h-.x", 8, "begin or end with a hyphen");
    refused("redis://a..b", 8, "1 to 63 characters");
    refused("redis://h.", 8, "1 to 63 characters");
    refused("redis://h,,i", 10, "is missing");
    refused("redis://h,", 10, "is missing");
    refused("redis://:6379", 8, "is missing");
    refused("redis://h%41", 8, "letters, digits, hyphens");
    refused("redis://256.1.1.1", 8, "not an IPv4");
    refused("redis://127.1", 8, "not an IPv4");
    refused("redis://0x7f000001", 8, "not an IPv4");
    refused("redis://127.0x1:6379", 8, "not an IPv4");
    refused("redis://0X7F.1", 8, "not an IPv4");
    refused("redis://2130706433", 8, "not an IPv4");
    refused("redis://[::g]", 8, "not an IPv6");
    refused("redis://[fe80::1%25eth0]", 8, "not an IPv6");
    refused("redis://[::1", 8, "'[' without ']'");
    refused("redis://[::1]x", 13, "only ':' and a port");
    refused("redis://u:p@h1,@h2", 15, "an '@'");
}

Test(uri, port_refused)
{
    refused("redis://h:", 10, "missing after ':'");
    refused("redis://h:0", 10, "1 to 65535");
    refused("redis://h:65536", 10, "at most 65535");
    refused("redis://h:99999999999999999999", 10, "at most 65535");
    refused("redis://h:063", 10, "leading zeros");
    refused("redis://h:+1", 10, "decimal number");
    refused("redis://h:6379x", 14, "decimal number");
    refused("redis://h:0x10", 11, "decimal number");
}

Test(uri, bytes_refused)
{
    refused("sqlite:a\nb", 8, "control character");
    refused("sqlite:a\x7f", 8, "control character");
    refused("sqlite:a b", 8, "write %20");
    refused("sqlite:a#b", 8, "write %23");
    refused("sqlite:%00", 7, "encoded control");
    refused("sqlite:x%0a", 8, "encoded control");
    refused("sqlite:x%", 8, "hexadecimal");
    refused("sqlite:x%4", 8, "hexadecimal");
    refused("sqlite:x%4g", 8, "hexadecimal");
    refused("sqlite:x%%41", 8, "hexadecimal");
}

Test(uri, query_refused)
{
    refused("memory://x?", 11, "name=value");
    refused("memory://x?a=1&", 15, "name=value");
    refused("memory://x?a=1&&b=2", 15, "name=value");
    refused("memory://x?create", 17, "without '='");
    refused("memory://x?=1", 11, "name=value");
    refused("memory://x?TTL=1", 11, "name=value");
    refused("memory://x?t%74l=1", 11, "name=value");
    refused("memory://x?ttl=1&wait=2&ttl=1", 24, "option 'ttl' is repeated");
}

/* Decoded once: what an escape makes is not looked at again. */
Test(uri, decoded_once)
{
    struct dl_uri uri;
    struct dlock_error err;

    cr_assert_eq(parse("sqlite:a%2541%3Fb%26%23?x=%25%32%30+", &uri, &err), DLOCK_OK);
    cr_assert_str_eq(uri.path, "a%41?b&#");
    cr_assert_str_eq(uri.query.options[0].value, "%20+");
    dl_uri_fini(&uri);
}

Test(uri, limits)
{
    char text[DL_URI_MAX + 2];
    struct dl_uri uri;
    struct dlock_error err;

    memset(text, 'a', sizeof text);
    memcpy(text, "sqlite:", 7);
    text[DL_URI_MAX] = '\0';
    cr_assert_eq(parse(text, &uri, &err), DLOCK_OK);
    dl_uri_fini(&uri);
    text[DL_URI_MAX] = 'a';
    text[DL_URI_MAX + 1] = '\0';
    refused(text, DL_URI_MAX, "longer than");
}

Test(uri, too_many_hosts_and_options)
{
    char text[1024] = "redis://h0", piece[16];
    size_t used = strlen(text);

    for (int i = 1; i <= DL_URI_HOSTS_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ",h%d", i);
    refused(text, used - 3, "more than 32 hosts");
    used = (size_t)snprintf(text, sizeof text, "memory:?o0=");
    for (int i = 1; i <= DL_URI_OPTIONS_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "&o%d=", i);
    refused(text, used - (size_t)snprintf(piece, sizeof piece, "o%d=", DL_URI_OPTIONS_MAX),
            "more than 64 options");
}

/* C17: one way to print, without secrets. */
Test(uri, printed_without_secrets)
{
    printed("redis://user:hunter2@h:1/0", "redis://user:***@h:1/0");
    printed("redis://:hunter2@h", "redis://:***@h");
    printed("redis://u:@h", "redis://u:***@h");
    printed("redis://u@h?a=1&b=%c3%a9", "redis://u@h?a=1&b=%C3%A9");
    printed("memory://x?password=hunter2&tls_secret=x&a=b",
            "memory://x?password=***&tls_secret=***&a=b");
    printed("memory://x?auth_token=hunter2&passphrase=x",
            "memory://x?auth_token=***&passphrase=***");
    printed("memory://x?pass_file=/run/p&pass_env=PW", "memory://x?pass_file=/run/p&pass_env=PW");
    printed("memory://x?credfile=hunter2&userpwd=x&tls_keypass=y",
            "memory://x?credfile=***&userpwd=***&tls_keypass=***");
    printed("redlock:?node=redis://u:hunter2@h", "redlock:?node=***");
    printed("redlock:?node=h:1&node=redis://u:hunter2@h", "redlock:?node=h:1&node=***");
    printed("sqlite:/a%20c", "sqlite:/a%20c");
    printed("sqlite:%2f/x", "sqlite:%2F/x");
    printed("sqlite:////x", "sqlite:////x");
}

/* A misplaced character in a password must not make its rest a host, a path or a message. */
Test(uri, no_error_shows_a_password)
{
    static const char *const uris[] = {
        "redis://user:hunter2@evil@host/0",
        "redis://user:hunter2/x@host/0",
        "redis://user:hunter2?x@host/0",
        "redis://user:hunter2#x@host/0",
        "redis://user:hunter2%zz@host/0",
        "redis://user:hunter2 x@host/0",
        "redis://user:12hunter2",
        "redis://:hunter2",
        "redis://user:hunter2@ho_st/0",
        "redis://user:hunter2@host:99999/0",
        "redis://user:hunter2@host/0?nonsense",
        "redis://user:12?hunter2=3@host",
        "redis://user:12/hunter2@host",
        "hunter2",
        "redis:/user:hunter2@host\n",
        "redis://u:p/hunter2=x?hunter2=1@h",
    };

    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        struct dl_uri uri;
        struct dlock_error err;

        cr_expect_eq(parse(uris[i], &uri, &err), DLOCK_INVALID, "%s", uris[i]);
        cr_expect_null(strstr(err.message, "hunter2"), "%s", err.message);
        cr_expect_null(strstr(err.message, "unter"), "%s", err.message);
        dl_uri_fini(&uri);
    }
}

Test(uri, of_a_path)
{
    char scheme[] = "sqlite", path[] = "/home/j\xc3\xb3zef x/l?#%.db", *hosts[] = {NULL};
    char *text = dl_uri_print(
        &(struct dl_uri){.scheme = scheme, .authority = true, .hosts = hosts, .path = path});
    struct dl_uri uri;
    struct dlock_error err;

    cr_assert_str_eq(text, "sqlite:///home/j%C3%B3zef%20x/l%3F%23%25.db");
    cr_assert_eq(parse(text, &uri, &err), DLOCK_OK);
    cr_assert_str_eq(uri.path, "/home/j\xc3\xb3zef x/l?#%.db");
    dl_uri_fini(&uri);
    free(text);
}

Test(uri, query_alone)
{
    struct dl_uri_query query;
    struct dlock_error err;

    dl_error_reset(&err);
    cr_assert_eq(dl_uri_query_parse("", "defaults", &query, &err), DLOCK_OK);
    cr_assert_eq(query.count, 0);
    dl_uri_query_fini(&query);
    cr_assert_eq(dl_uri_query_parse("ttl=3s&wait=0", "defaults", &query, &err), DLOCK_OK);
    cr_assert_eq(query.count, 2);
    cr_assert_str_eq(query.options[1].value, "0");
    dl_uri_query_fini(&query);
    cr_assert_eq(dl_uri_query_parse("ttl=3s&x", "defaults", &query, &err), DLOCK_INVALID);
    cr_assert(strstr(err.message, "defaults at offset 8: ") != NULL, "%s", err.message);
    dl_uri_query_fini(&query);
}

/* ---- property ---- */

static void same(const struct dl_uri *a, const struct dl_uri *b, const char *text)
{
    cr_assert_str_eq(a->scheme, b->scheme, "%s", text);
    cr_assert_eq(a->user == NULL, b->user == NULL, "%s", text);
    cr_assert(a->user == NULL || strcmp(a->user, b->user) == 0, "%s", text);
    cr_assert_eq(a->password == NULL, b->password == NULL, "%s", text);
    cr_assert_str_eq(a->path, b->path, "%s", text);
    cr_assert_eq(a->authority, b->authority, "%s", text);
    for (size_t i = 0; a->hosts[i] != NULL || b->hosts[i] != NULL; i++)
        cr_assert_str_eq(a->hosts[i], b->hosts[i], "%s", text);
    cr_assert_eq(a->query.count, b->query.count, "%s", text);
    for (size_t i = 0; i < a->query.count; i++)
        cr_assert_str_eq(a->query.options[i].name, b->query.options[i].name, "%s", text);
}

/* What parses prints as something that parses to the same, and prints the same. True: it parsed. */
static bool fixpoint_holds(const char *text)
{
    struct dl_uri first, second;
    struct dlock_error err;
    char *printed_first, *printed_second;
    bool parsed = parse(text, &first, &err) == DLOCK_OK;

    if (!parsed) {
        cr_assert_eq(err.status, DLOCK_INVALID, "%s", text);
        cr_assert_neq(err.message[0], '\0', "%s", text);
        dl_uri_fini(&first);
        return false;
    }
    printed_first = dl_uri_print(&first);
    cr_assert_eq(parse(printed_first, &second, &err), DLOCK_OK, "%s -> %s: %s", text, printed_first,
                 err.message);
    same(&first, &second, text);
    printed_second = dl_uri_print(&second);
    cr_assert_str_eq(printed_first, printed_second, "%s", text);
    free(printed_first);
    free(printed_second);
    dl_uri_fini(&first);
    dl_uri_fini(&second);
    return true;
}

static void grow(char *text, size_t size, uint64_t *seed)
{
    static const char *const pieces[] = {
        "redis", ":",    "://",      "//",    "/",       "?",          "&",        "=",
        "@",     ",",    "[::1]",    "%41",   "%2F",     "%25",        "%3a",      "%00",
        "%",     "h",    "10.0.0.1", "a-b.c", ":6379",   "ttl",        "30s",      "a",
        "Z",     "0",    ".",        "..",    "-",       "_",          "\xc3\xa9", "#",
        " ",     "\x01", "password", "x=y",   "memory:", "sqlite:///", "u:p@",     "+",
    };
    size_t used = 0, count = 1 + dl_random_jitter(seed) % 14;

    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *piece = pieces[dl_random_jitter(seed) % (sizeof pieces / sizeof pieces[0])];
        int len = snprintf(text + used, size - used, "%s%s", i == 0 ? "x:" : "", piece);

        used += (size_t)len;
    }
}

Test(uri, parse_print_parse_is_a_fixpoint)
{
    uint64_t seed = 20240229;
    char text[512];
    int parsed = 0;

    for (int i = 0; i < 60000; i++) {
        grow(text, sizeof text, &seed);
        parsed += fixpoint_holds(text);
    }
    cr_assert_gt(parsed, 6000, "too few to mean anything: %d", parsed);
}

Test(uri, random_bytes_are_survived)
{
    uint64_t seed = 7;
    char text[64];

    for (int i = 0; i < 30000; i++) {
        size_t len = dl_random_jitter(&seed) % sizeof text;

        for (size_t j = 0; j < len; j++)
            text[j] = (char)(dl_random_jitter(&seed) >> 20);
        text[len] = '\0';
        if (i % 2 == 0 && len > 8)
            memcpy(text, "redis://", 8);
        (void)fixpoint_holds(text);
    }
}
