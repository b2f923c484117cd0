/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/lease_batch.c plugins/redis/call/call.c */
/* A script for many names that is answered with nonsense or with an error, or whose second exchange
 * fails: what is said of each name, and how do the next batches ask? (C4, C9, C19, TRY-4)
 */
#include "batch_kit.h"
#include "hello_kit.h"

/* Answers to a script for one name: the fence, not held, and what says that nothing was done. */
#define FENCE(n)             "$3\\r\\n5 " n "\\r\\n"
#define LOST(n)              "*3\\r\\n:0\\r\\n$0\\r\\n\\r\\n:" n "\\r\\n"
#define FREED(n)             ":" n "\\r\\n"
#define LOADING              "-LOADING the dataset\\r\\n"
#define BOTH(n)              "$5\\r\\n5 6 " n "\\r\\n" /* to a script for two names */
#define FIRST(n)             "$5\\r\\n5 - " n "\\r\\n"
#define SAYS(text)           "any\nsend \"" text "\"\n"
#define SAYS_TWICE(one, two) "any 2\nsend \"" one two "\"\n"

static struct dlt_scripted scripted;

static void play(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void play(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    hello_play(&scripted, format, args);
    va_end(args);
    dlt_session_init(&s, "redis", scripted.address);
    dlt_session_trusted(&s);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

/* The answer to a batch of two names: a fence or '-' for each, and the number. */
static void two_are(bool unlocks, const char *answer, enum dlock_status status)
{
    play("conn\n" HELLO "any\nsend \"$%zu\\r\\n%s\\r\\n\"\nend\n", strlen(answer), answer);
    batch_make(2, 1000);
    if (unlocks)
        unlock_all(2);
    else
        try_all(2);
    each_is(0, 2, status);
    cr_assert(status != DLOCK_OK || unlocks ||
                  (elements[0].grant.fence == 5 && elements[1].grant.fence == 6),
              "%s", answer);
    dlt_session_close(&s);
    (void)dlt_scripted_finish(&scripted, 0);
}

Test(answers, C9_nonsense_for_many_names_is_neither_yes_nor_no, .timeout = 60)
{
    static const char *const nonsense[] = {
        "5 1",    "5 6 7 1", "- 1",  "0 6 1", "5  6 1", " 5 6 1",
        "5 -6 1", "5 x 1",   "-- 1", "5 6-1", "5 6 2",  "5 99999999999999999999 1",
    };

    for (int unlocks = 0; unlocks < 2; unlocks++) {
        two_are(unlocks, "5 6 1", DLOCK_OK);
        for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
            two_are(unlocks, nonsense[i], DLOCK_PROTOCOL);
    }
}

/* ---- errors ---- */

static void two_tried(enum dlock_status status)
{
    batch_make(2, 10000);
    try_all(2);
    each_is(0, 2, status);
}

static void two_unlocked(enum dlock_status status)
{
    batch_make(2, 10000);
    unlock_all(2);
    each_is(0, 2, status);
}

static void played(void)
{
    dlt_session_close(&s);
    cr_assert(dlt_scripted_finish(&scripted, 5000), "%s", scripted.report);
}

/* The script may have run up to its end: what was not done by the next one may have been by it. */
Test(answers, TRY_4_an_error_that_does_not_say_what_was_done, .timeout = 60)
{
    play("conn\n" HELLO SAYS("-ERR odd\\r\\n") SAYS_TWICE(LOADING, LOADING) "end\n");
    two_tried(DLOCK_UNKNOWN);
    cr_assert(strstr(errors[0].message, "LOADING") != NULL, "%s", errors[0].message);
    cr_assert(strstr(errors[0].message, "may have been executed") != NULL, "%s", errors[0].message);
    played();
    play("conn\n" HELLO SAYS("-ERR odd\\r\\n") "close\n");
    two_tried(DLOCK_UNKNOWN);
    dlt_session_close(&s);
    (void)dlt_scripted_finish(&scripted, 0);
}

Test(answers, TRY_4_an_answer_to_the_name_alone_ends_the_doubt, .timeout = 60)
{
    play("conn\n" HELLO SAYS("-ERR odd\\r\\n") SAYS_TWICE(FENCE("2"), FENCE("3")) "end\n");
    two_tried(DLOCK_OK);
    played();
}

/* LOST, too: the script for many names may have released it. */
Test(answers, UNL_1_an_error_that_does_not_say_what_was_released, .timeout = 60)
{
    play("conn\n" HELLO SAYS("-ERR odd\\r\\n") SAYS_TWICE(LOADING, LOST("3")) "end\n");
    two_unlocked(DLOCK_UNKNOWN);
    played();
    play("conn\n" HELLO SAYS("-ERR odd\\r\\n") SAYS_TWICE(FREED("2"), FREED("3")) "end\n");
    two_unlocked(DLOCK_OK);
    played();
}

Test(answers, TRY_4_an_error_that_says_that_nothing_was_done, .timeout = 60)
{
    play("conn\n" HELLO SAYS(LOADING) SAYS_TWICE(LOADING, LOADING) "end\n");
    two_tried(DLOCK_UNAVAILABLE);
    played();
    play("conn\n" HELLO SAYS(LOADING) SAYS_TWICE(LOST("2"), LOST("3")) "end\n");
    two_unlocked(DLOCK_LOST);
    played();
}

/* ---- the next batches ---- */

/* A right or the form: the next one would be refused as well. */
Test(answers, BAT_1_a_refusal_that_lasts, .timeout = 60)
{
    static const char *const refusals[] = {"NOPERM no", "CROSSSLOT keys", "ERR keys of two slots"};

    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        play("conn\n" HELLO "any\nsend \"-%s\\r\\n\"\n" SAYS_TWICE(FENCE("2"), FENCE("3"))
                 SAYS_TWICE(FENCE("4"), FENCE("5")) SAYS_TWICE(FENCE("6"), FENCE("7")) "end\n",
             refusals[i]);
        for (int k = 0; k < 3; k++)
            two_tried(DLOCK_OK);
        played();
    }
}

Test(answers, BAT_1_a_refusal_that_passes, .timeout = 60)
{
    static const char *const refusals[] = {"LOADING data", "BUSY script", "NOREPLICAS few",
                                           "MASTERDOWN link"};

    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        play("conn\n" HELLO "any\nsend \"-%s\\r\\n\"\n" SAYS_TWICE(FENCE("2"), FENCE("3"))
                 SAYS_TWICE(FENCE("4"), FENCE("5")) SAYS(BOTH("6")) "end\n",
             refusals[i]);
        for (int k = 0; k < 3; k++)
            two_tried(DLOCK_OK);
        played();
    }
}

/* One exchange is all that there was time for. */
Test(answers, BAT_1_a_second_exchange_without_an_answer, .timeout = 60)
{
    play("conn\n" HELLO SAYS(FIRST("1")) "any\nclose\n"
                                         "conn\n" HELLO SAYS_TWICE(FENCE("3"), FENCE("4"))
                                             SAYS(BOTH("5")) "end\n");
    batch_make(2, 10000);
    try_all(2);
    each_is(0, 1, DLOCK_OK);
    each_is(1, 2, DLOCK_UNKNOWN);
    two_tried(DLOCK_OK);
    two_tried(DLOCK_OK);
    played();
}
