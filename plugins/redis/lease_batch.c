/* SPDX-License-Identifier: MIT */
#include "lease_batch.h"
#include "lease.h"
#include "redis/call/call.h"
#include "redis/call/route.h"
#include "redis/link/config.h"
#include "resp/error.h"
#include "resp/reply.h"
#include "waiter.h"

#include <stdlib.h>

/* ---- one script for many names ----
 *
 * The script does the simple thing alone: it takes names without a holder and without waiters
 * (acquire_many.lua), or releases names without waiters (release_many.lua). Each other name gets
 * "not by this script" and is asked for by the script of one name, as if this call had not been.
 */

/* Names of one script. The server serves nobody else while a script runs: 32 grants take it as long
 * as 19 scripts for one name. With 16 names a pair takes it a twentieth longer, with 64 a
 * thirtieth less. */
#define MANY_MOST 32

/* A call for n names. Has 10 KB, most of which is never used. */
struct many {
    struct redis_call call;
    size_t n;
    size_t which[MANY_MOST]; /* the caller's numbers of the names */
};

/* A cluster refuses names of several slots, and with key=raw a name has one more key. */
static bool many_is_possible(const struct redis_session *session)
{
    return session->cluster == NULL && !session->config.all_keys && !session->config.raw;
}

/* *number: 0 for a name that the script left alone. */
static bool answer_read(const char **at, int64_t *number)
{
    if (**at != '-')
        return resp_reply_digits(at, number);
    ++*at;
    *number = 0;
    return true;
}

/* call->expects: the number of names. */
static bool many_validate(const struct redis_call *call, const redisReply *reply)
{
    const char *at = reply->str;
    int64_t number = 0;

    if (reply->type != REDIS_REPLY_STRING)
        return false;
    for (size_t i = 0; i < call->expects; i++)
        if ((i > 0 && *at++ != ' ') || !answer_read(&at, &number))
            return false;
    return *at == '\0';
}

static void many_call_begin(struct many *many, enum redis_script_id script,
                            const struct resp_keys *const *keys)
{
    redis_call_begin_many(&many->call, script, keys, many->n, many_validate);
}

/* Reads the next name's answer: its fence, or 1 for a release; 0: not by this script. */
static int64_t many_next(const char **at)
{
    int64_t number = 0;

    (void)answer_read(at, &number);
    *at += **at == ' ';
    return number;
}

/* The call ended without an answer for any name, and so did each name. False: the script was
 * refused, which may be for one of the names: each name is to be asked for alone. */
static bool many_is_over(const struct many *many, enum dlock_status status)
{
    return !many->call.outcome.refused && status != DLOCK_BUSY && status != DLOCK_CONFIG;
}

/* The answer was an error that does not say whether the script did anything. */
static bool many_is_in_doubt(const struct many *many, enum dlock_status status)
{
    return many->call.outcome.refused && status == DLOCK_UNKNOWN;
}

/* ---- a batch ---- */

#define MANY_CALLS (REDIS_CALLS_MOST / MANY_MOST)

/* Batches that do without a script for many names. */
#define ALONE_IF_SLOW    1
#define ALONE_IF_REFUSED 1
#define ALONE_IF_LASTING 100 /* a proxy may refuse keys of several names each time */

/* What is to be sent for an element. */
enum way { ENDED, MANY, ALONE };

struct element {
    struct dlock_batch_op *op;
    enum way way;
    bool is_simple;   /* a script for many names may do it */
    bool is_in_doubt; /* and may have done it: its answer does not say */
    union {
        struct redis_take take;
        struct redis_release release;
    };
};

/* The two slots. */
struct kind {
    enum redis_script_id script;
    /* OK: keys are set; else the status of the element. */
    enum dlock_status (*prepare)(struct redis_session *session, struct element *element);
    bool (*is_simple)(const struct dlock_request *req);
    const struct resp_keys *(*keys)(const struct element *element);
    void (*words)(const struct element *element, struct resp_command *command);
    /* The element's answer in a script for many names is this one, which is not 0. */
    void (*done)(struct redis_session *session, struct element *element, int64_t answer);
    /* The script of this one name. NULL: op->status is set. */
    struct redis_call *(*begin)(struct redis_session *session, struct element *element);
    void (*end)(struct redis_session *session, struct element *element,
                const struct redis_call_end *end);
};

struct batch {
    struct redis_session *session;
    const struct kind *kind;
    atomic_int *alone;
    size_t n, many_n;
    size_t simple, quick; /* elements that are; and of these, that needed no other script */
    int64_t deadline_ns;  /* the last one */
    bool is_slow;         /* a second round would have no time, or had none */
    struct many many[MANY_CALLS];
    struct element elements[];
};

/* Calls that leave in one write: those for many names first. */
struct round {
    size_t n;
    const struct resp_keys *keys[REDIS_CALLS_MOST];
    struct redis_call *calls[REDIS_CALLS_MOST];
    struct redis_call_end ends[REDIS_CALLS_MOST];
    struct element *elements[REDIS_CALLS_MOST]; /* of the calls for one name */
    struct dlock_error errors[MANY_CALLS];
};

/* ---- trylock ---- */

static enum dlock_status take_prepare(struct redis_session *session, struct element *element)
{
    return redis_lease_take_prepare(session, element->op->req, &element->take, element->op->err);
}

static const struct resp_keys *take_keys(const struct element *element)
{
    return &element->take.keys;
}

static void take_words(const struct element *element, struct resp_command *command)
{
    resp_command_text(command, element->take.token);
    resp_command_text(command, element->take.ttl);
    resp_command_add(command, element->take.text, element->take.text_len);
}

static void take_done(struct redis_session *session, struct element *element, int64_t answer)
{
    redis_lease_take_granted(session, element->op->req, answer, &element->op->grant);
    element->op->status = DLOCK_OK;
}

static struct redis_call *take_begin(struct redis_session *session, struct element *element)
{
    struct dlock_batch_op *op = element->op;

    op->status = redis_lease_take_begin(session, op->req, &element->take, op->err);
    return op->status == DLOCK_OK ? &element->take.call : NULL;
}

static void take_end(struct redis_session *session, struct element *element,
                     const struct redis_call_end *end)
{
    struct dlock_batch_op *op = element->op;

    op->status = redis_lease_take_end(session, op->req, &element->take, end->status, end->reply,
                                      &op->grant, op->err);
}

static const struct kind trylocks = {.script = REDIS_SCRIPT_ACQUIRE_MANY,
                                     .prepare = take_prepare,
                                     .is_simple = redis_lease_take_is_simple,
                                     .keys = take_keys,
                                     .words = take_words,
                                     .done = take_done,
                                     .begin = take_begin,
                                     .end = take_end};

/* ---- unlock ---- */

static enum dlock_status release_prepare(struct redis_session *session, struct element *element)
{
    redis_lease_release_prepare(session, element->op->req, &element->release);
    return DLOCK_OK;
}

static const struct resp_keys *release_keys(const struct element *element)
{
    return &element->release.keys;
}

static void release_words(const struct element *element, struct resp_command *command)
{
    resp_command_text(command, element->release.token);
}

static void release_done(struct redis_session *session, struct element *element, int64_t answer)
{
    (void)session;
    (void)answer;
    element->op->status = DLOCK_OK;
}

static struct redis_call *release_begin(struct redis_session *session, struct element *element)
{
    (void)session;
    redis_lease_release_begin(element->op->req, &element->release);
    return &element->release.call;
}

static void release_end(struct redis_session *session, struct element *element,
                        const struct redis_call_end *end)
{
    element->op->status = redis_lease_release_end(session, &element->release, end->status,
                                                  end->reply, element->op->err);
}

static const struct kind unlocks = {.script = REDIS_SCRIPT_RELEASE_MANY,
                                    .prepare = release_prepare,
                                    .is_simple = redis_lease_release_is_simple,
                                    .keys = release_keys,
                                    .words = release_words,
                                    .done = release_done,
                                    .begin = release_begin,
                                    .end = release_end};

/* ---- a batch ---- */

/* Whether this batch has scripts for many names. */
static bool has_many(struct batch *batch)
{
    if (!many_is_possible(batch->session))
        return false;
    if (atomic_load(batch->alone) <= 0)
        return true;
    (void)atomic_fetch_sub(batch->alone, 1);
    return false;
}

static void prepare(struct batch *batch, struct dlock_batch_op *const *ops)
{
    bool many = has_many(batch);

    for (size_t i = 0; i < batch->n; i++) {
        struct element *element = &batch->elements[i];

        element->op = ops[i];
        element->is_in_doubt = false;
        element->is_simple = batch->kind->is_simple(ops[i]->req);
        element->way = many && element->is_simple ? MANY : ALONE;
        batch->simple += element->is_simple;
        ops[i]->status = batch->kind->prepare(batch->session, element);
        if (ops[i]->status != DLOCK_OK)
            element->way = ENDED;
    }
}

static void many_begin(struct batch *batch, struct many *many, struct round *round)
{
    const struct resp_keys *keys[MANY_MOST];
    struct redis_call_end *end = &round->ends[round->n];

    for (size_t i = 0; i < many->n; i++)
        keys[i] = batch->kind->keys(&batch->elements[many->which[i]]);
    many_call_begin(many, batch->kind->script, keys);
    for (size_t i = 0; i < many->n; i++)
        batch->kind->words(&batch->elements[many->which[i]], &many->call.command);
    round->errors[round->n] = (struct dlock_error)DLOCK_ERROR_INIT;
    end->err = &round->errors[round->n];
    round->calls[round->n] = &many->call;
    round->keys[round->n++] = NULL; /* not a cluster */
}

/* A script for one name is its own. */
static void many_begin_all(struct batch *batch, struct round *round)
{
    batch->many_n = 0;
    for (size_t i = 0; i < batch->n; batch->many_n++) {
        struct many *many = &batch->many[batch->many_n];

        many->n = 0;
        for (; i < batch->n && many->n < MANY_MOST; i++)
            if (batch->elements[i].way == MANY)
                many->which[many->n++] = i;
        if (many->n == 1)
            batch->elements[many->which[0]].way = ALONE;
        if (many->n <= 1)
            return;
        many_begin(batch, many, round);
    }
}

static bool is_definite(const struct element *element, bool has_answer)
{
    enum dlock_status status = element->op->status;

    return status == DLOCK_PROTOCOL || (has_answer && status != DLOCK_LOST);
}

/* What was not done by the script of one name may have been by the script for many. has_answer: of
 * the former. */
static void doubt(const struct element *element, bool has_answer)
{
    struct dlock_error *err = element->op->err;
    char text[sizeof err->message];

    if (!element->is_in_doubt || is_definite(element, has_answer))
        return;
    (void)snprintf(text, sizeof text, "%s", err->message);
    element->op->status = dlock_fail(err, REDIS_ORIGIN, DLOCK_UNKNOWN, err->code,
                                     "%.180s; an earlier request may have been executed", text);
}

static void alone_begin_all(struct batch *batch, struct round *round)
{
    for (size_t i = 0; i < batch->n; i++) {
        struct element *element = &batch->elements[i];
        struct redis_call *call = NULL;

        if (element->way != ALONE)
            continue;
        element->way = ENDED;
        call = batch->kind->begin(batch->session, element);
        if (call == NULL) {
            doubt(element, false);
            continue;
        }
        round->calls[round->n] = call;
        round->keys[round->n] = batch->kind->keys(element);
        round->ends[round->n].err = element->op->err;
        round->elements[round->n++] = element;
    }
}

static void many_failed(struct element *element, enum dlock_status status,
                        const struct dlock_error *err)
{
    element->op->status =
        dlock_fail(element->op->err, err->origin, status, err->code, "%s", err->message);
    element->way = ENDED;
}

static void alone_next(struct batch *batch, int batches)
{
    if (atomic_load(batch->alone) < batches)
        atomic_store(batch->alone, batches);
}

/* Elements without an answer go on alone. */
static void many_end(struct batch *batch, const struct many *many, const struct redis_call_end *end)
{
    const char *at = end->status == DLOCK_OK ? end->reply->str : NULL;
    bool is_over = at == NULL && many_is_over(many, end->status);

    for (size_t i = 0; i < many->n; i++) {
        struct element *element = &batch->elements[many->which[i]];
        int64_t answer = at != NULL ? many_next(&at) : 0;

        element->way = answer > 0 ? ENDED : ALONE;
        element->is_in_doubt = many_is_in_doubt(many, end->status);
        if (answer > 0)
            batch->kind->done(batch->session, element, answer);
        else if (is_over)
            many_failed(element, end->status, end->err);
        batch->quick += answer > 0;
    }
    if (many->call.outcome.refused)
        alone_next(batch, many->call.outcome.lasting ? ALONE_IF_LASTING : ALONE_IF_REFUSED);
    if (end->status == DLOCK_OK)
        freeReplyObject(end->reply);
}

static void alone_end(struct batch *batch, struct element *element,
                      const struct redis_call_end *end)
{
    bool has_answer = end->status == DLOCK_OK;

    batch->quick += element->is_simple && has_answer && end->reply->type != REDIS_REPLY_ARRAY;
    batch->kind->end(batch->session, element, end);
    doubt(element, has_answer);
}

static int64_t now(const struct batch *batch)
{
    return batch->session->host->now_ns(batch->session->host->ctx);
}

static void deadline_set(struct batch *batch)
{
    batch->deadline_ns = 0;
    for (size_t i = 0; i < batch->n; i++)
        if (batch->elements[i].op->req->deadline_ns > batch->deadline_ns)
            batch->deadline_ns = batch->elements[i].op->req->deadline_ns;
}

static bool is_cut(const struct round *round)
{
    for (size_t i = 0; i < round->n; i++)
        if (!round->calls[i]->outcome.refused &&
            (round->ends[i].status == DLOCK_UNKNOWN || round->ends[i].status == DLOCK_UNAVAILABLE))
            return true;
    return false;
}

/* Sends what is to be sent. False: nothing is. */
static bool round_run(struct batch *batch, bool is_first)
{
    struct round round = {.n = 0};
    int64_t begin_ns = now(batch);

    many_begin_all(batch, &round);
    alone_begin_all(batch, &round);
    if (round.n == 0)
        return false;
    redis_route_run_all(batch->session, round.keys, round.calls, round.ends, round.n,
                        batch->deadline_ns);
    if (is_first)
        batch->is_slow = 3 * (now(batch) - begin_ns) > batch->deadline_ns - begin_ns;
    else
        batch->is_slow = batch->is_slow || is_cut(&round);
    for (size_t i = 0; i < batch->many_n; i++)
        many_end(batch, &batch->many[i], &round.ends[i]);
    for (size_t i = batch->many_n; i < round.n; i++)
        alone_end(batch, round.elements[i], &round.ends[i]);
    return true;
}

/* Names that others have or wait for cost an exchange more, within the same deadline. */
static void judge(struct batch *batch)
{
    if (batch->is_slow || 2 * batch->quick < batch->simple)
        alone_next(batch, ALONE_IF_SLOW);
}

static void batch_run(struct batch *batch, struct dlock_batch_op *const *ops, size_t n)
{
    batch->n = n;
    batch->simple = batch->quick = 0;
    batch->is_slow = false;
    prepare(batch, ops);
    deadline_set(batch);
    for (bool is_first = true; round_run(batch, is_first); is_first = false)
        ;
    judge(batch);
}

/* The room is not zeroed: see lease.c. */
static enum dlock_status run_all(struct redis_session *session, const struct kind *kind,
                                 atomic_int *alone, struct dlock_batch_op *const *ops, size_t n,
                                 struct dlock_error *err)
{
    size_t most = n < REDIS_CALLS_MOST ? n : REDIS_CALLS_MOST;
    struct batch *batch = malloc(sizeof *batch + most * sizeof batch->elements[0]);

    if (batch == NULL)
        return resp_error_fail(&session->config, err, DLOCK_NOMEM, "no memory for a batch");
    batch->session = session;
    batch->kind = kind;
    batch->alone = alone;
    for (size_t done = 0; done < n; done += most)
        batch_run(batch, ops + done, n - done < most ? n - done : most);
    free(batch);
    return DLOCK_OK;
}

enum dlock_status redis_lease_batch_trylock(void *self, struct dlock_batch_op *const *ops, size_t n,
                                            struct dlock_error *err)
{
    struct redis_session *session = self;

    return run_all(session, &trylocks, &session->alone_trylocks, ops, n, err);
}

enum dlock_status redis_lease_batch_unlock(void *self, struct dlock_batch_op *const *ops, size_t n,
                                           struct dlock_error *err)
{
    struct redis_session *session = self;
    enum dlock_status status = run_all(session, &unlocks, &session->alone_unlocks, ops, n, err);

    for (size_t i = 0; status != DLOCK_OK && i < n; i++)
        redis_waiter_free(ops[i]->req->attempt); /* [UNL-4] */
    return status;
}
