/* SPDX-License-Identifier: MIT */
/*
 * tls_module.h - between a plugin and TLS, which is a module of its own.
 *
 * OpenSSL takes longer to load than a lock takes on most stores, and most URIs want no TLS. The
 * functions of tls.h are in tls_for_dlock.so, beside the plugins; tls_late.c loads it at the first
 * tls_new. What is linked with tls.c itself, as tests are, needs neither.
 */
#ifndef NET_TLS_MODULE_H
#define NET_TLS_MODULE_H

#include "net/tls.h"

#define TLS_MODULE_FILE  "tls_for_dlock.so"
#define TLS_MODULE_ENTRY "dlock_tls" /* tls_module_entry * */

struct tls_functions {
    const char *version; /* of dlock; and */
    size_t stream_size;  /* sizeof(struct stream): both as in the plugin, or they do not fit */
    struct tls *(*make)(const struct tls_options *options, enum dlock_status *status, char *why,
                        size_t why_size);
    void (*free)(struct tls *tls);
    enum stream_result (*begin)(struct stream *stream, const struct tls *tls, const char *name);
    enum stream_result (*step)(struct stream *stream, const struct tls *tls, const char *name,
                               short *events);
    enum stream_result (*try_send)(struct stream *stream, const void *bytes, size_t len,
                                   struct stream_step *step);
    enum stream_result (*try_receive)(struct stream *stream, void *bytes, size_t size,
                                      struct stream_step *step);
    bool (*idle)(struct stream *stream);
    void (*end)(struct stream *stream);
};

typedef const struct tls_functions *tls_module_entry(void);

#endif
