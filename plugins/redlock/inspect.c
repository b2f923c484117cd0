/* SPDX-License-Identifier: MIT */
/* The owners that a majority of the nodes reports, or may report. */
#include "inspect.h"
#include "resp/error.h"
#include "resp/reply.h"
#include "round.h"
#include "slots.h"

#include <stdlib.h>
#include <string.h>

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
    const struct redlock_name *names;
    size_t name_count;
    unsigned node;                             /* its answer is being read */
    struct node_view views[REDLOCK_NODES_MAX]; /* of the first name */
    uint32_t waiters[REDLOCK_INSPECT_MAX];
    unsigned foreign[REDLOCK_INSPECT_MAX]; /* number of nodes where a key is foreign */
    struct holder *holders;
    size_t count, room;
    bool no_memory;
    struct redlock_request request;
    struct resp_keys keys[REDLOCK_INSPECT_MAX];
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
                           struct redlock_inspection *inspection)
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
        lease.fence_room = lease.fence != 0 ? REDLOCK_FENCE_NUMBERS - 1 : 0;
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

static void foreign_report(const struct inspecting *inspecting,
                           struct redlock_inspection *inspection)
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
                                       struct redlock_inspection *inspection)
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
    redlock_request_begin(&inspecting->request, REDLOCK_SCRIPT_INSPECT,
                          (unsigned)inspecting->name_count);
    for (size_t i = 0; i < inspecting->name_count; i++) {
        resp_keys_make(&inspecting->keys[i], &config->nodes[0], inspecting->names[i].bytes,
                       inspecting->names[i].len);
        redlock_request_name(&inspecting->request, &inspecting->keys[i]);
    }
    resp_command_text(&inspecting->request.command, HOLDERS_TEXT);
    resp_command_text(&inspecting->request.command, config->fences ? "1" : "0");
}

enum dlock_status redlock_inspect_names(struct redlock_inspection *inspection)
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
    const struct redlock_name one = {.bytes = name, .len = name_len};
    struct redlock_inspection inspection = {
        .session = self,
        .names = &one,
        .count = 1,
        .deadline_ns = deadline_ns,
        .fn = fn,
        .arg = arg,
        .err = err,
        .node_lines = true,
    };

    return redlock_inspect_names(&inspection);
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
    const struct redlock_name one = {.bytes = name, .len = name_len};
    struct dlock_error why = DLOCK_ERROR_INIT;
    struct redlock_inspection inspection = {
        .session = session,
        .names = &one,
        .count = 1,
        .deadline_ns = deadline_ns,
        .fn = lease_ignore,
        .err = &why,
    };

    if (redlock_inspect_names(&inspection) != DLOCK_CONFIG)
        return false;
    *err = why;
    return true;
}
