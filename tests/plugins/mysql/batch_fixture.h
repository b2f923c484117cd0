/* SPDX-License-Identifier: MIT */
/* batch_fixture.h - each test has the server and the sessions of fault_kit.h, a session behind a
 * proxy, and a batch. */
#ifndef DLT_BATCH_FIXTURE_H
#define DLT_BATCH_FIXTURE_H

#include "batch_calls.h"
#include "fault_kit.h"
#include "proxy_client.h"

enum { MANY = 8, TTL_MS = 60000, CALL_MS = 5000 };

static struct dlt_proxy proxy;
static struct dlt_session p; /* through the proxy */

static struct dlt_batch many; /* b000, b001, and so on */

static inline void tell(const char *line)
{
    cr_assert(dlt_proxy_tell(&proxy, "%s", line), "%s: %s", line, proxy.answer);
}

static inline void begin(const char *strategy)
{
    server_args = (const char *const[]){"--max-connections=40", NULL};
    server_begin(strategy);
    cr_assert(dlt_proxy_start(&proxy, server.address, "mysql", NULL), "%s", proxy.answer);
    dlt_session_init(&p, &server);
    dlt_session_option(&p, "strategy", strategy);
    dlt_session_option(&p, "table_prefix", "f_");
    (void)snprintf(p.address, sizeof p.address, "%s", proxy.address);
    cr_assert_eq(dlt_session_open(&p), DLOCK_OK, "%s", p.err.message);
    s.call_ms = p.call_ms = CALL_MS;
}

static inline void end(void)
{
    dlt_session_close(&p);
    (void)dlt_proxy_stop(&proxy);
    server_end();
}

static inline bool is_row(void)
{
    return strcmp(s.options[1][1], "row") == 0;
}

/* Whether the name is taken, with strategy insert also by an owner that has no number yet. */
static inline bool held(const char *name)
{
    return strcmp(dlt_maria_ask(&server,
                                "SELECT COUNT(*) FROM f_names WHERE name = '%s' AND until_us > "
                                "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
                                name),
                  "1") == 0;
}

static inline void warm_up(struct dlt_session *session)
{
    dlt_batch_init(&many, session, MANY, "b");
    dlt_batch_try(&many, session);
    dlt_batch_is(&many, 0, many.n, DLOCK_OK);
    dlt_batch_unlock(&many, session);
    dlt_batch_is(&many, 0, many.n, DLOCK_OK);
}

/* Before each change of b003: NEW or OLD is the row. */
static inline void trigger(const char *when, const char *table, const char *row, const char *what)
{
    cr_assert_str_eq(dlt_maria_ask(&server,
                                   "CREATE OR REPLACE TRIGGER t BEFORE %s ON f_%s FOR EACH ROW"
                                   " BEGIN IF %s.name = 'b003' THEN %s; END IF; END",
                                   when, table, row, what),
                     "");
}

#endif
