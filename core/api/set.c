/* SPDX-License-Identifier: MIT */
#include "api/set.h"
#include "acquire/cancel.h"
#include "api/check.h"
#include "api/handle.h"
#include "api/handle_free.h"
#include "api/set_acquire.h"
#include "hold/renew.h"
#include "hold/renewer.h"
#include "lib/printable.h"
#include "sys/error.h"

#include <stdlib.h>
#include <string.h>

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
        size_t len = 0;

        if (names[i] != NULL)
            len = lens != NULL ? lens[i] : strlen(names[i]);
        entries[i] = (struct entry){names[i], len, (unsigned char)i};
        status = dl_check_name(names[i], len, err);
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
    enum dlock_status status = dl_check_client(client, &e);

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
static enum dl_set_phase call_begin(struct dlock_set *set, enum dl_set_phase next)
{
    enum dl_set_phase phase;

    (void)pthread_mutex_lock(&set->mutex);
    set->calls++;
    while (set->phase == DL_SET_BUSY)
        (void)pthread_cond_wait(&set->changed, &set->mutex);
    phase = set->phase;
    if (phase != DL_SET_ACQUIRING && (next != DL_SET_ACQUIRING || phase == DL_SET_FREE))
        set->phase = next;
    (void)pthread_mutex_unlock(&set->mutex);
    return phase;
}

static void call_end(struct dlock_set *set, enum dl_set_phase phase)
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

static enum dlock_status set_check(const struct dlock_set *set, struct dlock_error *err)
{
    dl_error_begin(err);
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
    enum dl_set_phase phase = call_begin(set, DL_SET_ACQUIRING);
    enum dlock_status status;

    if (phase != DL_SET_FREE) {
        bool lost = phase == DL_SET_HELD && dlock_set_state(set) == DLOCK_STATE_LOST;

        call_refuse(set); /* dlock_set_free may free the set from here on */
        if (lost)
            return dl_error(err, DLOCK_LOST, "the set was lost: unlock acknowledges the loss");
        return dl_error(err, DLOCK_ALREADY, "the set is held or being acquired");
    }
    status = dl_set_acquire_all(set, mode, timeout_ms, err);
    (void)pthread_mutex_lock(&set->mutex);
    set->canceled = false;
    (void)pthread_mutex_unlock(&set->mutex);
    atomic_store(&set->held, status == DLOCK_OK);
    call_end(set, status == DLOCK_OK ? DL_SET_HELD : DL_SET_FREE);
    return status;
}

enum dlock_status dlock_set_acquire(struct dlock_set *set, enum dlock_mode mode, int64_t timeout_ms,
                                    struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = set_check(set, &e);

    if (status == DLOCK_OK)
        status = dl_check_acquire(set->client, mode, timeout_ms, &e);
    if (status == DLOCK_OK && timeout_ms == DLOCK_WAIT)
        timeout_ms = set->members[0]->options->wait_ms;
    if (status == DLOCK_OK)
        status = acquire(set, mode, timeout_ms, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_set_unlock(struct dlock_set *set, struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = set_check(set, &e);

    if (status != DLOCK_OK)
        return dl_error_export(err, &e, status);
    if (call_begin(set, DL_SET_BUSY) == DL_SET_ACQUIRING) {
        call_refuse(set);
        status = dl_error(&e, DLOCK_ALREADY, "another thread is acquiring with this set");
    } else {
        atomic_store(&set->held, false);
        status = dl_set_acquire_undo(set, set->count, &e);
        call_end(set, DL_SET_FREE);
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
    enum dl_set_phase phase;
    struct dlock_error e;
    enum dlock_status status = set_check(set, &e);

    if (status == DLOCK_OK)
        status = dl_check_ttl(ttl_ms, &e);
    if (status != DLOCK_OK)
        return dl_error_export(err, &e, status);
    phase = call_begin(set, DL_SET_BUSY);
    if (phase == DL_SET_ACQUIRING) {
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
        dl_cancel(set->acquiring);
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
    if (set->phase != DL_SET_ACQUIRING)
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

const struct dlock *dlock_set_member(const struct dlock_set *set, size_t index)
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
    status = dl_set_acquire_undo(set, set->count, &err);
    if (dlock_status_class((int)status) == DLOCK_CLASS_BACKEND)
        dl_log(&client->host.log, DLOCK_LOG_WARNING, "unlock by dlock_set_free: %s", err.message);
    while (set->count > 0)
        dl_handle_free(set->members[--set->count]);
    memory_free(set);
}
