/* SPDX-License-Identifier: MIT */
#include "net_kit.h"
#include "address.h"
#include "child.h"
#include "ruler.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS_MAX 64

static pthread_mutex_t journal_mutex = PTHREAD_MUTEX_INITIALIZER;
static char journal[65536];
static size_t journal_len;

int64_t net_now_ms(void)
{
    return dlt_ruler_now_ns() / 1000000;
}

static void journal_add(const char *bytes, size_t len)
{
    (void)pthread_mutex_lock(&journal_mutex);
    if (len > sizeof journal - journal_len)
        len = sizeof journal - journal_len;
    memcpy(journal + journal_len, bytes, len);
    journal_len += len;
    (void)pthread_mutex_unlock(&journal_mutex);
}

size_t net_journal(char *out, size_t size)
{
    size_t len;

    (void)pthread_mutex_lock(&journal_mutex);
    len = journal_len < size ? journal_len : size;
    memcpy(out, journal, len);
    (void)pthread_mutex_unlock(&journal_mutex);
    return len;
}

bool net_journal_is(const char *text, int timeout_ms)
{
    int64_t deadline = net_now_ms() + timeout_ms;
    static char seen[sizeof journal];

    do {
        size_t len = net_journal(seen, sizeof seen);

        if (len == strlen(text) && memcmp(seen, text, len) == 0)
            return true;
        (void)poll(NULL, 0, 2);
    } while (net_now_ms() < deadline);
    return false;
}

/* False: the client is gone. */
static bool echo_once(int fd)
{
    char bytes[4096];
    ssize_t got = recv(fd, bytes, sizeof bytes, 0);

    if (got <= 0)
        return false;
    journal_add(bytes, (size_t)got);
    return dlt_write_all(fd, bytes, (size_t)got);
}

static void *echo_run(void *arg)
{
    struct pollfd fds[1 + CLIENTS_MAX] = {{.fd = (int)(intptr_t)arg, .events = POLLIN}};
    nfds_t count = 1;

    for (;;) {
        (void)poll(fds, count, -1);
        for (nfds_t i = count; i-- > 1;) {
            if (fds[i].revents == 0 || echo_once(fds[i].fd))
                continue;
            (void)close(fds[i].fd);
            fds[i] = fds[--count];
        }
        if (fds[0].revents != 0 && count <= CLIENTS_MAX) {
            int fd = accept4(fds[0].fd, NULL, NULL, SOCK_CLOEXEC);

            if (fd >= 0)
                fds[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
    }
    return NULL;
}

bool net_echo_start(char *address, size_t size)
{
    struct dlt_address at;
    pthread_t thread;
    int fd = dlt_address_parse(address, &at) ? dlt_address_listen(&at, CLIENTS_MAX) : -1;

    if (fd < 0)
        return false;
    dlt_address_print(&at, address, size);
    return pthread_create(&thread, NULL, echo_run, (void *)(intptr_t)fd) == 0 &&
           pthread_detach(thread) == 0;
}

int net_connect(const char *address, int timeout_ms)
{
    struct dlt_address at;
    struct pollfd wait = {.events = POLLOUT};
    int failed = 0;
    socklen_t len = sizeof failed;
    int fd = dlt_address_parse(address, &at) ? dlt_address_socket(&at) : -1;

    if (fd < 0)
        return -1;
    wait.fd = fd;
    if (connect(fd, &at.of.any, at.len) != 0) {
        failed = errno;
        if (failed == EINPROGRESS && poll(&wait, 1, timeout_ms) == 0)
            failed = ETIMEDOUT;
        else if (failed == EINPROGRESS)
            (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len);
    }
    if (failed == 0 && fcntl(fd, F_SETFL, 0) == 0)
        return fd;
    (void)close(fd);
    errno = failed;
    return -1;
}

bool net_is_reset(const char *address, int timeout_ms)
{
    int fd = net_connect(address, timeout_ms);
    char next;

    if (fd < 0)
        return errno == ECONNRESET;
    next = net_next(fd, timeout_ms);
    (void)close(fd);
    return next == 'r';
}

bool net_send(int fd, const char *text)
{
    return dlt_write_all(fd, text, strlen(text));
}

bool net_expect(int fd, const char *text, int timeout_ms)
{
    int64_t deadline = net_now_ms() + timeout_ms;
    size_t at = 0, len = strlen(text);
    char byte = 0;

    while (at < len) {
        int64_t left = deadline - net_now_ms();

        if (left <= 0 || net_next(fd, (int)left) != 'd' || recv(fd, &byte, 1, 0) != 1 ||
            byte != text[at])
            return false;
        at++;
    }
    return true;
}

char net_next(int fd, int timeout_ms)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    char byte = 0;
    ssize_t got;

    if (poll(&wait, 1, timeout_ms) == 0)
        return '-';
    got = recv(fd, &byte, 1, MSG_PEEK);
    if (got > 0)
        return 'd';
    return got == 0 ? 'e' : 'r';
}
