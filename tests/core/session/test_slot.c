/* SPDX-License-Identifier: MIT */
/* Tests: core/session/slot.c core/sys/trace.c */
/* Does DLOCK_TRACE show each call of a slot with its arguments and its answer, and no secret? Is
 * the answer the plugin's, with a trace and without? */
#include "session/slot.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];
static char lines[16384];
static int self;

static enum dlock_status answer(struct dlock_error *err, enum dlock_status status)
{
    return dlock_fail(err, "stub", status, 0, "it is so");
}

static enum dlock_status stub_open(void *me, const struct dlock_host *host,
                                   const struct dlock_target *target, int64_t deadline_ns,
                                   struct dlock_session_info *info, struct dlock_error *err)
{
    (void)me;
    (void)host;
    (void)target;
    (void)deadline_ns;
    (void)err;
    info->caps = DLOCK_CAP_FENCE | DLOCK_CAP_QUEUE;
    (void)snprintf(info->server, sizeof info->server, "Stub 1");
    return DLOCK_OK;
}

static void stub_close(void *me, bool forked)
{
    (void)me;
    (void)forked;
}

static enum dlock_status stub_trylock(void *me, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    (void)me;
    grant->lease_ms = req->ttl_ms;
    grant->fence = 7;
    if (req->mode == DLOCK_SHARED)
        return answer(err, DLOCK_UNKNOWN);
    grant->flags = req->flags == DLOCK_REQ_ENQUEUE ? DLOCK_GRANT_QUEUED : 0;
    grant->holder_ms = 1200;
    return req->flags == DLOCK_REQ_ENQUEUE ? DLOCK_BUSY : DLOCK_OK;
}

static enum dlock_status stub_renew(void *me, struct dlock_lease_op *const *ops, size_t n,
                                    int64_t deadline_ns, struct dlock_error *err)
{
    (void)me;
    (void)deadline_ns;
    ops[0]->status = DLOCK_OK;
    ops[0]->grant.lease_ms = 1500;
    if (n > 1)
        ops[1]->status = answer(err, DLOCK_LOST);
    return n > 1 ? DLOCK_OK : answer(err, DLOCK_UNAVAILABLE);
}

static enum dlock_status stub_unlock(void *me, const struct dlock_request *req,
                                     struct dlock_error *err)
{
    (void)me;
    (void)req;
    return answer(err, DLOCK_LOST);
}

static void stub_request(void *me, const struct dlock_request *req)
{
    (void)me;
    (void)req;
}

static enum dlock_status stub_wait_any(void *me, uint32_t *waiters, size_t *count,
                                       int64_t deadline_ns, struct dlock_error *err)
{
    (void)me;
    (void)deadline_ns;
    (void)err;
    waiters[0] = 42;
    *count = 1;
    return DLOCK_OK;
}

static uint32_t stub_server_of(void *me, const unsigned char *name, uint32_t name_len)
{
    (void)me;
    (void)name;
    return name_len + 5;
}

static enum dlock_status stub_inspect(void *me, const unsigned char *name, uint32_t name_len,
                                      int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                      struct dlock_error *err)
{
    (void)me;
    (void)name;
    (void)name_len;
    (void)deadline_ns;
    (void)fn;
    (void)arg;
    return answer(err, DLOCK_UNAVAILABLE);
}

static enum dlock_status stub_list_waiters(void *me, const unsigned char *name, uint32_t name_len,
                                           int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                           struct dlock_error *err)
{
    (void)fn;
    return stub_inspect(me, name, name_len, deadline_ns, NULL, arg, err);
}

static enum dlock_status stub_break(void *me, const unsigned char *name, uint32_t name_len,
                                    const char *owner, int64_t deadline_ns, struct dlock_error *err)
{
    (void)me;
    (void)name;
    (void)name_len;
    (void)owner;
    (void)deadline_ns;
    return answer(err, DLOCK_NOT_HELD);
}

static enum dlock_status stub_probe(void *me, int64_t deadline_ns, struct dlock_session_info *info,
                                    dlock_check_fn *fn, void *arg, struct dlock_error *err)
{
    (void)fn;
    (void)arg;
    return stub_open(me, NULL, NULL, deadline_ns, info, err);
}

static const struct dl_plugin stub = {
    .name = "stub",
    .ops =
        {
            .open = stub_open,
            .close = stub_close,
            .trylock = stub_trylock,
            .renew = stub_renew,
            .unlock = stub_unlock,
            .forget = stub_request,
            .lock = stub_trylock,
            .watch = stub_trylock,
            .dequeue = stub_unlock,
            .interrupt = stub_request,
            .inspect = stub_inspect,
            .list = stub_inspect,
            .break_lock = stub_break,
            .probe = stub_probe,
            .list_waiters = stub_list_waiters,
            .server_of = stub_server_of,
            .wait_any = stub_wait_any,
        },
};

static struct dlock_request request(void)
{
    struct dlock_request req = {
        .struct_size = sizeof req,
        .name = (const unsigned char *)"job\n1",
        .name_len = 5,
        .ttl_ms = 2000,
        .limit = 3,
    };

    for (size_t i = 0; i < sizeof req.token; i++)
        req.token[i] = (unsigned char)(0xa0 + i);
    return req;
}

static void trace_to_file(void)
{
    int fd;

    (void)snprintf(path, sizeof path, "/tmp/dlock-test-slot-XXXXXX");
    fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    (void)fclose(fdopen(fd, "w"));
    cr_assert_eq(setenv("DLOCK_TRACE", path, 1), 0);
}

/* The file so far. */
static void read_back(void)
{
    FILE *file = fopen(path, "r");
    size_t len;

    cr_assert_not_null(file);
    len = fread(lines, 1, sizeof lines - 1, file);
    lines[len] = '\0';
    (void)fclose(file);
    (void)remove(path);
}

#define HAS(text)  cr_assert_not_null(strstr(lines, text), "\"%s\" is not in\n%s", text, lines)
#define HAS_NOT(t) cr_assert_null(strstr(lines, t), "\"%s\" is in\n%s", t, lines)

static void take(uint32_t flags, enum dlock_mode mode, enum dlock_status want)
{
    struct dlock_request req = request();
    struct dlock_grant grant = {.struct_size = sizeof grant, .waiters = UINT32_MAX};
    struct dlock_error err = DLOCK_ERROR_INIT;

    req.flags = flags;
    req.mode = mode;
    cr_assert_eq(dl_slot_trylock(&stub, &self, &req, &grant, &err), want);
    cr_assert_eq(grant.fence, 7);
}

Test(trace, each_outcome_of_trylock)
{
    trace_to_file();
    take(0, DLOCK_EXCLUSIVE, DLOCK_OK);
    take(DLOCK_REQ_ENQUEUE, DLOCK_EXCLUSIVE, DLOCK_BUSY);
    take(0, DLOCK_SHARED, DLOCK_UNKNOWN);
    read_back();
    HAS("stub trylock");
    HAS("\"job\\x0a1\" token=a0a1a2a3.. exclusive ttl=2000ms limit=3 deadline=");
    HAS("lease=2000ms fence=7 -> OK (");
    HAS("exclusive ENQUEUE ttl=");
    HAS("lease=2000ms fence=7 holder=1200ms QUEUED -> BUSY (");
    HAS("shared ttl=");
    HAS("-> UNKNOWN (it is so) (");
    HAS_NOT("a4a5");
}

Test(trace, a_session_and_its_target_without_the_password)
{
    static const char *const hosts[] = {"db.example:1", NULL};
    struct dlock_target target = {.struct_size = sizeof target,
                                  .scheme = "stub",
                                  .user = "u",
                                  .password = "hunter2",
                                  .path = "/3",
                                  .hosts = hosts};
    struct dlock_session_info info = {.struct_size = sizeof info};
    struct dlock_error err = DLOCK_ERROR_INIT;

    trace_to_file();
    cr_assert_eq(dl_slot_open(&stub, &self, NULL, &target, 0, &info, &err), DLOCK_OK);
    cr_assert_eq(dl_slot_probe(&stub, &self, 0, &info, NULL, NULL, &err), DLOCK_OK);
    dl_slot_close(&stub, &self, true);
    read_back();
    HAS("stub open ");
    HAS(" stub: db.example:1 /3 deadline=");
    HAS("server=\"Stub 1\" caps: FENCE QUEUE -> OK (");
    HAS("stub probe ");
    HAS("stub close ");
    HAS(" forked (");
    HAS_NOT("hunter2");
}

Test(trace, a_line_for_each_lease_of_a_renewal)
{
    struct dlock_request first = request(), second = request();
    struct dlock_lease_op ops[] = {{.struct_size = sizeof ops[0], .req = &first},
                                   {.struct_size = sizeof ops[0], .req = &second}};
    struct dlock_lease_op *const both[] = {&ops[0], &ops[1]};
    struct dlock_error err = DLOCK_ERROR_INIT;

    trace_to_file();
    second.token[0] = 0xee;
    cr_assert_eq(dl_slot_renew(&stub, &self, both, 2, 0, &err), DLOCK_OK);
    cr_assert_eq(ops[1].status, DLOCK_LOST);
    cr_assert_eq(dl_slot_renew(&stub, &self, both, 1, 0, &err), DLOCK_UNAVAILABLE);
    read_back();
    HAS(" 1/2 \"job\\x0a1\" token=a0a1a2a3..");
    HAS("lease=1500ms fence=0");
    HAS(" 2/2 \"job\\x0a1\" token=eea1a2a3..");
    HAS("-> LOST (it is so)");
    HAS("-> UNAVAILABLE (it is so)");
}

/* A call that waits has a line when it begins, too: it may hang. */
Test(trace, calls_that_wait_are_shown_twice)
{
    struct dlock_request req = request();
    struct dlock_grant grant = {.struct_size = sizeof grant, .waiters = 2};
    struct dlock_error err = DLOCK_ERROR_INIT;
    uint32_t waiters[4];
    size_t count = 4;

    trace_to_file();
    cr_assert_eq(dl_slot_lock(&stub, &self, &req, &grant, &err), DLOCK_OK);
    cr_assert_eq(dl_slot_watch(&stub, &self, &req, &grant, &err), DLOCK_OK);
    cr_assert_eq(dl_slot_wait_any(&stub, &self, waiters, &count, 0, &err), DLOCK_OK);
    dl_slot_interrupt(&stub, &self, NULL);
    read_back();
    HAS("ms ...\n");
    HAS("waiters=2 -> OK (");
    HAS(" waiter=42 -> OK (");
    HAS("stub interrupt ");
    for (int i = 0; i < 3; i++) {
        char *begun = strstr(lines, " ...\n");

        cr_assert_not_null(begun, "call %d", i);
        begun[1] = '!';
    }
}

Test(trace, what_ends_an_attempt_and_what_people_ask)
{
    struct dlock_request req = request();
    struct dlock_error err = DLOCK_ERROR_INIT;
    const unsigned char *name = req.name;

    trace_to_file();
    req.keep_ms = 900;
    cr_assert_eq(dl_slot_unlock(&stub, &self, &req, &err), DLOCK_LOST);
    cr_assert_eq(dl_slot_dequeue(&stub, &self, &req, &err), DLOCK_LOST);
    dl_slot_forget(&stub, &self, &req);
    cr_assert_eq(dl_slot_inspect(&stub, &self, name, 3, 0, NULL, NULL, &err), DLOCK_UNAVAILABLE);
    cr_assert_eq(dl_slot_list(&stub, &self, name, 2, 0, NULL, NULL, &err), DLOCK_UNAVAILABLE);
    cr_assert_eq(dl_slot_list_waiters(&stub, &self, name, 1, 0, NULL, NULL, &err),
                 DLOCK_UNAVAILABLE);
    cr_assert_eq(dl_slot_break(&stub, &self, name, 3, "0123456789abcdef", 0, &err), DLOCK_NOT_HELD);
    cr_assert_eq(dl_slot_server_of(&stub, &self, name, 3), 8);
    read_back();
    HAS("exclusive ttl=2000ms keep=900ms limit=3 deadline=");
    HAS("stub dequeue ");
    HAS("stub forget ");
    HAS("\"job\" deadline=");
    HAS("\"jo\" deadline=");
    HAS("stub list_waiters ");
    HAS("owner=01234567.. deadline=");
    HAS_NOT("89abcdef");
}

/* No file, a path that is none, and a text that says nothing: the calls work as ever. */
/* A pager that ends, for example. */
Test(trace, a_pipe_without_a_reader_does_not_end_the_program)
{
    int ends[2];

    cr_assert_neq(signal(SIGPIPE, SIG_DFL), SIG_ERR);
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(close(ends[0]), 0);
    cr_assert_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    cr_assert_eq(setenv("DLOCK_TRACE", "stderr", 1), 0);
    take(0, DLOCK_EXCLUSIVE, DLOCK_OK);
    take(DLOCK_REQ_ENQUEUE, DLOCK_EXCLUSIVE, DLOCK_BUSY);
}

Test(trace, nothing_where_nothing_can_be_written)
{
    cr_assert_eq(setenv("DLOCK_TRACE", "/no/such/directory/trace", 1), 0);
    take(0, DLOCK_EXCLUSIVE, DLOCK_OK);
}

Test(trace, nothing_without_the_variable)
{
    cr_assert_eq(unsetenv("DLOCK_TRACE"), 0);
    take(0, DLOCK_EXCLUSIVE, DLOCK_OK);
}

Test(caps_text, all_fit)
{
    char text[DL_SLOT_CAPS_TEXT];

    dl_slot_caps_text(text, sizeof text, DLOCK_CAP_ALL);
    cr_assert_eq(strncmp(text, " RWLOCK DOWNGRADE FENCE ", 24), 0, "%s", text);
    cr_assert_lt(strlen(text), sizeof text - 1);
    dl_slot_caps_text(text, sizeof text, 0);
    cr_assert_str_eq(text, "");
}
