/* SPDX-License-Identifier: MIT */
/*
 * A store of several servers, of which one is the master until another one is promoted: what a
 * replica is not told in time is lost, and the master before goes on for as long as nobody tells
 * it. And the failover guard of the plugin redis: what a client sees of a server, and what a server
 * then answers, rule by rule as view.lua and guard.lua have it. defects.cmake takes the rules out.
 */
#include "world.h"

#include <string.h>

#define NEEDED    1 /* replicas: with the master more than half of the servers */
#define RETRY_NS  (5 * SIM_MS)
#define NO_SERVER (-1)

/* The term of a master. It is a key: replicas have it, too. */
struct record {
    uint64_t id;
    int64_t since_ns, last_ns, looked_ns, written;
    unsigned joined;
};

struct server {
    bool is_master;
    uint64_t id; /* another one after each promotion and each start */
    int64_t written, ahead_ns;
    unsigned joins;
    struct record record;
    struct { /* what this master knows of another server */
        bool online;
        int64_t received;
    } replicas[SIM_SERVERS];
    int follows;
    int64_t moved_ns; /* since when */
    int64_t cut_ns;   /* receives nothing until then */
    int64_t stands_ns;
    bool applies;          /* a copy is on its way */
    bool acknowledges;     /* and so is what it says of one */
    uint64_t acknowledged; /* the master's id */
    int64_t received;
};

static struct server servers[SIM_SERVERS];
static unsigned current, executing;
static int64_t parted_ns; /* processes are on one side or the other until then */
static unsigned parted;   /* the server that one side reaches */
static uint64_t last_id;
static bool passes, promoting;
static int64_t longest_ns, lasts_ns, yours_ns, grants_ns;

static void follow(void *arg);
static void apply(void *arg);

static int64_t now_of(const struct server *server)
{
    return sim_now() - SIM_START_NS + server->ahead_ns;
}

static int64_t ttl_ns(void)
{
    return sim_world.choice.ttl_ms * SIM_MS;
}

static int64_t lag_ns(void)
{
    return sim_chance(50000) ? sim_between(SIM_MS, ttl_ns() / 4) : sim_between(SIM_US, 3 * SIM_MS);
}

static unsigned index_of(const struct server *server)
{
    return (unsigned)(server - servers);
}

/* ---- replication ---- */

static void apply_later(struct server *replica)
{
    int64_t at_ns = sim_now() + lag_ns();

    if (replica->applies)
        return;
    replica->applies = true;
    sim_at(at_ns > replica->cut_ns ? at_ns : replica->cut_ns, apply, replica);
}

static void wrote(struct server *master)
{
    master->written++;
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        if (servers[i].follows == (int)index_of(master) && master->replicas[i].online)
            apply_later(&servers[i]);
}

static void acknowledgement_arrives(void *arg)
{
    struct server *replica = arg;

    replica->acknowledges = false;
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        if (servers[i].id == replica->acknowledged && servers[i].is_master)
            servers[i].replicas[index_of(replica)].received = replica->received;
}

static void copy(struct server *replica, struct server *master)
{
    sim_store_copy(index_of(replica), index_of(master));
    replica->record = master->record;
    replica->written = master->written;
    if (replica->acknowledges)
        return;
    replica->acknowledges = true;
    replica->acknowledged = master->id;
    replica->received = master->written;
    sim_at(sim_now() + lag_ns(), acknowledgement_arrives, replica);
}

static void apply(void *arg)
{
    struct server *replica = arg, *master = &servers[replica->follows >= 0 ? replica->follows : 0];
    int64_t stands_ns = replica->cut_ns > master->stands_ns ? replica->cut_ns : master->stands_ns;

    replica->applies = false;
    if (replica->follows < 0 || !master->is_master || !master->replicas[index_of(replica)].online)
        return;
    if (stands_ns > sim_now()) {
        replica->applies = true;
        sim_at(stands_ns, apply, replica);
        return;
    }
    copy(replica, master);
    if (replica->received < master->written) /* what it says of this copy waits its turn */
        apply_later(replica);
}

/* A whole copy first. */
static void join(struct server *replica, struct server *master)
{
    unsigned i = index_of(replica);

    replica->follows = (int)index_of(master);
    replica->moved_ns = sim_now();
    master->joins++;
    master->replicas[i].online = true;
    master->replicas[i].received = 0;
    apply_later(replica);
}

static bool is_followed(const struct server *server)
{
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        if (servers[i].follows == (int)index_of(server))
            return true;
    return false;
}

/* ---- the guard, in a server ---- */

static unsigned confirmed(const struct server *server, int64_t written)
{
    unsigned count = 0;

    for (unsigned i = 0; i < SIM_SERVERS; i++)
        count += server->replicas[i].online && server->replicas[i].received > written;
    return count;
}

static bool goes_on(const struct server *server, int64_t from_ns, int64_t to_ns)
{
    return server->record.joined == server->joins || to_ns - from_ns <= lasts_ns;
}

static void term_note(struct server *server, int64_t now_ns)
{
    server->record.joined = server->joins;
    server->record.looked_ns = now_ns;
    server->record.written = server->written;
}

/* view.lua */
static void look(struct server *server, const struct sim_ask *ask, struct sim_view *view)
{
    struct record *record = &server->record;
    int64_t now_ns = now_of(server);
    bool known = record->id == server->id, confirms;

    if (server->id != ask->seen.id)
        return;
    view->written = server->written;
    if (!known) {
        *record = (struct record){.id = server->id};
        term_note(server, now_ns);
    }
    confirms = confirmed(server, record->written) >= NEEDED;
    if (record->since_ns == 0 && confirms) {
        record->since_ns = now_ns;
        record->last_ns = record->looked_ns;
        term_note(server, now_ns);
    } else if (record->since_ns > 0) {
        confirms = confirms && goes_on(server, record->last_ns, now_ns);
        record->last_ns = confirms ? record->looked_ns : record->last_ns;
        if (!goes_on(server, record->last_ns, now_ns))
            record->since_ns = record->last_ns = 0;
        if (confirms || record->since_ns == 0)
            term_note(server, now_ns);
    }
    wrote(server);
    view->moment_ns = now_ns;
    view->since_ns = now_ns - record->last_ns <= lasts_ns ? record->since_ns : 0;
}

static bool look_confirmed(const struct server *server, const struct sim_view *view)
{
    int64_t age_ns = now_of(server) - view->moment_ns;

    return view->moment_ns != 0 && age_ns >= 0 && age_ns <= lasts_ns &&
           confirmed(server, view->written) >= NEEDED;
}

/* guard.lua. until_ns: since the begin of the term. *left_ns: of that, if this is all that is in
 * the way. */
static enum sim_refusal refuse(const struct server *server, const struct sim_seen *seen,
                               int64_t until_ns, int64_t *left_ns)
{
    int64_t since_ns = seen->views[0].since_ns;

    if (server->id != seen->id)
        return SIM_OTHER;
    if (since_ns == 0 ||
        !(look_confirmed(server, &seen->views[0]) || look_confirmed(server, &seen->views[1])))
        return SIM_UNCONFIRMED;
    *left_ns = since_ns + until_ns - now_of(server);
    return *left_ns > 0 ? SIM_YOUNG : SIM_ADMITTED;
}

bool sim_failover_admit(const struct sim_ask *ask, struct sim_answer *answer)
{
    struct server *server = &servers[executing];
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
        wrote(server);
    return answer->refusal == SIM_ADMITTED;
}

bool sim_failover_passes(void)
{
    return !sim_fails_over() || passes;
}

uint64_t sim_failover_fence(uint64_t next)
{
    uint64_t clock_us = (uint64_t)(now_of(&servers[executing]) / SIM_US);

    return sim_fails_over() && clock_us > next ? clock_us : next;
}

uint64_t sim_failover_promotion(void)
{
    return sim_fails_over() ? servers[executing].id : 0;
}

int64_t sim_failover_ahead_ns(void)
{
    return sim_fails_over() ? servers[executing].ahead_ns : 0;
}

void sim_failover_execute_at(int node)
{
    executing = sim_fails_over() && node >= 0 ? (unsigned)node : 0;
    sim_store_use(executing);
}

/* ---- a client ---- */

static bool reaches(const struct sim_process *process, unsigned node)
{
    bool side = (process - sim_world.processes) % 2 == 0;

    return sim_now() >= parted_ns || side == (node == parted);
}

int64_t sim_failover_stands_ns(const struct sim_process *process, int node)
{
    if (!sim_fails_over() || node < 0)
        return 0;
    return reaches(process, (unsigned)node) ? servers[node].stands_ns : SIM_NEVER;
}

/* What the client takes for the master: the one before, too, while that does not know better. */
int sim_failover_choose(const struct sim_process *process)
{
    unsigned first = (unsigned)sim_below(SIM_SERVERS);

    if (reaches(process, current) && sim_chance(700000))
        return (int)current;
    for (unsigned i = 0; i < SIM_SERVERS; i++) {
        unsigned node = (first + i) % SIM_SERVERS;

        if (servers[node].is_master && reaches(process, node))
            return (int)node;
    }
    return NO_SERVER;
}

uint64_t sim_failover_id(int node)
{
    return servers[node].id;
}

int64_t sim_failover_lasts_ns(void)
{
    return lasts_ns;
}

/* ---- failovers ---- */

static void note(void)
{
    sim_record_nemesis(DLT_NEMESIS_FAULT, 0, DLT_ALL_NAMES);
}

/* The server learns of the master. Nobody goes to and fro within D / 2, and no replica has
 * replicas. */
static void follow(void *arg)
{
    struct server *server = arg;

    if (index_of(server) == current || server->follows == (int)current)
        return;
    if (server->stands_ns > sim_now() || sim_now() - server->moved_ns <= lasts_ns ||
        is_followed(server)) {
        sim_at(sim_now() + RETRY_NS, follow, server);
        return;
    }
    server->is_master = false;
    memset(server->replicas, 0, sizeof server->replicas);
    join(server, &servers[current]);
    note();
}

static void become_master(struct server *server)
{
    server->is_master = true;
    server->id = ++last_id;
    server->follows = NO_SERVER;
    server->joins = 0;
    memset(server->replicas, 0, sizeof server->replicas);
}

static void promote(void *arg)
{
    struct server *server = arg;

    promoting = false;
    note();
    if (server->is_master) /* it was started anew: its replicas find it again */
        return;
    sim_world.failovers++;
    current = index_of(server);
    become_master(server);
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        if (i != current)
            sim_at(sim_now() + sim_between(SIM_MS, (sim_chance(500000) ? 1 : 8) * ttl_ns() / 2),
                   follow, &servers[i]);
}

static void rejoin(void *arg)
{
    struct server *replica = arg;

    if (replica->follows >= 0 && servers[replica->follows].is_master &&
        !servers[replica->follows].replicas[index_of(replica)].online)
        join(replica, &servers[replica->follows]);
}

/* With nothing. */
static void start_anew(struct server *master)
{
    sim_world.restarts++;
    sim_store_forget(index_of(master));
    master->record = (struct record){.id = 0};
    become_master(master);
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        if (servers[i].follows == (int)index_of(master))
            sim_at(sim_now() + sim_between(SIM_MS, ttl_ns()), rejoin, &servers[i]);
}

static void fail(void *arg)
{
    struct server *master = &servers[current];
    struct server *next = &servers[(current + 1 + sim_below(SIM_SERVERS - 1)) % SIM_SERVERS];
    int64_t until_ns =
        sim_now() + sim_between(SIM_MS, sim_chance(500000) ? ttl_ns() / 2 : 2 * ttl_ns());

    (void)arg;
    if (sim_world.quiet)
        return;
    sim_at(sim_now() + sim_between(SIM_MS, 2 * grants_ns), fail, NULL);
    if (promoting || next->is_master || next->follows != (int)current)
        return; /* not a replica that could take over */
    note();
    for (unsigned i = 0; i < SIM_SERVERS && sim_chance(700000); i++)
        servers[i].cut_ns = until_ns;
    switch (sim_below(4)) {
    case 0:
        master->stands_ns = until_ns + sim_between(0, 2 * ttl_ns());
        break;
    case 1:
        parted = current;
        parted_ns = until_ns + sim_between(0, 2 * ttl_ns());
        break;
    case 2:
        start_anew(master);
        if (sim_chance(500000))
            return;
        break;
    default: /* by hand */
        break;
    }
    promoting = true;
    sim_at(until_ns, promote, next);
}

/* T, D and S of the guard. */
static void terms_choose(void)
{
    int64_t old_ns = ttl_ns() * sim_between(1, 8) / 2, differ_ns = ttl_ns() / 10; /* D, S */

    longest_ns = ttl_ns();
    lasts_ns = old_ns / 2;
    yours_ns = old_ns + differ_ns;
    grants_ns = longest_ns + old_ns;
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        servers[i].ahead_ns = sim_between(0, differ_ns);
}

void sim_failover_begin(void)
{
    memset(servers, 0, sizeof servers);
    current = executing = 0;
    parted_ns = 0;
    last_id = 0;
    passes = promoting = false;
    sim_failover_execute_at(0);
    if (!sim_fails_over())
        return;
    terms_choose();
    become_master(&servers[0]);
    for (unsigned i = 1; i < SIM_SERVERS; i++)
        join(&servers[i], &servers[0]);
    sim_at(sim_now() + sim_between(SIM_MS, 2 * grants_ns), fail, NULL);
}
