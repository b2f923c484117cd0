/* SPDX-License-Identifier: MIT */
#include "verdict.h"

#include "../history/log.h"
#include "../history/report.h"
#include <dlock/types.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <ruler.h>
#include <stdlib.h>
#include <timeline.h>
#include <unistd.h>

#define NS_PER_MS        INT64_C(1000000)
#define REPORTED_MOST    5
#define WINDOW_NS        (1000 * NS_PER_MS)
#define LONG_MS          60000  /* from then on a run has to have shown everything */
#define MOVES_LOSE_MS    300000 /* failovers lose a few leases a minute, or none */
#define SHOWS_MS         30000  /* from then on two at once, where that is what it is about */
#define TRIED_LEAST      5      /* from then on a kind of fault has to have had an effect */
#define KILLED_LEAST     30     /* from then on a program of one of them has to have lived on */
#define FENCE_ROOM       31     /* numbers of a grant besides its first */
#define UNEXPLAINED_MOST 5      /* UNKNOWN without a fault about it, and a quarter of all */

struct court {
    const struct verdict *verdict;
    struct dlt_history history;
    struct dlt_check_figures check;
    struct figures figures;
    uint64_t expected, unexpected; /* violations */
    int64_t overlap_ns;            /* the longest that two claims were there at once */
    unsigned reported, tests, failed;
};

static void test(struct court *court, bool right, const char *text)
{
    court->failed += !right;
    printf("%sok %u - %s\n", right ? "" : "not ", ++court->tests, text);
}

/* Of a client that was killed before it had begun. */
static bool unborn(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint64_t magic = 0;

    if (file == NULL)
        return false;
    (void)!fread(&magic, sizeof magic, 1, file);
    (void)fclose(file);
    return magic == 0 && unlink(path) == 0;
}

static bool logs_read(struct court *court)
{
    char pattern[PATH_MAX], why[512];
    glob_t files = {0};
    bool right = true;

    (void)snprintf(pattern, sizeof pattern, "%s/*.log", court->verdict->directory);
    if (glob(pattern, 0, NULL, &files) != 0)
        return false;
    for (size_t i = 0; right && i < files.gl_pathc; i++) {
        right = unborn(files.gl_pathv[i]) ||
                dlt_log_read(files.gl_pathv[i], &court->history, why, sizeof why) == 0;
        if (!right)
            printf("# %s\n", why);
    }
    globfree(&files);
    dlt_history_sort(&court->history);
    return right;
}

static const struct dlt_record *record_of(const struct dlt_history *history, uint64_t attempt,
                                          enum dlt_event event)
{
    for (size_t i = 0; i < history->count; i++)
        if (history->records[i].attempt_id == attempt && history->records[i].event == event)
            return &history->records[i];
    return NULL;
}

/* When the call began that got the grant of this fence, which may have gone from hand to hand. */
static int64_t grant_began_ns(const struct dlt_history *history, const struct dlt_record *got)
{
    int64_t began_ns = INT64_MAX;

    for (size_t i = 0; i < history->count; i++) {
        const struct dlt_record *record = &history->records[i], *call;

        if (record->event != DLT_RET_LOCK || record->status != DLOCK_OK ||
            record->name_id != got->name_id || record->pid != got->pid ||
            record->fence > got->fence || record->fence + FENCE_ROOM < got->fence)
            continue;
        call = record_of(history, record->attempt_id, DLT_INV_LOCK);
        if (call != NULL && call->clock_ns < began_ns)
            began_ns = call->clock_ns;
    }
    return began_ns;
}

/* The grant of the lesser fence was asked for before the other one was answered. */
static bool granted_at_once(const struct dlt_history *history,
                            const struct dlt_violation *violation)
{
    const struct dlt_record *lesser = record_of(history, violation->attempt_id, DLT_RET_LOCK);
    const struct dlt_record *greater = record_of(history, violation->other_id, DLT_RET_LOCK);

    return lesser != NULL && greater != NULL && grant_began_ns(history, lesser) < greater->clock_ns;
}

struct span {
    int64_t start_ns, end_ns;
};

/* As check.h says, but for the death of its process. */
static struct span claim_of(const struct dlt_history *history, uint64_t attempt)
{
    struct span claim = {INT64_MAX, 0};
    int64_t over_ns = INT64_MAX;

    for (size_t i = 0; i < history->count; i++) {
        const struct dlt_record *record = &history->records[i];

        if (record->attempt_id != attempt)
            continue;
        if (record->event == DLT_RET_LOCK && record->status == DLOCK_OK)
            claim.start_ns = record->clock_ns;
        if ((record->event == DLT_INV_UNLOCK || record->event == DLT_LOST) &&
            record->clock_ns < over_ns)
            over_ns = record->clock_ns;
        if ((record->event == DLT_RET_LOCK || record->event == DLT_HELD_STAMP ||
             record->event == DLT_RET_RENEW) &&
            record->until_ns > claim.end_ns)
            claim.end_ns = record->until_ns;
    }
    claim.end_ns = over_ns < claim.end_ns ? over_ns : claim.end_ns;
    return claim;
}

static void overlap_measure(struct court *court, const struct dlt_violation *violation)
{
    struct span one = claim_of(&court->history, violation->attempt_id);
    struct span other = claim_of(&court->history, violation->other_id);
    int64_t start_ns = one.start_ns > other.start_ns ? one.start_ns : other.start_ns;
    int64_t end_ns = one.end_ns < other.end_ns ? one.end_ns : other.end_ns;

    if (end_ns - start_ns > court->overlap_ns)
        court->overlap_ns = end_ns - start_ns;
}

/* When the store grants twice, the answers may come in another order than the grants. */
static bool is_expected(const struct court *court, const struct dlt_violation *violation)
{
    uint32_t found = court->verdict->settings->profile->found;

    if (court->verdict->settings->rival != NULL)
        return true;
    if (violation->rule == DLT_RULE_FENCE && found != 0 && (found & RULE_BIT(FENCE)) == 0)
        return granted_at_once(&court->history, violation);
    return (found >> violation->rule & 1) != 0;
}

static void picture(const struct court *court, const struct dlt_violation *violation)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/violation-%u.svg", court->verdict->directory,
                   court->reported);
    if (dlt_timeline_write(path, &court->history, violation, WINDOW_NS))
        printf("# picture: %s\n", path);
}

static void on_violation(void *arg, const struct dlt_violation *violation)
{
    struct court *court = arg;
    bool expected = is_expected(court, violation);

    if (violation->rule == DLT_RULE_OVERLAP)
        overlap_measure(court, violation);
    court->expected += expected;
    court->unexpected += !expected;
    if (expected ? court->reported > 0 : court->reported >= REPORTED_MOST)
        return;
    court->reported++;
    dlt_report_violation(stdout, &court->history, violation, WINDOW_NS);
    picture(court, violation);
}

/* A session may end while the lease runs, when an answer does not come; of a majority so many nodes
 * may forget a lock that it is none any more; and the next master may lack it. */
bool verdict_kept(const struct settings *settings)
{
    return settings->profile->found != 0 || settings->rival != NULL ||
           (!settings->backend->session && !settings->backend->majority &&
            !settings->profile->guarded);
}

/* A machine that is slow is no defect of a lock. Of a long run the ruler remembers the end. */
static bool is_late(int64_t begin_ns, int64_t end_ns, int64_t most_ns)
{
    struct dlt_measure measure;
    enum dlt_ruling ruling = dlt_ruler_judge(begin_ns, end_ns, most_ns / NS_PER_MS, &measure);

    if (ruling == DLT_VOID)
        printf("# void: %s\n", measure.text);
    return ruling == DLT_LATE;
}

static bool history_check(struct court *court)
{
    const struct settings *settings = court->verdict->settings;
    struct dlt_check_options options = {.slack_ns = settings->slack_ms * NS_PER_MS,
                                        .busy_ns = settings->ttl_ms * NS_PER_MS / 2,
                                        .stall_ns = settings_stall_ms(settings) * NS_PER_MS,
                                        .complete = true,
                                        .told = settings->rival == NULL,
                                        .kept = verdict_kept(settings),
                                        .is_late = is_late,
                                        .report = on_violation,
                                        .arg = court};

    if (settings->rival != NULL) /* it promises no place in a queue */
        options.stall_ns = 0;
    return dlt_check(&court->history, &options, &court->check) == 0 &&
           figures_make(&court->history, &court->figures);
}

/* ---- what was seen ---- */

static void failovers_print(const struct store *store)
{
    struct failovers count;
    const char *name;

    for (unsigned way = 0; (name = store_failovers(store, way, &count)) != NULL; way++)
        if (count.tried > 0)
            printf("#     %s: %u of %u\n", name, count.effective, count.tried);
}

static uint64_t faults_print(const struct nemesis *nemesis)
{
    uint64_t sum = 0;

    for (unsigned kind = 0; kind < FAULT_KINDS; kind++) {
        if (nemesis->tried[kind] == 0)
            continue;
        sum += nemesis->effective[kind];
        printf("#   %-32s %6" PRIu64 " effective of %" PRIu64 "\n",
               fault_text((enum fault_kind)kind), nemesis->effective[kind], nemesis->tried[kind]);
    }
    if (nemesis->tried[FAULT_FAILOVER] > 0)
        failovers_print(nemesis->store);
    return sum;
}

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static void witnesses_print(const struct shared *shared)
{
    uint32_t count = atomic_load(&shared->witness_count);

    for (uint32_t i = 0; i < count && i < REPORTED_MOST; i++) {
        const struct oracle_witness *w = &shared->witnesses[i];

        printf("# two at once: name %u, attempts %" PRIx64 " (to %" PRId64 ") and %" PRIx64
               " (to %" PRId64 ") at %" PRId64 "\n",
               w->name, w->attempt, w->until_ns, w->other, w->other_until_ns, w->clock_ns);
    }
}

static void rules_print(const struct dlt_check_figures *check)
{
    for (unsigned rule = 0; rule < DLT_RULE_COUNT; rule++)
        if (check->violations[rule] > 0)
            printf("# broken %" PRIu64 " times: %s\n", check->violations[rule],
                   dlt_rule_name((enum dlt_rule)rule));
}

static void figures_print(const struct court *court, uint64_t faults)
{
    const struct settings *settings = court->verdict->settings;
    const struct dlt_check_figures *check = &court->check;
    const struct figures *figures = &court->figures;
    const struct shared *shared = court->verdict->shared;

    printf("# %s, profile %s (%s), seed %" PRIu64 ": %.1f s, %u processes of %u threads, %u names, "
           "ttl %" PRId64 " ms\n",
           settings->backend->name, settings->profile->name, settings->profile->text,
           settings->seed, court->verdict->took_s, settings->processes, settings->threads,
           settings->names, settings->ttl_ms);
    if (settings->guard_rule != 0)
        printf("# guard rule FO-%u off\n", settings->guard_rule);
    printf("# lock calls %" PRIu64 ", acquisitions %" PRIu64 ", UNKNOWN %" PRIu64
           " (unexplained %" PRIu64 "), LOST %" PRIu64 "; operations of dlock_op_start %" PRIu64
           "\n",
           check->locks, check->acquired, check->unknown, figures->unexplained, figures->lost,
           (uint64_t)atomic_load(&shared->operations));
    printf("# overlaps %" PRIu64 " by history, %u by shared memory in %" PRIu64 " looks\n",
           check->violations[DLT_RULE_OVERLAP], atomic_load(&shared->witness_count),
           (uint64_t)atomic_load(&shared->scans));
    rules_print(check);
    if (court->overlap_ns > 0)
        printf("# longest overlap %.1f ms\n", ms(court->overlap_ns));
    if (check->smallest_gap_ns != INT64_MAX)
        printf("# smallest gap between claims that exclude each other %.3f ms\n",
               ms(check->smallest_gap_ns));
    printf("# protected writes %" PRIu64 ", stale ones refused %" PRIu64
           ", fence regressions %" PRIu64 "\n",
           check->accepted, check->rejected, check->violations[DLT_RULE_FENCE]);
    if (settings->profile->programs)
        printf("# claims of killed clients that a program kept %" PRIu64 "\n",
               (uint64_t)atomic_load(&shared->inherited));
    if (settings->profile->keeps)
        printf("# releases that kept the name %" PRIu64 ", granted meanwhile %" PRIu64 "\n",
               check->keeps, check->violations[DLT_RULE_KEEP]);
    printf("# holders shown by inspect %" PRIu64 ", with data %" PRIu64
           ", with the data of another one %" PRIu64 "\n",
           check->seen, check->seen_data, check->violations[DLT_RULE_DATA]);
    printf(
        "# latest return after a deadline %.1f ms, latest news of a loss %.1f ms after the lease, "
        "most overtaken %u\n",
        ms(figures->overrun_ns), ms(figures->late_loss_ns), figures->overtaken);
    printf("# a sleep of this program, which no fault hits, lasted up to %" PRId64 " ms too long\n",
           court->verdict->nemesis->starved_ms);
    if (court->verdict->nemesis->unserved_ms > 0)
        printf("# no fault was in force, but the servers were still choosing a leader: %" PRId64
               " ms\n",
               court->verdict->nemesis->unserved_ms);
    printf("# from a fault to the next lock of each client: median %.1f ms, 99%% %.1f ms, most "
           "%.1f ms, of %" PRIu64 "\n",
           ms(figures->recovery_median_ns), ms(figures->recovery_p99_ns),
           ms(figures->recovery_most_ns), figures->recoveries);
    if (settings->rival != NULL)
        printf("# rival '%s': told \"not yours\" while the lease ran %" PRIu64
               ", OK for a lease that had run out %" PRIu64 "\n",
               settings->rival, check->violations[DLT_RULE_TAKEN],
               check->violations[DLT_RULE_EXPIRED_GRANT]);
    else if (court->unexpected == 0 && faults > 0 && settings->profile->found == 0)
        printf("# no violation in %" PRIu64 " effective faults: below %.4f a fault, with 95 %%\n",
               faults, 3.0 / (double)faults);
}

/* ---- judgement ---- */

/* Half of them or more of each kind: a client may be idle at the wrong time. */
static bool each_kind_bites(const struct nemesis *nemesis)
{
    bool right = true;

    for (unsigned kind = 0; kind < FAULT_KINDS; kind++) {
        if (nemesis->tried[kind] < TRIED_LEAST ||
            nemesis->effective[kind] * 2 >= nemesis->tried[kind])
            continue;
        right = false;
        printf("# without effect: %s\n", fault_text((enum fault_kind)kind));
    }
    return right;
}

/* Faults have effects for longer than they are looked for, and so has a machine that is busy. */
static bool unknowns_have_reasons(const struct court *court)
{
    return court->figures.unexplained <= UNEXPLAINED_MOST + court->check.unknown / 4;
}

/* Where two at once are what a run is about, each of the two that look has to see them. */
static void judge_eyes(struct court *court)
{
    const struct settings *settings = court->verdict->settings;
    const struct shared *shared = court->verdict->shared;
    uint64_t acquired = atomic_load(&shared->acquired);
    int64_t lease_ms =
        settings->backend->lease_ms > 0 ? settings->backend->lease_ms : settings->ttl_ms;

    test(court, acquired > 0 && atomic_load(&shared->scans) >= acquired,
         "whoever got a lock looked at the other claims");
    if ((settings->profile->found & RULE_BIT(OVERLAP)) == 0 ||
        (settings->duration_ms < SHOWS_MS && !settings->until_seen))
        return;
    test(court, court->check.violations[DLT_RULE_OVERLAP] > 0, "the histories showed two at once");
    test(court, atomic_load(&shared->witness_count) > 0, "shared memory showed two at once");
    test(court, court->overlap_ns <= lease_ms * NS_PER_MS,
         "no two at once for longer than a lease");
}

static void judge_history(struct court *court)
{
    const struct settings *settings = court->verdict->settings;
    uint32_t found = settings->profile->found;
    bool overlaps = (found & RULE_BIT(OVERLAP)) != 0;

    test(court, court->unexpected == 0,
         found == 0 ? "the history is that of a lock" : "nothing else was found in the history");
    if (found != 0)
        test(court, court->expected > 0, "what the broken assumption does was seen");
    test(court, overlaps || atomic_load(&court->verdict->shared->witness_count) == 0,
         "shared memory saw no two claims at once that it should not");
}

/* What a rival's history shows is counted, and no promise of this project. */
static void judge_records(struct court *court)
{
    test(court,
         court->check.violations[DLT_RULE_RECORDS] == 0 &&
             court->check.violations[DLT_RULE_NO_RETURN] == 0,
         "the rival's records make sense");
}

static void judge(struct court *court, uint64_t faults)
{
    const struct settings *settings = court->verdict->settings;
    bool rival = settings->rival != NULL;
    bool is_long = settings->duration_ms >= LONG_MS && !settings->until_seen && !rival;
    bool remote = settings->backend->nodes > 0;
    bool moves = store_fails_over(settings->backend); /* each failover takes its time */

    if (rival) {
        judge_records(court);
    } else {
        judge_history(court);
        judge_eyes(court);
    }
    test(court, court->verdict->ended && court->verdict->nemesis->crew->broken == 0,
         "all clients ended by themselves, and well");
    test(court, !court->verdict->nemesis->broken, "all servers came up again");
    test(court, !court->verdict->nemesis->disobeyed, "all proxies did what they were told");
    test(court, faults > (is_long ? (moves ? 10 : 30) : 0), "faults had an effect");
    test(court, court->check.acquired > (is_long ? 1000 : 5), "locks were taken");
    if (settings->profile->programs)
        test(court,
             court->verdict->nemesis->effective[FAULT_CLIENT_KILL] < KILLED_LEAST ||
                 atomic_load(&court->verdict->shared->inherited) > 0,
             "clients were killed whose programs lived on");
    if (settings->profile->keeps && settings->profile->limit == 0)
        test(court, court->check.keeps > 0, "names were kept");
    if (!rival)
        test(court,
             settings->backend->session || atomic_load(&court->verdict->shared->operations) > 0,
             "operations of dlock_op_start were made");
    if (is_long) {
        test(court, each_kind_bites(court->verdict->nemesis), "each kind of fault had an effect");
        test(court, unknowns_have_reasons(court),
             "there was a fault about where outcomes were unknown");
        test(court, court->figures.lost > 0 || (moves && settings->duration_ms < MOVES_LOSE_MS),
             "leases were lost");
        test(court, !remote || court->check.unknown > 0, "outcomes were unknown");
        test(court,
             !settings->backend->fences || moves || settings->profile->limit > 1 ||
                 court->check.rejected > 0,
             "stale writes were refused");
    }
    printf("1..%u\n", court->tests);
}

bool verdict_print(const struct verdict *verdict)
{
    struct court court = {.verdict = verdict};
    bool readable = logs_read(&court) && history_check(&court);
    uint64_t faults;

    witnesses_print(verdict->shared);
    printf("# faults:\n");
    faults = faults_print(verdict->nemesis);
    figures_print(&court, faults);
    test(&court, readable, "the logs are whole");
    judge(&court, faults);
    dlt_history_fini(&court.history);
    return court.failed == 0;
}
