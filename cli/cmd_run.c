/* SPDX-License-Identifier: MIT */
/* dlock run: a command under a lock. */
#include "acquire.h"
#include "args.h"
#include "client.h"
#include "contain.h"
#include "environment.h"
#include "exitcode.h"
#include "keep.h"
#include "lock_options.h"
#include "metrics_file.h"
#include "outcome.h"
#include "output.h"
#include "supervise.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KILL_AFTER_MS INT64_C(5000)
#define RUN_NAME      'n' /* also the short option */

enum run_option {
    RUN_ON_LOST = LOCK_OPTION_OWN,
    RUN_KILL_AFTER,
    RUN_MAX_HOLD,
    RUN_CONFLICT,
    RUN_SKIP,
    RUN_STATUS_FD,
    RUN_OUTCOME,
    RUN_AGAIN,
    RUN_JOIN,
    RUN_KEEP,
    RUN_ONCE_PER,
    RUN_KEEP_ALWAYS,
    RUN_METRICS,
    RUN_CONTAIN
};

static const struct option run_options[] = {
    LOCK_OPTIONS,
    {"on-lost", required_argument, NULL, RUN_ON_LOST},
    {"kill-after", required_argument, NULL, RUN_KILL_AFTER},
    {"max-hold", required_argument, NULL, RUN_MAX_HOLD},
    {"conflict-exit-code", required_argument, NULL, RUN_CONFLICT},
    {"skip-quietly", no_argument, NULL, RUN_SKIP},
    {"status-fd", required_argument, NULL, RUN_STATUS_FD},
    {"outcome", required_argument, NULL, RUN_OUTCOME},
    {"again", no_argument, NULL, RUN_AGAIN},
    {"join", no_argument, NULL, RUN_JOIN},
    {"keep", required_argument, NULL, RUN_KEEP},
    {"once-per", required_argument, NULL, RUN_ONCE_PER},
    {"keep-always", no_argument, NULL, RUN_KEEP_ALWAYS},
    {"metrics", required_argument, NULL, RUN_METRICS},
    {"contain", no_argument, NULL, RUN_CONTAIN},
    {"name", required_argument, NULL, RUN_NAME}, /* the last one: not of the enum */
    {NULL, 0, NULL, 0},
};

struct run {
    struct cli *cli;
    struct cli_name names[DLOCK_SET_MAX];
    size_t name_count;
    char printable[CLI_PRINTABLE_SIZE]; /* the names, printable */
    char **command;
    bool warn_only;
    bool again;   /* after a loss */
    bool contain; /* the command in a PID namespace of its own */
    int64_t kill_after_ms;
    struct refusal refusal;
    struct keep keep;

    long status_fd;           /* -1: none */
    const char *outcome_path; /* NULL: none */
    const char *metrics_path; /* NULL: none */

    struct outcome outcome;
    struct metrics_file metrics;
    struct acquire acquire;
    struct signals signals;
    struct tty tty;
    struct child child;
    int64_t acquired_ms;
};

static bool run_name_add(struct run *run, const char *text, char why[CLI_WHY])
{
    size_t used = strlen(run->printable);

    (void)snprintf(why, CLI_WHY, "is one name too many: a set has at most %d", DLOCK_SET_MAX);
    if (run->name_count == DLOCK_SET_MAX)
        return false;
    (void)snprintf(why, CLI_WHY, "is not hex, or too long");
    if (!cli_args_name(text, run->cli->name_hex, &run->names[run->name_count]))
        return false;
    (void)snprintf(
        run->printable + used, sizeof run->printable - used, "%s%s",
        run->name_count > 0 ? ", " : "",
        cli_output_printable(run->names[run->name_count].bytes, run->names[run->name_count].len));
    run->name_count++;
    return true;
}

/* False: why says what is wrong with optarg. */
static bool run_option_take(struct run *run, int option, char why[CLI_WHY])
{
    switch (option) {
    case RUN_ON_LOST:
        (void)snprintf(why, CLI_WHY, "is not one of kill|warn");
        run->warn_only = strcmp(optarg, "warn") == 0;
        return run->warn_only || strcmp(optarg, "kill") == 0;
    case RUN_KILL_AFTER:
        return cli_args_duration(optarg, &cli_kill_after, &run->kill_after_ms, why);
    case RUN_MAX_HOLD:
        return cli_args_duration(optarg, &cli_max_hold, &run->acquire.options.max_hold_ms, why);
    case RUN_CONFLICT:
        (void)snprintf(why, CLI_WHY, "is not in 0..255");
        return cli_args_number(optarg, 0, 255, &run->refusal.conflict_code);
    case RUN_STATUS_FD:
        (void)snprintf(why, CLI_WHY, "is not the number of a descriptor");
        return cli_args_number(optarg, 0, INT_MAX, &run->status_fd);
    case RUN_OUTCOME:
        run->outcome_path = optarg;
        return true;
    case RUN_METRICS:
        run->metrics_path = optarg;
        return true;
    case RUN_NAME:
        return run_name_add(run, optarg, why);
    case RUN_AGAIN:
        run->again = true;
        return true;
    case RUN_JOIN:
        run->acquire.join = true;
        return true;
    case RUN_SKIP:
        run->refusal.skip_quietly = true;
        return true;
    case RUN_KEEP:
        return cli_args_duration(optarg, &cli_keep, &run->keep.keep_ms, why);
    case RUN_ONCE_PER:
        return cli_args_duration(optarg, &cli_keep, &run->keep.period_ms, why);
    case RUN_KEEP_ALWAYS:
        run->keep.always = true;
        return true;
    case RUN_CONTAIN:
        run->contain = true;
        return true;
    default:
        return lock_options_take(&run->acquire, option, why);
    }
}

/* -1: go on; else the exit code. */
static int run_options_check(struct run *run)
{
    int exit_code = keep_check(&run->keep, run->cli, &run->acquire.options, run->name_count);

    if (exit_code >= 0)
        return exit_code;
    if (run->cli->json && run->status_fd < 0 && run->outcome_path == NULL)
        return cli_args_usage(run->cli, "--json is for --status-fd and --outcome: the output of "
                                        "run is the command's");
    if (run->acquire.join &&
        (run->again || run->status_fd >= 0 || run->outcome_path != NULL ||
         run->metrics_path != NULL || run->acquire.options.keep_ms > 0 ||
         run->acquire.options.limit > 0 || run->acquire.options.max_hold_ms > 0))
        return cli_args_usage(run->cli,
                              "--join excludes --again, --keep, --once-per, --limit, --max-hold, "
                              "--status-fd, --outcome and --metrics");
    if (run->contain && (run->warn_only || run->acquire.join))
        return cli_args_usage(run->cli, "--contain excludes --on-lost=warn and --join");
    if (!run->warn_only && getpid() != 1) /* no timer ends the first process of a PID namespace */
        run->acquire.options.on_expiry = DLOCK_EXPIRE_KILL;
    if (run->refusal.skip_quietly && !run->acquire.timed)
        run->acquire.timeout_ms = 0;
    if (run->refusal.skip_quietly && run->refusal.conflict_code < 0)
        run->refusal.conflict_code = CLI_EXIT_OK;
    return lock_options_check(&run->acquire);
}

/* NAME and CMD. -1: go on; else the exit code. */
static int run_operands_read(struct run *run, int argc, char **argv)
{
    const char *name = argv[optind];
    char why[CLI_WHY];

    if (run->name_count == 0) {
        if (optind >= argc)
            return cli_args_usage(run->cli, "run: NAME is missing");
        if (!run_name_add(run, name, why))
            return cli_args_usage(run->cli, "run: NAME %s", why);
        optind++;
    }
    if (optind < argc && strcmp(argv[optind], "--") == 0)
        optind++;
    else if (optind < argc && argv[optind][0] == '-')
        return cli_args_misplaced(run->cli, run_options, name, argv[optind]);
    if (optind >= argc)
        return cli_args_usage(run->cli, "run: CMD is missing");
    run->command = argv + optind;
    return -1;
}

/* -1: go on; else the exit code. */
static int run_options_read(struct run *run, int argc, char **argv)
{
    char why[CLI_WHY] = "";
    int exit_code;
    int option;

    while ((option = cli_args_next(run->cli, argc, argv, run_options, true, &exit_code)) != -1) {
        if (option == -2)
            return exit_code;
        if (option == RUN_NAME && !run_option_take(run, option, why))
            return cli_args_usage(run->cli, "--name=%s %s",
                                  cli_output_printable(optarg, strlen(optarg)), why);
        if (option != RUN_NAME && !run_option_take(run, option, why))
            return lock_options_refuse(run->cli, run_options, option, why);
    }
    exit_code = run_options_check(run);
    return exit_code >= 0 ? exit_code : run_operands_read(run, argc, argv);
}

/* -1: go on; else the exit code. */
static int outcome_start(struct run *run)
{
    int error;

    run->outcome.json = run->cli->json;
    if (run->status_fd >= 0 && outcome_add_fd(&run->outcome, (int)run->status_fd) != 0)
        return cli_args_usage(run->cli, "--status-fd=%ld is not open for writing", run->status_fd);
    error = run->outcome_path != NULL ? outcome_add_file(&run->outcome, run->outcome_path) : 0;
    if (error == 0)
        return -1;
    cli_output_fail(run->cli, "--outcome=%s: %s",
                    cli_output_printable(run->outcome_path, strlen(run->outcome_path)),
                    strerror(error));
    return CLI_EXIT_INTERNAL;
}

/* -1: go on; else the exit code. */
static int contain_start(const struct run *run)
{
    int error = run->contain ? contain_check() : 0;

    if (error == 0)
        return -1;
    cli_output_fail(run->cli,
                    "--contain: this system gives no PID namespace to this user (%s): run dlock as "
                    "root, let users make namespaces (user.max_user_namespaces, and where it is "
                    "restricted kernel.unprivileged_userns_clone or AppArmor), or leave --contain "
                    "out; no lock was taken",
                    error == ENOSPC ? "their limit is reached" : strerror(error));
    return CLI_EXIT_CONFIG;
}

/* -1: go on; else the exit code. */
static int metrics_start(struct run *run)
{
    if (run->metrics_path != NULL)
        run->metrics.error = metrics_file_init(&run->metrics, run->metrics_path);
    metrics_file_report(&run->metrics, run->cli);
    return run->metrics.error == 0 ? -1 : CLI_EXIT_INTERNAL;
}

static void refusal_write(struct run *run)
{
    enum dlock_status status = run->acquire.status;

    if (refusal_is_conflict(&run->acquire))
        outcome_write(&run->outcome, status == DLOCK_BUSY ? "busy" : "timeout", NULL);
    else
        outcome_write(&run->outcome, "failed",
                      json_pack("{s:s}", "status", dlock_status_name((int)status)));
}

/* The locks as enclosing runs hold them, or as this one does. */
static void locks_read(struct run *run, struct acquire_joined locks[DLOCK_SET_MAX])
{
    for (size_t i = 0; i < run->name_count; i++) {
        const struct dlock_handle *lock = held_member(&run->acquire.held, i);

        locks[i] = run->acquire.joins[i];
        if (run->acquire.joined > 0)
            continue;
        (void)dlock_token(lock, locks[i].token, sizeof locks[i].token);
        locks[i].fence = dlock_fence(lock);
    }
}

/* NULL: no memory. Caller frees with environment_free. */
static char **command_environment(struct run *run)
{
    struct acquire_joined held[DLOCK_SET_MAX] = {{.fence = 0}};
    struct environment_lock locks[DLOCK_SET_MAX];
    char permit[16];
    char *uri = NULL;
    bool known = cli_client_uri_for_child(run->cli, run->acquire.client, &uri);
    char **env = NULL;

    locks_read(run, held);
    for (size_t i = 0; i < run->name_count; i++)
        locks[i] = (struct environment_lock){
            .name = run->names[i].bytes,
            .name_len = run->names[i].len,
            .token = held[i].token,
            .fence = held[i].fence,
            .uri = uri,
        };
    (void)snprintf(permit, sizeof permit, "%" PRIu32,
                   dlock_permit(held_member(&run->acquire.held, 0)));
    locks[0].permit = run->acquire.options.limit > 0 ? permit : NULL;
    if (run->acquire.joined == 0)
        outcome_acquired(run->cli, &run->outcome, dlock_client_server(run->acquire.client), locks,
                         run->name_count);
    if (known)
        env = environment_new(locks, run->name_count);
    free(uri);
    return env;
}

/* Returns the exit code. */
static int command_fail(const struct run *run, int error, bool in_exec)
{
    cli_output_fail(run->cli, "%s: %s%s",
                    cli_output_printable(run->command[0], strlen(run->command[0])), strerror(error),
                    in_exec && error == ENOENT ? child_shell_hint(run->command) : "");
    if (!in_exec)
        return CLI_EXIT_INTERNAL;
    return error == ENOENT || error == ENOTDIR ? CLI_EXIT_NOT_FOUND : CLI_EXIT_NOT_EXECUTABLE;
}

/* 0, or the exit code. */
static int command_start(struct run *run)
{
    struct child_plan plan = {
        .argv = run->command,
        .signals = &run->signals,
        .tty = &run->tty,
        .die_with_us = !run->warn_only,
        .contain = run->contain,
    };
    char **env = command_environment(run);
    bool in_exec = false;
    int error = ENOMEM;

    if (held_state(&run->acquire.held) == DLOCK_STATE_LOST) {
        cli_output_fail(run->cli, "%s: lock lost before the command was started", run->printable);
        supervise_loss_write(&run->outcome, DLOCK_REASON_EXPIRED);
        environment_free(env);
        return CLI_EXIT_LOST;
    }
    plan.env = env;
    if (env != NULL)
        error = child_start(&run->child, &plan, &in_exec);
    environment_free(env);
    run->keep.started = error == 0;
    return error == 0 ? 0 : command_fail(run, error, in_exec);
}

/* Enclosing runs hold the names: this process becomes the command. Returns the exit code of a
 * failure. */
static int command_exec(struct run *run)
{
    char **env = command_environment(run);
    int error = ENOMEM;

    cli_output_say(run->cli, "%s: held by an enclosing run", run->printable);
    acquire_fini(&run->acquire);
    if (env != NULL) {
        signals_restore(&run->signals);
        (void)execvpe(run->command[0], run->command, env);
        error = errno;
    }
    environment_free(env);
    return command_fail(run, error, env != NULL);
}

static void command_report(struct run *run)
{
    int n = run->child.signal;

    if (n != 0)
        cli_output_say(run->cli, "%s: command ended by signal %d (%s)", run->printable, n,
                       strsignal(n));
    else
        cli_output_say(run->cli, "%s: command exited %d", run->printable, run->child.code);
    outcome_write(&run->outcome, "exited",
                  n != 0 ? json_pack("{s:i}", "signal", n)
                         : json_pack("{s:i}", "code", run->child.code));
}

static int command_watch(struct run *run)
{
    int64_t max_hold_ms = run->acquire.options.max_hold_ms;
    struct supervise s = {
        .cli = run->cli,
        .outcome = &run->outcome,
        .client = run->acquire.client,
        .held = &run->acquire.held,
        .name = run->printable,
        .child = &run->child,
        .signals = &run->signals,
        .tty = &run->tty,
        .hold_until_ms = max_hold_ms > 0 ? run->acquired_ms + max_hold_ms : INT64_MAX,
    };
    int error;

    watch_init(&s.watch, run->kill_after_ms, run->warn_only);
    error = supervise_child(&s);
    if (error != 0)
        cli_output_fail(run->cli, "%s: %s; the command was killed", run->printable,
                        strerror(error));
    tty_take_back(&run->tty, run->child.pid, run->child.signal != 0);
    child_reap(&run->child);
    if (error != 0)
        return CLI_EXIT_INTERNAL;
    command_report(run);
    return s.lost ? CLI_EXIT_LOST : run->child.code;
}

/* What follows from the exit code for the name. */
static enum release_keep run_keep(const struct run *run, int exit_code)
{
    bool succeeded = exit_code == CLI_EXIT_OK;

    if (run->acquire.options.keep_ms == 0)
        return RELEASE_PLAIN;
    return keep_apply(&run->keep, run->acquire.held.lock, succeeded) ? RELEASE_KEEPS
                                                                     : RELEASE_NOT_KEPT;
}

static int run_release(struct run *run, int exit_code)
{
    struct release release = {
        .cli = run->cli,
        .outcome = &run->outcome,
        .held = &run->acquire.held,
        .signals = &run->signals,
        .name = run->printable,
        .keep = run_keep(run, exit_code),
    };

    return release_run(&release, exit_code);
}

static int run_locked(struct run *run)
{
    int exit_code;

    if (signals_run(&run->signals) != 0) {
        cli_output_fail(run->cli, "signals: %s", strerror(errno));
        return run_release(run, CLI_EXIT_INTERNAL);
    }
    atomic_store(&run->cli->holds, true);
    tty_init(&run->tty);
    exit_code = command_start(run);
    if (exit_code == 0)
        exit_code = command_watch(run);
    return run_release(run, exit_code);
}

/* Of a run that has ended. arg: its exit code. */
static void ended_write(void *arg, FILE *out, const char *label)
{
    metrics_file_gauge(out, label, "dlock_run_exit_code", "", "The exit code of dlock run.",
                       *(const int *)arg);
    metrics_file_gauge(out, label, "dlock_run_end_timestamp_seconds", "seconds",
                       "When dlock run ended, in seconds since 1970.", (double)time(NULL));
}

/* Waits for the lock and runs the command once. */
static int run_once(struct run *run)
{
    struct metrics_thread metrics;
    int exit_code, caught;

    if (run->acquire.timeout_ms != 0)
        outcome_write(&run->outcome, "waiting", NULL);
    metrics_thread_start(&metrics, &run->metrics, &run->acquire);
    caught = acquire_lock(&run->acquire, &run->signals);
    run->acquired_ms = acquire_now_ms();
    if (caught != 0)
        run->acquire.status = DLOCK_CANCELED;
    if (run->acquire.status != DLOCK_OK)
        refusal_write(run);
    if (caught != 0)
        exit_code = CLI_EXIT_SIGNAL + caught;
    else if (run->acquire.status != DLOCK_OK)
        exit_code = refusal_report(&run->acquire, &run->refusal);
    else if (run->acquire.joined > 0)
        exit_code = command_exec(run);
    else
        exit_code = run_locked(run);
    metrics_thread_stop(&metrics, ended_write, &exit_code);
    acquire_fini(&run->acquire);
    return exit_code;
}

/* Everything as before the first wait. False: it cannot be. */
static bool run_reset(struct run *run)
{
    atomic_store(&run->cli->holds, false);
    tty_fini(&run->tty);
    run->tty = (struct tty){.fd = -1};
    run->child = (struct child){0};
    acquire_reset(&run->acquire, run->names);
    return signals_wait(&run->signals) == 0;
}

static int run_all(struct run *run)
{
    int exit_code;

    if (signals_start(&run->signals) != 0) {
        cli_output_fail(run->cli, "signals: %s", strerror(errno));
        return CLI_EXIT_INTERNAL;
    }
    exit_code = run_once(run);
    while (run->again && exit_code == CLI_EXIT_LOST && run_reset(run))
        exit_code = run_once(run);
    outcome_write(&run->outcome, "end", json_pack("{s:i}", "code", exit_code));
    if (run->outcome.error != 0)
        cli_output_fail(run->cli, "--status-fd, --outcome: lines are missing: %s",
                        strerror(run->outcome.error));
    metrics_file_report(&run->metrics, run->cli);
    return exit_code;
}

int cli_run(struct cli *cli, int argc, char **argv)
{
    struct run run = {
        .cli = cli,
        .kill_after_ms = KILL_AFTER_MS,
        .refusal = {.conflict_code = -1},
        .status_fd = -1,
        .signals = {.fd = -1},
        .tty = {.fd = -1},
    };
    int exit_code;
    bool interrupted;

    lock_options_init(&run.acquire, cli);
    run.acquire.options.end = DLOCK_END_PROGRAMS;
    exit_code = run_options_read(&run, argc, argv);
    if (exit_code < 0)
        exit_code = outcome_start(&run);
    if (exit_code < 0)
        exit_code = contain_start(&run);
    if (exit_code < 0)
        exit_code = metrics_start(&run);
    if (exit_code >= 0)
        return exit_code;
    run.acquire.name = run.names;
    run.acquire.name_count = run.name_count;
    exit_code = run_all(&run);
    outcome_fini(&run.outcome);
    /* A shell that runs a loop in the foreground ends it only if it sees SIGINT itself. */
    interrupted =
        run.tty.fd >= 0 && run.child.signal == SIGINT && exit_code == CLI_EXIT_SIGNAL + SIGINT;
    tty_fini(&run.tty);
    if (interrupted)
        signals_die(SIGINT);
    return exit_code;
}
