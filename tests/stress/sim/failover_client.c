/* SPDX-License-Identifier: MIT */
/* The client of a store that fails over, as the plugin redis has it: looks at its server before it
 * asks, tells what it saw, and asks once more if replicas have not confirmed it yet. */
#include "world.h"

#define WAIT_NS      (40 * SIM_MS)
#define LOOKS_A_TERM 3 /* looks in the time that one counts */

#define CONNECTION_ENDS 20000 /* before so many of a million requests */

static void disconnect(struct sim_session *session)
{
    session->seen = (struct sim_seen){.node = -1};
}

static enum dlock_status client_looks(struct sim_session *session, int64_t deadline_ns)
{
    struct sim_process *process = sim_self_process();
    int64_t now_ns = sim_host_now(&process->host);
    struct sim_seen *seen = &session->seen;
    struct sim_ask ask = {.verb = SIM_VIEW, .process = process, .pid = process->pid, .seen = *seen};
    struct sim_answer answer;

    if (sim_net_exchange(session, &ask, 1, &answer, deadline_ns, NULL) != DLOCK_OK ||
        answer.view.moment_ns == 0) {
        disconnect(session);
        return DLOCK_UNAVAILABLE;
    }
    if (seen->id == ask.seen.id && answer.view.written >= seen->views[0].written) {
        seen->views[1] = seen->views[0];
        seen->views[0] = answer.view;
        session->looked_ns = now_ns;
    }
    return DLOCK_OK;
}

static enum dlock_status connected(struct sim_session *session, int64_t deadline_ns)
{
    struct sim_process *process = sim_self_process();
    int node;

    if (sim_chance(CONNECTION_ENDS))
        disconnect(session);
    node = session->seen.id != 0 ? session->seen.node : sim_failover_choose(process);

    if (node < 0)
        return DLOCK_UNAVAILABLE;
    if (session->seen.id == 0) {
        session->seen = (struct sim_seen){.node = node, .id = sim_failover_id(node)};
        session->looked_ns = 0;
    }
    if (session->looked_ns != 0 &&
        sim_host_now(&process->host) - session->looked_ns < sim_failover_lasts_ns() / LOOKS_A_TERM)
        return DLOCK_OK;
    return client_looks(session, deadline_ns);
}

/* Until replicas have acknowledged the look, as a rule. */
static void settle(const struct sim_process *process, int64_t deadline_ns)
{
    int64_t until_ns = sim_host_to_sim((struct sim_host *)&process->host, deadline_ns);
    int64_t at_ns = sim_now() + sim_between(SIM_MS, WAIT_NS);

    (void)sim_block(at_ns < until_ns ? at_ns : until_ns);
}

/* UNAVAILABLE: also what the guard of the server refuses. */
static enum dlock_status guarded_ask(struct sim_session *session, struct sim_ask *asks, size_t n,
                                     struct sim_answer *answers, int64_t deadline_ns)
{
    enum dlock_status status = DLOCK_OK;

    for (int tries = 0; status == DLOCK_OK && !sim_self_process()->dead; tries++) {
        status = connected(session, deadline_ns);
        if (status != DLOCK_OK)
            break;
        for (size_t i = 0; i < n; i++)
            asks[i].seen = session->seen;
        status = sim_net_exchange(session, asks, n, answers, deadline_ns, NULL);
        if (status != DLOCK_OK || answers[0].refusal == SIM_OTHER)
            disconnect(session);
        if (status != DLOCK_OK || answers[0].refusal == SIM_ADMITTED ||
            (answers[0].refusal == SIM_YOUNG && asks[0].verb == SIM_TRY))
            return status;
        if (answers[0].refusal != SIM_UNCONFIRMED || tries > 0)
            break;
        sim_net_fault(asks, n);
        session->looked_ns = 0;
        status = connected(session, deadline_ns);
        settle(sim_self_process(), deadline_ns);
    }
    return DLOCK_UNAVAILABLE;
}

/* A client that is refused cannot extend what it was granted: a place may end so (C13). */
enum dlock_status sim_store_ask(struct sim_session *session, struct sim_ask *asks, size_t n,
                                struct sim_answer *answers, int64_t deadline_ns)
{
    enum dlock_status status;

    if (!sim_fails_over())
        return sim_net_exchange(session, asks, n, answers, deadline_ns, NULL);
    status = guarded_ask(session, asks, n, answers, deadline_ns);
    if (status == DLOCK_UNAVAILABLE)
        sim_net_fault(asks, n);
    return status;
}
