/* SPDX-License-Identifier: MIT */
#include "admin.h"

#include "exchange.h"
#include "lib/request.h"
#include "lib/text.h"
#include "slot.h"

#include <stdlib.h>
#include <string.h>

/* Of a contender's node: another program's owner may be long, and is cut. */
struct texts {
    char owner[129], label[256];
    int64_t permit;  /* of a semaphore's holder; -1: none */
    size_t label_at; /* where the label and the data begin in the value */
};

/* The nodes that hold a name, or may take a permit. */
struct holders {
    struct holder {
        size_t index;      /* of the name, for names_inspect */
        uint32_t waiters;  /* behind the nodes that hold the name, or may take a permit */
        const char *child; /* name of the node; points into the children */
        struct zk_node node;
    } * items; /* malloced */
    size_t count, room;
    size_t index; /* of what is added next */
    bool failed;  /* no memory */
};

#define AT_ONCE     (ZK_EXCHANGE_MOST / 2) /* two calls for each holder */
#define FENCE_SCALE 32

static enum dlock_status no_memory(struct dlock_error *err)
{
    return dlock_fail(err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a list");
}

/* The path of a name. INVALID: with key=raw it has none. */
static enum dlock_status path_make(struct zk_path *path, const struct zk_session *session,
                                   const unsigned char *name, uint32_t name_len,
                                   struct dlock_error *err)
{
    if (zk_node_path(path, &session->config, name, name_len))
        return DLOCK_OK;
    return dlock_fail(err, ZK_ORIGIN, DLOCK_INVALID, 0,
                      "with key=raw the name has to be a path that ZooKeeper takes");
}

/* A follower may lag behind the leader; a sync in front makes it catch up. */
static enum dlock_status children_read(struct zk_session *session, const char *path,
                                       int64_t deadline_ns, struct zk_exchange **exchange,
                                       struct String_vector **children, struct dlock_error *err)
{
    int64_t session_id = 0;
    struct zk_call *sync = NULL, *call = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    *children = NULL;
    *exchange = zk_exchange_new(session->link, 2);
    if (*exchange == NULL)
        return no_memory(err);
    sync = zk_exchange_add(*exchange, ZK_SYNC, path);
    call = sync != NULL ? zk_exchange_add(*exchange, ZK_CHILDREN, path) : NULL;
    if (call == NULL)
        return no_memory(err);
    status = zk_exchange_run(*exchange, &session_id, deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    if (sync->rc != ZOK && sync->rc != ZNONODE)
        return zk_exchange_fail(err, sync->rc, "sync", path);
    if (call->rc == ZOK)
        *children = &call->children;
    else if (call->rc != ZNONODE)
        return zk_exchange_fail(err, call->rc, "list", path);
    return DLOCK_OK;
}

/* ---- the holders of several names ---- */

static void holder_note(void *arg, const char *name, const struct zk_node *node)
{
    struct holders *holders = arg;

    if (holders->count == holders->room && !holders->failed) {
        const size_t room = holders->room > 0 ? 2 * holders->room : 16;
        struct holder *grown = reallocarray(holders->items, room, sizeof *holders->items);

        holders->failed = grown == NULL;
        if (grown != NULL) {
            holders->items = grown;
            holders->room = room;
        }
    }
    if (!holders->failed)
        holders->items[holders->count++] =
            (struct holder){.index = holders->index, .child = name, .node = *node};
}

/* Adds the holders among the children. False: no memory. */
static bool holders_add(struct holders *holders, const struct String_vector *children)
{
    const size_t first = holders->count;
    const uint32_t waiters = zk_queue_holders(children, holder_note, holders);

    for (size_t i = first; i < holders->count; i++)
        holders->items[i].waiters = waiters;
    holders->index++;
    return !holders->failed;
}

struct reporting {
    struct zk_session *session;
    struct zk_admin_name *names;
    int64_t timeout_ns; /* of each exchange */
    dlock_holder_fn *fn;
    void *arg;
    bool *stopped;
    struct dlock_error *err;
};

/* get: the answer to ZK_GET of the node; without one there is no label. */
static void texts_read(struct texts *texts, const struct zk_node *node, const struct zk_call *get)
{
    size_t len = node->owner_len, label = 0;

    if (len > sizeof texts->owner - 1)
        len = sizeof texts->owner - 1;
    memcpy(texts->owner, node->owner, len);
    texts->owner[len] = '\0';
    texts->label[0] = '\0';
    texts->permit = node->limit > 1 ? zk_slot_permit_read(get, &label) : -1;
    texts->label_at = label;
    if (get->rc == ZOK && get->text != NULL)
        dl_printable_mask(texts->label, sizeof texts->label, get->text + label,
                          strnlen(get->text + label, get->text_len - label));
}

/* The label is in texts: that of another program may be no text. */
static void data_read(struct dlock_holder *holder, const struct zk_call *get, size_t label)
{
    struct dlock_holder read = {.struct_size = sizeof read};

    if (get->rc != ZOK || get->text == NULL)
        return;
    dl_holder_text_read(&read, get->text + label, get->text_len - label);
    holder->data = read.data;
    holder->data_len = read.data_len;
}

/* True: no more. */
static bool report(const struct reporting *reporting, const struct holder *item,
                   const struct zk_call *exists, const struct zk_call *get,
                   const struct texts *texts)
{
    const struct zk_admin_name *name = &reporting->names[item->index];
    const uint64_t fence = exists->rc == ZOK ? (uint64_t)exists->stat.czxid * FENCE_SCALE : 0;
    struct dlock_holder holder = {
        .struct_size = sizeof holder,
        .name = name->bytes,
        .name_len = name->len,
        .mode = item->node.shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
        .waiters = item->waiters,
        .fence = fence,
        .fence_last = fence > 0 ? fence + FENCE_SCALE - 1 : 0,
        .remaining_ms = -1, /* nobody can see the timeout of another session */
        .held_ms = -1,
        .owner = texts->owner,
        .label = texts->label,
    };

    if (item->node.limit > 1) {
        holder.limit = item->node.limit;
        holder.permit = (uint32_t)texts->permit;
    }
    data_read(&holder, get, texts->label_at);
    return reporting->fn(reporting->arg, &holder);
}

static bool calls_add(const struct reporting *reporting, struct zk_exchange *exchange,
                      const struct holder *item)
{
    const struct zk_admin_name *name = &reporting->names[item->index];
    struct zk_path path;

    return zk_node_path(&path, &reporting->session->config, name->bytes, name->len) &&
           zk_exchange_add_child(exchange, ZK_EXISTS, path.text, item->child) != NULL &&
           zk_exchange_add_child(exchange, ZK_GET, path.text, item->child) != NULL;
}

/* The calls of so many holders, two for each. */
static enum dlock_status part_read(const struct reporting *reporting, const struct holder *items,
                                   size_t n, struct zk_exchange **exchange)
{
    int64_t session_id = 0;

    *exchange = zk_exchange_new(reporting->session->link, 2 * n);
    if (*exchange == NULL)
        return no_memory(reporting->err);
    for (size_t i = 0; i < n; i++)
        if (!calls_add(reporting, *exchange, &items[i]))
            return no_memory(reporting->err);
    return zk_exchange_run(*exchange, &session_id,
                           zk_link_now(reporting->session->link) + reporting->timeout_ns,
                           reporting->err);
}

static const struct zk_call *exists_of(struct zk_exchange *const *exchanges, size_t i)
{
    return zk_exchange_call(exchanges[i / AT_ONCE], 2 * (i % AT_ONCE));
}

static const struct zk_call *get_of(struct zk_exchange *const *exchanges, size_t i)
{
    return zk_exchange_call(exchanges[i / AT_ONCE], 2 * (i % AT_ONCE) + 1);
}

/* Counts the waiters that may take a permit, and have none yet, for each holder of their name. The
 * holders of a name stand together. */
static void waiters_count(struct holders *holders, struct zk_exchange *const *exchanges)
{
    struct holder *items = holders->items;
    size_t label = 0;

    for (size_t i = 0, first = 0; i < holders->count; first = i) {
        uint32_t waiters = 0;

        for (; i < holders->count && items[i].index == items[first].index; i++) {
            const struct zk_call *get = get_of(exchanges, i);

            waiters +=
                items[i].node.limit > 1 && get->rc == ZOK && zk_slot_permit_read(get, &label) < 0;
        }
        for (size_t k = first; k < i; k++)
            items[k].waiters += waiters;
    }
}

/* The holders of one name, from number `first` on. Returns how many there are. A node that has gone
 * since the children were read holds nothing any more: the node that follows it does, which may not
 * be among these. get needs the right to read, and since ZooKeeper 3.9 exists does, too: such a
 * holder is shown without its fence. */
static size_t name_report(const struct reporting *reporting, const struct holders *holders,
                          struct zk_exchange *const *exchanges, size_t first)
{
    struct zk_admin_name *name = &reporting->names[holders->items[first].index];
    bool gone = false, held = false;
    size_t i = first;

    for (; i < holders->count && holders->items[i].index == holders->items[first].index; i++) {
        const struct holder *item = &holders->items[i];
        const struct zk_call *exists = exists_of(exchanges, i), *get = get_of(exchanges, i);
        struct texts texts;

        if (*reporting->stopped)
            continue;
        if ((exists->rc != ZOK && exists->rc != ZNOAUTH) || get->rc == ZNONODE) {
            gone = true;
            continue;
        }
        texts_read(&texts, &item->node, get);
        if (item->node.limit > 1 && texts.permit < 0)
            continue; /* it is about to take its permit */
        held = true;
        *reporting->stopped = report(reporting, item, exists, get, &texts);
    }
    name->gone = gone && !held;
    return i - first;
}

static enum dlock_status holders_report(const struct reporting *reporting, struct holders *holders,
                                        struct zk_exchange **exchanges)
{
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; i < holders->count && status == DLOCK_OK; i += AT_ONCE)
        status = part_read(reporting, holders->items + i,
                           holders->count - i < AT_ONCE ? holders->count - i : AT_ONCE,
                           &exchanges[i / AT_ONCE]);
    if (status != DLOCK_OK)
        return status;
    waiters_count(holders, exchanges);
    for (size_t i = 0; i < holders->count;)
        i += name_report(reporting, holders, exchanges, i);
    return DLOCK_OK;
}

/* Names whose holders have all gone since the children were read are `gone`, and not reported. */
static enum dlock_status names_report(const struct reporting *reporting, size_t n)
{
    struct holders holders = {.count = 0};
    struct zk_exchange **exchanges = NULL;
    size_t parts = 0;
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; i < n && status == DLOCK_OK; i++) {
        reporting->names[i].gone = false;
        if (!holders_add(&holders, reporting->names[i].children))
            status = no_memory(reporting->err);
    }
    parts = (holders.count + AT_ONCE - 1) / AT_ONCE;
    exchanges = calloc(parts + 1, sizeof *exchanges);
    if (status == DLOCK_OK && exchanges == NULL)
        status = no_memory(reporting->err);
    if (status == DLOCK_OK)
        status = holders_report(reporting, &holders, exchanges);
    for (size_t i = 0; i < parts && exchanges != NULL; i++)
        zk_exchange_free(exchanges[i]);
    free(exchanges);
    free(holders.items);
    return status;
}

/* Looks at one name, until a holder that was listed is still there to be read, or none is listed.
 */
static enum dlock_status name_inspect(const struct reporting *reporting, int64_t deadline_ns)
{
    struct reporting one = *reporting;
    struct zk_session *session = reporting->session;
    struct zk_path path;
    enum dlock_status status = path_make(&path, session, one.names->bytes, one.names->len, one.err);

    do {
        struct zk_exchange *exchange = NULL;
        struct String_vector *children = NULL;

        one.names->gone = false;
        if (status == DLOCK_OK)
            status = children_read(session, path.text, deadline_ns, &exchange, &children, one.err);
        one.names->children = children;
        one.timeout_ns = deadline_ns - zk_link_now(session->link);
        if (status == DLOCK_OK && children != NULL)
            status = names_report(&one, 1);
        zk_exchange_free(exchange);
    } while (status == DLOCK_OK && one.names->gone);
    return status;
}

/* Reports the holders of n names, which it reads in exchanges. Each exchange takes timeout_ns at
 * most. A waiter that may take a permit counts for the holders that are read in one exchange with
 * it. A holder that has gone meanwhile is not reported; if that leaves none of a name, the name is
 * looked at again, for timeout_ns at most. *stopped: fn wants no more. */
static enum dlock_status names_inspect(struct zk_session *session, struct zk_admin_name *names,
                                       size_t n, int64_t timeout_ns, dlock_holder_fn *fn, void *arg,
                                       bool *stopped, struct dlock_error *err)
{
    struct reporting reporting = {.session = session,
                                  .names = names,
                                  .timeout_ns = timeout_ns,
                                  .fn = fn,
                                  .arg = arg,
                                  .stopped = stopped,
                                  .err = err};
    enum dlock_status status = names_report(&reporting, n);

    for (size_t i = 0; i < n && status == DLOCK_OK && !*stopped; i++) {
        reporting.names = &names[i];
        if (names[i].gone)
            status = name_inspect(&reporting, zk_link_now(session->link) + timeout_ns);
    }
    return status;
}

enum dlock_status zk_admin_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                   int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                   struct dlock_error *err)
{
    struct zk_session *session = self;
    struct zk_admin_name one = {.len = name_len};
    bool stopped = false;
    const struct reporting reporting = {
        .session = session, .names = &one, .fn = fn, .arg = arg, .stopped = &stopped, .err = err};

    memcpy(one.bytes, name, name_len);
    return name_inspect(&reporting, deadline_ns);
}

/* ---- names, page by page ---- */

/*
 * The children of the base are the names. With key=raw each child of the node of a name that is no
 * contender may be the node of a longer name, so that all nodes below the base are read.
 */

/* A name whose node is to be read. */
struct entry {
    struct entry *next;
    uint32_t len;
    unsigned char bytes[];
};

struct listing {
    struct zk_session *session;
    const unsigned char *prefix;
    uint32_t prefix_len;
    int64_t timeout_ns; /* of each exchange */
    zk_admin_fn *fn;
    void *arg;
    struct dlock_error *err;
    struct entry *first, **last;
    size_t denied; /* nodes that may not be read */
    bool stopped;
};

static int64_t due_ns(const struct listing *listing)
{
    return zk_link_now(listing->session->link) + listing->timeout_ns;
}

static bool begins(const struct listing *listing, const unsigned char *name, size_t len)
{
    return listing->prefix_len == 0 ||
           (len >= listing->prefix_len && memcmp(name, listing->prefix, listing->prefix_len) == 0);
}

/* With key=raw: names that begin with the prefix may be below this one. */
static bool leads(const struct listing *listing, const unsigned char *name, size_t len)
{
    return listing->session->config.raw && len < listing->prefix_len &&
           memcmp(name, listing->prefix, len) == 0 && listing->prefix[len] == '/';
}

/* child: a path below the base. False: no memory. */
static bool child_add(struct listing *listing, const char *child)
{
    unsigned char name[256];
    const size_t len = zk_node_name(name, &listing->session->config, child);
    struct entry *entry = NULL;

    if (len == 0 || (!begins(listing, name, len) && !leads(listing, name, len)))
        return true;
    entry = malloc(sizeof *entry + len);
    if (entry == NULL)
        return false;
    entry->next = NULL;
    entry->len = (uint32_t)len;
    memcpy(entry->bytes, name, len);
    *listing->last = entry;
    listing->last = &entry->next;
    return true;
}

static void entry_drop(struct listing *listing)
{
    struct entry *entry = listing->first;

    listing->first = entry->next;
    if (listing->first == NULL)
        listing->last = &listing->first;
    free(entry);
}

/* The children of the node of a name that are no contenders. */
static bool below_add(struct listing *listing, const struct entry *entry,
                      const struct String_vector *children)
{
    struct zk_node node;
    char child[ZK_PATH_MAX + 1];

    for (int32_t i = 0; i < children->count; i++) {
        if (zk_node_parse(&node, children->data[i]) ||
            entry->len + 1 + strlen(children->data[i]) >= sizeof child)
            continue;
        memcpy(child, entry->bytes, entry->len);
        (void)snprintf(child + entry->len, sizeof child - entry->len, "/%s", children->data[i]);
        if (!child_add(listing, child))
            return false;
    }
    return true;
}

/* False: no memory. */
static bool page_add(const struct listing *listing, struct zk_exchange *exchange, size_t n)
{
    const struct entry *entry = listing->first;

    for (size_t i = 0; i < n; i++, entry = entry->next) {
        struct zk_path path;

        if (!zk_node_path(&path, &listing->session->config, entry->bytes, entry->len) ||
            zk_exchange_add(exchange, ZK_CHILDREN, path.text) == NULL)
            return false;
    }
    return true;
}

/* Takes an answer for the first entry. */
static enum dlock_status answer_take(struct listing *listing, const struct zk_call *call,
                                     struct zk_admin_name *page, size_t *count)
{
    const struct entry *entry = listing->first;

    if (call->rc == ZNONODE)
        return DLOCK_OK;
    if (call->rc == ZNOAUTH) {
        listing->denied++;
        return DLOCK_OK;
    }
    if (call->rc != ZOK)
        return zk_exchange_fail(listing->err, call->rc, "list", call->path);
    if (listing->session->config.raw && !below_add(listing, entry, &call->children))
        return no_memory(listing->err);
    if (!begins(listing, entry->bytes, entry->len))
        return DLOCK_OK;
    memcpy(page[*count].bytes, entry->bytes, entry->len);
    page[*count].len = entry->len;
    page[*count].children = &call->children;
    ++*count;
    return DLOCK_OK;
}

/* The first n entries; they are dropped. */
static enum dlock_status page_take(struct listing *listing, struct zk_exchange *exchange, size_t n)
{
    struct zk_admin_name page[ZK_ADMIN_PAGE];
    size_t count = 0;
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; i < n && status == DLOCK_OK; i++) {
        status = answer_take(listing, zk_exchange_call(exchange, i), page, &count);
        entry_drop(listing);
    }
    if (status == DLOCK_OK && count > 0)
        status = listing->fn(listing->arg, page, count, &listing->stopped, listing->err);
    return status;
}

static enum dlock_status page_read(struct listing *listing)
{
    struct zk_exchange *exchange = NULL;
    int64_t session_id = 0;
    size_t n = 0;
    enum dlock_status status = DLOCK_OK;

    for (const struct entry *e = listing->first; e != NULL && n < ZK_ADMIN_PAGE; e = e->next)
        n++;
    exchange = zk_exchange_new(listing->session->link, n);
    if (exchange == NULL || !page_add(listing, exchange, n))
        status = no_memory(listing->err);
    if (status == DLOCK_OK)
        status = zk_exchange_run(exchange, &session_id, due_ns(listing), listing->err);
    if (status == DLOCK_OK)
        status = page_take(listing, exchange, n);
    zk_exchange_free(exchange);
    return status;
}

/* The names at the base; no base, no names. */
static enum dlock_status base_read(struct listing *listing)
{
    const struct zk_config *config = &listing->session->config;
    struct zk_exchange *exchange = NULL;
    struct String_vector *children = NULL;
    enum dlock_status status =
        children_read(listing->session, config->base_len > 0 ? config->base : "/", due_ns(listing),
                      &exchange, &children, listing->err);

    for (int32_t i = 0; status == DLOCK_OK && children != NULL && i < children->count; i++)
        if (!child_add(listing, children->data[i]))
            status = no_memory(listing->err);
    zk_exchange_free(exchange);
    return status;
}

enum dlock_status zk_admin_each(struct zk_session *session, const unsigned char *prefix,
                                uint32_t prefix_len, int64_t timeout_ns, zk_admin_fn *fn, void *arg,
                                struct dlock_error *err)
{
    struct listing listing = {
        .session = session,
        .prefix = prefix,
        .prefix_len = prefix_len,
        .timeout_ns = timeout_ns,
        .fn = fn,
        .arg = arg,
        .err = err,
        .last = &listing.first,
    };
    enum dlock_status status = base_read(&listing);

    while (status == DLOCK_OK && listing.first != NULL && !listing.stopped)
        status = page_read(&listing);
    while (listing.first != NULL)
        entry_drop(&listing);
    if (status == DLOCK_OK && listing.denied > 0)
        return dlock_fail(err, ZK_ORIGIN, DLOCK_AUTH, ZNOAUTH,
                          "nodes below %.200s that may not be read: %zu", session->config.base,
                          listing.denied);
    return status;
}

struct target {
    struct zk_session *session;
    int64_t timeout_ns;
    dlock_holder_fn *fn;
    void *arg;
};

static enum dlock_status page_report(void *arg, struct zk_admin_name *names, size_t n,
                                     bool *stopped, struct dlock_error *err)
{
    const struct target *target = arg;

    return names_inspect(target->session, names, n, target->timeout_ns, target->fn, target->arg,
                         stopped, err);
}

enum dlock_status zk_admin_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                struct dlock_error *err)
{
    struct zk_session *session = self;
    struct target target = {
        .session = session,
        .timeout_ns = deadline_ns - zk_link_now(session->link),
        .fn = fn,
        .arg = arg,
    };

    return zk_admin_each(session, prefix, prefix_len, target.timeout_ns, page_report, &target, err);
}

/* ---- waiters ---- */

/* The names of the nodes are one answer, and so one moment. The labels and the permits are read
 * afterwards, an exchange at a time: a waiter whose node has gone since then waits no more. */

struct waiting {
    struct zk_session *session;
    const char *path;
    const struct zk_queue_waiter *waiters;
    dlock_waiter_fn *fn;
    void *arg;
    uint32_t position; /* of the next one */
    bool stopped;
    struct dlock_error *err;
};

static void waiter_report(struct waiting *waiting, const struct zk_queue_waiter *item,
                          const struct zk_call *get)
{
    struct texts texts;
    struct dlock_waiter waiter = {
        .struct_size = sizeof waiter,
        .mode = item->node.shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
        .waited_ms = -1,
        .owner = texts.owner,
        .label = texts.label,
    };

    texts_read(&texts, &item->node, get);
    if (get->rc == ZNONODE || (item->may_hold && (get->rc != ZOK || texts.permit >= 0)))
        return; /* gone, or a holder */
    waiter.position = waiting->position++;
    waiting->stopped = waiting->fn(waiting->arg, &waiter);
}

/* ZK_EXCHANGE_MOST waiters at most, from `first` on. */
static enum dlock_status exchange_report(struct waiting *waiting, size_t first, size_t n,
                                         int64_t timeout_ns)
{
    struct zk_exchange *exchange = zk_exchange_new(waiting->session->link, n);
    int64_t session_id = 0;
    enum dlock_status status = exchange != NULL ? DLOCK_OK : no_memory(waiting->err);

    for (size_t i = 0; i < n && status == DLOCK_OK; i++)
        if (zk_exchange_add_child(exchange, ZK_GET, waiting->path,
                                  waiting->waiters[first + i].child) == NULL)
            status = no_memory(waiting->err);
    if (status == DLOCK_OK)
        status = zk_exchange_run(exchange, &session_id,
                                 zk_link_now(waiting->session->link) + timeout_ns, waiting->err);
    for (size_t i = 0; i < n && status == DLOCK_OK && !waiting->stopped; i++)
        waiter_report(waiting, &waiting->waiters[first + i], zk_exchange_call(exchange, i));
    zk_exchange_free(exchange);
    return status;
}

static enum dlock_status waiters_report(struct waiting *waiting,
                                        const struct String_vector *children, int64_t deadline_ns)
{
    const int64_t timeout_ns = deadline_ns - zk_link_now(waiting->session->link);
    struct zk_queue_waiter *waiters = NULL;
    size_t count = 0;
    enum dlock_status status = DLOCK_OK;

    if (!zk_queue_waiters(children, &waiters, &count))
        status = no_memory(waiting->err);
    waiting->waiters = waiters;
    for (size_t i = 0; i < count && status == DLOCK_OK && !waiting->stopped; i += ZK_EXCHANGE_MOST)
        status = exchange_report(
            waiting, i, count - i < ZK_EXCHANGE_MOST ? count - i : ZK_EXCHANGE_MOST, timeout_ns);
    free(waiters);
    return status;
}

enum dlock_status zk_admin_list_waiters(void *self, const unsigned char *name, uint32_t name_len,
                                        int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                        struct dlock_error *err)
{
    struct zk_session *session = self;
    struct zk_path path;
    struct waiting waiting = {
        .session = session, .path = path.text, .fn = fn, .arg = arg, .err = err};
    struct zk_exchange *exchange = NULL;
    struct String_vector *children = NULL;
    enum dlock_status status = path_make(&path, session, name, name_len, err);

    if (status != DLOCK_OK)
        return status;
    status = children_read(session, path.text, deadline_ns, &exchange, &children, err);
    if (status == DLOCK_OK && children != NULL)
        status = waiters_report(&waiting, children, deadline_ns);
    zk_exchange_free(exchange);
    return status;
}

/* ---- the end of holders ---- */

struct breaking {
    struct zk_session *session;
    struct zk_path path; /* of the name */
    const char *owner;
    int64_t deadline_ns;
    struct dlock_error *err;
    size_t ended;
};

static enum dlock_status break_no_memory(struct breaking *breaking)
{
    return dlock_fail(breaking->err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

static bool is_meant(const struct breaking *breaking, const struct zk_node *node)
{
    return breaking->owner == NULL || (strlen(breaking->owner) == node->owner_len &&
                                       memcmp(breaking->owner, node->owner, node->owner_len) == 0);
}

/* A holder that has gone meanwhile is not counted. */
static enum dlock_status answers_count(struct breaking *breaking, struct zk_exchange *exchange,
                                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct zk_call *call = zk_exchange_call(exchange, i);

        if (call->rc == ZOK)
            breaking->ended++;
        else if (call->rc != ZNONODE)
            return zk_exchange_fail(breaking->err, call->rc, "delete", call->path);
    }
    return DLOCK_OK;
}

/* Deletes the nodes, ZK_EXCHANGE_MOST at most. */
static enum dlock_status nodes_delete(struct breaking *breaking, const struct holder *items,
                                      size_t n)
{
    struct zk_exchange *exchange = zk_exchange_new(breaking->session->link, n);
    int64_t session_id = 0;
    enum dlock_status status = exchange != NULL ? DLOCK_OK : break_no_memory(breaking);

    for (size_t i = 0; i < n && status == DLOCK_OK; i++)
        if (zk_exchange_add_child(exchange, ZK_DELETE, breaking->path.text, items[i].child) == NULL)
            status = break_no_memory(breaking);
    if (status == DLOCK_OK)
        status = zk_exchange_run(exchange, &session_id, breaking->deadline_ns, breaking->err);
    if (status == DLOCK_OK)
        status = answers_count(breaking, exchange, n);
    zk_exchange_free(exchange);
    return status;
}

static enum dlock_status holders_break(struct breaking *breaking,
                                       const struct String_vector *children)
{
    struct holders holders = {.count = 0};
    size_t meant = 0;
    enum dlock_status status =
        holders_add(&holders, children) ? DLOCK_OK : break_no_memory(breaking);

    for (size_t i = 0; i < holders.count; i++)
        if (is_meant(breaking, &holders.items[i].node))
            holders.items[meant++] = holders.items[i];
    for (size_t i = 0; i < meant && status == DLOCK_OK; i += ZK_EXCHANGE_MOST)
        status = nodes_delete(breaking, holders.items + i,
                              meant - i < ZK_EXCHANGE_MOST ? meant - i : ZK_EXCHANGE_MOST);
    free(holders.items);
    return status;
}

enum dlock_status zk_admin_break(void *self, const unsigned char *name, uint32_t name_len,
                                 const char *owner, int64_t deadline_ns, struct dlock_error *err)
{
    struct zk_session *session = self;
    struct breaking breaking = {
        .session = session, .owner = owner, .deadline_ns = deadline_ns, .err = err};
    struct zk_exchange *exchange = NULL;
    struct String_vector *children = NULL;
    enum dlock_status status = path_make(&breaking.path, session, name, name_len, err);

    if (status == DLOCK_OK)
        status = children_read(session, breaking.path.text, deadline_ns, &exchange, &children, err);
    if (status == DLOCK_OK && children != NULL)
        status = holders_break(&breaking, children);
    zk_exchange_free(exchange);
    if (status == DLOCK_OK && breaking.ended == 0)
        return dlock_fail(err, ZK_ORIGIN, DLOCK_NOT_HELD, 0,
                          owner != NULL ? "not held by this owner" : "the name is free");
    return status;
}
