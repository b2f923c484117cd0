/* SPDX-License-Identifier: MIT */
/* tls_bio.h - OpenSSL's way to a socket. Its own one raises SIGPIPE. */
#ifndef NET_TLS_BIO_H
#define NET_TLS_BIO_H

#include <openssl/bio.h>

/* For a non-blocking descriptor, which stays the caller's; NULL: no memory. */
BIO *tls_bio_new(int fd);

#endif
