/* SPDX-License-Identifier: MIT */
#include "sys/host.h"
#include "sys/random.h"

static int64_t host_now(void *ctx)
{
    struct dl_host *host = ctx;

    return dl_clock_now(&host->clock);
}

static int host_random(void *ctx, void *buf, size_t len)
{
    struct dl_host *host = ctx;

    return host->random(buf, len);
}

static void host_log(void *ctx, enum dlock_log_level level, const char *message)
{
    struct dl_host *host = ctx;

    dl_log(&host->log, level, "%s", message);
}

static void host_session_caps(void *ctx, void *self, uint64_t caps)
{
    struct dl_host *host = ctx;

    if (host->session_caps != NULL)
        host->session_caps(host->session_arg, self, caps);
}

static void host_connection(void *ctx, enum dlock_connection_event event)
{
    struct dl_host *host = ctx;

    if (host->connection != NULL)
        host->connection(host->session_arg, event);
}

void dl_host_init(struct dl_host *host, struct dl_log log)
{
    *host = (struct dl_host){
        .clock = dl_clock_boottime,
        .kill_timer = dl_kill_timer_posix,
        .random = dl_random_bytes,
        .log = log,
        .table =
            {
                .struct_size = sizeof host->table,
                .ctx = host,
                .now_ns = host_now,
                .random = host_random,
                .log = host_log,
                .session_caps = host_session_caps,
                .connection = host_connection,
            },
    };
}
