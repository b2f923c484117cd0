/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/lease_batch.c */
/* One script for many names: is what comes of each name what its own script would have done, and is
 * what is wrong with one name nothing to the others? (C19, BAT-1)
 */
#include "batch_kit.h"

static struct dlt_redis server;
static struct dlt_session other; /* of another client */

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    cr_assert_eq(dlt_session_start(&s, &server), DLOCK_OK);
    cr_assert_eq(dlt_session_start(&other, &server), DLOCK_OK);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_session_close(&other);
    dlt_redis_stop(&server);
}

TestSuite(many, .init = set_up, .fini = tear_down, .timeout = 60);

/* The server knows the scripts, and nothing else. */
static void warm_up(void)
{
    batch_make(MANY, 10000);
    try_all(MANY);
    unlock_all(MANY);
    each_is(0, MANY, DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &requests[0]), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &requests[0]), DLOCK_OK);
    cr_assert_str_eq(dlt_redis_ask(&server, "FLUSHALL"), "OK");
    scripts_reset(&server);
}

/* ---- each name as if alone ---- */

/* Names that are something special, and one more that is not. */
enum {
    FREE,
    LOCK_FOREIGN, /* the key is of another type */
    META_FOREIGN,
    READERS_FOREIGN,
    QUEUE_FOREIGN,
    FENCE_FOREIGN, /* of the right type: no number */
    HELD,
    READ,
    QUEUED, /* by the holder's waiter */
    WAITED, /* the holder is gone, and its waiter is not */
    KEPT,   /* of unlock: it asks for it */
    LAST,
    CASES
};

/* The same again with other names, for single calls. */
static struct dlt_request singles[CASES], holders[2][CASES], waiters[2][CASES];
static char single_names[CASES][24];

static void keys_spoil(const char *name, size_t i)
{
    static const char *const ends[CASES] = {[LOCK_FOREIGN] = "",
                                            [META_FOREIGN] = ":m",
                                            [READERS_FOREIGN] = ":r",
                                            [QUEUE_FOREIGN] = ":q"};

    if (i == FENCE_FOREIGN)
        (void)dlt_redis_ask(&server, "HSET dl:{%s}:m f x", name);
    if (ends[i] == NULL)
        return;
    (void)dlt_redis_ask(&server, "DEL dl:{%s}%s", name, ends[i]);
    (void)dlt_redis_ask(&server, "LPUSH dl:{%s}%s 1", name, ends[i]);
}

static void others_come(const char *name, size_t i, struct dlt_request *holder,
                        struct dlt_request *waiter)
{
    dlt_request(&other, holder, name, 'h', 60000);
    dlt_request(&other, waiter, name, 'w', 60000);
    holder->req.mode = i == READ ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    if (i == HELD || i == READ || i == QUEUED || i == WAITED)
        cr_assert_eq(dlt_try(&other, holder), DLOCK_OK, "%s", other.err.message);
    if (i == QUEUED || i == WAITED)
        cr_assert_eq(dlt_enqueue(&other, waiter), DLOCK_BUSY);
    if (i == WAITED)
        cr_assert_str_eq(dlt_redis_ask(&server, "DEL dl:{%s}", name), "1");
}

static void cases_make(void)
{
    batch_make(CASES, 10000);
    for (size_t i = 0; i < CASES; i++) {
        (void)snprintf(single_names[i], sizeof single_names[i], "c%zu", i);
        dlt_request(&s, &singles[i], single_names[i], (unsigned char)(i + 1), 60000);
    }
}

/* Apart from the name, which is in the key. */
static bool is_same_text(const char *of_batch, const char *of_single)
{
    char text[256];
    char *at = NULL;

    (void)snprintf(text, sizeof text, "%s", of_batch);
    while ((at = strstr(text, "{b")) != NULL)
        at[1] = 'c';
    return strcmp(text, of_single) == 0;
}

/* What is stored of the two names. */
static void is_stored_alike(size_t i)
{
    static const char *const asked[][2] = {{"GET", ""},     {"TYPE", ""},    {"TYPE", ":m"},
                                           {"HKEYS", ":m"}, {"ZCARD", ":r"}, {"ZCARD", ":q"}};

    for (size_t k = 0; k < sizeof asked / sizeof asked[0]; k++) {
        const char *what = asked[k][0], *end = asked[k][1];
        char text[256];

        (void)snprintf(text, sizeof text, "%s",
                       dlt_redis_ask(&server, "%s dl:{%s}%s", what, names[i], end));
        cr_assert_str_eq(text, dlt_redis_ask(&server, "%s dl:{%s}%s", what, single_names[i], end),
                         "%zu: %s of %s", i, what, end);
    }
}

static void is_as_alone(size_t i, enum dlock_status status)
{
    cr_assert_eq(elements[i].status, status, "%zu: %s, and alone %s: %s", i,
                 dlock_status_name((int)elements[i].status), dlock_status_name((int)status),
                 s.err.message);
    cr_assert(is_same_text(errors[i].message, s.err.message), "%zu: %s\n%s", i, errors[i].message,
              s.err.message);
    is_stored_alike(i);
}

static void is_granted_alike(size_t i)
{
    const struct dlock_grant *grant = &elements[i].grant;

    cr_assert_eq(grant->fence > 0, s.grant.fence > 0, "%zu", i);
    cr_assert_eq(grant->fence_room, s.grant.fence_room, "%zu", i);
    cr_assert_eq(grant->lease_ms, s.grant.lease_ms, "%zu", i);
    cr_assert_eq(grant->waiters, s.grant.waiters, "%zu", i);
    cr_assert_eq(grant->flags, s.grant.flags, "%zu", i);
}

/* What inspect says of a name that the batch took. */
static void is_held(size_t i)
{
    struct dlt_holder holder;
    size_t count = 1;

    cr_assert_eq(dlt_inspect(&s, names[i], &holder, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holder.label, "host:1:test");
    cr_assert_eq(holder.fence, elements[i].grant.fence);
    cr_assert(holder.remaining_ms > 50000 && holder.remaining_ms <= 60000);
}

Test(many, BAT_1_each_name_is_tried_as_if_alone)
{
    static const enum dlock_status expected[CASES] = {
        [FREE] = DLOCK_OK,
        [LOCK_FOREIGN] = DLOCK_CONFIG,
        [META_FOREIGN] = DLOCK_CONFIG,
        [READERS_FOREIGN] = DLOCK_CONFIG,
        [QUEUE_FOREIGN] = DLOCK_CONFIG,
        [FENCE_FOREIGN] = DLOCK_OK,
        [HELD] = DLOCK_BUSY,
        [READ] = DLOCK_BUSY,
        [QUEUED] = DLOCK_BUSY,
        [WAITED] = DLOCK_BUSY,
        [KEPT] = DLOCK_OK,
        [LAST] = DLOCK_OK,
    };

    warm_up();
    cases_make();
    for (size_t i = 0; i < CASES; i++) {
        keys_spoil(names[i], i);
        keys_spoil(single_names[i], i);
        others_come(names[i], i, &holders[0][i], &waiters[0][i]);
        others_come(single_names[i], i, &holders[1][i], &waiters[1][i]);
        requests[i].req.flags = singles[i].req.flags = DLOCK_REQ_ENQUEUE;
    }
    scripts_reset(&server);
    try_all(CASES);
    cr_assert_eq(scripts_run(&server), 1 + 8, "one for all, and one for each that is not free");
    for (size_t i = 0; i < CASES; i++) {
        is_as_alone(i, dlt_try(&s, &singles[i]));
        cr_assert_eq(elements[i].status, expected[i], "%zu: %s", i, errors[i].message);
        is_granted_alike(i);
        if (elements[i].status == DLOCK_OK)
            is_held(i);
    }
    for (size_t i = 0; i < CASES; i++) {
        s.ops->forget(s.self, &requests[i].req);
        s.ops->forget(s.self, &singles[i].req);
        other.ops->forget(other.self, &waiters[0][i].req);
        other.ops->forget(other.self, &waiters[1][i].req);
    }
}

/* What a holder of the batch says of itself, byte by byte [DAT-1]. */
struct said {
    size_t count;
    bool is_label, is_data;
};

static const char said_label[] = "a host: 1 %s";
static const unsigned char said_data[] = {'x', ' ', '\0', '\n', 0xff, '\0', '7', ' '};

static bool said_take(void *arg, const struct dlock_holder *holder)
{
    struct said *said = arg;

    said->count++;
    said->is_label = strcmp(holder->label, said_label) == 0;
    said->is_data = holder->data_len == sizeof said_data &&
                    memcmp(holder->data, said_data, sizeof said_data) == 0;
    return true;
}

Test(many, DAT_1_a_label_with_spaces_and_data_of_any_bytes)
{
    warm_up();
    batch_make(MANY, 10000);
    for (size_t i = 0; i < MANY; i += 2) { /* the words of the others stay where they belong */
        requests[i].req.label = said_label;
        requests[i].req.data = said_data;
        requests[i].req.data_len = sizeof said_data;
    }
    try_all(MANY);
    each_is(0, MANY, DLOCK_OK);
    cr_assert_eq(scripts_run(&server), 1);
    for (size_t i = 0; i < MANY; i++) {
        struct said said = {.count = 0};

        cr_assert_eq(s.ops->inspect(s.self, requests[i].req.name, requests[i].req.name_len,
                                    dlt_due(&s, &requests[i], 10000)->deadline_ns, said_take, &said,
                                    &s.err),
                     DLOCK_OK);
        cr_assert_eq(said.count, 1);
        cr_assert_eq(said.is_label, i % 2 == 0, "%zu", i);
        cr_assert_eq(said.is_data, i % 2 == 0, "%zu", i);
    }
    unlock_all(MANY);
    each_is(0, MANY, DLOCK_OK);
}

/* Another client waits for the name that s holds. */
static void waiter_comes(const char *name, struct dlt_request *waiter)
{
    dlt_request(&other, waiter, name, 'w', 60000);
    cr_assert_eq(dlt_enqueue(&other, waiter), DLOCK_BUSY);
}

static void unlocks_make(void)
{
    for (size_t i = 0; i < CASES; i++) {
        requests[i].req.mode = singles[i].req.mode = i == READ ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
        cr_assert(i == HELD || dlt_try(&s, &requests[i]) == DLOCK_OK, "%s", s.err.message);
        cr_assert(i == HELD || dlt_try(&s, &singles[i]) == DLOCK_OK, "%s", s.err.message);
        keys_spoil(names[i], i);
        keys_spoil(single_names[i], i);
    }
    dlt_request(&other, &holders[0][HELD], names[HELD], 'h', 60000);
    dlt_request(&other, &holders[1][HELD], single_names[HELD], 'h', 60000);
    cr_assert_eq(dlt_try(&other, &holders[0][HELD]), DLOCK_OK);
    cr_assert_eq(dlt_try(&other, &holders[1][HELD]), DLOCK_OK);
    waiter_comes(names[QUEUED], &waiters[0][QUEUED]);
    waiter_comes(single_names[QUEUED], &waiters[1][QUEUED]);
    requests[KEPT].req.keep_ms = singles[KEPT].req.keep_ms = 60000;
}

Test(many, BAT_1_each_name_is_released_as_if_alone)
{
    warm_up();
    cases_make();
    unlocks_make();
    scripts_reset(&server);
    unlock_all(CASES);
    cr_assert_eq(scripts_run(&server), 1 + 6,
                 "one for all, and one for each that is more than free then");
    for (size_t i = 0; i < CASES; i++) {
        is_as_alone(i, dlt_unlock(&s, &singles[i]));
        cr_assert_eq(elements[i].status, i == HELD || i == LOCK_FOREIGN ? DLOCK_LOST : DLOCK_OK,
                     "%zu: %s", i, errors[i].message);
    }
    cr_assert_str_eq(dlt_redis_ask(&server, "GET dl:{%s}", names[QUEUED]),
                     "77777777777777777777777777777777", "the waiter has it");
    other.ops->forget(other.self, &waiters[0][QUEUED].req);
    other.ops->forget(other.self, &waiters[1][QUEUED].req);
}

/* The server refuses the first write of a script, and a release needs no memory. */
Test(many, BAT_1_no_memory_takes_nothing_and_releases)
{
    warm_up();
    batch_make(2 * MANY, 10000);
    try_all(MANY);
    each_is(0, MANY, DLOCK_OK);
    (void)dlt_redis_ask(&server, "CONFIG SET maxmemory 1");
    s.ops->trylock_batch(s.self, ops + MANY, MANY, &s.err);
    each_is(MANY, 2 * MANY, DLOCK_UNAVAILABLE);
    for (size_t i = MANY; i < 2 * MANY; i++) {
        cr_assert(strstr(errors[i].message, "OOM") != NULL, "%s", errors[i].message);
        cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{%s}", names[i]), "0");
    }
    unlock_all(MANY);
    each_is(0, MANY, DLOCK_OK);
    (void)dlt_redis_ask(&server, "CONFIG SET maxmemory 0");
}

/* The server refuses the script for all names because of one. It may be a proxy that refuses each
 * of these scripts: the next batches go without. */
Test(many, BAT_1_a_right_that_is_missing_for_one_name)
{
    warm_up();
    (void)dlt_redis_ask(&server, "ACL SETUSER " DLT_REDIS_LEAST " resetkeys ~dl:{b[^3]}*");
    for (int i = 0; i < 2; i++) {
        scripts_reset(&server);
        batch_make(MANY, 10000);
        try_all(MANY);
        each_is(0, 3, DLOCK_OK);
        each_is(3, 4, DLOCK_AUTH);
        each_is(4, MANY, DLOCK_OK);
        cr_assert_eq(scripts_run(&server), MANY - 1, "%ld: refused ones do not count",
                     scripts_run(&server));
        (void)dlt_redis_ask(&server, "CONFIG RESETSTAT");
        unlock_all(MANY);
        each_is(0, 3, DLOCK_OK);
        each_is(3, 4, DLOCK_AUTH);
        each_is(4, MANY, DLOCK_OK);
    }
}

/* A server that was just started grants nothing, and each name is told why. */
Test(many, TRY_8_a_guard_time_is_told_to_each)
{
    dlt_session_close(&s);
    dlt_session_init(&s, "redis", server.address);
    dlt_session_option(&s, "restart_guard", "60000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    batch_make(MANY, 10000);
    try_all(MANY);
    each_is(0, MANY, DLOCK_BUSY);
    for (size_t i = 0; i < MANY; i++) {
        cr_assert(strstr(errors[i].message, "may still be in use for") != NULL, "%zu: %s", i,
                  errors[i].message);
        cr_assert_gt(elements[i].grant.holder_ms, 0);
    }
}

/* The same lease twice: the second one finds it gone, as a second call would. */
Test(many, BAT_4_a_lease_is_released_once)
{
    batch_make(MANY, 10000);
    try_all(MANY);
    requests[1] = requests[0];
    unlock_all(MANY);
    each_is(0, 1, DLOCK_OK);
    each_is(1, 2, DLOCK_LOST);
    each_is(2, MANY, DLOCK_OK);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{b1}"), "1");
}

/* Others are served in between. */
Test(many, BAT_1_a_script_has_32_names_at_most)
{
    warm_up();
    batch_make(64, 10000);
    try_all(64);
    cr_assert_eq(scripts_run(&server), 2);
    unlock_all(64);
    each_is(0, 64, DLOCK_OK);
    cr_assert_eq(scripts_run(&server), 4);
}

/* Names that others have cost two exchanges the first time, and one as long as they have them. */
Test(many, BAT_1_names_that_others_have_are_asked_for_alone)
{
    static const long scripts[] = {1 + MANY, MANY, MANY};

    warm_up();
    for (size_t i = 0; i < MANY; i++) {
        dlt_request(&other, &holders[0][i], names[i], 'h', 60000);
        cr_assert_eq(dlt_try(&other, &holders[0][i]), DLOCK_OK);
    }
    for (size_t k = 0; k < sizeof scripts / sizeof scripts[0]; k++) {
        scripts_reset(&server);
        batch_make(MANY, 10000);
        try_all(MANY);
        each_is(0, MANY, DLOCK_BUSY);
        cr_assert_eq(scripts_run(&server), scripts[k], "%zu: %ld", k, scripts_run(&server));
    }
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(dlt_unlock(&other, &holders[0][i]), DLOCK_OK);
    for (int k = 0; k < 2; k++) {
        scripts_reset(&server);
        batch_make(MANY, 10000);
        try_all(MANY);
        each_is(0, MANY, DLOCK_OK);
        cr_assert_eq(scripts_run(&server), k == 0 ? MANY : 1, "%d: %ld", k, scripts_run(&server));
        unlock_all(MANY);
    }
}
