/* SPDX-License-Identifier: MIT */
/*
 * http2.h - calls as streams of HTTP/2, by nghttp2: bytes in, bytes out, no I/O.
 *
 * One thread at a time uses it. When a function returns false, the connection is of no use any
 * more: only etcd_http2_why and etcd_http2_fini are allowed then. nghttp2 has ended no call by
 * itself in this case.
 */
#ifndef ETCD_HTTP2_H
#define ETCD_HTTP2_H

#include "call.h"

#include <nghttp2/nghttp2.h>

#define ETCD_OUT_SIZE ((size_t)64 << 10)

struct etcd_http2 {
    nghttp2_session *session;
    const char *scheme;
    char *authority;
    char *token; /* NULL: none */
    /* A message of the call has come, or the call has ended: the stream knows it no more. */
    void (*on_event)(void *ctx, struct etcd_call *call);
    void *ctx;
    /* To be sent: the first out_len bytes, the last ones of `produced`. The owner takes bytes from
     * the front. */
    unsigned char out[ETCD_OUT_SIZE];
    size_t out_len;
    uint64_t produced; /* bytes since the connection began */
    bool settled;      /* the server has said SETTINGS: it speaks HTTP/2 */
    bool departing;    /* the server has said GOAWAY */
    bool broken;
    bool foreign; /* the server does not speak HTTP/2 */
    char why[ETCD_TEXT_SIZE];
    unsigned idle_frames; /* frames since the last frame that was of use to a call */
    int64_t idle_since_ns;
};

/* Zeroed before. scheme: lives as long. False: no memory; fini is harmless then. */
bool etcd_http2_init(struct etcd_http2 *http2, const char *scheme, const char *authority);
void etcd_http2_fini(struct etcd_http2 *http2);
/* Sent with each later call; copied. False: no memory. */
bool etcd_http2_set_token(struct etcd_http2 *http2, const char *token);

/* Why the connection is of no use. */
const char *etcd_http2_why(const struct etcd_http2 *http2);
/* False: the server takes no new calls, or the numbers of streams have run out. */
bool etcd_http2_open(const struct etcd_http2 *http2);

/* Begins a call, which was initialised. False: it has ended, with ETCD_NO_MEMORY or ETCD_UNSENT. */
bool etcd_http2_submit(struct etcd_http2 *http2, struct etcd_call *call);
/* Ends an open call: ETCD_UNSENT, if none of it was produced, or ETCD_CUT. Without on_event. */
void etcd_http2_reset(struct etcd_http2 *http2, struct etcd_call *call, const char *text);

/* Bytes from the server. now_ns: any clock. */
bool etcd_http2_receive(struct etcd_http2 *http2, const unsigned char *bytes, size_t len,
                        int64_t now_ns);
/* Puts what can be sent now behind the first out_len bytes of `out`, as far as it fits. */
bool etcd_http2_produce(struct etcd_http2 *http2);

#endif
