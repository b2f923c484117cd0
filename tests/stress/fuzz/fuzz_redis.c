/* SPDX-License-Identifier: MIT */
/*
 * What the redis plugin makes of an answer, whatever it is: OK only for the answer that means OK.
 * The plugin is the real one, on a connection to a server in this process, which sets it up
 * properly and then says what the input says. The first byte chooses the question, the second one
 * how the answer is cut.
 */
#include "fuzz.h"
#include "redis_kit.h"

#include <ctype.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_MAX (1 << 17)
#define INFO                                                                           \
    "redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\nuptime_in_" \
    "seconds:99\r\nmaster_replid:0\r\n"
#define HELLO \
    "+OK\r\n$103\r\n" INFO "\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n-NOPERM no\r\n-NOPERM no\r\n"

enum question { GRANT, RELEASE, RENEWAL, HOLDERS, BREAK, QUESTIONS, NOT_OK = QUESTIONS };

struct fuzz_goal fuzz_goals[] = {[GRANT] = {"a grant", 0},
                                 [RELEASE] = {"a release", 0},
                                 [RENEWAL] = {"a renewal", 0},
                                 [HOLDERS] = {"holders", 0},
                                 [BREAK] = {"a break", 0},
                                 [NOT_OK] = {"not OK", 0},
                                 {NULL, 0}};

struct server {
    int fd; /* listens */
    char path[64];
    pthread_mutex_t guard; /* of the present input */
    char answer[ANSWER_MAX];
    size_t size;
    unsigned cut;
};

static struct server server = {.guard = PTHREAD_MUTEX_INITIALIZER};

/* Reads what there is of a question; false: the other end is gone. */
static int question_read(int fd)
{
    char bytes[1 << 16];
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    return poll(&poll_fd, 1, 5000) == 1 && read(fd, bytes, sizeof bytes) > 0;
}

static void say(int fd, const char *bytes, size_t size, unsigned cut)
{
    size_t at = 0;

    while (at < size) {
        size_t len = cut == 0 || size - at < cut ? size - at : cut;
        ssize_t sent = send(fd, bytes + at, len, MSG_NOSIGNAL);

        if (sent <= 0)
            return;
        at += (size_t)sent;
    }
}

/* Each connection: its beginning, then the answer, and the end. */
static void *serve(void *arg)
{
    (void)arg;
    for (;;) {
        int fd = accept(server.fd, NULL, NULL);

        if (fd < 0)
            abort();
        if (question_read(fd))
            say(fd, HELLO, sizeof HELLO - 1, 0);
        if (question_read(fd)) {
            (void)pthread_mutex_lock(&server.guard);
            say(fd, server.answer, server.size, server.cut);
            (void)pthread_mutex_unlock(&server.guard);
        }
        (void)close(fd);
    }
    return NULL;
}

static void listen_at(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)snprintf(server.path, sizeof server.path, "/tmp/dlock-fuzz-%d", (int)getpid());
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", server.path);
    (void)unlink(server.path);
    server.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server.fd < 0 || bind(server.fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(server.fd, 64) != 0)
        abort();
}

static void path_remove(void)
{
    (void)unlink(server.path);
}

static void start(void)
{
    pthread_t thread;

    listen_at();
    (void)atexit(path_remove);
    if (pthread_create(&thread, NULL, serve, NULL) != 0)
        abort();
    (void)pthread_detach(thread);
}

/* A new one is told the script with its body after "NOSCRIPT"; a connection closed, nothing. */
static const char *last_line(const char *text)
{
    if (strncmp(text, "-NOSCRIPT", 9) != 0)
        return text;
    text = strstr(text, "\r\n");
    return text != NULL ? text + 2 : "";
}

static void message_check(const struct dlock_error *err)
{
    for (const char *at = err->message; *at != '\0'; at++)
        FUZZ_CHECK(isprint((unsigned char)*at) || (unsigned char)*at >= 128, "byte %d",
                   (unsigned char)*at);
}

/* True: the text begins with an array whose first element is this. */
static int begins(const char *text, const char *element)
{
    const char *rest;

    if (text[0] != '*' || !isdigit((unsigned char)text[1]))
        return 0;
    rest = strstr(text, "\r\n");
    return rest != NULL && strncmp(rest + 2, element, strlen(element)) == 0;
}

/* The fence in "$<len>\r\n<fence> 1\r\n"; 0: it is nothing of the kind. */
static uint64_t fence_of(const char *text)
{
    char *end = NULL;
    const char *rest = strstr(text, "\r\n");
    uint64_t fence = 0;

    if (text[0] != '$' || rest == NULL || rest[2] < '1' || rest[2] > '9')
        return 0;
    fence = strtoull(rest + 2, &end, 10);
    return strncmp(end, " 1", 2) == 0 ? fence : 0;
}

static int freed(const char *text)
{
    return strncmp(text, ":1\r\n", 4) == 0 || begins(text, ":1\r\n");
}

static void ask(struct dlt_session *session, unsigned question, const char *answer)
{
    static struct dlt_holder holders[8];
    struct dlt_request request;
    size_t count = sizeof holders / sizeof holders[0];
    enum dlock_status status;

    dlt_request(session, &request, "job", 'a', 60000);
    switch (question) {
    case GRANT:
        status = dlt_try(session, &request);
        FUZZ_CHECK(status != DLOCK_OK || begins(answer, ":1\r\n") ||
                       fence_of(answer) == session->grant.fence,
                   "a grant of \"%s\"", answer);
        FUZZ_CHECK(status != DLOCK_OK || session->grant.fence > 0, "no fence");
        FUZZ_CHECK(status != DLOCK_OK || session->grant.lease_ms > 0, "a lease of %lld ms",
                   (long long)session->grant.lease_ms);
        break;
    case RELEASE:
        status = dlt_unlock(session, &request);
        FUZZ_CHECK(status != DLOCK_OK || freed(answer), "a release of \"%s\"", answer);
        break;
    case RENEWAL:
        status = dlt_renew(session, &request);
        FUZZ_CHECK(status != DLOCK_OK || begins(answer, "*"), "a renewal of \"%s\"", answer);
        FUZZ_CHECK(status != DLOCK_OK || strncmp(answer, "*1\r\n*2\r\n:0\r\n", 13) != 0,
                   "a renewal of nothing");
        break;
    case HOLDERS:
        status = dlt_inspect(session, "job", holders, &count);
        FUZZ_CHECK(status != DLOCK_OK || begins(answer, ""), "holders of \"%s\"", answer);
        break;
    default:
        status = dlt_break(session, "job", NULL);
        FUZZ_CHECK(status != DLOCK_OK || freed(answer), "a break of \"%s\"", answer);
        break;
    }
    fuzz_goals[status == DLOCK_OK ? question : NOT_OK].reached++;
    message_check(&session->err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct fuzz_input input = {bytes, size};
    unsigned question = fuzz_byte(&input) % QUESTIONS;
    struct dlt_session session;
    char *answer;

    (void)pthread_once(&once, start);
    (void)pthread_mutex_lock(&server.guard);
    server.cut = fuzz_byte(&input) % 16;
    server.size = input.left < ANSWER_MAX ? input.left : ANSWER_MAX;
    memcpy(server.answer, input.at, server.size);
    (void)pthread_mutex_unlock(&server.guard);
    answer = fuzz_text(&input);
    if (answer == NULL)
        return 0;
    dlt_session_init(&session, "redis+unix", server.path);
    dlt_session_option(&session, "sockets", "1");
    dlt_session_trusted(&session);
    FUZZ_CHECK(dlt_session_open(&session) == DLOCK_OK, "%s", session.err.message);
    ask(&session, question, last_line(answer));
    dlt_session_close(&session);
    free(answer);
    return 0;
}
