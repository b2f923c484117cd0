/* SPDX-License-Identifier: MIT */
/* Sleeping on the wake file. A waiter with a queue entry is woken when it is granted the lock, and
 * reads the grant in the store; others are woken by an unlock. */
#include "orphan.h"
#include "os_error.h"
#include "wait_list.h"

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
        if (DLOCK_HAS(grant, permit))
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
    rc = sqlite_orphan_find(&name, &found);
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
    enum dlock_status status = sqlite_wait_list_await(session->wait_list, file, &session->config,
                                                      session->host, waiters, count, deadline_ns);

    if (status == DLOCK_UNAVAILABLE)
        return dlock_fail(err, SQ_ORIGIN, status, 0, "the wake file: %s",
                          file->why[0] != '\0' ? file->why : "another one has its name");
    if (status != DLOCK_OK)
        return dlock_fail(err, SQ_ORIGIN, status, 0, "the watch ended before a name was free");
    return status;
}
