/* SPDX-License-Identifier: MIT */
/*
 * channel.h - one connection to a member: HTTP/2 by nghttp2, on which any number of threads have
 * calls of gRPC at once.
 *
 * There is no thread of its own: one of the threads that wait is the leader, which reads for all of
 * them (net/waiters.h). A thread that begins a call sends it itself.
 *
 * A call that is given up is reset (RST_STREAM). A channel that is dead takes no new calls: the
 * server ended the connection or announced its end (GOAWAY), sent nonsense, or gave no answer in
 * time (C9). Calls from before are still answered, unless the connection is gone.
 *
 * The mutex is a leaf, never held in poll, and with TLS held during each call of OpenSSL.
 */
#ifndef ETCD_CHANNEL_H
#define ETCD_CHANNEL_H

#include "net/stream.h"
#include "net/waiters.h"

#include <stdatomic.h>

#define ETCD_MESSAGE_MAX ((size_t)4 << 20) /* bytes of one message of an answer, at most */
#define ETCD_TEXT_SIZE   160

/* How a call ended. */
enum etcd_end {
    ETCD_OPEN,     /* it has not */
    ETCD_ANSWERED, /* with grpc_status; 0: all messages have arrived */
    ETCD_UNSENT,   /* certainly not processed: no byte was sent, or the server said so */
    ETCD_CUT,      /* sent; no status came: the deadline, a reset, or the connection ended */
    ETCD_FOREIGN,  /* what came is no answer to it */
    ETCD_NO_MEMORY
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
    bool begun;        /* a byte of it may have been sent */
    unsigned http_status;
    unsigned char *partial; /* a message that has arrived in part */
    size_t partial_len, partial_size;
};

/* The calls that one thread waits for. Zeroed before etcd_channel_join. */
struct etcd_wait {
    struct waiter waiter;
    struct etcd_channel *channel;
    struct etcd_call *calls;
    bool news; /* a message or an end came since the last etcd_channel_await */
};

struct etcd_channel;

/*
 * Speaks HTTP/2 on a stream that is connected, and takes it over, also when that fails. token: sent
 * as the header "token" with each call, NULL: none; copied. NULL: no memory or no descriptor.
 * authority: "host:port".
 */
struct etcd_channel *etcd_channel_new(struct stream *stream, const char *authority);
/* Ends all. No thread uses it any more. */
void etcd_channel_free(struct etcd_channel *channel);
/* In a forked child: closes descriptors, takes no mutex, frees nothing. */
void etcd_channel_after_fork(struct etcd_channel *channel);

/* Sent as the header "token" with each later call; copied. Before other threads use the channel. */
bool etcd_channel_set_token(struct etcd_channel *channel, const char *token);

/* Takes no more calls. */
bool etcd_channel_dead(const struct etcd_channel *channel);
/* No new calls from now on: the member is not to be asked again. */
void etcd_channel_retire(struct etcd_channel *channel);

/*
 * A thread's calls: join, then begin any number of times, then await as often as needed, then
 * leave. Begun calls leave together, in one write if possible, at `etcd_channel_flush`; await
 * flushes, too. leave resets the calls that are open, which end with ETCD_UNSENT or ETCD_CUT.
 */
void etcd_channel_join(struct etcd_channel *channel, struct etcd_wait *wait);
/* False: the channel is dead, call->end says ETCD_UNSENT. */
bool etcd_channel_begin(struct etcd_wait *wait, struct etcd_call *call);
/* Returns true when there is news (a message of one of the calls, or an end), also from before;
 * false at the deadline or after etcd_channel_interrupt. */
bool etcd_channel_await(struct etcd_wait *wait, int64_t deadline_ns);
/* Gives one call up. */
void etcd_channel_reset(struct etcd_wait *wait, struct etcd_call *call);
void etcd_channel_leave(struct etcd_wait *wait);

/* Ends an await of this wait, now or the next one, from any thread. Waits for nothing. The wait is
 * joined. */
void etcd_channel_interrupt(struct etcd_wait *wait);

/*
 * All of it for calls that end by themselves: n calls in one flight. When it returns, each has an
 * end. A deadline that passes makes the channel dead.
 */
void etcd_channel_run(struct etcd_channel *channel, struct etcd_call *const *calls, size_t n,
                      int64_t deadline_ns);

#endif
