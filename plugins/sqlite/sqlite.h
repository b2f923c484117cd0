/* SPDX-License-Identifier: MIT */
/*
 * sqlite.h - what the files of the sqlite plugin share.
 *
 * A store is one SQLite file in WAL mode with a row for each name ever locked. A session is one
 * connection, and a mapping of the gate file beside it.
 *
 *   plugin.c      the slots, in the order of plugin.h
 *   place.c       from the URI to a file, and which file systems can hold it
 *   links.c       symbolic links on the way there
 *   setup.c       the first open: making the file, proving that a half-there one is not in use
 *   layout.c      recognising a store, making one, upgrading one
 *   db.c          connection, settings, transactions; notices a file that was moved away
 *   statements.c  the schema and all SQL text
 *   name.c        one name in a transaction: its row, its readers, its queue (name.h)
 *   lease.c       taking, renewing and ending leases: the transactions
 *   wait.c        watch: asleep until there is a grant or a release
 *   look.c        inspect and list
 *   probe.c       what this store gives, for people
 *   gate.c        the queue in front of SQLite's own lock, and the sleepers
 *   gate_file.c   the file that they are in
 *   ticket_lock.c the queue
 *   clock.c       the time that leases are counted in
 *   errmap.c      SQLite's result codes as statuses
 *   origin.c      noticing that this is a forked child
 *   signals.c     a limit on the size of files is an error, and not the end of the program
 *
 * Constants begin with SQ_, because SQLITE_ and sqlite3_ are the library's.
 */
#ifndef SQLITE_H
#define SQLITE_H

#include "gate.h"
#include "lib/time.h"

#include <dlock/plugin.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <time.h>

#define SQ_ORIGIN     "sqlite"
#define SQ_BOOT_SIZE  16
#define SQ_HEX_SIZE   (2 * DLOCK_TOKEN_SIZE + 1)
#define SQ_LABEL_SIZE 256 /* what is kept of a waiter's */
#define SQ_REAL_MAX   500 /* of a path: SQLite takes 512 bytes, a suffix included */

#ifdef __clang_analyzer__
/* It cannot see through a variadic call what that returns. */
#define dlock_fail(err, origin, status, ...) \
    ((void)dlock_fail(err, origin, status, __VA_ARGS__), (status))
#endif

/* ---- clock.c ---- */

struct sqlite_clock {
    int64_t offset_ns; /* of this process's time namespace */
    unsigned char boot[SQ_BOOT_SIZE];
};

/* CONFIG: this process cannot know the time that others see. */
enum dlock_status sqlite_clock_init(struct sqlite_clock *clock, struct dlock_error *err);

/* CLOCK_BOOTTIME as in the initial time namespace: the same in every process of this boot. */
int64_t sqlite_clock_now(const struct sqlite_clock *clock);

int64_t sqlite_clock_wall_us(void);

/* CLOCK_BOOTTIME of this process, for deadlines: it counts the time in which the machine is
 * suspended. */
int64_t sqlite_clock_boottime(void);

/* The moment on it that is left_ns away, or as good as never. */
int64_t sqlite_clock_until(int64_t left_ns);

/* until_ns, or a second from now, as CLOCK_MONOTONIC has it, on which futexes wait. That clock
 * stops while the machine is suspended: compare with sqlite_clock_boottime after each wait. */
struct timespec sqlite_clock_futex(int64_t until_ns);

/* Sleeps for a while that grows with round (0, 1, ...), not past until_ns of
 * sqlite_clock_boottime. Zero: until_ns has passed. */
int sqlite_clock_nap(int round, int64_t until_ns);

static inline int64_t sqlite_lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- place.c ---- */

/* How the file may be used. */
enum sqlite_access {
    SQ_ACCESS_WRITE,
    SQ_ACCESS_READ,    /* with the -wal and -shm of others, which this user could not make */
    SQ_ACCESS_SNAPSHOT /* there are none: nobody has it open, and nobody may open it meanwhile */
};

struct sqlite_place {
    char *path;      /* absolute, as asked for */
    char *real;      /* the same without symbolic links */
    char *directory; /* of real */
    int create;      /* zero: nothing is made, what is not there is NO_STORE */
    enum sqlite_access access;
};

/* The parent directory must be there; the file need not, with `create`. Without, who may not write
 * gets access to read. INVALID, CONFIG, AUTH, NOMEM, NO_STORE. */
enum dlock_status sqlite_place_init(struct sqlite_place *place, const struct dlock_target *target,
                                    struct dlock_error *err);
void sqlite_place_fini(struct sqlite_place *place);

/* CONFIG: processes on several hosts may see the file. */
enum dlock_status sqlite_place_check(const struct sqlite_place *place, struct dlock_error *err);

/* Non-zero: not on a file system that is known to be shared with other hosts. */
int sqlite_place_local(const struct sqlite_place *place);

enum dlock_status sqlite_place_no_store(const struct sqlite_place *place, struct dlock_error *err);

/* 0, or the errno for which this process may not make files in the directory. */
int sqlite_place_closed(const struct sqlite_place *place);

/* Zero: there is certainly no "<real><suffix>" now. */
int sqlite_place_has(const struct sqlite_place *place, const char *suffix);

/* The name of the file system, "ext4", or its number in hex in buf. */
const char *sqlite_place_fs(const struct sqlite_place *place, char *buf, size_t size);

/* Writes "<real><suffix>" to a new string; NULL: no memory. Caller frees. */
char *sqlite_place_sibling(const struct sqlite_place *place, const char *suffix);

/* ---- links.c ---- */

/* As realpath(3), but a link that another user may have put there is AUTH. An errno; err is filled,
 * but for ENOENT. Caller frees *real. */
int sqlite_links_resolve(const char *path, char **real, struct dlock_error *err);

/* ---- errmap.c ---- */

/* What a system call's errno means for a store. */
enum dlock_status sqlite_status_of_errno(int number);

/* Fills err for errno `number` of "doing `what` to `path`". */
enum dlock_status sqlite_fail_errno(struct dlock_error *err, const char *path, const char *what,
                                    int number);

const char *sqlite_errno_text(int number);

/* What rc means of a statement that has certainly not been committed. */
enum dlock_status sqlite_status_of(int rc);

/* What rc means of a COMMIT: UNKNOWN unless it is sure that nothing will ever come of it. */
enum dlock_status sqlite_status_of_commit(int rc);

/* ---- statements.c ---- */

#define SQ_APPLICATION_ID 0x444C4B53 /* "DLKS" */
#define SQ_SCHEMA_VERSION 2
#define SQ_SCHEMA_OLDEST  1 /* that can be upgraded */

extern const char sqlite_schema[];
extern const char sqlite_upgrade[]; /* from layout 1, after the schema */

/* locks.crowd: in which tables there may be rows of the name. */
enum { SQ_READERS = 1, SQ_WAITERS = 2 };

enum sqlite_statement {
    SQ_BEGIN,
    SQ_COMMIT,
    SQ_ROLLBACK,
    SQ_FIND,
    SQ_TAKE_FIRST,
    SQ_TAKE,
    SQ_MARK,
    SQ_FREE,
    SQ_EXTEND,
    SQ_RELEASE,
    SQ_READERS_COUNT,
    SQ_READERS_REAP,
    SQ_READERS_END,
    SQ_READER_TAKE,
    SQ_READER_KEEP,
    SQ_READER_EXTEND,
    SQ_READER_RELEASE,
    SQ_WAITERS_COUNT,
    SQ_WAITERS_REAP,
    SQ_WAITERS_HEAD,
    SQ_WAITER_JOIN,
    SQ_WAITER_STAY,
    SQ_WAITER_AHEAD,
    SQ_WAITER_LEAVE,
    SQ_GRANTED,
    SQ_INSPECT,
    SQ_LIST,
    SQ_STATEMENTS
};

/* A statement has those that it needs. */
enum sqlite_parameter {
    SQ_P_NAME = 1,
    SQ_P_TOKEN,
    SQ_P_BOOT,
    SQ_P_NOW,
    SQ_P_UNTIL,
    SQ_P_FENCE,
    SQ_P_CROWD,
    SQ_P_LABEL,
    SQ_P_MODE,
    SQ_P_LEASE
};

extern const char *const sqlite_statement_text[SQ_STATEMENTS];

/* ---- db.c ---- */

struct sqlite_db {
    sqlite3 *handle;
    sqlite3_stmt *statements[SQ_STATEMENTS]; /* NULL: not used so far */
    const struct sqlite_place *place;        /* borrowed */
    struct sqlite_gate gate;
    struct sqlite_wakes wakes; /* at the end of the transaction */
    struct stat opened;        /* the file that is open */
    int64_t unmoved_ns;        /* sqlite_clock_boottime: when it was last seen at the path */
    int64_t until_ns;          /* sqlite_clock_boottime: a busy file is waited for until then */
    int gated;                 /* in a transaction, and the gate is ours */
};

/* CONFIG: not a database, not ours, of a newer version. Waits until db->until_ns. */
enum dlock_status sqlite_db_open(struct sqlite_db *db, const struct sqlite_place *place, int full,
                                 struct dlock_error *err);
void sqlite_db_close(struct sqlite_db *db);

/* Non-zero: connections may be used in several threads, as SQLite was built and as the application
 * configured it. */
int sqlite_db_threadsafe(void);

/* Opens the connection alone, with settings that keep surprises out. */
int sqlite_db_connect(const struct sqlite_place *place, sqlite3 **handle);

/* CONFIG: SQLite could open it for reading only, though it is to be written. */
enum dlock_status sqlite_db_writable(sqlite3 *handle, const struct sqlite_place *place,
                                     struct dlock_error *err);

/* Fills err with what SQLite says about rc; returns status. */
enum dlock_status sqlite_db_fail(struct dlock_error *err, sqlite3 *handle,
                                 const struct sqlite_place *place, enum dlock_status status,
                                 int rc);

/* A write transaction, alone in the file. UNAVAILABLE: others were in it until db->until_ns. */
enum dlock_status sqlite_db_begin(struct sqlite_db *db, struct dlock_error *err);

/* Ends it: committed on OK only; not known on UNKNOWN; CONFIG: the file was moved, so that what is
 * decided here binds nobody; UNAVAILABLE: also if nobody can tell. All of them wake those in
 * db->wakes: whatever came of it may be so. */
enum dlock_status sqlite_db_commit(struct sqlite_db *db, struct dlock_error *err);
/* The same where a lease or a place only ends: the file may have been seen at the path 0.2 ms ago,
 * and if nobody can tell whether it was moved, it is committed. The comparison takes a twentieth of
 * the time of a lock and an unlock. */
enum dlock_status sqlite_db_commit_release(struct sqlite_db *db, struct dlock_error *err);
void sqlite_db_rollback(struct sqlite_db *db);

/* OK: the file that is open is the one at the path. CONFIG: it is not. UNAVAILABLE: not known, as
 * the path cannot be looked at now; or it is a snapshot, and somebody writes by now. */
enum dlock_status sqlite_db_unmoved(struct sqlite_db *db, struct dlock_error *err);

/* A statement, prepared when it is first used. An rc of SQLite; NULL: not SQLITE_OK. */
int sqlite_db_statement(struct sqlite_db *db, enum sqlite_statement which, sqlite3_stmt **out);

/* Runs a prepared statement to its next row or end; anything but SQLITE_ROW and SQLITE_DONE is an
 * error. Reset it afterwards. */
int sqlite_db_step(struct sqlite_db *db, enum sqlite_statement which);
void sqlite_db_reset(struct sqlite_db *db, enum sqlite_statement which);

/* ---- layout.c ---- */

/* OK and *empty, or CONFIG: is what the connection reads a store of ours, of a layout
 * that can be used or upgraded? Others: errors. */
enum dlock_status sqlite_layout_identify(sqlite3 *handle, const struct sqlite_place *place,
                                         int *empty, struct dlock_error *err);

/* CONFIG: it is not in WAL mode. */
enum dlock_status sqlite_layout_is_wal(sqlite3 *handle, const struct sqlite_place *place,
                                       struct dlock_error *err);

/* CONFIG: it has an earlier layout. */
enum dlock_status sqlite_layout_is_present(sqlite3 *handle, const struct sqlite_place *place,
                                           struct dlock_error *err);

/* SQLite's codes. An empty file becomes a store. */
int sqlite_layout_make(sqlite3 *handle);

/* A store of an earlier layout gets the present one, with all leases and fences; or nothing is
 * changed. Programs of that layout that have it open fail from now on, with CONFIG. */
int sqlite_layout_upgrade(sqlite3 *handle);

/* ---- setup.c ---- */

struct sqlite_setup {
    int fd; /* of the directory, locked; -1: the file was in use, and there was nothing to do */
};

/*
 * Sees to it that the file can be opened: it is there, and its -wal and -shm are either there or
 * certainly not missing under somebody who uses them. Keep it up until the connection has read.
 */
enum dlock_status sqlite_setup_begin(struct sqlite_setup *setup, const struct sqlite_place *place,
                                     const struct sqlite_clock *clock, int64_t until_ns,
                                     struct dlock_error *err);
void sqlite_setup_end(struct sqlite_setup *setup);

/* A lock on the directory, for who makes files in it. -1 and errno; EBUSY: not until until_ns. */
int sqlite_directory_lock(const char *directory, int64_t until_ns);
void sqlite_directory_unlock(int fd);

/* ---- signals.c ---- */

struct sqlite_signals {
    int blocked; /* non-zero: by us, and `before` is to come back */
    int pending; /* SIGXFSZ, before that */
    sigset_t before;
};

/* Around everything that may write to files, in one thread. */
void sqlite_signals_block(struct sqlite_signals *signals);
void sqlite_signals_restore(struct sqlite_signals *signals);

/* ---- session ---- */

struct sqlite_session {
    const struct dlock_host *host;
    struct sqlite_place place;
    struct sqlite_clock clock;
    struct sqlite_db db;
    struct sqlite_signals signals;
    int64_t waiter_lease_ms;
    int full;
};

/* dlock_request.slot: zeroed by core at the start of the attempt. */
struct sqlite_slot {
    struct sqlite_watch watch;
    int tried;             /* and found to be held: look before writing */
    int queued;            /* was the last answer; the rest is of that */
    uint64_t queued_fence; /* an older grant has run out [WAT-4] */
    int64_t queued_ns;     /* when it was executed, on the store's clock */
};

/* ---- lease.c ---- */

enum dlock_status sqlite_lease_try(struct sqlite_session *session, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status sqlite_lease_renew(struct sqlite_session *session, struct dlock_lease_op *ops,
                                     size_t n, struct dlock_error *err);
enum dlock_status sqlite_lease_unlock(struct sqlite_session *session,
                                      const struct dlock_request *req, struct dlock_error *err);
enum dlock_status sqlite_lease_leave(struct sqlite_session *session,
                                     const struct dlock_request *req, struct dlock_error *err);
enum dlock_status sqlite_lease_break(struct sqlite_session *session, const unsigned char *name,
                                     uint32_t name_len, const char *owner, struct dlock_error *err);

/* ---- wait.c ---- */

enum dlock_status sqlite_wait(struct sqlite_session *session, const struct dlock_request *req,
                              struct dlock_grant *grant, struct dlock_error *err);

/* ---- look.c ---- */

enum dlock_status sqlite_look_inspect(struct sqlite_session *session, const unsigned char *name,
                                      uint32_t name_len, dlock_holder_fn *fn, void *arg,
                                      struct dlock_error *err);
enum dlock_status sqlite_look_list(struct sqlite_session *session, const unsigned char *prefix,
                                   uint32_t prefix_len, dlock_holder_fn *fn, void *arg,
                                   struct dlock_error *err);

/* hex holds SQ_HEX_SIZE. */
void sqlite_hex(char *hex, const unsigned char *token);

/* Zero: hex is not the hex of a token. */
int sqlite_unhex(unsigned char *token, const char *hex);

/* ---- probe.c ---- */

enum dlock_status sqlite_probe_report(struct sqlite_session *session, dlock_check_fn *fn, void *arg,
                                      struct dlock_error *err);

/* ---- origin.c ---- */

/* Remembers this process, once. NOMEM. */
enum dlock_status sqlite_origin_init(struct dlock_error *err);

/* Non-zero: this process is a forked child of the one that was remembered. */
int sqlite_origin_left(void);

#endif
