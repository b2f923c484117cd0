/* SPDX-License-Identifier: MIT */
/* tls_tests.h - what the file of a store defines for tls_tests.c, the tests of TLS, which are
 * linked with it. */
#ifndef DLT_TLS_TESTS_H
#define DLT_TLS_TESTS_H

#include "session_kit.h"
#include "store_server.h"

/* What messages say. */
struct dlt_tls {
    const char *other_host;  /* the certificate is for another host */
    const char *stranger;    /* an authority that is not trusted has signed it */
    const char *unsupported; /* the server has no TLS */
};

extern const struct dlt_tls dlt_tls;

struct dlt_store_server dlt_tls_server(void);
/* Without TLS. False: why. */
bool dlt_tls_server_start_plain(void);

/* A target at that server, without options of TLS. */
void dlt_tls_session(struct dlt_session *session);
/* Before it is opened: as a user that must show a certificate. */
void dlt_tls_session_certified(struct dlt_session *session);
/* The server says whether there is a session with TLS. */
bool dlt_tls_session_is_encrypted(void);

#endif
