/* SPDX-License-Identifier: MIT */
/* Do the parts of dlock-torture see what they are there for? */
#include "figures.h"
#include "nemesis.h"
#include "oracle.h"
#include "plan.h"
#include "profile.h"
#include "resource.h"
#include "route.h"
#include "settings.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <dlock/types.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS INT64_C(1000000)

static const struct plan_terms terms = {.seed = 7,
                                        .duration_ms = 60000,
                                        .lease_ms = 1000,
                                        .clients = 4,
                                        .nodes = 3,
                                        .kinds = (UINT32_C(1) << FAULT_KINDS) - 1};

Test(plan, follows_from_its_seed)
{
    struct plan_terms others = terms;
    struct plan plan, again, other;

    others.seed++;
    cr_assert(plan_make(&terms, &plan) && plan_make(&terms, &again) && plan_make(&others, &other));
    cr_assert_gt(plan.count, 30);
    cr_assert_eq(plan.count, again.count);
    cr_assert_eq(memcmp(plan.faults, again.faults, plan.count * sizeof *plan.faults), 0);
    cr_assert(plan.count != other.count ||
              memcmp(plan.faults, other.faults, plan.count * sizeof *plan.faults) != 0);
    plan_fini(&plan);
    plan_fini(&again);
    plan_fini(&other);
}

static unsigned in_force(const struct plan *plan, int64_t ms)
{
    unsigned count = 0;

    for (size_t i = 0; i < plan->count; i++)
        count += plan->faults[i].start_ms <= ms &&
                 ms <= plan->faults[i].start_ms + plan->faults[i].length_ms;
    return count;
}

Test(plan, has_two_faults_at_a_time_at_most_and_ends)
{
    struct plan plan;
    unsigned most = 0;

    cr_assert(plan_make(&terms, &plan));
    for (size_t i = 0; i < plan.count; i++) {
        const struct fault *fault = &plan.faults[i];
        unsigned count = in_force(&plan, fault->start_ms);

        most = count > most ? count : most;
        cr_assert_leq(fault->start_ms + fault->length_ms, terms.duration_ms);
        cr_assert(i == 0 || plan.faults[i - 1].start_ms <= fault->start_ms);
    }
    cr_assert_eq(most, 2);
    plan_fini(&plan);
}

/* A client that needs long to leave is still in that fault when the next one is due: killed, or
 * told to leave once more, it would be another process whose end is waited for. */
Test(nemesis, a_fault_that_lasts_longer_keeps_others_from_the_same_client)
{
    const struct fault leaves = {.kind = FAULT_CLIENT_LEAVE, .client = 2};
    const struct fault fails = {.kind = FAULT_FAILOVER, .client = 2};
    struct fault next = {.kind = FAULT_CLIENT_KILL, .client = 2};
    struct nemesis nemesis = {.active = {{.fault = NULL}, {.fault = &leaves}}};

    cr_assert_not(nemesis_may_begin(&nemesis, &next));
    next.kind = FAULT_CLIENT_LEAVE;
    cr_assert_not(nemesis_may_begin(&nemesis, &next));
    next.client = 1;
    cr_assert(nemesis_may_begin(&nemesis, &next));
    cr_assert(nemesis_may_begin(&nemesis, &fails));
    nemesis.active[0].fault = &fails;
    cr_assert(nemesis_may_begin(&nemesis, &next));
    next.kind = FAULT_FAILOVER;
    cr_assert_not(nemesis_may_begin(&nemesis, &next));
}

static void leader_chosen_after_three(void *arg)
{
    static unsigned looks;

    if (++looks == 3)
        ((struct nemesis *)arg)->store->backend = backend_find("memory");
}

/* Three servers, of which none runs, have no leader. What comes after lasts as long as ever. */
Test(nemesis, servers_without_a_leader_are_a_fault_in_force)
{
    static struct store store = {.zk = {.count = 3}};
    static const volatile int interrupted = 0;
    struct crew crew = {.store = &store};
    struct nemesis nemesis = {
        .crew = &crew, .store = &store, .progress = leader_chosen_after_three};
    struct dlt_history history = {0};
    char directory[DLT_DIRECTORY_SIZE], path[sizeof directory + 8], why[200] = "";
    int64_t end_ns = 0;

    store.backend = backend_find("zookeeper3");
    cr_assert(dlt_directory_make(directory, "torture"));
    (void)snprintf(path, sizeof path, "%s/log", directory);
    crew.log = dlt_log_open(path, 100);
    nemesis.arg = &nemesis;
    nemesis.start_ns = dlt_log_now_ns();
    nemesis_rest(&nemesis, 300, &interrupted);
    end_ns = dlt_log_now_ns();
    dlt_log_close(crew.log);
    cr_assert_eq(dlt_log_read(path, &history, why, sizeof why), 0, "%s", why);
    dlt_directory_remove(directory);
    cr_assert_eq(history.count, 3);
    for (size_t i = 0; i < history.count; i++)
        cr_assert(history.records[i].event == DLT_NEMESIS_FAULT && history.records[i].status == 1);
    cr_assert_geq(end_ns - history.records[2].clock_ns, 299 * MS);
    cr_assert_gt(nemesis.unserved_ms, 0);
    cr_assert_not(nemesis.broken);
    dlt_history_fini(&history);
}

Test(profile, P_breaks_no_assumption)
{
    static const char *const names[] = {"redis",  "redlock",   "mysql-row",      "mysql-insert",
                                        "sqlite", "memory",    "postgresql-row", "etcd",
                                        "etcd3",  "zookeeper", "zookeeper3",     "redlock-fence"};
    static const char *const sessions[] = {"mysql-session", "postgresql-session"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint32_t faults = profile_faults(profile_find("P"), backend_find(names[i]));

        cr_assert_neq(faults, 0);
        cr_assert_eq(faults & (FAULT_BIT(FORGET) | FAULT_BIT(CLOCK_STEP)), 0, "%s", names[i]);
    }
    for (size_t i = 0; i < sizeof sessions / sizeof sessions[0]; i++)
        cr_assert_eq(profile_faults(profile_find("P"), backend_find(sessions[i])) &
                         (FAULT_BIT(SERVER_KILL) | FAULT_BIT(SERVER_KICK) | FAULT_BIT(NET_CUT)),
                     0, "%s", sessions[i]);
    cr_assert_eq(profile_faults(profile_find("C-clock"), backend_find("sqlite")), 0);
}

Test(profile, P_does_what_there_is_to_do)
{
    static const char *const servers[] = {"redis", "redlock", "mysql-row", "mysql-insert",
                                          "postgresql-row"};
    static const uint32_t clients =
        FAULT_BIT(CLIENT_STOP) | FAULT_BIT(CLIENT_KILL) | FAULT_BIT(CLIENT_LEAVE);
    static const uint32_t ways = FAULT_BIT(NET_CUT) | FAULT_BIT(NET_CUT_INSIDE) |
                                 FAULT_BIT(NET_BLACKHOLE) | FAULT_BIT(NET_DELAY) |
                                 FAULT_BIT(NET_SLICE) | FAULT_BIT(NET_HOLD) | FAULT_BIT(NET_REFUSE);
    static const uint32_t all =
        FAULT_BIT(SERVER_STOP) | FAULT_BIT(SERVER_KILL) | FAULT_BIT(SERVER_KICK) | clients | ways;
    uint32_t sqlite = profile_faults(profile_find("P"), backend_find("sqlite"));

    for (size_t i = 0; i < sizeof servers / sizeof servers[0]; i++) {
        uint32_t faults = profile_faults(profile_find("P"), backend_find(servers[i]));

        cr_assert_eq(faults & all, all, "%s", servers[i]);
    }
    cr_assert_eq(sqlite & (clients | FAULT_BIT(STORE_BUSY)), clients | FAULT_BIT(STORE_BUSY));
}

Test(profile, P_does_to_clusters_what_there_is_to_do)
{
    static const char *const clusters[] = {"etcd", "etcd3", "zookeeper", "zookeeper3"};
    static const uint32_t all = FAULT_BIT(SERVER_STOP) | FAULT_BIT(SERVER_KILL) |
                                FAULT_BIT(SERVER_KICK) | FAULT_BIT(NET_CUT) |
                                FAULT_BIT(NET_BLACKHOLE) | FAULT_BIT(CLIENT_KILL);

    for (size_t i = 0; i < sizeof clusters / sizeof clusters[0]; i++) {
        const struct backend *cluster = backend_find(clusters[i]);
        bool zookeeper = cluster->kind == STORE_ZOOKEEPER;
        uint32_t faults = profile_faults(profile_find("P"), cluster);

        cr_assert_eq(faults & all, all & ~FAULT_BIT(SERVER_KICK), "%s", clusters[i]);
        cr_assert_eq((faults & FAULT_BIT(MEMBER_CUT)) != 0, cluster->nodes > 1);
        cr_assert_eq((faults & FAULT_BIT(MEMBER_PART)) != 0, zookeeper && cluster->nodes > 1);
        cr_assert_eq(profile_faults(profile_find("C-clock"), cluster), 0);
        cr_assert_neq(profile_faults(profile_find("C-stranger"), cluster), 0);
    }
}

Test(profile, F_replaces_masters_where_there_are_others)
{
    static const char *const moving[] = {"redis-sentinel", "redis-cluster"};

    for (size_t i = 0; i < sizeof moving / sizeof moving[0]; i++) {
        const struct backend *backend = backend_find(moving[i]);

        cr_assert(profile_find("F")->guarded && !profile_find("C-failover")->guarded);
        cr_assert(profile_faults(profile_find("F"), backend) & FAULT_BIT(FAILOVER));
        cr_assert(profile_often(profile_find("F"), backend) & FAULT_BIT(FAILOVER));
        cr_assert(profile_faults(profile_find("C-failover"), backend) & FAULT_BIT(FAILOVER));
        cr_assert_eq(profile_faults(profile_find("C-clock"), backend), 0);
    }
    cr_assert_eq(profile_faults(profile_find("F"), backend_find("redis")), 0);
}

Test(profile, a_run_without_a_rule_of_the_guard_has_to_find_something)
{
    for (unsigned rule = 0; rule <= GUARD_RULES + 1; rule++) {
        const struct profile *profile = profile_without_rule(rule);
        bool is_rule = rule >= 1 && rule <= GUARD_RULES && rule != 10 && rule != 11;

        cr_assert_eq(profile != NULL, is_rule, "%u", rule);
        if (profile == NULL)
            continue;
        cr_assert(profile->guarded);
        cr_assert_eq(profile->breaks, profile_find("F")->breaks);
        cr_assert_eq((profile->found & RULE_BIT(OVERLAP)) != 0, rule != 8, "%u", rule);
        cr_assert((profile->found & RULE_BIT(FENCE)) != 0);
    }
    cr_assert_eq(profile_find("F")->found, 0);
}

static bool reads_all(int argc, char **argv, struct settings *settings)
{
    optind = 1;
    return settings_read(settings, argc, argv);
}

static bool reads(const char *profile, const char *off)
{
    char words[][20] = {"dlock-torture", "--backend", "redis-sentinel",
                        "--profile",     "",          "--plan",
                        "--guard-rule",  "3",         ""};
    char *argv[sizeof words / sizeof words[0] + 1] = {NULL};
    struct settings settings;
    int argc = off != NULL ? 9 : 8;

    (void)snprintf(words[4], sizeof words[4], "%s", profile);
    (void)snprintf(words[8], sizeof words[8], "%s", off != NULL ? off : "");
    for (int i = 0; i < argc; i++)
        argv[i] = words[i];
    return reads_all(argc, argv, &settings);
}

static bool reads_lone(const char *backend, const char *profile)
{
    char words[][20] = {"dlock-torture", "--backend",   "", "--profile", "",
                        "--plan",        "--lone-guard"};
    char *argv[sizeof words / sizeof words[0] + 1] = {NULL};
    struct settings settings;

    (void)snprintf(words[2], sizeof words[2], "%s", backend);
    (void)snprintf(words[4], sizeof words[4], "%s", profile);
    for (int i = 0; i < 7; i++)
        argv[i] = words[i];
    return reads_all(7, argv, &settings) && settings.lone_guard;
}

Test(settings, a_rule_of_the_guard_is_off_in_profile_F_alone)
{
    cr_redirect_stderr();
    cr_assert(!reads("P", "off"));
    cr_assert(!reads("C-failover", "off"));
    cr_assert(!reads("F", "on"));
    cr_assert(!reads("F", NULL));
}

Test(settings, the_guard_is_alone_in_profile_F_on_sentinels_alone)
{
    cr_redirect_stderr();
    cr_assert(reads_lone("redis-sentinel", "F"));
    cr_assert(!reads_lone("redis-sentinel", "C-failover"));
    cr_assert(!reads_lone("redis-cluster", "F"));
    cr_assert(!reads_lone("sqlite", "P"));
}

/* ---- routes ---- */

static int listener(unsigned *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    cr_assert_eq(bind(fd, (struct sockaddr *)&address, len), 0);
    cr_assert_eq(listen(fd, 1), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static bool reaches(unsigned port, int server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct pollfd arrives = {.fd = server, .events = POLLIN};
    int fd = socket(AF_INET, SOCK_STREAM, 0), accepted = -1;

    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        poll(&arrives, 1, 5000) == 1)
        accepted = accept(server, NULL, NULL);
    (void)close(accepted);
    (void)close(fd);
    return accepted >= 0;
}

Test(route, a_connection_is_led_to_another_port)
{
    unsigned ports[2] = {0};
    int servers[2] = {listener(&ports[0]), listener(&ports[1])};
    char text[40];

    (void)snprintf(text, sizeof text, "1=2,%u=%u", ports[0], ports[1]);
    cr_assert(route_read(""));
    cr_assert(reaches(ports[0], servers[0]));
    cr_assert(route_read(text));
    cr_assert(reaches(ports[0], servers[1]));
    cr_assert(reaches(ports[1], servers[1]));
    cr_assert_not(route_read("1"));
    cr_assert_not(route_read("1=2;3=4"));
    cr_assert_not(route_read("1=70000"));
    (void)close(servers[0]);
    (void)close(servers[1]);
}

/* ---- what processes share ---- */

static char directory[] = "/tmp/dlock-torture-XXXXXX";
static struct shared *shared;
static struct dlt_log *tape;

static void set_up(void)
{
    char path[64];

    cr_assert_not_null(mkdtemp(directory));
    shared = shared_open(directory, true);
    (void)snprintf(path, sizeof path, "%s/log", directory);
    tape = dlt_log_open(path, 100);
    cr_assert(shared != NULL && tape != NULL);
}

static void tear_down(void)
{
    char path[64];

    shared_close(shared);
    dlt_log_close(tape);
    (void)snprintf(path, sizeof path, "%s/log", directory);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/shared", directory);
    (void)unlink(path);
    (void)rmdir(directory);
}

TestSuite(shared, .init = set_up, .fini = tear_down);

static void enter_with(unsigned place, uint8_t mode, uint32_t permit, int64_t left_ms)
{
    const struct dlt_record record = {.attempt_id = place + 1, .mode = mode, .permit = permit};

    oracle_enter(shared, 1, place, &record, dlt_log_now_ns() + left_ms * MS);
}

static void enter(unsigned place, uint8_t mode, int64_t left_ms)
{
    enter_with(place, mode, 0, left_ms);
}

Test(shared, oracle_sees_two_claims_at_once)
{
    enter(0, DLOCK_SHARED, 60000);
    enter(1, DLOCK_SHARED, 60000);
    cr_assert_eq(shared->witness_count, 0, "readers may");
    enter(2, DLOCK_EXCLUSIVE, 60000);
    cr_assert_eq(shared->witness_count, 2);
    cr_assert_eq(shared->witnesses[0].attempt, 3);
}

Test(shared, oracle_sees_a_permit_twice)
{
    enter_with(0, DLOCK_EXCLUSIVE, 0, 60000);
    enter_with(1, DLOCK_EXCLUSIVE, 2, 60000);
    cr_assert_eq(shared->witness_count, 0);
    enter_with(2, DLOCK_EXCLUSIVE, 2, 60000);
    cr_assert_eq(shared->witness_count, 1);
    cr_assert_eq(shared->witnesses[0].other, 2);
}

Test(shared, oracle_forgets_what_has_ended)
{
    enter(0, DLOCK_EXCLUSIVE, -1);
    enter(1, DLOCK_EXCLUSIVE, 60000);
    oracle_leave(shared, 1, 1);
    enter(2, DLOCK_EXCLUSIVE, 60000);
    cr_assert_eq(shared->witness_count, 0);
    oracle_downgrade(shared, 1, 2);
    enter(3, DLOCK_SHARED, 60000);
    cr_assert_eq(shared->witness_count, 0);
}

Test(shared, oracle_sees_a_claim_that_is_extended_into_another)
{
    enter(0, DLOCK_EXCLUSIVE, -1);
    enter(1, DLOCK_EXCLUSIVE, 60000);
    oracle_extend(shared, 1, 0, dlt_log_now_ns() + 60000 * MS);
    cr_assert_eq(shared->witness_count, 1);
}

Test(shared, resource_refuses_what_is_stale)
{
    struct dlt_record record = {.name_id = 2, .fence = 10};

    cr_assert(resource_write(shared, tape, &record));
    cr_assert(resource_write(shared, tape, &record));
    record.fence = 9;
    cr_assert_not(resource_write(shared, tape, &record));
    cr_assert_eq(shared->resources[2].rejected, 1);
}

/* ---- figures ---- */

static void add(struct dlt_history *history, enum dlt_event event, int64_t ms, uint64_t attempt,
                enum dlock_status status, int64_t until_ms)
{
    struct dlt_record *record = dlt_history_add(history);

    record->event = (uint8_t)event;
    record->clock_ns = ms * MS;
    record->attempt_id = attempt;
    record->status = (uint16_t)status;
    record->until_ns = until_ms * MS;
}

Test(figures, say_how_late_and_how_long)
{
    struct dlt_history history = {0};
    struct figures figures;

    add(&history, DLT_INV_LOCK, 1000, 1, DLOCK_OK, 1100);
    add(&history, DLT_INV_LOCK, 1001, 2, DLOCK_OK, 0);
    add(&history, DLT_RET_LOCK, 1105, 1, DLOCK_UNKNOWN, 0);
    add(&history, DLT_NEMESIS_FAULT, 5000, 0, DLOCK_OK, 0);
    add(&history, DLT_INV_LOCK, 5001, 3, DLOCK_OK, 0);
    add(&history, DLT_RET_LOCK, 5030, 3, DLOCK_OK, 7000);
    add(&history, DLT_INV_UNLOCK, 5040, 3, DLOCK_OK, 9000);
    add(&history, DLT_RET_LOCK, 5041, 2, DLOCK_OK, 7000);
    add(&history, DLT_LOST, 7004, 2, DLOCK_OK, 0);
    cr_assert(figures_make(&history, &figures));
    cr_assert_eq(figures.overrun_ns, 5 * MS);
    cr_assert_eq(figures.unexplained, 1);
    cr_assert_eq(figures.overtaken, 1);
    cr_assert_eq(figures.recoveries, 1);
    cr_assert_eq(figures.recovery_most_ns, 30 * MS);
    cr_assert_eq(figures.late_loss_ns, 4 * MS);
    cr_assert_eq(figures.lost, 1);
    dlt_history_fini(&history);
}

/* What it writes while a fault is in force, and the locks of others, shorten nothing. */
Test(figures, count_from_the_beginning_of_a_fault_and_for_each_client)
{
    struct dlt_history history = {0};
    struct figures figures;
    unsigned pid = 7;

    for (uint64_t attempt = 1; attempt <= 2; attempt++, pid++) {
        add(&history, DLT_RET_LOCK, 1000, attempt, DLOCK_OK, 2000);
        history.records[history.count - 1].pid = (int32_t)pid;
    }
    add(&history, DLT_NEMESIS_FAULT, 5000, 0, DLOCK_OK, 0);
    add(&history, DLT_RET_LOCK, 5010, 3, DLOCK_OK, 7000);
    history.records[history.count - 1].pid = 7;
    for (int64_t ms = 5100; ms < 6700; ms += 100)
        add(&history, DLT_NEMESIS_FAULT, ms, 0, 1, 0);
    add(&history, DLT_RET_LOCK, 6705, 4, DLOCK_OK, 8000);
    history.records[history.count - 1].pid = 8;
    add(&history, DLT_RET_LOCK, 6710, 5, DLOCK_OK, 8000); /* had its answer already */
    history.records[history.count - 1].pid = 7;
    cr_assert(figures_make(&history, &figures));
    cr_assert_eq(figures.recoveries, 2);
    cr_assert_eq(figures.recovery_most_ns, 1705 * MS);
    dlt_history_fini(&history);
}
