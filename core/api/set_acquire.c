/* SPDX-License-Identifier: MIT */
#include "api/set_acquire.h"
#include "acquire/acquire.h"
#include "acquire/cancel.h"
#include "hold/unlock.h"
#include "hold/validity.h"
#include "lib/printable.h"
#include "sys/error.h"

#include <stdio.h>
#include <string.h>

#define NAME_SIZE 64

/* Puts the name of the member before the text. */
static void member_name_say(const struct dlock *member, struct dlock_error *err)
{
    char name[NAME_SIZE];
    char text[sizeof err->message];
    const char *said = err->message[0] != '\0' ? err->message : dlock_status_text((int)err->status);

    (void)dl_printable_escape(name, sizeof name, member->name->bytes, member->name->len);
    if (snprintf(text, sizeof text, "%s: %s", name, said) < 0)
        return;
    memcpy(err->message, text, sizeof text);
}

/* A cancel ends the member's wait from here on. */
static bool member_begin(struct dlock_set *set, struct dlock *member)
{
    bool go_on;

    (void)pthread_mutex_lock(&set->mutex);
    go_on = !set->canceled;
    set->acquiring = go_on ? member : NULL;
    (void)pthread_mutex_unlock(&set->mutex);
    return go_on;
}

/* A cancel that came after the end of the member's call is not for its next one. */
static void member_end(struct dlock_set *set, struct dlock *member)
{
    (void)pthread_mutex_lock(&set->mutex);
    set->acquiring = NULL;
    dl_cancel_reset(member);
    (void)pthread_mutex_unlock(&set->mutex);
}

/* The timeout of the next member. False: the time is over. */
static bool time_left(const struct dlock_set *set, int64_t timeout_ms, int64_t until_ns,
                      int64_t *left_ms)
{
    int64_t left_ns = until_ns == DL_NEVER ? DL_NEVER : until_ns - dl_client_now(set->client);

    *left_ms = timeout_ms;
    if (timeout_ms <= 0)
        return true;
    *left_ms = left_ns / DL_NS_PER_MS + (left_ns % DL_NS_PER_MS > 0);
    return left_ns > 0;
}

static enum dlock_status member_acquire(struct dlock_set *set, struct dlock *member,
                                        enum dlock_mode mode, int64_t timeout_ms,
                                        struct dlock_error *err)
{
    struct dlock_client *client = set->client;
    enum dlock_status status;

    if (dl_client_has(client, DLOCK_CAP_SESSION) && set->count > client->pool.limit)
        return dl_error(err, DLOCK_CONFIG,
                        "a set of %zu names needs as many sessions, and connections is %u",
                        set->count, client->pool.limit);
    if (!member_begin(set, member))
        return dl_error(err, DLOCK_CANCELED, "the wait was cancelled");
    status = dl_acquire(member, mode, timeout_ms, err);
    member_end(set, member);
    err->status = status;
    if (status != DLOCK_OK && status != DLOCK_CANCELED && status != DLOCK_CLOSED)
        member_name_say(member, err);
    return status;
}

/* C3, for all members: they were granted one after the other. A lease that a queue granted is
 * shorter than the ttl, until it is renewed. From now on a release keeps the names as the options
 * say: nothing ran under them before (C18). */
static bool all_begin(struct dlock_set *set)
{
    int64_t now_ns = dl_client_now(set->client);
    bool valid = true;

    (void)pthread_mutex_lock(&set->client->mutex);
    for (size_t i = 0; i < set->count; i++) {
        struct dlock *member = set->members[i];
        int64_t least_ns = dl_handle_least_ns(member, member->renewal.lease_ms);

        if (member->options->max_hold_ms > 0)
            least_ns = 0;
        valid &= dl_lease_left_ns(&member->lease, now_ns) > least_ns;
    }
    for (size_t i = 0; valid && i < set->count; i++)
        set->members[i]->keep_ms = set->members[i]->options->keep_ms;
    (void)pthread_mutex_unlock(&set->client->mutex);
    return valid;
}

static bool is_failing(enum dlock_status status)
{
    return status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE || status == DLOCK_NO_QUORUM;
}

#define STAYS_TAKEN 4

/* The greater, the more it says of the unlock of all. */
static int unlock_rank(enum dlock_status status)
{
    switch (status) {
    case DLOCK_NOT_HELD:
        return 0;
    case DLOCK_OK:
        return 1;
    case DLOCK_LOST:
        return 3;
    default:
        return 2;
    }
}

/* Whether the store may still have the name of a member whose unlock ended so. The unlocks of
 * dlock_client_close are CLOSED, or NOT_HELD, here. */
static bool may_stay_taken_locked(const struct dlock *member, enum dlock_status status)
{
    switch (status) {
    case DLOCK_OK:
    case DLOCK_LOST:
        return false;
    case DLOCK_NOT_HELD:
    case DLOCK_CLOSED:
        return member->repeatable;
    default:
        return true;
    }
}

/* undoes: UNKNOWN if the store may still have one of the names, else what set_acquire.h says. */
static enum dlock_status unlock_all(struct dlock_set *set, size_t count, bool undoes,
                                    struct dlock_error *err)
{
    struct dlock_client *client = set->client;
    enum dlock_status worst = DLOCK_NOT_HELD;
    int64_t until_ns = DL_NEVER;
    int worst_rank = 0;

    while (count-- > 0) {
        struct dlock_error of_one = DLOCK_ERROR_INIT;
        enum dlock_status status;
        int rank;

        (void)pthread_mutex_lock(&client->mutex);
        status = dl_unlock_whole_locked(set->members[count], until_ns, &of_one);
        rank = undoes && may_stay_taken_locked(set->members[count], status) ? STAYS_TAKEN
                                                                            : unlock_rank(status);
        (void)pthread_mutex_unlock(&client->mutex);
        if (is_failing(status))
            until_ns = 0;
        if (rank <= worst_rank)
            continue;
        worst_rank = rank;
        worst = rank == STAYS_TAKEN ? DLOCK_UNKNOWN : status;
        of_one.status = status;
        if (status != DLOCK_OK && status != DLOCK_CLOSED)
            member_name_say(set->members[count], &of_one);
        (void)dl_error(err, status, "%s", of_one.message);
    }
    return worst;
}

enum dlock_status dl_set_acquire_undo(struct dlock_set *set, size_t count, struct dlock_error *err)
{
    return unlock_all(set, count, false, err);
}

/* Gives back what was acquired. The store may keep a name for one ttl more: then the call says so.
 */
static enum dlock_status give_back(struct dlock_set *set, size_t count, enum dlock_status status,
                                   struct dlock_error *err)
{
    struct dlock_error of_unlock = DLOCK_ERROR_INIT, cause = *err;

    if (unlock_all(set, count, true, &of_unlock) != DLOCK_UNKNOWN)
        return status;
    return dl_error(err, DLOCK_UNKNOWN,
                    "not acquired (%s: %.90s), and a name may stay taken for one ttl: %.90s",
                    dlock_status_name((int)status), cause.message, of_unlock.message);
}

/* One round over all members, in order. *count: how many of them were acquired. */
static enum dlock_status round_make(struct dlock_set *set, enum dlock_mode mode, int64_t timeout_ms,
                                    int64_t until_ns, size_t *count, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;
    int64_t left_ms;

    for (*count = 0; *count < set->count; (*count)++) {
        if (!time_left(set, timeout_ms, until_ns, &left_ms))
            return dl_error(err, DLOCK_TIMEOUT, "the time was over after %zu of %zu names", *count,
                            set->count);
        status = member_acquire(set, set->members[*count], mode, left_ms, err);
        if (status != DLOCK_OK)
            return status;
    }
    return DLOCK_OK;
}

enum dlock_status dl_set_acquire_all(struct dlock_set *set, enum dlock_mode mode,
                                     int64_t timeout_ms, struct dlock_error *err)
{
    int64_t until_ns = timeout_ms == DLOCK_FOREVER
                           ? DL_NEVER
                           : dl_clock_after_ms(dl_client_now(set->client), timeout_ms);
    enum dlock_status status;
    size_t count;
    int64_t left_ms;

    for (;;) {
        status = round_make(set, mode, timeout_ms, until_ns, &count, err);
        if (status == DLOCK_OK && all_begin(set))
            return DLOCK_OK;
        if (status != DLOCK_OK)
            return give_back(set, count, status, err);
        /* One was lost, or ends, while the call waited for the others. */
        status = dl_error(err, DLOCK_TIMEOUT, "a lock of the set ended before the last one began");
        status = give_back(set, count, status, err);
        if (status != DLOCK_TIMEOUT || timeout_ms == DLOCK_TRY || timeout_ms == 0 ||
            !time_left(set, timeout_ms, until_ns, &left_ms))
            return status;
    }
}
