/* SPDX-License-Identifier: MIT */
#include "redis/link/pipeline.h"
#include "lib/time.h"
#include "resp/error.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- the requests without an answer, and the bytes of those that were not sent; with the mutex
 * held ---- */

#define OUT_FIRST 4096

static void list_add(struct redis_pipeline *pipeline, struct redis_exchange *exchange)
{
    if (pipeline->last != NULL)
        pipeline->last->next = exchange;
    else
        pipeline->first = exchange;
    pipeline->last = exchange;
    pipeline->askers += exchange->ends_group;
}

static struct redis_exchange *list_pop(struct redis_pipeline *pipeline)
{
    struct redis_exchange *exchange = pipeline->first;

    pipeline->first = exchange->next;
    if (pipeline->first == NULL)
        pipeline->last = NULL;
    pipeline->askers -= exchange->ends_group;
    return exchange;
}

/* Bytes of the longest answer that may come before, and of its own. */
static size_t answer_max(const struct redis_exchange *exchange)
{
    return exchange->skip > 0 && exchange->skip_max > exchange->reply_max ? exchange->skip_max
                                                                          : exchange->reply_max;
}

/* The answer to `next` comes after the answer to `gone`, which may be as long as `gone` allows. */
static void skip_more(struct redis_exchange *next, const struct redis_exchange *gone,
                      unsigned answers)
{
    size_t longest = answer_max(gone);

    if (next->skip == 0 || next->skip_max < longest)
        next->skip_max = longest;
    next->skip += answers;
}

static void list_cut(struct redis_pipeline *pipeline, struct redis_exchange *exchange)
{
    struct redis_exchange *before = NULL;

    for (struct redis_exchange *at = pipeline->first; at != exchange; at = at->next)
        before = at;
    if (before != NULL)
        before->next = exchange->next;
    else
        pipeline->first = exchange->next;
    if (pipeline->last == exchange)
        pipeline->last = before;
    pipeline->askers -= exchange->ends_group;
}

/* Removes a request of which no byte was sent. */
static void out_cut(struct redis_pipeline *pipeline, const struct redis_exchange *exchange)
{
    size_t first = exchange->begins - (pipeline->asked - pipeline->out_len);
    size_t after = first + exchange->len;

    memmove(pipeline->out + first, pipeline->out + after, pipeline->out_len - after);
    pipeline->out_len -= exchange->len;
    pipeline->asked -= exchange->len;
    for (struct redis_exchange *at = exchange->next; at != NULL; at = at->next)
        at->begins -= exchange->len;
}

/* Takes a request out whose time is over. UNAVAILABLE: no byte of it was sent, and none will be.
 * UNKNOWN: its answer is dropped on arrival, and the connection is dead. */
static void give_up(struct redis_pipeline *pipeline, struct redis_exchange *exchange)
{
    bool unsent = exchange->begins >= pipeline->bytes_sent;

    list_cut(pipeline, exchange);
    if (unsent) { /* nor were later requests sent */
        out_cut(pipeline, exchange);
        if (exchange->next != NULL && exchange->skip > exchange->before)
            skip_more(exchange->next, exchange, exchange->skip - exchange->before);
    } else {
        atomic_store(&pipeline->dead, true);
        if (exchange->next != NULL) /* its answer may still come, before the next one */
            skip_more(exchange->next, exchange, exchange->skip + 1);
    }
    exchange->status = unsent ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN;
    (void)snprintf(exchange->why, sizeof exchange->why,
                   unsent ? "no time was left" : "no answer in time");
}

static bool out_reserve(struct redis_pipeline *pipeline, size_t len)
{
    size_t size = pipeline->out_size == 0 ? OUT_FIRST : pipeline->out_size;
    char *longer = NULL;

    while (size < pipeline->out_len + len)
        size *= 2;
    if (size == pipeline->out_size)
        return true;
    longer = realloc(pipeline->out, size);
    if (longer == NULL)
        return false;
    pipeline->out = longer;
    pipeline->out_size = size;
    return true;
}

static void out_write(struct redis_pipeline *pipeline, const struct redis_exchange *exchange)
{
    memcpy(pipeline->out + pipeline->out_len, exchange->bytes, exchange->len);
    pipeline->out_len += exchange->len;
    pipeline->asked += exchange->len;
}

/* The leader yields if more threads than this have a request on the connection, so that more
 * requests leave together. With fewer threads a yield takes longer than it saves. */
#define YIELD_ABOVE 16

/* redis_exchange.state: what the owner of a request does. */
enum { WAITS, SLEEPS, LEADS, DONE };

/* Owners to be woken when the mutex is released. An exchange may be gone by then. If its address
 * has another use, the wake-up there has no cause, as any sleeper on a futex has to expect. */
struct wakes {
    _Atomic uint32_t *words[64];
    size_t count;
};

/* The requests of one thread, which were sent together: the last one is answered last, and the
 * thread waits for that one. */
struct group {
    struct redis_exchange *first;
    size_t n;
};

static struct redis_exchange *last_of(const struct group *group)
{
    return &group->first[group->n - 1];
}

static int64_t now(const struct redis_pipeline *pipeline)
{
    const struct dlock_host *host = pipeline->connection.stream.host;

    return host->now_ns(host->ctx);
}

/* ---- sleeping and waking ---- */

static void futex_wake(_Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void futex_sleep(_Atomic uint32_t *word, int64_t left_ns)
{
    struct timespec timeout = dl_deadline_cond_slice(left_ns);

    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, SLEEPS, &timeout, NULL, 0);
}

static void wakes_run(struct wakes *wakes)
{
    for (size_t i = 0; i < wakes->count; i++)
        futex_wake(wakes->words[i]);
    wakes->count = 0;
}

/* From here on the owner may return, and the exchange end. */
static void tell(struct redis_exchange *exchange, uint32_t state, struct wakes *wakes)
{
    _Atomic uint32_t *word = &exchange->state;

    if (atomic_exchange_explicit(word, state, memory_order_acq_rel) != SLEEPS)
        return;
    if (wakes->count == sizeof wakes->words / sizeof wakes->words[0])
        wakes_run(wakes);
    wakes->words[wakes->count++] = word;
}

/* The last one first: only requests of other threads may come after it. */
static void group_give_up(struct redis_pipeline *pipeline, const struct group *group)
{
    for (size_t i = group->n; i > 0; i--)
        if (atomic_load(&group->first[i - 1].state) != DONE)
            give_up(pipeline, &group->first[i - 1]);
}

/* The connection ends. status: of the first request. */
static void fail_all(struct redis_pipeline *pipeline, enum dlock_status status, const char *why,
                     struct wakes *wakes)
{
    atomic_store(&pipeline->dead, true);
    pipeline->write_failed = true;
    while (pipeline->first != NULL) {
        struct redis_exchange *exchange = list_pop(pipeline);

        exchange->status = exchange->begins < pipeline->bytes_sent ? status : DLOCK_UNAVAILABLE;
        (void)snprintf(exchange->why, sizeof exchange->why, "%s", why);
        tell(exchange, DONE, wakes);
        status = DLOCK_UNKNOWN;
    }
}

/* ---- sending; with the mutex held ---- */

/* Sends what can be sent now. */
static void flush(struct redis_pipeline *pipeline)
{
    size_t sent = 0;

    while (sent < pipeline->out_len && !pipeline->write_failed) {
        struct stream_step step;
        enum stream_result result = STREAM_FAILED;

        if (pipeline->connection.stream.ssl != NULL) /* OpenSSL does not tell what it sent */
            pipeline->bytes_sent = pipeline->asked;
        result = stream_try_send(&pipeline->connection.stream, pipeline->out + sent,
                                 pipeline->out_len - sent, &step);
        if (result == STREAM_TIMEOUT)
            break;
        if (result == STREAM_OK) {
            sent += step.done;
            if (pipeline->connection.stream.ssl == NULL)
                pipeline->bytes_sent = pipeline->asked - (pipeline->out_len - sent);
            continue;
        }
        pipeline->write_failed = true; /* the reader will find the end and its reason */
        atomic_store(&pipeline->dead, true);
    }
    if (sent > 0 && sent < pipeline->out_len)
        memmove(pipeline->out, pipeline->out + sent, pipeline->out_len - sent);
    pipeline->out_len -= sent;
}

/* ---- reading, by the leader ---- */

static enum stream_result receive_now(struct redis_pipeline *pipeline, struct stream_step *step)
{
    bool secure = pipeline->connection.stream.ssl != NULL;
    enum stream_result result = STREAM_FAILED;

    if (secure)
        (void)pthread_mutex_lock(&pipeline->mutex);
    result = stream_try_receive(&pipeline->connection.stream, pipeline->chunk,
                                sizeof pipeline->chunk, step);
    if (secure)
        (void)pthread_mutex_unlock(&pipeline->mutex);
    return result;
}

/* Sends the requests of other threads. Lets these run before if it yields, or if they are many.
 * False: nothing was sent. */
static bool gather(struct redis_pipeline *pipeline, bool yields)
{
    size_t before = 0;
    bool gathered = false;

    (void)pthread_mutex_lock(&pipeline->mutex);
    if (yields || pipeline->askers > YIELD_ABOVE) {
        (void)pthread_mutex_unlock(&pipeline->mutex);
        (void)sched_yield();
        (void)pthread_mutex_lock(&pipeline->mutex);
    }
    before = pipeline->out_len;
    flush(pipeline);
    gathered = pipeline->out_len < before;
    (void)pthread_mutex_unlock(&pipeline->mutex);
    return gathered;
}

/* Sleeps until there are bytes to read or new bytes to send, or until the deadline. */
static void leader_sleep(struct redis_pipeline *pipeline, short events, int64_t left_ns)
{
    struct pollfd fds[2] = {
        {.fd = pipeline->connection.stream.fd, .events = events},
        {.fd = pipeline->wake_fd, .events = POLLIN},
    };
    struct timespec timeout = dl_deadline_cond_slice(left_ns);
    uint64_t count = 0;

    (void)pthread_mutex_lock(&pipeline->mutex);
    flush(pipeline); /* threads that asked until now took the leader to be awake */
    pipeline->leader = REDIS_LEADER_ASLEEP;
    if (pipeline->out_len > 0 && !pipeline->write_failed)
        fds[0].events |= POLLOUT;
    (void)pthread_mutex_unlock(&pipeline->mutex);
    if (ppoll(fds, 2, &timeout, NULL) > 0 && fds[1].revents != 0)
        (void)!read(pipeline->wake_fd, &count, sizeof count);
    (void)pthread_mutex_lock(&pipeline->mutex);
    pipeline->leader = REDIS_LEADER_AWAKE;
    flush(pipeline);
    (void)pthread_mutex_unlock(&pipeline->mutex);
}

/* STREAM_OK: step->done bytes. STREAM_TIMEOUT: the deadline. busy: other threads may be about to
 * ask, and are let run before the leader sleeps. */
static enum stream_result receive(struct redis_pipeline *pipeline, struct stream_step *step,
                                  bool busy, const struct redis_exchange *mine)
{
    struct spin *spin = &pipeline->connection.stream.spin;
    enum stream_result result = STREAM_FAILED;

    if (mine->spin)
        spin_begin(spin, dl_time_now_ns(CLOCK_MONOTONIC));
    while ((result = receive_now(pipeline, step)) == STREAM_TIMEOUT) {
        int64_t left_ns = 0;
        bool spins = mine->spin && spin_more(spin, dl_time_now_ns(CLOCK_MONOTONIC));

        left_ns = mine->deadline_ns - now(pipeline);
        if (left_ns <= 0)
            break;
        if (spins || busy)
            busy = gather(pipeline, spins);
        else
            leader_sleep(pipeline, step->events, left_ns);
    }
    if (mine->spin)
        spin_end(spin, dl_time_now_ns(CLOCK_MONOTONIC), result == STREAM_OK);
    return result;
}

/* With the mutex held, as in the next three functions. */
static void answer(struct redis_pipeline *pipeline, redisReply *reply, struct wakes *wakes)
{
    struct redis_exchange *exchange = pipeline->first;

    if (exchange == NULL || exchange->skip > 0) {
        freeReplyObject(reply);
        if (exchange != NULL)
            exchange->skip--;
        return;
    }
    if (!exchange->validate(exchange->asked, reply)) {
        freeReplyObject(reply);
        fail_all(pipeline, DLOCK_PROTOCOL, "an answer, but not to this request", wakes);
        return;
    }
    (void)list_pop(pipeline);
    exchange->status = DLOCK_OK;
    if (pipeline->first == NULL && resp_reader_pending(&pipeline->connection.reader) &&
        !atomic_load(&pipeline->dead)) { /* they may be answers to requests that were given up */
        freeReplyObject(reply);
        reply = NULL;
        exchange->status = DLOCK_PROTOCOL;
        (void)snprintf(exchange->why, sizeof exchange->why, "more answers than requests");
        atomic_store(&pipeline->dead, true);
    }
    exchange->reply = reply;
    tell(exchange, DONE, wakes);
}

static void nonsense(struct redis_pipeline *pipeline, struct wakes *wakes)
{
    const struct resp_reader *reader = &pipeline->connection.reader;
    char why[STREAM_WHY_SIZE];

    (void)snprintf(why, sizeof why, "an answer that makes no sense: %s", reader->why);
    if (reader->no_memory)
        fail_all(pipeline, DLOCK_UNKNOWN, "no memory for an answer", wakes);
    else
        fail_all(pipeline, DLOCK_PROTOCOL, why, wakes);
}

static void take_in(struct redis_pipeline *pipeline, size_t len, struct wakes *wakes)
{
    struct resp_reader *reader = &pipeline->connection.reader;
    redisReply *reply = NULL;

    reader->reply_max = pipeline->first != NULL ? answer_max(pipeline->first) : RESP_REPLY_MAX;
    if (!resp_reader_feed(reader, pipeline->chunk, len)) {
        nonsense(pipeline, wakes);
        return;
    }
    do {
        if (!resp_reader_next(reader, &reply)) {
            nonsense(pipeline, wakes);
            return;
        }
        if (reply != NULL)
            answer(pipeline, reply, wakes);
    } while (reply != NULL);
}

static void pass_on(struct redis_pipeline *pipeline, struct wakes *wakes)
{
    pipeline->leader = pipeline->first != NULL ? REDIS_LEADER_AWAKE : REDIS_LEADER_NONE;
    if (pipeline->first != NULL)
        tell(pipeline->last, LEADS, wakes);
}

/* True: the group is done, and the lead was passed on. */
static bool lead_once(struct redis_pipeline *pipeline, const struct group *group, bool busy)
{
    struct redis_exchange *mine = last_of(group);
    struct stream_step step;
    struct wakes wakes = {.count = 0};
    enum stream_result result = receive(pipeline, &step, busy, mine);
    bool over = false;

    (void)pthread_mutex_lock(&pipeline->mutex);
    if (result == STREAM_OK)
        take_in(pipeline, step.done, &wakes);
    else if (result != STREAM_TIMEOUT)
        fail_all(pipeline, DLOCK_UNKNOWN, step.why, &wakes);
    over = atomic_load(&mine->state) == DONE;
    if (!over && now(pipeline) >= mine->deadline_ns) {
        group_give_up(pipeline, group);
        over = true;
    }
    if (over)
        pass_on(pipeline, &wakes);
    (void)pthread_mutex_unlock(&pipeline->mutex);
    wakes_run(&wakes);
    return over;
}

/* Threads that just got answers may ask again: their requests are gathered and sent together. */
static void lead(struct redis_pipeline *pipeline, const struct group *group, bool at_once)
{
    if (at_once && lead_once(pipeline, group, false))
        return;
    do
        (void)gather(pipeline, false);
    while (!lead_once(pipeline, group, true));
}

/* ---- asking ---- */

/* DONE, also when the request was given up; or LEADS. */
static uint32_t follow(struct redis_pipeline *pipeline, const struct group *group)
{
    struct redis_exchange *mine = last_of(group);
    uint32_t state = WAITS;

    (void)atomic_compare_exchange_strong(&mine->state, &state, SLEEPS);
    for (;;) {
        int64_t left_ns = mine->deadline_ns - now(pipeline);

        state = atomic_load_explicit(&mine->state, memory_order_acquire);
        if (state != SLEEPS)
            return state;
        if (left_ns <= 0)
            break;
        futex_sleep(&mine->state, left_ns);
    }
    (void)pthread_mutex_lock(&pipeline->mutex);
    state = atomic_load(&mine->state);
    if (state == SLEEPS) {
        group_give_up(pipeline, group);
        state = DONE;
    }
    (void)pthread_mutex_unlock(&pipeline->mutex);
    return state;
}

/* Without a request that waits for an answer, the stream has to be silent. */
static bool can_ask(struct redis_pipeline *pipeline)
{
    if (!atomic_load(&pipeline->dead) && pipeline->first == NULL &&
        !stream_idle(&pipeline->connection.stream))
        atomic_store(&pipeline->dead, true);
    return !atomic_load(&pipeline->dead);
}

static void no_memory(const struct group *group)
{
    for (size_t i = 0; i < group->n; i++) {
        group->first[i].status = DLOCK_NOMEM;
        (void)snprintf(group->first[i].why, sizeof group->first[i].why, "no memory for a command");
        atomic_store(&group->first[i].state, DONE);
    }
}

/* With the mutex held. */
static void ask(struct redis_pipeline *pipeline, const struct group *group)
{
    static const uint64_t one = 1;
    size_t len = 0;

    for (size_t i = 0; i < group->n; i++)
        len += group->first[i].len;
    if (!out_reserve(pipeline, len)) {
        no_memory(group);
        return;
    }
    for (size_t i = 0; i < group->n; i++) {
        struct redis_exchange *mine = &group->first[i];

        mine->next = NULL;
        mine->ends_group = i + 1 == group->n;
        mine->skip = mine->before;
        mine->skip_max = 0;
        mine->begins = pipeline->asked;
        atomic_init(&mine->state, WAITS);
        out_write(pipeline, mine);
        list_add(pipeline, mine);
    }
    if (pipeline->leader != REDIS_LEADER_AWAKE)
        flush(pipeline);
    if (pipeline->leader == REDIS_LEADER_ASLEEP && pipeline->out_len > 0)
        (void)!write(pipeline->wake_fd, &one, sizeof one);
}

bool redis_pipeline_exchange_all(struct redis_pipeline *pipeline, struct redis_exchange *exchanges,
                                 size_t n)
{
    const struct group group = {exchanges, n};
    uint32_t state = DONE;
    bool first = false;

    for (size_t i = 0; i < n; i++)
        exchanges[i].reply = NULL;
    (void)pthread_mutex_lock(&pipeline->mutex);
    if (!can_ask(pipeline)) {
        (void)pthread_mutex_unlock(&pipeline->mutex);
        return false;
    }
    ask(pipeline, &group);
    state = atomic_load(&last_of(&group)->state);
    first = state == WAITS && pipeline->leader == REDIS_LEADER_NONE;
    if (first)
        pipeline->leader = REDIS_LEADER_AWAKE;
    (void)pthread_mutex_unlock(&pipeline->mutex);
    if (!first && state != DONE)
        state = follow(pipeline, &group);
    if (first || state == LEADS)
        lead(pipeline, &group, first);
    return true;
}

bool redis_pipeline_exchange(struct redis_pipeline *pipeline, struct redis_exchange *mine)
{
    return redis_pipeline_exchange_all(pipeline, mine, 1);
}

/* ---- opening and closing ---- */

enum dlock_status redis_pipeline_open(struct redis_pipeline **out, const struct resp_config *config,
                                      const struct tls *tls, const struct dlock_host *host,
                                      int64_t deadline_ns, struct resp_info *server_info,
                                      struct dlock_error *err)
{
    struct redis_pipeline *pipeline = calloc(1, sizeof *pipeline);
    struct redis_connect_args args = {.tls = tls, .host = host};
    enum dlock_status status = DLOCK_NOMEM;

    *out = NULL;
    if (pipeline == NULL)
        return resp_error_fail(config, err, status, "no memory for a connection");
    (void)pthread_mutex_init(&pipeline->mutex, NULL);
    pipeline->config = *config;
    args.config = &pipeline->config;
    pipeline->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (pipeline->wake_fd < 0)
        (void)resp_error_fail(config, err, status, "no descriptor for an event");
    else
        status = redis_connection_open(&pipeline->connection, &args, deadline_ns, server_info, err);
    if (status == DLOCK_OK)
        *out = pipeline;
    else
        redis_pipeline_close(pipeline);
    return status;
}

void redis_pipeline_close(struct redis_pipeline *pipeline)
{
    redis_connection_close(&pipeline->connection);
    if (pipeline->wake_fd >= 0)
        (void)close(pipeline->wake_fd);
    (void)pthread_mutex_destroy(&pipeline->mutex);
    free(pipeline->out);
    free(pipeline);
}

void redis_pipeline_after_fork(struct redis_pipeline *pipeline)
{
    redis_connection_after_fork(&pipeline->connection);
    if (pipeline->wake_fd >= 0)
        (void)close(pipeline->wake_fd);
}
