/* SPDX-License-Identifier: MIT */
#include "connection.h"
#include "lib/time.h"
#include "net/cloexec.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAUSE_NS      (50 * DL_NS_PER_MS) /* between two attempts to connect, at least */
#define MESSAGES_MOST 64                  /* read in a row */

int64_t zk_connection_now(const struct zk_link *link)
{
    return link->host->now_ns(link->host->ctx);
}

void zk_connection_lock(struct zk_link *link)
{
    (void)pthread_mutex_lock(&link->mutex);
}

void zk_connection_unlock(struct zk_link *link)
{
    (void)pthread_mutex_unlock(&link->mutex);
}

static void ring(int fd)
{
    static const uint64_t one = 1;

    (void)!write(fd, &one, sizeof one);
}

void zk_connection_wake(const struct zk_link *link)
{
    if (link->asleep)
        ring(link->wake_fd);
}

static void nudge(const struct zk_link *link)
{
    if (link->led)
        ring(link->leader != NULL ? link->lead_fd : link->wake_fd);
}

void zk_connection_cover(const struct zk_link *link)
{
    if (link->led && (link->events & ~link->polled) != 0)
        nudge(link);
}

void zk_connection_signal(struct zk_link *link, pthread_cond_t *cond)
{
    if (link->led && link->leader == cond)
        ring(link->lead_fd);
    else
        (void)pthread_cond_signal(cond);
}

/* ---- the state of the session ---- */

static void server_find(struct zk_link *link)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    struct address address = {.port = 0};
    char service[8];

    link->server[0] = '\0';
    if (getpeername(link->fd, (struct sockaddr *)&peer, &size) != 0 ||
        getnameinfo((struct sockaddr *)&peer, size, address.host, sizeof address.host, service,
                    sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    address.port = (uint16_t)strtoul(service, NULL, 10);
    address_format(&address, link->server, sizeof link->server);
}

static void over(struct zk_link *link)
{
    link->session_id = 0;
    zk_liveness_init(&link->liveness, link->tick_ns);
    link->on_over(link);
}

static void connected(struct zk_link *link)
{
    const int64_t id = zoo_client_id(link->handle)->client_id;

    if (link->session_id != 0 && link->session_id != id)
        over(link);
    link->session_id = id;
    link->timeout_ms = zoo_recv_timeout(link->handle);
    link->refused = false;
    link->beat_ns = zk_connection_now(link);
    zk_liveness_session(&link->liveness, link->begun_ns, zk_connection_now(link));
    server_find(link);
}

/* [CNT-1] The first connection is that of `open`, and close breaks none. */
static void count(struct zk_link *link, enum dlock_connection_event event)
{
    if (link->counts && !link->closing)
        link->host->connection(link->host->ctx, event);
}

/* Notes the state of the session after the library ran. */
static void settle(struct zk_link *link)
{
    const int state = zoo_state(link->handle);
    bool is_connected = false;

    if (state == ZOO_AUTH_FAILED_STATE) {
        link->refused = true;
        link->wants_login = false;
    }
    if (state == ZOO_AUTH_FAILED_STATE || state == ZOO_EXPIRED_SESSION_STATE)
        link->ending = true;
    is_connected = state == ZOO_CONNECTED_STATE && !link->ending;
    if (is_connected == link->connected && !link->ending)
        return;
    if (link->ending && link->session_id != 0)
        over(link);
    if (is_connected)
        connected(link);
    if (is_connected != link->connected)
        count(link, is_connected ? DLOCK_CONNECTION_MADE : DLOCK_CONNECTION_BROKEN);
    link->connected = is_connected;
    link->counts = link->counts || is_connected;
    zk_connection_wake(link); /* to connect again: another thread may have found this */
    (void)pthread_cond_broadcast(&link->changed);
}

void zk_connection_end(struct zk_link *link)
{
    if (link->handle == NULL)
        return;
    link->ending = true;
    settle(link);
    nudge(link);
    zk_connection_wake(link);
}

/* code: errno */
static void failed(struct zk_link *link, int rc, int code)
{
    const char *text = zerror(rc);

    if (!link->connected)
        count(link, DLOCK_CONNECTION_FAILED);
    if (rc == ZOPERATIONTIMEOUT)
        text = "no answer";
    else if ((rc == ZCONNECTIONLOSS || rc == ZSYSTEMERROR) && code != 0)
        text = strerrordesc_np(code);
    (void)snprintf(link->why, sizeof link->why, "%s", text != NULL ? text : "no connection");
    link->fd = -1;
    nudge(link);
}

/* ---- the library ---- */

/* The library has no socket with FD_CLOEXEC. */
static void socket_take(struct zk_link *link, int fd, int64_t before_ns)
{
    struct stat about = {.st_ino = 0};

    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fstat(fd, &about);
    if (about.st_ino != link->inode)
        link->begun_ns = link->received_ns = before_ns;
    link->inode = about.st_ino;
}

bool zk_connection_poll(struct zk_link *link)
{
    const int64_t before_ns = zk_connection_now(link);
    struct timeval patience = {.tv_sec = 0};
    int rc = ZOK, fd = -1, interest = 0, code = 0;

    link->inside = true;
    cloexec_lock();
    errno = 0;
    rc = zookeeper_interest(link->handle, &fd, &interest, &patience);
    code = errno;
    if (rc == ZOK && fd >= 0 && fd != link->fd)
        socket_take(link, fd, before_ns);
    cloexec_unlock();
    link->inside = false;
    link->fd = fd;
    link->events = (short)(((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
                           ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0));
    link->patience_ns = patience.tv_sec * DL_NS_PER_S + patience.tv_usec * DL_NS_PER_US;
    if (rc != ZOK)
        failed(link, rc, code);
    if (link->fd < 0 && link->patience_ns < PAUSE_NS)
        link->patience_ns = PAUSE_NS;
    settle(link);
    return rc == ZOK;
}

static int process_once(struct zk_link *link, int events)
{
    int rc = ZOK, code = 0;

    link->inside = true;
    errno = 0;
    rc = zookeeper_process(link->handle, events);
    code = errno;
    link->inside = false;
    if (rc != ZOK && rc != ZNOTHING)
        failed(link, rc, code);
    else if (rc == ZOK && (events & ZOOKEEPER_READ) != 0)
        link->received_ns = zk_connection_now(link);
    settle(link);
    return rc;
}

static void process(struct zk_link *link, short events)
{
    int wanted = 0;

    if ((events & ~POLLOUT) != 0)
        wanted |= ZOOKEEPER_READ;
    if ((events & ~POLLIN) != 0 && (link->events & POLLOUT) != 0)
        wanted |= ZOOKEEPER_WRITE;
    for (int i = 0; i < MESSAGES_MOST; i++) {
        const int rc = process_once(link, wanted);

        if (rc != ZOK || (wanted & ZOOKEEPER_READ) == 0 || link->ending)
            return;
        wanted = ZOOKEEPER_READ;
    }
}

/* ---- who leads ---- */

bool zk_connection_wants_leader(const struct zk_link *link)
{
    return link->handle != NULL && !link->led && link->fd >= 0 &&
           (!link->connected || link->exchanges != NULL || link->waits > 0);
}

void zk_connection_lead(struct zk_link *link, const pthread_cond_t *leader)
{
    link->led = true;
    link->leader = leader;
    link->polled = link->events;
    link->led_inode = link->inode;
}

void zk_connection_process(struct zk_link *link, short events)
{
    link->led = false;
    if (link->handle == NULL || link->fd < 0 || link->inode != link->led_inode || link->ending ||
        link->closing)
        return;
    process(link, events);
}

static void lead(struct zk_link *link, const pthread_cond_t *cond, int64_t left_ns)
{
    struct pollfd fds[2] = {{.fd = link->fd, .events = link->events},
                            {.fd = link->lead_fd, .events = POLLIN}};
    const struct timespec timeout = dl_deadline_cond_slice(left_ns);
    uint64_t rings = 0;

    zk_connection_lead(link, cond);
    zk_connection_unlock(link);
    (void)ppoll(fds, 2, &timeout, NULL);
    if (fds[1].revents != 0)
        (void)!read(link->lead_fd, &rings, sizeof rings);
    zk_connection_lock(link);
    zk_connection_process(link, fds[0].revents);
    if (link->connected && (link->events & POLLOUT) != 0)
        (void)zk_connection_poll(link);
}

void zk_connection_sleep(struct zk_link *link, pthread_cond_t *cond, int64_t left_ns)
{
    if (link->connected && link->fd >= 0 && !link->led) {
        lead(link, cond, left_ns);
        return;
    }
    zk_connection_hand_over(link); /* this thread may have led, and found another socket */
    dl_deadline_cond_wait(cond, &link->mutex, left_ns);
}

void zk_connection_hand_over(struct zk_link *link)
{
    if (zk_connection_wants_leader(link))
        zk_connection_wake(link);
}

/* ---- the rest ---- */

/* The library that finds the end of a connection when it sends leaks what it has read of an answer,
 * and keeps the calls that are under way. */
void zk_connection_recheck(struct zk_link *link)
{
    struct pollfd fd = {.fd = link->fd, .events = POLLRDHUP};

    for (int i = 0; i < 3 && link->connected && !link->inside && poll(&fd, 1, 0) > 0; i++)
        process(link, POLLIN); /* a part of an answer may come before the end */
}

void zk_connection_hang_up(const struct zk_link *link)
{
    if (link->fd >= 0)
        (void)shutdown(link->fd, SHUT_RDWR);
}

/* settle ends the session when the library returns. */
void zk_connection_refuse(struct zk_link *link)
{
    link->refused = link->wants_login = link->ending = true;
}

enum dlock_status zk_connection_judge(const struct zk_link *link, struct dlock_error *err)
{
    const char *what = "the server refused user and password";

    if (!link->refused)
        return DLOCK_OK;
    if (link->wants_login && link->config->user == NULL)
        what = "the servers want a login (enforce.auth.enabled): zk://user@host with pass_file=";
    else if (link->wants_login)
        what = "the servers want a login of another kind (enforce.auth.schemes)";
    return dlock_fail(err, ZK_ORIGIN, DLOCK_AUTH, 0, "%s: %s", link->servers->endpoint, what);
}

enum dlock_status zk_connection_await(struct zk_link *link, int64_t session_id, int64_t deadline_ns,
                                      struct dlock_error *err)
{
    const char *endpoint = link->servers->endpoint;

    for (;;) {
        const int64_t left_ns = deadline_ns - zk_connection_now(link);

        zk_connection_recheck(link);
        if (session_id != 0 && session_id != link->session_id)
            return dlock_fail(err, ZK_ORIGIN, DLOCK_LOST, 0, "%s: the session has ended", endpoint);
        if (left_ns <= 0 && link->connected)
            return dlock_fail(err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: no time was left",
                              endpoint);
        if (link->connected)
            return DLOCK_OK;
        if (link->refused)
            return zk_connection_judge(link, err);
        if (left_ns <= 0)
            return dlock_fail(err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: no connection: %s",
                              endpoint, link->why[0] != '\0' ? link->why : "no answer");
        dl_deadline_cond_wait(&link->changed, &link->mutex, left_ns);
    }
}
