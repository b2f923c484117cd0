/* SPDX-License-Identifier: MIT */
#include "link.h"
#include "connection.h"
#include "lib/thread.h"
#include "lib/time.h"
#include "net/cloexec.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_SIZE      4096
#define ASKED_LEAST_MS   400                  /* the library spins with a few ms */
#define PAUSE_NS         (200 * DL_NS_PER_MS) /* after a handle that could not be made */
#define HANDSHAKE_NS     (500 * DL_NS_PER_MS) /* for the first one */
#define REFUSED_PAUSE_NS DL_NS_PER_S          /* after credentials that were refused */
#define LOOKUP_PAUSE_NS  DL_NS_PER_S          /* between two lookups of a name */
#define LOOKUP_MOST_NS   (500 * DL_NS_PER_MS) /* that a connection waits for the names */
#define LOOKUP_STEP_NS   (5 * DL_NS_PER_MS)

/* ---- the library's handle ---- */

/* The library writes its log to stderr otherwise. */
static void log_nothing(const char *message)
{
    (void)message;
}

/* connection.c asks for the state after each call of the library. */
static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)type;
    (void)state;
    (void)path;
    (void)context;
}

static void on_login(int rc, const void *data)
{
    (void)rc;
    (void)data;
}

/* Any user and password are taken by the digest scheme; they say whose the nodes are. */
static bool login(zhandle_t *handle, const char *user, const char *secret)
{
    const size_t size = strlen(user) + 1 + strlen(secret) + 1;
    char *text = malloc(size);
    int rc = ZSYSTEMERROR;

    if (text == NULL)
        return false;
    (void)snprintf(text, size, "%s:%s", user, secret);
    rc = zoo_add_auth(handle, "digest", text, (int)(size - 1), on_login, NULL);
    explicit_bzero(text, size);
    free(text);
    return rc == ZOK;
}

/* secret has SECRET_SIZE bytes. */
static enum dlock_status secret_read(const struct zk_link *link, char *secret,
                                     struct dlock_error *err)
{
    const struct dlock_target *target = link->config->target;
    int len = 0;

    secret[0] = '\0';
    if (link->config->user == NULL)
        return DLOCK_OK;
    len = target->read_secret(target, NULL, secret, SECRET_SIZE, err);
    if (len == -1)
        return dlock_fail(
            err, ZK_ORIGIN, DLOCK_AUTH, 0,
            "%s: a user needs a password: pass_file= or pass_env=", link->servers->endpoint);
    return len >= 0 ? DLOCK_OK : err->status;
}

/* The library sets the login before all calls, on each connection. It opens /dev/urandom without
 * O_CLOEXEC. */
static void handle_new(struct zk_link *link, const char *secret)
{
    cloexec_lock();
    zoo_set_debug_level((ZooLogLevel)0); /* its lines are written to one buffer by all threads */
    link->handle = zookeeper_init2(link->hosts, on_event, link->asked_ms, NULL, NULL,
                                   ZOO_NO_LOG_CLIENTENV, log_nothing);
    cloexec_unlock();
    if (link->handle == NULL) {
        (void)snprintf(link->why, sizeof link->why, "%s", strerrordesc_np(errno));
        return;
    }
    (void)zoo_set_servers_resolution_delay(link->handle, -1); /* of numbers, at each call */
    if (link->config->user == NULL || login(link->handle, link->config->user, secret))
        return;
    (void)zookeeper_close(link->handle);
    link->handle = NULL;
    (void)snprintf(link->why, sizeof link->why, "no memory for a login");
}

/*
 * zookeeper_close sends the end of the session, and waits for the server's answer for 1.5 s, and
 * before that for 3 s if the socket is full. It waits for nothing when it can receive nothing, or
 * send nothing.
 */
static void handle_close(struct zk_link *link)
{
    if (link->handle == NULL)
        return;
    zk_connection_end(link);
    if (zoo_state(link->handle) == ZOO_CONNECTED_STATE && zk_connection_poll(link) && link->fd >= 0)
        (void)shutdown(link->fd, (link->events & POLLOUT) != 0 ? SHUT_RDWR : SHUT_RD);
    link->inside = true;
    (void)zookeeper_close(link->handle);
    link->inside = false;
    link->handle = NULL;
    link->fd = -1;
    link->inode = 0;
    link->ending = false;
    zk_exchange_end_all(link);
    zk_watcher_forget_all(link);
}

/* ---- the thread, with the mutex held ---- */

static void on_synced(struct zk_exchange *exchange, void *arg)
{
    struct zk_link *link = arg;

    link->syncing = false;
    zk_exchange_free(exchange);
}

static void sync_begin(struct zk_link *link)
{
    struct zk_exchange *exchange = link->syncing ? NULL : zk_exchange_new(link, 1);

    if (exchange == NULL)
        return;
    link->syncing = zk_exchange_add(exchange, ZK_SYNC, "/") != NULL &&
                    zk_exchange_begin(exchange, on_synced, link);
    if (!link->syncing)
        zk_exchange_free(exchange);
}

static void beat(struct zk_link *link)
{
    const int64_t now_ns = zk_connection_now(link);

    if (!link->connected || now_ns < link->beat_ns)
        return;
    link->beat_ns = now_ns + link->tick_ns / 2;
    sync_begin(link);
    if (link->on_beat != NULL)
        link->on_beat(link, link->beat_arg);
}

/*
 * When to give a silent server up; the library would wait for two thirds of the session's timeout.
 * Leases may be over by then, and other servers might answer a sync. A server that is about to
 * start may forget a connection without closing it.
 */
static int64_t silence_end_ns(const struct zk_link *link)
{
    if (link->fd < 0)
        return INT64_MAX;
    if (!link->connected)
        return link->received_ns + link->handshake_ns;
    if (!link->syncing || strchr(link->hosts, ',') == NULL)
        return INT64_MAX;
    return (link->received_ns > link->sync_ns ? link->received_ns : link->sync_ns) +
           link->timeout_ms * DL_NS_PER_MS / 3;
}

/* More time for the next handshake: this one may have been slow. */
static void check_silence(struct zk_link *link)
{
    struct pollfd fd = {.fd = link->fd, .events = POLLIN};
    const int64_t now_ns = zk_connection_now(link);

    if (link->connected)
        link->handshake_ns = HANDSHAKE_NS;
    if (now_ns < silence_end_ns(link) || poll(&fd, 1, 0) != 0)
        return;
    if (!link->connected)
        link->handshake_ns *= 2;
    link->received_ns = now_ns;
    zk_connection_hang_up(link);
}

static void wait_for(struct zk_link *link, int64_t left_ns)
{
    struct pollfd fds[2] = {{.fd = link->wake_fd, .events = POLLIN},
                            {.fd = -1, .events = link->events}};
    const struct timespec timeout = dl_deadline_cond_slice(left_ns);
    const bool leads = zk_connection_wants_leader(link);
    uint64_t wakes = 0;

    if (leads) {
        fds[1].fd = link->fd;
        zk_connection_lead(link, NULL);
    }
    link->asleep = true;
    zk_connection_unlock(link);
    (void)ppoll(fds, 2, &timeout, NULL);
    if (fds[0].revents != 0)
        (void)!read(link->wake_fd, &wakes, sizeof wakes);
    zk_connection_lock(link);
    link->asleep = false;
    if (leads)
        zk_connection_process(link, fds[1].revents);
}

/* The secret is read without the mutex. */
static void renew_handle(struct zk_link *link)
{
    struct dlock_error failure = DLOCK_ERROR_INIT;
    char secret[SECRET_SIZE];
    enum dlock_status status = DLOCK_OK;
    int64_t pause_ns = link->refused ? REFUSED_PAUSE_NS : 0;

    handle_close(link);
    zk_connection_unlock(link);
    status = secret_read(link, secret, &failure);
    zk_connection_lock(link);
    if (status != DLOCK_OK)
        (void)snprintf(link->why, sizeof link->why, "%.90s", failure.message);
    else if (!link->closing && pause_ns == 0)
        handle_new(link, secret);
    explicit_bzero(secret, sizeof secret);
    if (link->handle == NULL && !link->closing) {
        wait_for(link, pause_ns != 0 ? pause_ns : PAUSE_NS);
        link->refused = false;
    }
}

/* ---- names: looked up for each new connection ---- */

/* The library has no socket, or one that it is about to give up. */
static void hosts_renew(struct zk_link *link)
{
    char hosts[ZK_HOSTS_SIZE];

    zk_servers_write(&link->names, link->hosts, hosts);
    if (hosts[0] == '\0' || strcmp(hosts, link->hosts) == 0)
        return;
    memcpy(link->hosts, hosts, sizeof link->hosts);
    link->handshake_ns = HANDSHAKE_NS;
    if (link->handle != NULL)
        (void)zoo_set_servers(link->handle, link->hosts);
}

static void resolve_end(struct zk_link *link)
{
    zk_servers_lookup_end(&link->names);
    link->is_resolving = false;
    link->resolved_ns = zk_connection_now(link);
}

/* True: the next connection has to wait for the names. What is not found by then may be found while
 * that connection is made, and serves the one after it. */
static bool look_up(struct zk_link *link)
{
    const int64_t now_ns = zk_connection_now(link);
    bool done = true;

    if (link->connected && link->is_resolving)
        resolve_end(link);
    if (link->connected || link->fd >= 0)
        return false;
    if (!link->is_resolving && now_ns - link->resolved_ns < LOOKUP_PAUSE_NS)
        return false;
    if (!link->is_resolving) {
        zk_servers_lookup(&link->names, link->config);
        link->is_resolving = true;
        link->resolved_ns = now_ns;
    }
    for (size_t i = 0; i < link->config->count; i++)
        done = zk_servers_is_looked_up(&link->names, i) && done;
    if (!done && now_ns - link->resolved_ns < LOOKUP_MOST_NS)
        return true;
    hosts_renew(link);
    if (done)
        resolve_end(link);
    return false;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t patience(const struct zk_link *link)
{
    int64_t until_ns = silence_end_ns(link);
    const int64_t now_ns = zk_connection_now(link);

    if (link->connected)
        until_ns = least(until_ns, link->beat_ns);
    return least(until_ns - now_ns, link->patience_ns);
}

static void *run(void *arg)
{
    struct zk_link *link = arg;

    zk_connection_lock(link);
    while (!link->closing) {
        if (link->handle == NULL || link->ending) {
            renew_handle(link);
            continue;
        }
        beat(link);
        check_silence(link);
        if (look_up(link)) {
            wait_for(link, LOOKUP_STEP_NS);
            continue;
        }
        (void)zk_connection_poll(link);
        zk_connection_cover(link);
        if (!link->ending)
            wait_for(link, patience(link));
    }
    zk_connection_unlock(link);
    return NULL;
}

/* ---- open and close ---- */

static int asked_ms(const struct zk_config *config, const struct zk_servers *servers,
                    int64_t tick_ms)
{
    int64_t asked = config->ttl_ms + ZK_MARGIN_TICKS * tick_ms;

    if (asked < servers->least_ms)
        asked = servers->least_ms;
    if (asked < ASKED_LEAST_MS)
        asked = ASKED_LEAST_MS;
    return asked < INT_MAX ? (int)asked : INT_MAX;
}

static struct zk_link *link_new(const struct zk_config *config, const struct zk_servers *servers,
                                int64_t tick_ms, const struct dlock_host *host)
{
    struct zk_link *link = calloc(1, sizeof *link);

    if (link == NULL)
        return NULL;
    link->host = host;
    link->config = config;
    link->servers = servers;
    memcpy(link->hosts, servers->hosts, sizeof link->hosts);
    link->resolved_ns = zk_connection_now(link); /* by zk_servers_ask */
    link->tick_ns = tick_ms * DL_NS_PER_MS;
    zk_liveness_init(&link->liveness, link->tick_ns);
    link->asked_ms = asked_ms(config, servers, tick_ms);
    link->fd = -1;
    link->on_over = zk_watcher_fire_all;
    link->handshake_ns = HANDSHAKE_NS;
    link->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    link->lead_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&link->mutex, NULL);
    (void)dl_deadline_cond_init(&link->changed);
    return link;
}

static enum dlock_status secret_check(const struct zk_link *link, struct dlock_error *err)
{
    char secret[SECRET_SIZE];
    enum dlock_status status = secret_read(link, secret, err);

    explicit_bzero(secret, sizeof secret);
    return status;
}

enum dlock_status zk_link_open(struct zk_link **out, const struct zk_config *config,
                               const struct zk_servers *servers, int64_t tick_ms,
                               const struct dlock_host *host, int64_t deadline_ns,
                               struct dlock_error *err)
{
    struct zk_link *link = link_new(config, servers, tick_ms, host);
    enum dlock_status status = DLOCK_OK;

    *out = link;
    if (link == NULL || link->wake_fd < 0 || link->lead_fd < 0)
        return dlock_fail(err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a session");
    status = secret_check(link, err);
    if (status != DLOCK_OK)
        return status;
    link->has_thread = dl_thread_start(&link->thread, NULL, run, link) == 0;
    if (!link->has_thread)
        return dlock_fail(err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no thread for a session");
    zk_connection_lock(link);
    status = zk_connection_await(link, 0, deadline_ns, err);
    zk_connection_unlock(link);
    return status;
}

void zk_link_close(struct zk_link *link)
{
    if (link == NULL)
        return;
    zk_connection_lock(link);
    link->closing = true;
    zk_connection_wake(link);
    zk_connection_unlock(link);
    if (link->has_thread)
        (void)pthread_join(link->thread, NULL);
    zk_connection_lock(link);
    handle_close(link);
    zk_connection_unlock(link);
    zk_servers_lookup_end(&link->names);
    if (link->wake_fd >= 0)
        (void)close(link->wake_fd);
    if (link->lead_fd >= 0)
        (void)close(link->lead_fd);
    (void)pthread_cond_destroy(&link->changed);
    (void)pthread_mutex_destroy(&link->mutex);
    free(link);
}

/* The library may just have closed the socket, and another file may have its number. */
void zk_link_after_fork(struct zk_link *link)
{
    struct stat about;

    if (link->fd >= 0 && fstat(link->fd, &about) == 0 && S_ISSOCK(about.st_mode) &&
        about.st_ino == link->inode)
        (void)close(link->fd);
    if (link->wake_fd >= 0)
        (void)close(link->wake_fd);
    if (link->lead_fd >= 0)
        (void)close(link->lead_fd);
}

/* ---- the rest ---- */

void zk_link_end(struct zk_link *link)
{
    zk_connection_end(link);
}

void zk_link_state_locked(const struct zk_link *link, struct zk_session_state *state)
{
    *state = (struct zk_session_state){.session_id = link->session_id,
                                       .connected = link->connected,
                                       .timeout_ms = link->timeout_ms};
    if (link->connected)
        memcpy(state->server, link->server, sizeof state->server);
    if (link->session_id != 0 && link->liveness.proven_ns != 0)
        state->until_ns = link->liveness.proven_ns + link->timeout_ms * DL_NS_PER_MS;
}

void zk_link_state(struct zk_link *link, struct zk_session_state *state)
{
    zk_connection_lock(link);
    zk_link_state_locked(link, state);
    zk_connection_unlock(link);
}

int64_t zk_link_now(const struct zk_link *link)
{
    return zk_connection_now(link);
}

void zk_link_lock(struct zk_link *link)
{
    zk_connection_lock(link);
}

void zk_link_unlock(struct zk_link *link)
{
    zk_connection_unlock(link);
}

void zk_link_on_beat(struct zk_link *link, void (*fn)(struct zk_link *link, void *arg), void *arg)
{
    zk_connection_lock(link);
    link->on_beat = fn;
    link->beat_arg = arg;
    zk_connection_unlock(link);
}
