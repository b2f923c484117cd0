/* SPDX-License-Identifier: MIT */
/* Who holds names: the owners that a majority of the nodes shows, or may show. */
#include "look.h"

#include <stdlib.h>
#include <string.h>

#define HOLDERS_TEXT    "200" /* of one name, that one answer may tell of */
#define HOLDER_ELEMENTS 5
#define LABEL_SIZE      320
#define NO_END          INT64_MAX

struct holder {
    size_t name; /* which of those looked at */
    char owner[REDLOCK_OWNER_SIZE], label[LABEL_SIZE];
    uint32_t mode;
    unsigned nodes;
    int64_t left[REDLOCK_NODES_MAX]; /* NO_END: it does not end by itself */
    int64_t held_ms;
};

/* What one node says of one name. */
struct sight {
    unsigned holders;
    uint32_t mode;
    char owner[RESP_HEX_SIZE]; /* of the first; another program's is cut */
    int64_t left_ms;           /* of the last; NO_END */
    bool foreign;              /* a key of it is something else */
};

struct looking {
    const struct redlock_name *names;
    size_t name_count;
    unsigned node;                          /* whose answer is being read */
    struct sight sights[REDLOCK_NODES_MAX]; /* of the first name */
    uint32_t waiters[REDLOCK_LOOK_MAX];
    unsigned foreign[REDLOCK_LOOK_MAX]; /* on how many nodes a key of it is something else */
    struct holder *holders;
    size_t count, room;
    bool no_memory;
    struct redlock_request request;
    struct resp_keys keys[REDLOCK_LOOK_MAX];
};

static struct holder *holder_add(struct looking *looking)
{
    if (looking->count == looking->room) {
        size_t room = looking->room == 0 ? 8 : 2 * looking->room;
        struct holder *holders = realloc(looking->holders, room * sizeof *holders);

        looking->no_memory |= holders == NULL;
        if (holders == NULL)
            return NULL;
        looking->holders = holders;
        looking->room = room;
    }
    looking->holders[looking->count] = (struct holder){.held_ms = -1};
    return &looking->holders[looking->count++];
}

static struct holder *holder_of(struct looking *looking, size_t name, const char *owner,
                                uint32_t mode)
{
    struct holder *holder = NULL;

    for (size_t i = 0; i < looking->count; i++) {
        holder = &looking->holders[i];
        if (holder->name == name && holder->mode == mode && strcmp(holder->owner, owner) == 0)
            return holder;
    }
    holder = holder_add(looking);
    if (holder != NULL) {
        holder->name = name;
        holder->mode = mode;
        (void)snprintf(holder->owner, sizeof holder->owner, "%s", owner);
    }
    return holder;
}

static void sight_note(struct sight *sight, uint32_t mode, const char *owner, int64_t left_ms)
{
    if (sight->holders++ == 0)
        (void)snprintf(sight->owner, sizeof sight->owner, "%.32s", owner);
    sight->mode = mode;
    if (left_ms > sight->left_ms)
        sight->left_ms = left_ms;
}

/* mode, token, left, held for, label. False: it makes no sense. */
static bool holder_read(struct looking *looking, size_t name, const redisReply *reply, size_t at)
{
    const redisReply *mode = resp_reply_text(reply, at);
    const redisReply *owner = resp_reply_text(reply, at + 1);
    const redisReply *label = resp_reply_text(reply, at + 4);
    int64_t left = 0, held = 0;
    struct holder *holder = NULL;
    uint32_t how = DLOCK_EXCLUSIVE;

    if (mode == NULL || owner == NULL || label == NULL ||
        !resp_reply_int(reply, at + 2, -2, INT64_MAX, &left) ||
        !resp_reply_int(reply, at + 3, -1, INT64_MAX, &held))
        return false;
    if (mode->str[0] == 's')
        how = DLOCK_SHARED;
    if (left < 0)
        left = NO_END;
    if (name == 0)
        sight_note(&looking->sights[looking->node], how, owner->str, left);
    holder = holder_of(looking, name, owner->str, how);
    if (holder == NULL || holder->nodes == REDLOCK_NODES_MAX)
        return true;
    holder->left[holder->nodes++] = left;
    if (held > holder->held_ms)
        holder->held_ms = held;
    if (label->str[0] != '\0')
        (void)snprintf(holder->label, sizeof holder->label, "%s", label->str);
    return true;
}

static bool name_read(struct looking *looking, size_t name, const redisReply *reply)
{
    int64_t waiters = 0;

    if (resp_error_is(reply, "WRONGTYPE")) {
        looking->foreign[name]++;
        if (name == 0)
            looking->sights[looking->node].foreign = true;
        return true;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        (reply->elements - 1) % HOLDER_ELEMENTS != 0 ||
        !resp_reply_int(reply, 0, 0, UINT32_MAX - 1, &waiters))
        return false;
    if ((uint32_t)waiters > looking->waiters[name])
        looking->waiters[name] = (uint32_t)waiters;
    for (size_t at = 1; at < reply->elements; at += HOLDER_ELEMENTS)
        if (!holder_read(looking, name, reply, at))
            return false;
    return true;
}

static enum quorum_vote inspect_read(struct redlock_round *round, unsigned node,
                                     const redisReply *reply)
{
    struct looking *looking = round->data;

    looking->node = node;
    if (!resp_reply_array(reply, looking->name_count))
        return QUORUM_REFUSED;
    for (size_t i = 0; i < looking->name_count; i++)
        if (!name_read(looking, i, reply->element[i]))
            return QUORUM_REFUSED;
    return QUORUM_YES;
}

static int64_t remaining(struct holder *holder, unsigned need)
{
    int64_t left = 0;

    if (holder->nodes < need)
        need = holder->nodes;
    left = quorum_least(holder->left, holder->nodes, need);
    return left == NO_END ? -1 : left;
}

/* missing: nodes that did not answer, and may be his. */
static void holders_tell(struct looking *looking, unsigned need, unsigned missing,
                         struct redlock_look *look)
{
    for (size_t i = 0; i < looking->count && !look->stopped; i++) {
        struct holder *holder = &looking->holders[i];
        struct dlock_holder lease = {
            .struct_size = sizeof lease,
            .name = looking->names[holder->name].bytes,
            .name_len = looking->names[holder->name].len,
            .mode = holder->mode,
            .waiters = looking->waiters[holder->name],
            .held_ms = holder->held_ms,
            .owner = holder->owner,
            .label = holder->label,
        };

        if (holder->nodes + missing < need)
            continue;
        lease.remaining_ms = remaining(holder, need);
        look->stopped = look->fn(look->arg, &lease) != 0;
    }
}

/* The first name from `from` on that nobody can take, since its keys are something else on too many
 * nodes; name_count: there is none. */
static size_t foreign_next(const struct looking *looking, const struct redlock_place *place,
                           size_t from)
{
    while (from < looking->name_count && looking->foreign[from] <= place->count - place->need)
        from++;
    return from;
}

static void foreign_tell(const struct looking *looking, struct redlock_look *look)
{
    const struct redlock_place *place = look->session->place;

    for (size_t i = foreign_next(looking, place, 0); i < looking->name_count && !look->stopped;
         i = foreign_next(looking, place, i + 1)) {
        const struct dlock_holder lease = {
            .struct_size = sizeof lease,
            .name = looking->names[i].bytes,
            .name_len = looking->names[i].len,
            .mode = DLOCK_EXCLUSIVE,
            .waiters = UINT32_MAX,
            .remaining_ms = -1,
            .held_ms = -1,
            .owner = "-",
            .label = RESP_FOREIGN_LABEL,
        };

        look->stopped = look->fn(look->arg, &lease) != 0;
    }
}

/* "held by <owner>, 29.9 s left" */
static void sight_print(const struct sight *sight, char *out, size_t size)
{
    char left[32] = "no end";

    if (sight->left_ms != NO_END)
        (void)snprintf(left, sizeof left, "%.1f s left", (double)sight->left_ms / 1000);
    if (sight->foreign)
        (void)snprintf(out, size, "a key of the name is something else (WRONGTYPE)");
    else if (sight->holders == 0)
        (void)snprintf(out, size, "free");
    else if (sight->mode == DLOCK_SHARED)
        (void)snprintf(out, size, "held shared, by %u, %s", sight->holders, left);
    else
        (void)snprintf(out, size, "held by %s, %s", sight->owner, left);
}

static void nodes_tell(const struct looking *looking, const struct redlock_round *round,
                       struct dlock_error *err)
{
    const struct redlock_session *session = round->session;
    int64_t now_ns = redlock_now(session);

    redlock_report(err, session, round);
    for (unsigned i = 0; err->nodes != NULL && i < session->place->count; i++) {
        int64_t guard_ns = session->nodes[i].votes_ns - now_ns;
        struct dlock_node_error *line = &err->nodes[i];
        size_t used = 0;

        if (round->answers[i].state != ANSWER_GIVEN)
            continue;
        line->status = looking->sights[i].holders > 0 ? DLOCK_BUSY : DLOCK_OK;
        if (looking->sights[i].foreign)
            line->status = DLOCK_CONFIG;
        sight_print(&looking->sights[i], line->message, sizeof line->message);
        used = strlen(line->message);
        if (guard_ns > 0)
            (void)snprintf(line->message + used, sizeof line->message - used,
                           "; no vote for %lld s more", (long long)(guard_ns / DL_NS_PER_S) + 1);
    }
}

/* What was seen is told. */
static enum dlock_status seen_tell(struct looking *looking, const struct redlock_round *round,
                                   struct redlock_look *look)
{
    const struct redlock_place *place = look->session->place;
    enum dlock_status status = DLOCK_OK;

    if (look->listing)
        foreign_tell(looking, look);
    else if (foreign_next(looking, place, 0) == 0)
        status = redlock_fail_key(look->err, place, DLOCK_CONFIG, &looking->keys[0]);
    if (status == DLOCK_OK)
        holders_tell(looking, round->tally.need, round->tally.nodes - round->tally.yes, look);
    if (look->node_lines)
        nodes_tell(looking, round, look->err);
    return status;
}

static void request_make(struct looking *looking, const struct redlock_place *place)
{
    redlock_request_begin(&looking->request, REDLOCK_SCRIPT_INSPECT, (unsigned)looking->name_count);
    for (size_t i = 0; i < looking->name_count; i++) {
        resp_keys_make(&looking->keys[i], &place->nodes[0], looking->names[i].bytes,
                       looking->names[i].len);
        redlock_request_name(&looking->request, &looking->keys[i]);
    }
    resp_command_text(&looking->request.command, HOLDERS_TEXT);
}

enum dlock_status redlock_look(struct redlock_look *look)
{
    struct redlock_session *session = look->session;
    struct looking *looking = calloc(1, sizeof *looking);
    struct redlock_round round = {
        .session = session,
        .node_timeout_ns = redlock_place_timeout_ns(session->place, 0),
        .deadline_ns = look->deadline_ns,
        .all = true,
        .judge = redlock_judge_heard,
        .read = inspect_read,
        .data = looking,
    };
    enum quorum_verdict verdict = QUORUM_SHORT;
    enum dlock_status status = DLOCK_OK;

    if (looking == NULL)
        return redlock_fail(look->err, session->place, DLOCK_NOMEM, "no memory to look");
    looking->names = look->names;
    looking->name_count = look->count;
    request_make(looking, session->place);
    round.request = &looking->request;
    verdict = redlock_round_run(&round);
    if (looking->no_memory || round.no_memory) {
        status = redlock_fail(look->err, session->place, DLOCK_NOMEM, "no memory to look");
    } else if (verdict == QUORUM_WON) {
        status = seen_tell(looking, &round, look);
    } else {
        status = redlock_fail(look->err, session->place, DLOCK_NO_QUORUM,
                              "%u of %u nodes answered, and %u are needed", round.tally.yes,
                              round.tally.nodes, round.tally.need);
        redlock_report(look->err, session, &round);
    }
    free(looking->holders);
    free(looking);
    return status;
}

enum dlock_status redlock_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err)
{
    const struct redlock_name one = {.bytes = name, .len = name_len};
    struct redlock_look look = {
        .session = self,
        .names = &one,
        .count = 1,
        .deadline_ns = deadline_ns,
        .fn = fn,
        .arg = arg,
        .err = err,
        .node_lines = true,
    };

    return redlock_look(&look);
}

static bool lease_ignore(void *arg, const struct dlock_holder *lease)
{
    (void)arg;
    (void)lease;
    return 1;
}

bool redlock_look_foreign(struct redlock_session *session, const unsigned char *name,
                          uint32_t name_len, int64_t deadline_ns, struct dlock_error *err)
{
    const struct redlock_name one = {.bytes = name, .len = name_len};
    struct dlock_error why = DLOCK_ERROR_INIT;
    struct redlock_look look = {
        .session = session,
        .names = &one,
        .count = 1,
        .deadline_ns = deadline_ns,
        .fn = lease_ignore,
        .err = &why,
    };

    if (redlock_look(&look) != DLOCK_CONFIG)
        return false;
    *err = why;
    return true;
}
