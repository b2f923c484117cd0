/* SPDX-License-Identifier: MIT */
#include "inspect.h"

#include "errmap.h"
#include "lib/holder_text.h"
#include "lib/printable.h"
#include "permit.h"

#include <stdlib.h>
#include <string.h>

#define AT_ONCE     (ZK_FLIGHT_MOST / 2) /* two calls for each holder */
#define FENCE_SCALE 32

static enum dlock_status no_memory(struct dlock_error *err)
{
    return dlock_fail(err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a list");
}

enum dlock_status zk_inspect_path(struct zk_path *path, const struct zk_session *session,
                                  const unsigned char *name, uint32_t name_len,
                                  struct dlock_error *err)
{
    if (zk_path_make(path, &session->config, name, name_len))
        return DLOCK_OK;
    return dlock_fail(err, ZK_ORIGIN, DLOCK_INVALID, 0,
                      "with key=raw the name has to be a path that ZooKeeper takes");
}

/* A follower may lag behind the leader; a sync in front makes it catch up. */
enum dlock_status zk_inspect_children(struct zk_session *session, const char *path,
                                      int64_t deadline_ns, struct zk_flight **flight,
                                      struct String_vector **children, struct dlock_error *err)
{
    int64_t session_id = 0;
    struct zk_call *sync = NULL, *call = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    *children = NULL;
    *flight = zk_flight_new(session->link, 2);
    if (*flight == NULL)
        return no_memory(err);
    sync = zk_flight_add(*flight, ZK_SYNC, path);
    call = sync != NULL ? zk_flight_add(*flight, ZK_CHILDREN, path) : NULL;
    if (call == NULL)
        return no_memory(err);
    status = zk_flight_run(*flight, &session_id, deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    if (sync->rc != ZOK && sync->rc != ZNONODE)
        return zk_errmap_fail(err, sync->rc, "sync", path);
    if (call->rc == ZOK)
        *children = &call->children;
    else if (call->rc != ZNONODE)
        return zk_errmap_fail(err, call->rc, "list", path);
    return DLOCK_OK;
}

/* ---- holders ---- */

static void holder_note(void *arg, const char *name, const struct zk_node *node)
{
    struct zk_inspect_holders *holders = arg;

    if (holders->count == holders->room && !holders->failed) {
        const size_t room = holders->room > 0 ? 2 * holders->room : 16;
        struct zk_inspect_holder *grown =
            reallocarray(holders->items, room, sizeof *holders->items);

        holders->failed = grown == NULL;
        if (grown != NULL) {
            holders->items = grown;
            holders->room = room;
        }
    }
    if (!holders->failed)
        holders->items[holders->count++] =
            (struct zk_inspect_holder){.index = holders->index, .child = name, .node = *node};
}

bool zk_inspect_add(struct zk_inspect_holders *holders, const struct String_vector *children)
{
    const size_t first = holders->count;
    const uint32_t waiters = zk_queue_holders(children, holder_note, holders);

    for (size_t i = first; i < holders->count; i++)
        holders->items[i].waiters = waiters;
    holders->index++;
    return !holders->failed;
}

/* ---- reporting ---- */

struct reporting {
    struct zk_session *session;
    const struct zk_inspect_name *names;
    dlock_holder_fn *fn;
    void *arg;
    struct dlock_error *err;
};

void zk_inspect_texts(struct zk_inspect_texts *texts, const struct zk_node *node,
                      const struct zk_call *get)
{
    size_t len = node->owner_len, label = 0;

    if (len > sizeof texts->owner - 1)
        len = sizeof texts->owner - 1;
    memcpy(texts->owner, node->owner, len);
    texts->owner[len] = '\0';
    texts->label[0] = '\0';
    texts->permit = node->limit > 1 ? zk_permit_read(get, &label) : -1;
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

/* exists needs no right, get needs the right to read. A node that has gone since the children were
 * read was a holder then: it is reported without what is not known. True: no more. */
static bool report(const struct reporting *reporting, const struct zk_inspect_holder *item,
                   const struct zk_call *exists, const struct zk_call *get)
{
    struct zk_inspect_texts texts;
    const struct zk_inspect_name *name = &reporting->names[item->index];
    const bool is_there = exists->rc == ZOK && get->rc != ZNONODE; /* after both requests */
    const int64_t czxid = is_there ? exists->stat.czxid : 0;
    struct dlock_holder holder = {
        .struct_size = sizeof holder,
        .name = name->bytes,
        .name_len = name->len,
        .mode = item->node.shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
        .waiters = item->waiters,
        .fence = (uint64_t)czxid * FENCE_SCALE,
        .fence_room = czxid != 0 ? FENCE_SCALE - 1 : 0,
        .remaining_ms = -1, /* nobody can see the timeout of another session */
        .held_ms = -1,
        .owner = texts.owner,
        .label = texts.label,
    };

    zk_inspect_texts(&texts, &item->node, get);
    if (item->node.limit > 1 && texts.permit < 0)
        return false; /* it is about to take its permit, or has gone */
    if (item->node.limit > 1) {
        holder.limit = item->node.limit;
        holder.permit = (uint32_t)texts.permit;
    }
    data_read(&holder, get, texts.label_at);
    return reporting->fn(reporting->arg, &holder);
}

static bool calls_add(const struct reporting *reporting, struct zk_flight *flight,
                      const struct zk_inspect_holder *item)
{
    const struct zk_inspect_name *name = &reporting->names[item->index];
    struct zk_path path;

    return zk_path_make(&path, &reporting->session->config, name->bytes, name->len) &&
           zk_flight_add_child(flight, ZK_EXISTS, path.text, item->child) != NULL &&
           zk_flight_add_child(flight, ZK_GET, path.text, item->child) != NULL;
}

/* The calls of so many holders, two for each. */
static enum dlock_status part_read(const struct reporting *reporting,
                                   const struct zk_inspect_holder *items, size_t n,
                                   int64_t timeout_ns, struct zk_flight **flight)
{
    int64_t session_id = 0;

    *flight = zk_flight_new(reporting->session->link, 2 * n);
    if (*flight == NULL)
        return no_memory(reporting->err);
    for (size_t i = 0; i < n; i++)
        if (!calls_add(reporting, *flight, &items[i]))
            return no_memory(reporting->err);
    return zk_flight_run(*flight, &session_id, zk_link_now(reporting->session->link) + timeout_ns,
                         reporting->err);
}

static const struct zk_call *get_of(struct zk_flight *const *flights, size_t i)
{
    return zk_flight_call(flights[i / AT_ONCE], 2 * (i % AT_ONCE) + 1);
}

/* Counts the waiters that may take a permit, and have none yet, for each holder of their name. The
 * holders of a name stand together. */
static void waiters_count(struct zk_inspect_holders *holders, struct zk_flight *const *flights)
{
    struct zk_inspect_holder *items = holders->items;
    size_t label = 0;

    for (size_t i = 0, first = 0; i < holders->count; first = i) {
        uint32_t waiters = 0;

        for (; i < holders->count && items[i].index == items[first].index; i++) {
            const struct zk_call *get = get_of(flights, i);

            waiters += items[i].node.limit > 1 && get->rc == ZOK && zk_permit_read(get, &label) < 0;
        }
        for (size_t k = first; k < i; k++)
            items[k].waiters += waiters;
    }
}

static enum dlock_status holders_report(const struct reporting *reporting,
                                        struct zk_inspect_holders *holders,
                                        struct zk_flight **flights, int64_t timeout_ns,
                                        bool *stopped)
{
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; i < holders->count && status == DLOCK_OK; i += AT_ONCE)
        status = part_read(reporting, holders->items + i,
                           holders->count - i < AT_ONCE ? holders->count - i : AT_ONCE, timeout_ns,
                           &flights[i / AT_ONCE]);
    if (status != DLOCK_OK)
        return status;
    waiters_count(holders, flights);
    for (size_t i = 0; i < holders->count && !*stopped; i++)
        *stopped =
            report(reporting, &holders->items[i],
                   zk_flight_call(flights[i / AT_ONCE], 2 * (i % AT_ONCE)), get_of(flights, i));
    return DLOCK_OK;
}

enum dlock_status zk_inspect_report(struct zk_session *session, const struct zk_inspect_name *names,
                                    size_t n, int64_t timeout_ns, dlock_holder_fn *fn, void *arg,
                                    bool *stopped, struct dlock_error *err)
{
    const struct reporting reporting = {
        .session = session, .names = names, .fn = fn, .arg = arg, .err = err};
    struct zk_inspect_holders holders = {.count = 0};
    struct zk_flight **flights = NULL;
    size_t parts = 0;
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; i < n && status == DLOCK_OK; i++)
        if (!zk_inspect_add(&holders, names[i].children))
            status = no_memory(err);
    parts = (holders.count + AT_ONCE - 1) / AT_ONCE;
    flights = calloc(parts + 1, sizeof *flights);
    if (status == DLOCK_OK && flights == NULL)
        status = no_memory(err);
    if (status == DLOCK_OK)
        status = holders_report(&reporting, &holders, flights, timeout_ns, stopped);
    for (size_t i = 0; i < parts && flights != NULL; i++)
        zk_flight_free(flights[i]);
    free(flights);
    free(holders.items);
    return status;
}

enum dlock_status zk_inspect(struct zk_session *session, const unsigned char *name,
                             uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                             struct dlock_error *err)
{
    struct zk_inspect_name one = {.len = name_len};
    struct zk_path path;
    struct zk_flight *flight = NULL;
    struct String_vector *children = NULL;
    bool stopped = false;
    enum dlock_status status = zk_inspect_path(&path, session, name, name_len, err);

    if (status != DLOCK_OK)
        return status;
    memcpy(one.bytes, name, name_len);
    status = zk_inspect_children(session, path.text, deadline_ns, &flight, &children, err);
    one.children = children;
    if (status == DLOCK_OK && children != NULL)
        status = zk_inspect_report(session, &one, 1, deadline_ns - zk_link_now(session->link), fn,
                                   arg, &stopped, err);
    zk_flight_free(flight);
    return status;
}
