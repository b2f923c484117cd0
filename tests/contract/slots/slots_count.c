/* SPDX-License-Identifier: MIT */
/* Connections of a session that several calls share are counted: CNT-1. */
#include "slots.h"
#include "strike.h"

#include <stdatomic.h>

#define LATE_MS 5000 /* until a connection is given up, or made again */

static atomic_uint counts[DLOCK_CONNECTION_BROKEN + 1];

static void count(void *arg, enum dlock_connection_event event)
{
    (void)arg;
    atomic_fetch_add(&counts[event], 1);
}

/* Calls, until the event has been counted `want` times. */
static void awaits(struct dlt_subject *subject, enum dlock_connection_event event, unsigned want,
                   const char *what)
{
    struct dlt_side *far = &subject->far;
    int64_t start_ns = dlt_now_ns();

    while (atomic_load(&counts[event]) < want) {
        struct dlt_attempt attempt;
        enum dlock_status status;

        DLT_WITHIN(start_ns, LATE_MS, "a connection that %s is not counted [CNT-1]", what);
        dlt_attempt_begin(&attempt, subject->run, far, "counted", 1000);
        far->call_ms = 500;
        status = dlt_side_try(far, &attempt);
        if (status == DLOCK_OK)
            status = dlt_side_unlock(far, &attempt);
        dlt_attempt_end(&attempt, far, status == DLOCK_OK);
    }
}

void dlt_slots_connections_are_counted(struct dlt_run *run)
{
    struct dlt_subject subject;
    unsigned made;

    dlt_subject_begin(&subject, run);
    subject.far.host.connection = count;
    dlt_strike_recover(&subject);
    made = atomic_load(&counts[DLOCK_CONNECTION_MADE]);
    DLT_CHECK(made <= 1, "%u connections of a session are counted that open made [CNT-1]", made);
    dlt_subject_tell(&subject, "accept refuse");
    dlt_subject_tell(&subject, "kill rst");
    awaits(&subject, DLOCK_CONNECTION_BROKEN, 1, "broke");
    awaits(&subject, DLOCK_CONNECTION_FAILED, 1, "could not be made");
    made = atomic_load(&counts[DLOCK_CONNECTION_MADE]);
    dlt_subject_tell(&subject, "accept on");
    awaits(&subject, DLOCK_CONNECTION_MADE, made + 1, "was made again");
    dlt_subject_end(&subject);
    DLT_CHECK(atomic_load(&counts[DLOCK_CONNECTION_BROKEN]) <= made + 2,
              "%u connections broke: close counts none [CNT-1]",
              atomic_load(&counts[DLOCK_CONNECTION_BROKEN]));
}
