/* SPDX-License-Identifier: MIT */
/* The plugin: a slot is a question to the server. It also holds core to its part of plugin.h. */
#include "world.h"

#include <string.h>

static bool has_session(void)
{
    return sim_world.choice.kind == SIM_SESSION;
}

/* [SES-1] All calls of an attempt come to one session, which serves nobody else. */
static void pinned_check(struct sim_session *session, const struct dlock_request *req)
{
    if (!has_session() || req == NULL || sim_self_process()->dead)
        return;
    if (session->req != NULL && session->req != req)
        sim_set_misuse("[SES-1] a session serves two attempts");
    session->req = req;
}

/* A lease that lives in a session is pinged there to the end, but a connection that failed is not
 * used again (C9). */
static bool hung_up(const struct sim_session *session)
{
    return has_session() && session->broken;
}

void sim_fresh_check(const struct sim_session *session)
{
    if (session->broken && !sim_self_process()->dead)
        sim_set_misuse("[FAI-1] a session that failed was used again");
}

void sim_slot_enter(struct sim_session *session, const struct dlock_request *req)
{
    if (!has_session())
        sim_fresh_check(session);
    if (session->busy && !sim_world.choice.concurrent)
        sim_set_misuse("a session that is not CONCURRENT got two calls at once");
    session->busy = true;
    pinned_check(session, req);
    sim_yield();
}

enum dlock_status sim_slot_leave(struct sim_session *session, enum dlock_status status,
                                 struct dlock_error *err)
{
    sim_yield();
    session->busy = false;
    if (status == DLOCK_OK || status == DLOCK_BUSY)
        return status;
    if (!sim_world.choice.concurrent && (status != DLOCK_LOST || has_session()))
        session->broken = true; /* [FAI-1] [SES-1] */
    return dlock_fail(err, "sim", status, 0, "the simulation says %s",
                      dlock_status_name((int)status));
}

void sim_info_fill(struct dlock_session_info *info)
{
    int64_t ttl_ms = sim_world.profile->grid ? sim_world.choice.ttl_ms : 0;

    info->parallelism = sim_world.choice.parallelism;
    info->ttl_least_ms = ttl_ms / 2;
    info->ttl_most_ms = ttl_ms;
    info->ttl_step_ms = ttl_ms / 4;
}

/* [TTL-1] Core rounds what the store cannot give. */
static void ttl_check(int64_t ttl_ms)
{
    int64_t most_ms = sim_world.choice.ttl_ms;

    if (sim_world.profile->grid &&
        (ttl_ms < most_ms / 2 || ttl_ms > most_ms || ttl_ms % (most_ms / 4) != 0))
        sim_set_misuse("[TTL-1] a request has a ttl that the store does not give");
}

static uint32_t data_of(const struct dlock_request *req)
{
    uint32_t data = 0;

    if (req->data_len == sizeof data)
        memcpy(&data, req->data, sizeof data);
    return data;
}

void sim_ask_make(struct sim_ask *ask, enum sim_verb verb, const struct sim_session *session,
                  const struct dlock_request *req)
{
    struct sim_process *process = sim_self_process();

    *ask = (struct sim_ask){
        .verb = verb, .session = session->id, .process = process, .pid = process->pid};
    if (req == NULL)
        return;
    ask->name = (uint32_t)(req->name[0] - 'a');
    ask->mode = req->mode;
    ask->flags = req->flags;
    ask->limit = req->limit;
    ask->data = data_of(req);
    ask->ttl_ms = req->ttl_ms;
    ask->keep_ms = req->keep_ms;
    ttl_check(req->ttl_ms);
    memcpy(ask->token, req->token, sizeof ask->token);
}

/* ---- slots ---- */

/* The renewer connects in order to renew: that may be as far as it gets. */
static void connecting_note(struct sim_process *process)
{
    for (size_t i = 0; sim_is_library_thread() && i < SIM_HANDLES; i++)
        if (process->handles[i].stage == SIM_HELD)
            (void)sim_record(&process->handles[i], DLT_INV_RENEW);
}

static enum dlock_status slot_open(void *self, const struct dlock_host *host,
                                   const struct dlock_target *target, int64_t deadline_ns,
                                   struct dlock_session_info *info, struct dlock_error *err)
{
    struct sim_session *session = self;
    enum dlock_status status;

    (void)host, (void)target;
    connecting_note(sim_self_process());
    status = sim_net_connect(deadline_ns);
    if (status != DLOCK_OK)
        return dlock_fail(err, "sim", status, 0, "the store cannot be reached");
    *session = (struct sim_session){
        .id = ++sim_world.last_session, .open = true, .next = sim_self_process()->sessions};
    sim_self_process()->sessions = session;
    info->caps = sim_plugin()->caps;
    sim_info_fill(info);
    return DLOCK_OK;
}

static void slot_close(void *self, bool forked)
{
    struct sim_session *session = self, **link = &sim_self_process()->sessions;
    struct sim_ask ask;

    (void)forked;
    if (!session->open)
        return;
    if (session->busy)
        sim_set_misuse("a session was closed during a call");
    session->open = false;
    while (*link != session)
        link = &(*link)->next;
    *link = session->next;
    if (!(has_session() || sim_is_tethered()) || sim_self_process()->dead)
        return;
    sim_ask_make(&ask, SIM_CLOSE, session, NULL);
    sim_net_hang_up(sim_self_process(), &ask);
}

/* What the answer says of the place in the queue. A place at the master before is none. */
static void place_note(const struct dlock_request *req, const struct sim_answer *answer,
                       int64_t sent_ns)
{
    struct sim_process *process = sim_self_process();
    struct sim_waiter *waiter = req->attempt;
    struct sim_handle *handle = sim_handle_of(process, req);
    struct dlt_record *record;

    if ((answer->grant.flags & DLOCK_GRANT_QUEUED) != 0) {
        int64_t age_ms = (sim_now() - sim_host_to_sim(&process->host, sent_ns)) / SIM_MS + 1;

        waiter->seen_fence = answer->grant.fence;
        waiter->queued_by = answer->promotion;
        if (waiter->granted_by != answer->promotion) /* it came before this answer */
            waiter->granted = false;
        record = sim_failover_is_current(answer->promotion) ? sim_record(handle, DLT_QUEUED) : NULL;
        if (record != NULL) {
            record->status = (uint16_t)(age_ms < UINT16_MAX ? age_ms : UINT16_MAX);
            record->until_ns = sim_host_to_sim(
                &process->host, dl_lease_valid_until_ns(sent_ns, answer->grant.lease_ms,
                                                        handle->lock->renewal.margin));
        }
    } else if ((req->flags & DLOCK_REQ_REFRESH) != 0 && answer->status == DLOCK_BUSY) {
        (void)sim_record(handle, DLT_LEFT);
    }
}

static enum dlock_status slot_trylock(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    struct sim_session *session = self;
    struct sim_waiter *waiter = req->attempt;
    int64_t sent_ns = sim_host_now(sim_self_host());
    struct sim_answer answer;
    struct sim_ask ask;
    enum dlock_status status;

    sim_slot_enter(session, req);
    sim_fresh_check(session);
    sim_waiter_list(req);
    waiter->poked = waiter->news = false;
    if ((req->flags & DLOCK_REQ_ENQUEUE) != 0)
        waiter->enqueued = true;
    sim_ask_make(&ask, SIM_TRY, session, req);
    status = sim_store_ask(session, &ask, 1, &answer, req->deadline_ns);
    if (status == DLOCK_OK || status == DLOCK_UNKNOWN)
        waiter->doubtful = status == DLOCK_UNKNOWN; /* nothing overtakes: an answer settles all */
    if (status == DLOCK_OK) {
        status = answer.status;
        *grant = answer.grant;
        place_note(req, &answer, sent_ns);
    }
    return sim_slot_leave(session, status, err);
}

/* Of an application, which writes its calls down but one at a time, the sending. */
static void renewal_note(const struct dlock_request *req, enum dlt_event event,
                         enum dlock_status status)
{
    struct sim_handle *handle = sim_handle_of(sim_self_process(), req);
    bool sends = event == DLT_INV_RENEW && handle != NULL && handle->stage == SIM_HELD;
    struct dlt_record *record;

    if (handle == NULL || !(sends || sim_is_library_thread()))
        return;
    /* What a yes is worth is seen at the lease, but that the claim is shared. */
    if (event == DLT_RET_RENEW && status == DLOCK_OK &&
        ((req->flags & DLOCK_REQ_DOWNGRADE) == 0 || handle->stage != SIM_HELD || handle->told))
        return;
    record = sim_record(handle, event);
    if (record == NULL)
        return;
    record->status = (uint16_t)status;
    if ((req->flags & DLOCK_REQ_DOWNGRADE) != 0)
        record->mode = DLOCK_SHARED;
}

static enum dlock_status slot_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                    int64_t deadline_ns, struct dlock_error *err)
{
    struct sim_session *session = self;
    struct sim_answer answers[SIM_ASKS_MOST];
    struct sim_ask asks[SIM_ASKS_MOST];
    enum dlock_status status;

    if (n > SIM_ASKS_MOST || (has_session() && n != 1)) {
        sim_set_misuse("renew: too many at once");
        return DLOCK_INTERNAL;
    }
    for (size_t i = 0; i < n; i++) {
        sim_ask_make(&asks[i], SIM_RENEW, session, ops[i]->req);
        renewal_note(ops[i]->req, DLT_INV_RENEW, DLOCK_OK);
    }
    sim_slot_enter(session, n == 1 ? ops[0]->req : NULL);
    status = hung_up(session) ? DLOCK_UNAVAILABLE
                              : sim_store_ask(session, asks, n, answers, deadline_ns);
    for (size_t i = 0; i < n; i++) {
        ops[i]->status = status == DLOCK_OK ? answers[i].status : status;
        if (status == DLOCK_OK)
            ops[i]->grant = answers[i].grant;
        renewal_note(ops[i]->req, DLT_RET_RENEW, ops[i]->status);
    }
    status = sim_slot_leave(session, status, err);
    return status == DLOCK_UNKNOWN ? DLOCK_OK : status;
}

static enum dlock_status ended(struct sim_session *session, enum sim_verb verb,
                               const struct dlock_request *req, struct dlock_error *err)
{
    struct sim_answer answer;
    struct sim_ask ask;
    enum dlock_status status;

    if (sim_self_process()->dead)
        return DLOCK_OK; /* nobody hears of it: the sooner it is wound up the better */
    sim_slot_enter(session, req);
    sim_ask_make(&ask, verb, session, req);
    if (hung_up(session))
        status = DLOCK_UNAVAILABLE;
    else
        status = sim_store_ask(session, &ask, 1, &answer, req->deadline_ns);
    if (status == DLOCK_OK)
        status = answer.status;
    if (has_session())
        session->req = NULL;
    if (sim_is_tethered() && status != DLOCK_OK && status != DLOCK_LOST)
        sim_tether_leave(req);
    return sim_slot_leave(session, status, err);
}

static enum dlock_status slot_unlock(void *self, const struct dlock_request *req,
                                     struct dlock_error *err)
{
    sim_waiter_unlist(req);
    return ended(self, SIM_UNLOCK, req, err);
}

static enum dlock_status slot_leave(void *self, const struct dlock_request *req,
                                    struct dlock_error *err)
{
    (void)sim_record(sim_handle_of(sim_self_process(), req), DLT_LEFT);
    return ended(self, SIM_LEAVE, req, err);
}

static void slot_forget(void *self, const struct dlock_request *req)
{
    struct sim_session *session = self;

    if (session == NULL && has_session())
        sim_set_misuse("[FGT-2] forget without a session");
    if (sim_is_tethered() && ((struct sim_waiter *)req->attempt)->doubtful)
        sim_tether_leave(req);
    sim_waiter_unlist(req);
    if (has_session() && session != NULL)
        session->req = NULL;
}

/* ---- many at once ---- */

/* [BAT-3] An exchange may last until the last deadline. */
static void deadlines_check(struct dlock_batch_op *const *ops, size_t n)
{
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;

    for (size_t i = 0; i < n; i++) {
        int64_t deadline_ns = ops[i]->req->deadline_ns;

        first_ns = deadline_ns < first_ns ? deadline_ns : first_ns;
        last_ns = deadline_ns > last_ns ? deadline_ns : last_ns;
    }
    if (n > 0 && last_ns - first_ns > 40 * DL_NS_PER_MS && !sim_self_process()->dead)
        sim_set_misuse("[BAT-3] the deadlines of a batch are far apart");
}

/* Sends the questions in messages of some of them, as a connection carries them: what comes after a
 * message without an answer is not sent. Each has a status of its own. */
static enum dlock_status batch_exchange(struct sim_session *session,
                                        struct dlock_batch_op *const *ops, size_t n,
                                        enum sim_verb verb, struct sim_answer *answers)
{
    struct sim_ask asks[SIM_ASKS_MOST];
    enum dlock_status worst = DLOCK_OK;
    size_t some;

    deadlines_check(ops, n);
    for (size_t done = 0; done < n; done += some) {
        some =
            (size_t)sim_between(1, n - done < SIM_ASKS_MOST ? (int64_t)(n - done) : SIM_ASKS_MOST);
        for (size_t i = 0; i < some; i++)
            sim_ask_make(&asks[i], verb, session, ops[done + i]->req);
        if (worst == DLOCK_OK)
            worst = sim_store_ask(session, asks, some, answers + done, ops[done]->req->deadline_ns);
        else
            worst = DLOCK_UNAVAILABLE;
        for (size_t i = 0; i < some; i++)
            ops[done + i]->status = worst;
    }
    return worst;
}

/* An element is answered: *grant, if there is one. */
static void batch_tried(struct dlock_batch_op *op, const struct sim_answer *answer, int64_t sent_ns)
{
    struct sim_waiter *waiter = op->req->attempt;

    if (op->status == DLOCK_OK || op->status == DLOCK_UNKNOWN)
        waiter->doubtful = op->status == DLOCK_UNKNOWN;
    if (op->status != DLOCK_OK)
        return;
    op->status = answer->status;
    op->grant = answer->grant;
    place_note(op->req, answer, sent_ns);
}

static void batch_fail(const struct dlock_batch_op *op)
{
    if (op->status != DLOCK_OK && op->status != DLOCK_BUSY)
        (void)dlock_fail(op->err, "sim", op->status, 0, "the simulation says %s",
                         dlock_status_name((int)op->status));
}

static enum dlock_status slot_trylock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                            struct dlock_error *err)
{
    struct sim_session *session = self;
    int64_t sent_ns = sim_host_now(sim_self_host());
    struct sim_answer answers[SIM_BATCH_MOST];
    enum dlock_status worst;

    if (n > SIM_BATCH_MOST) {
        sim_set_misuse("trylock_batch: too many at once");
        return DLOCK_INTERNAL;
    }
    sim_slot_enter(session, NULL);
    sim_fresh_check(session);
    for (size_t i = 0; i < n; i++) {
        struct sim_waiter *waiter = ops[i]->req->attempt;

        sim_waiter_list(ops[i]->req);
        waiter->poked = waiter->news = false;
        if ((ops[i]->req->flags & DLOCK_REQ_ENQUEUE) != 0)
            waiter->enqueued = true;
    }
    worst = batch_exchange(session, ops, n, SIM_TRY, answers);
    for (size_t i = 0; i < n; i++) {
        batch_tried(ops[i], &answers[i], sent_ns);
        batch_fail(ops[i]);
    }
    (void)sim_slot_leave(session, worst, err);
    return DLOCK_OK;
}

static enum dlock_status slot_unlock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                           struct dlock_error *err)
{
    struct sim_session *session = self;
    struct sim_answer answers[SIM_BATCH_MOST];
    enum dlock_status worst;

    for (size_t i = 0; i < n; i++) {
        sim_waiter_unlist(ops[i]->req);
        ops[i]->status = DLOCK_OK;
    }
    if (sim_self_process()->dead)
        return DLOCK_OK; /* nobody hears of it: the sooner it is wound up the better */
    if (n > SIM_BATCH_MOST) {
        sim_set_misuse("unlock_batch: too many at once");
        return DLOCK_INTERNAL;
    }
    sim_slot_enter(session, NULL);
    worst = batch_exchange(session, ops, n, SIM_UNLOCK, answers);
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status == DLOCK_OK)
            ops[i]->status = answers[i].status;
        if (sim_is_tethered() && ops[i]->status != DLOCK_OK && ops[i]->status != DLOCK_LOST)
            sim_tether_leave(ops[i]->req);
        batch_fail(ops[i]);
    }
    (void)sim_slot_leave(session, worst, err);
    return DLOCK_OK;
}

/* ---- what it can do ---- */

const struct dlock_plugin *sim_plugin(void)
{
    static const char *const schemes[] = {"sim", NULL};
    static const uint32_t kinds[SIM_KINDS] = {
        [SIM_QUEUE] = DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE,
        [SIM_WATCH] = DLOCK_CAP_WATCH,
        [SIM_SESSION] = DLOCK_CAP_NATIVE_WAIT | DLOCK_CAP_SESSION,
    };
    static struct dlock_backend_ops ops;
    static struct dlock_plugin plugin;
    const struct sim_choice *choice = &sim_world.choice;
    uint64_t caps = kinds[choice->kind] | DLOCK_CAP_RWLOCK;

    caps |= choice->fences ? DLOCK_CAP_FENCE : 0u;
    if (choice->concurrent)
        caps |= DLOCK_CAP_CONCURRENT;
    if (!has_session())
        caps |= DLOCK_CAP_DOWNGRADE;
    if (sim_is_tethered())
        caps |= DLOCK_CAP_TETHERED;
    if (sim_world.profile->semaphores && !has_session())
        caps |= DLOCK_CAP_LIMIT;
    if (sim_publishes())
        caps |= DLOCK_CAP_DATA;
    if (sim_keeps())
        caps |= DLOCK_CAP_KEEP;
    ops = (struct dlock_backend_ops){
        .struct_size = sizeof ops,
        .session_size = sizeof(struct sim_session),
        .attempt_size = sizeof(struct sim_waiter),
        .open = slot_open,
        .close = slot_close,
        .trylock = slot_trylock,
        .renew = slot_renew,
        .unlock = slot_unlock,
        .forget = slot_forget,
        .lock = has_session() ? sim_slot_lock : NULL,
        .watch = (caps & DLOCK_CAP_WATCH) != 0 ? sim_slot_watch : NULL,
        .dequeue = choice->kind == SIM_QUEUE ? slot_leave : NULL,
        .wait_any = choice->wait_any && (caps & DLOCK_CAP_WATCH) != 0 ? sim_slot_wait_any : NULL,
        .inspect = sim_publishes() ? sim_slot_inspect : NULL,
        .interrupt = choice->kind != SIM_POLL ? sim_slot_interrupt : NULL,
        .trylock_batch = choice->batches ? slot_trylock_batch : NULL,
        .unlock_batch = choice->batches ? slot_unlock_batch : NULL,
    };
    plugin = (struct dlock_plugin){
        .magic = DLOCK_PLUGIN_MAGIC,
        .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
        .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
        .struct_size = sizeof plugin,
        .caps = caps,
        .name = "sim",
        .version = "1",
        .schemes = schemes,
        .ops = &ops,
    };
    return &plugin;
}
