/* SPDX-License-Identifier: MIT */
/* name_kit.h - three clients beside one member for all tests, and requests for the name "job". */
#ifndef DLT_NAME_KIT_H
#define DLT_NAME_KIT_H

#include "etcd_kit.h"
#include "queue_calls.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_etcd server;
static struct dlt_session s, t, u;
static struct dlt_request a, b, c;
static char path[64];

/* A client of its own, with keys of this test. */
static inline void client_init(struct dlt_session *session)
{
    dlt_session_init(session, &server);
    dlt_session_prefix(session, path);
}

/* Requests of 60 s. */
static inline void open_all(const char *test)
{
    if (server.count == 0)
        cr_assert(dlt_etcd_borrow(&server), "%s", server.why);
    (void)snprintf(path, sizeof path, "%s_%s", dlt_path(), test);
    client_init(&s);
    client_init(&t);
    client_init(&u);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_session_open(&u), DLOCK_OK, "%s", u.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&t, &b, "job", 'b', 60000);
    dlt_request(&u, &c, "job", 'c', 60000);
}

static inline void close_all(void)
{
    dlt_session_close(&u);
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_etcd_stop(&server);
}

/* How many keys begin with the text, behind the prefix of the test. */
static inline int keys_count(const char *text)
{
    const char *said = dlt_etcd_ask(&server, "get --prefix --keys-only '%s/%s'", path + 1, text);
    int count = 0;

    for (; *said != '\0'; said++)
        count += *said != '\n' && (said[1] == '\n' || said[1] == '\0');
    return count;
}

#endif
