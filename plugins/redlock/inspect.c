/* SPDX-License-Identifier: MIT */
#include "resp/error.h"
#include "resp/reply.h"
#include "round.h"
#include "session.h"
#include "slots.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* ---- the owners that a majority of the nodes reports, or may report ---- */

#define INSPECT_MAX 64 /* names in one script; other clients wait meanwhile */

struct name {
    const unsigned char *bytes;
    uint32_t len;
};

struct inspection {
    struct redlock_session *session;
    const struct name *names;
    size_t count;
    int64_t deadline_ns;
    dlock_holder_fn *fn;
    void *arg;
    struct dlock_error *err;
    bool node_lines; /* with OK, err gets a line for each node: what it says of the first name */
    bool listing;    /* fn is called for names that nobody can take, too */
    bool stopped;    /* out: fn wanted no more */
};

#define HOLDERS_TEXT    "200" /* of one name in one answer */
#define HOLDER_ELEMENTS 6
#define LABEL_SIZE      320
#define NO_END          INT64_MAX

struct holder {
    size_t name; /* index in names */
    char owner[REDLOCK_OWNER_SIZE], label[LABEL_SIZE];
    uint32_t mode;
    unsigned nodes;
    int64_t left[REDLOCK_NODES_MAX]; /* NO_END: the lease does not end by itself */
    int64_t numbers[REDLOCK_NODES_MAX];
    int64_t held_ms;
};

/* What one node says of one name. */
struct node_view {
    unsigned holders;
    uint32_t mode;
    char owner[RESP_HEX_SIZE]; /* of the first one; another program's text is cut */
    int64_t left_ms;           /* of the last one; NO_END */
    bool foreign;              /* a key of the name is foreign */
};

struct inspecting {
    const struct name *names;
    size_t name_count;
    unsigned node;                             /* its answer is being read */
    struct node_view views[REDLOCK_NODES_MAX]; /* of the first name */
    uint32_t waiters[INSPECT_MAX];
    unsigned foreign[INSPECT_MAX]; /* number of nodes where a key is foreign */
    struct holder *holders;
    size_t count, room;
    bool no_memory;
    struct redlock_request request;
    struct resp_keys keys[INSPECT_MAX];
};

static struct holder *holder_add(struct inspecting *inspecting)
{
    if (inspecting->count == inspecting->room) {
        size_t room = inspecting->room == 0 ? 8 : 2 * inspecting->room;
        struct holder *holders = realloc(inspecting->holders, room * sizeof *holders);

        inspecting->no_memory |= holders == NULL;
        if (holders == NULL)
            return NULL;
        inspecting->holders = holders;
        inspecting->room = room;
    }
    inspecting->holders[inspecting->count] = (struct holder){.held_ms = -1};
    return &inspecting->holders[inspecting->count++];
}

static struct holder *holder_of(struct inspecting *inspecting, size_t name, const char *owner,
                                uint32_t mode)
{
    struct holder *holder = NULL;

    for (size_t i = 0; i < inspecting->count; i++) {
        holder = &inspecting->holders[i];
        if (holder->name == name && holder->mode == mode && strcmp(holder->owner, owner) == 0)
            return holder;
    }
    holder = holder_add(inspecting);
    if (holder != NULL) {
        holder->name = name;
        holder->mode = mode;
        (void)snprintf(holder->owner, sizeof holder->owner, "%s", owner);
    }
    return holder;
}

static void view_note(struct node_view *view, uint32_t mode, const char *owner, int64_t left_ms)
{
    if (view->holders++ == 0)
        (void)snprintf(view->owner, sizeof view->owner, "%.32s", owner);
    view->mode = mode;
    if (left_ms > view->left_ms)
        view->left_ms = left_ms;
}

/* Reads mode, token, left, held for, label, number. False: they make no sense. */
static bool holder_read(struct inspecting *inspecting, size_t name, const redisReply *reply,
                        size_t at)
{
    const redisReply *mode = resp_reply_text(reply, at);
    const redisReply *owner = resp_reply_text(reply, at + 1);
    const redisReply *label = resp_reply_text(reply, at + 4);
    int64_t left = 0, held = 0, number = 0;
    struct holder *holder = NULL;
    uint32_t how = DLOCK_EXCLUSIVE;

    if (mode == NULL || owner == NULL || label == NULL ||
        !resp_reply_int(reply, at + 2, -2, INT64_MAX, &left) ||
        !resp_reply_int(reply, at + 3, -1, INT64_MAX, &held) ||
        !resp_reply_int(reply, at + 5, 0, REDLOCK_FENCE_MOST, &number))
        return false;
    if (mode->str[0] == 's')
        how = DLOCK_SHARED;
    if (left < 0)
        left = NO_END;
    if (name == 0)
        view_note(&inspecting->views[inspecting->node], how, owner->str, left);
    holder = holder_of(inspecting, name, owner->str, how);
    if (holder == NULL || holder->nodes == REDLOCK_NODES_MAX)
        return true;
    holder->numbers[holder->nodes] = number;
    holder->left[holder->nodes++] = left;
    if (held > holder->held_ms)
        holder->held_ms = held;
    if (label->str[0] != '\0')
        (void)snprintf(holder->label, sizeof holder->label, "%s", label->str);
    return true;
}

static bool name_read(struct inspecting *inspecting, size_t name, const redisReply *reply)
{
    int64_t waiters = 0;

    if (resp_error_is(reply, "WRONGTYPE")) {
        inspecting->foreign[name]++;
        if (name == 0)
            inspecting->views[inspecting->node].foreign = true;
        return true;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        (reply->elements - 1) % HOLDER_ELEMENTS != 0 ||
        !resp_reply_int(reply, 0, 0, UINT32_MAX - 1, &waiters))
        return false;
    if ((uint32_t)waiters > inspecting->waiters[name])
        inspecting->waiters[name] = (uint32_t)waiters;
    for (size_t at = 1; at < reply->elements; at += HOLDER_ELEMENTS)
        if (!holder_read(inspecting, name, reply, at))
            return false;
    return true;
}

static enum redlock_quorum_vote inspect_read(struct redlock_round *round, unsigned node,
                                             const redisReply *reply)
{
    struct inspecting *inspecting = round->data;

    inspecting->node = node;
    if (!resp_reply_array(reply, inspecting->name_count))
        return QUORUM_REFUSED;
    for (size_t i = 0; i < inspecting->name_count; i++)
        if (!name_read(inspecting, i, reply->element[i]))
            return QUORUM_REFUSED;
    return QUORUM_YES;
}

static int64_t remaining(struct holder *holder, unsigned need)
{
    int64_t left = 0;

    if (holder->nodes < need)
        need = holder->nodes;
    left = redlock_quorum_least(holder->left, holder->nodes, need);
    return left == NO_END ? -1 : left;
}

/* The number that a majority has; 0: these nodes do not show it. */
static int64_t fence_of(const struct holder *holder, unsigned need)
{
    for (unsigned i = 0; i < holder->nodes; i++) {
        unsigned have = 0;

        for (unsigned j = 0; j < holder->nodes; j++)
            have += holder->numbers[j] == holder->numbers[i];
        if (have >= need)
            return holder->numbers[i];
    }
    return 0;
}

/* missing: nodes that did not answer, and may have the holder, too. */
static void holders_report(struct inspecting *inspecting, unsigned need, unsigned missing,
                           struct inspection *inspection)
{
    for (size_t i = 0; i < inspecting->count && !inspection->stopped; i++) {
        struct holder *holder = &inspecting->holders[i];
        struct dlock_holder lease = {
            .struct_size = sizeof lease,
            .name = inspecting->names[holder->name].bytes,
            .name_len = inspecting->names[holder->name].len,
            .mode = holder->mode,
            .waiters = inspecting->waiters[holder->name],
            .held_ms = holder->held_ms,
            .owner = holder->owner,
            .label = holder->label,
        };

        if (holder->nodes + missing < need)
            continue;
        lease.remaining_ms = remaining(holder, need);
        lease.fence = (uint64_t)fence_of(holder, need);
        lease.fence_last = lease.fence + REDLOCK_FENCE_NUMBERS - 1;
        inspection->stopped = inspection->fn(inspection->arg, &lease) != 0;
    }
}

/* The first name from `from` on that has foreign keys on so many nodes that nobody can take it;
 * name_count: there is none. */
static size_t foreign_next(const struct inspecting *inspecting, const struct redlock_config *config,
                           size_t from)
{
    while (from < inspecting->name_count &&
           inspecting->foreign[from] <= config->count - config->need)
        from++;
    return from;
}

static void foreign_report(const struct inspecting *inspecting, struct inspection *inspection)
{
    const struct redlock_config *config = inspection->session->config;

    for (size_t i = foreign_next(inspecting, config, 0);
         i < inspecting->name_count && !inspection->stopped;
         i = foreign_next(inspecting, config, i + 1)) {
        const struct dlock_holder lease = {
            .struct_size = sizeof lease,
            .name = inspecting->names[i].bytes,
            .name_len = inspecting->names[i].len,
            .mode = DLOCK_EXCLUSIVE,
            .waiters = UINT32_MAX,
            .remaining_ms = -1,
            .held_ms = -1,
            .owner = "-",
            .label = RESP_FOREIGN_LABEL,
        };

        inspection->stopped = inspection->fn(inspection->arg, &lease) != 0;
    }
}

/* "held by <owner>, 29.9 s left" */
static void view_print(const struct node_view *view, char *out, size_t size)
{
    char left[32] = "no end";

    if (view->left_ms != NO_END)
        (void)snprintf(left, sizeof left, "%.1f s left", (double)view->left_ms / 1000);
    if (view->foreign)
        (void)snprintf(out, size, "a key of the name is something else (WRONGTYPE)");
    else if (view->holders == 0)
        (void)snprintf(out, size, "free");
    else if (view->mode == DLOCK_SHARED)
        (void)snprintf(out, size, "held shared, by %u, %s", view->holders, left);
    else
        (void)snprintf(out, size, "held by %s, %s", view->owner, left);
}

static void nodes_report(const struct inspecting *inspecting, const struct redlock_round *round,
                         struct dlock_error *err)
{
    const struct redlock_session *session = round->session;
    int64_t now_ns = redlock_session_now(session);

    redlock_round_report(err, round);
    for (unsigned i = 0; i < err->node_count; i++) {
        int64_t guard_ns = session->nodes[i].votes_ns - now_ns;
        struct dlock_node_error *line = &err->nodes[i];
        size_t used = 0;

        if (round->answers[i].state != ANSWER_GIVEN)
            continue;
        line->status = inspecting->views[i].holders > 0 ? DLOCK_BUSY : DLOCK_OK;
        if (inspecting->views[i].foreign)
            line->status = DLOCK_CONFIG;
        view_print(&inspecting->views[i], line->message, sizeof line->message);
        used = strlen(line->message);
        if (guard_ns > 0)
            (void)snprintf(line->message + used, sizeof line->message - used,
                           "; no vote for %lld s more", (long long)(guard_ns / DL_NS_PER_S) + 1);
    }
}

/* Reports what the nodes answered. */
static enum dlock_status result_report(struct inspecting *inspecting,
                                       const struct redlock_round *round,
                                       struct inspection *inspection)
{
    const struct redlock_config *config = inspection->session->config;
    enum dlock_status status = DLOCK_OK;

    if (inspection->listing)
        foreign_report(inspecting, inspection);
    else if (foreign_next(inspecting, config, 0) == 0)
        status =
            redlock_config_fail_key(inspection->err, config, DLOCK_CONFIG, &inspecting->keys[0]);
    if (status == DLOCK_OK)
        holders_report(inspecting, round->tally.need, round->tally.nodes - round->tally.yes,
                       inspection);
    if (inspection->node_lines)
        nodes_report(inspecting, round, inspection->err);
    return status;
}

static void request_make(struct inspecting *inspecting, const struct redlock_config *config)
{
    redlock_node_request_begin(&inspecting->request, REDLOCK_SCRIPT_INSPECT,
                               (unsigned)inspecting->name_count);
    for (size_t i = 0; i < inspecting->name_count; i++) {
        resp_keys_make(&inspecting->keys[i], &config->nodes[0], inspecting->names[i].bytes,
                       inspecting->names[i].len);
        redlock_node_request_name(&inspecting->request, &inspecting->keys[i]);
    }
    resp_command_text(&inspecting->request.command, HOLDERS_TEXT);
    resp_command_text(&inspecting->request.command, config->fences ? "1" : "0");
}

/* Calls fn for each holder of these names. OK, NO_QUORUM or NOMEM. CONFIG, unless listing: the
 * first name has a foreign key on so many nodes that nobody can take it. */
static enum dlock_status names_inspect(struct inspection *inspection)
{
    struct redlock_session *session = inspection->session;
    struct inspecting *inspecting = calloc(1, sizeof *inspecting);
    struct redlock_round round = {
        .session = session,
        .node_timeout_ns = redlock_config_timeout_ns(session->config, 0),
        .deadline_ns = inspection->deadline_ns,
        .all = true,
        .judge = redlock_round_judge_heard,
        .read = inspect_read,
        .data = inspecting,
    };
    enum redlock_quorum_verdict verdict = QUORUM_SHORT;
    enum dlock_status status = DLOCK_OK;

    if (inspecting == NULL)
        return redlock_config_fail(inspection->err, session->config, DLOCK_NOMEM,
                                   "no memory to inspect names");
    inspecting->names = inspection->names;
    inspecting->name_count = inspection->count;
    request_make(inspecting, session->config);
    round.request = &inspecting->request;
    verdict = redlock_round_run(&round);
    if (inspecting->no_memory || round.no_memory) {
        status = redlock_config_fail(inspection->err, session->config, DLOCK_NOMEM,
                                     "no memory to inspect names");
    } else if (verdict == QUORUM_WON) {
        status = result_report(inspecting, &round, inspection);
    } else {
        status = redlock_config_fail(inspection->err, session->config, DLOCK_NO_QUORUM,
                                     "%u of %u nodes answered, and %u are needed", round.tally.yes,
                                     round.tally.nodes, round.tally.need);
        redlock_round_report(inspection->err, &round);
    }
    free(inspecting->holders);
    free(inspecting);
    return status;
}

enum dlock_status redlock_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err)
{
    const struct name one = {.bytes = name, .len = name_len};
    struct inspection inspection = {
        .session = self,
        .names = &one,
        .count = 1,
        .deadline_ns = deadline_ns,
        .fn = fn,
        .arg = arg,
        .err = err,
        .node_lines = true,
    };

    return names_inspect(&inspection);
}

static bool lease_ignore(void *arg, const struct dlock_holder *lease)
{
    (void)arg;
    (void)lease;
    return 1;
}

bool redlock_inspect_foreign(struct redlock_session *session, const unsigned char *name,
                             uint32_t name_len, int64_t deadline_ns, struct dlock_error *err)
{
    const struct name one = {.bytes = name, .len = name_len};
    struct dlock_error why = DLOCK_ERROR_INIT;
    struct inspection inspection = {
        .session = session,
        .names = &one,
        .count = 1,
        .deadline_ns = deadline_ns,
        .fn = lease_ignore,
        .err = &why,
    };

    if (names_inspect(&inspection) != DLOCK_CONFIG)
        return false;
    *err = why;
    return true;
}

/* ---- the live holders of many names ----
 *
 * First the names are collected with SCAN, node by node: a name that a majority holds is on one of
 * any N - majority + 1 nodes. Then all names are inspected.
 */

#define SCAN_COUNT      "100"
#define SCAN_TIMEOUT_NS (DL_NS_PER_S / 4)
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
    struct name batch[INSPECT_MAX]; /* borrowed from names */
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
        .node_timeout_ns = SCAN_TIMEOUT_NS,
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
    resp_command_text(&request.command, SCAN_COUNT);
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
    struct inspection inspection = {
        .session = listing->session,
        .names = listing->batch,
        .count = count,
        .deadline_ns = listing->deadline_ns,
        .fn = listing->fn,
        .arg = listing->arg,
        .err = listing->err,
        .listing = true,
    };

    listing->status = names_inspect(&inspection);
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
        (struct name){.bytes = listed->name, .len = listed->len};
    if (listing->batch_count == INSPECT_MAX)
        batch_report(listing);
}

enum dlock_status redlock_inspect_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
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
