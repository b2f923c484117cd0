/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/errmap.c plugins/sqlite/db.c plugins/sqlite/os_error.c */
/* Tests: plugins/sqlite/plugin.c */
/*
 * Does every answer stay true whichever file operation fails? Each call is repeated with the fault
 * one operation later until it meets none. OK means that it is so; UNAVAILABLE and the like that it
 * is certainly not; UNKNOWN either [TRY-4] [REN-4] [UNL-2].
 */
#include "store_kit.h"
#include "vfs_kit.h"

#include <criterion/criterion.h>
#include <string.h>

#define TTL_MS    60000
#define LONGER_MS 120000

static char directory[64], path[64];
static struct dlt_store s, t; /* t looks, without faults */
static struct dlt_request a;

static void set_up(void)
{
    dlt_vfs_install();
    dlt_store_directory(directory, path);
    cr_assert_eq(dlt_store_start(&s, path), DLOCK_OK);
    cr_assert_eq(dlt_store_start(&t, path), DLOCK_OK);
}

static void tear_down(void)
{
    dlt_store_close(&t);
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(io, .init = set_up, .fini = tear_down, .timeout = 120);

static struct dlt_holder holder_now(void)
{
    struct dlt_holder holder = {.name = ""};
    size_t count = 1;

    cr_assert_eq(dlt_store_inspect(&t, "job", &holder, &count), DLOCK_OK, "%s", t.err.message);
    return holder;
}

static int held(void)
{
    return holder_now().name[0] != '\0';
}

/* As core does after such a failure [FAI-1]. */
static void session_replace(enum dlock_status status)
{
    if (status == DLOCK_OK)
        return;
    dlt_store_close(&s);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
}

static void definite_or_unknown(const char *what, int n, enum dlock_status status, int done)
{
    cr_assert(status != DLOCK_BUSY && status != DLOCK_LOST && status != DLOCK_INTERNAL,
              "%s, fault at %d: %s %s", what, n, dlock_status_name((int)status), s.err.message);
    if (status != DLOCK_UNKNOWN)
        cr_assert_eq(status == DLOCK_OK, done, "%s, fault at %d: %s, but it is %sso", what, n,
                     dlock_status_name((int)status), done ? "" : "not ");
}

static void taken(void)
{
    dlt_store_request(&s, &a, "job", 'a', TTL_MS);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK, "%s", s.err.message);
}

static void released(void)
{
    if (held())
        cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
}

static int try_with_fault(int n, int on)
{
    static uint64_t last_fence;
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    dlt_store_request(&s, &a, "job", 'a', TTL_MS);
    dlt_vfs_arm(n, on);
    status = dlt_store_try(&s, &a);
    faults = dlt_vfs_disarm();
    definite_or_unknown("try", n, status, held());
    if (status == DLOCK_OK)
        cr_assert_eq(holder_now().fence, s.grant.fence);
    session_replace(status);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK, "the same token settles it: %s", s.err.message);
    cr_assert_gt(s.grant.fence, last_fence);
    last_fence = s.grant.fence;
    released();
    return faults;
}

static int renew_with_fault(int n, int on)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    taken();
    a.req.ttl_ms = LONGER_MS;
    dlt_vfs_arm(n, on);
    status = dlt_store_renew(&s, &a);
    faults = dlt_vfs_disarm();
    cr_assert(held(), "a renewal never ends a lease");
    definite_or_unknown("renew", n, status, holder_now().remaining_ms > TTL_MS);
    session_replace(status);
    released();
    return faults;
}

static int unlock_with_fault(int n, int on)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    taken();
    dlt_vfs_arm(n, on);
    status = dlt_store_unlock(&s, &a);
    faults = dlt_vfs_disarm();
    definite_or_unknown("unlock", n, status, !held());
    session_replace(status);
    released();
    return faults;
}

static int break_with_fault(int n, int on)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    taken();
    dlt_vfs_arm(n, on);
    status = dlt_store_break(&s, "job", NULL);
    faults = dlt_vfs_disarm();
    definite_or_unknown("break", n, status, !held());
    session_replace(status);
    released();
    return faults;
}

static int inspect_with_fault(int n, int on)
{
    struct dlt_holder holder;
    size_t count = 1;
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    taken();
    dlt_vfs_arm(n, on);
    status = dlt_store_inspect(&s, "job", &holder, &count);
    faults = dlt_vfs_disarm();
    cr_assert_eq(status == DLOCK_OK, count == 1, "shows the holder or fails");
    session_replace(status);
    released();
    return faults;
}

/* Nobody else has the file open: the first open of all. */
static int open_with_fault(int n, int on)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    taken();
    dlt_store_close(&s);
    dlt_store_close(&t);
    dlt_vfs_arm(n, on);
    status = dlt_store_open(&s);
    faults = dlt_vfs_disarm();
    cr_assert_neq(status, DLOCK_INTERNAL);
    dlt_store_close(&s);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "fault at %d: %s", n, s.err.message);
    cr_assert_eq(dlt_store_open(&t), DLOCK_OK);
    cr_assert(held(), "the lease is still there");
    released();
    return faults;
}

/* ---- several renewals in one call, on pages of their own ---- */

#define BATCH 3

static struct dlt_request batch[BATCH];

static void batch_take(void)
{
    static const char *const names[BATCH] = {"name 000", "name 100", "name 199"};
    struct dlt_request r;
    char name[16];

    for (int i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof name, "name %03d", i);
        dlt_store_request(&t, &r, name, 'x', 1);
        (void)dlt_store_try(&t, &r);
    }
    dlt_sleep_ms(2);
    for (int i = 0; i < BATCH; i++) {
        dlt_store_request(&s, &batch[i], names[i], 'b', TTL_MS);
        cr_assert_eq(dlt_store_try(&t, &batch[i]), DLOCK_OK, "%s", t.err.message);
    }
}

static int renewed(const struct dlt_request *request)
{
    struct dlt_holder holder = {.name = ""};
    size_t count = 1;

    cr_assert_eq(dlt_store_inspect(&t, (const char *)request->req.name, &holder, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    return holder.remaining_ms > TTL_MS;
}

static int batch_with_fault(int n, int on)
{
    struct dlock_lease_op ops[BATCH] = {{.req = NULL}};
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    batch_take();
    for (int i = 0; i < BATCH; i++) {
        batch[i].req.ttl_ms = LONGER_MS;
        ops[i] = (struct dlock_lease_op){.req = &batch[i].req, .status = DLOCK_INTERNAL};
    }
    dlt_vfs_arm(n, on);
    status = dlt_renew_many(s.ops, s.self, ops, BATCH, dlt_host_in(&s.host, 2000), &s.err);
    faults = dlt_vfs_disarm();
    for (int i = 0; i < BATCH; i++)
        definite_or_unknown("batch", n, status == DLOCK_OK ? ops[i].status : status,
                            renewed(&batch[i]));
    session_replace(faults > 0 ? DLOCK_UNAVAILABLE : status);
    for (int i = 0; i < BATCH; i++)
        cr_assert_eq(dlt_store_unlock(&s, &batch[i]), DLOCK_OK);
    return faults;
}

/* ---- the queue: somebody holds the name, somebody waits ---- */

static struct dlt_request holder, waiter;

static void held_and_waited_for(void)
{
    dlt_store_request(&s, &holder, "job", 'h', TTL_MS);
    dlt_store_request(&s, &waiter, "job", 'w', TTL_MS);
    cr_assert_eq(dlt_store_try(&t, &holder), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_store_enqueue(&t, &waiter), DLOCK_BUSY, "%s", t.err.message);
}

/* By which request, by the first letter of its token. */
static char owner_now(void)
{
    struct dlt_holder now = holder_now();

    if (now.name[0] == '\0')
        return '-';
    return strncmp(now.owner, "68", 2) == 0 ? 'h' : strncmp(now.owner, "77", 2) == 0 ? 'w' : '?';
}

static void all_gone(void)
{
    cr_assert_eq(dlt_store_leave(&t, &waiter), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_store_leave(&t, &holder), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(owner_now(), '-');
}

static int enqueue_with_fault(int n, int on)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    held_and_waited_for();
    dlt_store_request(&s, &a, "job", 'a', TTL_MS);
    dlt_vfs_arm(n, on);
    status = dlt_store_enqueue(&s, &a);
    faults = dlt_vfs_disarm();
    if (status == DLOCK_BUSY)
        cr_assert_eq(s.grant.flags, DLOCK_GRANT_QUEUED);
    definite_or_unknown("enqueue", n, status == DLOCK_BUSY ? DLOCK_OK : status,
                        holder_now().waiters == 2);
    session_replace(status == DLOCK_BUSY ? DLOCK_OK : status);
    cr_assert_eq(dlt_store_enqueue(&s, &a), DLOCK_BUSY, "the same token settles it");
    cr_assert_eq(s.grant.queue_position, 1);
    cr_assert_eq(holder_now().waiters, 2);
    cr_assert_eq(dlt_store_leave(&s, &a), DLOCK_OK);
    all_gone();
    return faults;
}

static int pass_on_with_fault(int n, int on)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    held_and_waited_for();
    dlt_vfs_arm(n, on);
    status = dlt_store_unlock(&s, &holder);
    faults = dlt_vfs_disarm();
    cr_assert(owner_now() == 'h' || owner_now() == 'w', "it is never lost on the way");
    definite_or_unknown("unlock", n, status, owner_now() == 'w');
    session_replace(status);
    all_gone();
    return faults;
}

static int leave_with_fault(int n, int on)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    held_and_waited_for();
    dlt_vfs_arm(n, on);
    status = dlt_store_leave(&s, &waiter);
    faults = dlt_vfs_disarm();
    definite_or_unknown("leave", n, status, holder_now().waiters == 0);
    session_replace(status);
    all_gone();
    return faults;
}

static int take_up_with_fault(int n, int on)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    held_and_waited_for();
    cr_assert_eq(dlt_store_unlock(&t, &holder), DLOCK_OK);
    dlt_vfs_arm(n, on);
    status = dlt_store_refresh(&s, &waiter);
    faults = dlt_vfs_disarm();
    cr_assert_eq(owner_now(), 'w');
    definite_or_unknown("refresh", n, status, holder_now().remaining_ms > TTL_MS / 2);
    session_replace(status);
    all_gone();
    return faults;
}

static int watch_with_fault(int n, int on)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    held_and_waited_for();
    cr_assert_eq(dlt_store_unlock(&t, &holder), DLOCK_OK);
    dlt_vfs_arm(n, on);
    status = dlt_store_watch(&s, &waiter, 10000);
    faults = dlt_vfs_disarm();
    cr_assert(status != DLOCK_TIMEOUT && status != DLOCK_BUSY, "it finds the grant or fails");
    if (status == DLOCK_OK)
        cr_assert_eq(holder_now().fence, s.grant.fence);
    session_replace(status);
    all_gone();
    return faults;
}

static int downgrade_with_fault(int n, int on)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int faults = 0;

    held_and_waited_for();
    holder.req.ttl_ms = LONGER_MS;
    dlt_vfs_arm(n, on);
    status = dlt_store_downgrade(&s, &holder);
    faults = dlt_vfs_disarm();
    cr_assert_eq(owner_now(), 'h', "no gap");
    definite_or_unknown("downgrade", n, status, holder_now().mode == DLOCK_SHARED);
    session_replace(status);
    cr_assert_eq(dlt_store_downgrade(&s, &holder), DLOCK_OK, "%s", s.err.message);
    all_gone();
    return faults;
}

static void sweep(int (*body)(int n, int on))
{
    for (int on = 0; on <= 1; on++) {
        int n = 1;

        while (n < 500 && body(n, on) > 0)
            n++;
        cr_assert(n > 2 && n < 500, "%d operations", n);
    }
}

Test(io, trylock)
{
    sweep(try_with_fault);
}

Test(io, renew)
{
    sweep(renew_with_fault);
}

Test(io, REN_1_renew_of_several)
{
    sweep(batch_with_fault);
}

Test(io, unlock)
{
    sweep(unlock_with_fault);
}

Test(io, trylock_that_queues)
{
    sweep(enqueue_with_fault);
}

Test(io, unlock_that_passes_on)
{
    sweep(pass_on_with_fault);
}

Test(io, leave)
{
    sweep(leave_with_fault);
}

Test(io, refresh_that_takes_up_a_grant)
{
    sweep(take_up_with_fault);
}

Test(io, watch_that_reads_a_grant)
{
    sweep(watch_with_fault);
}

Test(io, downgrade)
{
    sweep(downgrade_with_fault);
}

Test(io, break_lock)
{
    sweep(break_with_fault);
}

Test(io, inspect)
{
    sweep(inspect_with_fault);
}

Test(io, open)
{
    sweep(open_with_fault);
}
