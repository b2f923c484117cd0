/* SPDX-License-Identifier: MIT */
/* batch_fixture.h - batches of one session, beside fault_fixture.h, with a proxy before another
 * one. */
#ifndef DLT_BATCH_FIXTURE_H
#define DLT_BATCH_FIXTURE_H

#include "fault_fixture.h"
#include "proxy_client.h"

enum { MANY = 8, MOST = 150, TTL_MS = 60000 };

static struct dlt_proxy proxy;
static struct dlt_session p; /* through the proxy */

struct batch {
    struct dlt_request requests[MOST];
    char names[MOST][24];
    struct dlock_error errors[MOST];
    struct dlock_batch_op elements[MOST], *ops[MOST];
    size_t n;
};
static struct batch many;

static inline void tell(const char *line)
{
    cr_assert(dlt_proxy_tell(&proxy, "%s", line), "%s: %s", line, proxy.answer);
}

static inline void begin_batch(const char *strategy)
{
    server_args = (const char *const[]){"--max-connections=40", NULL};
    begin(strategy);
    cr_assert(dlt_proxy_start(&proxy, server.address, "mysql", NULL), "%s", proxy.answer);
    dlt_session_init(&p, &server);
    dlt_session_option(&p, "strategy", strategy);
    dlt_session_option(&p, "table_prefix", "f_");
    (void)snprintf(p.address, sizeof p.address, "%s", proxy.address);
    cr_assert_eq(dlt_session_open(&p), DLOCK_OK, "%s", p.err.message);
}

static inline void end_batch(void)
{
    dlt_session_close(&p);
    (void)dlt_proxy_stop(&proxy);
    end();
}

#define begin begin_batch
#define end   end_batch

static inline bool is_row(void)
{
    return strcmp(s.options[1][1], "row") == 0;
}

/* ---- batches ---- */

static inline void due(struct batch *batch, struct dlt_session *session, int64_t timeout_ms)
{
    for (size_t i = 0; i < batch->n; i++) {
        batch->errors[i] = (struct dlock_error)DLOCK_ERROR_INIT;
        batch->elements[i] =
            (struct dlock_batch_op){.struct_size = sizeof batch->elements[i],
                                    .status = DLOCK_INTERNAL,
                                    .req = dlt_due(session, &batch->requests[i], timeout_ms),
                                    .err = &batch->errors[i]};
        batch->elements[i].grant = (struct dlock_grant){
            .struct_size = sizeof(struct dlock_grant), .waiters = UINT32_MAX, .holder_ms = -1};
        batch->ops[i] = &batch->elements[i];
    }
}

/* The names b0, b1 and so on, for owners from `owner` on. */
static inline void make(struct batch *batch, struct dlt_session *session, size_t n,
                        unsigned char owner)
{
    batch->n = n;
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(batch->names[i], sizeof batch->names[i], "b%zu", i);
        dlt_request(session, &batch->requests[i], batch->names[i], (unsigned char)(owner + i),
                    TTL_MS);
    }
}

static inline void try_all(struct batch *batch, struct dlt_session *session)
{
    due(batch, session, 5000);
    cr_assert_eq(session->ops->trylock_batch(session->self, batch->ops, batch->n, &session->err),
                 DLOCK_OK, "%s", session->err.message);
}

static inline void unlock_all(struct batch *batch, struct dlt_session *session)
{
    due(batch, session, 5000);
    cr_assert_eq(session->ops->unlock_batch(session->self, batch->ops, batch->n, &session->err),
                 DLOCK_OK, "%s", session->err.message);
}

static inline void is(const struct batch *batch, size_t i, enum dlock_status status)
{
    cr_assert_eq(batch->elements[i].status, status, "%zu: %s, not %s: %s", i,
                 dlock_status_name((int)batch->elements[i].status), dlock_status_name((int)status),
                 batch->errors[i].message);
}

/* All but one. */
static inline void each_but(const struct batch *batch, size_t but, enum dlock_status status)
{
    for (size_t i = 0; i < batch->n; i++)
        if (i != but)
            is(batch, i, status);
}

static inline void each_is(const struct batch *batch, enum dlock_status status)
{
    each_but(batch, batch->n, status);
}

static inline bool held(const char *name)
{
    struct dlt_holder holder = {.name = ""};
    size_t count = 1;

    cr_assert_eq(dlt_inspect(&u, name, &holder, &count), DLOCK_OK, "%s", u.err.message);
    return holder.name[0] != '\0';
}

static inline void warm_up(struct dlt_session *session)
{
    make(&many, session, MANY, 100);
    try_all(&many, session);
    each_is(&many, DLOCK_OK);
    unlock_all(&many, session);
    each_is(&many, DLOCK_OK);
}

/* Before each change of b3: NEW or OLD is the row. */
static inline void trigger(const char *when, const char *table, const char *row, const char *what)
{
    cr_assert_str_eq(dlt_maria_ask(&server,
                                   "CREATE OR REPLACE TRIGGER t BEFORE %s ON f_%s FOR EACH ROW"
                                   " BEGIN IF %s.name = 'b3' THEN %s; END IF; END",
                                   when, table, row, what),
                     "");
}

#endif
