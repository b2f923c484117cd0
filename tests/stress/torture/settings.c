/* SPDX-License-Identifier: MIT */
#include "settings.h"

#include "shared.h"
#include "store_command.h"
#include "survivor.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FENCE_RULE  8 /* many locks show more of fences than long ones */
#define POLL_MS     200
#define FAILOVER_MS 15000 /* until a master is found, followed, and past its guard */

static void usage(FILE *to)
{
    (void)fprintf(
        to,
        "usage: dlock-torture --backend B [OPTION...]\n"
        "       dlock-torture --uri URI [--start-cmd CMD] ... [OPTION...]\n"
        "  --backend B      with servers of its own: %s\n"
        "  --uri URI        a store of yours, of any plugin that dlock finds; profile P, and\n"
        "                   C-amnesia if its server forgets its locks when it is killed\n"
        "  --start-cmd CMD  a command of the shell that starts the server and returns when\n"
        "                   it answers; without it the server has to be running\n"
        "  --kill-cmd CMD   kills the server, and it is started again\n"
        "  --stop-cmd CMD   stops the server (kill -STOP ...)\n"
        "  --cont-cmd CMD   lets it go on\n"
        "  --proxy ADDRESS  HOST:PORT of the store as it stands in the URI: the connections\n"
        "                   to it are cut, swallowed, delayed, sliced and held back\n"
        "  --profile P      %s (P)\n"
        "  --seed N         of the plan and of what clients do (1)\n"
        "  --duration T     with faults: 60s, 30m (10s)\n"
        "  --processes N    clients (4)\n"
        "  --threads N      in each (4)\n"
        "  --names N        that they want (3)\n"
        "  --ttl MS         of their leases (1000)\n"
        "  --think US       pause between two locks of a thread, on average (3000)\n"
        "  --slack MS       how late a call may return and a loss be told (1500)\n"
        "  --lone-guard     redis-sentinel, profile F: servers without min-replicas-to-write, so\n"
        "                   that nothing but the failover guard ends an old master\n"
        "  --guard-rule N off  a plugin of redis without rule FO-N of the failover guard: then\n"
        "                   something has to be found; redis-sentinel: with --lone-guard\n"
        "  --rival CMD      clients of another library, on redis or redis-sentinel\n"
        "  --until-seen     ends when shared memory has seen two at once\n"
        "  --keep DIR       a new directory for logs and pictures\n"
        "  --plan           prints what would be done, and when\n",
        backend_names(), profile_names());
}

static void usage_show(void)
{
    usage(stdout);
    exit(fflush(stdout) == 0 ? 0 : 1);
}

static bool number_of(const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *end = NULL;

    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *out >= least && *out <= most;
}

static bool count_of(const char *text, int64_t most, unsigned *out)
{
    int64_t number = 0;
    bool right = number_of(text, 1, most, &number);

    *out = (unsigned)number;
    return right;
}

static bool duration_of(const char *text, int64_t *ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    char *end = NULL;
    long long number = strtoll(text, &end, 10);

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (end != text && number > 0 && number < 1000000 && strcmp(end, units[i].unit) == 0) {
            *ms = number * units[i].ms;
            return true;
        }
    return false;
}

static bool option_set(struct settings *settings, int option, const char *text, int argc,
                       char **argv)
{
    switch (option) {
    case 'b':
        settings->backend = backend_find(text);
        return settings->backend != NULL;
    case 'p':
        settings->profile = profile_find(text);
        return settings->profile != NULL;
    case 's': {
        int64_t seed = 0;
        bool right = number_of(text, 0, INT64_MAX, &seed);

        settings->seed = (uint64_t)seed;
        return right;
    }
    case 'd':
        return duration_of(text, &settings->duration_ms);
    case 'c':
        return count_of(text, CLIENTS_MOST, &settings->processes);
    case 't':
        return count_of(text, PLACES_MOST, &settings->threads);
    case 'n':
        return count_of(text, NAMES_MOST, &settings->names);
    case 'l':
        return number_of(text, 100, 60000, &settings->ttl_ms);
    case 'u':
        return number_of(text, 0, 10000000, &settings->think_us);
    case 'k':
        return number_of(text, 1, 60000, &settings->slack_ms);
    case 'o':
        settings->keep = text;
        return true;
    case 'g': /* "N off", as two words */
        return optind < argc && strcmp(argv[optind++], "off") == 0 &&
               count_of(text, GUARD_RULES, &settings->guard_rule);
    case 'r':
        settings->rival = text;
        return *text != '\0';
    case 'a':
        return settings->lone_guard = true;
    case 'x':
        return settings->plan_only = true;
    case 'y':
        return settings->until_seen = true;
    case 'U':
        return (settings->commands.uri = text) != NULL;
    case 'S':
        return (settings->commands.start = text) != NULL;
    case 'T':
        return (settings->commands.stop = text) != NULL;
    case 'C':
        return (settings->commands.cont = text) != NULL;
    case 'K':
        return (settings->commands.kill = text) != NULL;
    case 'P':
        return (settings->commands.proxy = text) != NULL;
    default:
        return false;
    }
}

/* Where a rival can be, and what it does not say. */
static bool rival_fits(const struct settings *settings)
{
    const char *why = NULL;

    if (settings->rival == NULL)
        return true;
    if (settings->backend->majority ||
        (settings->backend->kind != STORE_REDIS && settings->backend->kind != STORE_SENTINEL))
        why = "--rival is for redis and redis-sentinel";
    else if (settings->until_seen)
        why = "--until-seen needs clients that look at shared memory, and a --rival does not";
    if (why != NULL)
        (void)fprintf(stderr, "dlock-torture: %s\n", why);
    return why == NULL;
}

/* Where the guard can be all that there is. */
static bool lone_guard_fits(struct settings *settings)
{
    bool can = settings->backend->kind == STORE_SENTINEL && settings->rival == NULL;

    settings->lone_guard |= settings->guard_rule != 0 && can;
    if (!settings->lone_guard || (can && settings->profile->guarded))
        return true;
    (void)fprintf(stderr, "dlock-torture: --lone-guard is for redis-sentinel and profile F, "
                          "without --rival\n");
    return false;
}

/* A plugin that lacks a rule is a program of the tests (mutants.cmake), and no option of the
 * plugin that users have. */
static bool guard_rule_fits(struct settings *settings)
{
    char path[PATH_MAX], library[PATH_MAX + 32];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    char *end = NULL;

    if (settings->guard_rule == 0)
        return true;
    path[len > 0 ? len : 0] = '\0';
    for (int up = 0; up < 2 && (end = strrchr(path, '/')) != NULL; up++)
        *end = '\0';
    (void)snprintf(library, sizeof library, "%s/guard-rules/%u", path, settings->guard_rule);
    if (!settings->profile->guarded || settings->rival != NULL) {
        (void)fprintf(stderr, "dlock-torture: --guard-rule is for profile F, without --rival\n");
        return false;
    }
    settings->profile = profile_without_rule(settings->guard_rule);
    if (settings->profile != NULL && access(library, R_OK | X_OK) == 0 &&
        setenv("DLOCK_PLUGIN_PATH", library, 1) == 0 &&
        (settings->guard_rule == FENCE_RULE || setenv(TORTURE_LONG_HOLDS, "1", 1) == 0))
        return true;
    (void)fprintf(stderr,
                  "dlock-torture: no plugin without rule FO-%u in %s (a build tree has it)\n",
                  settings->guard_rule, library);
    return false;
}

/* False: it has been said why. */
static bool commands_take(struct settings *settings)
{
    const struct store_commands *commands = &settings->commands;
    const char *why = NULL;

    if (settings->backend != NULL || (commands->stop == NULL) != (commands->cont == NULL))
        return false;
    settings->backend = store_command_backend(commands, &why);
    if (settings->backend == NULL)
        (void)fprintf(stderr, "dlock-torture: %s\n", why);
    return settings->backend != NULL;
}

static unsigned places_most(const struct settings *settings)
{
    return settings->profile->programs ? SURVIVORS_MOST : PLACES_MOST;
}

static bool sensible(struct settings *settings)
{
    if (settings->commands.uri != NULL && !commands_take(settings))
        return false;
    if (settings->backend == NULL)
        return false;
    if (settings->backend->kind == STORE_MEMORY) { /* it reaches no other process */
        settings->threads *= settings->processes;
        settings->processes = 1;
    }
    if (settings->processes * settings->threads > places_most(settings) || !rival_fits(settings) ||
        !guard_rule_fits(settings) || !lone_guard_fits(settings))
        return false;
    if (profile_faults(settings->profile, settings->backend) != 0)
        return true;
    (void)fprintf(stderr, "dlock-torture: no profile %s for %s\n", settings->profile->name,
                  settings->backend->name);
    return false;
}

bool settings_read(struct settings *settings, int argc, char **argv)
{
    static const struct option options[] = {
        {"backend", required_argument, NULL, 'b'},
        {"profile", required_argument, NULL, 'p'},
        {"seed", required_argument, NULL, 's'},
        {"duration", required_argument, NULL, 'd'},
        {"processes", required_argument, NULL, 'c'},
        {"threads", required_argument, NULL, 't'},
        {"names", required_argument, NULL, 'n'},
        {"ttl", required_argument, NULL, 'l'},
        {"think", required_argument, NULL, 'u'},
        {"slack", required_argument, NULL, 'k'},
        {"keep", required_argument, NULL, 'o'},
        {"plan", no_argument, NULL, 'x'},
        {"until-seen", no_argument, NULL, 'y'},
        {"uri", required_argument, NULL, 'U'},
        {"start-cmd", required_argument, NULL, 'S'},
        {"stop-cmd", required_argument, NULL, 'T'},
        {"cont-cmd", required_argument, NULL, 'C'},
        {"kill-cmd", required_argument, NULL, 'K'},
        {"proxy", required_argument, NULL, 'P'},
        {"guard-rule", required_argument, NULL, 'g'},
        {"lone-guard", no_argument, NULL, 'a'},
        {"rival", required_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;
    bool right = true;

    *settings = (struct settings){.profile = profile_find("P"),
                                  .seed = 1,
                                  .duration_ms = 10000,
                                  .ttl_ms = 1000,
                                  .slack_ms = 1500,
                                  .think_us = 3000,
                                  .processes = 4,
                                  .threads = 4,
                                  .names = 3};
    while (right && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'h')
            usage_show();
        else
            right = option_set(settings, option, optarg, argc, argv);
    }
    right = right && optind == argc && sensible(settings);
    if (!right)
        usage(stderr);
    return right;
}

int64_t settings_longest_ms(const struct settings *settings)
{
    return settings->guard_rule == 4 ? settings->ttl_ms / 4 : settings->ttl_ms;
}

int64_t settings_stall_ms(const struct settings *settings)
{
    int64_t lease_ms = settings->backend->lease_ms;

    return (lease_ms > 0 ? lease_ms : settings->ttl_ms) + settings->backend->place_ms + POLL_MS +
           settings->slack_ms + (store_fails_over(settings->backend) ? FAILOVER_MS : 0);
}
