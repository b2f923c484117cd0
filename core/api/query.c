/* SPDX-License-Identifier: MIT */
#include "api/query.h"
#include "api/check.h"
#include "api/client.h"
#include "lib/text.h"
#include "session/dispatch.h"
#include "sys/backoff.h"
#include "sys/error.h"

#include <dlock/dlock.h>
#include <string.h>

enum query_kind { QUERY_INSPECT, QUERY_WAITERS, QUERY_LIST, QUERY_BREAK, QUERY_PROBE };

struct query {
    enum query_kind kind;
    const unsigned char *name;
    uint32_t name_len;
    const char *owner;
    dlock_holder_fn *fn;
    dlock_waiter_fn *waiter_fn; /* QUERY_WAITERS */
    dlock_check_fn *check_fn;   /* QUERY_PROBE */
    void *arg;
    struct dlock_session_info found; /* QUERY_PROBE */
    bool reported;                   /* fn was called: the query must not be sent again */
    bool ended;                      /* QUERY_PROBE: check_fn wants no more */
    const char *wrong;               /* the structure that the plugin reported without a size */
};

/* A structure of a newer plugin is longer. One that is shorter has no size, and ends the query. */
static bool size_is_wrong(struct query *query, size_t said, size_t known, const char *what)
{
    query->reported = true;
    if (said < known)
        query->wrong = what;
    return query->wrong != NULL;
}

static bool report(void *arg, const struct dlock_holder *from)
{
    struct query *query = arg;
    struct dlock_holder holder;

    if (size_is_wrong(query, from->struct_size, sizeof holder, "dlock_holder"))
        return true;
    holder = *from;
    holder.struct_size = sizeof holder;
    if (holder.fence == 0 || holder.fence_last < holder.fence) /* one number, or none (C6) */
        holder.fence_last = holder.fence;
    if (holder.data == NULL || holder.data_len > DLOCK_DATA_MAX) {
        holder.data = NULL;
        holder.data_len = 0;
    }
    return query->fn(query->arg, &holder);
}

static bool waiter_report(void *arg, const struct dlock_waiter *from)
{
    struct query *query = arg;
    struct dlock_waiter waiter;

    if (size_is_wrong(query, from->struct_size, sizeof waiter, "dlock_waiter"))
        return true;
    waiter = *from;
    waiter.struct_size = sizeof waiter;
    return query->waiter_fn(query->arg, &waiter);
}

/* A plugin need not look at the answer. */
static bool check_report(void *arg, const struct dlock_check *from)
{
    struct query *query = arg;
    struct dlock_check check;

    if (query->ended || size_is_wrong(query, from->struct_size, sizeof check, "dlock_check"))
        return true;
    check = *from;
    check.struct_size = sizeof check;
    query->ended = query->check_fn != NULL && query->check_fn(query->arg, &check);
    return query->ended;
}

static enum dlock_status query_slot(const struct dl_plugin *plugin, struct query *query, void *self,
                                    int64_t deadline_ns, struct dlock_error *err)
{
    switch (query->kind) {
    case QUERY_INSPECT:
        return dl_dispatch_inspect(plugin, self, query->name, query->name_len, deadline_ns, report,
                                   query, err);
    case QUERY_WAITERS:
        return dl_dispatch_list_waiters(plugin, self, query->name, query->name_len, deadline_ns,
                                        waiter_report, query, err);
    case QUERY_LIST:
        return dl_dispatch_list(plugin, self, query->name, query->name_len, deadline_ns, report,
                                query, err);
    case QUERY_BREAK:
        return dl_dispatch_break(plugin, self, query->name, query->name_len, query->owner,
                                 deadline_ns, err);
    case QUERY_PROBE:
        return dl_dispatch_probe(plugin, self, deadline_ns, &query->found, check_report, query,
                                 err);
    }
    return DLOCK_INTERNAL;
}

/* A probe may open a connection. */
static int64_t query_timeout_ms(const struct dlock_client *client, enum query_kind kind)
{
    const struct dl_settings *settings = &client->store->settings;
    int64_t timeout_ms = dl_settings_op_timeout_ms(settings->op_timeout_ms,
                                                   dl_client_ttl_ms(client, settings->ttl_ms));

    if (kind == QUERY_PROBE && timeout_ms < settings->connect_timeout_ms)
        return settings->connect_timeout_ms;
    return timeout_ms;
}

/* Asks a second time when nothing was executed or reported: an idle connection may have died. */
static enum dlock_status query_run(struct dlock_client *client, struct query *query,
                                   struct dlock_error *err)
{
    int64_t timeout_ms = query_timeout_ms(client, query->kind);
    int64_t deadline_ns = dl_clock_after_ms(dl_client_now(client), timeout_ms);
    enum dlock_status status = dl_client_call_begin(client, err);

    if (status != DLOCK_OK)
        return status;
    for (int attempts = 0; attempts < 2; attempts++) {
        struct dl_session *session;

        status = dl_session_pool_take(&client->pool, DL_USE_ACQUIRE, deadline_ns, &session, err);
        if (status == DLOCK_BUSY) /* all connections are in use; err says so */
            status = DLOCK_UNAVAILABLE;
        if (status != DLOCK_OK)
            break;
        status = query_slot(client->plugin, query, session->self, deadline_ns, err);
        dl_session_pool_put(&client->pool, DL_USE_ACQUIRE, session, status);
        if (status != DLOCK_UNAVAILABLE || query->reported)
            break;
    }
    dl_client_call_end(client);
    if (query->wrong != NULL)
        return dl_error(err, DLOCK_PLUGIN_ABI, "the plugin gave a struct %s without its size",
                        query->wrong);
    return status;
}

enum dlock_status dl_query_inspect(struct dlock_client *client, const void *name, size_t name_len,
                                   dlock_holder_fn *fn, void *arg, struct dlock_error *err)
{
    struct query query = {
        .kind = QUERY_INSPECT, .name = name, .name_len = (uint32_t)name_len, .fn = fn, .arg = arg};

    return query_run(client, &query, err);
}

enum dlock_status dl_query_waiters(struct dlock_client *client, const void *name, size_t name_len,
                                   dlock_waiter_fn *fn, void *arg, struct dlock_error *err)
{
    struct query query = {.kind = QUERY_WAITERS,
                          .name = name,
                          .name_len = (uint32_t)name_len,
                          .waiter_fn = fn,
                          .arg = arg};

    return query_run(client, &query, err);
}

enum dlock_status dl_query_list(struct dlock_client *client, const void *prefix, size_t prefix_len,
                                dlock_holder_fn *fn, void *arg, struct dlock_error *err)
{
    struct query query = {
        .kind = QUERY_LIST, .name = prefix, .name_len = (uint32_t)prefix_len, .fn = fn, .arg = arg};

    return query_run(client, &query, err);
}

/* For the record: the holder logs the loss with the same owner token. */
static void break_log(const struct dlock_client *client, const struct query *query)
{
    char name[DL_NAME_TEXT], owner[DLOCK_TOKEN_CHARS] = "";

    (void)dl_printable_escape(name, sizeof name, query->name, query->name_len);
    if (query->owner != NULL)
        dl_printable_mask(owner, sizeof owner, query->owner, strlen(query->owner));
    dl_log(&client->host.log, DLOCK_LOG_INFO, "%s: broken: %s%s", name,
           query->owner != NULL ? "owner " : "any owner", owner);
}

enum dlock_status dl_query_break(struct dlock_client *client, const void *name, size_t name_len,
                                 const char *owner, struct dlock_error *err)
{
    struct query query = {
        .kind = QUERY_BREAK, .name = name, .name_len = (uint32_t)name_len, .owner = owner};
    enum dlock_status status = query_run(client, &query, err);

    if (status == DLOCK_OK)
        break_log(client, &query);
    return status;
}

/* What no plugin reports as a check of its own: which ttls the store gives. */
static void ttls_report(const struct dlock_client *client, dlock_check_fn *fn, void *arg)
{
    char text[DL_TTL_GRID_TEXT];
    struct dlock_check check = {.struct_size = sizeof check, .name = "ttl", .found = text};

    dl_ttl_grid_text(&client->pool.ttls, text);
    if (text[0] != '\0' && fn != NULL)
        fn(arg, &check);
}

enum dlock_status dl_query_probe(struct dlock_client *client, dlock_check_fn *fn, void *arg,
                                 struct dlock_error *err)
{
    struct query query = {.kind = QUERY_PROBE, .check_fn = fn, .arg = arg};
    enum dlock_status status = query_run(client, &query, err);

    if (status == DLOCK_OK) {
        dl_session_pool_caps_limit(&client->pool, query.found.caps);
        dl_ttl_grid_narrow(&client->pool.ttls, &query.found);
    } else if (status == DLOCK_CONFIG) {
        dl_session_pool_caps_limit(&client->pool, 0);
    }
    if (status == DLOCK_OK || status == DLOCK_UNSUPPORTED)
        ttls_report(client, fn, arg);
    if (status == DLOCK_OK || status == DLOCK_CONFIG)
        atomic_store(&client->unfit, status == DLOCK_CONFIG);
    return status;
}

/* dlock_client_observe waits for another holder of a name: inspects it, with pauses. */

#define POLL_FIRST_MS INT64_C(20)

struct observation {
    uint64_t known_fence;
    dlock_holder_fn *fn;
    void *arg;
    bool held;     /* the name has a holder, */
    bool is_same;  /* and that is the one that was seen, */
    bool is_other; /* or another one */
    bool no_fence; /* a holder has no fence: it cannot be told from others */
};

/* A grant has several numbers, one for each thread that has it. */
static bool is_known(const struct observation *observation, const struct dlock_holder *holder)
{
    return observation->known_fence >= holder->fence &&
           observation->known_fence <= holder->fence_last;
}

static bool holder_judge(void *arg, const struct dlock_holder *holder)
{
    struct observation *observation = arg;

    if (holder->kept) /* nobody has it */
        return false;
    observation->held = true;
    if (holder->fence == 0)
        observation->no_fence = true;
    else if (is_known(observation, holder))
        observation->is_same = true;
    else
        observation->is_other = true;
    return false;
}

static bool holder_tell(void *arg, const struct dlock_holder *holder)
{
    struct observation *observation = arg;

    if (holder->kept)
        return false;
    observation->held = true;
    return observation->fn(observation->arg, holder);
}

static enum dlock_status fence_check(struct dlock_client *client, struct dlock_error *err)
{
    if (!dl_client_has(client, DLOCK_CAP_FENCE))
        return dl_error(err, DLOCK_UNSUPPORTED, "this store gives no fencing tokens");
    return DLOCK_OK;
}

/* What the holders say, once they are judged. OK: a change; TIMEOUT: none. */
static enum dlock_status judgement(const struct observation *observation, struct dlock_error *err)
{
    if (observation->is_same)
        return dl_error(err, DLOCK_TIMEOUT, "no other holder");
    if (observation->is_other)
        return DLOCK_OK;
    if (observation->no_fence)
        return dl_error(err, DLOCK_UNSUPPORTED, "the holders have no fencing tokens");
    if (!observation->held && observation->known_fence != 0)
        return dl_error(err, DLOCK_NOT_HELD, "the name is free");
    return dl_error(err, DLOCK_TIMEOUT, "no other holder");
}

/* Asks again, now for fn: the first answer could be judged only at its end. The holders may be gone
 * meanwhile. */
static enum dlock_status change_tell(struct dlock_client *client, const void *name, size_t name_len,
                                     struct observation *observation, struct dlock_error *err)
{
    enum dlock_status status;

    observation->held = false;
    dl_error_reset(err);
    status = dl_query_inspect(client, name, name_len, holder_tell, observation, err);
    if (observation->held)
        return DLOCK_OK;
    if (status != DLOCK_OK)
        return status;
    if (observation->known_fence != 0)
        return dl_error(err, DLOCK_NOT_HELD, "the name is free");
    return dl_error(err, DLOCK_TIMEOUT, "no other holder");
}

/* One question. OK and NOT_HELD: a change; TIMEOUT: none. */
static enum dlock_status observe_once(struct dlock_client *client, const void *name,
                                      size_t name_len, struct observation *observation,
                                      struct dlock_error *err)
{
    enum dlock_status status;

    observation->held = observation->is_same = false;
    observation->is_other = observation->no_fence = false;
    dl_error_reset(err);
    status = dl_query_inspect(client, name, name_len, holder_judge, observation, err);
    if (status == DLOCK_OK) /* a lazy client knows its store only now */
        status = fence_check(client, err);
    if (status == DLOCK_OK)
        status = judgement(observation, err);
    return status == DLOCK_OK ? change_tell(client, name, name_len, observation, err) : status;
}

/* Sleeps until until_ns or the shutdown of the client. */
static void pause_make(struct dlock_client *client, int64_t until_ns)
{
    (void)pthread_mutex_lock(&client->mutex);
    while (!client->shutdown && dl_client_now(client) < until_ns)
        dl_clock_wait(&client->call_ended, &client->mutex, &client->host.clock, until_ns);
    (void)pthread_mutex_unlock(&client->mutex);
}

static bool is_final(enum dlock_status status)
{
    return status != DLOCK_TIMEOUT && status != DLOCK_UNAVAILABLE && status != DLOCK_NO_QUORUM &&
           status != DLOCK_UNKNOWN;
}

static enum dlock_status observe(struct dlock_client *client, const void *name, size_t name_len,
                                 struct observation *observation, int64_t timeout_ms,
                                 struct dlock_error *err)
{
    int64_t until_ns = dl_clock_after_ms(dl_client_now(client), timeout_ms);
    int64_t most_ms = dl_later(client->store->settings.poll_max_ms, POLL_FIRST_MS);

    for (unsigned n = 0;; n++) {
        enum dlock_status status = observe_once(client, name, name_len, observation, err);
        int64_t now_ns = dl_client_now(client);
        int64_t pause_ms = dl_backoff_delay(n, POLL_FIRST_MS, most_ms, dl_client_random(client));

        if (is_final(status) || now_ns >= until_ns)
            return status;
        pause_make(client, dl_earlier(until_ns, dl_clock_after_ms(now_ns, pause_ms)));
    }
}

enum dlock_status dlock_client_observe(struct dlock_client *client, const void *name,
                                       size_t name_len, uint64_t known_fence, int64_t timeout_ms,
                                       dlock_holder_fn *fn, void *arg, struct dlock_error *err)
{
    struct observation observation = {.known_fence = known_fence, .fn = fn, .arg = arg};
    struct dlock_error e;
    enum dlock_status status = dl_check_client(client, err, &e);

    if (status == DLOCK_OK)
        status = dl_check_name(name, &name_len, &e);
    if (status == DLOCK_OK && fn == NULL)
        status = dl_error(&e, DLOCK_INVALID, "the callback is NULL");
    if (status == DLOCK_OK && timeout_ms < DLOCK_FOREVER)
        status = dl_error(&e, DLOCK_INVALID, "a timeout of %lld ms", (long long)timeout_ms);
    if (status == DLOCK_OK)
        status = fence_check(client, &e);
    if (status == DLOCK_OK)
        status = dl_client_call_begin(client, &e);
    if (status != DLOCK_OK)
        return dl_error_export(err, &e, status);
    status = observe(client, name, name_len, &observation, timeout_ms, &e);
    dl_client_call_end(client);
    return dl_error_export(err, &e, status);
}
