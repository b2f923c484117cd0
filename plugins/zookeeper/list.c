/* SPDX-License-Identifier: MIT */
/*
 * The children of the base are the names. With key=raw each child of the node of a name that is no
 * contender may be the node of a longer name, so that all nodes below the base are read.
 */
#include "list.h"

#include "flight.h"

#include <stdlib.h>
#include <string.h>

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

static enum dlock_status no_memory(const struct listing *listing)
{
    return dlock_fail(listing->err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a list");
}

static int64_t due_ns(const struct listing *listing)
{
    return zk_link_now(listing->session->link) + listing->timeout_ns;
}

/* ---- names ---- */

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

/* ---- pages ---- */

/* False: no memory. */
static bool calls_add(const struct listing *listing, struct zk_flight *flight, size_t n)
{
    const struct entry *entry = listing->first;

    for (size_t i = 0; i < n; i++, entry = entry->next) {
        struct zk_path path;

        if (!zk_node_path(&path, &listing->session->config, entry->bytes, entry->len) ||
            zk_flight_add(flight, ZK_CHILDREN, path.text) == NULL)
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
        return zk_flight_fail(listing->err, call->rc, "list", call->path);
    if (listing->session->config.raw && !below_add(listing, entry, &call->children))
        return no_memory(listing);
    if (!begins(listing, entry->bytes, entry->len))
        return DLOCK_OK;
    memcpy(page[*count].bytes, entry->bytes, entry->len);
    page[*count].len = entry->len;
    page[*count].children = &call->children;
    ++*count;
    return DLOCK_OK;
}

/* The first n entries; they are dropped. */
static enum dlock_status page_take(struct listing *listing, struct zk_flight *flight, size_t n)
{
    struct zk_admin_name page[ZK_ADMIN_PAGE];
    size_t count = 0;
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; i < n && status == DLOCK_OK; i++) {
        status = answer_take(listing, zk_flight_call(flight, i), page, &count);
        entry_drop(listing);
    }
    if (status == DLOCK_OK && count > 0)
        status = listing->fn(listing->arg, page, count, &listing->stopped, listing->err);
    return status;
}

static enum dlock_status page_read(struct listing *listing)
{
    struct zk_flight *flight = NULL;
    int64_t session_id = 0;
    size_t n = 0;
    enum dlock_status status = DLOCK_OK;

    for (const struct entry *e = listing->first; e != NULL && n < ZK_ADMIN_PAGE; e = e->next)
        n++;
    flight = zk_flight_new(listing->session->link, n);
    if (flight == NULL || !calls_add(listing, flight, n))
        status = no_memory(listing);
    if (status == DLOCK_OK)
        status = zk_flight_run(flight, &session_id, due_ns(listing), listing->err);
    if (status == DLOCK_OK)
        status = page_take(listing, flight, n);
    zk_flight_free(flight);
    return status;
}

/* The names at the base; no base, no names. */
static enum dlock_status base_read(struct listing *listing)
{
    const struct zk_config *config = &listing->session->config;
    struct zk_flight *flight = NULL;
    struct String_vector *children = NULL;
    enum dlock_status status =
        zk_admin_children(listing->session, config->base_len > 0 ? config->base : "/",
                          due_ns(listing), &flight, &children, listing->err);

    for (int32_t i = 0; status == DLOCK_OK && children != NULL && i < children->count; i++)
        if (!child_add(listing, children->data[i]))
            status = no_memory(listing);
    zk_flight_free(flight);
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

/* ---- slot ---- */

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

    return zk_admin_report(target->session, names, n, target->timeout_ns, target->fn, target->arg,
                           stopped, err);
}

enum dlock_status zk_admin_list(struct zk_session *session, const unsigned char *prefix,
                                uint32_t prefix_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                void *arg, struct dlock_error *err)
{
    struct target target = {
        .session = session,
        .timeout_ns = deadline_ns - zk_link_now(session->link),
        .fn = fn,
        .arg = arg,
    };

    return zk_admin_each(session, prefix, prefix_len, target.timeout_ns, page_report, &target, err);
}
