/* SPDX-License-Identifier: MIT */
#include "heard.h"

void zk_heard_init(struct zk_heard *heard, int64_t tick_ns)
{
    *heard = (struct zk_heard){.tick_ns = tick_ns};
}

static void prove(struct zk_heard *heard, int64_t moment_ns)
{
    if (moment_ns > heard->proven_ns)
        heard->proven_ns = moment_ns;
}

static void drop_first(struct zk_heard *heard)
{
    heard->first = (heard->first + 1) % ZK_HEARD_MOST;
    heard->count--;
}

static void add(struct zk_heard *heard, int64_t sent_ns, int64_t answered_ns)
{
    const struct zk_heard_request *last =
        &heard->requests[(heard->first + heard->count - 1) % ZK_HEARD_MOST];

    if (heard->count > 0 && sent_ns - last->sent_ns < heard->tick_ns / 4)
        return;
    if (heard->count == ZK_HEARD_MOST)
        drop_first(heard);
    heard->requests[(heard->first + heard->count) % ZK_HEARD_MOST] =
        (struct zk_heard_request){sent_ns, answered_ns};
    heard->count++;
}

/* Another follower has not told the leader of requests that the one before answered. */
void zk_heard_session(struct zk_heard *heard, int64_t begun_ns, int64_t answered_ns)
{
    heard->first = 0;
    heard->count = 0;
    heard->moved_ns = 0;
    if (heard->proven_ns == 0) { /* a new session */
        prove(heard, begun_ns);
        return;
    }
    heard->moved_ns = begun_ns;
    add(heard, begun_ns, answered_ns);
}

void zk_heard_answer(struct zk_heard *heard, int64_t sent_ns, int64_t answered_ns,
                     enum zk_heard_of of)
{
    if (of == ZK_HEARD_MAJORITY) {
        prove(heard, heard->moved_ns);
        heard->moved_ns = 0;
    }
    while (of != ZK_HEARD_SERVER && heard->count > 0 &&
           sent_ns - heard->requests[heard->first].answered_ns >= heard->tick_ns) {
        prove(heard, heard->requests[heard->first].sent_ns);
        drop_first(heard);
    }
    add(heard, sent_ns, answered_ns);
}
