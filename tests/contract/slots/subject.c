/* SPDX-License-Identifier: MIT */
#include "subject.h"
#include "session/slot.h"
#include "session/ttl_grid.h"
#include "sys/error.h"
#include "through.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CALM_MS 10000 /* for calls that are answered, on a busy machine */

int64_t dlt_slots_number(const char *variable, int64_t fallback)
{
    const char *text = getenv(variable);

    return text != NULL ? strtoll(text, NULL, 10) : fallback;
}

static void log_print(void *arg, enum dlock_log_level level, const char *message)
{
    (void)arg;
    (void)fprintf(stderr, DLT_LOG_LINE "%d: %s\n", (int)level, message);
}

/* ---- sides ---- */

void dlt_side_init(struct dlt_side *side, const char *uri)
{
    const char *module = getenv(DLT_SLOTS_MODULE);

    memset(side, 0, sizeof *side);
    dl_host_init(&side->host, (struct dl_log){.fn = log_print});
    side->err = (struct dlock_error)DLOCK_ERROR_INIT;
    DLT_CHECK(dl_store_open(uri, NULL, &side->host.table, &side->store, &side->err) == DLOCK_OK,
              "%s", side->err.message);
    side->plugin = side->store->plugin;
    DLT_CHECK(module == NULL || strcmp(side->plugin->name, module) == 0,
              "the scheme of the URI belongs to dlock_%s.so, not to dlock_%s.so",
              side->plugin->name, module);
    side->call_ms = CALM_MS;
}

void dlt_side_join(struct dlt_side *side, struct dlt_side *other)
{
    *side = (struct dlt_side){.joined = other->joined != NULL ? other->joined : &other->host,
                              .store = other->store,
                              .plugin = other->plugin,
                              .info = other->info,
                              .call_ms = CALM_MS,
                              .err = DLOCK_ERROR_INIT};
}

void dlt_side_share(struct dlt_side *side, struct dlt_side *other)
{
    dlt_side_join(side, other);
    side->lent = dlt_side_has(other, DLOCK_CAP_CONCURRENT);
    if (side->lent)
        side->self = other->self;
}

void dlt_side_fini(struct dlt_side *side)
{
    if (side->lent)
        side->self = NULL;
    dlt_side_close(side);
    if (side->joined == NULL)
        dl_store_free(side->store);
    side->store = NULL;
}

bool dlt_side_has(const struct dlt_side *side, uint64_t cap)
{
    return (side->info.caps & cap) != 0;
}

static int64_t due_ns(const struct dlt_side *side)
{
    return dlt_now_ns() + side->call_ms * DLT_NS_PER_MS;
}

static void call_begin(struct dlt_side *side)
{
    dl_error_reset(&side->err);
    side->grant = (struct dlock_grant){
        .struct_size = sizeof side->grant, .waiters = UINT32_MAX, .holder_ms = -1};
}

enum dlock_status dlt_side_open(struct dlt_side *side)
{
    enum dlock_status status;

    if (side->self != NULL)
        return DLOCK_OK;
    call_begin(side);
    side->info = (struct dlock_session_info){.struct_size = sizeof side->info};
    side->self = aligned_alloc(16, (side->plugin->ops.session_size + 16u) / 16u * 16u);
    DLT_CHECK(side->self != NULL, "no memory");
    memset(side->self, 0, side->plugin->ops.session_size);
    status = dl_slot_open(side->plugin, side->self,
                          side->joined != NULL ? &side->joined->table : &side->host.table,
                          &side->store->target, due_ns(side), &side->info, &side->err);
    if (status != DLOCK_OK)
        dlt_side_close(side);
    return status;
}

void dlt_side_close(struct dlt_side *side)
{
    if (side->self == NULL)
        return;
    dl_slot_close(side->plugin, side->self, false);
    free(side->self);
    side->self = NULL;
}

/* ---- the subject ---- */

static void proxy_begin(struct dlt_subject *subject, const char *where)
{
    const char *framing = getenv(DLT_SLOTS_FRAMING), *why;
    char program[4200], server[128];

    why = dlt_through_address(where, server, sizeof server);
    DLT_CHECK(why == NULL, "--proxy %s: %s", where, why);
    DLT_CHECK(dlt_proxy_start(&subject->proxy, server, framing != NULL ? framing : "raw",
                              &(struct dlt_proxy_options){
                                  .program = dlt_through_program(program, sizeof program)}),
              "%s", subject->proxy.answer);
}

void dlt_subject_begin(struct dlt_subject *subject, const struct dlt_run *run)
{
    const char *where = getenv(DLT_SLOTS_PROXY);
    char through[8192];

    memset(subject, 0, sizeof *subject);
    subject->run = run;
    (void)snprintf(through, sizeof through, "%s", run->uri);
    if (where != NULL) {
        proxy_begin(subject, where);
        dlt_through_uri(run->uri, where, subject->proxy.port, through, sizeof through);
    }
    dlt_side_init(&subject->direct, run->uri);
    dlt_side_init(&subject->far, through);
    subject->minority = where != NULL && subject->far.store->target.hosts[0] != NULL &&
                        subject->far.store->target.hosts[1] != NULL;
    for (int i = 0; i < 2; i++) {
        struct dlt_side *side = i == 0 ? &subject->direct : &subject->far;
        enum dlock_status status = dlt_side_open(side);

        DLT_CHECK(status == DLOCK_OK, "open%s: %s",
                  i == 0 || where == NULL ? "" : ", through the proxy", dlt_said(side, status));
    }
}

void dlt_subject_end(struct dlt_subject *subject)
{
    dlt_side_fini(&subject->far);
    dlt_side_fini(&subject->direct);
    if (getenv(DLT_SLOTS_PROXY) != NULL)
        (void)dlt_proxy_stop(&subject->proxy);
}

void dlt_subject_tell(struct dlt_subject *subject, const char *format, ...)
{
    char order[128];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(order, sizeof order, format, args);
    va_end(args);
    DLT_CHECK(dlt_proxy_tell(&subject->proxy, "%s", order), "proxy: %s: %s", order,
              subject->proxy.answer);
}

/* ---- attempts ---- */

void dlt_attempt_begin(struct dlt_attempt *attempt, const struct dlt_run *run,
                       const struct dlt_side *side, const char *suffix, int64_t ttl_ms)
{
    struct dl_ttl_grid grid = {0};

    dl_ttl_grid_narrow(&grid, &side->info);
    *attempt = (struct dlt_attempt){.name = dlt_name(run, suffix)};
    if (side->plugin->ops.attempt_size > 0) {
        size_t size = (side->plugin->ops.attempt_size + 15u) / 16u * 16u;

        attempt->memory = aligned_alloc(16, size);
        DLT_CHECK(attempt->memory != NULL, "no memory");
        memset(attempt->memory, 0, size);
    }
    attempt->req = (struct dlock_request){
        .struct_size = sizeof attempt->req,
        .name = (const unsigned char *)attempt->name.text,
        .name_len = (uint32_t)attempt->name.len,
        .mode = DLOCK_EXCLUSIVE,
        .ttl_ms = dl_ttl_grid_round(&grid, dlt_ttl_within(ttl_ms)),
        .label = "slots:1",
        .attempt = attempt->memory,
        .limit = 1,
    };
    if (attempt->req.ttl_ms == 0) /* the store gives none so long */
        attempt->req.ttl_ms = side->info.ttl_most_ms;
    DLT_CHECK(getrandom(attempt->req.token, sizeof attempt->req.token, 0) > 0, "getrandom");
}

void dlt_attempt_end(struct dlt_attempt *attempt, struct dlt_side *side, bool unlocked)
{
    if (!unlocked && side->plugin->ops.forget != NULL && side->self != NULL)
        dl_slot_forget(side->plugin, side->self, &attempt->req);
    free(attempt->memory);
    *attempt = (struct dlt_attempt){.memory = NULL};
}

/* The request of a call to come. */
static struct dlock_request *due(struct dlt_side *side, struct dlt_attempt *attempt)
{
    DLT_CHECK(side->self != NULL, "no session");
    call_begin(side);
    attempt->req.deadline_ns = due_ns(side);
    attempt->req.op_timeout_ms = side->call_ms;
    return &attempt->req;
}

enum dlock_status dlt_side_try(struct dlt_side *side, struct dlt_attempt *attempt)
{
    struct dlock_request *req = due(side, attempt);

    return dl_slot_trylock(side->plugin, side->self, req, &side->grant, &side->err);
}

enum dlock_status dlt_side_renew(struct dlt_side *side, struct dlt_attempt *attempt)
{
    struct dlock_lease_op op = {
        .struct_size = sizeof op, .status = DLOCK_INTERNAL, .req = due(side, attempt)};
    struct dlock_lease_op *const ops[] = {&op};
    enum dlock_status status;

    attempt->req.deadline_ns = dlt_now_ns(); /* over, as for dlock_adopt [REN-5] */
    op.grant = side->grant;
    status = dl_slot_renew(side->plugin, side->self, ops, 1, due_ns(side), &side->err);
    side->grant = op.grant;
    return status == DLOCK_OK ? op.status : status;
}

enum dlock_status dlt_side_unlock(struct dlt_side *side, struct dlt_attempt *attempt)
{
    struct dlock_request *req = due(side, attempt);

    return dl_slot_unlock(side->plugin, side->self, req, &side->err);
}

enum dlock_status dlt_side_dequeue(struct dlt_side *side, struct dlt_attempt *attempt)
{
    struct dlock_request *req = due(side, attempt);

    return dl_slot_dequeue(side->plugin, side->self, req, &side->err);
}

static bool remaining_note(void *arg, const struct dlock_holder *holder)
{
    *(int64_t *)arg = holder->remaining_ms >= 0 ? holder->remaining_ms : 0;
    return false;
}

enum dlock_status dlt_side_inspect(struct dlt_side *side, const struct dlt_attempt *attempt,
                                   int64_t *remaining_ms)
{
    *remaining_ms = -1;
    call_begin(side);
    if (side->plugin->ops.inspect == NULL)
        return DLOCK_UNSUPPORTED;
    return dl_slot_inspect(side->plugin, side->self, (const unsigned char *)attempt->name.text,
                           (uint32_t)attempt->name.len, due_ns(side), remaining_note, remaining_ms,
                           &side->err);
}

enum dlock_status dlt_side_wait(struct dlt_side *side, struct dlt_attempt *attempt,
                                int64_t timeout_ms)
{
    struct dlock_request *req = due(side, attempt);

    req->deadline_ns = dlt_now_ns() + timeout_ms * DLT_NS_PER_MS;
    req->op_timeout_ms = timeout_ms;
    if (dlt_side_has(side, DLOCK_CAP_NATIVE_WAIT))
        return dl_slot_lock(side->plugin, side->self, req, &side->grant, &side->err);
    return dl_slot_watch(side->plugin, side->self, req, &side->grant, &side->err);
}

const char *dlt_said(const struct dlt_side *side, enum dlock_status status)
{
    static _Thread_local char text[400];

    (void)snprintf(text, sizeof text, "%s%s%s", dlock_status_name((int)status),
                   side->err.message[0] != '\0' ? ": " : "", side->err.message);
    return text;
}
