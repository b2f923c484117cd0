/* SPDX-License-Identifier: MIT */
/*
 * A message of the postgresql plugin, from any sender, and the lines of an unlock's answer: a
 * waiter has the grant that another reader finds in the text for its token, or none. The first byte
 * chooses: a message, or the rows of an answer, with a NUL between two of them ("-" alone: a null).
 * There is no server: what is for other clients cannot be sent.
 */
#include "fuzz.h"
#include "pg_kit.h"
#include "row_lease.h"
#include "row_listener.h"

#include <regex.h>
#include <string.h>

#define CHANNEL   "dlock_00112233445566778899aabbccddeeff"
#define WAITERS   2
#define TEXT_MOST 4096

enum { GRANT, PERMIT, OVERTAKEN, STRANGER, NONSENSE, OTHERS };

struct fuzz_goal fuzz_goals[] = {[GRANT] = {"a grant", 0},
                                 [PERMIT] = {"a permit", 0},
                                 [OVERTAKEN] = {"an older grant", 0},
                                 [STRANGER] = {"a token of nobody", 0},
                                 [NONSENSE] = {"no message", 0},
                                 [OTHERS] = {"a line for another client", 0},
                                 {NULL, 0}};

struct reading {
    unsigned char token; /* of 16 equal bytes; 0: another one */
    long double fence, lease_ms, permit;
};

static struct {
    struct dlt_session session;
    struct pg_config config;
    struct pg_connection conn;
    struct pg_listener *listener;
    struct pg_waiter waiters[WAITERS];
    struct reading want[WAITERS];
    regex_t message;
} scene;

static long double number_of(const char *text, const regmatch_t *match)
{
    long double number = 0;

    for (regoff_t i = match->rm_so; i < match->rm_eo; i++)
        number = number * 10 + (text[i] - '0');
    return number;
}

/* "6161..." is the token of 16 bytes 'a'. */
static unsigned char token_of(const char *text)
{
    for (int i = 2; i < 2 * DLOCK_TOKEN_SIZE; i++)
        if (text[i] != text[i - 2])
            return 0;
    return (unsigned char)strtoul((const char[]){text[0], text[1], '\0'}, NULL, 16);
}

static bool read_otherwise(const char *text, struct reading *reading)
{
    regmatch_t parts[6];

    if (regexec(&scene.message, text, 6, parts, 0) != 0)
        return false;
    reading->token = token_of(text);
    reading->fence = number_of(text, &parts[2]);
    reading->lease_ms = number_of(text, &parts[3]);
    reading->permit = parts[5].rm_so < 0 ? 0 : number_of(text, &parts[5]);
    return reading->fence <= (long double)INT64_MAX && reading->lease_ms >= 1 &&
           reading->lease_ms < 1e12L && reading->permit < 1000;
}

/* A message as the waiters have to take it. */
static void message_expect(const char *text)
{
    struct reading reading;

    if (!read_otherwise(text, &reading)) {
        fuzz_goals[NONSENSE].reached++;
        return;
    }
    for (int i = 0; i < WAITERS; i++) {
        if (scene.waiters[i].base.token[0] != reading.token)
            continue;
        fuzz_goals[reading.fence > scene.want[i].fence ? GRANT : OVERTAKEN].reached++;
        fuzz_goals[PERMIT].reached += reading.permit > 0;
        if (reading.fence > scene.want[i].fence)
            scene.want[i] = reading;
        return;
    }
    fuzz_goals[STRANGER].reached++;
}

/* Lines of this client's channel. */
static void lines_expect(char *lines)
{
    char *rest = lines, *line = NULL;

    while ((line = strsep(&rest, "\n")) != NULL) {
        if (strncmp(line, CHANNEL " ", sizeof CHANNEL) == 0)
            message_expect(line + sizeof CHANNEL);
        else
            fuzz_goals[OTHERS].reached += line[0] != '\0';
    }
}

static void answer_feed(const uint8_t *bytes, size_t size)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    char name[] = "wake", row[TEXT_MOST + 1], lines[2 * TEXT_MOST];
    PGresAttDesc column = {.name = name};
    size_t used = 0;

    lines[0] = '\0';
    FUZZ_CHECK(result != NULL && PQsetResultAttrs(result, 1, &column) != 0, "no memory");
    for (int i = 0; size > 0; i++) {
        const size_t len = strnlen((const char *)bytes, size);
        const size_t step = len < size ? len + 1 : len;
        const bool is_null = len == 1 && bytes[0] == '-';

        memcpy(row, bytes, len);
        row[len] = '\0';
        FUZZ_CHECK(PQsetvalue(result, i, 0, row, is_null ? -1 : (int)len) != 0, "no memory");
        if (!is_null)
            used += (size_t)snprintf(lines + used, sizeof lines - used, "%s%s",
                                     used > 0 ? "\n" : "", row);
        size -= step;
        bytes += step;
    }
    lines_expect(lines);
    pg_row_lease_notify(&scene.conn, result);
    PQclear(result);
}

static void waiters_check(void)
{
    for (int i = 0; i < WAITERS; i++) {
        const struct pg_waiter *waiter = &scene.waiters[i];
        const struct reading *want = &scene.want[i];

        FUZZ_CHECK((long double)waiter->fence == want->fence &&
                       (long double)waiter->lease_ms == want->lease_ms &&
                       (long double)waiter->permit == want->permit,
                   "waiter %d has %llu %lld %u", i, (unsigned long long)waiter->fence,
                   (long long)waiter->lease_ms, waiter->permit);
    }
}

static void begin(void)
{
    struct pg_shared *shared = NULL;
    unsigned char token[DLOCK_TOKEN_SIZE];

    FUZZ_CHECK(regcomp(&scene.message, "^([0-9a-f]{32}) ([0-9]+) ([0-9]+)( ([0-9]+))?$",
                       REG_EXTENDED) == 0,
               "no expression");
    dlt_session_sql(&scene.session, dlock_plugin_postgresql(), "postgresql", "127.0.0.1:1");
    FUZZ_CHECK(pg_config_init(&scene.config, &scene.session.target, &scene.session.err) == DLOCK_OK,
               "%s", scene.session.err.message);
    shared = pg_shared_find(&scene.config, &scene.session.host.table);
    FUZZ_CHECK(shared != NULL, "no memory");
    scene.listener = pg_listener_get(shared);
    FUZZ_CHECK(scene.listener != NULL, "no listener");
    memcpy(scene.listener->channel, CHANNEL, sizeof CHANNEL);
    scene.conn = (struct pg_connection){.config = &scene.config,
                                        .host = &scene.session.host.table,
                                        .shared = shared,
                                        .wake_fd = -1,
                                        .pooled = true,
                                        .dead = true};
    for (int i = 0; i < WAITERS; i++) {
        memset(token, 'a' + i, sizeof token);
        pg_listener_add_locked(scene.listener, &scene.waiters[i], token);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct fuzz_input input = {bytes, size};
    const bool is_answer = fuzz_byte(&input) % 2 != 0;
    char *text = NULL;

    (void)pthread_once(&once, begin);
    if (input.left > TEXT_MOST)
        return 0;
    for (int i = 0; i < WAITERS; i++) {
        scene.waiters[i].fence = scene.waiters[i].permit = 0;
        scene.waiters[i].lease_ms = 0;
        scene.want[i] = (struct reading){.fence = 0};
    }
    if (is_answer) {
        answer_feed(input.at, input.left);
        waiters_check();
        return 0;
    }
    text = fuzz_text(&input);
    if (text == NULL)
        return 0;
    message_expect(text);
    pg_listener_deliver(scene.listener, text);
    waiters_check();
    free(text);
    return 0;
}
