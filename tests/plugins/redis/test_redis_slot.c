/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/link/slot.c plugins/redis/call/call.c plugins/redis/servers/cluster.c
 */
/* Is the server of a name found, as the servers of a cluster compute it, and nonsense refused? */
#include "redis/call/call.h"
#include "redis/servers/cluster.h"

#include <criterion/criterion.h>
#include <string.h>

static redisReply *parsed(const char *text)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    cr_assert_eq(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
    cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    cr_assert_neq(reply, NULL);
    redisReaderFree(reader);
    return reply;
}

static unsigned slot(const char *key)
{
    return redis_slot(key, strlen(key));
}

/* The values are those of CLUSTER KEYSLOT. */
Test(slot, of_a_key_and_of_its_hash_tag)
{
    cr_assert_eq(slot("123456789"), 12739);
    cr_assert_eq(slot("foo"), 12182);
    cr_assert_eq(slot("dl:{foo}:m"), 12182);
    cr_assert_eq(slot("foo{}{bar}"), 8363);
    cr_assert_eq(slot("foo{bar}{zap}"), slot("bar"));
    cr_assert_eq(slot("foo{{bar}}zap"), slot("{bar"));
    cr_assert_eq(slot(""), 0);
}

static struct redis_redirect redirect(const char *error)
{
    struct redis_redirect out;
    redisReply *reply = parsed(error);

    redis_call_redirect(&out, reply);
    freeReplyObject(reply);
    return out;
}

Test(slot, answers_that_name_another_server)
{
    struct redis_redirect out = redirect("-MOVED 3999 127.0.0.1:6381\r\n");

    cr_assert_eq(out.kind, REDIS_REDIRECT_MOVED);
    cr_assert_eq(out.slot, 3999);
    cr_assert_str_eq(out.to.host, "127.0.0.1");
    cr_assert_eq(out.to.port, 6381);
    out = redirect("-ASK 1 fe80::1:7000\r\n");
    cr_assert_eq(out.kind, REDIS_REDIRECT_ASK);
    cr_assert_str_eq(out.to.host, "fe80::1");
    cr_assert_str_eq(redirect("-MOVED 1 :7000\r\n").to.host, "");
    cr_assert_eq(redirect("-TRYAGAIN Multiple keys\r\n").kind, REDIS_REDIRECT_TRYAGAIN);
}

Test(slot, nonsense_names_no_server)
{
    static const char *const bad[] = {
        "-MOVED\r\n",
        "-MOVED x 127.0.0.1:1\r\n",
        "-MOVED 16384 127.0.0.1:1\r\n",
        "-MOVED 1 127.0.0.1\r\n",
        "-MOVED 1 127.0.0.1:0\r\n",
        "-MOVED 1 127.0.0.1:65536\r\n",
        "-ASK 1 127.0.0.1:1x\r\n",
        "-ERR MOVED 1 h:1\r\n",
        "+MOVED 1 127.0.0.1:1\r\n",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(redirect(bad[i]).kind, REDIS_REDIRECT_NONE, "%s", bad[i]);
}

static const struct address asked = {"10.0.0.9", 7000};
static struct redis_topology topology;

static bool reads(const char *text)
{
    redisReply *reply = parsed(text);
    bool good = redis_cluster_topology_read(&topology, reply, &asked);

    freeReplyObject(reply);
    return good;
}

Test(topology, masters_and_their_slots)
{
    cr_assert(reads("*3\r\n"
                    "*4\r\n:0\r\n:99\r\n*2\r\n$2\r\nh1\r\n:1\r\n*2\r\n$2\r\nh2\r\n:1\r\n"
                    "*3\r\n:200\r\n:200\r\n*2\r\n$0\r\n\r\n:2\r\n"
                    "*3\r\n:16383\r\n:16383\r\n*2\r\n$2\r\nh1\r\n:1\r\n"));
    cr_assert_eq(topology.count, 2);
    cr_assert_str_eq(topology.masters[1].host, "10.0.0.9");
    cr_assert_eq(topology.owners[0], 0);
    cr_assert_eq(topology.owners[99], 0);
    cr_assert_eq(topology.owners[100], REDIS_NOBODY);
    cr_assert_eq(topology.owners[200], 1);
    cr_assert_eq(topology.owners[16383], 0);
}

Test(topology, nonsense_is_refused)
{
    cr_assert_not(reads("+OK\r\n"));
    cr_assert_not(reads("*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n"));
    cr_assert_not(reads("*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\nh\r\n:1\r\n"));
    cr_assert_not(reads("*1\r\n*2\r\n:0\r\n:1\r\n"));
    cr_assert_not(reads("*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\nh\r\n:0\r\n"));
    cr_assert_not(reads("*1\r\n:0\r\n"));
    cr_assert(reads("*0\r\n"));
    cr_assert_eq(topology.count, 0);
}
