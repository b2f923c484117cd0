/* SPDX-License-Identifier: MIT */
/* dlock run: a command under a lock. */
#include "args.h"
#include "client.h"
#include "environment.h"
#include "exitcode.h"
#include "lock_options.h"
#include "outcome.h"
#include "output.h"
#include "refusal.h"
#include "supervise.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KILL_AFTER_MS INT64_C(5000)

enum run_option {
    RUN_ON_LOST = LOCK_OPTION_OWN,
    RUN_KILL_AFTER,
    RUN_MAX_HOLD,
    RUN_CONFLICT,
    RUN_SKIP,
    RUN_STATUS_FD,
    RUN_OUTCOME
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
    {NULL, 0, NULL, 0},
};

struct run {
    struct cli *cli;
    struct cli_name name;
    char printable[CLI_PRINTABLE_SIZE]; /* the name, printable */
    char **command;
    bool warn_only;
    int64_t kill_after_ms;
    struct refusal refusal;

    long status_fd;           /* -1: none */
    const char *outcome_path; /* NULL: none */

    struct outcome outcome;
    struct acquire acquire;
    struct signals signals;
    struct tty tty;
    struct child child;
    int64_t acquired_ms;
};

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
    case RUN_SKIP:
        run->refusal.skip_quietly = true;
        return true;
    default:
        return lock_options_take(&run->acquire, option, why);
    }
}

/* -1: go on; else the exit code. */
static int run_options_check(struct run *run)
{
    if (run->cli->json && run->status_fd < 0 && run->outcome_path == NULL)
        return cli_args_usage(run->cli, "--json is for --status-fd and --outcome: the output of "
                                        "run is the command's");
    if (run->refusal.skip_quietly && !run->acquire.timed)
        run->acquire.timeout_ms = DLOCK_TRY;
    if (run->refusal.skip_quietly && run->refusal.conflict_code < 0)
        run->refusal.conflict_code = CLI_EXIT_OK;
    return lock_options_check(&run->acquire);
}

static bool is_run_option(const char *word)
{
    size_t len = strlen(word);

    for (const struct option *option = run_options; option->name != NULL; option++)
        if (len > 2 && strncmp(word, "--", 2) == 0 &&
            strncmp(option->name, word + 2, strcspn(word + 2, "=")) == 0)
            return true;
    return false;
}

/* An option that stands after NAME. */
static int option_misplaced(const struct run *run, const char *name, const char *word)
{
    if (!is_run_option(word))
        return cli_args_usage(run->cli, "run: options go before NAME, or write -- before CMD");
    return cli_args_usage(run->cli, "%s stands after NAME; write: dlock run %s ... %s -- CMD",
                          cli_output_printable(word, strlen(word)),
                          cli_output_printable(word, strlen(word)),
                          cli_output_printable(name, strlen(name)));
}

/* NAME and CMD. -1: go on; else the exit code. */
static int run_operands_read(struct run *run, int argc, char **argv)
{
    const char *name = argv[optind];

    if (optind >= argc)
        return cli_args_usage(run->cli, "run: NAME is missing");
    if (!cli_args_name(name, run->cli->name_hex, &run->name))
        return cli_args_usage(run->cli, "run: NAME is not hex, or too long");
    (void)snprintf(run->printable, sizeof run->printable, "%s",
                   cli_output_printable(run->name.bytes, run->name.len));
    optind++;
    if (optind < argc && strcmp(argv[optind], "--") == 0)
        optind++;
    else if (optind < argc && argv[optind][0] == '-')
        return option_misplaced(run, name, argv[optind]);
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
        if (!run_option_take(run, option, why))
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

static void refusal_write(struct run *run)
{
    enum dlock_status status = run->acquire.status;

    if (refusal_is_conflict(&run->acquire))
        outcome_write(&run->outcome, status == DLOCK_BUSY ? "busy" : "timeout", NULL);
    else
        outcome_write(&run->outcome, "failed",
                      json_pack("{s:s}", "status", dlock_status_name((int)status)));
}

static void acquired_report(struct run *run, const char *token, uint64_t fence)
{
    cli_output_say(run->cli, "server %s", dlock_client_server(run->acquire.client));
    if (fence != 0)
        cli_output_say(run->cli, "%s: acquired, fence %" PRIu64 ", token %s", run->printable, fence,
                       token);
    else
        cli_output_say(run->cli, "%s: acquired, token %s; this store gives no fencing tokens",
                       run->printable, token);
    outcome_write(&run->outcome, "acquired",
                  json_pack("{s:o, s:s}", "fence", cli_output_json_number(fence, fence != 0),
                            "token", token));
}

/* NULL: no memory. Caller frees with environment_free. */
static char **command_environment(struct run *run)
{
    char token[DLOCK_TOKEN_CHARS] = "";
    char *uri = NULL;
    bool known = cli_client_uri_for_child(run->cli, run->acquire.client, &uri);
    char **env = NULL;
    struct environment_lock lock = {
        .name = run->name.bytes,
        .name_len = run->name.len,
        .token = token,
        .fence = dlock_fence(run->acquire.lock),
        .uri = uri,
    };

    (void)dlock_token(run->acquire.lock, token, sizeof token);
    acquired_report(run, token, lock.fence);
    if (known)
        env = environment_new(&lock);
    free(uri);
    return env;
}

/* The command may be a whole command line in one word. */
static const char *shell_hint(char *const *command)
{
    if (command[1] != NULL || strpbrk(command[0], " \t\n;|&<>$`*") == NULL)
        return "";
    return "; a command line needs a shell: sh -c '...'";
}

/* 0, or the exit code. */
static int command_start(struct run *run)
{
    struct child_plan plan = {
        .argv = run->command,
        .signals = &run->signals,
        .tty = &run->tty,
        .die_with_us = !run->warn_only,
    };
    char **env = command_environment(run);
    bool in_exec = false;
    int error = ENOMEM;

    if (dlock_state(run->acquire.lock) == DLOCK_STATE_LOST) {
        cli_output_fail(run->cli, "%s: lock lost before the command was started", run->printable);
        supervise_loss_write(&run->outcome, DLOCK_REASON_EXPIRED);
        environment_free(env);
        return CLI_EXIT_LOST;
    }
    plan.env = env;
    if (env != NULL)
        error = child_start(&run->child, &plan, &in_exec);
    environment_free(env);
    if (error == 0)
        return 0;
    cli_output_fail(run->cli, "%s: %s%s",
                    cli_output_printable(run->command[0], strlen(run->command[0])), strerror(error),
                    in_exec && error == ENOENT ? shell_hint(run->command) : "");
    if (!in_exec)
        return CLI_EXIT_INTERNAL;
    return error == ENOENT || error == ENOTDIR ? CLI_EXIT_NOT_FOUND : CLI_EXIT_NOT_EXECUTABLE;
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
        .lock = run->acquire.lock,
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

/* Unlocks. The answer of the store may change the exit code. */
static int run_release(struct run *run, int exit_code)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = dlock_unlock(run->acquire.lock, &err);

    if (status == DLOCK_OK) {
        cli_output_say(run->cli, "%s: released", run->printable);
        outcome_write(&run->outcome, "released", NULL);
        return exit_code;
    }
    if (exit_code == CLI_EXIT_LOST)
        return exit_code;
    if (status == DLOCK_LOST) {
        cli_output_fail(run->cli,
                        "%s: lock lost: this run did not hold it any more when the command ended",
                        run->printable);
        supervise_loss_write(&run->outcome, DLOCK_REASON_TAKEN);
        return CLI_EXIT_LOST;
    }
    err.status = status;
    (void)cli_output_fail_status(run->cli, "unlock failed (the lock ends with its lease)", &err);
    outcome_write(&run->outcome, "unreleased",
                  json_pack("{s:s}", "status", dlock_status_name((int)status)));
    return exit_code;
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
    exit_code = run_release(run, exit_code);
    return exit_code;
}

static int run_all(struct run *run)
{
    int caught;
    int exit_code;

    if (signals_start(&run->signals) != 0) {
        cli_output_fail(run->cli, "signals: %s", strerror(errno));
        return CLI_EXIT_INTERNAL;
    }
    caught = acquire_lock(&run->acquire, &run->signals);
    run->acquired_ms = supervise_now_ms();
    if (caught != 0)
        run->acquire.status = DLOCK_CANCELED;
    if (run->acquire.status != DLOCK_OK)
        refusal_write(run);
    if (caught != 0)
        exit_code = CLI_EXIT_SIGNAL + caught;
    else if (run->acquire.status != DLOCK_OK)
        exit_code = refusal_report(&run->acquire, &run->refusal);
    else
        exit_code = run_locked(run);
    outcome_write(&run->outcome, "end", json_pack("{s:i}", "code", exit_code));
    acquire_fini(&run->acquire);
    if (run->outcome.error != 0)
        cli_output_fail(run->cli, "--status-fd, --outcome: lines are missing: %s",
                        strerror(run->outcome.error));
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
    exit_code = run_options_read(&run, argc, argv);
    if (exit_code < 0)
        exit_code = outcome_start(&run);
    if (exit_code >= 0)
        return exit_code;
    run.acquire.name = &run.name;
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
