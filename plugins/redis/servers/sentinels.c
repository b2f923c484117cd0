/* SPDX-License-Identifier: MIT */
#include "redis/servers/sentinels.h"
#include "lib/deadline_cond.h"
#include "lib/time.h"
#include "redis/servers/sentinel.h"
#include "resp/error.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define REST_NS (300 * DL_NS_PER_MS) /* for the sentinels beyond a majority */

struct redis_sentinels {
    const struct redis_service *service;
    const struct resp_config *config; /* for errors */
    const struct tls *tls;
    const struct dlock_host *host;
    unsigned majority; /* of the sentinels in the URI */

    pthread_mutex_t mutex; /* guards the rest; a leaf */
    struct address known[REDIS_SENTINELS_MOST];
    unsigned known_count; /* the first are those of the URI */
    struct address master;
    uint64_t version; /* 0: none is known */
};

/* One time that all are asked. */
struct round {
    struct redis_sentinels *sentinels;
    struct redis_sentinel *asked; /* `count` of them */
    unsigned count;
    struct redis_vote votes[REDIS_SENTINELS_MOST];
    bool patient; /* waits for the rest also when most agree */
    int elected;  /* -1: nobody yet */
    unsigned voters;
};

struct redis_sentinels *redis_sentinels_new(const struct redis_service *service,
                                            const struct resp_config *config, const struct tls *tls,
                                            const struct dlock_host *host)
{
    struct redis_sentinels *sentinels = calloc(1, sizeof *sentinels);

    if (sentinels == NULL)
        return NULL;
    sentinels->service = service;
    sentinels->config = config;
    sentinels->tls = tls;
    sentinels->host = host;
    sentinels->majority = service->count / 2 + 1;
    sentinels->known_count = service->count;
    memcpy(sentinels->known, service->addresses, sizeof sentinels->known);
    (void)pthread_mutex_init(&sentinels->mutex, NULL);
    return sentinels;
}

void redis_sentinels_free(struct redis_sentinels *sentinels)
{
    if (sentinels == NULL)
        return;
    (void)pthread_mutex_destroy(&sentinels->mutex);
    free(sentinels);
}

static int64_t now(const struct redis_sentinels *sentinels)
{
    return sentinels->host->now_ns(sentinels->host->ctx);
}

/* ---- one round ---- */

static bool round_begin(struct round *round, struct redis_sentinels *sentinels)
{
    *round = (struct round){.sentinels = sentinels, .elected = -1};
    (void)pthread_mutex_lock(&sentinels->mutex);
    round->asked = calloc(sentinels->known_count, sizeof *round->asked);
    round->count = round->asked != NULL ? sentinels->known_count : 0;
    for (unsigned i = 0; i < round->count; i++)
        redis_sentinel_init(&round->asked[i], sentinels->service, &sentinels->known[i],
                            sentinels->tls, sentinels->host);
    (void)pthread_mutex_unlock(&sentinels->mutex);
    return round->asked != NULL;
}

static void round_end(struct round *round)
{
    for (unsigned i = 0; i < round->count; i++)
        redis_sentinel_fini(&round->asked[i]);
    free(round->asked);
}

/* True: nothing that may still come is waited for. */
static bool round_advance(struct round *round, int64_t now_ns, int64_t rest_ns)
{
    unsigned pending = 0;

    for (unsigned i = 0; i < round->count; i++) {
        struct redis_sentinel *sentinel = &round->asked[i];

        if (!redis_sentinel_is_done(sentinel))
            resp_connection_advance(&sentinel->connection, now_ns);
        pending += !redis_sentinel_is_done(sentinel);
        round->votes[i] = sentinel->vote;
    }
    round->elected =
        redis_vote_elect(round->votes, round->count, round->sentinels->majority, &round->voters);
    return pending == 0 ||
           (round->elected >= 0 &&
            ((round->voters > round->count / 2 && !round->patient) || now_ns >= rest_ns));
}

static void round_sleep(const struct round *round, int64_t now_ns, int64_t until_ns)
{
    struct pollfd fds[REDIS_SENTINELS_MOST];
    struct timespec timeout;
    nfds_t count = 0;

    for (unsigned i = 0; i < round->count; i++) {
        const struct resp_connection *connection = &round->asked[i].connection;
        short events = resp_connection_events(connection);
        int64_t due_ns = resp_connection_due_ns(connection, now_ns);

        if (redis_sentinel_is_done(&round->asked[i]))
            continue;
        if (events != 0)
            fds[count++] = (struct pollfd){.fd = connection->stream.fd, .events = events};
        if (due_ns < until_ns)
            until_ns = due_ns;
    }
    timeout = dl_deadline_cond_slice(until_ns - now_ns);
    (void)ppoll(fds, count, &timeout, NULL);
}

static void round_run(struct round *round, int64_t deadline_ns)
{
    int64_t now_ns = now(round->sentinels), rest_ns = now_ns + REST_NS;

    while (!round_advance(round, now_ns, rest_ns) && now_ns < deadline_ns) {
        bool rest = round->elected >= 0 && rest_ns < deadline_ns;

        round_sleep(round, now_ns, rest ? rest_ns : deadline_ns);
        now_ns = now(round->sentinels);
    }
}

/* ---- what it found ---- */

static bool is_known_locked(const struct redis_sentinels *sentinels, const struct address *address)
{
    for (unsigned i = 0; i < sentinels->known_count; i++)
        if (sentinels->known[i].port == address->port &&
            strcmp(sentinels->known[i].host, address->host) == 0)
            return true;
    return false;
}

/* The sentinels that are known to those who voted for the master replace those of before. */
static void others_keep_locked(struct redis_sentinels *sentinels, const struct round *round)
{
    const struct address *master = &round->votes[round->elected].master;

    sentinels->known_count = sentinels->service->count;
    for (unsigned i = 0; i < round->count; i++) {
        const struct redis_sentinel *sentinel = &round->asked[i];

        if (!sentinel->vote.given || sentinel->vote.master.port != master->port ||
            strcmp(sentinel->vote.master.host, master->host) != 0)
            continue;
        for (unsigned k = 0; k < sentinel->other_count; k++)
            if (sentinels->known_count < REDIS_SENTINELS_MOST &&
                !is_known_locked(sentinels, &sentinel->others[k]))
                sentinels->known[sentinels->known_count++] = sentinel->others[k];
    }
}

static void master_keep(struct redis_sentinels *sentinels, const struct round *round)
{
    const struct address *master = &round->votes[round->elected].master;

    (void)pthread_mutex_lock(&sentinels->mutex);
    if (sentinels->version == 0 || sentinels->master.port != master->port ||
        strcmp(sentinels->master.host, master->host) != 0) {
        sentinels->master = *master;
        sentinels->version++;
    }
    others_keep_locked(sentinels, round);
    (void)pthread_mutex_unlock(&sentinels->mutex);
}

/* A sentinel without a vote: one whose failure a majority shares, or else any. NULL: all voted. */
static const struct redis_sentinel *failed_find(const struct round *round, bool *shared)
{
    const struct redis_sentinel *found = NULL;

    *shared = false;
    for (unsigned i = 0; i < round->count && !*shared; i++) {
        unsigned alike = 0;

        if (round->votes[i].given)
            continue;
        found = &round->asked[i];
        for (unsigned k = 0; k < round->count; k++)
            alike += !round->votes[k].given && round->asked[k].status == found->status;
        *shared = alike >= round->sentinels->majority;
    }
    return found;
}

static enum dlock_status round_failed(const struct round *round, struct dlock_error *err)
{
    bool shared = false;
    const struct redis_sentinel *failed = failed_find(round, &shared);
    enum dlock_status status =
        shared && failed->status != DLOCK_OK ? failed->status : DLOCK_UNAVAILABLE;
    unsigned votes = 0;

    for (unsigned i = 0; i < round->count; i++)
        votes += round->votes[i].given;
    if (failed == NULL)
        return resp_error_fail(round->sentinels->config, err, status,
                               "the sentinels name several masters: no %u of them agree",
                               round->sentinels->majority);
    return resp_error_fail(round->sentinels->config, err, status,
                           "%u of %u sentinels name the master, no %u agree: %s: %s", votes,
                           round->count, round->sentinels->majority, failed->config.endpoint,
                           redis_sentinel_why(failed));
}

enum dlock_status redis_sentinels_ask(struct redis_sentinels *sentinels, int64_t deadline_ns,
                                      struct address *master, struct redis_sentinels_round *out,
                                      struct dlock_error *err)
{
    struct round round;
    enum dlock_status status = DLOCK_OK;

    if (!round_begin(&round, sentinels))
        return resp_error_fail(sentinels->config, err, DLOCK_NOMEM, "no memory for sentinels");
    round.patient = out != NULL;
    round_run(&round, deadline_ns);
    if (round.elected >= 0) {
        *master = round.votes[round.elected].master;
        master_keep(sentinels, &round);
    } else {
        status = round_failed(&round, err);
    }
    if (out != NULL) {
        *out = (struct redis_sentinels_round){.asked = round.count, .agreed = round.voters};
        for (unsigned i = 0; i < round.count; i++)
            out->answered += round.votes[i].given;
        if (round.elected >= 0)
            out->epoch = round.votes[round.elected].epoch;
    }
    round_end(&round);
    return status;
}

bool redis_sentinels_moved(struct redis_sentinels *sentinels, uint64_t *version,
                           struct address *master)
{
    bool moved = false;

    (void)pthread_mutex_lock(&sentinels->mutex);
    moved = sentinels->version != *version;
    if (moved)
        *master = sentinels->master;
    *version = sentinels->version;
    (void)pthread_mutex_unlock(&sentinels->mutex);
    return moved;
}
