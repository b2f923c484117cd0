/* SPDX-License-Identifier: MIT */
#include "output.h"
#include "exitcode.h"
#include "lib/text.h"

#include <dlock/dlock.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PRINTABLE_SLOTS 8
#define LINE_MAX_BYTES  2048

const char *cli_output_printable(const void *bytes, size_t len)
{
    static _Thread_local char slots[PRINTABLE_SLOTS][CLI_PRINTABLE_SIZE];
    static _Thread_local unsigned next;
    char *out = slots[next++ % PRINTABLE_SLOTS];

    return dl_printable_escape(out, CLI_PRINTABLE_SIZE, bytes, len);
}

/* "2026-11-22T16:12:01.123Z " */
static size_t time_put(char *out, size_t size)
{
    struct timespec now;
    struct tm parts;
    size_t len;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &parts) == NULL)
        return 0;
    len = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &parts);
    return len + (size_t)snprintf(out + len, size - len, ".%03ldZ ", now.tv_nsec / 1000000);
}

int cli_output_write(int fd, const char *line, size_t len, bool at_once)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    ssize_t n;

    if (at_once && poll(&room, 1, 0) == 0)
        return EAGAIN;
    n = write(fd, line, len);
    if (n < 0)
        return errno;
    return (size_t)n == len ? 0 : ENOSPC;
}

/* One write a line: lines of several processes on one terminal do not mix. */
__attribute__((format(printf, 2, 0))) static void line_write(const struct cli *cli,
                                                             const char *format, va_list args)
{
    char line[LINE_MAX_BYTES] = "dlock: ";
    size_t used = strlen(line);
    int n;

    if (cli->verbose > 1)
        used += time_put(line + used, sizeof line - used);
    n = vsnprintf(line + used, sizeof line - used - 1, format, args);
    if (n < 0)
        return;
    used += (size_t)n < sizeof line - used - 1 ? (size_t)n : sizeof line - used - 2;
    line[used++] = '\n';
    if (cli_output_write(STDERR_FILENO, line, used, atomic_load(&cli->holds)) != 0)
        errno = 0; /* there is no other way to report it */
}

void cli_output_fail(const struct cli *cli, const char *format, ...)
{
    va_list args;

    if (cli->quiet)
        return;
    va_start(args, format);
    line_write(cli, format, args);
    va_end(args);
}

void cli_output_say(const struct cli *cli, const char *format, ...)
{
    va_list args;

    if (cli->verbose == 0 || cli->quiet)
        return;
    va_start(args, format);
    line_write(cli, format, args);
    va_end(args);
}

int cli_output_fail_status(const struct cli *cli, const char *what, const struct dlock_error *err)
{
    const char *text = err->message[0] != '\0' ? err->message : dlock_status_text((int)err->status);

    if (what != NULL)
        cli_output_fail(cli, "%s: %s", what, text);
    else
        cli_output_fail(cli, "%s", text);
    for (uint32_t i = 0; i < err->node_count; i++)
        cli_output_fail(cli, "  %s: %s", err->nodes[i].node, err->nodes[i].message);
    return cli_exitcode_of(err->status);
}

json_t *cli_output_json_name(const void *name, size_t len)
{
    char hex[2 * (DLOCK_NAME_MAX + 1) + 1];
    json_t *text = json_stringn(name, len);

    dl_hex_encode(hex, name, len <= DLOCK_NAME_MAX ? len : DLOCK_NAME_MAX + 1);
    return json_pack("{s:o, s:s}", "name", text != NULL ? text : json_null(), "name_hex", hex);
}

json_t *cli_output_json_text(const char *text)
{
    json_t *value = text == NULL || text[0] == '\0' ? NULL : json_string(text);

    return value != NULL ? value : json_null();
}

json_t *cli_output_json_number(uint64_t value, bool known)
{
    return known ? json_integer((json_int_t)value) : json_null();
}

int cli_output_json_print(const struct cli *cli, json_t *value, int exit_code)
{
    int rc;

    if (value == NULL) {
        cli_output_fail(cli, "out of memory");
        return CLI_EXIT_INTERNAL;
    }
    rc = json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    json_decref(value);
    if (rc == 0)
        (void)putchar('\n');
    return cli_output_close(cli, exit_code);
}

int cli_output_close(const struct cli *cli, int exit_code)
{
    errno = 0;
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return exit_code;
    cli_output_fail(cli, "standard output: %s", errno != 0 ? strerror(errno) : "cannot be written");
    return CLI_EXIT_INTERNAL;
}

static const struct {
    uint64_t bit;
    const char *name;
} words[] = {
    {DLOCK_CAP_RWLOCK, "rwlock"},
    {DLOCK_CAP_DOWNGRADE, "downgrade"},
    {DLOCK_CAP_FENCE, "fence"},
    {DLOCK_CAP_FENCE_DURABLE, "fence-durable"},
    {DLOCK_CAP_CRASH_SAFE, "crash-safe"},
    {DLOCK_CAP_NATIVE_WAIT, "native-wait"},
    {DLOCK_CAP_WATCH, "watch"},
    {DLOCK_CAP_QUEUE, "queue"},
    {DLOCK_CAP_SESSION, "session"},
    {DLOCK_CAP_CONCURRENT, "concurrent"},
    {DLOCK_CAP_PRIVATE, "private"},
    {DLOCK_CAP_TETHERED, "tethered"},
    {DLOCK_CAP_LIMIT, "limit"},
    {DLOCK_CAP_KEEP, "keep"},
    {DLOCK_CAP_DATA, "data"},
    {DLOCK_CAP_FAILOVER_SAFE, "failover-safe"},
    {DLOCK_CAP_NO_TTL, "no-ttl"},
};

#define WORDS_COUNT (sizeof words / sizeof words[0])

#define CAP_NUMBER(name) NUMBER_##name,
enum { DLOCK_CAP_MAP(CAP_NUMBER) CAPS_COUNT };
#undef CAP_NUMBER
_Static_assert(WORDS_COUNT == CAPS_COUNT, "a capability has no word");

json_t *cli_output_caps_json(uint64_t caps)
{
    json_t *names = json_array();

    for (size_t i = 0; i < WORDS_COUNT; i++)
        if ((caps & words[i].bit) != 0)
            (void)json_array_append_new(names, json_string(words[i].name));
    return names;
}

void cli_output_caps(uint64_t caps)
{
    for (size_t i = 0; i < WORDS_COUNT; i++)
        if ((caps & words[i].bit) != 0)
            (void)printf(" %s", words[i].name);
}

struct words {
    const char *word, *text;
};

static const struct words reasons[] = {
    [DLOCK_REASON_EXPIRED] = {"expired", "it was not renewed in time"},
    [DLOCK_REASON_TAKEN] = {"taken", "it was broken or taken away"},
    [DLOCK_REASON_MAX_HOLD] = {"max-hold", "max_hold has passed"},
    [DLOCK_REASON_SESSION] = {"session", "the session that it belonged to ended"},
};

static const struct words *words_of(enum dlock_reason reason)
{
    size_t at = (size_t)reason;

    return &reasons[at > 0 && at < sizeof reasons / sizeof reasons[0] ? at : DLOCK_REASON_EXPIRED];
}

const char *cli_output_loss_word(enum dlock_reason reason)
{
    return words_of(reason)->word;
}

const char *cli_output_loss(enum dlock_reason reason)
{
    return words_of(reason)->text;
}
