/* SPDX-License-Identifier: MIT */
#include "admin.h"

#include "flight.h"
#include "lib/holder_text.h"
#include "lib/printable.h"
#include "slot.h"

#include <stdlib.h>
#include <string.h>

#define AT_ONCE     (ZK_FLIGHT_MOST / 2) /* two calls for each holder */
#define FENCE_SCALE 32

static enum dlock_status no_memory(struct dlock_error *err)
{
    return dlock_fail(err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a list");
}

enum dlock_status zk_admin_path(struct zk_path *path, const struct zk_session *session,
                                const unsigned char *name, uint32_t name_len,
                                struct dlock_error *err)
{
    if (zk_node_path(path, &session->config, name, name_len))
        return DLOCK_OK;
    return dlock_fail(err, ZK_ORIGIN, DLOCK_INVALID, 0,
                      "with key=raw the name has to be a path that ZooKeeper takes");
}

/* A follower may lag behind the leader; a sync in front makes it catch up. */
enum dlock_status zk_admin_children(struct zk_session *session, const char *path,
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
        return zk_flight_fail(err, sync->rc, "sync", path);
    if (call->rc == ZOK)
        *children = &call->children;
    else if (call->rc != ZNONODE)
        return zk_flight_fail(err, call->rc, "list", path);
    return DLOCK_OK;
}

/* ---- holders ---- */

static void holder_note(void *arg, const char *name, const struct zk_node *node)
{
    struct zk_admin_holders *holders = arg;

    if (holders->count == holders->room && !holders->failed) {
        const size_t room = holders->room > 0 ? 2 * holders->room : 16;
        struct zk_admin_holder *grown = reallocarray(holders->items, room, sizeof *holders->items);

        holders->failed = grown == NULL;
        if (grown != NULL) {
            holders->items = grown;
            holders->room = room;
        }
    }
    if (!holders->failed)
        holders->items[holders->count++] =
            (struct zk_admin_holder){.index = holders->index, .child = name, .node = *node};
}

bool zk_admin_add(struct zk_admin_holders *holders, const struct String_vector *children)
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
    struct zk_admin_name *names;
    int64_t timeout_ns; /* of each flight */
    dlock_holder_fn *fn;
    void *arg;
    bool *stopped;
    struct dlock_error *err;
};

void zk_admin_texts(struct zk_admin_texts *texts, const struct zk_node *node,
                    const struct zk_call *get)
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
static bool report(const struct reporting *reporting, const struct zk_admin_holder *item,
                   const struct zk_call *exists, const struct zk_call *get,
                   const struct zk_admin_texts *texts)
{
    const struct zk_admin_name *name = &reporting->names[item->index];
    struct dlock_holder holder = {
        .struct_size = sizeof holder,
        .name = name->bytes,
        .name_len = name->len,
        .mode = item->node.shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
        .waiters = item->waiters,
        .fence = (uint64_t)exists->stat.czxid * FENCE_SCALE,
        .fence_room = FENCE_SCALE - 1,
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

static bool calls_add(const struct reporting *reporting, struct zk_flight *flight,
                      const struct zk_admin_holder *item)
{
    const struct zk_admin_name *name = &reporting->names[item->index];
    struct zk_path path;

    return zk_node_path(&path, &reporting->session->config, name->bytes, name->len) &&
           zk_flight_add_child(flight, ZK_EXISTS, path.text, item->child) != NULL &&
           zk_flight_add_child(flight, ZK_GET, path.text, item->child) != NULL;
}

/* The calls of so many holders, two for each. */
static enum dlock_status part_read(const struct reporting *reporting,
                                   const struct zk_admin_holder *items, size_t n,
                                   struct zk_flight **flight)
{
    int64_t session_id = 0;

    *flight = zk_flight_new(reporting->session->link, 2 * n);
    if (*flight == NULL)
        return no_memory(reporting->err);
    for (size_t i = 0; i < n; i++)
        if (!calls_add(reporting, *flight, &items[i]))
            return no_memory(reporting->err);
    return zk_flight_run(*flight, &session_id,
                         zk_link_now(reporting->session->link) + reporting->timeout_ns,
                         reporting->err);
}

static const struct zk_call *exists_of(struct zk_flight *const *flights, size_t i)
{
    return zk_flight_call(flights[i / AT_ONCE], 2 * (i % AT_ONCE));
}

static const struct zk_call *get_of(struct zk_flight *const *flights, size_t i)
{
    return zk_flight_call(flights[i / AT_ONCE], 2 * (i % AT_ONCE) + 1);
}

/* Counts the waiters that may take a permit, and have none yet, for each holder of their name. The
 * holders of a name stand together. */
static void waiters_count(struct zk_admin_holders *holders, struct zk_flight *const *flights)
{
    struct zk_admin_holder *items = holders->items;
    size_t label = 0;

    for (size_t i = 0, first = 0; i < holders->count; first = i) {
        uint32_t waiters = 0;

        for (; i < holders->count && items[i].index == items[first].index; i++) {
            const struct zk_call *get = get_of(flights, i);

            waiters +=
                items[i].node.limit > 1 && get->rc == ZOK && zk_slot_permit_read(get, &label) < 0;
        }
        for (size_t k = first; k < i; k++)
            items[k].waiters += waiters;
    }
}

/* The holders of one name, from number `first` on. Returns how many there are. A node that has gone
 * since the children were read holds nothing any more: the node that follows it does, which may not
 * be among these. exists needs no right, get needs the right to read. */
static size_t name_report(const struct reporting *reporting, const struct zk_admin_holders *holders,
                          struct zk_flight *const *flights, size_t first)
{
    struct zk_admin_name *name = &reporting->names[holders->items[first].index];
    bool gone = false, held = false;
    size_t i = first;

    for (; i < holders->count && holders->items[i].index == holders->items[first].index; i++) {
        const struct zk_admin_holder *item = &holders->items[i];
        const struct zk_call *exists = exists_of(flights, i), *get = get_of(flights, i);
        struct zk_admin_texts texts;

        if (*reporting->stopped)
            continue;
        if (exists->rc != ZOK || get->rc == ZNONODE) {
            gone = true;
            continue;
        }
        zk_admin_texts(&texts, &item->node, get);
        if (item->node.limit > 1 && texts.permit < 0)
            continue; /* it is about to take its permit */
        held = true;
        *reporting->stopped = report(reporting, item, exists, get, &texts);
    }
    name->gone = gone && !held;
    return i - first;
}

static enum dlock_status holders_report(const struct reporting *reporting,
                                        struct zk_admin_holders *holders,
                                        struct zk_flight **flights)
{
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; i < holders->count && status == DLOCK_OK; i += AT_ONCE)
        status = part_read(reporting, holders->items + i,
                           holders->count - i < AT_ONCE ? holders->count - i : AT_ONCE,
                           &flights[i / AT_ONCE]);
    if (status != DLOCK_OK)
        return status;
    waiters_count(holders, flights);
    for (size_t i = 0; i < holders->count;)
        i += name_report(reporting, holders, flights, i);
    return DLOCK_OK;
}

/* Names whose holders have all gone since the children were read are `gone`, and not reported. */
static enum dlock_status names_report(const struct reporting *reporting, size_t n)
{
    struct zk_admin_holders holders = {.count = 0};
    struct zk_flight **flights = NULL;
    size_t parts = 0;
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; i < n && status == DLOCK_OK; i++) {
        reporting->names[i].gone = false;
        if (!zk_admin_add(&holders, reporting->names[i].children))
            status = no_memory(reporting->err);
    }
    parts = (holders.count + AT_ONCE - 1) / AT_ONCE;
    flights = calloc(parts + 1, sizeof *flights);
    if (status == DLOCK_OK && flights == NULL)
        status = no_memory(reporting->err);
    if (status == DLOCK_OK)
        status = holders_report(reporting, &holders, flights);
    for (size_t i = 0; i < parts && flights != NULL; i++)
        zk_flight_free(flights[i]);
    free(flights);
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
    enum dlock_status status =
        zk_admin_path(&path, session, one.names->bytes, one.names->len, one.err);

    do {
        struct zk_flight *flight = NULL;
        struct String_vector *children = NULL;

        one.names->gone = false;
        if (status == DLOCK_OK)
            status =
                zk_admin_children(session, path.text, deadline_ns, &flight, &children, one.err);
        one.names->children = children;
        one.timeout_ns = deadline_ns - zk_link_now(session->link);
        if (status == DLOCK_OK && children != NULL)
            status = names_report(&one, 1);
        zk_flight_free(flight);
    } while (status == DLOCK_OK && one.names->gone);
    return status;
}

enum dlock_status zk_admin_report(struct zk_session *session, struct zk_admin_name *names, size_t n,
                                  int64_t timeout_ns, dlock_holder_fn *fn, void *arg, bool *stopped,
                                  struct dlock_error *err)
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

enum dlock_status zk_admin_inspect(struct zk_session *session, const unsigned char *name,
                                   uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                   void *arg, struct dlock_error *err)
{
    struct zk_admin_name one = {.len = name_len};
    bool stopped = false;
    const struct reporting reporting = {
        .session = session, .names = &one, .fn = fn, .arg = arg, .stopped = &stopped, .err = err};

    memcpy(one.bytes, name, name_len);
    return name_inspect(&reporting, deadline_ns);
}
