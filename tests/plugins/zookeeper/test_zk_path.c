/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/node.c */
/* Which node has a name, and which name has a node? */
#include "node.h"

#include <criterion/criterion.h>
#include <string.h>

static struct zk_config config;
static struct zk_path path;

static void base(const char *text, bool raw)
{
    config = (struct zk_config){.base_len = strlen(text), .raw = raw};
    (void)snprintf(config.base, sizeof config.base, "%s", text);
}

/* And the name is found again. */
static void path_is(const char *name, size_t len, const char *want)
{
    unsigned char back[255];

    cr_assert(zk_node_path(&path, &config, name, len), "%s", want);
    cr_assert_str_eq(path.text, want);
    cr_assert_eq(path.len, strlen(want));
    cr_assert_eq(zk_node_name(back, &config, path.text + config.base_len + 1), len, "%s", want);
    cr_assert_eq(memcmp(back, name, len), 0, "%s", want);
}

Test(path, TRY_7_a_name_is_one_node_below_the_base)
{
    base("/dlock", false);
    path_is("job", 3, "/dlock/job");
    path_is("a b~", 4, "/dlock/a b~");
    base("", false);
    path_is("job", 3, "/job");
}

Test(path, TRY_7_other_bytes_are_escaped)
{
    base("/p", false);
    path_is("a/b", 3, "/p/a%2Fb");
    path_is("a%2Fb", 5, "/p/a%252Fb");
    path_is("a\0b", 3, "/p/a%00b");
    path_is("\x1F\x20\x7E\x7F\x80\xFF", 6, "/p/%1F ~%7F%80%FF");
    path_is("\xC3\xA4", 2, "/p/%C3%A4");
}

Test(path, TRY_7_names_that_are_no_nodes_are_escaped)
{
    base("/p", false);
    path_is(".", 1, "/p/%2E");
    path_is("..", 2, "/p/%2E.");
    path_is("...", 3, "/p/...");
    path_is(".a", 2, "/p/.a");
    path_is("zookeeper", 9, "/p/zookeeper");
    base("", false);
    path_is("zookeeper", 9, "/%7Aookeeper");
    path_is("zookeeper2", 10, "/zookeeper2");
}

Test(path, TRY_7_the_longest_name_fits)
{
    char name[255], long_base[ZK_BASE_MAX + 1];
    unsigned char back[255];

    memset(name, '\xFF', sizeof name);
    memset(long_base, 'b', ZK_BASE_MAX);
    long_base[0] = '/';
    long_base[ZK_BASE_MAX] = '\0';
    base(long_base, false);
    cr_assert(zk_node_path(&path, &config, name, sizeof name));
    cr_assert_eq(path.len, ZK_PATH_MAX);
    cr_assert_eq(zk_node_name(back, &config, path.text + ZK_BASE_MAX + 1), sizeof name);
    cr_assert_eq(memcmp(back, name, sizeof name), 0);
}

static void no_name(const char *child)
{
    unsigned char name[255];

    cr_assert_eq(zk_node_name(name, &config, child), 0, "%s", child);
}

Test(path, a_node_of_something_else_has_no_name)
{
    char child[3 * 256 + 1];

    base("", false);
    no_name("");
    no_name("a%");
    no_name("a%2");
    no_name("a%2f"); /* dlock writes no such digits */
    no_name("a%20b");
    no_name("a\xC3\xA4");
    no_name("zookeeper");
    no_name("%2E%2E");
    for (size_t i = 0; i < 256; i++)
        memcpy(child + 3 * i, "%2F", 3);
    child[sizeof child - 1] = '\0';
    no_name(child); /* 256 bytes */
    base("", true);
    memset(child, 'a', 256);
    child[256] = '\0';
    no_name(child);
    no_name("a//b");
}

Test(path, TRY_7_with_raw_keys_a_name_is_a_path)
{
    base("/p", true);
    path_is("job", 3, "/p/job");
    path_is("a/b%2F", 6, "/p/a/b%2F");
    path_is(".a/..b/c..", 10, "/p/.a/..b/c..");
    path_is("\xC3\xA4/\xE2\x82\xAC", 6, "/p/\xC3\xA4/\xE2\x82\xAC");
    path_is("zookeeper/a", 11, "/p/zookeeper/a");
    base("", true);
    path_is("a/zookeeper", 11, "/a/zookeeper");
    path_is("zookeeper2", 10, "/zookeeper2");
}

static void refused(const char *name, size_t len)
{
    cr_assert_not(zk_node_path(&path, &config, name, len), "%.*s", (int)len, name);
}

Test(path, with_raw_keys_no_other_path_is_taken)
{
    char name[256];

    base("/p", true);
    refused("", 0);
    refused("/a", 2);
    refused("a/", 2);
    refused("a//b", 4);
    refused(".", 1);
    refused("a/..", 4);
    refused("a/./b", 5);
    refused("a\0b", 3);
    refused("a\x1F", 2);
    refused("a\x7F", 2);
    refused("\xC2\x9F", 2);         /* a control character */
    refused("\xC0\xAF", 2);         /* '/' in two bytes */
    refused("\xE0\x80\xAF", 3);     /* in three */
    refused("\xC3", 1);             /* the rest is missing */
    refused("\xC3/", 2);            /* and so here */
    refused("\x80", 1);             /* the rest of something */
    refused("\xED\xA0\x80", 3);     /* half a pair of UTF-16 */
    refused("\xF0\x9F\x98\x80", 4); /* such a pair, to ZooKeeper */
    refused("\xEE\x80\x80", 3);     /* for private use */
    refused("\xEF\xBF\xBF", 3);     /* U+FFFF */
    memset(name, 'a', sizeof name);
    refused(name, sizeof name);
    base("", true);
    refused("zookeeper", 9);
    refused("zookeeper/a", 11);
}

/* The node of the name "a/x-lock-0000000001" would be a contender for "a". */
Test(path, TRY_7_with_raw_keys_no_name_is_a_contender_of_another)
{
    base("/p", true);
    refused("a/x-lock-0000000001", 19);
    refused("a/x__WRIT__0000000001/b", 23);
    path_is("a/x-lock-1", 10, "/p/a/x-lock-1");
    path_is("x-lock-0000000001", 17, "/p/x-lock-0000000001");
}
