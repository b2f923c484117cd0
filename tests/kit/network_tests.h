/* SPDX-License-Identifier: MIT */
/*
 * network_tests.h - what the file of a store defines for network_tests.c, the tests of a bad
 * network, which are linked with it. The store's strategies.h has the macro EACH.
 */
#ifndef DLT_NETWORK_TESTS_H
#define DLT_NETWORK_TESTS_H

#include "session_kit.h"
#include "store_server.h"

struct dlt_network {
    const char *framing; /* of the proxy, without TLS: see proxy_client.h */
    unsigned frames;     /* of an answer; each of them is lost once */
};

extern const struct dlt_network dlt_network;

struct dlt_store_server dlt_network_server(void);
/* A target at that server. */
void dlt_network_session(struct dlt_session *session, const char *strategy);

#endif
