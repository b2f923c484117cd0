/* SPDX-License-Identifier: MIT */
/* A store of several servers, of which one is the master until another one is promoted: what a
 * replica is not told in time is lost, and the master before goes on for as long as nobody tells
 * it. */
#include "failover.h"

#include <string.h>

#define RETRY_NS  (5 * SIM_MS)
#define NO_SERVER (-1)

static struct sim_server servers[SIM_SERVERS];
static unsigned current, executing;
static int64_t parted_ns; /* processes are on one side or the other until then */
static unsigned parted;   /* the server that one side reaches */
static int64_t slow_ns;   /* some of what is sent there is late until then */
static uint64_t last_id;
static bool promoting;
static int64_t learn_ns; /* within which servers learn of the next master */

static void follow(void *arg);
static void apply(void *arg);

static int64_t ttl_ns(void)
{
    return sim_world.choice.ttl_ms * SIM_MS;
}

static int64_t lag_ns(void)
{
    return sim_chance(50000) ? sim_between(SIM_MS, ttl_ns() / 4) : sim_between(SIM_US, 3 * SIM_MS);
}

static unsigned index_of(const struct sim_server *server)
{
    return (unsigned)(server - servers);
}

/* ---- replication ---- */

static void apply_later(struct sim_server *replica)
{
    int64_t at_ns = sim_now() + lag_ns();

    if (replica->applies)
        return;
    replica->applies = true;
    sim_at(at_ns > replica->cut_ns ? at_ns : replica->cut_ns, apply, replica);
}

void sim_failover_wrote(struct sim_server *master)
{
    master->written++;
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        if (servers[i].follows == (int)index_of(master) && master->replicas[i].online)
            apply_later(&servers[i]);
}

static void acknowledgement_arrives(void *arg)
{
    struct sim_server *replica = arg;

    replica->acknowledges = false;
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        if (servers[i].id == replica->acknowledged && servers[i].is_master)
            servers[i].replicas[index_of(replica)].received = replica->received;
}

static void copy(struct sim_server *replica, struct sim_server *master)
{
    sim_store_copy(index_of(replica), index_of(master));
    replica->term = master->term;
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
    struct sim_server *replica = arg,
                      *master = &servers[replica->follows >= 0 ? replica->follows : 0];
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
static void join(struct sim_server *replica, struct sim_server *master)
{
    unsigned i = index_of(replica);

    replica->follows = (int)index_of(master);
    replica->moved_ns = sim_now();
    master->joins++;
    master->replicas[i].online = true;
    master->replicas[i].received = 0;
    apply_later(replica);
}

static bool is_followed(const struct sim_server *server)
{
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        if (servers[i].follows == (int)index_of(server))
            return true;
    return false;
}

/* ---- the one that executes ---- */

struct sim_server *sim_failover_executing(void)
{
    return &servers[executing];
}

uint64_t sim_failover_promotion(void)
{
    return sim_fails_over() ? servers[executing].id : 0;
}

bool sim_failover_is_past(void)
{
    return sim_fails_over() && executing != current;
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

int64_t sim_failover_late_ns(int node)
{
    if (!sim_fails_over() || node != (int)parted || sim_now() >= slow_ns || !sim_chance(500000))
        return 0;
    return sim_between(ttl_ns() * 6 / 10, ttl_ns() * 9 / 10);
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

bool sim_failover_is_current(uint64_t promotion)
{
    return !sim_fails_over() || servers[current].id == promotion;
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
    struct sim_server *server = arg;

    if (index_of(server) == current || server->follows == (int)current)
        return;
    if (server->stands_ns > sim_now() || (index_of(server) == parted && sim_now() < parted_ns) ||
        sim_now() - server->moved_ns <= sim_failover_lasts_ns() || is_followed(server)) {
        sim_at(sim_now() + RETRY_NS, follow, server);
        return;
    }
    server->is_master = false;
    memset(server->replicas, 0, sizeof server->replicas);
    join(server, &servers[current]);
    note();
}

static void become_master(struct sim_server *server)
{
    server->is_master = true;
    server->id = ++last_id;
    server->follows = NO_SERVER;
    server->joins = 0;
    memset(server->replicas, 0, sizeof server->replicas);
}

/* A master before, which nobody told of the one after it, may be taken back as it is. */
static void promote(void *arg)
{
    struct sim_server *server = arg;

    promoting = false;
    note();
    sim_world.failovers++;
    current = index_of(server);
    if (!server->is_master)
        become_master(server);
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        if (i != current)
            sim_at(sim_now() + sim_between(SIM_MS, learn_ns), follow, &servers[i]);
}

static void rejoin(void *arg)
{
    struct sim_server *replica = arg;

    if (replica->follows >= 0 && servers[replica->follows].is_master &&
        !servers[replica->follows].replicas[index_of(replica)].online)
        join(replica, &servers[replica->follows]);
}

/* With nothing. */
static void start_anew(struct sim_server *master)
{
    sim_world.restarts++;
    sim_store_forget(index_of(master));
    master->term = (struct sim_term){.id = 0};
    become_master(master);
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        if (servers[i].follows == (int)index_of(master))
            sim_at(sim_now() + sim_between(SIM_MS, ttl_ns()), rejoin, &servers[i]);
}

static void part(int64_t until_ns)
{
    parted = current;
    parted_ns = until_ns;
}

/* What befalls the master when another one takes over. */
enum how { STANDS, PARTED, DIVIDED, STARTED, BY_HAND, HOWS };

/* Returns when the other one is promoted. */
static int64_t befall(struct sim_server *master, enum how how)
{
    int64_t until_ns =
        sim_now() + sim_between(SIM_MS, sim_chance(500000) ? ttl_ns() / 2 : 2 * ttl_ns());

    if (how == DIVIDED) { /* late requests on its side, holders that go on on the other one */
        part(sim_now() + 4 * ttl_ns());
        slow_ns = sim_now() + ttl_ns() / 2;
        learn_ns = ttl_ns() / 20;
        return sim_now() + sim_between(SIM_MS, ttl_ns() / 4);
    }
    learn_ns = (sim_chance(500000) ? 1 : 8) * ttl_ns() / 2;
    for (unsigned i = 0; i < SIM_SERVERS && sim_chance(700000); i++)
        servers[i].cut_ns = until_ns;
    if (how == STANDS)
        master->stands_ns = until_ns + sim_between(0, 2 * ttl_ns());
    else if (how == PARTED)
        part(until_ns + sim_between(0, 2 * ttl_ns()));
    return until_ns;
}

static bool may_take_over(const struct sim_server *server)
{
    return server->is_master ? sim_chance(300000) : server->follows == (int)current;
}

static void fail(void *arg)
{
    struct sim_server *master = &servers[current];
    struct sim_server *next = &servers[(current + 1 + sim_below(SIM_SERVERS - 1)) % SIM_SERVERS];
    enum how how = (enum how)sim_below(HOWS);

    (void)arg;
    if (sim_world.quiet)
        return;
    sim_at(sim_now() + sim_between(SIM_MS, 2 * sim_failover_grants_ns()), fail, NULL);
    if (promoting)
        return;
    note();
    if (how == STARTED) {
        start_anew(master);
        if (sim_chance(500000))
            return;
    }
    if (!may_take_over(next))
        return;
    promoting = true;
    sim_at(befall(master, how), promote, next);
}

void sim_failover_begin(void)
{
    memset(servers, 0, sizeof servers);
    current = executing = 0;
    parted_ns = slow_ns = 0;
    last_id = 0;
    promoting = false;
    sim_failover_execute_at(0);
    if (!sim_fails_over())
        return;
    sim_failover_terms_choose();
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        servers[i].ahead_ns = sim_between(0, sim_failover_differ_ns());
    become_master(&servers[0]);
    for (unsigned i = 1; i < SIM_SERVERS; i++)
        join(&servers[i], &servers[0]);
    sim_at(sim_now() + sim_between(SIM_MS, 2 * sim_failover_grants_ns()), fail, NULL);
}
