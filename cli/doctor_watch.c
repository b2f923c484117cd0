/* SPDX-License-Identifier: MIT */
#include "doctor_watch.h"

#include "canary.h"
#include "checks.h"
#include "client.h"
#include "clock_steps.h"
#include "descendants.h"
#include "exitcode.h"
#include "info.h"
#include "keep.h"
#include "lib/thread.h"
#include "lib/time.h"
#include "signals.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CANARY_MOST_MS INT64_C(5000)

struct doctor_watch {
    struct cli *cli;
    int64_t every_ms;
    struct metrics_file *metrics;
    struct dlock_client *client;
    struct canary canary;
    struct clock_steps steps;

    /* of the last round */
    enum dlock_status status; /* of the probe */
    struct dlock_error err;
    json_t *checks;
    int64_t step_ns;

    /* the thread that waits for signals */
    struct signals signals;
    int over;    /* an eventfd: the main thread has ended */
    int stopped; /* an eventfd: a signal came */
    pthread_t listener;
};

/* A call that waits for the store ends at once. */
static void *listener_main(void *arg)
{
    struct doctor_watch *watch = arg;
    struct pollfd fds[2] = {{.fd = watch->signals.fd, .events = POLLIN},
                            {.fd = watch->over, .events = POLLIN}};

    while (fds[1].revents == 0) {
        int n;

        descendants_reap(0); /* at first, those that ended before this program was executed */
        (void)poll(fds, 2, -1);
        while ((n = signals_next(&watch->signals)) != 0) {
            if (n == SIGCHLD)
                continue;
            (void)eventfd_write(watch->stopped, 1);
            dlock_client_shutdown(watch->client);
        }
    }
    return NULL;
}

/* True: a signal came. */
static bool pause_until(const struct doctor_watch *watch, int64_t at_ms)
{
    struct pollfd stopped = {.fd = watch->stopped, .events = POLLIN};
    int64_t left_ms;

    do {
        left_ms = at_ms - dl_time_now_ns(CLOCK_BOOTTIME) / DL_NS_PER_MS;
        left_ms = left_ms < 0 ? 0 : left_ms;
        if (poll(&stopped, 1, left_ms < 1000 ? (int)left_ms : 1000) > 0)
            return true;
    } while (left_ms > 0);
    return false;
}

static bool has_answered(const struct doctor_watch *watch)
{
    return watch->status == DLOCK_OK || watch->status == DLOCK_UNSUPPORTED;
}

static bool is_fine(const struct doctor_watch *watch)
{
    return has_answered(watch) && watch->canary.status == DLOCK_OK;
}

/* What failed: the probe knows more of a store that is not set up well. */
static enum dlock_status outcome(const struct doctor_watch *watch)
{
    return has_answered(watch) ? watch->canary.status : watch->status;
}

/* NULL: nothing failed. */
static const char *failure(const struct doctor_watch *watch)
{
    if (!has_answered(watch))
        return watch->err.message;
    return is_fine(watch) ? NULL : watch->canary.err.message;
}

static void round_make(struct doctor_watch *watch)
{
    struct keep_clocks clocks;

    json_decref(watch->checks);
    watch->checks = json_array();
    canary_round(&watch->canary,
                 watch->every_ms < CANARY_MOST_MS ? watch->every_ms : CANARY_MOST_MS);
    watch->status = checks_read(watch->client, watch->checks, &watch->err);
    keep_clocks_read(&clocks);
    watch->step_ns = clock_steps_read(&watch->steps, clocks.wall_ns, clocks.after_ns);
}

static json_t *round_json(const struct doctor_watch *watch, const char *at)
{
    return json_pack("{s:s, s:b, s:s, s:o, s:f, s:f, s:f, s:O}", "time", at, "ok", is_fine(watch),
                     "status", dlock_status_name((int)outcome(watch)), "message",
                     checks_text(failure(watch)), "lock_ms", (double)watch->canary.lock_ns / 1e6,
                     "unlock_ms", (double)watch->canary.unlock_ns / 1e6, "clock_step_ms",
                     (double)watch->step_ns / 1e6, "checks", watch->checks);
}

static void checks_print(const json_t *checks)
{
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        const char *name = json_string_value(json_object_get(check, "name"));
        const char *found = json_string_value(json_object_get(check, "found"));

        if (name == NULL || found == NULL)
            continue;
        if (json_is_string(json_object_get(check, "advice")))
            (void)printf("; advice on %s: %s", name, found);
        else if (strcmp(name, "role") == 0)
            (void)printf("; %s %s", name, found);
    }
}

/* One line. CLI_EXIT_OK: it was written. */
static int round_print(const struct doctor_watch *watch)
{
    char at[24];
    char *text = NULL;

    info_time(at, 0);
    if (watch->cli->json) {
        json_t *line = round_json(watch, at);

        text = json_dumps(line, JSON_COMPACT);
        json_decref(line);
        (void)printf("%s\n", text != NULL ? text : "{}");
        free(text);
        return cli_output_close(watch->cli, CLI_EXIT_OK);
    }
    (void)printf("%s  %s  lock %.3f ms, unlock %.3f ms", at, is_fine(watch) ? "ok" : "FAILED",
                 (double)watch->canary.lock_ns / 1e6, (double)watch->canary.unlock_ns / 1e6);
    if (!is_fine(watch))
        (void)printf("; %s", failure(watch));
    if (watch->step_ns != 0)
        (void)printf("; the clock of this host stepped by %.3f s", (double)watch->step_ns / 1e9);
    checks_print(watch->checks);
    (void)printf("\n");
    return cli_output_close(watch->cli, CLI_EXIT_OK);
}

static void counter(FILE *out, const char *label, const char *name, const char *help,
                    uint64_t value)
{
    metrics_file_family(out, name, "counter", "", help);
    (void)fprintf(out, "%s_total{%s} %" PRIu64 "\n", name, label, value);
}

static void metrics_write(void *arg, FILE *out, const char *label)
{
    const struct doctor_watch *watch = arg;

    metrics_file_gauge(out, label, "dlock_canary_ok", "",
                       "1: the canary lock was taken and released, and the probe found no failure.",
                       is_fine(watch));
    metrics_file_gauge(out, label, "dlock_canary_lock_seconds", "seconds",
                       "How long taking the canary lock took.",
                       (double)watch->canary.lock_ns / 1e9);
    metrics_file_gauge(out, label, "dlock_canary_unlock_seconds", "seconds",
                       "How long releasing it took; 0: it was not taken.",
                       (double)watch->canary.unlock_ns / 1e9);
    counter(out, label, "dlock_canary_rounds", "How often the canary lock was tried.",
            watch->canary.rounds);
    counter(out, label, "dlock_canary_failures", "How often that failed.", watch->canary.failures);
    counter(out, label, "dlock_clock_steps", "Steps of the wall clock of this host.",
            watch->steps.count);
    metrics_file_gauge(out, label, "dlock_clock_step_seconds", "seconds",
                       "The last step of the wall clock; 0: none so far.",
                       (double)watch->steps.step_ns / 1e9);
    metrics_file_gauge(out, label, "dlock_doctor_timestamp_seconds", "seconds",
                       "When this was written, in seconds since 1970.", (double)time(NULL));
    checks_metrics(watch->checks, out, label);
}

static int rounds(struct doctor_watch *watch)
{
    int64_t at_ms = dl_time_now_ns(CLOCK_BOOTTIME) / DL_NS_PER_MS;
    int exit_code = CLI_EXIT_OK;
    int error = 0;

    while (exit_code == CLI_EXIT_OK && !pause_until(watch, at_ms)) {
        int64_t now_ms;

        round_make(watch);
        if (pause_until(watch, 0)) /* the signal came in this round: its failure is ours */
            break;
        metrics_file_write(watch->metrics, watch->client, metrics_write, watch);
        if (watch->metrics->error != error)
            metrics_file_report(watch->metrics, watch->cli);
        error = watch->metrics->error;
        exit_code = watch->cli->quiet ? CLI_EXIT_OK : round_print(watch);
        now_ms = dl_time_now_ns(CLOCK_BOOTTIME) / DL_NS_PER_MS;
        at_ms += watch->every_ms;
        if (at_ms < now_ms) /* rounds that were missed are left out */
            at_ms = now_ms;
    }
    return exit_code;
}

static int rounds_with_listener(struct doctor_watch *watch)
{
    int exit_code;

    watch->over = eventfd(0, EFD_CLOEXEC);
    watch->stopped = eventfd(0, EFD_CLOEXEC);
    if (watch->over < 0 || watch->stopped < 0 ||
        dl_thread_start(&watch->listener, NULL, listener_main, watch) != 0) {
        cli_output_fail(watch->cli, "no thread or descriptor for signals: %s", strerror(errno));
        return CLI_EXIT_INTERNAL;
    }
    exit_code = rounds(watch);
    (void)eventfd_write(watch->over, 1);
    (void)pthread_join(watch->listener, NULL);
    return exit_code;
}

int doctor_watch(struct cli *cli, int64_t every_ms, struct metrics_file *metrics)
{
    struct doctor_watch watch = {.cli = cli,
                                 .every_ms = every_ms,
                                 .metrics = metrics,
                                 .err = DLOCK_ERROR_INIT,
                                 .signals = {.fd = -1}};
    enum dlock_status status;
    int exit_code;

    if (signals_start(&watch.signals) != 0) {
        cli_output_fail(cli, "signals: %s", strerror(errno));
        return CLI_EXIT_INTERNAL;
    }
    status = cli_client_open(cli, CLI_TO_WATCH, &watch.client, &watch.err);
    if (status == DLOCK_OK)
        status = canary_init(&watch.canary, watch.client, &watch.err);
    watch.err.status = status;
    if (status == DLOCK_OK)
        exit_code = rounds_with_listener(&watch);
    else
        exit_code = cli_output_fail_status(cli, NULL, &watch.err);
    canary_fini(&watch.canary);
    dlock_client_close(watch.client);
    json_decref(watch.checks);
    return exit_code;
}
