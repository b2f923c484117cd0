/* SPDX-License-Identifier: MIT */
/* name_kit.h - three clients beside one server for all tests, and requests for the name "job". */
#ifndef DLT_NAME_KIT_H
#define DLT_NAME_KIT_H

#include "connection.h"
#include "queue_calls.h"
#include "session.h"
#include "zk_kit.h"

#include <criterion/criterion.h>
#include <string.h>

#define HEX_OF_A "61616161616161616161616161616161"
#define HEX_OF_B "62626262626262626262626262626262"
#define HEX_OF_C "63636363636363636363636363636363"
#define SOON_MS  1000 /* a leftover is deleted every half tick */

static struct dlt_zk server;
static struct dlt_session s, t, u;
static struct dlt_request a, b, c;
static char base[64];

/* A client of its own, with nodes of this test. */
static inline void client_init(struct dlt_session *session)
{
    dlt_session_init(session, &server);
    dlt_session_base(session, base);
}

/* The server, and an empty base. */
static inline void begin(const char *test)
{
    if (server.count == 0)
        cr_assert(dlt_zk_borrow(&server), "%s", server.why);
    if (server.borrowed)
        (void)snprintf(base, sizeof base, "%s_%s", dlt_path(), test);
    else
        (void)snprintf(base, sizeof base, "/%s", test);
    (void)dlt_zk_ask(&server, "deleteall %s", base);
}

static inline void requests_init(void)
{
    dlt_request(&s, &a, "job", 'a', DLT_ZK_TTL_MS);
    dlt_request(&t, &b, "job", 'b', DLT_ZK_TTL_MS);
    dlt_request(&u, &c, "job", 'c', DLT_ZK_TTL_MS);
}

/* A lease of at most the ttl: the time since the last answer of the session is not in it. */
static inline void lease_counts(const struct dlt_session *session)
{
    cr_assert_gt(session->grant.lease_ms, 0);
    cr_assert_leq(session->grant.lease_ms, DLT_ZK_TTL_MS);
}

static inline void open_all(const char *test)
{
    begin(test);
    client_init(&s);
    client_init(&t);
    client_init(&u);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_session_open(&u), DLOCK_OK, "%s", u.err.message);
    requests_init();
}

static inline void forget(struct dlt_session *session, struct dlt_request *request)
{
    session->ops->forget(session->self, &request->req);
}

static inline void close_all(void)
{
    forget(&u, &c);
    forget(&t, &b);
    forget(&s, &a);
    dlt_session_close(&u);
    dlt_session_close(&t);
    dlt_session_close(&s);
    if (server.borrowed)
        (void)dlt_zk_ask(&server, "deleteall %s", base);
    dlt_zk_stop(&server);
    server.count = 0; /* the next open_all has another one */
}

/* The names of the nodes of contenders for a name, one a line, that have this text in them. */
static inline int nodes_count(const char *name, const char *text)
{
    const char *at = dlt_zk_ask(&server, "ls %s/%s", base, name);
    int count = 0;

    if (strcmp(at, "no node") == 0)
        return 0;
    while (*at != '\0') {
        const char *end = strchrnul(at, '\n');
        const char *found = strstr(at, text);

        count += end > at && found != NULL && found < end;
        at = *end == '\n' ? end + 1 : end;
    }
    return count;
}

/* Waits until so many are left. */
static inline void nodes_left(const char *name, const char *text, int want)
{
    int64_t waited_ms = 0;

    for (; nodes_count(name, text) != want && waited_ms < SOON_MS; waited_ms += 20)
        dlt_sleep_ms(20);
    cr_assert_eq(nodes_count(name, text), want, "%s", dlt_zk_ask(&server, "ls %s/%s", base, name));
}

static inline struct zk_session *inside(const struct dlt_session *session)
{
    return session->self;
}

static inline int64_t session_id(const struct dlt_session *session)
{
    struct zk_session_state state;

    zk_link_state(inside(session)->link, &state);
    return state.session_id;
}

static inline bool is_session(const struct dlt_session *session, int64_t id)
{
    return session_id(session) == id || session_id(session) == 0;
}

/* The servers end the session of a client, which hears of it. The client may take the session back
 * before it is ended, and the servers may not tell a connection that the session had left. */
static inline void expire(struct dlt_session *session)
{
    const int64_t id = session_id(session);

    cr_assert_neq(id, 0);
    for (int i = 0; i < 75 && is_session(session, id); i++) {
        (void)dlt_zk_expire(&server, id);
        zk_link_lock(inside(session)->link);
        zk_connection_hang_up(inside(session)->link);
        zk_link_unlock(inside(session)->link);
        for (int j = 0; j < 20 && is_session(session, id); j++)
            dlt_sleep_ms(10);
    }
    cr_assert_neq(session_id(session), id);
}

static inline void leftovers_gone(const struct dlt_session *session)
{
    int64_t waited_ms = 0;

    for (; zk_leftover_count(&inside(session)->leftovers) > 0 && waited_ms < 10000; waited_ms += 50)
        dlt_sleep_ms(50);
    cr_assert_eq(zk_leftover_count(&inside(session)->leftovers), 0);
}

#endif
