/* SPDX-License-Identifier: MIT */
#include "channel.h"
#include "http2.h"
#include "lib/time.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_SIZE     ((size_t)32 << 10)
#define HEARD_NS       (DL_NS_PER_MS / 5) /* a server that spoke just now is still there */
#define CATCH_UP_READS 8                  /* the server may say more than that all the time */

struct etcd_channel {
    struct stream stream;
    _Atomic bool dead;      /* never reset */
    struct waiters waiters; /* its mutex guards all but `chunk`, `more` and in_events */
    struct etcd_http2 http2;
    uint64_t sent;             /* bytes that may have been sent */
    short out_events;          /* what to poll for before sending the rest; 0: nothing to send */
    bool leader_asleep;        /* in poll */
    short leader_events;       /* what it polls for */
    bool send_failed;          /* the reader will find the end and its reason */
    enum stream_result failed; /* how the connection ended; STREAM_OK: it has not */
    char why[STREAM_WHY_SIZE]; /* it ended */
    unsigned open;             /* calls */
    int64_t heard_ns;          /* when the last bytes came */
    bool more;                 /* the leader's: there may be bytes to read already */
    short in_events;           /* the leader's: what to poll for before reading */
    unsigned char chunk[CHUNK_SIZE]; /* the leader's: bytes just read */
};

static int64_t now(const struct etcd_channel *channel)
{
    const struct dlock_host *host = channel->stream.host;

    return host->now_ns(host->ctx);
}

static void lock(struct etcd_channel *channel)
{
    (void)pthread_mutex_lock(&channel->waiters.mutex);
}

static void unlock(struct etcd_channel *channel)
{
    (void)pthread_mutex_unlock(&channel->waiters.mutex);
}

/* ---- calls ---- */

static void drop_locked(struct etcd_call *call)
{
    struct etcd_call **at = &call->wait->calls;

    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    call->wait->channel->open--;
}

/* http2.c calls this. */
static void on_event(void *ctx, struct etcd_call *call)
{
    const struct etcd_channel *channel = ctx;
    struct etcd_wait *wait = call->wait;

    if (call->end != ETCD_OPEN)
        drop_locked(call);
    if (!wait->pending)
        waiters_wake_locked(&wait->waiter, channel->leader_asleep);
    wait->pending = true;
}

/* The connection is of no use any more. No function of http2.h is called after this. */
static void end_locked(struct etcd_channel *channel, enum stream_result failed, const char *why)
{
    enum etcd_end end = failed == STREAM_FOREIGN ? ETCD_FOREIGN : ETCD_CUT;

    if (channel->failed != STREAM_OK)
        return;
    atomic_store(&channel->dead, true);
    channel->failed = failed;
    (void)snprintf(channel->why, sizeof channel->why, "%s", why);
    for (struct waiter *at = channel->waiters.first; at != NULL; at = at->next) {
        struct etcd_wait *wait = (struct etcd_wait *)at;

        for (struct etcd_call *call = wait->calls; call != NULL; call = call->next) {
            bool begun = call->produced && call->begins < channel->sent;

            etcd_call_end(call, begun ? end : ETCD_UNSENT, "%s", why);
            channel->open--;
            wait->pending = true;
        }
        wait->calls = NULL;
        waiters_wake_locked(at, channel->leader_asleep);
    }
}

/* ---- sending ---- */

static void send_locked(struct etcd_channel *channel)
{
    struct etcd_http2 *http2 = &channel->http2;
    struct stream_step step = {.events = POLLOUT};
    enum stream_result result = STREAM_FAILED;

    if (channel->stream.ssl != NULL) /* OpenSSL does not tell what it sent */
        channel->sent = http2->produced;
    result = stream_try_send(&channel->stream, http2->out, http2->out_len, &step);
    if (result == STREAM_OK) {
        http2->out_len -= step.done;
        memmove(http2->out, http2->out + step.done, http2->out_len);
        if (channel->stream.ssl == NULL)
            channel->sent = http2->produced - http2->out_len;
        return;
    }
    channel->out_events = step.events;
    if (result == STREAM_TIMEOUT)
        return;
    channel->send_failed = true;
    channel->out_events = 0;
    atomic_store(&channel->dead, true);
}

/* Sends what can be sent now. */
static void flush_locked(struct etcd_channel *channel)
{
    static const uint64_t one = 1;
    struct etcd_http2 *http2 = &channel->http2;

    channel->out_events = 0;
    while (channel->failed == STREAM_OK && !channel->send_failed && channel->out_events == 0) {
        if (!etcd_http2_produce(http2)) {
            if (http2->out_len > 0)
                send_locked(channel); /* the reason is in it */
            end_locked(channel, http2->foreign ? STREAM_FOREIGN : STREAM_FAILED,
                       etcd_http2_why(http2));
            return;
        }
        if (http2->out_len == 0)
            break;
        send_locked(channel);
    }
    if (channel->out_events != 0 && channel->leader_asleep &&
        (channel->leader_events & channel->out_events) == 0)
        (void)!write(channel->waiters.wake_fd, &one, sizeof one);
}

/* ---- reading ---- */

/* Bytes in `chunk`, or why there are none. */
static void take_in_locked(struct etcd_channel *channel, enum stream_result result,
                           const struct stream_step *step)
{
    struct etcd_http2 *http2 = &channel->http2;

    if (result == STREAM_TIMEOUT || channel->failed != STREAM_OK)
        return;
    channel->heard_ns = now(channel);
    if (result != STREAM_OK) {
        bool refused = channel->stream.alerted || (channel->stream.asked && !http2->settled);

        end_locked(channel, refused ? STREAM_REFUSED : result,
                   http2->departing ? etcd_http2_why(http2) : step->why);
    } else if (!etcd_http2_receive(http2, channel->chunk, step->done, channel->heard_ns)) {
        end_locked(channel, http2->foreign ? STREAM_FOREIGN : STREAM_FAILED, etcd_http2_why(http2));
    } else if (!etcd_http2_open(http2)) {
        atomic_store(&channel->dead, true);
    }
}

/* The caller is the leader; with TLS the mutex is held. */
static enum stream_result read_now(struct etcd_channel *channel, struct stream_step *step)
{
    enum stream_result result =
        stream_try_receive(&channel->stream, channel->chunk, sizeof channel->chunk, step);

    channel->in_events = result == STREAM_TIMEOUT ? step->events : POLLIN;
    channel->more =
        result == STREAM_OK && (step->done == sizeof channel->chunk || channel->stream.ssl != NULL);
    return result;
}

/* Until there is something to do for the leader. True: there may be bytes to read. */
static bool sleep_as_leader(struct etcd_channel *channel, int64_t left_ns)
{
    struct pollfd fds[2] = {{.fd = channel->stream.fd, .events = channel->leader_events},
                            {.fd = channel->waiters.wake_fd, .events = POLLIN}};
    struct timespec timeout = dl_deadline_cond_slice(left_ns);
    uint64_t wakes = 0;

    if (ppoll(fds, 2, &timeout, NULL) <= 0)
        return false;
    if (fds[1].revents != 0)
        (void)!read(channel->waiters.wake_fd, &wakes, sizeof wakes);
    return (fds[0].revents & ~POLLOUT) != 0 || (fds[0].revents != 0 && channel->stream.ssl != NULL);
}

/* Reads once for all, after a sleep if need be. */
static void lead_locked(struct etcd_channel *channel, int64_t left_ns)
{
    struct stream_step step = {.done = 0};
    enum stream_result result = STREAM_TIMEOUT;
    bool secure = channel->stream.ssl != NULL;
    bool readable = channel->more;

    channel->leader_events = (short)(POLLIN | channel->in_events | channel->out_events);
    channel->leader_asleep = true;
    unlock(channel);
    if (!readable)
        readable = sleep_as_leader(channel, left_ns);
    if (readable && !secure)
        result = read_now(channel, &step);
    lock(channel);
    channel->leader_asleep = false;
    if (readable && secure)
        result = read_now(channel, &step);
    take_in_locked(channel, result, &step);
}

/* What the server said while nobody listened, as that it goes away. The caller will not wait. */
static void catch_up_locked(struct etcd_channel *channel)
{
    struct stream_step step = {.done = 0};
    enum stream_result result = STREAM_FAILED;

    for (int i = 0; i < CATCH_UP_READS && channel->failed == STREAM_OK; i++) {
        result = read_now(channel, &step);
        if (result == STREAM_TIMEOUT)
            break;
        take_in_locked(channel, result, &step);
        if (!channel->more)
            break;
    }
}

/* ---- the channel ---- */

struct etcd_channel *etcd_channel_new(struct stream *stream, const char *authority)
{
    struct etcd_channel *channel = calloc(1, sizeof *channel);

    if (channel == NULL) {
        stream_close(stream);
        return NULL;
    }
    stream_move(&channel->stream, stream);
    channel->http2.on_event = on_event;
    channel->http2.ctx = channel;
    if (waiters_init(&channel->waiters) &&
        etcd_http2_init(&channel->http2, channel->stream.ssl != NULL ? "https" : "http", authority))
        return channel;
    etcd_channel_free(channel);
    return NULL;
}

void etcd_channel_free(struct etcd_channel *channel)
{
    stream_close(&channel->stream);
    etcd_http2_fini(&channel->http2);
    waiters_fini(&channel->waiters);
    free(channel);
}

void etcd_channel_after_fork(struct etcd_channel *channel)
{
    if (channel->stream.fd >= 0)
        (void)close(channel->stream.fd);
    channel->stream.fd = -1;
    waiters_after_fork(&channel->waiters);
}

bool etcd_channel_set_token(struct etcd_channel *channel, const char *token)
{
    return etcd_http2_set_token(&channel->http2, token);
}

bool etcd_channel_dead(const struct etcd_channel *channel)
{
    return atomic_load(&channel->dead);
}

void etcd_channel_retire(struct etcd_channel *channel)
{
    atomic_store(&channel->dead, true);
}

enum stream_result etcd_channel_failed(struct etcd_channel *channel)
{
    enum stream_result failed = STREAM_OK;

    lock(channel);
    failed = channel->failed;
    unlock(channel);
    return failed;
}

/* ---- the calls of a thread ---- */

void etcd_channel_join(struct etcd_channel *channel, struct etcd_wait *wait)
{
    static const unsigned char nobody[DLOCK_TOKEN_SIZE];

    wait->channel = channel;
    lock(channel);
    waiters_add_locked(&channel->waiters, &wait->waiter, nobody);
    unlock(channel);
}

static const char *why_dead_locked(const struct etcd_channel *channel)
{
    if (channel->failed != STREAM_OK)
        return channel->why;
    return channel->http2.departing ? etcd_http2_why(&channel->http2)
                                    : "the connection takes no more calls";
}

static bool begin_locked(struct etcd_channel *channel, struct etcd_wait *wait,
                         struct etcd_call *call)
{
    if (channel->open == 0 && !channel->waiters.led && !atomic_load(&channel->dead) &&
        now(channel) - channel->heard_ns > HEARD_NS)
        catch_up_locked(channel);
    if (atomic_load(&channel->dead)) {
        etcd_call_end(call, ETCD_UNSENT, "%s", why_dead_locked(channel));
        return false;
    }
    call->wait = wait;
    if (!etcd_http2_submit(&channel->http2, call)) {
        if (call->end == ETCD_UNSENT)
            atomic_store(&channel->dead, true);
        return false;
    }
    call->next = wait->calls;
    wait->calls = call;
    channel->open++;
    return true;
}

bool etcd_channel_begin(struct etcd_wait *wait, struct etcd_call *call)
{
    struct etcd_channel *channel = wait->channel;
    bool begun = false;

    etcd_call_init(call);
    lock(channel);
    begun = begin_locked(channel, wait, call);
    unlock(channel);
    return begun;
}

void etcd_channel_flush(struct etcd_wait *wait)
{
    lock(wait->channel);
    flush_locked(wait->channel);
    unlock(wait->channel);
}

/* Sends, and waits until an event is pending. False: none will come. */
static bool await_locked(struct etcd_channel *channel, struct etcd_wait *wait, int64_t deadline_ns)
{
    while (!wait->pending) {
        int64_t left_ns = 0;

        if (wait->calls == NULL) /* what HTTP/2 has to say can wait for the next call */
            return false;
        flush_locked(channel);
        if (wait->pending)
            break;
        if (wait->waiter.interrupted) {
            wait->waiter.interrupted = false;
            return false;
        }
        left_ns = deadline_ns - now(channel);
        if (left_ns <= 0)
            return false;
        if (waiters_lead_or_sleep_locked(&wait->waiter, left_ns)) {
            lead_locked(channel, left_ns);
            waiters_led_locked(&wait->waiter);
        }
    }
    wait->pending = false;
    return true;
}

bool etcd_channel_await(struct etcd_wait *wait, int64_t deadline_ns)
{
    struct etcd_channel *channel = wait->channel;
    bool pending = false;

    lock(channel);
    wait->waiter.watching = true;
    pending = await_locked(channel, wait, deadline_ns);
    wait->waiter.watching = false;
    waiters_hand_over_locked(&channel->waiters);
    unlock(channel);
    return pending;
}

static void give_up_locked(struct etcd_channel *channel, struct etcd_call *call, const char *text)
{
    drop_locked(call);
    etcd_http2_reset(&channel->http2, call, text);
}

void etcd_channel_reset(struct etcd_wait *wait, struct etcd_call *call)
{
    lock(wait->channel);
    if (call->end == ETCD_OPEN)
        give_up_locked(wait->channel, call, "the call was given up");
    flush_locked(wait->channel);
    unlock(wait->channel);
}

static void unlink_locked(struct etcd_wait *wait, const char *text)
{
    bool resets = wait->calls != NULL;

    while (wait->calls != NULL)
        give_up_locked(wait->channel, wait->calls, text);
    if (resets)
        flush_locked(wait->channel);
    waiters_remove_locked(&wait->waiter);
}

void etcd_channel_leave(struct etcd_wait *wait)
{
    struct etcd_channel *channel = wait->channel;

    lock(channel);
    unlink_locked(wait, "the call was given up");
    unlock(channel);
}

void etcd_channel_interrupt(struct etcd_wait *wait)
{
    lock(wait->channel);
    wait->waiter.interrupted = true;
    waiters_wake_locked(&wait->waiter, true);
    unlock(wait->channel);
}

/* ---- an exchange ---- */

static void run_in_time(struct etcd_channel *channel, struct etcd_call *const *calls, size_t n,
                        int64_t deadline_ns)
{
    struct etcd_wait wait = {.pending = false};

    etcd_channel_join(channel, &wait);
    for (size_t i = 0; i < n; i++)
        (void)etcd_channel_begin(&wait, calls[i]);
    while (etcd_channel_await(&wait, deadline_ns))
        continue;
    lock(channel);
    if (wait.calls != NULL)
        atomic_store(&channel->dead, true);
    unlink_locked(&wait, "no answer in time");
    unlock(channel);
}

void etcd_channel_run(struct etcd_channel *channel, struct etcd_call *const *calls, size_t n,
                      int64_t deadline_ns)
{
    if (now(channel) < deadline_ns) {
        run_in_time(channel, calls, n, deadline_ns);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        etcd_call_init(calls[i]);
        etcd_call_end(calls[i], ETCD_UNSENT, "no time was left");
    }
}
