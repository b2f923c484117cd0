/* SPDX-License-Identifier: MIT */
/* The failover guard of the plugin redis, in a server: what a look shows, and what a request may
 * then do, rule by rule as view.lua and guard.lua have it. defects.cmake takes the rules out. */
#include "failover.h"

#define NEEDED 1 /* replicas: with the master more than half of the servers */

static bool passes;
static int64_t longest_ns, lasts_ns, yours_ns, grants_ns, differ_ns;

static unsigned confirmed(const struct sim_server *server, int64_t written)
{
    unsigned count = 0;

    for (unsigned i = 0; i < SIM_SERVERS; i++)
        count += server->replicas[i].online && server->replicas[i].received > written;
    return count;
}

static bool goes_on(const struct sim_server *server, int64_t from_ns, int64_t to_ns)
{
    return server->term.joined == server->joins || to_ns - from_ns <= lasts_ns;
}

static void term_note(struct sim_server *server, int64_t now_ns)
{
    server->term.joined = server->joins;
    server->term.looked_ns = now_ns;
    server->term.written = server->written;
}

/* view.lua */
static void look(struct sim_server *server, const struct sim_ask *ask, struct sim_view *view)
{
    struct sim_term *term = &server->term;
    int64_t now_ns = sim_server_now(server);
    bool known = term->id == server->id, confirms;

    if (server->id != ask->seen.id)
        return;
    view->written = server->written;
    if (!known) {
        *term = (struct sim_term){.id = server->id};
        term_note(server, now_ns);
    }
    confirms = confirmed(server, term->written) >= NEEDED;
    if (term->since_ns == 0 && confirms) {
        term->since_ns = now_ns;
        term->last_ns = term->looked_ns;
        term_note(server, now_ns);
    } else if (term->since_ns > 0) {
        confirms = confirms && goes_on(server, term->last_ns, now_ns);
        term->last_ns = confirms ? term->looked_ns : term->last_ns;
        if (!goes_on(server, term->last_ns, now_ns))
            term->since_ns = term->last_ns = 0;
        if (confirms || term->since_ns == 0)
            term_note(server, now_ns);
    }
    sim_failover_wrote(server);
    view->moment_ns = now_ns;
    view->since_ns = now_ns - term->last_ns <= lasts_ns ? term->since_ns : 0;
}

static bool look_confirmed(const struct sim_server *server, const struct sim_view *view)
{
    int64_t age_ns = sim_server_now(server) - view->moment_ns;

    return view->moment_ns != 0 && age_ns >= 0 && age_ns <= lasts_ns &&
           confirmed(server, view->written) >= NEEDED;
}

/* guard.lua. until_ns: since the begin of the term. *left_ns: of that, if this is all that is in
 * the way. */
static enum sim_refusal refuse(const struct sim_server *server, const struct sim_seen *seen,
                               int64_t until_ns, int64_t *left_ns)
{
    int64_t since_ns = seen->views[0].since_ns;

    if (server->id != seen->id)
        return SIM_OTHER;
    if (since_ns == 0 ||
        !(look_confirmed(server, &seen->views[0]) || look_confirmed(server, &seen->views[1])))
        return SIM_UNCONFIRMED;
    *left_ns = since_ns + until_ns - sim_server_now(server);
    return *left_ns > 0 ? SIM_YOUNG : SIM_ADMITTED;
}

bool sim_failover_admit(const struct sim_ask *ask, struct sim_answer *answer)
{
    struct sim_server *server = sim_failover_executing();
    int64_t left_ns = 0;
    enum sim_refusal grants, yours;

    if (!sim_fails_over())
        return true;
    answer->promotion = server->id;
    answer->refusal = SIM_OTHER;
    if (!server->is_master)
        return false;
    if (ask->verb == SIM_VIEW) {
        look(server, ask, &answer->view);
        return false;
    }
    yours = refuse(server, &ask->seen, yours_ns, &left_ns);
    grants = refuse(server, &ask->seen, grants_ns, &left_ns);
    answer->refusal = ask->verb == SIM_TRY ? grants : ask->verb == SIM_RENEW ? yours : SIM_ADMITTED;
    if (answer->refusal == SIM_YOUNG && ask->verb == SIM_TRY) {
        answer->status = DLOCK_BUSY;
        answer->grant.holder_ms = left_ns / SIM_MS + 1;
    }
    passes = grants == SIM_ADMITTED;
    if (answer->refusal == SIM_ADMITTED)
        sim_failover_wrote(server);
    return answer->refusal == SIM_ADMITTED;
}

bool sim_failover_passes(void)
{
    return !sim_fails_over() || passes;
}

uint64_t sim_failover_fence(uint64_t next)
{
    uint64_t clock_us = (uint64_t)(sim_server_now(sim_failover_executing()) / SIM_US);

    return sim_fails_over() && clock_us > next ? clock_us : next;
}

/* Where D is short, a holder can outlive a failover, and an old master is silent soon. */
void sim_failover_terms_choose(void)
{
    int64_t ttl_ns = sim_world.choice.ttl_ms * SIM_MS;
    int64_t old_ns = ttl_ns * (sim_chance(500000) ? 1 : 2 * sim_between(1, 8)) / 4; /* D */

    longest_ns = ttl_ns;
    differ_ns = ttl_ns / 10;
    lasts_ns = old_ns / 2;
    yours_ns = old_ns + differ_ns;
    grants_ns = longest_ns + old_ns;
    passes = false;
}

int64_t sim_failover_lasts_ns(void)
{
    return lasts_ns;
}

int64_t sim_failover_grants_ns(void)
{
    return grants_ns;
}

int64_t sim_failover_differ_ns(void)
{
    return differ_ns;
}
