/* SPDX-License-Identifier: MIT */
/* observe.c - waits for another holder of a name: inspects it, with pauses (observe.h). */
#include "api/check.h"
#include "api/client_ref.h"
#include "api/query.h"
#include "sys/backoff.h"
#include "sys/error.h"

#include <dlock/observe.h>

#define POLL_FIRST_MS INT64_C(20)

struct observation {
    uint64_t known_fence;
    dlock_holder_fn *fn;
    void *arg;
    bool held;     /* the name has a holder, */
    bool is_same;  /* and that is the one that was seen, */
    bool is_other; /* or another one */
    bool no_fence; /* a holder has no fence: it cannot be told from others */
};

/* A grant has several numbers, one for each thread that has it. */
static bool is_known(const struct observation *observation, const struct dlock_holder *holder)
{
    return observation->known_fence >= holder->fence &&
           observation->known_fence - holder->fence <= holder->fence_room;
}

static bool holder_judge(void *arg, const struct dlock_holder *holder)
{
    struct observation *observation = arg;

    if (holder->kept != 0) /* nobody has it */
        return false;
    observation->held = true;
    if (holder->fence == 0)
        observation->no_fence = true;
    else if (is_known(observation, holder))
        observation->is_same = true;
    else
        observation->is_other = true;
    return false;
}

static bool holder_tell(void *arg, const struct dlock_holder *holder)
{
    struct observation *observation = arg;

    if (holder->kept != 0)
        return false;
    observation->held = true;
    return observation->fn(observation->arg, holder);
}

static enum dlock_status fence_check(struct dlock_client *client, struct dlock_error *err)
{
    if (!dl_client_has(client, DLOCK_CAP_FENCE))
        return dl_error(err, DLOCK_UNSUPPORTED, "this store gives no fencing tokens");
    return DLOCK_OK;
}

/* What the holders say, once they are judged. OK: a change; TIMEOUT: none. */
static enum dlock_status judgement(const struct observation *observation, struct dlock_error *err)
{
    if (observation->is_same)
        return dl_error(err, DLOCK_TIMEOUT, "no other holder");
    if (observation->is_other)
        return DLOCK_OK;
    if (observation->no_fence)
        return dl_error(err, DLOCK_UNSUPPORTED, "the holders have no fencing tokens");
    if (!observation->held && observation->known_fence != 0)
        return dl_error(err, DLOCK_NOT_HELD, "the name is free");
    return dl_error(err, DLOCK_TIMEOUT, "no other holder");
}

/* Asks again, now for fn: the first answer could be judged only at its end. The holders may be gone
 * meanwhile. */
static enum dlock_status change_tell(struct dlock_client *client, const void *name, size_t name_len,
                                     struct observation *observation, struct dlock_error *err)
{
    enum dlock_status status;

    observation->held = false;
    dl_error_reset(err);
    status = dl_query_inspect(client, name, name_len, holder_tell, observation, err);
    if (observation->held)
        return DLOCK_OK;
    if (status != DLOCK_OK)
        return status;
    if (observation->known_fence != 0)
        return dl_error(err, DLOCK_NOT_HELD, "the name is free");
    return dl_error(err, DLOCK_TIMEOUT, "no other holder");
}

/* One question. OK and NOT_HELD: a change; TIMEOUT: none. */
static enum dlock_status observe_once(struct dlock_client *client, const void *name,
                                      size_t name_len, struct observation *observation,
                                      struct dlock_error *err)
{
    enum dlock_status status;

    observation->held = observation->is_same = false;
    observation->is_other = observation->no_fence = false;
    dl_error_reset(err);
    status = dl_query_inspect(client, name, name_len, holder_judge, observation, err);
    if (status == DLOCK_OK) /* a lazy client knows its store only now */
        status = fence_check(client, err);
    if (status == DLOCK_OK)
        status = judgement(observation, err);
    return status == DLOCK_OK ? change_tell(client, name, name_len, observation, err) : status;
}

/* Sleeps until until_ns or the shutdown of the client. */
static void pause_make(struct dlock_client *client, int64_t until_ns)
{
    (void)pthread_mutex_lock(&client->mutex);
    while (!client->shutdown && dl_client_now(client) < until_ns)
        dl_clock_wait(&client->call_ended, &client->mutex, &client->host.clock, until_ns);
    (void)pthread_mutex_unlock(&client->mutex);
}

static bool is_final(enum dlock_status status)
{
    return status != DLOCK_TIMEOUT && status != DLOCK_UNAVAILABLE && status != DLOCK_NO_QUORUM &&
           status != DLOCK_UNKNOWN;
}

static enum dlock_status observe(struct dlock_client *client, const void *name, size_t name_len,
                                 struct observation *observation, int64_t timeout_ms,
                                 struct dlock_error *err)
{
    int64_t until_ns = dl_clock_after_ms(dl_client_now(client), timeout_ms);
    int64_t most_ms = dl_later(client->store->settings.poll_max_ms, POLL_FIRST_MS);

    for (unsigned n = 0;; n++) {
        enum dlock_status status = observe_once(client, name, name_len, observation, err);
        int64_t now_ns = dl_client_now(client);
        int64_t pause_ms = dl_backoff_delay(n, POLL_FIRST_MS, most_ms, dl_client_random(client));

        if (is_final(status) || now_ns >= until_ns)
            return status;
        pause_make(client, dl_earlier(until_ns, dl_clock_after_ms(now_ns, pause_ms)));
    }
}

enum dlock_status dlock_observe(struct dlock_client *client, const void *name, size_t name_len,
                                uint64_t known_fence, int64_t timeout_ms, dlock_holder_fn *fn,
                                void *arg, struct dlock_error *err)
{
    struct observation observation = {.known_fence = known_fence, .fn = fn, .arg = arg};
    struct dlock_error e;
    enum dlock_status status = dl_check_client(client, &e);

    if (status == DLOCK_OK)
        status = dl_check_name(name, name_len, &e);
    if (status == DLOCK_OK && fn == NULL)
        status = dl_error(&e, DLOCK_INVALID, "the callback is NULL");
    if (status == DLOCK_OK && timeout_ms < DLOCK_FOREVER)
        status = dl_error(&e, DLOCK_INVALID, "a timeout of %lld ms", (long long)timeout_ms);
    if (status == DLOCK_OK)
        status = fence_check(client, &e);
    if (status == DLOCK_OK)
        status = dl_client_call_begin(client, &e);
    if (status != DLOCK_OK)
        return dl_error_export(err, &e, status);
    status = observe(client, name, name_len, &observation, timeout_ms, &e);
    dl_client_call_end(client);
    return dl_error_export(err, &e, status);
}
