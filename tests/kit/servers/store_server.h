/* SPDX-License-Identifier: MIT */
/*
 * store_server.h - a server of a test's own, whatever store it is: what a test needs that is the
 * same for several stores. The struct behind it belongs to the caller, who may use its functions
 * beside these.
 */
#ifndef DLT_STORE_SERVER_H
#define DLT_STORE_SERVER_H

#include "maria_server.h"
#include "postgres_server.h"
#include "redis_server.h"
#include "zk_server.h"

struct dlt_store_server {
    void *self;                /* struct dlt_maria, ... */
    const char *scheme;        /* of its URIs */
    const char *address;       /* "127.0.0.1:PORT", when it has begun */
    const char *directory;     /* is removed with it */
    const char *why;           /* after a false */
    bool (*start)(void *self); /* with the defaults */
    /* With dlt_certificates_make's certificates in the directory; it shows the one of this name. */
    bool (*start_tls)(void *self, const char *certificate);
    bool (*again)(void *self); /* on the same port, with the same data */
    void (*kill)(void *self);
    void (*pause)(void *self, bool pause);
    void (*stop)(void *self);
    /* Ends the connections of user "u", as an administrator does. */
    void (*disconnect)(void *self);
    /* User "u" has this password from now on. */
    void (*password_set)(void *self, const char *password);
};

struct dlt_store_server dlt_store_maria(struct dlt_maria *maria);
struct dlt_store_server dlt_store_postgres(struct dlt_postgres *postgres);
/* User "u" may do all, and is there from the first password_set on. */
struct dlt_store_server dlt_store_redis(struct dlt_redis *redis);
/* Without start_tls, disconnect and password_set: the first is not in this kit, and ZooKeeper has
 * no way to do the others. */
struct dlt_store_server dlt_store_zookeeper(struct dlt_zk *zk);

#endif
