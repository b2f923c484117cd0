/* SPDX-License-Identifier: MIT */
#include "bare_zookeeper.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEQUENCE 10 /* digits that the servers give a node */

/* A session each worker. */
struct worker {
    zhandle_t *handle;
    char parent[48];                 /* the node of the name */
    char prefix[112];                /* of the worker's own nodes */
    char own[128], predecessor[192]; /* paths; predecessor "": none */
    int unanswered, rc;              /* requests of the flight; the first error of its answers */
    int gone;                        /* the predecessor */
};

static void zookeeper_end(void *arg)
{
    struct worker *worker = arg;

    bench_zookeeper_close(worker->handle);
    free(worker);
}

static void *zookeeper_begin(void *process, const struct bench_config *config, int index, char *why)
{
    const struct bench_address *address = process;
    struct worker *worker = calloc(1, sizeof *worker);

    if (worker == NULL) {
        (void)bench_zookeeper_failed(ZSYSTEMERROR, why);
        return NULL;
    }
    (void)snprintf(worker->parent, sizeof worker->parent, "/bench-%d-%d", config->run,
                   config->one_name ? 0 : index);
    (void)snprintf(worker->prefix, sizeof worker->prefix, "%s/_c_%032d-lock-", worker->parent,
                   index);
    worker->handle = bench_zookeeper_connect(address, why);
    if (worker->handle != NULL)
        return worker;
    zookeeper_end(worker);
    return NULL;
}

/* ---- a flight of requests ---- */

static void sent(struct worker *worker, int rc)
{
    if (rc == ZOK)
        worker->unanswered++;
    else if (worker->rc == ZOK)
        worker->rc = rc;
}

static struct worker *answered(const void *data, int rc)
{
    struct worker *worker = (void *)(uintptr_t)data;

    worker->unanswered--;
    if (worker->rc == ZOK)
        worker->rc = rc;
    return worker;
}

/* Waits for all answers. 0; `fine`, if that is their first error; or -1 and why. */
static int flight(struct worker *worker, int fine, char *why)
{
    int rc = ZOK;

    while (worker->unanswered > 0)
        if (bench_zookeeper_step(worker->handle, why) != 0)
            return -1;
    rc = worker->rc;
    worker->rc = ZOK;
    return rc == ZOK || rc == fine ? rc : bench_zookeeper_failed(rc, why);
}

static void on_path(int rc, const char *path, const struct Stat *stat, const void *data)
{
    struct worker *worker = answered(data, rc);

    (void)stat;
    if (rc == ZOK)
        (void)snprintf(worker->own, sizeof worker->own, "%s", path);
}

static void on_parent(int rc, const char *path, const void *data)
{
    (void)path;
    (void)answered(data, rc == ZNODEEXISTS ? ZOK : rc);
}

static void on_void(int rc, const void *data)
{
    (void)answered(data, rc);
}

static const char *sequence(const char *name)
{
    size_t length = strlen(name);

    return length > SEQUENCE ? name + length - SEQUENCE : "";
}

/* The node with the greatest sequence below the own one. */
static void on_children(int rc, const struct String_vector *children, const void *data)
{
    struct worker *worker = answered(data, rc);
    const char *own = sequence(worker->own), *best = "";

    worker->predecessor[0] = '\0';
    for (int i = 0; rc == ZOK && i < children->count; i++) {
        const char *name = children->data[i], *number = sequence(name);

        if (strcmp(number, own) >= 0 || strcmp(number, best) <= 0)
            continue;
        best = number;
        (void)snprintf(worker->predecessor, sizeof worker->predecessor, "%s/%.120s", worker->parent,
                       name);
    }
}

static void on_get(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    struct worker *worker = answered(data, rc == ZNONODE ? ZOK : rc);

    (void)value;
    (void)length;
    (void)stat;
    if (rc == ZNONODE)
        worker->gone = 1;
}

static void on_change(zhandle_t *handle, int type, int state, const char *path, void *arg)
{
    struct worker *worker = arg;

    (void)handle;
    (void)state;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        worker->gone = 1;
}

/* ---- a node for each, in a queue ---- */

static int parent_make(struct worker *worker, char *why)
{
    sent(worker, zoo_acreate(worker->handle, worker->parent, NULL, -1, &ZOO_OPEN_ACL_UNSAFE,
                             ZOO_CONTAINER, on_parent, worker));
    return flight(worker, ZOK, why);
}

static void children_ask(struct worker *worker)
{
    sent(worker, zoo_aget_children(worker->handle, worker->parent, 0, on_children, worker));
}

static int node_make(struct worker *worker, int fine, char *why)
{
    sent(worker, zoo_acreate2(worker->handle, worker->prefix, NULL, -1, &ZOO_OPEN_ACL_UNSAFE,
                              ZOO_EPHEMERAL_SEQUENTIAL, on_path, worker));
    children_ask(worker);
    return flight(worker, fine, why);
}

static int enqueue(struct worker *worker, char *why)
{
    int rc = node_make(worker, ZNONODE, why);

    if (rc != ZNONODE)
        return rc;
    return parent_make(worker, why) == 0 ? node_make(worker, ZOK, why) : -1;
}

static int gone_await(struct worker *worker, char *why)
{
    worker->gone = 0;
    sent(worker, zoo_awget(worker->handle, worker->predecessor, on_change, worker, on_get, worker));
    if (flight(worker, ZOK, why) != 0)
        return -1;
    while (!worker->gone)
        if (bench_zookeeper_step(worker->handle, why) != 0)
            return -1;
    children_ask(worker);
    return flight(worker, ZOK, why);
}

static int zookeeper_lock(void *arg, char *why)
{
    struct worker *worker = arg;

    if (enqueue(worker, why) != 0)
        return -1;
    while (worker->predecessor[0] != '\0')
        if (gone_await(worker, why) != 0)
            return -1;
    return 0;
}

static int zookeeper_unlock(void *arg, char *why)
{
    struct worker *worker = arg;

    sent(worker, zoo_adelete(worker->handle, worker->own, -1, on_void, worker));
    return flight(worker, ZOK, why);
}

const struct bench_work bench_work_zookeeper = {
    .open = bench_address_open,
    .close = free,
    .begin = zookeeper_begin,
    .end = zookeeper_end,
    .lock = zookeeper_lock,
    .unlock = zookeeper_unlock,
};
