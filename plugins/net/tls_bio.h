/* SPDX-License-Identifier: MIT */
/* tls_bio.h - connects OpenSSL to a socket. OpenSSL's own socket BIO raises SIGPIPE. */
#ifndef NET_TLS_BIO_H
#define NET_TLS_BIO_H

#include <openssl/bio.h>

/* fd: non-blocking; the caller keeps and closes it. NULL: no memory. */
BIO *tls_bio_new(int fd);

#endif
