/* SPDX-License-Identifier: MIT */
/* Tests: plugins/net/address.c plugins/net/resolve.c plugins/net/spin.c plugins/resp/command.c */
/* The parts of plugins/net and plugins/resp that need no server: addresses, spinning, commands. */
#include "fake_host.h"
#include "link/connection.h"
#include "net/resolve.h"
#include "net/spin.h"
#include "net/stream.h"
#include "resp/command.h"
#include "resp/guard.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

Test(support, addresses)
{
    static const struct {
        const char *text, *host;
        uint16_t port; /* 0: refused */
    } cases[] = {
        {"db1", "db1", 6379},
        {"db1:1", "db1", 1},
        {"127.0.0.1:65535", "127.0.0.1", 65535},
        {"[::1]", "::1", 6379},
        {"[fe80::1]:7", "fe80::1", 7},
        {"", "", 0},
        {":1", "", 0},
        {"h:", "", 0},
        {"h:0", "", 0},
        {"h:65536", "", 0},
        {"h:1x", "", 0},
        {"[::1", "", 0},
        {"[::1]x", "", 0},
        {"[]:1", "", 0},
        {"h:99999999999", "", 0},
    };
    char text[300];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct address address = {.port = 0};
        bool fine = address_parse(&address, cases[i].text, 6379);

        cr_assert_eq(fine, cases[i].port != 0, "%s", cases[i].text);
        if (!fine)
            continue;
        cr_assert_str_eq(address.host, cases[i].host);
        cr_assert_eq(address.port, cases[i].port);
    }
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    cr_assert_not(address_parse(&(struct address){.port = 0}, text, 1));
}

static int option_of(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof value;

    return getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
}

Test(support, a_vanished_peer_is_noticed_in_seconds)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_geq(fd, 0);
    stream_keep_alive(fd);
    cr_assert_eq(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    cr_assert_leq(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
                      option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL) *
                          option_of(fd, IPPROTO_TCP, TCP_KEEPCNT),
                  12);
    cr_assert_eq(option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 12000);
    (void)close(fd);
}

#define US INT64_C(1000)

static void answer_after(struct spin *spin, int64_t *now_ns, int64_t ns)
{
    spin_begin(spin, *now_ns);
    *now_ns += ns;
    spin_end(spin, *now_ns, true);
}

Test(support, spin_only_while_answers_are_fast)
{
    struct spin spin;
    int64_t now_ns = 1;

    spin_init(&spin, 4);
    spin_begin(&spin, now_ns);
    cr_assert(spin_more(&spin, now_ns + 99 * US), "nothing is known yet");
    cr_assert_not(spin_more(&spin, now_ns + 100 * US), "bounded");
    cr_assert_not(spin_more(&spin, now_ns), "once over, over");
    spin_end(&spin, now_ns, false);
    for (int i = 0; i < 50; i++)
        answer_after(&spin, &now_ns, 20 * US);
    spin_begin(&spin, now_ns);
    cr_assert(spin_more(&spin, now_ns + 39 * US));
    cr_assert_not(spin_more(&spin, now_ns + 41 * US), "twice the average");
    spin_end(&spin, now_ns, false);
    for (int i = 0; i < 50; i++)
        answer_after(&spin, &now_ns, 1000 * US);
    spin_begin(&spin, now_ns);
    cr_assert_not(spin_more(&spin, now_ns), "slow: sleep");
    spin_end(&spin, now_ns, false);
    for (int i = 0; i < 50; i++)
        answer_after(&spin, &now_ns, 60 * US);
    spin_begin(&spin, now_ns);
    cr_assert(spin_more(&spin, now_ns), "fast again");
    spin_end(&spin, now_ns, false);
}

/* Fast enough on average, but somebody else has the processor whenever it matters. */
Test(support, spin_rests_when_it_is_in_vain)
{
    struct spin spin;
    int64_t now_ns = 1;
    int spun = 0;

    spin_init(&spin, 4);
    for (int i = 0; i < 1000; i++) {
        spin_begin(&spin, now_ns);
        spun += spin_more(&spin, now_ns);
        now_ns += i % 2 == 0 ? 10 * US : 140 * US;
        spin_end(&spin, now_ns, true);
    }
    cr_assert_gt(spun, 16, "it tries again");
    cr_assert_lt(spun, 100, "but seldom: %d", spun);
    for (int i = 0; i < 2 * SPIN_REST; i++)
        answer_after(&spin, &now_ns, 20 * US);
    spun = 0;
    for (int i = 0; i < 100; i++) {
        spin_begin(&spin, now_ns);
        spun += spin_more(&spin, now_ns);
        now_ns += i % 10 == 0 ? 120 * US : 20 * US;
        spin_end(&spin, now_ns, true);
    }
    cr_assert_eq(spun, 100, "one in ten is no reason: %d", spun);
}

Test(support, spin_never_with_one_processor_and_never_all_at_once)
{
    struct spin one, two, three;

    spin_init(&one, 1);
    spin_begin(&one, 0);
    cr_assert_not(spin_more(&one, 0));
    spin_end(&one, 0, true);
    spin_init(&one, 4);
    spin_init(&two, 4);
    spin_init(&three, 4);
    spin_begin(&one, 0);
    spin_begin(&two, 0);
    spin_begin(&three, 0);
    cr_assert(spin_more(&one, 1));
    cr_assert(spin_more(&two, 1));
    cr_assert_not(spin_more(&three, 1), "half the processors");
    spin_end(&one, 1, true);
    spin_begin(&three, 1);
    cr_assert(spin_more(&three, 2), "there is room again");
    spin_end(&two, 2, true);
    spin_end(&three, 2, true);
}

/* A thread of the parent may have been at it. */
Test(support, spin_begins_anew_in_a_child)
{
    struct spin one, two;
    int status = 0;
    pid_t pid = 0;

    spin_init(&one, 2);
    spin_init(&two, 2);
    spin_begin(&one, 0);
    cr_assert(spin_more(&one, 1));
    pid = fork();
    if (pid == 0) {
        spin_begin(&two, 0);
        _exit(spin_more(&two, 1) ? 0 : 1);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    spin_begin(&two, 0);
    cr_assert_not(spin_more(&two, 1), "the parent's goes on");
    spin_end(&one, 2, true);
    spin_end(&two, 2, true);
}

/* C11: whatever is in a word, it stays one word. */
Test(support, commands_are_words_with_lengths)
{
    struct resp_command command;
    size_t len = 0;
    char *bytes = NULL;

    resp_command_begin(&command);
    resp_command_text(&command, "SET");
    resp_command_add(&command, "a\r\n\0%s", 6);
    bytes = resp_command_format(&command, &len);
    cr_assert_not_null(bytes);
    cr_assert_eq(len, 25);
    cr_assert_eq(memcmp(bytes, "*2\r\n$3\r\nSET\r\n$6\r\na\r\n\0%s\r\n", len), 0);
    free(bytes);
    for (int i = 0; i < RESP_WORDS_MAX; i++)
        resp_command_text(&command, "x");
    cr_assert_null(resp_command_format(&command, &len), "too many are not cut");
}

static struct dlt_host host;

/* A stream whose peer does not read, and one whose peer is gone. */
static void stream_pair(struct stream *stream, int *peer)
{
    int fds[2];

    dlt_host_init_running(&host);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    stream_init(stream, &host.table);
    stream->fd = fds[0];
    *peer = fds[1];
}

/* TRY-4: between "nothing has left" and "something may have" there is UNKNOWN. */
Test(support, TRY_4_a_question_that_was_sent_in_part_is_unknown)
{
    static char big[1 << 22];
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct resp_config place = {.endpoint = "test"};
    struct redis_connection link = {.config = &place};
    bool begun = false;
    int peer = -1;

    stream_pair(&link.stream, &peer);
    cr_assert_eq(redis_connection_send(&link, big, sizeof big, dlt_host_in(&host, 100), &err),
                 DLOCK_UNKNOWN);
    cr_assert_eq(stream_send(&link.stream, big, 1, dlt_host_in(&host, 50), &begun), STREAM_TIMEOUT);
    cr_assert_not(begun, "no room for a single byte");
    (void)close(peer);
    cr_assert_eq(redis_connection_send(&link, big, 1, dlt_host_in(&host, 1000), &err),
                 DLOCK_UNAVAILABLE, "and no SIGPIPE");
    stream_close(&link.stream);
}

Test(support, streams_know_silence_from_speech_and_from_an_end)
{
    struct stream stream;
    int peer = -1;

    stream_pair(&stream, &peer);
    cr_assert(stream_idle(&stream));
    cr_assert_eq(write(peer, "x", 1), 1);
    cr_assert_not(stream_idle(&stream));
    cr_assert(strstr(stream.why, "without being asked") != NULL);
    stream_close(&stream);
    (void)close(peer);
    stream_pair(&stream, &peer);
    (void)close(peer);
    cr_assert_not(stream_idle(&stream));
    cr_assert(strstr(stream.why, "closed") != NULL);
    stream_close(&stream);
    stream_close(&stream);
}

/* C8: a name is looked up elsewhere, and not waited for. */
Test(support, C8_a_name_is_looked_up_no_longer_than_there_is_time)
{
    struct addrinfo *list = NULL;
    int64_t begin = 0;

    dlt_host_init_running(&host);
    begin = dlt_host_now(&host);
    cr_assert_eq(resolve_host("localhost", 1, &host.table, begin, &list), EAI_AGAIN,
                 "the deadline has passed already");
    cr_assert_null(list);
    cr_assert_eq(resolve_host("::1", 1, &host.table, begin, &list), 0, "numbers need no time");
    freeaddrinfo(list);
    cr_assert_eq(resolve_host("localhost", 1, &host.table, dlt_host_in(&host, 10000), &list), 0);
    freeaddrinfo(list);
}

/* In place of the C library's: for one name no server answers. */
static _Atomic int asked, hanging;
int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    if ((hints->ai_flags & AI_NUMERICHOST) != 0 || strcmp(name, "hangs") != 0) {
        if (real == NULL)
            *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
        return real(name, service, hints, out);
    }
    atomic_fetch_add(&asked, 1);
    while (atomic_load(&hanging) != 0)
        (void)usleep(1000);
    return EAI_NONAME;
}

/* Whoever looks up again and again does not fill the process with threads. */
Test(support, C8_look_ups_that_hang_are_few)
{
    struct addrinfo *list = NULL;

    dlt_host_init_running(&host);
    atomic_store(&hanging, 1);
    for (int i = 0; i < 3 * RESOLVE_LEFT_MOST; i++)
        cr_assert_eq(resolve_host("hangs", 1, &host.table, dlt_host_in(&host, 20), &list),
                     EAI_AGAIN);
    cr_assert_leq(atomic_load(&asked), RESOLVE_LEFT_MOST, "%d", atomic_load(&asked));
    atomic_store(&hanging, 0);
    /* When they have come back others may ask. */
    while (resolve_host("hangs", 1, &host.table, dlt_host_in(&host, 10000), &list) == EAI_AGAIN)
        (void)usleep(1000);
}

/* While the machine is suspended the host's clock goes on, and the kernel's waits do not. */
static void *suspend(void *arg)
{
    (void)arg;
    (void)usleep(100000);
    host.now_ns += INT64_C(7200) * 1000000000;
    return NULL;
}

/* C8: the deadline is an hour away when the wait begins; after a suspend of two hours it is over.
 */
Test(support, C8_a_wait_that_a_suspend_made_too_long_ends)
{
    struct addrinfo *list = NULL;
    struct stream stream;
    pthread_t suspender;
    char byte = 0;
    size_t received = 0;
    int peer = -1;

    dlt_host_init_running(&host);
    atomic_store(&hanging, 1);
    cr_assert_eq(pthread_create(&suspender, NULL, suspend, NULL), 0);
    cr_assert_eq(resolve_host("hangs", 1, &host.table, dlt_host_in(&host, 3600000), &list),
                 EAI_AGAIN);
    atomic_store(&hanging, 0);
    (void)pthread_join(suspender, NULL);

    stream_pair(&stream, &peer);
    cr_assert_eq(pthread_create(&suspender, NULL, suspend, NULL), 0);
    cr_assert_eq(stream_receive(&stream, &byte, 1, dlt_host_in(&host, 3600000), &received),
                 STREAM_TIMEOUT);
    (void)pthread_join(suspender, NULL);
    stream_close(&stream);
    (void)close(peer);
}

/* Contract, section 3 (d): a whole second is added for those that the server does not count; a
 * clock that was set back since the start makes the guard no longer than it is. */
Test(guard, restart_guard_by_what_the_server_says)
{
    cr_assert_eq(resp_guard_left_ms(30000, 0), 31000);
    cr_assert_eq(resp_guard_left_ms(30000, 30), 1000);
    cr_assert_eq(resp_guard_left_ms(30500, 31), 500);
    cr_assert_eq(resp_guard_left_ms(30000, 31), 0);
    cr_assert_eq(resp_guard_left_ms(0, 0), 0);
    cr_assert_eq(resp_guard_left_ms(30000, INT64_MAX), 0);
    cr_assert_eq(resp_guard_left_ms(30000, -3600), 31000);
    cr_assert_eq(resp_guard_left_ms(30000, INT64_MIN), 31000);
}
