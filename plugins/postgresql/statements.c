/* SPDX-License-Identifier: MIT */
#include "statements.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PLACEHOLDER "public.dlock_"

/* A setting of the session: what PG_PASS keeps for PG_TELL, which empties it: a PASS that fails
 * leaves what was there. */
#define KEPT "dlock.wake"

#define HOLDER_COLUMNS                                                                     \
    "SELECT h.shared, h.fence,"                                                            \
    " greatest(ceil(extract(epoch FROM h.until - clock_timestamp()) * 1000), 1)::bigint,"  \
    " greatest(floor(extract(epoch FROM clock_timestamp() - h.since) * 1000), 0)::bigint," \
    " (SELECT count(*) FROM public.dlock_queue q WHERE q.name = h.name"                    \
    " AND q.until > clock_timestamp()), h.name, h.token, h.label, h.lim, h.permit, h.kept"
/* A column that tables of functions 1 do not have: null there. */
#define ADDED(row, column, type) "coalesce((to_jsonb(" row ") ->> '" column "')::" type ", '0')"
#define HOLDERS_OF(name)                                                                 \
    " (SELECT 0::bigint AS shared, l.name, l.token, l.fence, l.until, l.since, l.label," \
    " 0::bigint AS lim, 0::bigint AS permit, false AS kept"                              \
    " FROM public.dlock_lease l WHERE l.name = " name " AND l.until > clock_timestamp()" \
    " UNION ALL SELECT (d.lim = 0)::int, d.name, d.token, d.fence, d.until, d.since,"    \
    " d.label, d.lim, d.permit, d.kept"                                                  \
    " FROM (SELECT r.name, r.token, r.fence, r.until, r.since, r.label,"                 \
    " " ADDED("r", "lim", "bigint") " AS lim, " ADDED(                                   \
        "r", "permit",                                                                   \
        "bigint") " AS permit, " ADDED("r", "kept",                                      \
                                       "boolean") " AS kept"                             \
                                                  " FROM public.dlock_reader r"          \
                                                  " WHERE r.name = " name                \
                                                  " AND r.until > clock_timestamp()) d) h"

/* The rows of names that nobody waits for, where nobody else has locked them and they are as `is`
 * says. A row that was locked is updated by its place: the name is not looked up twice. */
#define UPDATE_EACH(set, elements, is, returning)                                                \
    "UPDATE public.dlock_lease l SET " set " FROM (SELECT x.*, r.place FROM unnest(" elements    \
    " CROSS JOIN LATERAL"                                                                        \
    " (SELECT d.ctid AS place FROM public.dlock_lease d WHERE d.name = x.name AND d.waiters = 0" \
    " AND " is " FOR UPDATE SKIP LOCKED) r) n WHERE l.ctid = n.place RETURNING n.i, " returning
#define TAKEN                                                                             \
    "token = n.token, fence = l.fence + 32, since = clock_timestamp(), label = n.label, " \
    "until = clock_timestamp() + n.ttl * interval '1 ms'"
/* The bound ends with the client's deadline: now() is the time before the wait for a lock of the
 * table, statement_timestamp() the time after it. */
#define FREE                                                         \
    "d.until <= clock_timestamp() AND d.readers_until = '-infinity'" \
    " AND clock_timestamp() < now() + $5 * interval '1 ms'"
/* Once, when there is a row. */
#define DURABLE                                                                             \
    "(SELECT CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')" \
    " THEN set_config('synchronous_commit', 'on', true) END)"

/*
 * A call for each element. All clients make the calls in the order of the names: a transaction that
 * waits for a row has locked rows of smaller names only, so that two batches cannot wait for each
 * other. The commit waits for the disk if one of the calls says so.
 */
#define CALL_EACH(columns, elements, begins_ms, skips, call)                                \
    "WITH done AS MATERIALIZED (SELECT c.*, current_setting('synchronous_commit') AS sync"  \
    " FROM (SELECT x.i, " call " AS f"                                                      \
    " FROM (SELECT * FROM unnest(" elements " ORDER BY u.name, u.i OFFSET 0) x"             \
    " WHERE clock_timestamp() < now() + " begins_ms " * interval '1 ms'"                    \
    " AND CASE WHEN " skips " <> 0 THEN EXISTS (SELECT FROM public.dlock_lease r"           \
    " WHERE r.name = x.name FOR UPDATE SKIP LOCKED)"                                        \
    " OR NOT EXISTS (SELECT FROM public.dlock_lease r WHERE r.name = x.name) ELSE true END" \
    " OFFSET 0) c)"                                                                         \
    " SELECT " columns ", d.i, (SELECT set_config('synchronous_commit', CASE WHEN"          \
    " bool_or(e.sync <> 'off') THEN 'on' ELSE 'off' END, true) FROM done e) FROM done d"

#define TAKE_EACH(what, call, permit)                                                           \
    CALL_EACH(                                                                                  \
        "(d.f).result, (d.f).number, (d.f).ms, (d.f).ahead, (d.f).others, (d.f).wake, " permit, \
        "$1, $2, $3, $4, $5, $6) WITH ORDINALITY AS u (name, token, ttl, what, label, " what    \
        ", i)",                                                                                 \
        "$7", "$8",                                                                             \
        "public.dlock_" call "(x.name, x.token, x." what                                        \
        ", x.ttl, x.what, $10, $11, x.label, $9)")

enum is {
    READS = 1, /* changes nothing */
    OFTEN = 2  /* worth being prepared */
};

static const struct {
    const char *text;
    int columns;
    unsigned is;
} statements[PG_STATEMENTS] = {
    /* A function in FROM would cost a store for its rows. OFFSET 0: it is called once. */
    [PG_TAKE] =
        {"SELECT (x.f).* FROM (SELECT public.dlock_take($1, $2, $3 <> 0::bigint, $4, $5, $6,"
         " $7, $8, $9) AS f OFFSET 0) x",
         6, OFTEN},
    [PG_PERMIT] = {"SELECT (x.f).* FROM (SELECT public.dlock_permit($1, $2, $3, $4, $5, $6, $7, $8,"
                   " $9) AS f OFFSET 0) x",
                   7, OFTEN},
    [PG_RELEASE] = {"SELECT (x.f).* FROM (SELECT public.dlock_release($1, $2, $3 <> 0::bigint,"
                    " $4 <> 0::bigint, $5) AS f OFFSET 0) x",
                    2, OFTEN},
    [PG_KEEP] = {"SELECT public.dlock_keep($1, $2, $3, $4)", 1, OFTEN},
    [PG_BREAK] = {"SELECT * FROM public.dlock_break($1, $2, $3)", 2, 0},
    [PG_RENEW] = {"SELECT * FROM public.dlock_renew($1::bytea[], $2::bytea[], $3::bigint[],"
                  " $4::boolean[], $5)",
                  4, OFTEN},
    [PG_INSPECT] = {HOLDER_COLUMNS " FROM" HOLDERS_OF("$1"), 11, READS},
    /* substr and not LIKE: a name may hold any byte. */
    [PG_LIST] = {HOLDER_COLUMNS " FROM (SELECT name FROM public.dlock_lease WHERE name >= $1"
                                " AND name < $2 AND name > $3"
                                " AND (until > clock_timestamp()"
                                " OR readers_until > clock_timestamp())"
                                " ORDER BY name LIMIT $4) n CROSS JOIN LATERAL" HOLDERS_OF(
                                    "n.name") " ORDER BY h.name",
                 11, READS},
    /* The row of the name knows the last entry that left the head: the index leads to the rest. */
    [PG_WAITERS] = {"SELECT q.shared, q.token, q.label FROM public.dlock_queue q"
                    " WHERE q.name = $1 AND q.until > clock_timestamp() AND q.seq > coalesce("
                    "(SELECT l.head FROM public.dlock_lease l WHERE l.name = $1), 0)"
                    " ORDER BY q.seq",
                    3, READS},
    [PG_POLL] = {"SELECT CASE WHEN m.until > clock_timestamp() THEN"
                 " (SELECT count(*) FROM public.dlock_queue q WHERE q.name = $1"
                 " AND q.seq < m.seq AND q.until > clock_timestamp()) END,"
                 " coalesce(greatest(ceil(extract(epoch FROM nullif(greatest(l.until,"
                 " CASE WHEN m.shared THEN '-infinity' WHEN " ADDED(
                     "m", "lim",
                     "bigint") " > 1"
                               " THEN (SELECT CASE WHEN count(*) < " ADDED(
                                   "m", "lim",
                                   "bigint") " THEN '-infinity' ELSE min(d.until) END FROM "
                                             "public.dlock_reader d"
                                             " WHERE d.name = $1 AND d.until > clock_timestamp())"
                                             " ELSE l.readers_until END), '-infinity')"
                                             " - clock_timestamp()) * 1000), 0), 0)::bigint"
                                             " FROM (SELECT 1) one LEFT JOIN public.dlock_lease l "
                                             "ON l.name = $1"
                                             " LEFT JOIN public.dlock_queue m ON m.name = $1 AND "
                                             "m.token = $2",
                 2, READS},
    [PG_NOTIFY] = {"SELECT pg_notify($1, $2)", 1, OFTEN},
    [PG_PASS] = {"SELECT (x.f).result, set_config('" KEPT "', coalesce((x.f).wake, ''), false) AS"
                 " wake FROM (SELECT public.dlock_release($1, $2, $3 <> 0::bigint,"
                 " $4 <> 0::bigint, $5) AS f OFFSET 0) x",
                 2, OFTEN},
    [PG_TELL] = {"SELECT pg_notify(split_part(w, ' ', 1), substr(w, strpos(w, ' ') + 1))"
                 " FROM (SELECT w, set_config('" KEPT "', '', false) FROM"
                 " (SELECT current_setting('" KEPT "', true) AS w OFFSET 0) y OFFSET 0) x"
                 " WHERE w <> '' AND strpos(w, E'\\n') = 0 AND NOT starts_with(w, $1)",
                 1, OFTEN},
    [PG_TAKE_FREE] = {UPDATE_EACH(
                          TAKEN,
                          "$1, $2, $3, $4) WITH ORDINALITY AS x (name, token, ttl, label, i)", FREE,
                          "l.fence, " DURABLE),
                      3, OFTEN},
    [PG_FREE_HELD] = {UPDATE_EACH("until = '-infinity', label = NULL",
                                  "$1, $2) WITH ORDINALITY AS x (name, token, i)",
                                  "d.token = x.token AND d.until > clock_timestamp()",
                                  "(SELECT set_config('synchronous_commit', 'off', true))"),
                      2, OFTEN},
    [PG_TAKES] = {TAKE_EACH("shared", "take", "NULL::bigint"), 9, OFTEN},
    [PG_PERMITS] = {TAKE_EACH("most", "permit", "(d.f).permit"), 9, OFTEN},
    [PG_RELEASES] = {CALL_EACH("(d.f).result, (d.f).wake",
                               "$1, $2) WITH ORDINALITY AS u (name, token, i)", "$3", "$4",
                               "public.dlock_release(x.name, x.token, true, false, $5)"),
                     4, OFTEN},
    [PG_KEEPS] = {CALL_EACH("d.f", "$1, $2, $3) WITH ORDINALITY AS u (name, token, ms, i)", "$4",
                            "$5", "public.dlock_keep(x.name, x.token, x.ms, $6)"),
                  3, OFTEN},
    [PG_SESSION_TAKE] = {"SELECT result, fence, pid, n_number FROM"
                         " public.dlock_session_take($1, $2::bigint, $3, $4 <> 0::bigint, $5, $6)",
                         4, OFTEN},
    [PG_SESSION_CONFIRM] = {"SELECT CASE WHEN f IS NULL THEN 4 ELSE 1 END, f, pg_backend_pid(), $2"
                            " FROM public.dlock_session_confirm($1, $2, $3, $4 <> 0::bigint, $5,"
                            " $6) AS f",
                            4, OFTEN},
    [PG_SESSION_WAIT] = {"SELECT public.dlock_session_wait($1, $2 <> 0::bigint, $3, $4)", 1, OFTEN},
    [PG_SESSION_RELEASE] = {"SELECT public.dlock_session_release($1, $2, $3, $4 <> 0::bigint)", 1,
                            OFTEN},
    [PG_SESSION_HOLDERS] = {"SELECT name, is_shared, fence, lease_ms, held_ms, token, label,"
                            " waiters, pid FROM public.dlock_session_holders($1,"
                            " $2 <> 0::bigint, $3 <> 0::bigint)",
                            9, READS},
};

_Static_assert(PG_STATEMENTS <= 32, "a connection has a bit for each");

#define STATEMENT_NAME_SIZE 24

struct pg_texts {
    const char *text[PG_STATEMENTS];
    char name[PG_STATEMENTS][STATEMENT_NAME_SIZE];
    char room[];
};

/* Copies the text to `out` with `"schema"."prefix...` for the placeholder and a quote behind the
 * identifier. Returns the length. out NULL: only counts. */
static size_t expand(const struct pg_config *config, const char *text, char *out)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    char name[PG_NAME_MAX + PG_PREFIX_MAX + 8];
    size_t name_len =
        (size_t)snprintf(name, sizeof name, "\"%s\".\"%s", config->schema, config->prefix);
    size_t len = 0;

    while (*text != '\0') {
        const char *at = strstr(text, PLACEHOLDER);
        size_t plain = at != NULL ? (size_t)(at - text) : strlen(text);
        size_t rest = at != NULL ? strspn(at + strlen(PLACEHOLDER), word) : 0;

        if (out != NULL)
            memcpy(out + len, text, plain);
        len += plain;
        text += plain;
        if (at == NULL)
            break;
        text += strlen(PLACEHOLDER);
        if (out != NULL) {
            memcpy(out + len, name, name_len);
            memcpy(out + len + name_len, text, rest);
            out[len + name_len + rest] = '"';
        }
        len += name_len + rest + 1;
        text += rest;
    }
    if (out != NULL)
        out[len] = '\0';
    return len;
}

char *pg_statements_expand(const struct pg_config *config, const char *text)
{
    char *out = malloc(expand(config, text, NULL) + 1);

    if (out != NULL)
        (void)expand(config, text, out);
    return out;
}

/* The same name is the same text: a session may come from a client with other tables. (FNV-1a) */
static void name_make(const char *text, char name[STATEMENT_NAME_SIZE])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    (void)snprintf(name, STATEMENT_NAME_SIZE, "dlock_%016" PRIx64, hash);
}

static struct pg_texts *texts_make(const struct pg_config *config)
{
    size_t size = sizeof(struct pg_texts);
    struct pg_texts *texts = NULL;
    char *at = NULL;

    for (int i = 0; i < PG_STATEMENTS; i++)
        size += expand(config, statements[i].text, NULL) + 1;
    texts = malloc(size);
    if (texts == NULL)
        return NULL;
    at = texts->room;
    for (int i = 0; i < PG_STATEMENTS; i++) {
        texts->text[i] = at;
        at += expand(config, statements[i].text, at) + 1;
        name_make(texts->text[i], texts->name[i]);
    }
    return texts;
}

/* Valid as long as the shared part of the client. NULL: no memory. */
static const struct pg_texts *texts_get(struct pg_shared *shared)
{
    struct pg_texts *texts = atomic_load(&shared->texts), *mine = NULL;

    if (texts == NULL) {
        mine = texts_make(&shared->config);
        if (mine == NULL || atomic_compare_exchange_strong(&shared->texts, &texts, mine))
            texts = mine;
        else
            free(mine); /* another thread was faster */
    }
    return texts;
}

/* *named: the statement has its name in this session. Its first time is not worth it. */
static enum dlock_status prepare(struct pg_connection *conn, enum pg_statement which,
                                 const struct pg_texts *texts, const struct pg_params *params,
                                 bool *named, struct dlock_error *err)
{
    const uint32_t bit = UINT32_C(1) << which;
    const bool first = (conn->used & bit) == 0;
    enum dlock_status status = DLOCK_OK;

    *named = false;
    if (conn->pooled || conn->isolate || (statements[which].is & OFTEN) == 0)
        return DLOCK_OK;
    conn->used |= bit;
    if (first)
        return DLOCK_OK;
    if ((conn->prepared & bit) == 0)
        status = pg_query_prepare(conn, texts->name[which], texts->text[which], params, err);
    if (status != DLOCK_OK && err->code == pg_connection_error_code("42P05"))
        status = DLOCK_OK; /* it is there already */
    if (status == DLOCK_OK)
        conn->prepared |= bit;
    *named = status == DLOCK_OK;
    return status;
}

/* The server has lost the prepared statement, or the function has changed since. */
static bool is_forgotten(const struct pg_connection *conn, const struct dlock_error *err)
{
    return !conn->dead && (err->code == pg_connection_error_code("26000") ||
                           err->code == pg_connection_error_code("0A000"));
}

static enum dlock_status run(struct pg_connection *conn, enum pg_statement which,
                             const struct pg_texts *texts, const struct pg_params *params,
                             PGresult **result, struct dlock_error *err)
{
    bool named = false;
    enum dlock_status status = prepare(conn, which, texts, params, &named, err);

    if (status == DLOCK_OK && named) {
        status = pg_query_prepared(conn, texts->name[which], params, result, err);
        if (status == DLOCK_OK || !is_forgotten(conn, err))
            return status;
        conn->prepared = 0;
        status = DLOCK_OK;
    }
    if (status != DLOCK_OK)
        return status;
    if ((statements[which].is & READS) != 0)
        return pg_query_read(conn, texts->text[which], params, result, err);
    return pg_query(conn, texts->text[which], params, result, err);
}

enum dlock_status pg_statements_run(struct pg_connection *conn, enum pg_statement which,
                                    const struct pg_params *params, int rows, PGresult **result,
                                    struct dlock_error *err)
{
    const struct pg_texts *texts = texts_get(conn->shared);
    enum dlock_status status = DLOCK_INTERNAL;

    *result = NULL;
    if (texts == NULL)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0, "no memory for a statement");
    status = run(conn, which, texts, params, result, err);
    if (status != DLOCK_OK)
        return status;
    return pg_query_expect(conn, result, statements[which].columns, rows, err);
}

/* Both are named, or the session cannot have names. */
static enum dlock_status prepare_both(struct pg_connection *conn, const struct pg_texts *texts,
                                      const struct pg_params *const params[2],
                                      struct dlock_error *err)
{
    static const enum pg_statement which[2] = {PG_PASS, PG_TELL};
    enum dlock_status status = DLOCK_OK;
    bool named = true;

    for (int i = 0; i < 2 && status == DLOCK_OK && named; i++) {
        conn->used |= UINT32_C(1) << which[i];
        status = prepare(conn, which[i], texts, params[i], &named, err);
    }
    return status == DLOCK_OK && !named ? DLOCK_UNSUPPORTED : status;
}

enum dlock_status pg_statements_pass(struct pg_connection *conn, const struct pg_params *params,
                                     const struct pg_params *tell, PGresult **result, bool *sent,
                                     struct dlock_error *err)
{
    const struct pg_texts *texts = texts_get(conn->shared);
    const struct pg_params *const both[2] = {params, tell};
    enum dlock_status status = DLOCK_INTERNAL;

    *result = NULL;
    *sent = false;
    if (texts == NULL)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0, "no memory for a statement");
    status = prepare_both(conn, texts, both, err);
    if (status != DLOCK_OK)
        return status;
    status = pg_query_prepared_pair(
        conn, (const char *const[2]){texts->name[PG_PASS], texts->name[PG_TELL]}, both, result,
        sent, err);
    if (status == DLOCK_OK)
        return pg_query_expect(conn, result, statements[PG_PASS].columns, 1, err);
    if (!is_forgotten(conn, err))
        return status;
    conn->prepared = 0;
    return DLOCK_UNSUPPORTED;
}

int64_t pg_statements_patience_ms(const struct pg_connection *conn)
{
    int64_t left_ms = (conn->deadline_ns - pg_connection_now(conn)) / DL_NS_PER_MS * 3 / 4;

    if (left_ms > PG_STATEMENTS_PATIENCE_MS)
        return PG_STATEMENTS_PATIENCE_MS;
    return left_ms > 1 ? left_ms : 1;
}

int64_t pg_statements_less_patience_ms(const struct pg_connection *conn)
{
    const int64_t patience_ms = pg_statements_patience_ms(conn);

    return !conn->pooled && patience_ms == PG_STATEMENTS_PATIENCE_MS ? 0 : patience_ms;
}
