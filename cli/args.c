/* SPDX-License-Identifier: MIT */
#include "args.h"
#include "client.h"
#include "exitcode.h"
#include "lib/text.h"
#include "output.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MAX ((size_t)32)

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to add, to drop, to change, or neighbours to swap; both words have at most WORD_MAX. */
static size_t distance_of(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t before[WORD_MAX + 1] = {0}, last[WORD_MAX + 1] = {0}, row[WORD_MAX + 1];

    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        memcpy(before, last, sizeof before);
        memcpy(last, row, sizeof last);
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            row[j] = least(least(row[j - 1], last[j]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return row[b_len];
}

void suggest_try(struct suggest *suggest, const char *known)
{
    size_t len = strlen(known);
    size_t distance;

    if (suggest->len > WORD_MAX || len > WORD_MAX)
        return;
    distance = distance_of(suggest->typed, suggest->len, known, len);
    if (3 * distance > (len > 3 ? len : 3))
        return;
    if (suggest->best == NULL || distance < suggest->distance) {
        suggest->best = known;
        suggest->distance = distance;
    }
}

#define OPTIONS_MAX 32
#define SHORTS_SIZE 24

static const char help[] =
    "usage: dlock [-u URI] [--json] [-q] [-v] COMMAND ...\n"
    "\n"
    "  run [OPTIONS] NAME [--] CMD [ARG ...]   run CMD while holding the lock NAME\n"
    "  run [OPTIONS] -n NAME -n NAME ... [--] CMD [ARG ...]   hold all names, or none\n"
    "      --ttl D            length of the lease: the lock outlives a crash by it (30s); none\n"
    "      --wait D           give up after D and exit 75 (default: wait forever)\n"
    "      --nowait           give up at once if the lock is held\n"
    "      --shared           share the lock with other --shared runs\n"
    "      --on-lost kill|warn   what happens to CMD when the lock is lost (kill)\n"
    "      --kill-after D     time from SIGTERM to SIGKILL, at most (5s)\n"
    "      --max-hold D       hold the lock for at most D; CMD is ended before\n"
    "      --label TEXT       a text that inspect and list show\n"
    "      --data TEXT        a text that inspect and observe show while the lock is held\n"
    "      --limit N          a semaphore: N runs at once; DLOCK_PERMIT is 0 to N-1\n"
    "      --keep D           after CMD succeeded, nobody gets NAME until D after its start\n"
    "      --once-per D       ... until the end of the period of D, in UTC: 1h, 1d\n"
    "      --keep-always      ... also if CMD failed\n"
    "      --contain          end all that CMD has started, daemons too, with CMD or dlock\n"
    "      --conflict-exit-code N   instead of 75 if another owner holds the lock\n"
    "      --skip-quietly     exit 0 and print nothing if another owner holds the lock\n"
    "      --again            after a loss, wait for the lock again and run CMD again\n"
    "      --join             run CMD at once if an enclosing run holds NAME\n"
    "      --status-fd N      write the events of the lock and of CMD to descriptor N\n"
    "      --outcome FILE     write them to a file\n"
    "      --metrics FILE     write what was counted, for Prometheus: at the end, and every 10 s\n"
    "  acquire [OPTIONS] NAME print token and fence; the lock ends with its ttl\n"
    "  hold [OPTIONS] [--until input|signal|parent] NAME   hold the lock until standard input is\n"
    "                         closed, or SIGTERM or SIGINT comes, or the parent ends\n"
    "                         OPTIONS of both: --ttl --wait --nowait --shared --label --data\n"
    "                         --limit\n"
    "  renew NAME --token T [--ttl D]   renew what acquire took\n"
    "  release NAME --token T   release it; both exit 70 if T does not hold NAME\n"
    "  inspect [--waiters] NAME   the holders of NAME, and its queue; exits 0: held, 1: free\n"
    "  why [--also URI] NAME  the holder of NAME, its process, and what it waits for itself;\n"
    "                         names a deadlock, also over several stores\n"
    "  list [PREFIX]          the locks that are held\n"
    "  top [--every D] [--once] [PREFIX]   the same as a table, drawn again each second\n"
    "  observe NAME           print a line of JSON each time another owner holds NAME\n"
    "  break NAME [--owner TOKEN] [--yes]   end the lease of the holder of NAME\n"
    "  backends               the plugins that are installed\n"
    "  doctor [--strict]      check how the store is configured; prints advice\n"
    "                         --strict: exit 1 if there is advice\n"
    "  doctor --watch D [--metrics FILE]   every D, take and release a lock, and check the store\n"
    "  new-plugin NAME [DIR]  make a tree for a plugin of your own\n"
    "\n"
    "  -u, --uri URI          the store (default: $DLOCK_URI, then a SQLite file of this user)\n"
    "      --json             print JSON\n"
    "      --name-hex         NAME or PREFIX is given in hex\n"
    "  -q, --quiet            print no messages\n"
    "  -v, --verbose          print what happens; twice: print details\n"
    "      --version, --help\n"
    "\n"
    "Durations: 500ms, 30s, 5m, 2h, 7d.\n"
    "CMD's own exit code, 128+n when signal n ended it; 64 usage, 66 no such store,\n"
    "69 store unavailable, 70 lock lost, 71 internal, 75 busy, 76 protocol,\n"
    "77 authentication, 78 configuration, 126 CMD cannot be executed, 127 CMD not found.\n"
    "See dlock(1).\n";

enum { OPTION_JSON = 256, OPTION_NAME_HEX }; /* no short ones */

static const struct option globals[] = {
    {"uri", required_argument, NULL, 'u'},
    {"json", no_argument, NULL, OPTION_JSON},
    {"name-hex", no_argument, NULL, OPTION_NAME_HEX},
    {"quiet", no_argument, NULL, 'q'},
    {"verbose", no_argument, NULL, 'v'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* What --help prints. */
static void cli_args_help(void)
{
    (void)fputs(help, stdout);
}

int cli_args_usage(const struct cli *cli, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cli_output_fail(cli, "%s (see dlock --help)", text);
    return CLI_EXIT_USAGE;
}

static void tables_join(struct option *out, const struct option *own)
{
    size_t n = 0;

    for (; own->name != NULL && n < OPTIONS_MAX; own++)
        out[n++] = *own;
    for (const struct option *global = globals; global->name != NULL; global++)
        out[n++] = *global;
    out[n] = (struct option){0};
}

/* "unknown", with the nearest option. */
static const char *unknown_complaint(const struct option *table, const char *text, char begun[96])
{
    struct suggest suggest = {.typed = text, .len = strcspn(text, "=")};

    for (; table->name != NULL; table++)
        suggest_try(&suggest, table->name);
    if (suggest.best == NULL)
        return "unknown";
    (void)snprintf(begun, 96, "--%s?", suggest.best);
    return "unknown; did you mean ";
}

/* The defect of the long option `text`; begun gets the names that begin with it. */
static const char *long_complaint(const struct option *table, const char *text, char begun[96])
{
    const struct option *all = table;
    size_t len = strcspn(text, "=");
    size_t used = 0;
    int count = 0;

    for (; table->name != NULL; table++) {
        if (strncmp(table->name, text, len) != 0)
            continue;
        if (table->name[len] == '\0')
            return "takes no value";
        count++;
        if (used < 96)
            used += (size_t)snprintf(begun + used, 96 - used, "%s--%s", count > 1 ? ", " : "",
                                     table->name);
    }
    if (count == 0 || len == 0)
        return unknown_complaint(all, text, begun);
    return count == 1 ? "takes no value" : "ambiguous: ";
}

/* optopt is a short option, the val of a long option, or 0 for an unknown long option, whose value
 * may be a URI with a password (C17). */
static int option_complain(const struct cli *cli, int found, const struct option *table,
                           char **argv)
{
    const char *what = found == ':' ? "needs a value" : "unknown";
    char begun[96] = "";
    char text[64];

    if (optopt > 0 && optopt < OPTION_JSON && strchr("uqvVh", optopt) == NULL) {
        (void)snprintf(text, sizeof text, "-%c", optopt);
    } else {
        size_t len = strcspn(argv[optind - 1], "=");

        (void)snprintf(text, sizeof text, "%.*s", len < 60 ? (int)len : 60, argv[optind - 1]);
        if (found != ':' && strncmp(text, "--", 2) == 0)
            what = long_complaint(table, text + 2, begun);
    }
    return cli_args_usage(cli, "option %s: %s%s", cli_output_printable(text, strlen(text)), what,
                          what[strlen(what) - 1] == ' ' ? begun : "");
}

const char *cli_args_uri(char *word, char **secret)
{
    char *rest = strstr(word, "://");

    *secret = cli_client_uri_is_secret(word) ? strdup(word) : NULL;
    if (*secret == NULL)
        return word;
    rest = rest != NULL ? rest + 3 : word;
    memset(rest, '*', strlen(rest));
    return *secret;
}

void cli_args_uri_free(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

static void uri_take(struct cli *cli, char *text)
{
    cli_args_fini(cli);
    cli->uri = cli_args_uri(text, &cli->secret_uri);
}

void cli_args_fini(struct cli *cli)
{
    cli_args_uri_free(cli->secret_uri);
    cli->secret_uri = NULL;
    cli->uri = NULL;
}

static bool global_take(struct cli *cli, int found)
{
    switch (found) {
    case 'u':
        uri_take(cli, optarg);
        return true;
    case OPTION_JSON:
        cli->json = true;
        return true;
    case OPTION_NAME_HEX:
        cli->name_hex = true;
        return true;
    case 'q':
        cli->quiet = true;
        return true;
    case 'v':
        cli->verbose++;
        return true;
    default:
        return false;
    }
}

/* The short options for getopt: the global ones, and those of own whose val is a character. */
static void shorts_make(char out[SHORTS_SIZE], const struct option *own, bool stop_early)
{
    size_t n = (size_t)snprintf(out, SHORTS_SIZE, "%s:u:qvVh", stop_early ? "+" : "");

    for (; own->name != NULL && n + 3 < SHORTS_SIZE; own++) {
        if (own->val >= OPTION_JSON)
            continue;
        out[n++] = (char)own->val;
        if (own->has_arg == required_argument)
            out[n++] = ':';
        out[n] = '\0';
    }
}

int cli_args_next(struct cli *cli, int argc, char **argv, const struct option *own, bool stop_early,
                  int *exit_code)
{
    struct option table[OPTIONS_MAX + sizeof globals / sizeof globals[0]];
    char shorts[SHORTS_SIZE];
    int found;

    tables_join(table, own);
    shorts_make(shorts, own, stop_early);
    opterr = 0;
    do
        found = getopt_long(argc, argv, shorts, table, NULL);
    while (global_take(cli, found));

    switch (found) {
    case 'V':
        (void)printf("dlock %s\n", dlock_version());
        *exit_code = cli_output_close(cli, CLI_EXIT_OK);
        return -2;
    case 'h':
        cli_args_help();
        *exit_code = cli_output_close(cli, CLI_EXIT_OK);
        return -2;
    case ':':
    case '?':
        *exit_code = option_complain(cli, found, table, argv);
        return -2;
    default:
        return found;
    }
}

static bool is_option(const struct option *own, const char *word)
{
    size_t len = strlen(word);

    for (; own->name != NULL; own++)
        if (len > 2 && strncmp(word, "--", 2) == 0 &&
            strncmp(own->name, word + 2, strcspn(word + 2, "=")) == 0)
            return true;
    return false;
}

int cli_args_misplaced(const struct cli *cli, const struct option *own, const char *name,
                       const char *word)
{
    if (!is_option(own, word))
        return cli_args_usage(cli, "run: options go before NAME, or write -- before CMD");
    return cli_args_usage(cli, "%s stands after NAME; write: dlock run %s ... %s -- CMD",
                          cli_output_printable(word, strlen(word)),
                          cli_output_printable(word, strlen(word)),
                          cli_output_printable(name, strlen(name)));
}

#define DAY_MS INT64_C(86400000)

const struct cli_duration cli_ttl = {50, 7 * DAY_MS, "none|50ms..7d", false};
const struct cli_duration cli_wait = {0, 365 * DAY_MS, "forever|0..365d", true};
const struct cli_duration cli_max_hold = {0, 365 * DAY_MS, "0..365d", false};
const struct cli_duration cli_keep = {1, 7 * DAY_MS, "1ms..7d", false};
const struct cli_duration cli_kill_after = {0, 365 * DAY_MS, "0..365d", false};

bool cli_args_duration(const char *text, const struct cli_duration *kind, int64_t *ms,
                       char why[CLI_WHY])
{
    const char *refused = NULL;

    if (kind->forever && strcmp(text, "forever") == 0) {
        *ms = DLOCK_FOREVER;
        return true;
    }
    if (kind == &cli_ttl && strcmp(text, "none") == 0) {
        *ms = DLOCK_TTL_NONE;
        return true;
    }
    refused = dl_quantity_duration(text, ms);
    if (refused == NULL && *ms >= kind->min_ms && *ms <= kind->max_ms)
        return true;
    if (refused != NULL)
        (void)snprintf(why, CLI_WHY, "%s", refused);
    else
        (void)snprintf(why, CLI_WHY, "is not in %s", kind->range);
    return false;
}

bool cli_args_number(const char *text, long min, long max, long *out)
{
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    *out = strtol(text, &end, 10);
    return errno == 0 && *end == '\0' && *out >= min && *out <= max;
}

bool cli_args_name(const char *text, bool hex, struct cli_name *out)
{
    size_t len = strlen(text);

    out->bytes = text;
    out->len = len;
    if (!hex)
        return true;
    if (len % 2 != 0 || len / 2 > sizeof out->buffer)
        return false;
    for (size_t i = 0; i < len / 2; i++) {
        int byte = dl_hex_byte(text + 2 * i);

        if (byte < 0)
            return false;
        out->buffer[i] = (unsigned char)byte;
    }
    out->bytes = out->buffer;
    out->len = len / 2;
    return true;
}

int cli_args_name_operand(const struct cli *cli, int argc, char **argv, struct cli_name *name)
{
    if (argc - optind != 1)
        return cli_args_usage(cli, "%s: exactly one NAME is needed", argv[0]);
    if (!cli_args_name(argv[optind], cli->name_hex, name))
        return cli_args_usage(cli, "%s: NAME is not hex, or too long", argv[0]);
    return -1;
}

bool cli_args_is_token(const char *text)
{
    return strlen(text) == DLOCK_TOKEN_CHARS - 1 &&
           strspn(text, "0123456789abcdef") == DLOCK_TOKEN_CHARS - 1;
}
