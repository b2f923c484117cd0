/* SPDX-License-Identifier: MIT */
#include "redis/guard/view.h"
#include "lib/time.h"
#include "resp/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VIEWS_EVERY_MS 1000 /* see call.c */
#define US_PER_MS      INT64_C(1000)

int64_t redis_view_followers_least(int64_t replicas)
{
    return replicas > 1 ? (replicas + 1) / 2 : 1;
}

static bool number_read(const redisReply *reply, size_t i, int64_t *out)
{
    const redisReply *text = resp_reply_text(reply, i);

    if (text == NULL || text->len == 0 || text->len > 18 ||
        strspn(text->str, "0123456789") != (size_t)text->len)
        return false;
    *out = strtoll(text->str, NULL, 10);
    return true;
}

const char *redis_view_keep(struct redis_guard *guard, const redisReply *reply, int64_t seen_ns)
{
    struct redis_view view = {.seen_ns = seen_ns};
    struct redis_owned owned = {.ranges = NULL}, spare;
    int64_t since_us = 0, replicas = 0;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 6 ||
        !number_read(reply, 0, &view.server_us) || !number_read(reply, 1, &view.offset) ||
        !number_read(reply, 2, &since_us) || !number_read(reply, 3, &replicas) ||
        resp_reply_text(reply, 4) == NULL || view.server_us == 0)
        return "no longer the master that it was";
    if (redis_view_followers_least(replicas) > guard->needed)
        return "the server has more replicas now";
    if (!redis_owned_read(&owned, reply->element[4]->str))
        return "the slots of the server make no sense";
    (void)pthread_mutex_lock(&guard->mutex);
    if (guard->views[0].server_us == 0 || view.offset >= guard->views[0].offset) {
        guard->views[1] = guard->views[0];
        guard->views[0] = view;
        guard->since_us = since_us;
        spare = guard->owned;
        guard->owned = owned;
        owned = spare;
    } /* else another thread has stored a later look already */
    (void)pthread_mutex_unlock(&guard->mutex);
    redis_owned_free(&owned);
    return NULL;
}

static bool counts(const struct redis_guard *guard, const struct redis_view *view, int64_t now_ns)
{
    return view->server_us != 0 && now_ns - view->seen_ns <= guard->lasts_ms * DL_NS_PER_MS;
}

bool redis_view_expired(struct redis_guard *guard, int64_t now_ns)
{
    bool expired = false;

    (void)pthread_mutex_lock(&guard->mutex);
    expired = !counts(guard, &guard->views[0], now_ns);
    (void)pthread_mutex_unlock(&guard->mutex);
    return expired;
}

bool redis_view_unsettled(struct redis_guard *guard, int64_t now_ns)
{
    int64_t most_ms = guard->lasts_ms - VIEWS_EVERY_MS / 2;
    bool unsettled = false;

    (void)pthread_mutex_lock(&guard->mutex);
    unsettled =
        guard->views[1].server_us == 0 || now_ns - guard->views[1].seen_ns > most_ms * DL_NS_PER_MS;
    (void)pthread_mutex_unlock(&guard->mutex);
    return unsettled;
}

/* [FO-12] Since when the guard of names of this slot runs; 0: not yet. With the mutex held. */
static int64_t since_us_locked(const struct redis_guard *guard, int slot)
{
    int64_t there_us = slot >= 0 ? redis_owned_since(&guard->owned, (unsigned)slot) : 0;

    if (there_us < 0 || guard->since_us == 0)
        return 0;
    return there_us > guard->since_us ? there_us : guard->since_us;
}

void redis_view_word(struct redis_guard *guard, int slot, int64_t now_ns,
                     char out[REDIS_VIEW_WORD_SIZE])
{
    struct redis_view views[2];
    int64_t since_us = 0;

    if (!guard->on) {
        (void)snprintf(out, REDIS_VIEW_WORD_SIZE, "%s%s", guard->id, guard->alone ? " alone" : "");
        return;
    }
    (void)pthread_mutex_lock(&guard->mutex);
    memcpy(views, guard->views, sizeof views);
    since_us = since_us_locked(guard, slot);
    (void)pthread_mutex_unlock(&guard->mutex);
    for (size_t i = 0; i < 2; i++)
        if (!counts(guard, &views[i], now_ns))
            views[i] = (struct redis_view){.offset = -1};
    (void)snprintf(
        out, REDIS_VIEW_WORD_SIZE, "%s %lld %lld %lld %lld %lld %lld %lld %lld %lld", guard->id,
        (long long)since_us, (long long)views[0].server_us, (long long)views[0].offset,
        (long long)views[1].server_us, (long long)views[1].offset, (long long)guard->needed,
        (long long)(guard->lasts_ms * US_PER_MS), (long long)(guard->yours_ms * US_PER_MS),
        (long long)(guard->grants_ms * US_PER_MS));
}

int64_t redis_view_left_ms(struct redis_guard *guard, int slot, int64_t now_ns, int64_t *age_ms)
{
    int64_t age_us = guard->grants_ms * US_PER_MS; /* not known yet: the script refuses */
    int64_t since_us = 0;

    (void)pthread_mutex_lock(&guard->mutex);
    since_us = since_us_locked(guard, slot);
    if (since_us != 0)
        age_us = guard->views[0].server_us - since_us +
                 (now_ns - guard->views[0].seen_ns) / (DL_NS_PER_MS / US_PER_MS);
    (void)pthread_mutex_unlock(&guard->mutex);
    *age_ms = age_us / US_PER_MS;
    return *age_ms < guard->grants_ms ? guard->grants_ms - *age_ms : 0;
}
