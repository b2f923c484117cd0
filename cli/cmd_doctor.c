/* SPDX-License-Identifier: MIT */
#include "args.h"
#include "child.h"
#include "client.h"
#include "clock_steps.h"
#include "exitcode.h"
#include "info.h"
#include "keep.h"
#include "lib/text.h"
#include "lib/thread.h"
#include "lib/time.h"
#include "metrics_file.h"
#include "output.h"
#include "signals.h"

#include <ctype.h>
#include <dlock/dlock.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- the canary ---- */

/* A lock that is taken and released again and again, to see whether the store serves locks, and how
 * fast. Its name is "dlock-doctor:HOST". */
struct canary {
    struct dlock_handle *lock;

    /* of the last round */
    enum dlock_status status; /* the first failure of the two calls */
    struct dlock_error err;
    int64_t lock_ns, unlock_ns; /* how long the calls took */

    /* of all rounds */
    uint64_t rounds, failures;
};

static enum dlock_status canary_init(struct canary *canary, struct dlock_client *client,
                                     struct dlock_error *err)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .label = "doctor"};
    char host[65] = "";
    char name[96];

    *canary = (struct canary){.err = DLOCK_ERROR_INIT};
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(name, sizeof name, "dlock-doctor:%s", host);
    return dlock_new(client, name, strlen(name), &options, &canary->lock, err);
}

static void canary_fini(struct canary *canary)
{
    dlock_free(canary->lock);
    canary->lock = NULL;
}

/* Takes the lock, for timeout_ms at most, and releases it. */
static void canary_round(struct canary *canary, int64_t timeout_ms)
{
    int64_t begun_ns = dl_time_now_ns(CLOCK_MONOTONIC), locked_ns;

    canary->unlock_ns = 0;
    canary->status = dlock_timedlock(canary->lock, timeout_ms, &canary->err);
    locked_ns = dl_time_now_ns(CLOCK_MONOTONIC);
    canary->lock_ns = locked_ns - begun_ns;
    if (canary->status == DLOCK_OK) {
        canary->status = dlock_unlock(canary->lock, &canary->err);
        canary->unlock_ns = dl_time_now_ns(CLOCK_MONOTONIC) - locked_ns;
    }
    canary->rounds++;
    canary->failures += canary->status != DLOCK_OK;
}

/* ---- what a probe finds: an array of JSON objects with name, found, advice, clears ---- */

#define VALUE_SIZE 256
#define WORDS_MOST 48 /* bytes of a text that is a label */

/* The text, printable; null if it is NULL. */
static json_t *checks_text(const char *text)
{
    return text == NULL ? json_null() : json_string(cli_output_printable(text, strlen(text)));
}

static bool check_take(void *arg, const struct dlock_check *check)
{
    json_t *array = arg;

    (void)json_array_append_new(
        array, json_pack("{s:o, s:o, s:o, s:o}", "name", checks_text(check->name), "found",
                         checks_text(check->found), "advice", checks_text(check->advice), "clears",
                         cli_output_caps_json(check->clears)));
    return false;
}

/* Probes the store, and adds the checks to the array. UNSUPPORTED: this store has none. */
static enum dlock_status checks_read(struct dlock_client *client, json_t *checks,
                                     struct dlock_error *err)
{
    return dlock_client_probe(client, check_take, checks, err);
}

/* How many of them have advice. */
static size_t checks_advice(const json_t *checks)
{
    size_t i, count = 0;
    json_t *check;

    json_array_foreach((json_t *)checks, i, check)
    {
        count += json_is_string(json_object_get(check, "advice"));
    }
    return count;
}

static const char *text_of(const json_t *check, const char *member)
{
    const char *text = json_string_value(json_object_get(check, member));

    return text != NULL ? text : "";
}

static bool is_words(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= WORDS_MOST && strpbrk(text, "0123456789") == NULL;
}

static bool is_number(const char *text)
{
    return isdigit((unsigned char)text[0]) && strlen(text) <= 15 &&
           text[strspn(text, "0123456789.")] == '\0' && strchr(text, '.') == strrchr(text, '.');
}

static const char *quoted(char out[VALUE_SIZE], const char *text)
{
    return dl_printable_quote(out, VALUE_SIZE, text, strlen(text));
}

/* What one check is in a family. */
typedef void sample_fn(FILE *out, const char *label, const char *name, const json_t *check);

static void advice_sample(FILE *out, const char *label, const char *name, const json_t *check)
{
    (void)fprintf(out, "dlock_check_advice{%s,check=\"%s\"} %d\n", label, name,
                  json_is_string(json_object_get(check, "advice")) ? 1 : 0);
}

static void words_sample(FILE *out, const char *label, const char *name, const json_t *check)
{
    char found[VALUE_SIZE];

    if (is_words(text_of(check, "found")))
        (void)fprintf(out, "dlock_check_found{%s,check=\"%s\",found=\"%s\"} 1\n", label, name,
                      quoted(found, text_of(check, "found")));
}

static void number_sample(FILE *out, const char *label, const char *name, const json_t *check)
{
    if (is_number(text_of(check, "found")))
        (void)fprintf(out, "dlock_check_number{%s,check=\"%s\"} %s\n", label, name,
                      text_of(check, "found"));
}

/* Two checks of one name would be one series twice: the first one counts. */
static bool is_repeated(const json_t *checks, size_t index)
{
    const char *name = text_of(json_array_get(checks, index), "name");

    for (size_t i = 0; i < index; i++)
        if (strcmp(text_of(json_array_get(checks, i), "name"), name) == 0)
            return true;
    return false;
}

static void family(const json_t *checks, FILE *out, const char *label, const char *name,
                   const char *help, sample_fn *sample)
{
    char value[VALUE_SIZE];

    metrics_file_family(out, name, "gauge", "", help);
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);

        if (!is_repeated(checks, i))
            sample(out, label, quoted(value, text_of(check, "name")), check);
    }
}

/* As series of metrics_file.h; label: of all of them. A text that was found is a label only if it
 * has no digit: it does not change from time to time. A number is a value. */
static void checks_metrics(const json_t *checks, FILE *out, const char *label)
{
    family(checks, out, label, "dlock_check_advice",
           "Whether there is advice on the configuration of the store.", advice_sample);
    family(checks, out, label, "dlock_check_found", "What the check found, in words.",
           words_sample);
    family(checks, out, label, "dlock_check_number", "What the check found, if it is a number.",
           number_sample);
}

/* ---- doctor --watch: a line for each interval, and the metrics ---- */

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

        descendants_reap(0); /* at first, children that ended before the exec of this program */
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

/* Returns the exit code: 0 after SIGTERM or SIGINT; or of the failure that kept it from beginning.
 * A store that fails later is reported, and asked again. */
static int doctor_watch(struct cli *cli, int64_t every_ms, struct metrics_file *metrics)
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

/* ---- dlock doctor ---- */

/* The capabilities of a store as it is configured now, and advice. */

enum doctor_option { DOCTOR_STRICT = CLI_OPTION_OWN, DOCTOR_WATCH, DOCTOR_METRICS };

static const struct option doctor_options[] = {
    {"strict", no_argument, NULL, DOCTOR_STRICT},
    {"watch", required_argument, NULL, DOCTOR_WATCH},
    {"metrics", required_argument, NULL, DOCTOR_METRICS},
    {NULL, 0, NULL, 0},
};

static int doctor_print(const struct cli *cli, struct dlock_client *client, json_t *checks,
                        int exit_code)
{
    const char *server = dlock_client_server(client);
    size_t i;
    json_t *check;

    (void)printf("store      %s\nserver     %s\ncaps      ", dlock_client_uri(client),
                 cli_output_printable(server, strlen(server)));
    cli_output_caps(dlock_client_caps(client));
    (void)printf("\n");
    json_array_foreach(checks, i, check)
    {
        const char *advice = json_string_value(json_object_get(check, "advice"));

        (void)printf("check      %s: %s\n", json_string_value(json_object_get(check, "name")),
                     json_string_value(json_object_get(check, "found")));
        if (advice != NULL)
            (void)printf("  advice   %s\n", advice);
    }
    return cli_output_close(cli, exit_code);
}

static int doctor_report(const struct cli *cli, struct dlock_client *client, json_t *checks,
                         int exit_code)
{
    const char *server = dlock_client_server(client);

    if (!cli->json)
        return doctor_print(cli, client, checks, exit_code);
    return cli_output_json_print(cli,
                                 json_pack("{s:s, s:o, s:o, s:O}", "store",
                                           dlock_client_uri(client), "server", checks_text(server),
                                           "caps", cli_output_caps_json(dlock_client_caps(client)),
                                           "checks", checks),
                                 exit_code);
}

struct doctor {
    bool strict;
    int64_t every_ms; /* of --watch; 0: not given */
    const char *metrics_path;
};

/* -1: go on; else the exit code. */
static int doctor_options_read(struct cli *cli, int argc, char **argv, struct doctor *doctor)
{
    static const struct cli_duration every = {1000, INT64_C(86400000), "1s..1d", false};
    char why[CLI_WHY];
    int exit_code, option;

    while ((option = cli_args_next(cli, argc, argv, doctor_options, false, &exit_code)) != -1) {
        if (option == -2)
            return exit_code;
        if (option == DOCTOR_STRICT)
            doctor->strict = true;
        else if (option == DOCTOR_METRICS)
            doctor->metrics_path = optarg;
        else if (!cli_args_duration(optarg, &every, &doctor->every_ms, why))
            return cli_args_usage(cli, "--watch=%s %s",
                                  cli_output_printable(optarg, strlen(optarg)), why);
    }
    if (optind < argc)
        return cli_args_usage(cli, "doctor takes no operand; -u names the store");
    if (doctor->strict && doctor->every_ms > 0)
        return cli_args_usage(cli, "--strict and --watch exclude each other");
    if (doctor->metrics_path != NULL && doctor->every_ms == 0)
        return cli_args_usage(cli, "--metrics is for --watch");
    return -1;
}

static int doctor_once(struct cli *cli, bool strict)
{
    struct dlock_error err = CLI_ERROR_INIT;
    struct dlock_client *client = NULL;
    json_t *checks = json_array();
    enum dlock_status status = cli_client_open(cli, CLI_TO_INSPECT, &client, &err);
    int exit_code;

    if (status == DLOCK_OK)
        status = checks_read(client, checks, &err);
    err.status = status;
    if (status == DLOCK_OK || (status == DLOCK_UNSUPPORTED && client != NULL))
        exit_code = doctor_report(cli, client, checks,
                                  strict && checks_advice(checks) > 0 ? CLI_EXIT_NO : CLI_EXIT_OK);
    else
        exit_code = cli_output_fail_status(cli, NULL, &err);
    dlock_client_close(client);
    json_decref(checks);
    return exit_code;
}

static int doctor_watch_start(struct cli *cli, const struct doctor *doctor)
{
    struct metrics_file metrics = {.path = NULL};

    if (doctor->metrics_path != NULL)
        metrics.error = metrics_file_init(&metrics, doctor->metrics_path);
    metrics_file_report(&metrics, cli);
    return metrics.error != 0 ? CLI_EXIT_INTERNAL : doctor_watch(cli, doctor->every_ms, &metrics);
}

int cli_doctor(struct cli *cli, int argc, char **argv)
{
    struct doctor doctor = {.strict = false};
    int exit_code = doctor_options_read(cli, argc, argv, &doctor);

    if (exit_code >= 0)
        return exit_code;
    return doctor.every_ms > 0 ? doctor_watch_start(cli, &doctor) : doctor_once(cli, doctor.strict);
}
