/* SPDX-License-Identifier: MIT */
#include "fake_host.h"

#include <dlock/dlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static int64_t host_now(void *ctx)
{
    return dlt_host_now(ctx);
}

static int host_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    return getrandom(buf, len, 0) == (ssize_t)len ? 0 : -1;
}

static void host_log(void *ctx, enum dlock_log_level level, const char *message)
{
    struct dlt_host *host = ctx;

    if (level <= DLOCK_LOG_WARNING && host->logs++ == 0)
        (void)snprintf(host->logged, sizeof host->logged, "%s", message);
}

static void host_session_caps(void *ctx, void *self, uint64_t caps)
{
    struct dlt_host *host = ctx;

    (void)self;
    host->caps &= caps;
}

static void host_connection(void *ctx, enum dlock_connection_event event)
{
    struct dlt_host *host = ctx;

    host->connections[event]++;
}

void dlt_host_init(struct dlt_host *host)
{
    memset(host, 0, sizeof *host);
    host->table = (struct dlock_host){
        .struct_size = sizeof host->table,
        .ctx = host,
        .now_ns = host_now,
        .random = host_random,
        .log = host_log,
        .session_caps = host_session_caps,
        .connection = host_connection,
    };
    host->caps = UINT64_MAX;
    host->now_ns = INT64_C(86400) * 1000 * DLT_NS_PER_MS;
}

void dlt_host_init_running(struct dlt_host *host)
{
    dlt_host_init(host);
    host->runs = 1;
    host->now_ns = 0;
}

void dlt_host_advance(struct dlt_host *host, int64_t ms)
{
    host->now_ns += ms * DLT_NS_PER_MS;
}

int64_t dlt_host_now(struct dlt_host *host)
{
    struct timespec ts;

    if (!host->runs)
        return host->now_ns;
    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec + host->now_ns;
}

int dlt_host_within(struct dlt_host *host, int64_t begin_ns, int64_t most_ms)
{
    return dlt_within(begin_ns - host->now_ns, most_ms);
}

int64_t dlt_host_in(struct dlt_host *host, int64_t timeout_ms)
{
    return dlt_host_now(host) + timeout_ms * DLT_NS_PER_MS;
}

const char *dlt_host_counted(struct dlt_host *host)
{
    static char text[64];

    (void)snprintf(text, sizeof text, "%u, %u, %u",
                   atomic_exchange(&host->connections[DLOCK_CONNECTION_MADE], 0),
                   atomic_exchange(&host->connections[DLOCK_CONNECTION_FAILED], 0),
                   atomic_exchange(&host->connections[DLOCK_CONNECTION_BROKEN], 0));
    return text;
}

static const char *option_none(const struct dlock_target *target, const char *name)
{
    (void)target;
    (void)name;
    return NULL;
}

static int64_t number_none(const struct dlock_target *target, const char *name)
{
    (void)target;
    (void)name;
    return 0;
}

int dlt_read_secret(const struct dlock_target *target, const char *option, char *buf, size_t size,
                    struct dlock_error *err)
{
    const char *secret = option != NULL ? target->option(target, option) : target->password;

    if (secret == NULL)
        return -1;
    if (strlen(secret) >= size) {
        (void)dlock_fail(err, "test", DLOCK_INVALID, 0, "a secret that is too long");
        return -2;
    }
    (void)snprintf(buf, size, "%s", secret);
    return (int)strlen(secret);
}

void dlt_target_init(struct dlt_target *target, const char *scheme, const char *host,
                     const char *path)
{
    memset(target, 0, sizeof *target);
    target->hosts[0] = host;
    target->target = (struct dlock_target){
        .struct_size = sizeof target->target,
        .scheme = scheme,
        .path = path,
        .hosts = target->hosts,
        .option = option_none,
        .number = number_none,
        .read_secret = dlt_read_secret,
    };
}

void dlt_request_init(struct dlt_request *request, struct dlt_host *host, const char *name,
                      unsigned char owner, int64_t ttl_ms)
{
    memset(request, 0, sizeof *request);
    request->req = (struct dlock_request){
        .struct_size = sizeof request->req,
        .name = (const unsigned char *)name,
        .name_len = (uint32_t)strlen(name),
        .mode = DLOCK_EXCLUSIVE,
        .ttl_ms = ttl_ms,
        .deadline_ns = dlt_host_in(host, 1000),
        .label = "host:1:test",
        .attempt = request->attempt,
        .limit = 1,
    };
    memset(request->req.token, owner, sizeof request->req.token);
}

enum dlock_status dlt_renew_many(const struct dlock_backend_ops *table, void *self,
                                 struct dlock_lease_op *ops, size_t n, int64_t deadline_ns,
                                 struct dlock_error *err)
{
    struct dlock_lease_op *each[DLT_RENEW_MAX];

    if (n > DLT_RENEW_MAX)
        abort();
    for (size_t i = 0; i < n; i++) {
        ops[i].struct_size = sizeof ops[i];
        each[i] = &ops[i];
    }
    return table->renew(self, each, n, deadline_ns, err);
}
