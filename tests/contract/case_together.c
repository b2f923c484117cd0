/* SPDX-License-Identifier: MIT */
/* Does each of many operations that are ready together have its own outcome, where a store takes
 * them in one exchange and where it does not? (C19, BAT-1) */
#include "conformance.h"

enum { TOGETHER = 12, LONG_MS = 120000 };

struct together {
    struct dlock_client *client, *other;
    struct dlock_handle *locks[TOGETHER], *rivals[TOGETHER]; /* of one name each */
    struct dlock_notice done[TOGETHER];
};

/* Every third name is the other client's. */
static bool is_taken(int i)
{
    return i % 3 == 1;
}

static void set_up(struct together *all, struct dlt_run *run)
{
    all->client = dlt_client(run, NULL);
    all->other = dlt_client(run, NULL);
    for (int i = 0; i < TOGETHER; i++) {
        struct dlock_options options = {
            .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .user = &all->done[i]};
        char suffix[16];

        (void)snprintf(suffix, sizeof suffix, "%d", i);
        all->locks[i] = dlt_lock_with(run, all->client, suffix, &options);
        all->rivals[i] = dlt_lock(run, all->other, suffix, 0);
        if (is_taken(i))
            DLT_TAKE(all->rivals[i]);
    }
}

static void tear_down(struct together *all)
{
    for (int i = 0; i < TOGETHER; i++) {
        dlock_free(all->locks[i]);
        dlock_free(all->rivals[i]);
    }
    dlock_client_close(all->client);
    dlock_client_close(all->other);
}

/* Begins the operation on all handles, and takes their DONEs. */
static void start_all(struct together *all, enum dlock_op op)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};

    for (int i = 0; i < TOGETHER; i++) {
        all->done[i].lock = NULL;
        DLT_OK(dlock_op_start(all->locks[i], op, 0, &dlt_err));
    }
    for (int i = 0; i < TOGETHER; i++) {
        DLT_CHECK(dlt_event_await(all->client, &notice, LONG_MS), "%d of %d notices came", i,
                  TOGETHER);
        DLT_CHECK(notice.kind == DLOCK_NOTICE_DONE && notice.op == op, "a notice of kind %d",
                  notice.kind);
        DLT_CHECK(((struct dlock_notice *)notice.user)->lock == NULL, "a second DONE");
        *(struct dlock_notice *)notice.user = notice;
    }
}

void dlt_case_async_together(struct dlt_run *run)
{
    struct together all;

    set_up(&all, run);
    start_all(&all, DLOCK_OP_LOCK);
    for (int i = 0; i < TOGETHER; i++) {
        DLT_STATUS(all.done[i].status, is_taken(i) ? DLOCK_BUSY : DLOCK_OK);
        DLT_STATE(all.locks[i], is_taken(i) ? DLOCK_STATE_FREE : DLOCK_STATE_HELD, "after DONE");
        if (!is_taken(i))
            DLT_STATUS(dlock_trylock(all.rivals[i], &dlt_err), DLOCK_BUSY);
    }
    start_all(&all, DLOCK_OP_UNLOCK);
    for (int i = 0; i < TOGETHER; i++) {
        DLT_STATUS(all.done[i].status, is_taken(i) ? DLOCK_NOT_HELD : DLOCK_OK);
        if (!is_taken(i))
            DLT_TAKE(all.rivals[i]); /* the store knows of the unlock */
    }
    for (int i = 0; i < TOGETHER; i++)
        DLT_OK(dlock_unlock(all.rivals[i], &dlt_err));
    start_all(&all, DLOCK_OP_LOCK);
    for (int i = 0; i < TOGETHER; i++)
        DLT_STATUS(all.done[i].status, DLOCK_OK);
    tear_down(&all);
}
