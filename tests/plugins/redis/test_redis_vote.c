/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/servers/sentinels.c */
/* Which master is believed, whatever some of the sentinels say? */
#include "redis/servers/sentinels.h"

#include <criterion/criterion.h>

#define OLD                                                     \
    {                                                           \
        .given = true, .master = {"10.0.0.1", 6379}, .epoch = 4 \
    }
#define NEW                                                     \
    {                                                           \
        .given = true, .master = {"10.0.0.2", 6379}, .epoch = 5 \
    }

static void elected(const struct redis_vote *votes, unsigned count, const char *host,
                    unsigned voters)
{
    unsigned found = 9;
    int index = redis_sentinels_elect(votes, count, 2, &found);

    cr_assert_eq(found, voters);
    if (host == NULL)
        cr_assert_eq(index, -1);
    else
        cr_assert_str_eq(votes[index].master.host, host);
}

Test(vote, an_isolated_sentinel_is_outvoted)
{
    elected((const struct redis_vote[]){OLD, NEW, NEW}, 3, "10.0.0.2", 2);
    elected((const struct redis_vote[]){NEW, NEW, OLD}, 3, "10.0.0.2", 2);
}

Test(vote, one_sentinel_is_no_majority)
{
    elected((const struct redis_vote[]){NEW, {0}, {0}}, 3, NULL, 0);
    elected((const struct redis_vote[]){NEW, OLD, {0}}, 3, NULL, 0);
    elected((const struct redis_vote[]){{0}, {0}, {0}}, 3, NULL, 0);
}

/* A greater epoch does not help an address that one sentinel names. */
Test(vote, one_sentinel_with_a_great_epoch_is_outvoted)
{
    elected((const struct redis_vote[]){OLD, OLD, NEW}, 3, "10.0.0.1", 2);
}

/* Sentinels that the URI does not name have votes, too: two addresses may have enough. */
Test(vote, the_greatest_epoch_counts)
{
    elected((const struct redis_vote[]){OLD, OLD, NEW, NEW, {0}}, 5, "10.0.0.2", 2);
    elected((const struct redis_vote[]){NEW, NEW, OLD, OLD, OLD}, 5, "10.0.0.2", 2);
}

/* The leader of a failover has the new epoch before the others agree. */
Test(vote, of_equal_epochs_most_voters_count)
{
    const struct redis_vote old = {.given = true, .master = {"10.0.0.1", 6379}, .epoch = 5};

    elected((const struct redis_vote[]){old, OLD, NEW, NEW, NEW}, 5, "10.0.0.2", 3);
    elected((const struct redis_vote[]){NEW, NEW, NEW, old, OLD}, 5, "10.0.0.2", 3);
}

Test(vote, the_port_is_a_part_of_the_address)
{
    const struct redis_vote votes[] = {
        {.given = true, .master = {"10.0.0.1", 6379}, .epoch = 1},
        {.given = true, .master = {"10.0.0.1", 6380}, .epoch = 1},
    };

    elected(votes, 2, NULL, 0);
}
