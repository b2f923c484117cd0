/* SPDX-License-Identifier: MIT */
#include "store_server.h"

#include <stddef.h>

/* The functions of a kind of server, for a pointer of any type; tls: the last argument of its
 * start_tls. */
#define FUNCTIONS(kind, tls)                                          \
    static bool kind##_start(void *self)                              \
    {                                                                 \
        return dlt_##kind##_start(self, NULL);                        \
    }                                                                 \
    static bool kind##_start_tls(void *self, const char *certificate) \
    {                                                                 \
        return dlt_##kind##_start_tls(self, certificate, tls);        \
    }                                                                 \
    static bool kind##_again(void *self)                              \
    {                                                                 \
        return dlt_##kind##_again(self);                              \
    }                                                                 \
    static void kind##_kill(void *self)                               \
    {                                                                 \
        dlt_##kind##_kill(self);                                      \
    }                                                                 \
    static void kind##_pause(void *self, bool pause)                  \
    {                                                                 \
        dlt_##kind##_pause(self, pause);                              \
    }                                                                 \
    static void kind##_stop(void *self)                               \
    {                                                                 \
        dlt_##kind##_stop(self);                                      \
    }

/* What all kinds have under the same names. */
#define MEMBERS(kind, server)                                                               \
    .self = (server), .address = (server)->address, .directory = (server)->directory,       \
    .why = (server)->why, .start = kind##_start, .start_tls = kind##_start_tls,             \
    .again = kind##_again, .kill = kind##_kill, .pause = kind##_pause, .stop = kind##_stop, \
    .disconnect = kind##_disconnect, .password_set = kind##_password_set

FUNCTIONS(maria, NULL)
FUNCTIONS(postgres, NULL)
FUNCTIONS(redis, "optional")

static void maria_disconnect(void *self)
{
    (void)dlt_maria_ask(self, "KILL USER u");
}

static void maria_password_set(void *self, const char *password)
{
    (void)dlt_maria_ask(self, "ALTER USER u IDENTIFIED BY '%s'", password);
}

struct dlt_store_server dlt_store_maria(struct dlt_maria *maria)
{
    return (struct dlt_store_server){.scheme = "mysql", MEMBERS(maria, maria)};
}

static void postgres_disconnect(void *self)
{
    (void)dlt_postgres_ask(self, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                 "WHERE usename = 'u'");
}

static void postgres_password_set(void *self, const char *password)
{
    (void)dlt_postgres_ask(self, "ALTER ROLE u PASSWORD '%s'", password);
}

struct dlt_store_server dlt_store_postgres(struct dlt_postgres *postgres)
{
    return (struct dlt_store_server){.scheme = "postgresql", MEMBERS(postgres, postgres)};
}

static void redis_disconnect(void *self)
{
    (void)dlt_redis_ask(self, "CLIENT KILL USER u");
}

static void redis_password_set(void *self, const char *password)
{
    (void)dlt_redis_ask(self, "ACL SETUSER u on resetpass >%s ~* &* +@all", password);
}

struct dlt_store_server dlt_store_redis(struct dlt_redis *redis)
{
    return (struct dlt_store_server){.scheme = "redis", MEMBERS(redis, redis)};
}

static bool zookeeper_start(void *self)
{
    return dlt_zk_start(self, NULL);
}

static bool zookeeper_again(void *self)
{
    return dlt_zk_again(self, 0);
}

static void zookeeper_kill(void *self)
{
    dlt_zk_kill(self, 0);
}

static void zookeeper_pause(void *self, bool pause)
{
    dlt_zk_pause(self, 0, pause);
}

static void zookeeper_stop(void *self)
{
    dlt_zk_stop(self);
}

struct dlt_store_server dlt_store_zookeeper(struct dlt_zk *zk)
{
    return (struct dlt_store_server){.self = zk,
                                     .scheme = "zk",
                                     .address = zk->members[0].address,
                                     .directory = zk->directory,
                                     .why = zk->why,
                                     .start = zookeeper_start,
                                     .again = zookeeper_again,
                                     .kill = zookeeper_kill,
                                     .pause = zookeeper_pause,
                                     .stop = zookeeper_stop};
}
