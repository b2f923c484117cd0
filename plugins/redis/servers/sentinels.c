/* SPDX-License-Identifier: MIT */
#include "redis/servers/sentinels.h"
#include "lib/text_file.h"
#include "lib/time.h"
#include "resp/command.h"
#include "resp/connection.h"
#include "resp/error.h"
#include "resp/reply.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- which server is the master ---- */

static bool same(const struct address *one, const struct address *other)
{
    return one->port == other->port && strcmp(one->host, other->host) == 0;
}

static bool beats(const struct redis_vote *one, unsigned voters, const struct redis_vote *other,
                  unsigned other_voters)
{
    return one->epoch != other->epoch ? one->epoch > other->epoch : voters > other_voters;
}

int redis_sentinels_elect(const struct redis_vote *votes, unsigned count, unsigned majority,
                          unsigned *voters)
{
    int elected = -1;

    *voters = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned agree = 0;

        for (unsigned k = 0; k < count; k++)
            agree += votes[i].given && votes[k].given && same(&votes[i].master, &votes[k].master);
        if (agree < majority ||
            (elected >= 0 && !beats(&votes[i], agree, &votes[elected], *voters)))
            continue;
        elected = (int)i;
        *voters = agree;
    }
    return elected;
}

/* ---- one sentinel, which is asked without waiting ---- */

/* Zeroed before init. It must not move. */
struct redis_sentinel {
    struct resp_connection connection; /* the first member */
    const struct redis_service *service;
    struct resp_config config;
    unsigned replies;         /* of its three */
    enum dlock_status status; /* the answer is no vote: why. OK: a vote, or no answer yet */
    struct redis_vote vote;
    struct address others[REDIS_SENTINELS_MOST]; /* the sentinels that it knows */
    unsigned other_count;
};

#define REPLIES         3 /* SENTINEL MASTER, GET-MASTER-ADDR-BY-NAME, SENTINELS */
#define REPLY_MAX_BYTES ((size_t)256 * 1024)

static struct redis_sentinel *of(struct resp_connection *connection)
{
    return (struct redis_sentinel *)connection;
}

static enum dlock_status read_secret(struct resp_connection *connection, char **secret,
                                     struct dlock_error *err)
{
    const struct redis_service *service = of(connection)->service;
    enum dl_exposure ignored = DL_EXPOSED_TO_NOBODY;

    *secret = NULL;
    return service->pass_file == NULL
               ? DLOCK_OK
               : dl_text_file_read(service->pass_file, REDIS_SENTINEL_PASS_FILE, secret, &ignored,
                                   err);
}

/* ---- asking ---- */

static bool ask(struct redis_sentinel *sentinel, const char *what)
{
    struct resp_command command;
    size_t len = 0;
    char *bytes = NULL;
    bool added = false;

    resp_command_begin(&command);
    resp_command_text(&command, "SENTINEL");
    resp_command_text(&command, what);
    resp_command_text(&command, sentinel->service->name);
    bytes = resp_command_format(&command, &len);
    added = bytes != NULL && resp_connection_add(&sentinel->connection, bytes, len);
    free(bytes);
    return added;
}

static void on_ready(struct resp_connection *connection)
{
    struct redis_sentinel *sentinel = of(connection);

    if (ask(sentinel, "MASTER") && ask(sentinel, "GET-MASTER-ADDR-BY-NAME") &&
        ask(sentinel, "SENTINELS"))
        (void)resp_connection_flush(connection);
    else
        resp_connection_drop(connection, DLOCK_NOMEM, "no memory for a command");
}

static void on_end(struct resp_connection *connection)
{
    struct redis_sentinel *sentinel = of(connection);

    if (sentinel->replies < REPLIES && sentinel->status == DLOCK_OK)
        sentinel->status = connection->status;
}

/* ---- the answers ---- */

/* The value of a name in an array of names and values; NULL: there is none. */
static const char *field(const redisReply *reply, const char *name)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const redisReply *key = resp_reply_text(reply, i), *value = resp_reply_text(reply, i + 1);

        if (key != NULL && value != NULL && strcmp(key->str, name) == 0)
            return value->str;
    }
    return NULL;
}

static bool number_read(const char *text, int64_t most, int64_t *out)
{
    char *end = NULL;

    if (text == NULL || *text < '0' || *text > '9' || strlen(text) > 18)
        return false;
    *out = strtoll(text, &end, 10);
    return *end == '\0' && *out <= most;
}

static bool address_read(const char *host, const char *port_text, struct address *out)
{
    int64_t port = 0;

    if (host == NULL || *host == '\0' || strlen(host) > ADDRESS_HOST_MAX ||
        !number_read(port_text, UINT16_MAX, &port) || port == 0)
        return false;
    (void)snprintf(out->host, sizeof out->host, "%s", host);
    out->port = (uint16_t)port;
    return true;
}

/* A server that knows no SENTINEL, or no such service. */
static void refused(struct redis_sentinel *sentinel, const redisReply *reply)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = resp_error_take(&sentinel->config, reply, &err);

    resp_connection_drop_with(&sentinel->connection, &err);
    sentinel->status = status == DLOCK_UNKNOWN ? DLOCK_CONFIG : status;
}

static void nonsense(struct redis_sentinel *sentinel)
{
    resp_connection_drop(&sentinel->connection, DLOCK_PROTOCOL, "not the answer of a Sentinel");
}

/* The address beside it is that of before while the sentinel leads a failover. */
static void epoch_take(struct redis_sentinel *sentinel, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        refused(sentinel, reply);
    else if (!number_read(field(reply, "config-epoch"), INT64_MAX, &sentinel->vote.epoch))
        nonsense(sentinel);
}

static void master_take(struct redis_sentinel *sentinel, const redisReply *reply)
{
    const redisReply *host = resp_reply_text(reply, 0), *port = resp_reply_text(reply, 1);

    if (reply->type == REDIS_REPLY_ERROR)
        refused(sentinel, reply);
    else if (host != NULL && port != NULL &&
             address_read(host->str, port->str, &sentinel->vote.master))
        sentinel->vote.given = true;
    else
        nonsense(sentinel);
}

static void others_take(struct redis_sentinel *sentinel, const redisReply *reply)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements &&
                       sentinel->other_count < REDIS_SENTINELS_MOST;
         i++)
        if (address_read(field(reply->element[i], "ip"), field(reply->element[i], "port"),
                         &sentinel->others[sentinel->other_count]))
            sentinel->other_count++;
}

static void on_reply(struct resp_connection *connection, const redisReply *reply)
{
    struct redis_sentinel *sentinel = of(connection);

    switch (sentinel->replies++) {
    case 0:
        epoch_take(sentinel, reply);
        break;
    case 1:
        master_take(sentinel, reply);
        break;
    case 2:
        others_take(sentinel, reply);
        break;
    default:
        resp_connection_drop(connection, DLOCK_PROTOCOL, "more answers than requests");
    }
}

/* ---- the begin and the end ---- */

static void sentinel_init(struct redis_sentinel *sentinel, const struct redis_service *service,
                          const struct address *address, const struct tls *tls,
                          const struct dlock_host *host)
{
    static const struct resp_connection_user user = {
        .read_secret = read_secret,
        .on_ready = on_ready,
        .on_reply = on_reply,
        .on_end = on_end,
        .reply_max = REPLY_MAX_BYTES,
    };

    sentinel->service = service;
    sentinel->config = service->sentinel;
    sentinel->config.address = *address;
    address_format(address, sentinel->config.endpoint, sizeof sentinel->config.endpoint);
    resp_connection_init(&sentinel->connection, &sentinel->config, tls, host, &user);
}

static void sentinel_fini(struct redis_sentinel *sentinel)
{
    resp_connection_close(&sentinel->connection);
}

/* True: it has answered, or its connection has failed. */
static bool sentinel_is_done(const struct redis_sentinel *sentinel)
{
    return sentinel->status != DLOCK_OK || sentinel->replies >= REPLIES;
}

/* Why there is no vote of it. */
static const char *sentinel_why(const struct redis_sentinel *sentinel)
{
    return sentinel->status != DLOCK_OK ? sentinel->connection.why : "no answer in time";
}

/* ---- all of them ---- */

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
        sentinel_init(&round->asked[i], sentinels->service, &sentinels->known[i], sentinels->tls,
                      sentinels->host);
    (void)pthread_mutex_unlock(&sentinels->mutex);
    return round->asked != NULL;
}

static void round_end(struct round *round)
{
    for (unsigned i = 0; i < round->count; i++)
        sentinel_fini(&round->asked[i]);
    free(round->asked);
}

/* True: nothing that may still come is waited for. */
static bool round_advance(struct round *round, int64_t now_ns, int64_t rest_ns)
{
    unsigned pending = 0;

    for (unsigned i = 0; i < round->count; i++) {
        struct redis_sentinel *sentinel = &round->asked[i];

        if (!sentinel_is_done(sentinel))
            resp_connection_advance(&sentinel->connection, now_ns);
        pending += !sentinel_is_done(sentinel);
        round->votes[i] = sentinel->vote;
    }
    round->elected = redis_sentinels_elect(round->votes, round->count, round->sentinels->majority,
                                           &round->voters);
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

        if (sentinel_is_done(&round->asked[i]))
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
                           sentinel_why(failed));
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
