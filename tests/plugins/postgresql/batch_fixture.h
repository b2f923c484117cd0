/* SPDX-License-Identifier: MIT */
/* batch_fixture.h - a server of a test's own, and a batch of names of strategy row: n000, n001, and
 * so on, but "job" for the fourth of them, so that it is before all others in their order. */
#ifndef DLT_BATCH_FIXTURE_H
#define DLT_BATCH_FIXTURE_H

#include "batch_calls.h"
#include "sitter.h"

enum { MANY = 8, JOB = 3 }; /* of MANY: the one that is called "job" */

static struct dlt_batch batch;
static struct dlt_session *by = &s; /* makes the calls of `batch` */

static inline void server_start(void)
{
    /* A deadlock is found at once; no commit reaches the disk by itself. */
    static const char *const settings[] = {
        "-c", "deadlock_timeout=50ms", "-c", "wal_writer_delay=10s", "-c", "autovacuum=off", NULL};

    cr_assert(dlt_postgres_start(&server, settings), "%s", server.why);
}

static inline void batch_begin(size_t n)
{
    dlt_batch_init(&batch, by, n, "n");
    (void)snprintf(batch.names[JOB], sizeof batch.names[JOB], "job");
    batch.requests[JOB].req.name_len = 3;
}

/* The rows of all names are there, and free. */
static inline void names_make(size_t n)
{
    batch_begin(n);
    dlt_batch_try(&batch, by);
    dlt_batch_is(&batch, 0, n, DLOCK_OK);
    dlt_batch_unlock(&batch, by);
    dlt_batch_is(&batch, 0, n, DLOCK_OK);
    batch_begin(n);
}

static inline bool is_held(size_t i)
{
    struct dlt_holder holder;
    size_t count = 1;

    cr_assert_eq(dlt_inspect(&t, batch.names[i], &holder, &count), DLOCK_OK, "%s", t.err.message);
    return count == 1;
}

#endif
