/* SPDX-License-Identifier: MIT */
/*
 * tls_context.h - the files and rules of a client's options, as OpenSSL wants them.
 *
 * A certificate is renewed while a client is open: each new connection uses what is in the files
 * then. They are read when one of them is another file, or was changed.
 */
#ifndef NET_TLS_CONTEXT_H
#define NET_TLS_CONTEXT_H

#include "net/tls.h"

#include <openssl/ssl.h>

#define TLS_NO_MEMORY "TLS: no memory"

struct tls_context;

/* Copies the options. NULL: *status and why are set, as by tls_new. */
struct tls_context *tls_context_new(const struct tls_options *options, enum dlock_status *status,
                                    char *why, size_t why_size);
/* NULL is fine. Streams may still use what tls_context_begin returned. */
void tls_context_free(struct tls_context *context);

/* For one connection. NULL: a file cannot be used now, as while it is replaced; why says so.
 * Any thread. */
SSL *tls_context_begin(struct tls_context *context, char *why, size_t why_size);

/* False: a file was changed since the last tls_context_begin. Any thread. */
bool tls_context_is_current(struct tls_context *context);

#endif
