/* SPDX-License-Identifier: MIT */
/* Who holds a name: the owners that a majority of the nodes shows, or may show. */
#include "redlock.h"

#include <stdlib.h>
#include <string.h>

#define HOLDERS_MAX     200 /* that one answer may tell of */
#define HOLDERS_TEXT    "200"
#define HOLDER_ELEMENTS 5
#define OWNER_SIZE      256
#define LABEL_SIZE      320
#define NO_END          INT64_MAX

struct holder {
    char owner[OWNER_SIZE], label[LABEL_SIZE];
    uint32_t mode;
    unsigned nodes;
    int64_t left[REDLOCK_NODES_MAX]; /* NO_END: it does not end by itself */
    int64_t held_ms;
};

struct looking {
    struct holder holders[HOLDERS_MAX];
    size_t count;
    uint32_t waiters;
};

static struct holder *holder_of(struct looking *looking, const char *owner, uint32_t mode)
{
    struct holder *holder = looking->holders;

    for (; holder < looking->holders + looking->count; holder++)
        if (holder->mode == mode && strcmp(holder->owner, owner) == 0)
            return holder;
    if (looking->count == HOLDERS_MAX)
        return NULL;
    looking->count++;
    holder->mode = mode;
    holder->held_ms = -1;
    (void)snprintf(holder->owner, sizeof holder->owner, "%s", owner);
    return holder;
}

/* mode, token, left, held for, label. False: it makes no sense. */
static bool holder_read(struct looking *looking, const redisReply *reply, size_t at)
{
    const redisReply *mode = redis_reply_text(reply, at);
    const redisReply *owner = redis_reply_text(reply, at + 1);
    const redisReply *label = redis_reply_text(reply, at + 4);
    int64_t left = 0, held = 0;
    struct holder *holder = NULL;

    if (mode == NULL || owner == NULL || label == NULL ||
        !redis_reply_int(reply, at + 2, -2, INT64_MAX, &left) ||
        !redis_reply_int(reply, at + 3, -1, INT64_MAX, &held))
        return false;
    holder = holder_of(looking, owner->str, mode->str[0] == 's' ? DLOCK_SHARED : DLOCK_EXCLUSIVE);
    if (holder == NULL || holder->nodes == REDLOCK_NODES_MAX)
        return true;
    holder->left[holder->nodes++] = left < 0 ? NO_END : left;
    if (held > holder->held_ms)
        holder->held_ms = held;
    if (label->str[0] != '\0')
        (void)snprintf(holder->label, sizeof holder->label, "%s", label->str);
    return true;
}

static enum quorum_vote inspect_read(struct redlock_round *round, unsigned node,
                                     const redisReply *reply)
{
    struct looking *looking = round->data;
    int64_t waiters = 0;

    (void)node;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        (reply->elements - 1) % HOLDER_ELEMENTS != 0 ||
        !redis_reply_int(reply, 0, 0, UINT32_MAX - 1, &waiters))
        return QUORUM_REFUSED;
    if ((uint32_t)waiters > looking->waiters)
        looking->waiters = (uint32_t)waiters;
    for (size_t at = 1; at < reply->elements; at += HOLDER_ELEMENTS)
        if (!holder_read(looking, reply, at))
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
                         const unsigned char *name, uint32_t name_len, dlock_lease_fn *fn,
                         void *arg, bool *stopped)
{
    for (size_t i = 0; i < looking->count && !*stopped; i++) {
        struct holder *holder = &looking->holders[i];
        struct dlock_lease_info lease = {
            .name = name,
            .name_len = name_len,
            .mode = holder->mode,
            .waiters = looking->waiters,
            .held_ms = holder->held_ms,
            .owner = holder->owner,
            .label = holder->label,
        };

        if (holder->nodes + missing < need)
            continue;
        lease.remaining_ms = remaining(holder, need);
        *stopped = fn(arg, &lease) != 0;
    }
}

enum dlock_status redlock_look(struct redlock_session *session, const unsigned char *name,
                               uint32_t name_len, int64_t deadline_ns, dlock_lease_fn *fn,
                               void *arg, bool *stopped, struct dlock_error *err)
{
    struct looking *looking = calloc(1, sizeof *looking);
    struct redlock_request request;
    struct redis_keys keys;
    struct redlock_round round = {
        .session = session,
        .request = &request,
        .node_timeout_ns = redlock_place_timeout_ns(session->place, 0),
        .deadline_ns = deadline_ns,
        .all = true,
        .judge = redlock_judge_heard,
        .read = inspect_read,
        .data = looking,
    };
    enum dlock_status status = DLOCK_OK;

    if (looking == NULL)
        return redlock_fail(err, session->place, DLOCK_NOMEM, "no memory to look");
    redis_keys_make(&keys, &session->place->nodes[0], name, name_len);
    redlock_request_begin(&request, REDLOCK_SCRIPT_INSPECT, 1);
    redlock_request_keys(&request, &keys);
    resp_command_text(&request.command, HOLDERS_TEXT);
    if (redlock_round_run(&round) == QUORUM_WON) {
        holders_tell(looking, round.tally.need, round.tally.nodes - round.tally.yes, name, name_len,
                     fn, arg, stopped);
    } else {
        status = redlock_fail(err, session->place, DLOCK_NO_QUORUM,
                              "%u of %u nodes answered, and %u are needed", round.tally.yes,
                              round.tally.nodes, round.tally.need);
        redlock_report(err, session, &round);
    }
    redlock_round_end(&round);
    free(looking);
    return status;
}

enum dlock_status redlock_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                  int64_t deadline_ns, dlock_lease_fn *fn, void *arg,
                                  struct dlock_error *err)
{
    bool stopped = false;

    return redlock_look(self, name, name_len, deadline_ns, fn, arg, &stopped, err);
}
