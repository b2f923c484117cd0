/* SPDX-License-Identifier: MIT */
#include "exchange.h"

#include "connection.h"
#include "lib/time.h"

#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

enum verdict {
    ZK_ANSWERED,     /* by the server */
    ZK_NOT_EXECUTED, /* certainly */
    ZK_IN_DOUBT      /* it may have been executed, or will be */
};

/* ---- answers ---- */

/* rc: of a completion, or of the function of the library that sends. */
static enum verdict answer_judge(int rc)
{
    switch (rc) {
    case ZOK:
    case ZUNIMPLEMENTED:
    case ZBADARGUMENTS:
        return ZK_ANSWERED;
    case ZINVALIDSTATE: /* of the library: nothing was sent */
    case ZSESSIONMOVED:
    case ZNOTREADONLY:
    case ZTHROTTLEDOP:
        return ZK_NOT_EXECUTED;
    case ZSESSIONEXPIRED:
    case ZAUTHFAILED:
    case ZCLOSING:
        return ZK_IN_DOUBT;
    default:
        return rc < ZAPIERROR ? ZK_ANSWERED : ZK_IN_DOUBT;
    }
}

/* A create or a delete. */
static bool answer_changes(const struct zk_call *call)
{
    return call->op == ZK_CREATE || call->op == ZK_DELETE || call->op == ZK_SET;
}

/* The server that gives this answer. */
static enum zk_liveness_of answer_of(const struct zk_call *call, int rc)
{
    if (rc == ZOK && answer_changes(call))
        return ZK_LIVENESS_MAJORITY;
    if ((rc == ZOK && call->op == ZK_SYNC) || (rc == ZNONODE && answer_changes(call)))
        return ZK_LIVENESS_LEADER;
    return ZK_LIVENESS_SERVER;
}

/* Copies of what the library frees. False: no memory. */
static bool answer_text(struct zk_call *call, const char *text, size_t len)
{
    call->text = malloc(len + 1);
    if (call->text == NULL)
        return false;
    if (len > 0)
        memcpy(call->text, text, len);
    call->text[len] = '\0';
    call->text_len = len;
    return true;
}

static bool answer_children(struct zk_call *call, const struct String_vector *from)
{
    struct String_vector *to = &call->children;

    to->data = calloc((size_t)from->count + 1, sizeof *to->data);
    if (to->data == NULL)
        return false;
    while (to->count < from->count) {
        to->data[to->count] = strdup(from->data[to->count]);
        if (to->data[to->count] == NULL)
            return false;
        to->count++;
    }
    return true;
}

static void answer_free(struct zk_call *call)
{
    for (int32_t i = 0; i < call->children.count; i++)
        free(call->children.data[i]);
    free(call->children.data);
    free(call->text);
}

/* ---- watchers ---- */

struct zk_watcher *zk_watcher_new(struct zk_link *link)
{
    struct zk_watcher *watcher = calloc(1, sizeof *watcher);

    if (watcher == NULL)
        return NULL;
    zk_connection_lock(link);
    watcher->next = link->watchers;
    watcher->link = &link->watchers;
    if (watcher->next != NULL)
        watcher->next->link = &watcher->next;
    link->watchers = watcher;
    zk_connection_unlock(link);
    return watcher;
}

static void drop(struct zk_watcher *watcher)
{
    *watcher->link = watcher->next;
    if (watcher->next != NULL)
        watcher->next->link = watcher->link;
    free(watcher->path);
    free(watcher);
}

static void fire(struct zk_watcher *watcher)
{
    watcher->fired = true;
    if (watcher->wait != NULL)
        zk_connection_signal(watcher->wait->link, &watcher->wait->cond);
}

static void end(struct zk_watcher *watcher)
{
    watcher->pending = false;
    if (watcher->unused)
        drop(watcher);
}

/* watcher_fn of the library; context: the watcher. */
static void watcher_hear(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)state;
    (void)path;
    if (type == ZOO_SESSION_EVENT) /* no change of the node */
        return;
    fire(context);
    end(context);
}

/* Asks no server. The library may be about to call it; then it does not find it. */
static void library_remove(const struct zk_link *link, struct zk_watcher *watcher)
{
    if (watcher->kept && watcher->path != NULL && link->handle != NULL &&
        zoo_aremove_watches(link->handle, watcher->path,
                            watcher->children ? ZWATCHTYPE_CHILD : ZWATCHTYPE_DATA, watcher_hear,
                            watcher, 1, NULL, NULL) == ZOK)
        watcher->pending = false;
}

void zk_watcher_free(struct zk_link *link, struct zk_watcher *watcher)
{
    if (watcher == NULL)
        return;
    zk_connection_lock(link);
    watcher->unused = true;
    library_remove(link, watcher);
    if (!watcher->pending)
        drop(watcher);
    zk_connection_unlock(link);
}

/* It is about to be given to the library. */
static void watcher_begin(struct zk_watcher *watcher, const char *path, bool children)
{
    free(watcher->path);
    watcher->path = strdup(path);
    watcher->children = children;
    watcher->kept = false;
    watcher->pending = true;
}

/* Its call has ended. kept: the library keeps it. */
static void watcher_answer(struct zk_link *link, struct zk_watcher *watcher, bool kept)
{
    watcher->kept = kept;
    if (kept && watcher->unused)
        library_remove(link, watcher);
    if (!kept || !watcher->pending)
        end(watcher);
}

void zk_watcher_fire_all(struct zk_link *link)
{
    for (struct zk_watcher *at = link->watchers; at != NULL; at = at->next) {
        if (at->pending)
            fire(at);
    }
}

void zk_watcher_forget_all(struct zk_link *link)
{
    struct zk_watcher *next = NULL;

    zk_watcher_fire_all(link);
    for (struct zk_watcher *at = link->watchers; at != NULL; at = next) {
        next = at->next;
        end(at);
    }
}

enum dlock_status zk_watcher_await(struct zk_link *link, struct zk_watcher *watcher,
                                   struct zk_wait **where, const bool *interrupted,
                                   int64_t deadline_ns)
{
    struct zk_wait wait = {.link = link};
    enum dlock_status status = DLOCK_TIMEOUT;

    (void)dl_deadline_cond_init(&wait.cond);
    zk_connection_lock(link);
    watcher->wait = &wait;
    *where = &wait;
    link->waits++;
    while (!watcher->fired && !wait.interrupted && !*interrupted) {
        const int64_t left_ns = deadline_ns - zk_connection_now(link);

        if (left_ns <= 0)
            break;
        zk_connection_sleep(link, &wait.cond, left_ns);
    }
    link->waits--;
    if (watcher->fired)
        status = DLOCK_OK;
    else if (wait.interrupted || *interrupted)
        status = DLOCK_CANCELED;
    watcher->wait = NULL;
    *where = NULL;
    zk_connection_hand_over(link);
    zk_connection_unlock(link);
    (void)pthread_cond_destroy(&wait.cond);
    return status;
}

void zk_watcher_interrupt(struct zk_wait *wait)
{
    wait->interrupted = true;
    zk_connection_signal(wait->link, &wait->cond);
}

/* ---- errors ---- */

#define SPACE_EXHAUSTED (-125) /* ZQUOTAEXCEEDED of 3.9; zookeeper.h of 3.8 does not have it */

static enum dlock_status status_of(int rc)
{
    switch (rc) {
    case ZNOAUTH:
    case ZAUTHFAILED:
    case ZSESSIONCLOSEDREQUIRESASLAUTH:
        return DLOCK_AUTH;
    case ZINVALIDACL:
    case ZNOCHILDRENFOREPHEMERALS:
    case ZEPHEMERALONLOCALSESSION:
    case ZUNIMPLEMENTED:
    case SPACE_EXHAUSTED:
        return DLOCK_CONFIG;
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZCLOSING:
    case ZINVALIDSTATE:
    case ZSESSIONEXPIRED:
    case ZSESSIONMOVED:
    case ZNOTREADONLY:
    case ZTHROTTLEDOP:
        return DLOCK_UNAVAILABLE;
    default:
        return DLOCK_PROTOCOL;
    }
}

static const char *hint_of(int rc)
{
    switch (rc) {
    case ZNOAUTH:
        return " (want zk://user@host with pass_file=, or other ACLs)";
    case ZSESSIONCLOSEDREQUIRESASLAUTH:
        return " (want a login: zk://user@host with pass_file=)";
    case ZINVALIDACL:
        return " (acl=creator wants a user)";
    case ZNOCHILDRENFOREPHEMERALS:
        return " (a node above it is ephemeral)";
    case ZEPHEMERALONLOCALSESSION:
        return " (the servers have localSessionsEnabled; want localSessionsUpgradingEnabled, too)";
    case ZUNIMPLEMENTED:
        return " (want ZooKeeper 3.5 or later)";
    case SPACE_EXHAUSTED:
        return " (the quota of the node is exceeded)";
    default:
        return "";
    }
}

enum dlock_status zk_exchange_fail(struct dlock_error *err, int rc, const char *what,
                                   const char *path)
{
    return dlock_fail(err, ZK_ORIGIN, status_of(rc), rc, "%s %s: %s%s", what, path, zerror(rc),
                      hint_of(rc));
}

struct zk_exchange {
    struct zk_exchange *next, **at; /* the link's list, while open > 0 */
    struct zk_link *link;
    pthread_cond_t ended;
    size_t count, most;
    size_t open;   /* calls that the library has */
    bool given_up; /* its calls are not changed any more */
    bool freed;    /* by its user */
    void (*on_end)(struct zk_exchange *exchange, void *arg);
    void *arg;
    struct zk_call calls[];
};

/* ---- memory ---- */

struct zk_exchange *zk_exchange_new(struct zk_link *link, size_t most)
{
    struct zk_exchange *exchange = calloc(1, sizeof *exchange + most * sizeof exchange->calls[0]);

    if (exchange == NULL)
        return NULL;
    if (dl_deadline_cond_init(&exchange->ended) != 0) {
        free(exchange);
        return NULL;
    }
    exchange->link = link;
    exchange->most = most;
    return exchange;
}

static void destroy(struct zk_exchange *exchange)
{
    for (size_t i = 0; i < exchange->count; i++) {
        answer_free(&exchange->calls[i]);
        free(exchange->calls[i].path);
        free(exchange->calls[i].value);
    }
    (void)pthread_cond_destroy(&exchange->ended);
    free(exchange);
}

/* An exchange that was not given up has no open calls, and no other thread knows it. */
void zk_exchange_free(struct zk_exchange *exchange)
{
    struct zk_link *link = NULL;
    bool open = false;

    if (exchange == NULL)
        return;
    if (exchange->given_up) {
        link = exchange->link;
        zk_connection_lock(link);
        exchange->freed = true;
        open = exchange->open > 0;
        zk_connection_unlock(link);
    }
    if (!open)
        destroy(exchange);
}

static struct zk_call *add(struct zk_exchange *exchange, enum zk_op op, char *path)
{
    struct zk_call *call = &exchange->calls[exchange->count];

    if (path == NULL)
        return NULL;
    *call = (struct zk_call){.op = op, .path = path, .exchange = exchange};
    exchange->count++;
    return call;
}

struct zk_call *zk_exchange_add(struct zk_exchange *exchange, enum zk_op op, const char *path)
{
    return exchange->count < exchange->most ? add(exchange, op, strdup(path)) : NULL;
}

struct zk_call *zk_exchange_add_child(struct zk_exchange *exchange, enum zk_op op,
                                      const char *parent, const char *child)
{
    const size_t size = strlen(parent) + 1 + strlen(child) + 1;
    char *path = exchange->count < exchange->most ? malloc(size) : NULL;

    if (path != NULL)
        (void)snprintf(path, size, "%s/%s", parent, child);
    return add(exchange, op, path);
}

bool zk_exchange_value(struct zk_call *call, const char *data, size_t len)
{
    call->value = malloc(len > 0 ? len : 1);
    if (call->value == NULL)
        return false;
    if (len > 0)
        memcpy(call->value, data, len);
    call->data = call->value;
    call->data_len = len;
    return true;
}

struct zk_call *zk_exchange_call(struct zk_exchange *exchange, size_t i)
{
    return i < exchange->count ? &exchange->calls[i] : NULL;
}

/* ---- the end of calls ---- */

static void exchange_end(struct zk_exchange *exchange)
{
    *exchange->at = exchange->next;
    if (exchange->next != NULL)
        exchange->next->at = exchange->at;
    if (exchange->freed)
        destroy(exchange);
    else if (exchange->on_end != NULL)
        exchange->on_end(exchange, exchange->arg);
    else
        zk_connection_signal(exchange->link, &exchange->ended);
}

/* rc: of the library. taken: false: there was no memory for a copy of the answer. The exchange may
 * be gone afterwards. */
static void call_end(struct zk_call *call, int rc, bool taken)
{
    struct zk_exchange *exchange = call->exchange;
    struct zk_link *link = exchange->link;

    if (rc == ZSESSIONCLOSEDREQUIRESASLAUTH)
        zk_connection_refuse(link);
    if (answer_judge(rc) == ZK_ANSWERED)
        zk_liveness_answer(&link->liveness, call->sent_ns, zk_connection_now(link),
                           answer_of(call, rc));
    if (call->watcher != NULL)
        watcher_answer(link, call->watcher, rc == ZOK || (rc == ZNONODE && call->op == ZK_EXISTS));
    call->open = false;
    if (!exchange->given_up) {
        call->rc = taken ? rc : ZMARSHALLINGERROR;
        call->done = true;
    }
    if (--exchange->open == 0)
        exchange_end(exchange);
}

/* ---- completions of the library ---- */

/* The library gives back what was given to it. */
static struct zk_call *call_of(const void *data)
{
    union {
        const void *in;
        struct zk_call *out;
    } call = {.in = data};

    return call.out;
}

static bool wants(const struct zk_call *call, int rc)
{
    return rc == ZOK && !call->exchange->given_up;
}

static void on_void(int rc, const void *data)
{
    call_end(call_of(data), rc, true);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    struct zk_call *call = call_of(data);

    if (wants(call, rc) && stat != NULL)
        call->stat = *stat;
    call_end(call, rc, true);
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data)
{
    struct zk_call *call = call_of(data);
    bool taken = true;

    if (wants(call, rc)) {
        if (stat != NULL)
            call->stat = *stat;
        taken = answer_text(call, path, path != NULL ? strlen(path) : 0);
    }
    call_end(call, rc, taken);
}

static void on_value(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
    struct zk_call *call = call_of(data);
    bool taken = true;

    if (wants(call, rc)) {
        if (stat != NULL)
            call->stat = *stat;
        taken = answer_text(call, value, len > 0 ? (size_t)len : 0);
    }
    call_end(call, rc, taken);
}

static void on_children(int rc, const struct String_vector *children, const struct Stat *stat,
                        const void *data)
{
    struct zk_call *call = call_of(data);
    bool taken = true;

    if (wants(call, rc) && children != NULL) {
        if (stat != NULL)
            call->stat = *stat;
        taken = answer_children(call, children);
    }
    call_end(call, rc, taken);
}

static void on_synced(int rc, const char *path, const void *data)
{
    (void)path;
    call_end(call_of(data), rc, true);
}

/* ---- sending ---- */

static int watched_send(zhandle_t *handle, struct zk_call *call)
{
    struct zk_watcher *watcher = call->watcher;
    int rc = ZOK;

    watcher_begin(watcher, call->path, call->op == ZK_CHILDREN);
    if (call->op == ZK_CHILDREN)
        rc = zoo_awget_children2(handle, call->path, watcher_hear, watcher, on_children, call);
    else if (call->op == ZK_EXISTS)
        rc = zoo_awexists(handle, call->path, watcher_hear, watcher, on_stat, call);
    else
        rc = zoo_awget(handle, call->path, watcher_hear, watcher, on_value, call);
    if (rc != ZOK && rc != ZMARSHALLINGERROR) {
        call->watcher = NULL;
        watcher_answer(call->exchange->link, watcher, false);
    }
    return rc;
}

static int call_send(struct zk_link *link, struct zk_call *call)
{
    zhandle_t *handle = link->handle;

    if (call->watcher != NULL)
        return watched_send(handle, call);
    switch (call->op) {
    case ZK_CREATE:
        return zoo_acreate2(handle, call->path, call->data_len > 0 ? call->data : "",
                            (int)call->data_len,
                            link->config->creator_acl ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE,
                            call->flags, on_created, call);
    case ZK_DELETE:
        return zoo_adelete(handle, call->path, -1, on_void, call);
    case ZK_SET:
        return zoo_aset(handle, call->path, call->data, (int)call->data_len, call->version, on_stat,
                        call);
    case ZK_CHILDREN:
        return zoo_aget_children2(handle, call->path, 0, on_children, call);
    case ZK_EXISTS:
        return zoo_aexists(handle, call->path, 0, on_stat, call);
    case ZK_GET:
        return zoo_aget(handle, call->path, 0, on_value, call);
    case ZK_SYNC:
        return zoo_async(handle, call->path, on_synced, call);
    }
    return ZBADARGUMENTS;
}

/* The library may have a call that it says it has no memory for. The call is in doubt then, and the
 * connection is ended, so that the library answers soon. */
static void send_all(struct zk_exchange *exchange)
{
    struct zk_link *link = exchange->link;
    const int64_t now_ns = zk_connection_now(link);

    for (size_t i = 0; i < exchange->count; i++) {
        struct zk_call *call = &exchange->calls[i];

        call->sent_ns = now_ns;
        call->rc = call_send(link, call);
        call->open = call->rc == ZOK || call->rc == ZMARSHALLINGERROR;
        call->done = !call->open;
        if (call->open)
            exchange->open++;
        if (call->rc == ZMARSHALLINGERROR)
            zk_connection_hang_up(link);
    }
    if (exchange->open == 0)
        return;
    exchange->next = link->exchanges;
    exchange->at = &link->exchanges;
    if (exchange->next != NULL)
        exchange->next->at = &exchange->next;
    link->exchanges = exchange;
}

/* The library keeps calls that are made without a connection, and sends them later. */
static bool can_send(const struct zk_link *link)
{
    return link->connected && !link->ending && zoo_state(link->handle) == ZOO_CONNECTED_STATE;
}

bool zk_exchange_begin(struct zk_exchange *exchange,
                       void (*on_end)(struct zk_exchange *exchange, void *arg), void *arg)
{
    struct zk_link *link = exchange->link;

    zk_connection_recheck(link);
    if (!can_send(link))
        return false;
    send_all(exchange);
    if (exchange->open == 0)
        return false;
    exchange->on_end = on_end;
    exchange->arg = arg;
    zk_connection_wake(link);
    return true;
}

void zk_exchange_end_all(struct zk_link *link)
{
    while (link->exchanges != NULL) {
        struct zk_call *call = link->exchanges->calls;

        while (!call->open)
            call++;
        call_end(call, ZCLOSING, true);
    }
}

/* ---- running ---- */

static void await(struct zk_exchange *exchange, int64_t deadline_ns)
{
    struct zk_link *link = exchange->link;

    while (exchange->open > 0) {
        const int64_t left_ns = deadline_ns - zk_connection_now(link);

        if (left_ns <= 0)
            break;
        zk_connection_sleep(link, &exchange->ended, left_ns);
    }
    exchange->given_up = exchange->open > 0;
    zk_connection_hand_over(link);
}

static const char *op_name(const struct zk_call *call)
{
    static const char *const names[] = {"create", "delete", "set", "children of",
                                        "exists", "get",    "sync"};

    return names[call->op];
}

static enum dlock_status fail(const struct zk_exchange *exchange, const struct zk_call *call,
                              enum dlock_status status, struct dlock_error *err)
{
    const struct zk_link *link = exchange->link;

    return dlock_fail(err, ZK_ORIGIN, status, call->done ? call->rc : 0, "%s: %s %s: %s",
                      link->server[0] != '\0' ? link->server : link->servers->endpoint,
                      op_name(call), call->path,
                      call->done ? zerror(call->rc) : "no answer in time");
}

static enum dlock_status outcome(const struct zk_exchange *exchange, size_t first, size_t count,
                                 struct dlock_error *err)
{
    const struct zk_call *unanswered = NULL;

    for (size_t i = first; i < first + count; i++) {
        const struct zk_call *call = &exchange->calls[i];
        const enum verdict verdict = call->done ? answer_judge(call->rc) : ZK_IN_DOUBT;

        if (verdict == ZK_IN_DOUBT && answer_changes(call))
            return fail(exchange, call, DLOCK_UNKNOWN, err);
        if (verdict != ZK_ANSWERED && unanswered == NULL)
            unanswered = call;
    }
    if (unanswered == NULL)
        return DLOCK_OK;
    return fail(exchange, unanswered,
                unanswered->done && unanswered->rc == ZAUTHFAILED ? DLOCK_AUTH : DLOCK_UNAVAILABLE,
                err);
}

enum dlock_status zk_exchange_run(struct zk_exchange *exchange, int64_t *session_id,
                                  int64_t deadline_ns, struct dlock_error *err)
{
    struct zk_link *link = exchange->link;
    enum dlock_status status = DLOCK_OK;

    zk_connection_lock(link);
    status = zk_connection_await(link, *session_id, deadline_ns, err);
    if (status == DLOCK_OK) {
        *session_id = link->session_id;
        send_all(exchange);
        (void)zk_connection_poll(link); /* are there bytes left to send? */
        zk_connection_cover(link);
        await(exchange, deadline_ns);
        status = outcome(exchange, 0, exchange->count, err);
        if (status == DLOCK_UNAVAILABLE && link->refused)
            status = zk_connection_judge(link, err);
    }
    zk_connection_unlock(link);
    return status;
}

enum dlock_status zk_exchange_part(const struct zk_exchange *exchange, size_t first, size_t count,
                                   enum dlock_status said, const struct dlock_error *why,
                                   struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (said == DLOCK_OK)
        return DLOCK_OK;
    if (exchange == NULL || first >= exchange->count || exchange->calls[first].sent_ns == 0)
        return dlock_fail(err, why->origin, said, why->code, "%s", why->message);
    zk_connection_lock(exchange->link);
    status = outcome(exchange, first, count, err);
    zk_connection_unlock(exchange->link);
    return status;
}
