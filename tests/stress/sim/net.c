/* SPDX-License-Identifier: MIT */
/* The way to the server and back. Within a connection nothing overtakes; besides that, everything
 * can be late, and what is late enough comes when nobody waits for it any more. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { REQUEST, GRANT, RELEASE };

/* Who waits for an answer, on the stack of its fiber. */
struct exchange {
    struct sim_fiber *fiber;
    struct sim_session *session;
    struct sim_answer *answers;
    bool answered, broken;
};

struct message {
    struct message *prev, *next;
    struct exchange *exchange; /* NULL: nobody waits (any more) */
    enum kind kind;
    bool lose_answer, late_answer, waits;
    int32_t pid;
    struct sim_process *process;
    size_t n;
    struct sim_ask asks[SIM_ASKS_MOST];
    struct sim_answer answers[SIM_ASKS_MOST];
};

/* On their way, or waiting in the server (SIM_LOCK). */
static struct message *messages, *spare;

static struct message *message_new(enum kind kind, struct sim_process *process)
{
    struct message *m = spare;

    if (m != NULL)
        spare = m->next;
    else
        m = malloc(sizeof *m);
    if (m == NULL) {
        (void)fputs("net.c: no memory\n", stderr);
        abort();
    }
    m->exchange = NULL;
    m->kind = kind;
    m->lose_answer = m->late_answer = m->waits = false;
    m->process = process;
    m->pid = process->pid;
    m->n = 0;
    m->prev = NULL;
    m->next = messages;
    if (messages != NULL)
        messages->prev = m;
    messages = m;
    sim_world.messages++;
    return m;
}

static void message_free(struct message *m)
{
    if (m->prev != NULL)
        m->prev->next = m->next;
    else
        messages = m->next;
    if (m->next != NULL)
        m->next->prev = m->prev;
    m->next = spare;
    spare = m;
}

void sim_net_end(void)
{
    while (messages != NULL)
        message_free(messages);
    while (spare != NULL) {
        struct message *next = spare->next;

        free(spare);
        spare = next;
    }
}

static bool cut(const struct sim_process *process)
{
    return sim_world.cut_ns > sim_now() || process->cut_ns > sim_now();
}

bool sim_net_is_cut(const struct sim_process *process)
{
    return cut(process);
}

static bool happens(unsigned per_million)
{
    return !sim_world.quiet && sim_chance(per_million);
}

/* The process whose operations at other names wait meanwhile (C19); 0: none waits. */
static int32_t delayed(int32_t pid)
{
    return sim_world.async ? pid : 0;
}

static void fault(const struct message *m)
{
    sim_record_nemesis(DLT_NEMESIS_FAULT, delayed(m->pid),
                       m->n == 1 ? m->asks[0].name : DLT_ALL_NAMES);
}

static int64_t usual_ns(void)
{
    return sim_chance(30000) ? sim_between(SIM_MS, 8 * SIM_MS)
                             : sim_between(20 * SIM_US, 800 * SIM_US);
}

static int64_t late_ns(void)
{
    sim_world.late++;
    return sim_between(10 * SIM_MS, 2 * sim_world.choice.ttl_ms * SIM_MS);
}

/* How long the message takes that leaves now. */
static int64_t transit_ns(const struct message *m, bool late)
{
    if (late) {
        fault(m);
        return late_ns();
    }
    if (!happens(sim_world.profile->slow))
        return usual_ns();
    fault(m);
    return sim_between(SIM_MS, sim_world.choice.ttl_ms * SIM_MS / 5);
}

static bool lost(const struct message *m)
{
    if (!cut(m->process) && !happens(sim_world.profile->lose))
        return false;
    sim_world.lost++;
    fault(m);
    return true;
}

/* Not before what was sent before. */
static int64_t in_order(const struct message *m, int64_t at_ns, int64_t *last_ns)
{
    if (at_ns < *last_ns) {
        fault(m);
        return *last_ns;
    }
    return *last_ns = at_ns;
}

/* ---- at the client ---- */

/* Who waits in the server hears from the system in the end that the connection is gone; others
 * perhaps, within this. */
#define RESET_NS (20 * SIM_MS)

static void connection_breaks(void *arg)
{
    struct message *m = arg;

    if (m->exchange != NULL) {
        m->exchange->broken = true;
        sim_wake(m->exchange->fiber);
    }
    message_free(m);
}

static void swallow(struct message *m)
{
    if (m->n == 1 && m->asks[0].verb == SIM_LOCK)
        sim_at(sim_now() + SIM_KEEPALIVE_MS * SIM_MS, connection_breaks, m);
    else if (sim_chance(300000))
        sim_at(sim_now() + sim_between(SIM_MS, RESET_NS), connection_breaks, m);
    else
        message_free(m);
}

static void answer_arrives(void *arg)
{
    struct message *m = arg;
    struct exchange *exchange = m->exchange;

    if (m->late_answer)
        fault(m);
    if (cut(m->process)) {
        swallow(m);
        return;
    }
    if (exchange != NULL) {
        memcpy(exchange->answers, m->answers, m->n * sizeof m->answers[0]);
        exchange->answered = true;
        sim_wake(exchange->fiber);
    }
    message_free(m);
}

/* The incarnation that it is for is there and hears it. */
static bool heard(const struct message *m)
{
    return m->process->alive && !m->process->dead && m->process->pid == m->pid && !lost(m);
}

static void push_arrives(void *arg)
{
    struct message *m = arg;

    if (heard(m) && m->kind == GRANT)
        sim_waiter_grant(m->process, m->asks[0].token, &m->answers[0].grant,
                         m->answers[0].promotion);
    else if (m->kind == RELEASE && heard(m))
        sim_waiters_poke(m->process, m->asks[0].name);
    message_free(m);
}

/* ---- at the server ---- */

static void answer_leaves(struct message *m)
{
    int64_t at_ns;

    if (m->exchange == NULL || m->lose_answer || lost(m)) {
        swallow(m);
        return;
    }
    at_ns = sim_now() + transit_ns(m, m->late_answer);
    at_ns = in_order(m, at_ns, &m->exchange->session->reply_ns);
    sim_at(at_ns, answer_arrives, m);
}

static void request_arrives(void *arg)
{
    struct message *m = arg;
    int64_t stands_ns = sim_failover_stands_ns(m->process, m->asks[0].seen.node);

    if (stands_ns == SIM_NEVER || lost(m)) {
        swallow(m);
        return;
    }
    if (stands_ns > sim_now()) { /* it waits in the socket of the server */
        sim_at(stands_ns, request_arrives, m);
        return;
    }
    sim_failover_execute_at(m->asks[0].seen.node);
    for (size_t i = 0; i < m->n; i++)
        if (!sim_store_execute(&m->asks[i], &m->answers[i]))
            m->waits = true;
    if (!m->waits)
        answer_leaves(m);
}

/* SIM_LOCK is answered when somebody waits in the server for that token; other waiters are sent a
 * message of its own. */
void sim_net_granted(const struct sim_ask *ask, const struct sim_answer *answer)
{
    struct message *m;
    bool late;

    for (m = messages; m != NULL; m = m->next)
        if (m->waits && memcmp(m->asks[0].token, ask->token, DLOCK_TOKEN_SIZE) == 0) {
            m->waits = false;
            m->answers[0] = *answer;
            answer_leaves(m);
            return;
        }
    if (sim_world.choice.kind != SIM_QUEUE)
        return;
    m = message_new(GRANT, ask->process);
    m->pid = ask->pid;
    m->n = 1;
    m->asks[0] = *ask;
    m->answers[0] = *answer;
    m->answers[0].promotion = sim_failover_promotion();
    late = happens(sim_world.profile->late) || (sim_failover_is_past() && happens(300000));
    sim_at(sim_now() + (late ? late_ns() : usual_ns()), push_arrives, m);
}

void sim_net_released(uint32_t name)
{
    if (sim_world.choice.kind != SIM_WATCH && sim_world.choice.kind != SIM_QUEUE)
        return;
    for (size_t i = 0; i < SIM_PROCESSES; i++) {
        struct sim_process *process = &sim_world.processes[i];
        struct message *m;

        if (!process->alive || process->waiters == NULL)
            continue;
        m = message_new(RELEASE, process);
        m->n = 1;
        m->asks[0].name = name;
        sim_at(sim_now() + (happens(sim_world.profile->late) ? late_ns() : usual_ns()),
               push_arrives, m);
    }
}

/* ---- from the client ---- */

static struct message *request_new(struct sim_session *session, const struct sim_ask *asks,
                                   size_t n)
{
    struct message *m = message_new(REQUEST, sim_self_process());
    int64_t at_ns;

    m->n = n;
    memcpy(m->asks, asks, n * sizeof asks[0]);
    at_ns = sim_now() + transit_ns(m, happens(sim_world.profile->late)) +
            sim_failover_late_ns(asks[0].seen.node);
    m->lose_answer = happens(sim_world.profile->lose);
    m->late_answer = happens(sim_world.profile->late);
    if (m->lose_answer) {
        sim_world.lost++;
        fault(m);
    }
    at_ns = in_order(m, at_ns, &session->request_ns);
    sim_at(at_ns, request_arrives, m);
    return m;
}

static void hang_up_seen(void *arg)
{
    struct message *m = arg;

    (void)sim_store_execute(&m->asks[0], &m->answers[0]);
    message_free(m);
}

void sim_net_hang_up(struct sim_process *process, const struct sim_ask *ask)
{
    struct message *m = message_new(REQUEST, process);

    m->n = 1;
    m->asks[0] = *ask;
    sim_at(sim_now() +
               (sim_world.profile->stall_ttls == 0 || sim_chance(700000) ? usual_ns() : late_ns()),
           hang_up_seen, m);
}

void sim_net_forget(struct sim_process *process)
{
    for (struct message *m = messages; m != NULL; m = m->next)
        if (m->process == process && m->exchange != NULL) {
            sim_wake(m->exchange->fiber);
            m->exchange = NULL;
        }
}

/* Nobody waits for it any more. What waits in the server goes on doing so. */
static void exchange_end(struct exchange *exchange)
{
    for (struct message *m = messages; m != NULL; m = m->next)
        if (m->exchange == exchange)
            m->exchange = NULL;
}

/* As long as it usually takes, and not past until_ns. false: that was not enough. */
static bool takes_until(int64_t until_ns)
{
    int64_t at_ns = sim_now() + usual_ns();

    (void)sim_block(at_ns < until_ns ? at_ns : until_ns);
    return at_ns < until_ns;
}

void sim_net_fault(const struct sim_ask *asks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sim_record_nemesis(DLT_NEMESIS_FAULT, delayed(asks[i].pid), asks[i].name);
}

static bool refused(const struct sim_ask *asks, size_t n)
{
    if (!happens(sim_world.profile->refuse))
        return false;
    sim_net_fault(asks, n);
    return true;
}

enum dlock_status sim_net_exchange(struct sim_session *session, struct sim_ask *asks, size_t n,
                                   struct sim_answer *answers, int64_t deadline_ns,
                                   struct sim_waiter *interruptible)
{
    struct sim_process *process = sim_self_process();
    struct exchange exchange = {.fiber = sim_fiber_self(), .session = session, .answers = answers};
    int64_t until_ns = sim_host_to_sim(&process->host, deadline_ns);

    if (process->dead)
        return DLOCK_UNAVAILABLE;
    if (cut(process) && sim_chance(500000)) {
        sim_net_fault(asks, n);
        return DLOCK_UNAVAILABLE; /* nobody there, and known at once */
    }
    if (refused(asks, n)) {
        (void)takes_until(until_ns);
        return DLOCK_UNAVAILABLE;
    }
    request_new(session, asks, n)->exchange = &exchange;
    while (!exchange.answered && !exchange.broken && !process->dead && sim_now() < until_ns &&
           !(interruptible != NULL && interruptible->interrupted))
        (void)sim_block(until_ns);
    if (exchange.answered)
        return DLOCK_OK;
    exchange_end(&exchange);
    if (process->dead)
        return DLOCK_UNAVAILABLE;
    if (interruptible != NULL && !exchange.broken)
        return interruptible->interrupted ? DLOCK_CANCELED : DLOCK_TIMEOUT;
    sim_net_fault(asks, n);
    return DLOCK_UNKNOWN;
}

enum dlock_status sim_net_connect(int64_t deadline_ns)
{
    struct sim_process *process = sim_self_process();
    int64_t until_ns = sim_host_to_sim(&process->host, deadline_ns);

    if (process->dead)
        return DLOCK_OK;
    if (cut(process)) {
        if (sim_chance(500000))
            (void)sim_block(until_ns);
        return DLOCK_UNAVAILABLE;
    }
    return takes_until(until_ns) ? DLOCK_OK : DLOCK_UNAVAILABLE;
}
