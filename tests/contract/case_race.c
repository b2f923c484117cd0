/* SPDX-License-Identifier: MIT */
/* All at once and at random, and the history of it looked at afterwards. */
#include "child.h"
#include "conformance.h"
#include "race.h"
#include "tempdir.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

/* From the prefix, which is random; it is shown so that a run can be repeated. */
static uint64_t seed_of(const struct dlt_run *run)
{
    uint64_t seed = 14695981039346656037u;

    for (const char *c = run->prefix; *c != '\0'; c++)
        seed = (seed ^ (unsigned char)*c) * 1099511628211u;
    (void)printf("# seed %" PRIu64 "\n", seed);
    return seed;
}

void dlt_case_race_of_threads(struct dlt_run *run)
{
    struct dlock_client *clients[3];
    struct dlt_race race = {.prefix = run->prefix,
                            .clients = clients,
                            .client_count = 3,
                            .threads = 12,
                            .duration_ms = 1500,
                            .seed = seed_of(run)};
    char dir[256], paths[1][300];

    DLT_CHECK(dlt_tempdir_make(dir, sizeof dir) == 0, "no directory");
    (void)snprintf(paths[0], sizeof paths[0], "%s/threads", dir);
    race.log = dlt_log_open(paths[0], DLT_RACE_RECORDS);
    DLT_CHECK(race.log != NULL, "no log %s", paths[0]);
    for (int i = 0; i < 3; i++)
        clients[i] = dlt_client(run, NULL);
    dlt_race_run(&race);
    for (int i = 0; i < 3; i++)
        dlock_client_close(clients[i]);
    dlt_log_close(race.log);
    dlt_race_check(run, paths, 1);
    dlt_tempdir_remove(dir);
}

#define PROCESSES 4
#define KILLED    1
#define STOPPED   2

static void nemesis_note(struct dlt_log *log, enum dlt_event event, const struct dlt_child *child)
{
    const struct dlt_record record = {
        .pid = child->pid, .event = (uint8_t)event, .name_id = DLT_ALL_NAMES};

    dlt_log_write(log, &record);
}

/* One stops for longer than some of its leases, one dies. */
void dlt_case_race_of_processes(struct dlt_run *run)
{
    struct dlt_text lease = dlt_waiter_lease(run, 1500);
    struct dlt_child children[PROCESSES];
    uint64_t seed = seed_of(run);
    char dir[256], paths[PROCESSES + 1][300];
    struct dlt_log *log = NULL;

    DLT_CHECK(dlt_tempdir_make(dir, sizeof dir) == 0, "no directory");
    for (int i = 0; i <= PROCESSES; i++)
        (void)snprintf(paths[i], sizeof paths[i], "%s/%d", dir, i);
    log = dlt_log_open(paths[PROCESSES], 64);
    DLT_CHECK(log != NULL, "no log %s", paths[PROCESSES]);
    for (int i = 0; i < PROCESSES; i++)
        dlt_child_start(&children[i], run, lease.text);
    for (int i = 0; i < PROCESSES; i++)
        dlt_child_tell(&children[i], "race 0 %s 3 4000 %" PRIu64 " %s", run->prefix,
                       (seed + (uint64_t)i) >> 1, paths[i]);
    dlt_sleep_ms(600);
    nemesis_note(log, DLT_NEMESIS_STOP, &children[STOPPED]);
    dlt_child_signal(&children[STOPPED], SIGSTOP);
    /* A lock may be free with the death: it is noted before, and when nothing more is claimed. */
    dlt_child_signal(&children[KILLED], SIGSTOP);
    nemesis_note(log, DLT_NEMESIS_KILL, &children[KILLED]);
    dlt_child_kill(&children[KILLED]);
    dlt_sleep_ms(1200);
    nemesis_note(log, DLT_NEMESIS_CONT, &children[STOPPED]);
    dlt_child_signal(&children[STOPPED], SIGCONT);
    for (int i = 0; i < PROCESSES; i++) {
        if (i == KILLED)
            continue;
        DLT_CHECK(strcmp(dlt_child_hear(&children[i]), "OK") == 0, "%s", children[i].reply);
        dlt_child_stop(&children[i]);
    }
    dlt_log_close(log);
    dlt_race_check(run, paths, PROCESSES + 1);
    dlt_tempdir_remove(dir);
}
