/* SPDX-License-Identifier: MIT */
/*
 * tcplease-server: a store to try the plugin with. One process, one thread, leases in memory: so
 * each request is atomic. A restart forgets all leases, and nothing else is promised.
 *
 *     tcplease-server [--port N] [--tick MS]     prints "listening PORT"
 *
 * A line in, a line out; NAME, TOKEN and LABEL in hex, "-" for none, times in ms:
 *
 *     hello                       tcplease 1
 *     take NAME TOKEN TTL LABEL   ok FENCE LEASE | busy LEFT
 *     keep NAME TOKEN TTL         ok LEASE | lost
 *     drop NAME TOKEN             ok | lost
 *     show NAME                   held FENCE LEFT HELD TOKEN LABEL | free
 *     break NAME TOKEN            ok | free        TOKEN "-": whoever holds it
 *
 * --tick: the clock is read so often, and not for each request, and a lease gets a tick more. It is
 * there to show what becomes of such leases when the server is stopped for a while.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 512
#define LINE_SIZE   1400
#define OUT_MAX     500
#define NAME_SIZE   511 /* hex digits and NUL */

struct lease {
    struct lease *next;
    char name[NAME_SIZE], token[65], label[257];
    uint64_t fence;
    int64_t begin_ms, end_ms;
};

struct client {
    int fd;
    size_t used;
    char line[LINE_SIZE];
};

static struct lease *leases;
static struct client clients[CLIENTS_MAX];
static size_t client_count;
static uint64_t last_fence;
static int64_t tick_ms, ticked_ms;

static int64_t clock_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static int64_t now_ms(void)
{
    return tick_ms > 0 ? ticked_ms : clock_ms();
}

/* Greater than all before, also than those before a restart: the time in us, or the last one and
 * one. */
static uint64_t fence_next(void)
{
    struct timespec ts;
    uint64_t now_us;

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    now_us = (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
    last_fence = now_us > last_fence ? now_us : last_fence + 1;
    return last_fence;
}

/* The lease of a name that has not ended; ended ones go. */
static struct lease *lease_find(const char *name)
{
    struct lease **at = &leases;

    while (*at != NULL) {
        struct lease *lease = *at;

        if (lease->end_ms <= now_ms()) {
            *at = lease->next;
            free(lease);
        } else if (strcmp(lease->name, name) == 0) {
            return lease;
        } else {
            at = &lease->next;
        }
    }
    return NULL;
}

static void lease_end(struct lease *lease)
{
    lease->end_ms = INT64_MIN;
    (void)lease_find("");
}

/* Never shortened. */
static int64_t lease_extend(struct lease *lease, int64_t ttl_ms)
{
    int64_t end_ms = now_ms() + ttl_ms + tick_ms;

    if (end_ms > lease->end_ms)
        lease->end_ms = end_ms;
    return lease->end_ms - now_ms() - tick_ms;
}

static void take(const char *name, const char *token, int64_t ttl_ms, const char *label, char *out)
{
    struct lease *lease = lease_find(name);

    if (lease != NULL && strcmp(lease->token, token) != 0) {
        (void)snprintf(out, OUT_MAX, "busy %" PRId64, lease->end_ms - now_ms());
        return;
    }
    if (lease == NULL) {
        lease = calloc(1, sizeof *lease);
        if (lease == NULL)
            exit(1);
        (void)snprintf(lease->name, sizeof lease->name, "%s", name);
        (void)snprintf(lease->token, sizeof lease->token, "%s", token);
        (void)snprintf(lease->label, sizeof lease->label, "%s", label);
        lease->fence = fence_next();
        lease->begin_ms = now_ms();
        lease->next = leases;
        leases = lease;
    }
    (void)snprintf(out, OUT_MAX, "ok %" PRIu64 " %" PRId64, lease->fence,
                   lease_extend(lease, ttl_ms));
}

/* keep, drop and break are for whoever holds the name. */
static void with_lease(const char *verb, const char *name, const char *token, int64_t ttl_ms,
                       char *out)
{
    struct lease *lease = lease_find(name);
    int any = strcmp(verb, "break") == 0 && strcmp(token, "-") == 0;

    if (lease == NULL || (!any && strcmp(lease->token, token) != 0)) {
        (void)snprintf(out, OUT_MAX, "%s", strcmp(verb, "break") == 0 ? "free" : "lost");
    } else if (strcmp(verb, "keep") == 0) {
        (void)snprintf(out, OUT_MAX, "ok %" PRId64, lease_extend(lease, ttl_ms));
    } else {
        lease_end(lease);
        (void)snprintf(out, OUT_MAX, "%s", "ok");
    }
}

static void show(const char *name, char *out)
{
    const struct lease *lease = lease_find(name);

    if (lease == NULL)
        (void)snprintf(out, OUT_MAX, "%s", "free");
    else
        (void)snprintf(out, OUT_MAX, "held %" PRIu64 " %" PRId64 " %" PRId64 " %s %s", lease->fence,
                       lease->end_ms - now_ms(), now_ms() - lease->begin_ms, lease->token,
                       lease->label);
}

/* "take NAME TOKEN TTL LABEL", in words. */
static void answer(char *line, char *out)
{
    char *word[6] = {NULL};
    size_t n = 0;
    int64_t ttl_ms;

    while (n < 6 && (word[n] = strsep(&line, " ")) != NULL)
        n++;
    ttl_ms = n > 3 ? strtoll(word[3], NULL, 10) : 0;
    (void)snprintf(out, OUT_MAX, "%s", "what?");
    if (n == 1 && strcmp(word[0], "hello") == 0)
        (void)snprintf(out, OUT_MAX, "%s", "tcplease 1");
    else if (n == 5 && strcmp(word[0], "take") == 0 && ttl_ms > 0)
        take(word[1], word[2], ttl_ms, word[4], out);
    else if ((n == 4 && strcmp(word[0], "keep") == 0 && ttl_ms > 0) ||
             (n == 3 && (strcmp(word[0], "drop") == 0 || strcmp(word[0], "break") == 0)))
        with_lease(word[0], word[1], word[2], ttl_ms, out);
    else if (n == 2 && strcmp(word[0], "show") == 0)
        show(word[1], out);
}

static void client_drop(struct client *client)
{
    (void)close(client->fd);
    *client = clients[--client_count];
}

/* False: it is gone. */
static int client_serve(struct client *client)
{
    ssize_t got = recv(client->fd, client->line + client->used,
                       sizeof client->line - 1 - client->used, MSG_DONTWAIT);
    char *end;

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (got <= 0)
        return 0;
    client->used += (size_t)got;
    client->line[client->used] = '\0';
    while ((end = strchr(client->line, '\n')) != NULL) {
        char out[OUT_MAX + 1];
        size_t len;

        *end++ = '\0';
        answer(client->line, out);
        len = strlen(out);
        out[len++] = '\n';
        if (send(client->fd, out, len, MSG_NOSIGNAL) < 0)
            return 0;
        client->used -= (size_t)(end - client->line);
        memmove(client->line, end, client->used + 1);
    }
    return client->used < sizeof client->line - 1;
}

static int listen_at(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        perror("tcplease-server");
        exit(1);
    }
    (void)printf("listening %u\n", ntohs(at.sin_port));
    (void)fflush(stdout);
    return fd;
}

static void serve(int listener)
{
    struct pollfd fds[CLIENTS_MAX + 1];
    size_t count = client_count;

    fds[0] = (struct pollfd){.fd = listener, .events = client_count < CLIENTS_MAX ? POLLIN : 0};
    for (size_t i = 0; i < count; i++)
        fds[i + 1] = (struct pollfd){.fd = clients[i].fd, .events = POLLIN};
    if (poll(fds, (nfds_t)count + 1, tick_ms > 0 ? (int)tick_ms : -1) < 0)
        return;
    for (size_t i = count;
         i-- > 0;) /* from the end: the last one takes the place of one that left */
        if (fds[i + 1].revents != 0 && !client_serve(&clients[i]))
            client_drop(&clients[i]);
    if (fds[0].revents != 0) {
        int fd = accept(listener, NULL, NULL);

        if (fd >= 0)
            clients[client_count++] = (struct client){.fd = fd};
    }
    if (tick_ms > 0 && clock_ms() - ticked_ms >= tick_ms)
        ticked_ms = clock_ms();
}

int main(int argc, char **argv)
{
    uint16_t port = 0;
    int listener;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--port") == 0)
            port = (uint16_t)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--tick") == 0)
            tick_ms = strtoll(argv[i + 1], NULL, 10);
    }
    ticked_ms = clock_ms();
    listener = listen_at(port);
    for (;;)
        serve(listener);
}
