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

#include "call.h"
#include "net/stream.h"
#include "net/waiters.h"

/* The calls that one thread waits for. Zeroed before etcd_channel_join. */
struct etcd_wait {
    struct waiter waiter;
    struct etcd_channel *channel;
    struct etcd_call *calls; /* the open calls */
    bool pending;            /* a message or an end came since the last etcd_channel_await */
};

struct etcd_channel;

/*
 * Speaks HTTP/2 on a stream that is connected, and takes it over, also when that fails: `stream`
 * is closed then. authority: "host:port". NULL: no memory or no descriptor. Sends nothing.
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
 * How the connection ended; STREAM_OK: it has not. STREAM_FOREIGN: the server does not speak
 * HTTP/2. STREAM_REFUSED: with TLS, the server refused us: no certificate of ours, or a wrong one.
 * Under TLS 1.3 this is heard of at the first call.
 */
enum stream_result etcd_channel_failed(struct etcd_channel *channel);

/*
 * A thread's calls: join, then begin any number of times, then await as often as needed, then
 * leave. Begun calls leave together, in one write if possible, at `etcd_channel_flush`; await
 * flushes, too. leave resets the calls that are open, which end with ETCD_UNSENT or ETCD_CUT.
 */
void etcd_channel_join(struct etcd_channel *channel, struct etcd_wait *wait);
/* False: it has ended already: ETCD_UNSENT, if the channel is dead, or ETCD_NO_MEMORY. */
bool etcd_channel_begin(struct etcd_wait *wait, struct etcd_call *call);
void etcd_channel_flush(struct etcd_wait *wait);
/* Returns true when an event is pending (a message of one of the calls, or an end), also from
 * before; false at the deadline, after etcd_channel_interrupt, or at once when no call is open. */
bool etcd_channel_await(struct etcd_wait *wait, int64_t deadline_ns);
/* Gives one call up, if it is open. */
void etcd_channel_reset(struct etcd_wait *wait, struct etcd_call *call);
void etcd_channel_leave(struct etcd_wait *wait);

/* Ends one await of this wait, now or the next one, from any thread. Waits for nothing. The wait is
 * joined. */
void etcd_channel_interrupt(struct etcd_wait *wait);

/*
 * All of it for calls that end by themselves: n calls in one exchange. When it returns, each has an
 * end. A deadline that passes makes the channel dead, unless it had passed before anything was
 * sent.
 */
void etcd_channel_run(struct etcd_channel *channel, struct etcd_call *const *calls, size_t n,
                      int64_t deadline_ns);

#endif
