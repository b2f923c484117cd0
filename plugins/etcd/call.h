/* SPDX-License-Identifier: MIT */
/* call.h - one call of gRPC, and what its answer says: HTTP status, messages, status of gRPC. */
#ifndef ETCD_CALL_H
#define ETCD_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETCD_MESSAGE_MAX ((size_t)4 << 20)  /* bytes of one message of an answer, at most */
#define ETCD_HEADERS_MAX ((size_t)64 << 10) /* bytes of all headers of an answer, at most */
#define ETCD_PREFIX_SIZE 5                  /* of a message: a flag and its length */
#define ETCD_TEXT_SIZE   160

/* How a call ended. */
enum etcd_end {
    ETCD_OPEN,     /* it has not */
    ETCD_ANSWERED, /* with grpc_status; 0: all messages have arrived */
    ETCD_UNSENT,   /* certainly not processed: no byte was sent, or the server said so */
    ETCD_CUT,      /* sent; no status came: the deadline, a reset, the connection ended, or a
                      balancer says that nobody serves now */
    ETCD_FOREIGN,  /* sent; what came is no answer to it */
    ETCD_NO_MEMORY /* for the request, which was not sent. No memory for an answer: ETCD_CUT */
};

/* One call, in the memory of its thread, which must not move it between begin and end. */
struct etcd_call {
    /* Set by the caller. */
    const char *path; /* "/etcdserverpb.KV/Txn" */
    const unsigned char
        *request; /* messages, each with the prefix of gRPC; borrowed until the end */
    size_t request_len;
    /* Gets each message, without prefix, in the leader's thread and with the channel's mutex held.
     * False: it makes no sense, and the call ends with ETCD_FOREIGN. */
    bool (*on_message)(struct etcd_call *call, const unsigned char *message, size_t len);

    /* The outcome. */
    enum etcd_end end;
    int grpc_status;           /* of ETCD_ANSWERED: 0 to 16 */
    char text[ETCD_TEXT_SIZE]; /* grpc-message, printable, or what went wrong */

    /* The channel's. */
    struct etcd_wait *wait;
    struct etcd_call *next;
    int32_t stream_id; /* 0: none */
    size_t sent;       /* bytes of request that nghttp2 has taken */
    bool produced;     /* it is among the bytes to be sent, or was sent: its first byte is number */
    uint64_t begins;   /* `begins` of the connection */

    /* The answer so far. */
    bool has_headers; /* its headers have come */
    bool typed;       /* they say that it is gRPC */
    unsigned http_status;
    int status; /* of gRPC; -1: none yet */
    size_t header_bytes;
    unsigned char prefix[ETCD_PREFIX_SIZE]; /* of the message that is coming */
    size_t prefix_len;
    unsigned char *partial; /* what has come of it */
    size_t partial_len, partial_size;
};

/* Sets the outcome, and what the channel knows of the call, to that of a new one. */
void etcd_call_init(struct etcd_call *call);

/* The functions below are for http2.c. All of them may end the call, which must be open. */

/* A header or trailer of the answer. */
void etcd_call_header(struct etcd_call *call, const char *name, size_t name_len, const char *value,
                      size_t value_len);
/* The headers, or the trailers, are complete. last: nothing follows. */
void etcd_call_headers_done(struct etcd_call *call, bool last);
/* Bytes of messages. True: a message was complete. */
bool etcd_call_data(struct etcd_call *call, const unsigned char *bytes, size_t len);
/* The server has said all. */
void etcd_call_finish(struct etcd_call *call);
/* Ends the call, and frees what it has. */
void etcd_call_end(struct etcd_call *call, enum etcd_end end, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
