/* SPDX-License-Identifier: MIT */
/*
 * session.h - one connection to a store, and what the slots do with it.
 *
 * A store is one SQLite file in WAL mode, with a row for each name ever locked. A session is one
 * connection, and a mapping of the wake file beside the store.
 *
 *   plugin      the slots, in the order of plugin.h
 *   lease       taking, extending and ending leases, one or many
 *   inspect     names and holders, and the checks of doctor
 *   watch       sleeping until a grant, also of attempts without a thread
 *   queue       the next waiter of a name, and leases of dead processes
 *   name        a name's row and its readers   life         whether a process lives; labels
 *   setup       the first open of a file       db           connection and transactions
 *   layout      what is in a file; all SQL     wake_file    order of writers, waking of waiters
 *   ticket_lock the order itself               lock_file    for who makes files beside a store
 *   trust       files of other users there     config       from the URI to a file
 *   errmap      errors of SQLite as statuses   os_error     values of errno as statuses
 *   clock       the time of leases
 *
 * A file calls only files below it. Constants begin with SQ_: SQLITE_ and sqlite3_ are the
 * library's.
 */
#ifndef SQLITE_SESSION_H
#define SQLITE_SESSION_H

#include "clock.h"
#include "db.h"
#include "lib/thread.h"
#include "life.h"

#define SQ_HEX_SIZE (2 * DLOCK_TOKEN_SIZE + 1)

/* A write past a limit on the size of files (ulimit -f) raises SIGXFSZ, unless this thread guards
 * itself while a slot runs: the write then fails with EFBIG. */
struct sqlite_sigxfsz {
    bool limited; /* there is a limit: the guard is in force */
    struct dl_signal_guard guard;
};

struct sqlite_session {
    const struct dlock_host *host;
    struct sqlite_config config;
    struct sqlite_clock clock;
    struct sqlite_db db;
    struct sqlite_sigxfsz sigxfsz;
    struct sqlite_life_file *life; /* kept open between two attempts */
    struct sqlite_wait_list *wait_list;
};

/* dlock_request.attempt: zeroed by core at the start of the attempt. */
struct sqlite_attempt {
    struct sqlite_waiter waiter;
    bool tried;            /* and the name was held: read before writing */
    bool unmarked;         /* the row has certainly no mark of life.h */
    bool queued;           /* was the last answer; first, queued_fence, queued_ns belong to it */
    bool first;            /* of the waiters, when that was last asked */
    uint64_t queued_fence; /* an older grant has run out [WAT-4] */
    int64_t queued_ns;     /* when it was executed, on sqlite_clock_now */
    struct sqlite_life_file *life;              /* NULL: the row has no mark */
    unsigned char life_token[DLOCK_TOKEN_SIZE]; /* the token whose byte it holds */
};

/* Makes sure that the file can be opened: it is there, and its -wal and -shm are either there or
 * certainly not in use under other names. CONFIG: they are. UNAVAILABLE: another process opens or
 * closes the store as its only user, until until_ns. *lock_fd: for sqlite_lock_file_give, once the
 * connection has read the file; -1: there was nothing to do. */
enum dlock_status sqlite_setup_file(const struct sqlite_config *config,
                                    const struct sqlite_clock *clock, int64_t until_ns,
                                    int *lock_fd, struct dlock_error *err);

enum dlock_status sqlite_lease_try(struct sqlite_session *session, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status sqlite_lease_unlock(struct sqlite_session *session,
                                      const struct dlock_request *req, struct dlock_error *err);
/* What the attempt has outside the file. */
void sqlite_lease_forget(const struct dlock_request *req);
enum dlock_status sqlite_lease_dequeue(struct sqlite_session *session,
                                       const struct dlock_request *req, struct dlock_error *err);
enum dlock_status sqlite_lease_break(struct sqlite_session *session, const unsigned char *name,
                                     uint32_t name_len, const char *owner, struct dlock_error *err);

/* One transaction for all elements, and so one commit. If SQLite fails one of the elements, the
 * transaction is undone, and each element has one of its own. */
enum dlock_status sqlite_lease_batch_try(struct sqlite_session *session,
                                         struct dlock_batch_op *const *ops, size_t n,
                                         struct dlock_error *err);
enum dlock_status sqlite_lease_batch_unlock(struct sqlite_session *session,
                                            struct dlock_batch_op *const *ops, size_t n,
                                            struct dlock_error *err);

enum dlock_status sqlite_lease_renew(struct sqlite_session *session,
                                     struct dlock_lease_op *const *ops, size_t n,
                                     struct dlock_error *err);

enum dlock_status sqlite_watch_name(struct sqlite_session *session, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err);

enum dlock_status sqlite_watch_any(struct sqlite_session *session, uint32_t *waiters, size_t *count,
                                   int64_t deadline_ns, struct dlock_error *err);

enum dlock_status sqlite_inspect_name(struct sqlite_session *session, const unsigned char *name,
                                      uint32_t name_len, dlock_holder_fn *fn, void *arg,
                                      struct dlock_error *err);
enum dlock_status sqlite_inspect_waiters(struct sqlite_session *session, const unsigned char *name,
                                         uint32_t name_len, dlock_waiter_fn *fn, void *arg,
                                         struct dlock_error *err);
enum dlock_status sqlite_inspect_prefix(struct sqlite_session *session, const unsigned char *prefix,
                                        uint32_t prefix_len, dlock_holder_fn *fn, void *arg,
                                        struct dlock_error *err);

enum dlock_status sqlite_inspect_report(struct sqlite_session *session, dlock_check_fn *fn,
                                        void *arg, struct dlock_error *err);

#endif
