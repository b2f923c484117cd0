/* SPDX-License-Identifier: MIT */
/*
 * set.c - several names that are held together: all of them, or none.
 *
 * A set has one handle for each name, in the order of the bytes of the names. All sets acquire in
 * this order, so that sets never wait for each other in a circle.
 *
 * LOCK ORDER: set->mutex, then client->mutex. set->mutex is never held during an exchange.
 */
#include "acquire/acquire.h"
#include "api/check.h"
#include "api/handle.h"
#include "hold/deadman.h"
#include "hold/lease.h"
#include "hold/renewer.h"
#include "hold/unlock.h"
#include "lib/text.h"
#include "sys/error.h"

#include <dlock/dlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 64

enum set_phase { SET_FREE, SET_BUSY, SET_ACQUIRING, SET_HELD };

struct dlock_set {
    /* constant after dlock_set_new */
    struct dlock_client *client;
    size_t count;
    struct dlock_handle *members[DLOCK_SET_MAX]; /* in the order of the names */
    unsigned char order[DLOCK_SET_MAX];          /* where in members the name of this index is */

    _Atomic bool held; /* an acquire succeeded, and no unlock began */

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* of phase and calls */
    enum set_phase phase;   /* BUSY: it is unlocked or renewed now */
    unsigned calls;         /* functions that run on the set now; dlock_set_free waits for them */
    bool canceled;          /* the acquire in progress, or the next one, has to end */
    struct dlock_handle *acquiring; /* the member that is being acquired; NULL: none */
};

/* Puts the name of the member before the text. */
static void member_name_say(const struct dlock_handle *member, struct dlock_error *err)
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
static bool member_begin(struct dlock_set *set, struct dlock_handle *member)
{
    bool go_on;

    (void)pthread_mutex_lock(&set->mutex);
    go_on = !set->canceled;
    set->acquiring = go_on ? member : NULL;
    (void)pthread_mutex_unlock(&set->mutex);
    return go_on;
}

/* A cancel that came after the end of the member's call is not for its next one. */
static void member_end(struct dlock_set *set, struct dlock_handle *member)
{
    (void)pthread_mutex_lock(&set->mutex);
    set->acquiring = NULL;
    dl_acquire_cancel_reset(member);
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

static enum dlock_status member_acquire(struct dlock_set *set, struct dlock_handle *member,
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
        struct dlock_handle *member = set->members[i];
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
static bool may_stay_taken_locked(const struct dlock_handle *member, enum dlock_status status)
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

/* The last release may take long to be sent (C25). */
static void timer_disarm(struct dlock_set *set, size_t count)
{
    (void)pthread_mutex_lock(&set->client->mutex);
    for (size_t i = 0; i < count; i++)
        dl_deadman_disarm_locked(set->members[i]);
    (void)pthread_mutex_unlock(&set->client->mutex);
}

/*
 * Unlocks the first `count` members, the last one first. After a member for which the store gave no
 * answer, the store is not asked for the others: their leases end by themselves.
 *
 * LOST: one of them was lost; else the first failure; else OK. NOT_HELD: none of them was held.
 * undoes: UNKNOWN if the store may still have one of the names.
 */
static enum dlock_status unlock_all(struct dlock_set *set, size_t count, bool undoes,
                                    struct dlock_error *err)
{
    struct dlock_client *client = set->client;
    enum dlock_status worst = DLOCK_NOT_HELD;
    int64_t until_ns = DL_NEVER;
    int worst_rank = 0;

    timer_disarm(set, count);
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

/* In the phase ACQUIRING. timeout_ms: as of dl_acquire. */
static enum dlock_status acquire_all(struct dlock_set *set, enum dlock_mode mode,
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
        if (status != DLOCK_TIMEOUT || timeout_ms == 0 ||
            !time_left(set, timeout_ms, until_ns, &left_ms))
            return status;
    }
}

struct entry {
    const char *name;
    size_t len;
    unsigned char index; /* as the application gave it */
};

static int entries_compare(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    int order = memcmp(a->name, b->name, a->len < b->len ? a->len : b->len);

    if (order != 0)
        return order;
    return (a->len > b->len) - (a->len < b->len);
}

/* Checks the names and sorts them. */
static enum dlock_status entries_make(struct entry entries[DLOCK_SET_MAX], const char *const *names,
                                      const size_t *lens, size_t count, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (names == NULL)
        return dl_error(err, DLOCK_INVALID, "names is NULL");
    if (count < 1 || count > DLOCK_SET_MAX)
        return dl_error(err, DLOCK_INVALID, "a set has 1 to %d names, not %zu", DLOCK_SET_MAX,
                        count);
    for (size_t i = 0; i < count && status == DLOCK_OK; i++) {
        size_t len = lens != NULL ? lens[i] : DLOCK_NUL;

        status = dl_check_name(names[i], &len, err);
        entries[i] = (struct entry){names[i], len, (unsigned char)i};
    }
    if (status != DLOCK_OK)
        return status;
    qsort(entries, count, sizeof entries[0], entries_compare);
    for (size_t i = 1; i < count; i++) {
        char text[64];

        if (entries_compare(&entries[i - 1], &entries[i]) == 0)
            return dl_error(
                err, DLOCK_INVALID, "the name %s is twice in the set",
                dl_printable_escape(text, sizeof text, entries[i].name, entries[i].len));
    }
    return DLOCK_OK;
}

static void memory_free(struct dlock_set *set)
{
    (void)pthread_cond_destroy(&set->changed);
    (void)pthread_mutex_destroy(&set->mutex);
    free(set);
}

static enum dlock_status set_make(struct dlock_client *client, const struct entry *entries,
                                  size_t count, const struct dlock_options *options,
                                  struct dlock_set **out, struct dlock_error *err)
{
    struct dlock_set *set = calloc(1, sizeof *set);
    enum dlock_status status = DLOCK_OK;

    if (set == NULL)
        return dl_error(err, DLOCK_NOMEM, "no memory for a set");
    set->client = client;
    (void)pthread_mutex_init(&set->mutex, NULL);
    (void)pthread_cond_init(&set->changed, NULL);
    while (status == DLOCK_OK && set->count < count) {
        const struct entry *entry = &entries[set->count];

        status =
            dl_handle_new(client, entry->name, entry->len, options, &set->members[set->count], err);
        if (status != DLOCK_OK)
            break;
        set->members[set->count]->in_set = true;
        set->order[entry->index] = (unsigned char)set->count++;
    }
    if (status == DLOCK_OK) {
        *out = set;
        return DLOCK_OK;
    }
    while (set->count > 0)
        dl_handle_free(set->members[--set->count]);
    memory_free(set);
    return status;
}

enum dlock_status dlock_set_new(struct dlock_client *client, const char *const *names,
                                const size_t *lens, size_t count,
                                const struct dlock_options *options, struct dlock_set **out,
                                struct dlock_error *err)
{
    struct entry entries[DLOCK_SET_MAX];
    struct dlock_error e;
    enum dlock_status status = dl_check_client(client, err, &e);

    if (status == DLOCK_OK)
        status = entries_make(entries, names, lens, count, &e);
    if (status == DLOCK_OK && out == NULL)
        status = dl_error(&e, DLOCK_INVALID, "out is NULL");
    if (status == DLOCK_OK)
        status = set_make(client, entries, count, options, out, &e);
    return dl_error_export(err, &e, status);
}

/* A call begins: waits until no other call unlocks or renews. The phase becomes next, unless the
 * set is being acquired, or next is ACQUIRING and the set is not free. Returns the phase before. */
static enum set_phase call_begin(struct dlock_set *set, enum set_phase next)
{
    enum set_phase phase;

    (void)pthread_mutex_lock(&set->mutex);
    set->calls++;
    while (set->phase == SET_BUSY)
        (void)pthread_cond_wait(&set->changed, &set->mutex);
    phase = set->phase;
    if (phase != SET_ACQUIRING && (next != SET_ACQUIRING || phase == SET_FREE))
        set->phase = next;
    (void)pthread_mutex_unlock(&set->mutex);
    return phase;
}

static void call_end(struct dlock_set *set, enum set_phase phase)
{
    (void)pthread_mutex_lock(&set->mutex);
    set->phase = phase;
    set->calls--;
    (void)pthread_cond_broadcast(&set->changed);
    (void)pthread_mutex_unlock(&set->mutex);
}

/* A call ends that changed nothing. */
static void call_refuse(struct dlock_set *set)
{
    (void)pthread_mutex_lock(&set->mutex);
    set->calls--;
    (void)pthread_cond_broadcast(&set->changed);
    (void)pthread_mutex_unlock(&set->mutex);
}

static enum dlock_status set_check(const struct dlock_set *set, const struct dlock_error *caller,
                                   struct dlock_error *err)
{
    dl_error_begin(err, caller);
    if (set == NULL)
        return dl_error(err, DLOCK_INVALID, "set is NULL");
    if (dl_client_forked(set->client))
        return dl_error(err, DLOCK_FORKED, "the set was made before fork");
    return DLOCK_OK;
}

static bool set_usable(const struct dlock_set *set)
{
    return set != NULL && !dl_client_forked(set->client);
}

static enum dlock_status acquire(struct dlock_set *set, enum dlock_mode mode, int64_t timeout_ms,
                                 struct dlock_error *err)
{
    enum set_phase phase = call_begin(set, SET_ACQUIRING);
    enum dlock_status status;

    if (phase != SET_FREE) {
        bool lost = phase == SET_HELD && dlock_set_state(set) == DLOCK_STATE_LOST;

        call_refuse(set); /* dlock_set_free may free the set from here on */
        if (lost)
            return dl_error(err, DLOCK_LOST, "the set was lost: unlock acknowledges the loss");
        return dl_error(err, DLOCK_ALREADY, "the set is held or being acquired");
    }
    status = acquire_all(set, mode, timeout_ms, err);
    (void)pthread_mutex_lock(&set->mutex);
    set->canceled = false;
    (void)pthread_mutex_unlock(&set->mutex);
    atomic_store(&set->held, status == DLOCK_OK);
    call_end(set, status == DLOCK_OK ? SET_HELD : SET_FREE);
    return status;
}

enum dlock_status dlock_set_acquire(struct dlock_set *set, enum dlock_mode mode, int64_t timeout_ms,
                                    struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = set_check(set, err, &e);

    if (status == DLOCK_OK)
        status = dl_check_acquire(set->client, mode, timeout_ms, &e);
    if (status == DLOCK_OK && timeout_ms == DLOCK_AS_OPTIONS)
        timeout_ms = set->members[0]->options->wait_ms;
    if (status == DLOCK_OK)
        status = acquire(set, mode, timeout_ms, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_set_unlock(struct dlock_set *set, struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = set_check(set, err, &e);

    if (status != DLOCK_OK)
        return dl_error_export(err, &e, status);
    if (call_begin(set, SET_BUSY) == SET_ACQUIRING) {
        call_refuse(set);
        status = dl_error(&e, DLOCK_ALREADY, "another thread is acquiring with this set");
    } else {
        atomic_store(&set->held, false);
        status = unlock_all(set, set->count, false, &e);
        call_end(set, SET_FREE);
    }
    return dl_error_export(err, &e, status);
}

static enum dlock_status renew_all(struct dlock_set *set, int64_t ttl_ms, struct dlock_error *err)
{
    for (size_t i = 0; i < set->count; i++) {
        enum dlock_status status = dl_renew(set->members[i], ttl_ms, err);

        if (status != DLOCK_OK)
            return status;
    }
    return DLOCK_OK;
}

enum dlock_status dlock_set_renew(struct dlock_set *set, int64_t ttl_ms, struct dlock_error *err)
{
    enum set_phase phase;
    struct dlock_error e;
    enum dlock_status status = set_check(set, err, &e);

    if (status == DLOCK_OK)
        status = dl_check_ttl(ttl_ms, &e);
    if (status != DLOCK_OK)
        return dl_error_export(err, &e, status);
    phase = call_begin(set, SET_BUSY);
    if (phase == SET_ACQUIRING) {
        call_refuse(set);
        status = dl_error(&e, DLOCK_NOT_HELD, "the set is being acquired");
    } else {
        status = renew_all(set, ttl_ms, &e);
        call_end(set, phase);
    }
    return dl_error_export(err, &e, status);
}

static void cancel_locked(struct dlock_set *set)
{
    set->canceled = true;
    if (set->acquiring != NULL)
        dl_acquire_cancel(set->acquiring);
}

void dlock_set_cancel(struct dlock_set *set)
{
    if (!set_usable(set))
        return;
    (void)pthread_mutex_lock(&set->mutex);
    cancel_locked(set);
    (void)pthread_mutex_unlock(&set->mutex);
}

void dlock_set_cancel_reset(struct dlock_set *set)
{
    if (!set_usable(set))
        return;
    (void)pthread_mutex_lock(&set->mutex);
    if (set->phase != SET_ACQUIRING)
        set->canceled = false;
    (void)pthread_mutex_unlock(&set->mutex);
}

enum dlock_state dlock_set_state(const struct dlock_set *set)
{
    bool lost = false, ended = false, doubtful = false;

    if (!set_usable(set) || !atomic_load(&set->held))
        return DLOCK_STATE_FREE;
    for (size_t i = 0; i < set->count; i++) {
        enum dlock_state state = dlock_state(set->members[i]);

        lost |= state == DLOCK_STATE_LOST;
        ended |= state == DLOCK_STATE_FREE;
        doubtful |= state == DLOCK_STATE_DOUBTFUL;
    }
    if (lost || ended)
        return lost ? DLOCK_STATE_LOST : DLOCK_STATE_FREE;
    return doubtful ? DLOCK_STATE_DOUBTFUL : DLOCK_STATE_HELD;
}

int64_t dlock_set_remaining_ms(const struct dlock_set *set)
{
    int64_t least_ms = INT64_MAX;

    if (!set_usable(set) || !atomic_load(&set->held))
        return 0;
    for (size_t i = 0; i < set->count; i++) {
        int64_t left_ms = dlock_remaining_ms(set->members[i]);

        if (left_ms < least_ms)
            least_ms = left_ms;
    }
    return least_ms;
}

const struct dlock_handle *dlock_set_member(const struct dlock_set *set, size_t index)
{
    return set != NULL && index < set->count ? set->members[set->order[index]] : NULL;
}

static void free_after_fork(struct dlock_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        dl_handle_free_after_fork(set->members[i]);
    free(set);
}

static void await_calls(struct dlock_set *set)
{
    (void)pthread_mutex_lock(&set->mutex);
    while (set->calls > 0) {
        cancel_locked(set);
        (void)pthread_cond_wait(&set->changed, &set->mutex);
    }
    (void)pthread_mutex_unlock(&set->mutex);
}

void dlock_set_free(struct dlock_set *set)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client;
    enum dlock_status status;
    bool self;

    if (set == NULL)
        return;
    client = set->client;
    if (dl_client_forked(client)) {
        free_after_fork(set);
        return;
    }
    (void)pthread_mutex_lock(&client->mutex);
    self = dl_renewer_is_self_locked(client);
    (void)pthread_mutex_unlock(&client->mutex);
    if (self) {
        dl_log(&client->host.log, DLOCK_LOG_ERROR, "dlock_set_free in a loss callback: refused");
        return;
    }
    await_calls(set);
    status = unlock_all(set, set->count, false, &err);
    if (dlock_status_class((int)status) == DLOCK_CLASS_BACKEND)
        dl_log(&client->host.log, DLOCK_LOG_WARNING, "unlock by dlock_set_free: %s", err.message);
    while (set->count > 0)
        dl_handle_free(set->members[--set->count]);
    memory_free(set);
}
