/* SPDX-License-Identifier: MIT */
/*
 * peer.h - TLS: whether the server is the one that the URI means, before it is told anything.
 *
 * libmariadb 3.3 checks a certificate as its options say. 3.4 has rules of its own: a program that
 * does not want the host to be checked gets no check at all, a server at a local address may show
 * any certificate, and a variable of the environment switches the check off. But it lets a program
 * replace the check, which is between the handshake and the login.
 */
#ifndef MY_PEER_H
#define MY_PEER_H

#include "connection.h"

/* Before the connection: its options of TLS. NOMEM; CONFIG: this libmariadb has the rules of 3.4,
 * and lets nobody replace them. */
enum dlock_status my_peer_options(MYSQL *mysql, const struct my_config *config,
                                  struct dlock_error *err);

/* The check of 3.4 says in *verdict why it refused a server; 0: it did not. It has to live as long
 * as the connection is being made. false: no memory. */
bool my_peer_verdict_keep(MYSQL *mysql, int *verdict);
enum dlock_status my_peer_refused(const char *endpoint, int verdict, struct dlock_error *err);

#define MY_GREETING_MAX 512u /* bytes; servers send about a hundred */

/* What a server sends first. */
enum my_greeting {
    MY_GREETING_SHORT, /* more is to come; *want says how many bytes make it whole */
    MY_GREETING_TLS,   /* it offers TLS, or refuses us: the library says why */
    MY_GREETING_PLAIN /* it offers none, and the library would go on and show the password's hash */
};

enum my_greeting my_peer_greeting(const unsigned char *bytes, size_t len, size_t *want);

#endif
