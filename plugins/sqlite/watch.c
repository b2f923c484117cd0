/* SPDX-License-Identifier: MIT */
#include "watch.h"
#include "net/clients.h"
#include "os_error.h"
#include "queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* `asked` is the count of a bucket up to which its waiters were asked. */
struct sqlite_wait_list {
    struct client client; /* first; its references are sessions and listed attempts */
    uint32_t word;
    pthread_mutex_t mutex; /* guards the rest */
    bool interrupted;
    const struct sqlite_wake_file *sleeps; /* in this file; NULL: nobody sleeps */
    uint64_t inode;                        /* of the file in which `asked` was read */
    uint32_t asked[SQ_WAKE_BUCKETS];
    struct sqlite_waiter *first[SQ_WAKE_BUCKETS];
};

static struct client *list_make(const struct dlock_host *host, const void *arg)
{
    static _Atomic uint32_t made;
    struct sqlite_wait_list *list = calloc(1, sizeof *list);

    (void)host;
    (void)arg;
    if (list == NULL)
        return NULL;
    (void)pthread_mutex_init(&list->mutex, NULL);
    list->word = ((uint32_t)getpid() + atomic_fetch_add(&made, 1)) % SQ_WAKE_WORDS;
    return &list->client;
}

static struct clients lists = {.make = list_make};

bool sqlite_wait_list_init(void)
{
    return clients_init(&lists);
}

struct sqlite_wait_list *sqlite_wait_list_find(const struct dlock_host *host)
{
    return (struct sqlite_wait_list *)(void *)clients_find(&lists, host, NULL);
}

void sqlite_wait_list_unref(struct sqlite_wait_list *list)
{
    if (list == NULL || !clients_unref(&lists, &list->client))
        return;
    (void)pthread_mutex_destroy(&list->mutex);
    free(list);
}

/* ---- the list ---- */

static void wake_locked(struct sqlite_wait_list *list)
{
    if (list->sleeps != NULL)
        sqlite_wake_file_word_wake(list->sleeps, list->word);
}

/* Of a waiter that comes into its bucket: others there may have an older count. */
static void asked_lower_locked(struct sqlite_wait_list *list, const struct sqlite_waiter *waiter)
{
    uint32_t bucket = atomic_load(&waiter->bucket);

    if (waiter->inode != list->inode)
        list->inode = 0; /* all buckets are asked */
    if (list->first[bucket] == NULL || (int32_t)(waiter->count - list->asked[bucket]) < 0)
        list->asked[bucket] = waiter->count;
}

void sqlite_wait_list_add(struct sqlite_wait_list *list, struct sqlite_waiter *waiter,
                          uint32_t number)
{
    struct sqlite_waiter **first = &list->first[atomic_load(&waiter->bucket)];

    clients_ref(&list->client);
    (void)pthread_mutex_lock(&list->mutex);
    asked_lower_locked(list, waiter);
    waiter->number = number;
    waiter->list = list;
    waiter->next = *first;
    waiter->at = first;
    if (waiter->next != NULL)
        waiter->next->at = &waiter->next;
    *first = waiter;
    wake_locked(list); /* the thread may sleep without this bucket */
    (void)pthread_mutex_unlock(&list->mutex);
}

static void unlink_locked(struct sqlite_waiter *waiter)
{
    *waiter->at = waiter->next;
    if (waiter->next != NULL)
        waiter->next->at = waiter->at;
    waiter->at = NULL;
}

void sqlite_wait_list_remove(struct sqlite_waiter *waiter)
{
    struct sqlite_wait_list *list = waiter->list;

    if (list == NULL)
        return;
    (void)pthread_mutex_lock(&list->mutex);
    if (waiter->at != NULL)
        unlink_locked(waiter);
    (void)pthread_mutex_unlock(&list->mutex);
    waiter->list = NULL;
    sqlite_wait_list_unref(list);
}

/* ---- the one thread ---- */

/* Takes numbers of waiters of one bucket; with usable, only of those that were woken. False: there
 * was no room for all. */
static bool bucket_take_locked(struct sqlite_wait_list *list, uint32_t bucket,
                               const struct sqlite_wake_file *usable, uint32_t *numbers,
                               size_t *count, size_t room)
{
    struct sqlite_waiter *waiter = list->first[bucket];

    while (waiter != NULL && *count < room) {
        struct sqlite_waiter *next = waiter->next;

        if (usable == NULL || sqlite_wake_file_is_woken(usable, waiter)) {
            numbers[(*count)++] = waiter->number;
            unlink_locked(waiter);
        }
        waiter = next;
    }
    return waiter == NULL;
}

/* Returns how many numbers were taken. usable: NULL: all waiters ask the store. */
static size_t news_take_locked(struct sqlite_wait_list *list, const struct sqlite_wake_file *usable,
                               uint32_t *numbers, size_t room)
{
    bool same = usable != NULL && list->inode == usable->inode;
    bool whole = true;
    size_t count = 0;

    for (uint32_t i = 0; i < SQ_WAKE_BUCKETS && count < room; i++) {
        uint32_t now = 0;

        if (list->first[i] == NULL)
            continue;
        now = usable != NULL ? sqlite_wake_file_count(usable, i) : 0;
        if (same && now == list->asked[i])
            continue;
        if (bucket_take_locked(list, i, usable, numbers, &count, room))
            list->asked[i] = now;
        else
            whole = false;
    }
    if (usable != NULL && whole && count < room)
        list->inode = usable->inode;
    return count;
}

static uint32_t groups_locked(const struct sqlite_wait_list *list)
{
    uint32_t groups = 0;

    for (uint32_t i = 0; i < SQ_WAKE_BUCKETS; i++)
        if (list->first[i] != NULL)
            groups |= 1u << i % 32;
    return groups;
}

/* One round; INTERNAL: nothing was told, and the thread has slept. */
static enum dlock_status round_locked(struct sqlite_wait_list *list, struct sqlite_wake_file *file,
                                      const struct sqlite_config *config,
                                      const struct dlock_host *host, uint32_t *numbers,
                                      size_t *count, int64_t deadline_ns)
{
    size_t room = *count;
    bool usable = sqlite_wake_file_is_usable(file, config);
    uint32_t groups = groups_locked(list), begun = 0;
    size_t taken = 0;

    if (usable)
        begun = sqlite_wake_file_word_begin(file, list->word, groups);
    taken = news_take_locked(list, usable ? file : NULL, numbers, room);
    if (taken > 0) {
        *count = taken;
        return DLOCK_OK;
    }
    if (list->interrupted) {
        list->interrupted = false;
        return DLOCK_CANCELED;
    }
    if (!usable)
        return DLOCK_UNAVAILABLE;
    if (host->now_ns(host->ctx) >= deadline_ns)
        return DLOCK_TIMEOUT;
    list->sleeps = file;
    (void)pthread_mutex_unlock(&list->mutex);
    /* A word is woken for all groups at an interrupt: the sleep has to have one. */
    sqlite_wake_file_word_sleep(file, list->word, groups | 1u, begun, host, deadline_ns);
    (void)pthread_mutex_lock(&list->mutex);
    list->sleeps = NULL;
    return DLOCK_INTERNAL;
}

/* Slot wait_any, without the text of an error. UNAVAILABLE: the file cannot be used. */
static enum dlock_status list_await(struct sqlite_wait_list *list, struct sqlite_wake_file *file,
                                    const struct sqlite_config *config,
                                    const struct dlock_host *host, uint32_t *numbers, size_t *count,
                                    int64_t deadline_ns)
{
    enum dlock_status status = DLOCK_INTERNAL;

    (void)pthread_mutex_lock(&list->mutex);
    while (status == DLOCK_INTERNAL)
        status = round_locked(list, file, config, host, numbers, count, deadline_ns);
    (void)pthread_mutex_unlock(&list->mutex);
    return status;
}

void sqlite_wait_list_interrupt(struct sqlite_wait_list *list)
{
    (void)pthread_mutex_lock(&list->mutex);
    list->interrupted = true;
    wake_locked(list);
    (void)pthread_mutex_unlock(&list->mutex);
}

/* Sleeping on the wake file. A waiter with a queue entry is woken when it is granted the lock, and
 * reads the grant in the store; others are woken by an unlock. */

/* Core counts the lease from the sending of the request whose answer was QUEUED; the grant came
 * later. This is how much of the lease is certain from that point. */
static int64_t lease_since_queued(const struct sqlite_session *session,
                                  const struct dlock_request *req, int64_t until_ns)
{
    const struct sqlite_attempt *attempt = req->attempt;
    int64_t left_ms = (until_ns - attempt->queued_ns) / DL_NS_PER_MS;

    return sqlite_clock_min(left_ms, sqlite_clock_min(session->config.waiter_ttl_ms, req->ttl_ms));
}

/* OK: granted to the token. BUSY: not yet. */
static enum dlock_status grant_read(struct sqlite_session *session, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err)
{
    const struct sqlite_attempt *attempt = req->attempt;
    struct sqlite_name name;
    sqlite3_stmt *row = NULL;
    enum dlock_status status = DLOCK_BUSY;
    int rc = SQLITE_OK;

    sqlite_name_init(&name, session, req->name, req->name_len);
    rc = sqlite_name_ask(&name, SQ_GRANTED, &(struct sqlite_values){.token = req->token}, &row);
    if (rc == SQLITE_ROW && sqlite3_column_int64(row, 0) > (int64_t)attempt->queued_fence) {
        grant->fence = (uint64_t)sqlite3_column_int64(row, 0);
        grant->fence_room = SQ_FENCE_ROOM;
        grant->permit = (uint32_t)sqlite3_column_int64(row, 2);
        grant->lease_ms = lease_since_queued(session, req, sqlite3_column_int64(row, 1));
        status = DLOCK_OK;
    }
    sqlite_db_reset(&session->db, SQ_GRANTED);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return sqlite_db_fail(&session->db, rc, err);
    if (status == DLOCK_OK && sqlite_db_check_unmoved(&session->db, err) != DLOCK_OK)
        return err->status = DLOCK_UNAVAILABLE; /* trylock will say why */
    return status;
}

static enum dlock_status sleep_until_woken(struct sqlite_session *session,
                                           const struct dlock_request *req, int64_t until_ns)
{
    const struct sqlite_attempt *attempt = req->attempt;

    return sqlite_wake_file_sleep(&session->db.wake_file, &session->config, &attempt->waiter,
                                  session->host, until_ns);
}

/* Asks whether the waiter, which was woken without a grant, is the first now. */
static enum dlock_status position_read(struct sqlite_session *session,
                                       const struct dlock_request *req, struct dlock_error *err)
{
    struct sqlite_attempt *attempt = req->attempt;
    struct sqlite_name name;
    sqlite3_stmt *row = NULL;
    int rc = SQLITE_OK;

    sqlite_name_init(&name, session, req->name, req->name_len);
    rc =
        sqlite_name_ask(&name, SQ_WAITER_AHEAD, &(struct sqlite_values){.token = req->token}, &row);
    attempt->first = rc == SQLITE_ROW && sqlite3_column_int64(row, 0) == 0;
    sqlite_db_reset(&session->db, SQ_WAITER_AHEAD);
    return rc == SQLITE_ROW ? DLOCK_OK : sqlite_db_fail(&session->db, rc, err);
}

/* BUSY: nothing has happened. OK: a holder has died, which the next trylock acts on. */
static enum dlock_status orphan_poll(struct sqlite_session *session,
                                     const struct dlock_request *req, struct dlock_error *err)
{
    struct sqlite_name name;
    bool found = false;
    int rc = SQLITE_OK;

    sqlite_name_init(&name, session, req->name, req->name_len);
    rc = sqlite_queue_find_orphan(&name, &found);
    if (rc != SQLITE_OK)
        return sqlite_db_fail(&session->db, rc, err);
    return found ? DLOCK_OK : DLOCK_BUSY;
}

/* Like sleep_until_woken, but the first waiter looks for a dead holder meanwhile. OK: there is one.
 */
static enum dlock_status sleep_in_queue(struct sqlite_session *session,
                                        const struct dlock_request *req, struct dlock_error *err)
{
    const struct sqlite_attempt *attempt = req->attempt;
    enum dlock_status status = DLOCK_BUSY;

    while (attempt->first) {
        int64_t poll_ns = session->host->now_ns(session->host->ctx) + SQ_ORPHAN_POLL_NS;

        status = orphan_poll(session, req, err);
        if (status != DLOCK_BUSY || poll_ns >= req->deadline_ns)
            break;
        status = sleep_until_woken(session, req, poll_ns);
        if (status != DLOCK_TIMEOUT)
            return status;
    }
    return status == DLOCK_BUSY || status == DLOCK_TIMEOUT
               ? sleep_until_woken(session, req, req->deadline_ns)
               : status;
}

/* Reads once more before it gives up: the grant may have come first [INT-2]. */
static enum dlock_status wait_for_grant(struct sqlite_session *session,
                                        const struct dlock_request *req, struct dlock_grant *grant,
                                        struct dlock_error *err)
{
    struct sqlite_attempt *attempt = req->attempt;
    enum dlock_status status = DLOCK_BUSY, asleep = DLOCK_BUSY;
    bool woken = false;

    while (status == DLOCK_BUSY && asleep == DLOCK_BUSY) {
        sqlite_wake_file_note(&session->db.wake_file, req->token, DLOCK_TOKEN_SIZE,
                              &attempt->waiter);
        status = grant_read(session, req, grant, err);
        if (status == DLOCK_BUSY && woken && !attempt->first &&
            position_read(session, req, err) != DLOCK_OK)
            status = err->status;
        if (status == DLOCK_BUSY)
            asleep = sleep_in_queue(session, req, err);
        woken = true;
    }
    if (status == DLOCK_BUSY)
        status = grant_read(session, req, grant, err);
    if (status != DLOCK_BUSY)
        return status;
    return asleep == DLOCK_OK ? DLOCK_BUSY : asleep; /* BUSY: a trylock ends the orphan */
}

enum dlock_status sqlite_watch_name(struct sqlite_session *session, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err)
{
    const struct sqlite_attempt *attempt = req->attempt;
    enum dlock_status status = attempt->queued ? wait_for_grant(session, req, grant, err)
                                               : sleep_until_woken(session, req, req->deadline_ns);

    if (status == DLOCK_CANCELED || status == DLOCK_TIMEOUT)
        return dlock_fail(err, SQ_ORIGIN, status, 0, "the watch ended before the name was free");
    return status;
}

enum dlock_status sqlite_watch_any(struct sqlite_session *session, uint32_t *waiters, size_t *count,
                                   int64_t deadline_ns, struct dlock_error *err)
{
    struct sqlite_wake_file *file = &session->db.wake_file;
    enum dlock_status status = list_await(session->wait_list, file, &session->config, session->host,
                                          waiters, count, deadline_ns);

    if (status == DLOCK_UNAVAILABLE)
        return dlock_fail(err, SQ_ORIGIN, status, 0, "the wake file: %s",
                          file->why[0] != '\0' ? file->why : "another one has its name");
    if (status != DLOCK_OK)
        return dlock_fail(err, SQ_ORIGIN, status, 0, "the watch ended before a name was free");
    return status;
}
