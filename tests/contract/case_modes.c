/* SPDX-License-Identifier: MIT */
/* One name, several modes: excluded or refused, never two locks. */
#include "../kit/drop.h"
#include "conformance.h"

/* A store without shared mode says so; it does not hand out something else. */
void dlt_case_modes_or_a_refusal(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *a = dlt_lock(run, client, "x", 0), *b = dlt_lock(run, client, "x", 0);
    int shared = (dlock_client_caps(client) & DLOCK_CAP_RWLOCK) != 0;
    enum dlock_status want = shared ? DLOCK_OK : DLOCK_UNSUPPORTED;

    DLT_STATUS(dlock_tryrdlock(a, &dlt_err), want);
    DLT_STATUS(dlock_timedrdlock(b, 1000, &dlt_err), want);
    if (!shared)
        DLT_STATUS(dlock_rdlock(b, &dlt_err), DLOCK_UNSUPPORTED);
    DLT_CHECK((dlock_state(a) == DLOCK_STATE_HELD) == shared,
              "the handle is %s, want HELD only if shared mode is there",
              dlt_state_name(dlock_state(a)));
    dlt_drop(dlock_unlock(a, &dlt_err));
    dlt_drop(dlock_unlock(b, &dlt_err));
    DLT_OK(dlock_trylock(a, &dlt_err));
    DLT_STATUS(dlock_tryrdlock(b, &dlt_err), shared ? DLOCK_BUSY : DLOCK_UNSUPPORTED);
    dlock_free(a);
    dlock_free(b);
    dlock_client_close(client);
}
