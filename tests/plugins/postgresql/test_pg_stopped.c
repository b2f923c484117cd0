/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/query.c plugins/postgresql/row_lease.c */
/* Tests: plugins/postgresql/row_batch.c */
/* Tests: plugins/postgresql/session_lock.c plugins/postgresql/row_inspect.c */
/* A server that stops before it reads a statement, and in the middle of each statement that writes:
 * the call ends by its deadline, says what it knows, and nothing is lost when the server goes on.
 */
#include "row_kit.h"
#include "session.h"

#include <libpq-fe.h>
#include <pthread.h>

#define GATE    "77" /* an advisory lock: statements that write wait for it */
#define CALL_MS 500
#define LATE_MS 5000 /* of a busy machine; a hang lasts longer */

enum what {
    TRY,
    READ,
    UNLOCK,
    UNLOCK_READ,
    INSPECT,
    LIST,
    OF_BOTH, /* strategies; the others are of strategy row */
    PERMIT = OF_BOTH,
    ENQUEUE,
    REFRESH,
    RENEW,
    DOWNGRADE,
    PASS,
    KEEP,
    DEQUEUE,
    BREAK,
    WAITERS,
    OF_ROW
};

static const char *const words[] = {
    [TRY] = "try",         [READ] = "read",       [UNLOCK] = "unlock",       [UNLOCK_READ] = "end",
    [INSPECT] = "inspect", [LIST] = "list",       [PERMIT] = "permit",       [ENQUEUE] = "enqueue",
    [REFRESH] = "refresh", [RENEW] = "renew",     [DOWNGRADE] = "downgrade", [PASS] = "pass",
    [KEEP] = "keep",       [DEQUEUE] = "dequeue", [BREAK] = "break",         [WAITERS] = "waiters"};

#define BIT(what)   (1u << (what))
#define READS       (BIT(INSPECT) | BIT(LIST) | BIT(WAITERS))
#define OTHER_HOLDS (READS | BIT(ENQUEUE) | BIT(REFRESH) | BIT(DEQUEUE) | BIT(BREAK))
#define SELF_HOLDS \
    (BIT(UNLOCK) | BIT(UNLOCK_READ) | BIT(RENEW) | BIT(DOWNGRADE) | BIT(PASS) | BIT(KEEP))
#define SELF_IS_READER (BIT(READ) | BIT(UNLOCK_READ))

static PGconn *gate;
static uint64_t last; /* fence that somebody has got */

static bool is_of(enum what what, unsigned set)
{
    return (BIT(what) & set) != 0;
}

/* ---- the server ---- */

static void gate_run(const char *sql)
{
    PGresult *result = PQexec(gate, sql);

    cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s: %s", sql, PQerrorMessage(gate));
    PQclear(result);
}

static void gates_make(const char *strategy)
{
    static const char *const tables[][4] = {{"lease", "reader", "queue", NULL},
                                            {"session", "session_reader", NULL}};
    const bool is_row = strcmp(strategy, "row") == 0;
    char address[80];

    administer("CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
               " PERFORM set_config('lock_timeout', '0', true);"
               " PERFORM pg_advisory_xact_lock_shared(" GATE "); RETURN NULL; END $$");
    for (const char *const *table = tables[is_row ? 0 : 1]; *table != NULL; table++)
        cr_assert_str_empty(dlt_postgres_ask(
            &server,
            "CREATE TRIGGER gate BEFORE INSERT OR UPDATE OR DELETE ON %s_stopped_%s"
            " FOR EACH STATEMENT EXECUTE FUNCTION gate()",
            strategy, *table));
    (void)snprintf(address, sizeof address,
                   "host=127.0.0.1 port=%u dbname=locks user=u password=secret", server.port);
    gate = PQconnectdb(address);
    cr_assert_eq(PQstatus(gate), CONNECTION_OK, "%s", PQerrorMessage(gate));
}

static void begin(const char *strategy)
{
    cr_assert(dlt_postgres_start(&server, NULL), "%s", server.why);
    dlt_session_init(&s, &server);
    dlt_session_strategy(&s, strategy, "stopped");
    dlt_session_option(&s, "waiter_lease", "60000"); /* nothing ends by itself here */
    dlt_session_option(&s, "session_grace", "60000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_session_join(&u, &s), DLOCK_OK, "%s", u.err.message);
    gates_make(strategy);
}

static void end(void)
{
    PQfinish(gate);
    close_all();
}

/* The server gives this answer, in 30 s. */
static void await(const char *question, const char *want)
{
    const char *got = "";

    for (int i = 0; i < 3000 && strcmp(got, want) != 0; i++) {
        got = dlt_postgres_ask(&server, "%s", question);
        dlt_sleep_ms(10);
    }
    cr_assert_str_eq(got, want, "%s", question);
}

/* ---- the calls of s ---- */

static enum dlock_status keep(void)
{
    enum dlock_status status = DLOCK_INTERNAL;

    a.req.keep_ms = 60000;
    status = dlt_unlock(&s, &a);
    a.req.keep_ms = 0;
    return status;
}

static enum dlock_status show(enum what what)
{
    struct dlt_holder holders[4];
    struct dlt_queued queued[4];
    size_t count = 4;
    enum dlock_status status = DLOCK_INTERNAL;

    if (what == WAITERS)
        status = dlt_list_waiters(&s, words[what], queued, &count);
    else if (what == LIST)
        status = dlt_list(&s, words[what], holders, &count);
    else
        status = dlt_inspect(&s, words[what], holders, &count);
    cr_assert(status != DLOCK_OK || count == 1, "%s: %zu", words[what], count);
    return status;
}

static enum dlock_status call(enum what what)
{
    switch (what) {
    case ENQUEUE:
        return try_with(&s, &a, DLOCK_REQ_ENQUEUE);
    case REFRESH:
        return try_with(&s, &a, DLOCK_REQ_REFRESH);
    case RENEW:
        return dlt_renew(&s, &a);
    case DOWNGRADE:
        return downgrade(&s, &a);
    case UNLOCK:
    case UNLOCK_READ:
    case PASS:
        return dlt_unlock(&s, &a);
    case KEEP:
        return keep();
    case DEQUEUE:
        return dequeue(&s, &a);
    case BREAK:
        return dlt_break(&s, words[what], NULL);
    case INSPECT:
    case LIST:
    case WAITERS:
        return show(what);
    default:
        return dlt_try(&s, &a);
    }
}

static void granted(struct dlt_session *session, enum dlock_status status, const char *word)
{
    cr_assert_eq(status, DLOCK_OK, "%s: %s", word, session->err.message);
    if (session->grant.fence > last)
        last = session->grant.fence;
}

static void prepare(enum what what)
{
    const char *word = words[what];

    s.call_ms = 5000;
    last = 0;
    dlt_request(&s, &a, word, 'a', 60000);
    dlt_request(&t, &b, word, 'b', 60000);
    dlt_request(&u, &c, word, 'c', 60000);
    if (is_of(what, SELF_IS_READER))
        a.req.mode = DLOCK_SHARED;
    if (what == PERMIT)
        a.req.limit = b.req.limit = c.req.limit = 2;
    if (is_of(what, OTHER_HOLDS))
        granted(&t, dlt_try(&t, &b), word);
    if (is_of(what, SELF_HOLDS))
        granted(&s, dlt_try(&s, &a), word);
    if (what == REFRESH || what == DEQUEUE)
        queue(&s, &a);
    if (what == PASS)
        queue(&t, &b);
    if (what == WAITERS)
        queue(&u, &c);
}

/* ---- the server stops ---- */

struct caller {
    enum what what;
    enum dlock_status status;
    int64_t took_ms;
};

static void *caller_run(void *arg)
{
    struct caller *caller = arg;
    const int64_t begin_ns = dlt_host_now(&s.host);

    caller->status = call(caller->what);
    caller->took_ms = (dlt_host_now(&s.host) - begin_ns) / DLT_NS_PER_MS;
    return NULL;
}

static void call_before(struct caller *caller)
{
    dlt_postgres_pause(&server, true);
    (void)caller_run(caller);
    dlt_postgres_pause(&server, false);
}

/* The statement is there, and waits for the gate, when the server stops. */
static void call_in_the_middle(struct caller *caller, int pid)
{
    pthread_t thread;
    char question[160];

    gate_run("SELECT pg_advisory_lock(" GATE ")");
    cr_assert_eq(pthread_create(&thread, NULL, caller_run, caller), 0);
    (void)snprintf(
        question, sizeof question,
        "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event = 'advisory'", pid);
    await(question, "1");
    dlt_postgres_pause(&server, true);
    (void)pthread_join(thread, NULL);
    dlt_postgres_pause(&server, false);
    gate_run("SELECT pg_advisory_unlock(" GATE ")");
}

/* s makes the call, and is another session afterwards. What the server still had to do is done. */
static void stop(enum what what, bool in_the_middle)
{
    const int pid = PQbackendPID(((struct pg_session *)s.self)->conn.pq);
    struct caller caller = {.what = what, .status = DLOCK_INTERNAL};
    char question[80];

    s.call_ms = CALL_MS;
    if (in_the_middle)
        call_in_the_middle(&caller, pid);
    else
        call_before(&caller);
    cr_assert(dlt_took_within(caller.took_ms, CALL_MS + LATE_MS), "%s: %s", words[what],
              dlt_within_text());
    cr_assert_eq(caller.status, is_of(what, READS) ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN,
                 "%s: %s, %s", words[what], dlock_status_name((int)caller.status), s.err.message);
    dlt_session_close(&s);
    (void)snprintf(question, sizeof question,
                   "SELECT count(*) FROM pg_stat_activity WHERE pid = %d", pid);
    await(question, "0");
    s.call_ms = 5000;
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

/* ---- afterwards ---- */

static void wants(struct dlt_session *session, enum dlock_status got, enum dlock_status want,
                  const char *word)
{
    cr_assert_eq(got, want, "%s: %s, not %s: %s", word, dlock_status_name((int)got),
                 dlock_status_name((int)want), session->err.message);
}

/* What a client that does not know does: it asks again with the same token. */
static void again(enum what what)
{
    enum dlock_status status = call(what);
    const char *word = words[what];
    bool once = false; /* the first time may have done it */

    switch (what) {
    case UNLOCK:
    case UNLOCK_READ:
    case PASS:
    case KEEP:
        once = status == DLOCK_LOST;
        break;
    case BREAK:
        once = status == DLOCK_NOT_HELD;
        break;
    case ENQUEUE:
    case REFRESH:
        once = status == DLOCK_BUSY && (s.grant.flags & DLOCK_GRANT_QUEUED) != 0 &&
               s.grant.queue_position == 0;
        status = DLOCK_BUSY; /* not granted, whoever waits alone */
        break;
    default:
        break;
    }
    cr_assert(once || status == DLOCK_OK, "%s: %s, %s", word, dlock_status_name((int)status),
              s.err.message);
    if (is_of(what, BIT(TRY) | BIT(READ) | BIT(PERMIT)))
        granted(&s, status, word);
}

/* The others find what the call has done, and it is given back. */
static void others(enum what what)
{
    const char *word = words[what];

    if (is_of(what, BIT(TRY) | BIT(READ) | BIT(RENEW) | BIT(KEEP)))
        wants(&t, dlt_try(&t, &b), DLOCK_BUSY, word);
    if (what == PERMIT) {
        granted(&t, dlt_try(&t, &b), word);
        wants(&u, dlt_try(&u, &c), DLOCK_BUSY, word);
    }
    if (what == DOWNGRADE) {
        wants(&u, dlt_try(&u, &c), DLOCK_BUSY, word);
        b.req.mode = DLOCK_SHARED;
        granted(&t, dlt_try(&t, &b), word);
    }
    if (what == WAITERS)
        wants(&u, dequeue(&u, &c), DLOCK_OK, word);
    if (what == PASS)
        granted(&t, refresh(&t, &b), word);
    if (what == BREAK)
        wants(&t, dlt_renew(&t, &b), DLOCK_LOST, word);
    else if (is_of(what, OTHER_HOLDS | BIT(PASS) | BIT(PERMIT) | BIT(DOWNGRADE)))
        wants(&t, dlt_unlock(&t, &b), DLOCK_OK, word);
    if (what == ENQUEUE || what == REFRESH)
        granted(&s, refresh(&s, &a), word);
    if (what == KEEP)
        wants(&t, dlt_break(&t, word, NULL), DLOCK_OK, word);
    if (is_of(what, BIT(TRY) | BIT(READ) | BIT(RENEW) | BIT(PERMIT) | BIT(DOWNGRADE) |
                        BIT(ENQUEUE) | BIT(REFRESH)))
        wants(&s, dlt_unlock(&s, &a), DLOCK_OK, word);
}

/* Nobody has it any more, and the fence rises. */
static void is_free(enum what what)
{
    dlt_request(&u, &c, words[what], 'z', 60000);
    wants(&u, dlt_try(&u, &c), DLOCK_OK, words[what]);
    cr_assert_gt(u.grant.fence, last, "%s", words[what]);
    wants(&u, dlt_unlock(&u, &c), DLOCK_OK, words[what]);
}

static void rows(bool in_the_middle)
{
    begin("row");
    for (int what = 0; what < OF_ROW; what++) {
        if (in_the_middle && is_of((enum what)what, READS))
            continue;
        prepare((enum what)what);
        dlt_session_close(&s); /* else some statements would be prepared first: UNAVAILABLE */
        cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
        stop((enum what)what, in_the_middle);
        again((enum what)what);
        others((enum what)what);
        is_free((enum what)what);
        s.ops->forget(s.self, &a.req);
        t.ops->forget(t.self, &b.req);
        u.ops->forget(u.self, &c.req);
    }
    end();
}

Test(stopped, C4_C8_before_a_statement_of_strategy_row)
{
    rows(false);
}

Test(stopped, C4_C8_in_the_middle_of_a_statement_of_strategy_row)
{
    rows(true);
}

/* The lock ends with the session, whatever the statement has done. */
static void sessions(bool in_the_middle)
{
    begin("session");
    for (int what = 0; what < OF_BOTH; what++) {
        if (in_the_middle && (is_of((enum what)what, READS) || what == UNLOCK))
            continue; /* they write nothing */
        prepare((enum what)what);
        stop((enum what)what, in_the_middle);
        if (is_of((enum what)what, READS)) {
            again((enum what)what);
            wants(&t, dlt_unlock(&t, &b), DLOCK_OK, words[what]);
        }
        is_free((enum what)what);
    }
    end();
}

Test(stopped, C4_C8_before_a_statement_of_strategy_session)
{
    sessions(false);
}

Test(stopped, C4_C8_in_the_middle_of_a_statement_of_strategy_session)
{
    sessions(true);
}
