/* SPDX-License-Identifier: MIT */
/*
 * tls_module.h - the table of functions between a plugin and the module with TLS.
 *
 * Loading OpenSSL takes longer than a lock on most stores, and most URIs have no TLS. Therefore the
 * functions of tls.h are in tls_for_dlock.so, beside the plugins, and tls_late.c loads it at the
 * first tls_new. Tests are linked with tls.c and need no module.
 */
#ifndef NET_TLS_MODULE_H
#define NET_TLS_MODULE_H

#include "net/tls.h"

#define TLS_MODULE_FILE  "tls_for_dlock.so"
#define TLS_MODULE_ENTRY "dlock_tls" /* tls_module_entry * */

struct tls_functions {
    const char *version; /* of dlock; must be equal in plugin and module */
    size_t stream_size;  /* sizeof(struct stream); the same */
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
    void (*moved)(struct stream *stream);
};

typedef const struct tls_functions *tls_module_entry(void);

#endif
