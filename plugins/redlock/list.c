/* SPDX-License-Identifier: MIT */
/*
 * The live holders of many names. First the names are collected with SCAN, node by node: a name
 * that a majority holds is on one of any N - majority + 1 nodes. Then all names are inspected.
 */
#include "inspect.h"
#include "resp/reply.h"
#include "round.h"
#include "slots.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define PAGE            "100"
#define PAGE_TIMEOUT_NS (DL_NS_PER_S / 4)
#define CURSOR_SIZE     24

struct listed_name {
    uint32_t len;
    unsigned char name[];
};

struct listing {
    struct redlock_session *session;
    int64_t deadline_ns;
    void *names; /* tsearch(3) tree of struct listed_name */
    char pattern[2 * RESP_KEY_MAX];
    char cursor[CURSOR_SIZE];
    bool no_memory, stopped;
    struct redlock_name batch[REDLOCK_INSPECT_MAX]; /* borrowed from names */
    size_t batch_count;
    dlock_holder_fn *fn;
    void *arg;
    enum dlock_status status;
    struct dlock_error *err;
};

static int listed_compare(const void *a, const void *b)
{
    const struct listed_name *one = a, *other = b;

    if (one->len != other->len)
        return one->len < other->len ? -1 : 1;
    return memcmp(one->name, other->name, one->len);
}

static void name_add(struct listing *listing, const redisReply *key)
{
    unsigned char name[RESP_NAME_MAX];
    struct listed_name *entry = NULL, **found = NULL;
    uint32_t len = 0;

    if (!resp_keys_name(&listing->session->config->nodes[0], key->str, (size_t)key->len, name,
                        &len))
        return;
    entry = malloc(sizeof *entry + len);
    if (entry != NULL) {
        entry->len = len;
        memcpy(entry->name, name, len);
        found = tsearch(entry, &listing->names, listed_compare);
    }
    listing->no_memory |= found == NULL;
    if (found == NULL || *found != entry)
        free(entry);
}

/* The answer is { cursor, { key, ... } }. */
static enum redlock_quorum_vote page_read(struct redlock_round *round, unsigned node,
                                          const redisReply *reply)
{
    struct listing *listing = round->data;
    const redisReply *cursor = NULL, *keys = NULL;

    (void)node;
    if (resp_reply_array(reply, 2)) {
        cursor = resp_reply_text(reply, 0);
        keys = reply->element[1];
    }
    if (cursor == NULL || cursor->len >= CURSOR_SIZE || keys->type != REDIS_REPLY_ARRAY)
        return QUORUM_REFUSED;
    (void)snprintf(listing->cursor, sizeof listing->cursor, "%s", cursor->str);
    for (size_t i = 0; i < keys->elements; i++) {
        const redisReply *key = resp_reply_text(keys, i);

        if (key != NULL)
            name_add(listing, key);
    }
    return QUORUM_YES;
}

static enum redlock_quorum_verdict page_judge(const struct redlock_round *round)
{
    if (round->tally.open > 0)
        return QUORUM_WAIT;
    return round->tally.yes > 0 ? QUORUM_WON : QUORUM_SHORT;
}

static bool page_take(struct listing *listing, unsigned node)
{
    struct redlock_request request = {.script = NULL};
    struct redlock_round round = {
        .session = listing->session,
        .request = &request,
        .node_timeout_ns = PAGE_TIMEOUT_NS,
        .deadline_ns = listing->deadline_ns,
        .strict = true,
        .only = 1u << node,
        .judge = page_judge,
        .read = page_read,
        .data = listing,
    };
    bool fine = false;

    resp_command_begin(&request.command);
    resp_command_text(&request.command, "SCAN");
    resp_command_text(&request.command, listing->cursor);
    resp_command_text(&request.command, "MATCH");
    resp_command_text(&request.command, listing->pattern);
    resp_command_text(&request.command, "COUNT");
    resp_command_text(&request.command, PAGE);
    fine = redlock_round_run(&round) == QUORUM_WON;
    return fine;
}

static bool node_scan(struct listing *listing, unsigned node)
{
    (void)snprintf(listing->cursor, sizeof listing->cursor, "0");
    do {
        if (redlock_session_now(listing->session) >= listing->deadline_ns ||
            !page_take(listing, node))
            return false;
    } while (strcmp(listing->cursor, "0") != 0 && !listing->no_memory);
    return true;
}

static enum dlock_status names_collect(struct listing *listing, struct dlock_error *err)
{
    const struct redlock_config *config = listing->session->config;
    unsigned needed = config->count - config->need + 1, scanned = 0;

    for (unsigned i = 0; i < config->count && scanned < needed && !listing->no_memory; i++)
        scanned += node_scan(listing, i);
    if (listing->no_memory)
        return redlock_config_fail(err, config, DLOCK_NOMEM, "no memory for a list");
    if (scanned >= needed)
        return DLOCK_OK;
    (void)redlock_config_fail(err, config, DLOCK_NO_QUORUM,
                              "%u of %u nodes listed their names, and %u are "
                              "needed",
                              scanned, config->count, needed);
    redlock_session_report(err, listing->session);
    return DLOCK_NO_QUORUM;
}

static void batch_inspect(struct listing *listing, size_t count)
{
    struct redlock_inspection inspection = {
        .session = listing->session,
        .names = listing->batch,
        .count = count,
        .deadline_ns = listing->deadline_ns,
        .fn = listing->fn,
        .arg = listing->arg,
        .err = listing->err,
        .listing = true,
    };

    listing->status = redlock_inspect_names(&inspection);
    listing->stopped = inspection.stopped;
}

static void batch_report(struct listing *listing)
{
    size_t count = listing->batch_count;

    listing->batch_count = 0;
    if (count == 0 || listing->stopped || listing->status != DLOCK_OK)
        return;
    if (redlock_session_now(listing->session) >= listing->deadline_ns)
        listing->status = redlock_config_fail(listing->err, listing->session->config, DLOCK_UNKNOWN,
                                              "a list: no time for the rest");
    else
        batch_inspect(listing, count);
}

static void name_report(const void *node, VISIT visit, void *arg)
{
    const struct listed_name *listed = *(const struct listed_name *const *)node;
    struct listing *listing = arg;

    if (visit != postorder && visit != leaf)
        return;
    listing->batch[listing->batch_count++] =
        (struct redlock_name){.bytes = listed->name, .len = listed->len};
    if (listing->batch_count == REDLOCK_INSPECT_MAX)
        batch_report(listing);
}

enum dlock_status redlock_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                               int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                               struct dlock_error *err)
{
    struct redlock_session *session = self;
    struct listing listing = {
        .session = session, .deadline_ns = deadline_ns, .fn = fn, .arg = arg, .err = err};

    if (prefix_len > RESP_NAME_MAX)
        return DLOCK_OK; /* no name is that long */
    resp_keys_pattern(listing.pattern, &session->config->nodes[0], prefix, prefix_len);
    listing.status = names_collect(&listing, err);
    if (listing.status == DLOCK_OK)
        twalk_r(listing.names, name_report, &listing);
    batch_report(&listing);
    tdestroy(listing.names, free);
    return listing.status;
}
