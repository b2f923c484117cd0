/* SPDX-License-Identifier: MIT */
#include "statements.h"

#include <stdlib.h>
#include <string.h>

#define PLACEHOLDER     "public.dlock_"
#define PATIENCE_MAX_MS 1000

#define HOLDER_COLUMNS                                                                     \
    "SELECT h.shared, h.fence,"                                                            \
    " greatest(ceil(extract(epoch FROM h.until - clock_timestamp()) * 1000), 1)::bigint,"  \
    " greatest(floor(extract(epoch FROM clock_timestamp() - h.since) * 1000), 0)::bigint," \
    " (SELECT count(*) FROM public.dlock_queue q WHERE q.name = h.name"                    \
    " AND q.until > clock_timestamp()), h.name, h.token, h.label"
#define HOLDERS_OF(name)                                                                 \
    " (SELECT 0::bigint AS shared, l.name, l.token, l.fence, l.until, l.since, l.label"  \
    " FROM public.dlock_lease l WHERE l.name = " name " AND l.until > clock_timestamp()" \
    " UNION ALL SELECT 1, r.name, r.token, r.fence, r.until, r.since, r.label"           \
    " FROM public.dlock_reader r WHERE r.name = " name " AND r.until > clock_timestamp()) h"

static const struct {
    const char *text;
    int columns;
    bool reads; /* changes nothing */
} statements[PG_STATEMENTS] = {
    [PG_TAKE] = {"SELECT * FROM public.dlock_take($1, $2, $3 <> 0::bigint, $4, $5, $6, $7, $8, $9)",
                 6, false},
    [PG_RELEASE] = {"SELECT * FROM public.dlock_release($1, $2, $3 <> 0::bigint,"
                    " $4 <> 0::bigint, $5)",
                    2, false},
    [PG_BREAK] = {"SELECT * FROM public.dlock_break($1, $2, $3)", 2, false},
    [PG_RENEW] = {"SELECT * FROM public.dlock_renew($1::bytea[], $2::bytea[], $3::bigint[],"
                  " $4::boolean[], $5)",
                  4, false},
    [PG_INSPECT] = {HOLDER_COLUMNS " FROM" HOLDERS_OF("$1"), 8, true},
    /* substr and not LIKE: a name may hold any byte. */
    [PG_LIST] = {HOLDER_COLUMNS " FROM (SELECT name FROM public.dlock_lease WHERE name >= $1"
                                " AND name < $2 AND name > $3"
                                " AND (until > clock_timestamp()"
                                " OR readers_until > clock_timestamp())"
                                " ORDER BY name LIMIT $4) n CROSS JOIN LATERAL" HOLDERS_OF(
                                    "n.name") " ORDER BY h.name",
                 8, true},
    [PG_POLL] = {"SELECT CASE WHEN m.until > clock_timestamp() THEN"
                 " (SELECT count(*) FROM public.dlock_queue q WHERE q.name = $1"
                 " AND q.seq < m.seq AND q.until > clock_timestamp()) END,"
                 " coalesce(greatest(ceil(extract(epoch FROM nullif(greatest(l.until,"
                 " CASE WHEN m.shared THEN '-infinity' ELSE l.readers_until END), '-infinity')"
                 " - clock_timestamp()) * 1000), 0), 0)::bigint"
                 " FROM (SELECT 1) one LEFT JOIN public.dlock_lease l ON l.name = $1"
                 " LEFT JOIN public.dlock_queue m ON m.name = $1 AND m.token = $2",
                 2, true},
    [PG_SESSION_TAKE] = {"SELECT result, fence, pid, n_number FROM"
                         " public.dlock_session_take($1, $2::bigint, $3, $4 <> 0::bigint, $5, $6)",
                         4, false},
    [PG_SESSION_CONFIRM] = {"SELECT CASE WHEN f IS NULL THEN 4 ELSE 1 END, f, pg_backend_pid(), $2"
                            " FROM public.dlock_session_confirm($1, $2, $3, $4 <> 0::bigint, $5,"
                            " $6) AS f",
                            4, false},
    [PG_SESSION_WAIT] = {"SELECT public.dlock_session_wait($1, $2 <> 0::bigint, $3, $4)", 1, false},
    [PG_SESSION_RELEASE] = {"SELECT public.dlock_session_release($1, $2, $3, $4 <> 0::bigint)", 1,
                            false},
    [PG_SESSION_HOLDERS] = {"SELECT name, is_shared, fence, lease_ms, held_ms, token, label,"
                            " waiters, pid FROM public.dlock_session_holders($1,"
                            " $2 <> 0::bigint, $3 <> 0::bigint)",
                            9, true},
};

struct pg_texts {
    const char *text[PG_STATEMENTS];
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
    }
    return texts;
}

const char *pg_statements_get(struct pg_shared *shared, enum pg_statement which)
{
    struct pg_texts *texts = atomic_load(&shared->texts), *mine = NULL;

    if (texts == NULL) {
        mine = texts_make(&shared->config);
        if (mine == NULL || atomic_compare_exchange_strong(&shared->texts, &texts, mine))
            texts = mine;
        else
            free(mine); /* another thread was faster */
    }
    return texts != NULL ? texts->text[which] : NULL;
}

enum dlock_status pg_statements_run(struct pg_connection *conn, enum pg_statement which,
                                    const struct pg_params *params, int rows, PGresult **result,
                                    struct dlock_error *err)
{
    const char *text = pg_statements_get(conn->shared, which);
    enum dlock_status status = DLOCK_INTERNAL;

    *result = NULL;
    if (text == NULL)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0, "no memory for a statement");
    if (statements[which].reads)
        status = pg_query_read(conn, text, params, result, err);
    else
        status = pg_query(conn, text, params, result, err);
    if (status != DLOCK_OK)
        return status;
    return pg_query_expect(conn, result, statements[which].columns, rows, err);
}

int64_t pg_statements_patience_ms(const struct pg_connection *conn)
{
    int64_t left_ms = (conn->deadline_ns - pg_connection_now(conn)) / DL_NS_PER_MS * 3 / 4;

    if (left_ms > PATIENCE_MAX_MS)
        return PATIENCE_MAX_MS;
    return left_ms > 1 ? left_ms : 1;
}
