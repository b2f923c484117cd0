/* SPDX-License-Identifier: MIT */
#include "liveness.h"

void zk_liveness_init(struct zk_liveness *liveness, int64_t tick_ns)
{
    *liveness = (struct zk_liveness){.tick_ns = tick_ns};
}

static void prove(struct zk_liveness *liveness, int64_t moment_ns)
{
    if (moment_ns > liveness->proven_ns)
        liveness->proven_ns = moment_ns;
}

static void drop_first(struct zk_liveness *liveness)
{
    liveness->first = (liveness->first + 1) % ZK_LIVENESS_MOST;
    liveness->count--;
}

static void add(struct zk_liveness *liveness, int64_t sent_ns, int64_t answered_ns)
{
    const struct zk_liveness_request *last =
        &liveness->requests[(liveness->first + liveness->count - 1) % ZK_LIVENESS_MOST];

    if (liveness->count > 0 && sent_ns - last->sent_ns < liveness->tick_ns / 4)
        return;
    if (liveness->count == ZK_LIVENESS_MOST)
        drop_first(liveness);
    liveness->requests[(liveness->first + liveness->count) % ZK_LIVENESS_MOST] =
        (struct zk_liveness_request){sent_ns, answered_ns};
    liveness->count++;
}

/* Another follower has not told the leader of requests that the one before answered. */
void zk_liveness_session(struct zk_liveness *liveness, int64_t begun_ns, int64_t answered_ns)
{
    liveness->first = 0;
    liveness->count = 0;
    liveness->moved_ns = 0;
    if (liveness->proven_ns == 0) { /* a new session */
        prove(liveness, begun_ns);
        return;
    }
    liveness->moved_ns = begun_ns;
    add(liveness, begun_ns, answered_ns);
}

void zk_liveness_answer(struct zk_liveness *liveness, int64_t sent_ns, int64_t answered_ns,
                        enum zk_liveness_of of)
{
    if (of == ZK_LIVENESS_MAJORITY) {
        prove(liveness, liveness->moved_ns);
        liveness->moved_ns = 0;
    }
    while (of != ZK_LIVENESS_SERVER && liveness->count > 0 &&
           sent_ns - liveness->requests[liveness->first].answered_ns >= liveness->tick_ns) {
        prove(liveness, liveness->requests[liveness->first].sent_ns);
        drop_first(liveness);
    }
    add(liveness, sent_ns, answered_ns);
}
