/* SPDX-License-Identifier: MIT */
#include "redis/call/route.h"
#include "lib/time.h"
#include "redis/servers/cluster.h"
#include "resp/error.h"

#include <poll.h>

#define HOPS_MOST    8 /* redirections and repetitions of one call */
#define TRY_AGAIN_MS 5

static bool has_failed(const struct redis_call *call, enum dlock_status status)
{
    return !call->outcome.of_name && (status == DLOCK_UNAVAILABLE || status == DLOCK_UNKNOWN);
}

/* A server that was not reached, or is no master, may have been replaced. */
static void outcome_note(struct redis_cluster *cluster, struct redis_shard *shard, bool failed)
{
    atomic_store(&shard->failed, failed);
    if (failed)
        redis_cluster_suspect(cluster);
}

/* The server for the next try, in place of shard, which is put; NULL: none. */
static struct redis_shard *redirected(struct redis_cluster *cluster, struct redis_call *call,
                                      struct redis_shard *shard)
{
    struct redis_redirect *redirect = &call->outcome.redirect;
    struct redis_shard *next = NULL;

    call->asking = redirect->kind == REDIS_REDIRECT_ASK;
    if (redirect->kind == REDIS_REDIRECT_TRYAGAIN) {
        redis_cluster_put(cluster, shard);
        (void)poll(NULL, 0, TRY_AGAIN_MS);
        return redis_cluster_shard(cluster, redirect->slot);
    }
    if (redirect->to.host[0] == '\0')
        (void)snprintf(redirect->to.host, sizeof redirect->to.host, "%s",
                       shard->config.address.host);
    redis_cluster_put(cluster, shard);
    next = redis_cluster_shard_at(cluster, &redirect->to);
    if (next != NULL && redirect->kind == REDIS_REDIRECT_MOVED)
        redis_cluster_moved(cluster, redirect->slot, next);
    return next;
}

static enum dlock_status nobody(const struct redis_session *session, unsigned slot,
                                struct dlock_error *err)
{
    redis_cluster_suspect(session->cluster);
    return resp_error_fail(&session->config, err, DLOCK_UNAVAILABLE,
                           "no server of the cluster has the slot %u", slot);
}

enum dlock_status redis_route_run(struct redis_session *session, const struct resp_keys *key,
                                  struct redis_call *call, int64_t deadline_ns, redisReply **out,
                                  struct dlock_error *err)
{
    struct redis_cluster *cluster = session->cluster;
    struct redis_shard *shard = NULL;
    unsigned slot = 0;
    enum dlock_status status = DLOCK_UNAVAILABLE;

    if (cluster == NULL)
        return redis_call_run(&session->pool, call, deadline_ns, out, err);
    redis_cluster_refresh(cluster, deadline_ns);
    slot = redis_slot(key->bytes[0], key->lens[0]);
    shard = redis_cluster_shard(cluster, slot);
    call->slot = (int)slot;
    *out = NULL;
    for (int hops = 0; shard != NULL && hops < HOPS_MOST; hops++) {
        status = redis_call_run(&shard->pool, call, deadline_ns, out, err);
        outcome_note(cluster, shard, has_failed(call, status));
        if (call->outcome.redirect.kind == REDIS_REDIRECT_NONE) {
            redis_cluster_put(cluster, shard);
            return status;
        }
        call->outcome.redirect.slot = slot;
        shard = redirected(cluster, call, shard);
    }
    redis_cluster_put(cluster, shard);
    return shard == NULL ? nobody(session, slot, err) : status;
}

/* Whether the call ended where its name is; else it has to follow. */
static bool is_at_home(const struct redis_call *call)
{
    return call->outcome.redirect.kind == REDIS_REDIRECT_NONE;
}

/* The calls that go to this server, which *which lists, in one write. */
static void shard_run_all(struct redis_session *session, struct redis_shard *shard,
                          struct redis_call *const *calls, struct redis_call_end *ends,
                          const size_t *which, size_t n, int64_t deadline_ns)
{
    struct redis_call *some[REDIS_CALLS_MOST];
    struct redis_call_end some_ends[REDIS_CALLS_MOST];
    bool failed = false;

    for (size_t i = 0; i < n; i++) {
        some[i] = calls[which[i]];
        some_ends[i].err = ends[which[i]].err;
    }
    redis_call_run_all(&shard->pool, some, some_ends, n, deadline_ns);
    for (size_t i = 0; i < n; i++) {
        ends[which[i]] = some_ends[i];
        failed = failed || has_failed(some[i], some_ends[i].status);
    }
    outcome_note(session->cluster, shard, failed);
}

void redis_route_run_all(struct redis_session *session, const struct resp_keys *const *keys,
                         struct redis_call *const *calls, struct redis_call_end *ends, size_t n,
                         int64_t deadline_ns)
{
    struct redis_cluster *cluster = session->cluster;
    struct redis_shard *home = NULL;
    size_t which[REDIS_CALLS_MOST], there = 0;
    bool together[REDIS_CALLS_MOST] = {false};

    if (cluster == NULL) {
        redis_call_run_all(&session->pool, calls, ends, n, deadline_ns);
        return;
    }
    redis_cluster_refresh(cluster, deadline_ns);
    home = redis_cluster_shard(cluster, redis_slot(keys[0]->bytes[0], keys[0]->lens[0]));
    for (size_t i = 0; i < n && home != NULL; i++) {
        unsigned slot = redis_slot(keys[i]->bytes[0], keys[i]->lens[0]);
        struct redis_shard *shard = redis_cluster_shard(cluster, slot);

        calls[i]->slot = (int)slot;
        together[i] = shard == home;
        if (together[i])
            which[there++] = i;
        redis_cluster_put(cluster, shard);
    }
    if (there > 0)
        shard_run_all(session, home, calls, ends, which, there, deadline_ns);
    redis_cluster_put(cluster, home);
    for (size_t i = 0; i < n; i++)
        if (!together[i] || !is_at_home(calls[i]))
            ends[i].status = redis_route_run(session, keys[i], calls[i], deadline_ns,
                                             &ends[i].reply, ends[i].err);
}

uint32_t redis_route_server_of(void *self, const unsigned char *name, uint32_t name_len)
{
    const struct redis_session *session = self;
    struct resp_keys keys;

    if (session->cluster == NULL)
        return 0;
    resp_keys_make(&keys, &session->config, name, name_len);
    return redis_cluster_owner(session->cluster, redis_slot(keys.bytes[0], keys.lens[0]));
}
