/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/guard/view.c */
/* FO-3, FO-12: is what a look saw kept, and never in place of a later one? */
#include "redis/guard/view.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define MS INT64_C(1000000)

static struct redis_guard guard;

static void set_up(void)
{
    guard = (struct redis_guard){.on = true,
                                 .id = "abc",
                                 .needed = 1,
                                 .lasts_ms = 1000,
                                 .yours_ms = 3000,
                                 .grants_ms = 4000};
    (void)pthread_mutex_init(&guard.mutex, NULL);
}

static void tear_down(void)
{
    redis_view_slots_free(&guard.owned);
    (void)pthread_mutex_destroy(&guard.mutex);
}

TestSuite(view, .init = set_up, .fini = tear_down);

/* As view.lua answers. NULL: it was kept. */
static const char *keep(const char *server_us, const char *offset, const char *since,
                        const char *slots, int64_t seen_ms)
{
    const char *const texts[] = {server_us, offset, since, "1", slots};
    char command[400];
    size_t used = (size_t)snprintf(command, sizeof command, "*6\r\n");
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    const char *why = NULL;

    for (size_t i = 0; i < 5; i++)
        used += (size_t)snprintf(command + used, sizeof command - used, "$%zu\r\n%s\r\n",
                                 strlen(texts[i]), texts[i]);
    used += (size_t)snprintf(command + used, sizeof command - used, ":0\r\n");
    cr_assert_eq(redisReaderFeed(reader, command, used), REDIS_OK);
    cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    why = redis_view_keep(&guard, reply, seen_ms * MS);
    freeReplyObject(reply);
    redisReaderFree(reader);
    return why;
}

static const char *word(int slot, int64_t now_ms)
{
    static char text[REDIS_VIEW_WORD_SIZE];

    redis_view_word(&guard, slot, now_ms * MS, text);
    return text;
}

Test(view, without_the_guard_the_server_is_told)
{
    guard.on = false;
    cr_assert_str_eq(word(REDIS_NO_SLOT, 600), "abc");
    guard.alone = true;
    cr_assert_str_eq(word(REDIS_NO_SLOT, 600), "abc alone");
}

Test(view, two_looks_are_told)
{
    cr_assert_null(keep("5000000", "100", "4000000", "", 10));
    cr_assert_null(keep("5500000", "200", "4000000", "", 510));
    cr_assert_str_eq(word(REDIS_NO_SLOT, 600),
                     "abc 4000000 5500000 200 5000000 100 1 1000000 3000000 4000000");
}

/* Two threads looked; the answer of the first one is read last. The term began in between. */
Test(view, an_earlier_look_does_not_replace_a_later_one)
{
    cr_assert_null(keep("5500000", "200", "5500000", " 7-7@0", 510));
    cr_assert_null(keep("5000000", "100", "0", " 8-8@0", 10));
    cr_assert_str_eq(word(7, 600), "abc 5500000 5500000 200 0 -1 1 1000000 3000000 4000000");
    cr_assert_str_eq(word(8, 600), "abc 0 5500000 200 0 -1 1 1000000 3000000 4000000");
}

Test(view, a_look_counts_for_its_time)
{
    cr_assert(redis_view_expired(&guard, 0));
    cr_assert_null(keep("5000000", "100", "4000000", "", 10));
    cr_assert_not(redis_view_expired(&guard, 1010 * MS));
    cr_assert(redis_view_expired(&guard, 1011 * MS));
    cr_assert_str_eq(word(REDIS_NO_SLOT, 1011), "abc 4000000 0 -1 0 -1 1 1000000 3000000 4000000");
}

/* FO-12: the later moment of the term's and the slot's. */
Test(view, FO_12_a_slot_has_a_guard_of_its_own)
{
    int64_t age_ms = 0;

    cr_assert_null(keep("9000000", "100", "4000000", " 0-5@0 6-6@8000000 7-7@3000000", 0));
    cr_assert_eq(redis_view_left_ms(&guard, 5, 0, &age_ms), 0);
    cr_assert_eq(age_ms, 5000);
    cr_assert_eq(redis_view_left_ms(&guard, 6, 0, &age_ms), 3000);
    cr_assert_eq(age_ms, 1000);
    cr_assert_eq(redis_view_left_ms(&guard, 6, 500 * MS, &age_ms), 2500);
    cr_assert_eq(redis_view_left_ms(&guard, 7, 0, &age_ms), 0);
    cr_assert_str_eq(word(6, 0), "abc 8000000 9000000 100 0 -1 1 1000000 3000000 4000000");
    cr_assert_str_eq(word(8, 0), "abc 0 9000000 100 0 -1 1 1000000 3000000 4000000", "not there");
}

Test(view, nonsense_is_not_kept)
{
    cr_assert_not_null(keep("0", "0", "0", "", 10), "no longer the master");
    cr_assert_not_null(keep("5000000", "x", "0", "", 10));
    cr_assert_not_null(keep("5000000", "100", "-1", "", 10));
    cr_assert_not_null(keep("5000000", "100", "0", "nonsense", 10));
    cr_assert(redis_view_expired(&guard, 10 * MS));
}
