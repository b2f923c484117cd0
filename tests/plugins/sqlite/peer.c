/* SPDX-License-Identifier: MIT */
/*
 * Another process with a session of the sqlite plugin, which does what the lines on its standard
 * input say and answers each with one line:
 *
 *     STATUS fence lease_ms holder_ms queued message
 *
 *   open PATH normal|full|look       close                      probe
 *   try NAME OWNER TTL TIMEOUT FLAGS watch OWNER TIMEOUT        count PREFIX
 *   renew OWNER                      unlock OWNER               break NAME
 *   quit OWNER                       leaves the queue           wake_file
 *   line FILE NAME OWNER             waits in the queue, adds OWNER to FILE, releases
 *   chroot DIRECTORY                 has another root directory from now on
 *   enter                            goes into a transaction and stays there until "leave"
 *   race FILE NAME COUNT FLAGS       takes the name COUNT times, counting in FILE without a lock
 *   peek FILE NAME COUNT FLAGS       reads FILE under the lock: nobody changes it meanwhile
 *   opens PATH COUNT                 opens and closes
 *
 * FLAGS: s for shared, e for ENQUEUE, r for REFRESH, t for a lease that ends with its ttl, p for
 * one that programs inherit, or nothing. OWNER is a letter: the token, and the slot that a request
 * keeps.
 */
#include "session.h"
#include "store_kit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct dlt_store store;
static struct dlt_request requests[26];
static char names[26][512];
static char path[512];

struct line {
    char verb[16];
    char words[5][512];
};

static struct dlt_request *request_of(const char *owner)
{
    return &requests[islower((unsigned char)owner[0]) ? owner[0] - 'a' : 0];
}

static void answer(enum dlock_status status)
{
    printf("%s %llu %lld %lld %d %s\n", dlock_status_name((int)status),
           (unsigned long long)store.grant.fence, (long long)store.grant.lease_ms,
           (long long)store.grant.holder_ms, (store.grant.flags & DLOCK_GRANT_QUEUED) != 0,
           store.err.message);
    (void)fflush(stdout);
}

static enum dlock_status do_open(const char *where, const char *sync)
{
    dlt_store_close(&store);
    (void)snprintf(path, sizeof path, "%s", where);
    dlt_store_init(&store, path);
    store.target.sync = strcmp(sync, "full") == 0 ? "full" : "normal";
    store.target.create_off = strcmp(sync, "look") == 0;
    return dlt_store_open(&store);
}

static void flags_set(struct dlt_request *r, const char *letters)
{
    r->req.mode = strchr(letters, 's') != NULL ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    r->req.flags = (strchr(letters, 'e') != NULL ? DLOCK_REQ_ENQUEUE : 0u) |
                   (strchr(letters, 'r') != NULL ? DLOCK_REQ_REFRESH : 0u);
    r->req.end = strchr(letters, 't') != NULL   ? DLOCK_END_TTL
                 : strchr(letters, 'p') != NULL ? DLOCK_END_PROGRAMS
                                                : DLOCK_END_PROCESS;
}

static enum dlock_status do_try(const struct line *line)
{
    struct dlt_request *r = request_of(line->words[1]);
    char *name = names[r - requests];

    /* The same attempt as long as the name is the same. */
    if (strcmp(name, line->words[0]) != 0) {
        (void)snprintf(name, sizeof names[0], "%s", line->words[0]);
        dlt_store_request(&store, r, name, (unsigned char)line->words[1][0], 0);
    }
    r->req.ttl_ms = strtoll(line->words[2], NULL, 10);
    r->req.deadline_ns = dlt_host_in(&store.host, strtoll(line->words[3], NULL, 10));
    flags_set(r, line->words[4]);
    return dlt_store_try(&store, r);
}

/* One line "count fence": a lost update or a fence that did not rise shows. */
static enum dlock_status count_up(const char *file, uint64_t fence)
{
    char text[64] = "", *end = text;
    unsigned long long count = 0, last = 0;
    FILE *f = fopen(file, "r+");
    int ok = f != NULL && fgets(text, sizeof text, f) != NULL;

    count = strtoull(text, &end, 10);
    last = strtoull(end, NULL, 10);
    ok = ok && last < fence;
    if (ok) {
        rewind(f);
        ok = fprintf(f, "%llu %llu\n", count + 1, (unsigned long long)fence) > 0;
    }
    if (f != NULL && fclose(f) != 0)
        ok = 0;
    return ok ? DLOCK_OK : DLOCK_INTERNAL;
}

#define REFRESH_MS 1000
#define TTL_MS     30000

/* As core does it: without notification, poll. */
static enum dlock_status take_by_trying(struct dlt_request *r)
{
    enum dlock_status status = dlt_store_try(&store, r);

    while (status == DLOCK_BUSY) {
        status = dlt_store_watch(&store, r, REFRESH_MS);
        if (status == DLOCK_UNAVAILABLE)
            dlt_sleep_ms(1);
        else if (status != DLOCK_BUSY && status != DLOCK_TIMEOUT)
            return status;
        r->req.deadline_ns = dlt_host_in(&store.host, 20000);
        status = dlt_store_try(&store, r);
    }
    return status;
}

/* Core's renewer extends a grant at once. */
static enum dlock_status take_in_line(struct dlt_request *r)
{
    enum dlock_status status = dlt_store_enqueue(&store, r);

    while (status == DLOCK_BUSY) {
        int64_t left_ms = store.grant.holder_ms;

        if ((store.grant.flags & DLOCK_GRANT_QUEUED) == 0)
            return DLOCK_LOST;
        status =
            dlt_store_watch(&store, r, left_ms > 0 && left_ms < REFRESH_MS ? left_ms : REFRESH_MS);
        if (status == DLOCK_OK)
            return dlt_store_renew(&store, r);
        if (status != DLOCK_TIMEOUT && status != DLOCK_BUSY)
            return status;
        status = dlt_store_refresh(&store, r);
    }
    return status;
}

static enum dlock_status take(struct dlt_request *r, const char *name, const char *letters)
{
    dlt_request_init(r, &store.host, name, 0, TTL_MS);
    r->req.deadline_ns = dlt_host_in(&store.host, 20000);
    r->req.op_timeout_ms = 20000;
    (void)store.host.table.random(&store.host, r->req.token, sizeof r->req.token);
    flags_set(r, letters);
    return (r->req.flags & DLOCK_REQ_ENQUEUE) != 0 ? take_in_line(r) : take_by_trying(r);
}

static enum dlock_status do_race(const struct line *line)
{
    long count = strtol(line->words[2], NULL, 10);
    enum dlock_status status = DLOCK_OK;

    for (long i = 0; i < count && status == DLOCK_OK; i++) {
        struct dlt_request r;
        struct dlt_holder holder;
        size_t one = 1;

        status = take(&r, line->words[1], line->words[3]);
        if (status == DLOCK_OK)
            status = dlt_store_inspect(&store, line->words[1], &holder, &one);
        if (status == DLOCK_OK)
            status = count_up(line->words[0], holder.fence);
        if (status == DLOCK_OK)
            status = dlt_store_unlock(&store, &r);
    }
    return status;
}

static void text_read(const char *file, char *text, int size)
{
    FILE *f = fopen(file, "r");

    if (f == NULL || fgets(text, size, f) == NULL)
        text[0] = '\0';
    if (f != NULL)
        (void)fclose(f);
}

static enum dlock_status do_peek(const struct line *line)
{
    long count = strtol(line->words[2], NULL, 10);
    enum dlock_status status = DLOCK_OK;

    for (long i = 0; i < count && status == DLOCK_OK; i++) {
        char before[64], after[64];
        struct dlt_request r;

        status = take(&r, line->words[1], line->words[3]);
        if (status != DLOCK_OK)
            return status;
        text_read(line->words[0], before, sizeof before);
        dlt_sleep_ms(1);
        text_read(line->words[0], after, sizeof after);
        status = dlt_store_unlock(&store, &r);
        if (before[0] == '\0' || strcmp(before, after) != 0)
            return DLOCK_INTERNAL;
    }
    return status;
}

static enum dlock_status do_line(const struct line *line)
{
    struct dlt_request *r = request_of(line->words[2]);
    enum dlock_status status = take(r, line->words[1], "e");
    FILE *f = status == DLOCK_OK ? fopen(line->words[0], "a") : NULL;

    if (f == NULL)
        return status;
    (void)fputs(line->words[2], f);
    (void)fclose(f);
    return dlt_store_unlock(&store, r);
}

static enum dlock_status do_opens(const char *where, int count)
{
    enum dlock_status status = DLOCK_OK;

    for (int i = 0; i < count && status == DLOCK_OK; i++) {
        status = do_open(where, "normal");
        dlt_store_close(&store);
    }
    return status;
}

static enum dlock_status do_count(const char *prefix)
{
    static struct dlt_holder holders[64];
    size_t count = sizeof holders / sizeof holders[0];
    enum dlock_status status =
        dlt_store_list(&store, strcmp(prefix, "*") == 0 ? "" : prefix, holders, &count);

    store.grant.fence = count;
    return status;
}

/* Whether there is one, and why not. */
static enum dlock_status do_wake_file(void)
{
    const struct sqlite_session *session = store.self;
    const struct sqlite_wake_file *file = &session->db.wake_file;

    (void)snprintf(store.err.message, sizeof store.err.message, "%s", file->why);
    return file->map != NULL ? DLOCK_OK : DLOCK_UNAVAILABLE;
}

static enum dlock_status do_probe(void)
{
    return store.ops->probe(store.self, dlt_host_in(&store.host, 2000), &store.info, NULL, NULL,
                            &store.err);
}

static enum dlock_status do_enter(void)
{
    struct sqlite_session *session = store.self;

    session->db.until_ns = sqlite_clock_until(2 * DL_NS_PER_S);
    return sqlite_db_begin(&session->db, &store.err);
}

static enum dlock_status do_leave(void)
{
    struct sqlite_session *session = store.self;

    return sqlite_db_commit(&session->db, &store.err);
}

/* The process stays in its current directory, as daemons that forget chdir. */
static enum dlock_status do_chroot(const char *directory)
{
    return chroot(directory) == 0 ? DLOCK_OK : DLOCK_INTERNAL;
}

static enum dlock_status obey(const struct line *line)
{
    const char *const verb = line->verb;

    if (strcmp(verb, "open") == 0)
        return do_open(line->words[0], line->words[1]);
    if (strcmp(verb, "opens") == 0)
        return do_opens(line->words[0], (int)strtol(line->words[1], NULL, 10));
    if (store.self == NULL)
        return DLOCK_CLOSED;
    if (strcmp(verb, "close") == 0)
        return dlt_store_close(&store), DLOCK_OK;
    if (strcmp(verb, "try") == 0)
        return do_try(line);
    if (strcmp(verb, "watch") == 0)
        return dlt_store_watch(&store, request_of(line->words[0]),
                               strtoll(line->words[1], NULL, 10));
    if (strcmp(verb, "renew") == 0)
        return dlt_store_renew(&store, request_of(line->words[0]));
    if (strcmp(verb, "unlock") == 0)
        return dlt_store_unlock(&store, request_of(line->words[0]));
    if (strcmp(verb, "break") == 0)
        return dlt_store_break(&store, line->words[0], NULL);
    if (strcmp(verb, "count") == 0)
        return do_count(line->words[0]);
    if (strcmp(verb, "wake_file") == 0)
        return do_wake_file();
    if (strcmp(verb, "probe") == 0)
        return do_probe();
    if (strcmp(verb, "enter") == 0)
        return do_enter();
    if (strcmp(verb, "chroot") == 0)
        return do_chroot(line->words[0]);
    if (strcmp(verb, "leave") == 0)
        return do_leave();
    if (strcmp(verb, "race") == 0)
        return do_race(line);
    if (strcmp(verb, "peek") == 0)
        return do_peek(line);
    if (strcmp(verb, "line") == 0)
        return do_line(line);
    if (strcmp(verb, "quit") == 0)
        return dlt_store_leave(&store, request_of(line->words[0]));
    return DLOCK_INVALID;
}

int main(void)
{
    char text[2048];

    while (fgets(text, sizeof text, stdin) != NULL) {
        struct line line = {0};

        (void)sscanf(text, "%15s %511s %511s %511s %511s %511s", line.verb, line.words[0],
                     line.words[1], line.words[2], line.words[3], line.words[4]);
        answer(obey(&line));
    }
    dlt_store_close(&store);
    return 0;
}
