/* SPDX-License-Identifier: MIT */
/* The server: it executes one question at a time, on its own clock. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLAIMS_MOST 256
#define FENCE_ROOM  31u
#define TETHERED_NS (SIM_NEVER - 1) /* no time ends it */

/* What one token has of a name. */
struct claim {
    struct sim_ask ask; /* the last one */
    uint64_t fence;
    uint32_t permit; /* of a semaphore */
    int64_t expires_ns;
    int64_t unused_ns; /* for sim_store_each */
    bool waits;        /* in SIM_LOCK */
    bool kept;         /* by nobody */
};

struct list {
    struct claim *claims;
    size_t count;
};

struct name {
    struct list holders, queue;
    uint64_t fence;
    int64_t look_ns; /* when the server looks by itself; 0: not */
};

static struct name servers[SIM_SERVERS][SIM_NAMES];
static struct claim room[SIM_SERVERS][SIM_NAMES][2][CLAIMS_MOST];
static struct name *names = servers[0]; /* of the server that executes */

void sim_store_forget(unsigned server)
{
    for (size_t i = 0; i < SIM_NAMES; i++)
        servers[server][i] =
            (struct name){.holders = {room[server][i][0], 0}, .queue = {room[server][i][1], 0}};
}

void sim_store_begin(void)
{
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        sim_store_forget(i);
    sim_store_use(0);
}

void sim_store_use(unsigned server)
{
    names = servers[server];
}

static void list_copy(struct list *to, const struct list *from)
{
    memcpy(to->claims, from->claims, from->count * sizeof from->claims[0]);
    to->count = from->count;
}

void sim_store_copy(unsigned to, unsigned from)
{
    for (size_t i = 0; i < SIM_NAMES; i++) {
        list_copy(&servers[to][i].holders, &servers[from][i].holders);
        list_copy(&servers[to][i].queue, &servers[from][i].queue);
        servers[to][i].fence = servers[from][i].fence;
    }
}

int64_t sim_store_now(void)
{
    int64_t passed_ns = sim_now() - SIM_START_NS;

    return passed_ns + passed_ns * sim_world.server_ppm / 1000000 + sim_failover_ahead_ns();
}

static struct claim *list_find(const struct list *list, const unsigned char *token)
{
    for (size_t i = 0; i < list->count; i++)
        if (memcmp(list->claims[i].ask.token, token, DLOCK_TOKEN_SIZE) == 0)
            return &list->claims[i];
    return NULL;
}

static struct claim *list_add(struct list *list, const struct sim_ask *ask)
{
    if (list->count == CLAIMS_MOST) {
        (void)fputs("store.c: too many claims\n", stderr);
        abort();
    }
    list->claims[list->count] = (struct claim){.ask = *ask};
    return &list->claims[list->count++];
}

static void list_remove(struct list *list, size_t at)
{
    list->count--;
    memmove(&list->claims[at], &list->claims[at + 1], (list->count - at) * sizeof list->claims[0]);
}

static bool list_drop(struct list *list, const unsigned char *token)
{
    const struct claim *claim = list_find(list, token);

    if (claim != NULL)
        list_remove(list, (size_t)(claim - list->claims));
    return claim != NULL;
}

static void list_reap(struct list *list, int64_t now_ns)
{
    for (size_t i = list->count; i-- > 0;)
        if (list->claims[i].expires_ns <= now_ns)
            list_remove(list, i);
}

static void extend(struct claim *claim, int64_t lease_ms, int64_t now_ns)
{
    int64_t expires_ns = sim_is_tethered() ? TETHERED_NS : now_ns + lease_ms * SIM_MS;

    if (expires_ns > claim->expires_ns)
        claim->expires_ns = expires_ns;
}

/* The first `count` claims keep this one out. */
static bool excluded(const struct list *list, size_t count, const struct sim_ask *ask)
{
    const uint32_t mode = ask->mode;

    if (ask->limit > 1)
        return count >= ask->limit;
    for (size_t i = 0; i < count; i++)
        if (mode != DLOCK_SHARED || list->claims[i].ask.mode != DLOCK_SHARED)
            return true;
    return false;
}

static bool is_taken(const struct list *holders, uint32_t permit)
{
    for (size_t i = 0; i < holders->count; i++)
        if (holders->claims[i].permit == permit)
            return true;
    return false;
}

/* The lowest one that is free. */
static uint32_t permit_choose(const struct list *holders)
{
    uint32_t permit = 0;

    while (is_taken(holders, permit))
        permit++;
    return permit;
}

static uint64_t fence_next(struct name *name)
{
    return name->fence = sim_failover_fence(name->fence + 1 + FENCE_ROOM);
}

/* A session that was heard of now lasts longer than any ttl. */
static int64_t left_ms(const struct claim *claim, int64_t now_ns)
{
    return sim_is_tethered() ? claim->ask.ttl_ms : (claim->expires_ns - now_ns) / SIM_MS;
}

static bool has_fences(void)
{
    return sim_world.choice.fences || sim_world.choice.kind == SIM_QUEUE;
}

static void held_fill(struct sim_answer *answer, const struct name *name, const struct claim *claim,
                      int64_t now_ns)
{
    answer->status = DLOCK_OK;
    answer->grant.lease_ms = left_ms(claim, now_ns);
    answer->grant.waiters = (uint32_t)name->queue.count;
    answer->grant.permit = claim->permit;
    if (has_fences()) {
        answer->grant.fence = claim->fence;
        answer->grant.fence_room = FENCE_ROOM;
    }
}

static void busy_fill(struct sim_answer *answer, const struct name *name, int64_t now_ns)
{
    answer->status = DLOCK_BUSY;
    answer->grant.waiters = (uint32_t)name->queue.count;
    for (size_t i = 0; i < name->holders.count && !sim_is_tethered(); i++) {
        int64_t holder_ms = (name->holders.claims[i].expires_ns - now_ns + SIM_MS - 1) / SIM_MS;

        if (holder_ms > answer->grant.holder_ms)
            answer->grant.holder_ms = holder_ms;
    }
}

/* The lease of one who waited: who waits in the server has a session that proves its life. */
static int64_t granted_lease_ms(const struct claim *claim)
{
    int64_t place_ms = sim_world.choice.waiter_lease_ms;

    return claim->waits || place_ms > claim->ask.ttl_ms ? claim->ask.ttl_ms : place_ms;
}

static void look(void *arg);

/* A server that makes clients wait notices by itself that a holder's time is up. */
static void look_later(struct name *name, int64_t now_ns)
{
    int64_t first_ns = SIM_NEVER;

    if (sim_world.choice.kind != SIM_SESSION || name->queue.count == 0 || name->look_ns != 0)
        return;
    for (size_t i = 0; i < name->holders.count; i++)
        if (name->holders.claims[i].expires_ns < first_ns)
            first_ns = name->holders.claims[i].expires_ns;
    name->look_ns = sim_now() + (first_ns - now_ns) + (first_ns - now_ns) / 100 + SIM_MS;
    sim_at(name->look_ns, look, name);
}

/* The first of the queue become holders, as long as they can hold together. */
static void pass_on(struct name *name, int64_t now_ns)
{
    while (name->queue.count > 0 && sim_failover_passes() &&
           !excluded(&name->holders, name->holders.count, &name->queue.claims[0].ask)) {
        const uint32_t permit =
            name->queue.claims[0].ask.limit > 1 ? permit_choose(&name->holders) : 0;
        struct claim *claim = list_add(&name->holders, &name->queue.claims[0].ask);
        struct sim_answer answer = {.grant = {.holder_ms = -1}};
        bool tell;

        claim->waits = name->queue.claims[0].waits;
        tell = claim->waits || name->queue.claims[0].expires_ns != SIM_NEVER;
        list_remove(&name->queue, 0);
        claim->permit = permit;
        claim->fence = fence_next(name);
        extend(claim, granted_lease_ms(claim), now_ns);
        held_fill(&answer, name, claim, now_ns);
        answer.grant.lease_ms = granted_lease_ms(claim);
        if (tell)
            sim_net_granted(&claim->ask, &answer);
        claim->waits = false;
    }
    look_later(name, now_ns);
}

static void look(void *arg)
{
    struct name *name = arg; /* of the only server: none that fails over has SIM_LOCK */
    int64_t now_ns = sim_store_now();

    name->look_ns = 0;
    list_reap(&name->holders, now_ns);
    pass_on(name, now_ns);
}

static void released(struct name *name, int64_t now_ns)
{
    pass_on(name, now_ns);
    if (name->queue.count == 0)
        sim_net_released((uint32_t)(name - names));
}

static void place_keep(struct name *name, struct claim *place, int64_t now_ns,
                       struct sim_answer *answer)
{
    struct dlock_grant *grant = &answer->grant;

    extend(place, sim_world.choice.waiter_lease_ms, now_ns);
    busy_fill(answer, name, now_ns);
    grant->flags = DLOCK_GRANT_QUEUED;
    grant->waiters--;
    grant->queue_position = (uint32_t)(place - name->queue.claims);
    grant->fence = name->fence;
    grant->lease_ms = left_ms(place, now_ns);
}

/* Everybody arrives at the end of the queue; who is not to stay there leaves again. */
static bool try_or_wait(struct name *name, const struct sim_ask *ask, int64_t now_ns,
                        struct sim_answer *answer)
{
    bool refresh = (ask->flags & DLOCK_REQ_REFRESH) != 0;
    bool stays = refresh || (ask->flags & DLOCK_REQ_ENQUEUE) != 0;
    struct claim *claim = list_find(&name->holders, ask->token);
    bool known;

    if (claim == NULL)
        claim = list_find(&name->queue, ask->token);
    known = claim != NULL;
    if (!known && !refresh) {
        claim = list_add(&name->queue, ask);
        claim->expires_ns = SIM_NEVER; /* until it is said how long it may stay */
        claim->fence = 0;
    }
    pass_on(name, now_ns);
    claim = list_find(&name->holders, ask->token);
    if (claim != NULL) {
        if (!known)
            claim->expires_ns = 0;
        extend(claim, ask->ttl_ms, now_ns);
        held_fill(answer, name, claim, now_ns);
        return true;
    }
    claim = list_find(&name->queue, ask->token);
    if (claim != NULL && ask->verb == SIM_LOCK) {
        claim->waits = true;
        return false;
    }
    if (claim != NULL && !known)
        claim->expires_ns = 0;
    if (claim != NULL && stays) {
        place_keep(name, claim, now_ns, answer);
        return true;
    }
    if (!known)
        (void)list_drop(&name->queue, ask->token);
    busy_fill(answer, name, now_ns);
    return true;
}

static void renew(struct name *name, const struct sim_ask *ask, int64_t now_ns,
                  struct sim_answer *answer)
{
    struct claim *claim = list_find(&name->holders, ask->token);

    if (claim == NULL) {
        answer->status = DLOCK_LOST;
        return;
    }
    claim->ask.ttl_ms = ask->ttl_ms;
    extend(claim, ask->ttl_ms, now_ns);
    if ((ask->flags & DLOCK_REQ_DOWNGRADE) != 0)
        claim->ask.mode = DLOCK_SHARED;
    held_fill(answer, name, claim, now_ns);
    if (answer->grant.lease_ms > ask->ttl_ms)
        answer->grant.lease_ms = ask->ttl_ms;
    pass_on(name, now_ns);
}

static bool is_in_session(const struct claim *claim, const struct sim_ask *ask)
{
    return sim_is_tethered() ? claim->ask.pid == ask->pid : claim->ask.session == ask->session;
}

static void session_close(const struct sim_ask *ask, int64_t now_ns)
{
    for (size_t i = 0; i < SIM_NAMES; i++) {
        struct list *lists[] = {&names[i].holders, &names[i].queue};

        for (size_t l = 0; l < 2; l++)
            for (size_t c = lists[l]->count; c-- > 0;)
                if (is_in_session(&lists[l]->claims[c], ask))
                    list_remove(lists[l], c);
        list_reap(&names[i].holders, now_ns);
        released(&names[i], now_ns);
    }
}

static void cancel(struct name *name, const struct sim_ask *ask, int64_t now_ns,
                   struct sim_answer *answer)
{
    struct claim *claim = list_find(&name->holders, ask->token);

    answer->status = DLOCK_TIMEOUT;
    if (claim == NULL) {
        (void)list_drop(&name->queue, ask->token);
        pass_on(name, now_ns);
        return;
    }
    extend(claim, ask->ttl_ms, now_ns);
    held_fill(answer, name, claim, now_ns);
}

/* The lease ends, and the name or the permit stays taken. */
static bool let_go(struct name *name, const struct sim_ask *ask, int64_t now_ns)
{
    struct claim *claim = list_find(&name->holders, ask->token);

    if (claim == NULL || ask->keep_ms == 0)
        return list_drop(&name->holders, ask->token);
    memset(claim->ask.token, 0, sizeof claim->ask.token);
    claim->kept = true;
    claim->expires_ns = now_ns + ask->keep_ms * SIM_MS;
    return true;
}

/* Before anything is passed on: a lease that has run out is no holder's. */
static void show(const struct name *name, struct sim_answer *answer)
{
    for (size_t i = 0; i < name->holders.count && answer->shown_count < SIM_SHOWN_MOST; i++) {
        const struct claim *claim = &name->holders.claims[i];
        struct sim_shown *shown = &answer->shown[answer->shown_count];

        if (claim->kept)
            continue;
        answer->shown_count++;
        *shown = (struct sim_shown){.mode = claim->ask.mode, .data = claim->ask.data};
        if (has_fences())
            shown->fence = claim->fence;
    }
}

bool sim_store_execute(const struct sim_ask *ask, struct sim_answer *answer)
{
    struct name *name = &names[ask->name];
    int64_t now_ns = sim_store_now();
    bool mine;

    *answer =
        (struct sim_answer){.status = DLOCK_OK, .grant = {.holder_ms = -1, .waiters = UINT32_MAX}};
    if (!sim_failover_admit(ask, answer))
        return true;
    list_reap(&name->holders, now_ns);
    list_reap(&name->queue, now_ns);
    if (sim_is_tethered())
        sim_tether_heard(ask->pid);
    switch (ask->verb) {
    case SIM_TRY:
    case SIM_LOCK:
        return try_or_wait(name, ask, now_ns, answer);
    case SIM_RENEW:
        renew(name, ask, now_ns, answer);
        break;
    case SIM_UNLOCK:
        mine = let_go(name, ask, now_ns);
        answer->status = mine ? DLOCK_OK : DLOCK_LOST;
        if (mine)
            released(name, now_ns);
        break;
    case SIM_LEAVE:
        mine = list_drop(&name->holders, ask->token);
        (void)list_drop(&name->queue, ask->token);
        released(name, now_ns);
        break;
    case SIM_CANCEL:
        cancel(name, ask, now_ns, answer);
        break;
    case SIM_CLOSE:
        session_close(ask, now_ns);
        sim_tether_closed(ask->pid);
        break;
    case SIM_INSPECT:
        show(name, answer);
        break;
    case SIM_VIEW:
        break;
    }
    return true;
}

void sim_store_end_session(int32_t pid)
{
    session_close(&(struct sim_ask){.pid = pid}, sim_store_now());
}

void sim_store_each(void (*fn)(const struct sim_ask *ask, int64_t *unused_ns))
{
    for (size_t i = 0; i < SIM_NAMES; i++) {
        struct list *lists[] = {&names[i].holders, &names[i].queue};

        for (size_t l = 0; l < 2; l++)
            for (size_t c = 0; c < lists[l]->count; c++)
                fn(&lists[l]->claims[c].ask, &lists[l]->claims[c].unused_ns);
    }
}
