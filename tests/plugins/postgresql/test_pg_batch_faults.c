/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/row_batch.c plugins/postgresql/statements.c */
/*
 * Batches of strategy row: what do elements say when the connection or the server fails in the
 * middle, and do batches that share names get in each other's way? (C1, C19, BAT-2, BAT-4)
 */
#include "batch_fixture.h"
#include "proxy_client.h"
#include "server_log.h"

#include <stdlib.h>

static struct dlt_proxy proxy;
static struct dlt_session far; /* through the proxy; another client */

static void tear_down(void)
{
    dlt_session_close(&far);
    close_all();
    (void)dlt_proxy_stop(&proxy);
    dlt_postgres_stop(&server);
}

TestSuite(batch_faults, .init = server_start, .fini = tear_down, .timeout = 300);

/* ---- many at once ---- */

enum { CLIENTS = 8, NAMES = 24, EACH = 12, ROUNDS = 15 };

struct client {
    struct dlt_session session;
    struct dlt_batch batch;
    unsigned seed;
    size_t name[EACH];
    size_t granted;
    const char *wrong;
};

static atomic_int writers[NAMES], readers[NAMES];

/* Other names, in another order, in each round. */
static void names_choose(struct client *client)
{
    size_t all[NAMES];

    for (size_t i = 0; i < NAMES; i++)
        all[i] = i;
    for (size_t i = 0; i < EACH; i++) {
        const size_t other_one = i + (size_t)rand_r(&client->seed) % (NAMES - i);
        const size_t name = all[other_one];

        all[other_one] = all[i];
        client->name[i] = name;
        (void)snprintf(client->batch.names[i], sizeof client->batch.names[i], "m%03zu", name);
        client->batch.requests[i].req.mode =
            rand_r(&client->seed) % 4 == 0 ? DLOCK_EXCLUSIVE : DLOCK_SHARED;
    }
}

static void granted_note(struct client *client, size_t i)
{
    const size_t name = client->name[i];
    const bool shared = client->batch.requests[i].req.mode == DLOCK_SHARED;

    client->granted++;
    if (shared)
        atomic_fetch_add(&readers[name], 1);
    else if (atomic_fetch_add(&writers[name], 1) > 0 || atomic_load(&readers[name]) > 0)
        client->wrong = "two holders";
    if (shared && atomic_load(&writers[name]) > 0)
        client->wrong = "a reader beside a writer";
}

static void *client_run(void *arg)
{
    struct client *client = arg;
    bool has[EACH];

    for (int round = 0; round < ROUNDS && client->wrong == NULL; round++) {
        dlt_batch_init(&client->batch, &client->session, EACH, "m");
        names_choose(client);
        dlt_batch_try(&client->batch, &client->session);
        for (size_t i = 0; i < EACH; i++) {
            has[i] = client->batch.elements[i].status == DLOCK_OK;
            if (has[i])
                granted_note(client, i);
            else if (client->batch.elements[i].status != DLOCK_BUSY)
                client->wrong = client->batch.errors[i].message;
        }
        for (size_t i = 0; i < EACH; i++)
            if (has[i])
                atomic_fetch_sub(client->batch.requests[i].req.mode == DLOCK_SHARED
                                     ? &readers[client->name[i]]
                                     : &writers[client->name[i]],
                                 1);
        dlt_batch_unlock(&client->batch, &client->session);
        for (size_t i = 0; i < EACH && client->wrong == NULL; i++)
            if (client->batch.elements[i].status != (has[i] ? DLOCK_OK : DLOCK_LOST))
                client->wrong = "an unlock has another answer";
    }
    return NULL;
}

/* All rows are new at first. */
Test(batch_faults, C1_BAT_4_clients_whose_batches_share_names_exclude_each_other_without_a_deadlock)
{
    static struct client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    size_t granted = 0;

    open_all("many");
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i].seed = (unsigned)i + 1;
        client_init(&clients[i].session, "many");
        clients[i].session.call_ms = 60000;
        cr_assert_eq(dlt_session_open(&clients[i].session), DLOCK_OK);
    }
    for (size_t i = 0; i < CLIENTS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, client_run, &clients[i]), 0);
    for (size_t i = 0; i < CLIENTS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
        cr_assert_null(clients[i].wrong, "%s", clients[i].wrong);
        granted += clients[i].granted;
        dlt_session_close(&clients[i].session);
    }
    cr_assert_gt(granted, CLIENTS * ROUNDS);
    cr_assert_eq(logged(&server, "deadlock detected"), 0);
}

/* ---- connections and servers that fail ---- */

static void far_open(void)
{
    dlt_session_close(&far);
    far.call_ms = 5000;
    cr_assert_eq(dlt_session_open(&far), DLOCK_OK, "%s", far.err.message);
}

static void through_proxy(const char *test)
{
    cr_assert(dlt_proxy_start(&proxy, server.address, "postgresql", NULL), "%s", proxy.answer);
    open_all(test);
    dlt_session_sql(&far, dlock_plugin_postgresql(), "postgresql", proxy.address);
    dlt_session_option(&far, "waiter_lease", "3000");
    dlt_session_strategy(&far, "row", test);
    far_open();
    by = &far;
}

static void order(const char *line)
{
    cr_assert(dlt_proxy_tell(&proxy, "%s", line), "%s: %s", line, proxy.answer);
}

Test(batch_faults, BAT_2_without_an_answer_all_are_unknown)
{
    through_proxy("silent");
    names_make(MANY);
    names_make(MANY); /* all is prepared */
    order("blackhole s2c");
    far.call_ms = 500;
    dlt_batch_try(&batch, by);
    dlt_batch_is(&batch, 0, MANY, DLOCK_UNKNOWN);
    dlt_batch_unlock(&batch, by);
    dlt_batch_is(&batch, 0, MANY, DLOCK_UNAVAILABLE);
    order("kill rst");
    order("pass");
    far_open();
    dlt_batch_try(&batch, by);
    dlt_batch_is(&batch, 0, MANY, DLOCK_OK); /* the same tokens [TRY-5] */
    dlt_batch_unlock(&batch, by);
    dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
}

/* The first statement is answered, and the second one never arrives. */
Test(batch_faults, BAT_2_those_that_were_answered_have_their_answers)
{
    through_proxy("half");
    names_make(MANY);
    for (size_t i = MANY / 2; i < MANY; i++)
        batch.requests[i].req.mode = DLOCK_SHARED;
    far_open();
    order("hold c2s * match=MATERIALIZED");
    far.call_ms = 1000;
    dlt_batch_try(&batch, by);
    dlt_batch_is(&batch, 0, MANY / 2, DLOCK_OK);
    dlt_batch_is(&batch, MANY / 2, MANY, DLOCK_UNKNOWN);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(is_held(i), i < MANY / 2, "%s", batch.names[i]);
}

/* What is certain is so. Returns how many are OK. */
static size_t certain_check(bool unlocks)
{
    size_t done = 0;

    for (size_t i = 0; i < MANY; i++) {
        const enum dlock_status status = batch.elements[i].status;

        cr_assert(status == DLOCK_OK || status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE,
                  "%s: %s", dlock_status_name((int)status), batch.errors[i].message);
        done += status == DLOCK_OK;
        if (status != DLOCK_UNKNOWN)
            cr_assert_eq(is_held(i), (status == DLOCK_OK) != unlocks, "%s is %s", batch.names[i],
                         dlock_status_name((int)status));
    }
    return done;
}

/* The answers end after so many bytes. Returns how many elements had one. */
static size_t cut_after(size_t bytes, bool unlocks)
{
    char line[48];
    size_t done = 0;

    names_make(MANY);
    for (size_t i = MANY / 2; i < MANY; i++)
        batch.requests[i].req.mode = DLOCK_SHARED;
    if (unlocks) {
        dlt_batch_try(&batch, by);
        dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    }
    far_open();
    (void)snprintf(line, sizeof line, "cut s2c %zu rst", bytes);
    order(line);
    dlt_batch_call(&batch, by, unlocks);
    done = certain_check(unlocks);
    order("pass");
    far_open();
    if (!unlocks) {
        dlt_batch_try(&batch, by);
        dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    }
    dlt_batch_unlock(&batch, by);
    for (size_t i = 0; i < MANY; i++)
        cr_assert(!is_held(i));
    return done;
}

static void cut_each(const char *test, bool unlocks)
{
    size_t done = 0, halves = 0, bytes = 1;

    through_proxy(test);
    while ((done = cut_after(bytes, unlocks)) < MANY) {
        cr_assert_lt(bytes, 10000);
        bytes += 83;
        halves += done > 0;
    }
    cr_assert_gt(bytes, 200);
    cr_assert_gt(halves, 0, "no cut was between the two statements");
}

Test(batch_faults, BAT_2_the_answers_to_trylock_are_cut_off_anywhere)
{
    cut_each("cut", false);
}

Test(batch_faults, BAT_2_the_answers_to_unlock_are_cut_off_anywhere)
{
    cut_each("ends", true);
}

static void all_idle_wait(void)
{
    for (int i = 0; i < 6000; i++) {
        if (strcmp(dlt_postgres_ask(&server, "SELECT count(*) FROM pg_stat_activity"
                                             " WHERE backend_type = 'client backend'"
                                             " AND state = 'active' AND pid <> pg_backend_pid()"),
                   "0") == 0)
            return;
        dlt_sleep_ms(5);
    }
    cr_assert(false, "a statement does not end");
}

/* A table that somebody locks, say for a change of its columns: the statements wait for it before
 * they begin, and do so when their client has left. Prepared ones, and the first of a session. */
static void left_in_a_table_lock(const char *table, enum dlock_mode mode, bool prepared)
{
    pthread_t sitter;

    dlt_session_close(&far);
    far.call_ms = 5000;
    cr_assert_eq(dlt_session_open(&far), DLOCK_OK, "%s", far.err.message);
    batch_begin(MANY);
    for (size_t i = 0; i < MANY; i++)
        batch.requests[i].req.mode = mode;
    for (int round = 0; prepared && round < 2; round++) {
        dlt_batch_try(&batch, by);
        dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
        dlt_batch_unlock(&batch, by);
        dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    }
    sitter = sit_table(table);
    far.call_ms = 300;
    dlt_batch_try(&batch, by);
    sit_end(sitter, table);
    all_idle_wait();
    for (size_t i = 0; i < MANY; i++) {
        cr_assert_neq(batch.elements[i].status, DLOCK_OK);
        cr_assert(!is_held(i), "%s, mode %d, prepared %d", batch.names[i], (int)mode, prepared);
    }
}

Test(batch_faults, BAT_2_a_batch_that_its_client_has_left_takes_nothing)
{
    open_all("late");
    names_make(MANY);
    client_init(&far, "late");
    by = &far;
    left_in_a_table_lock("late_lease", DLOCK_EXCLUSIVE, true);
    left_in_a_table_lock("late_lease", DLOCK_EXCLUSIVE, false);
    left_in_a_table_lock("late_lease", DLOCK_SHARED, true);
    left_in_a_table_lock("late_lease", DLOCK_SHARED, false);
}

static void *kill_run(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2000; i++) {
        if (strcmp(dlt_postgres_ask(&server, "SELECT count(*) FROM pg_stat_activity"
                                             " WHERE wait_event_type = 'Lock'"),
                   "0") != 0)
            break;
        dlt_sleep_ms(2);
    }
    dlt_postgres_kill(&server);
    return NULL;
}

/* While the second statement waits for a row. */
Test(batch_faults, BAT_2_CRASH_SAFE_the_server_is_killed_in_the_middle)
{
    pthread_t sitter, killer;

    open_all("kill");
    names_make(MANY);
    for (size_t i = MANY / 2; i < MANY; i++)
        batch.requests[i].req.mode = DLOCK_SHARED;
    sitter = sit("kill_lease");
    cr_assert_eq(pthread_create(&killer, NULL, kill_run, NULL), 0);
    dlt_batch_try(&batch, by);
    cr_assert_eq(pthread_join(killer, NULL), 0);
    cr_assert_eq(pthread_join(sitter, NULL), 0);
    dlt_batch_is(&batch, 0, JOB, DLOCK_OK);
    cr_assert_neq(batch.elements[JOB].status, DLOCK_OK);
    restart();
    (void)certain_check(false);
    batch.requests[JOB].req.mode = DLOCK_EXCLUSIVE;
    dlt_batch_try(&batch, by);
    dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
}

/* "job" goes to its waiter, and behind it, in the order of names, is an unlock that need not reach
 * the disk. */
Test(batch_faults, CRASH_SAFE_a_grant_to_a_waiter_is_on_the_disk)
{
    open_all("crash");
    names_make(MANY);
    for (size_t i = JOB + 1; i < MANY; i++)
        batch.requests[i].req.mode = DLOCK_SHARED;
    dlt_batch_try(&batch, by);
    dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    queue(&t, &b);
    dlt_batch_unlock(&batch, by);
    dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    restart();
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
}

/* And so are the locks of a batch, though the role's commits do not wait for the disk: of each of
 * the two statements. */
Test(batch_faults, CRASH_SAFE_what_a_batch_has_taken_is_on_the_disk)
{
    administer("ALTER ROLE u SET synchronous_commit = off");
    open_all("taken");
    for (int shared = 0; shared < 2; shared++) {
        names_make(MANY);
        for (size_t i = 0; i < MANY; i++)
            batch.requests[i].req.mode = shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
        dlt_batch_try(&batch, by);
        dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
        restart();
        cr_assert_eq(certain_check(false), MANY);
        dlt_batch_unlock(&batch, by);
        dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    }
}
