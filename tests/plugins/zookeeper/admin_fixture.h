/* SPDX-License-Identifier: MIT */
/* admin_fixture.h - two clients and another program beside one server for all tests, below a base
 * of the test's own. */
#ifndef DLT_ADMIN_FIXTURE_H
#define DLT_ADMIN_FIXTURE_H

#include "zk_kit.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_zk server;
static struct dlt_session s, t;
static struct dlt_zk_client other; /* another program */
static struct dlt_request a, b, c;
static char base[64]; /* of this test */

/* No session ends by itself, however busy the machine is. */
static inline void patient(struct dlt_session *session)
{
    dlt_session_option(session, "ttl", "50000");
    session->call_ms = 20000;
}

static inline void session_init(struct dlt_session *session)
{
    dlt_session_init(session, &server);
    dlt_session_base(session, base);
    patient(session);
}

static inline void open_one(struct dlt_session *session)
{
    cr_assert_eq(dlt_session_open(session), DLOCK_OK, "%s", session->err.message);
}

/* The base is empty and everybody's. */
static inline void begin(const char *name)
{
    (void)snprintf(base, sizeof base, "%s_%s", dlt_path(), name);
    cr_assert(dlt_zk_borrow(&server), "%s", server.why);
    (void)dlt_zk_ask(&server, "deleteall %s", base);
    cr_assert_str_eq(dlt_zk_ask(&server, "create %s", base), base);
    session_init(&s);
    session_init(&t);
    cr_assert(dlt_zk_client_open(&other, &server.members[0], 60000));
}

static inline void begin_open(const char *name)
{
    begin(name);
    open_one(&s);
    open_one(&t);
    dlt_request(&s, &a, "job", 'a', DLT_ZK_TTL_MS);
    dlt_request(&s, &b, "job", 'b', DLT_ZK_TTL_MS);
    dlt_request(&t, &c, "job", 'c', DLT_ZK_TTL_MS);
}

static inline void tear_down(void)
{
    dlt_session_close(&s);
    dlt_session_close(&t);
    if (other.fd > 0)
        dlt_zk_client_close(&other);
    if (base[0] != '\0')
        (void)dlt_zk_ask(&server, "deleteall %s", base);
    dlt_zk_stop(&server);
}

/* A node of another program below the node of a name, which it makes, too. Returns its name. */
static inline const char *foreign(const char *name, const char *prefix, const char *data)
{
    static char made[256];
    const char *path = NULL;

    (void)dlt_zk_client_ask(&other, "create %s/%s", base, name);
    path = dlt_zk_client_ask(&other, "create -e -s %s/%s/%s %s", base, name, prefix, data);
    cr_assert_eq(path[0], '/', "%s", path);
    (void)snprintf(made, sizeof made, "%s", strrchr(path, '/') + 1);
    return made;
}

#endif
