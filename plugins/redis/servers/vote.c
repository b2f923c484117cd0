/* SPDX-License-Identifier: MIT */
#include "redis/servers/vote.h"

#include <string.h>

static bool same(const struct address *one, const struct address *other)
{
    return one->port == other->port && strcmp(one->host, other->host) == 0;
}

static bool beats(const struct redis_vote *one, unsigned voters, const struct redis_vote *other,
                  unsigned other_voters)
{
    return one->epoch != other->epoch ? one->epoch > other->epoch : voters > other_voters;
}

int redis_vote_elect(const struct redis_vote *votes, unsigned count, unsigned majority,
                     unsigned *voters)
{
    int elected = -1;

    *voters = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned agree = 0;

        for (unsigned k = 0; k < count; k++)
            agree += votes[i].given && votes[k].given && same(&votes[i].master, &votes[k].master);
        if (agree < majority ||
            (elected >= 0 && !beats(&votes[i], agree, &votes[elected], *voters)))
            continue;
        elected = (int)i;
        *voters = agree;
    }
    return elected;
}
