/* SPDX-License-Identifier: MIT */
#include "resp/info.h"
#include "lib/text.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "resp/reply.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_MAJOR    5 /* an older server refuses a script that reads the clock and then writes */
#define STATS_MAJOR    7
#define FOLLOWERS_MOST 64 /* to look at */

/* The value of "name:value" at the beginning of a line; false: there is none. */
static bool field(const char *text, size_t len, const char *name, char *out, size_t size)
{
    size_t name_len = strlen(name);
    const char *end = text + len;

    for (const char *line = text; line < end;) {
        const char *line_end = memchr(line, '\n', (size_t)(end - line));
        size_t line_len = (size_t)((line_end != NULL ? line_end : end) - line);

        if (line_len > name_len && memcmp(line, name, name_len) == 0 && line[name_len] == ':') {
            const char *value = line + name_len + 1;
            size_t value_len = line_len - name_len - 1;

            if (value_len > 0 && value[value_len - 1] == '\r')
                value_len--;
            dl_printable_mask(out, size, value, value_len);
            return true;
        }
        line += line_len + 1;
    }
    return false;
}

static void number(const char *text, size_t len, const char *name, int64_t *out)
{
    char value[24];

    if (field(text, len, name, value, sizeof value))
        *out = strtoll(value, NULL, 10);
}

static void flag(const char *text, size_t len, const char *name, const char *yes, bool *out)
{
    char value[24];

    if (field(text, len, name, value, sizeof value))
        *out = strcmp(value, yes) == 0;
}

/* CONFIG SET appendonly yes begins with a rewrite. Until the rewrite has succeeded, writes to the
 * file are worth nothing, although aof_enabled is 1; the sizes are 0 until then. */
static void aof_parse(struct resp_info *info, const char *text, size_t len)
{
    bool rewriting = false, scheduled = false, fine = true;
    int64_t base = -1, current = -1;

    flag(text, len, "aof_rewrite_in_progress", "1", &rewriting);
    flag(text, len, "aof_rewrite_scheduled", "1", &scheduled);
    flag(text, len, "aof_last_bgrewrite_status", "ok", &fine);
    number(text, len, "aof_base_size", &base);
    number(text, len, "aof_current_size", &current);
    if (base < 0)
        return;
    info->aof_begins = base == 0 && current == 0 && (rewriting || scheduled || !fine);
}

/* slave0:ip=10.0.0.2,port=6379,state=online,offset=...: a replica that may be promoted says where
 * it listens. Backups and copies of the data say no port. */
static void followers_parse(struct resp_info *info, const char *text, size_t len)
{
    size_t used = 0;

    number(text, len, "connected_slaves", &info->replicas);
    for (unsigned i = 0; i < FOLLOWERS_MOST; i++) {
        char name[24], line[160];
        const char *port = NULL;

        (void)snprintf(name, sizeof name, "slave%u", i);
        if (!field(text, len, name, line, sizeof line))
            return;
        port = strstr(line, ",port=");
        if (strncmp(line, "ip=", 3) != 0 || port == NULL)
            continue;
        port += strlen(",port=");
        info->replicas -= *port == '0';
        if (used < sizeof info->followers)
            used += (size_t)snprintf(info->followers + used, sizeof info->followers - used,
                                     "%s%.*s port %.*s", used > 0 ? ", " : "",
                                     (int)strcspn(line + 3, ","), line + 3, (int)strcspn(port, ","),
                                     port);
    }
}

/* Redis 7 counts the bytes from a master; an older server has no id of before from a file. */
static void past_parse(struct resp_info *info, const char *text, size_t len)
{
    char before[RESP_RUN_ID_SIZE], ignored[8];
    int64_t bytes = 0;

    if (field(text, len, "master_replid2", before, sizeof before))
        info->has_past = strspn(before, "0") != strlen(before);
    number(text, len, "total_net_repl_input_bytes", &bytes);
    if (bytes > 0 || field(text, len, "cmdstat_replicaof", ignored, sizeof ignored) ||
        field(text, len, "cmdstat_slaveof", ignored, sizeof ignored))
        info->followed = true;
}

void resp_info_parse(struct resp_info *info, const char *text, size_t len)
{
    char version[40];

    number(text, len, "redis_version", &info->major);
    if (field(text, len, "redis_version", version, sizeof version))
        (void)snprintf(info->server, sizeof info->server, "Redis %s", version);
    if (field(text, len, "valkey_version", version, sizeof version))
        (void)snprintf(info->server, sizeof info->server, "Valkey %s", version);
    flag(text, len, "redis_mode", "cluster", &info->cluster);
    flag(text, len, "redis_mode", "sentinel", &info->sentinel);
    number(text, len, "uptime_in_seconds", &info->uptime_s);
    number(text, len, "maxmemory", &info->max_memory);
    (void)field(text, len, "maxmemory_policy", info->policy, sizeof info->policy);
    flag(text, len, "aof_enabled", "1", &info->aof);
    aof_parse(info, text, len);
    flag(text, len, "loading", "1", &info->loading);
    (void)field(text, len, "role", info->role, sizeof info->role);
    (void)field(text, len, "run_id", info->run_id, sizeof info->run_id);
    number(text, len, "server_time_usec", &info->clock_us);
    (void)field(text, len, "master_replid", info->replid, sizeof info->replid);
    followers_parse(info, text, len);
    past_parse(info, text, len);
}

void resp_info_parse_config(struct resp_info *info, const redisReply *reply)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const redisReply *name = resp_reply_text(reply, i), *value = resp_reply_text(reply, i + 1);

        if (name == NULL || value == NULL)
            continue;
        if (strcmp(name->str, "appendfsync") == 0)
            dl_printable_mask(info->fsync, sizeof info->fsync, value->str, (size_t)value->len);
        if (strcmp(name->str, "no-appendfsync-on-rewrite") == 0)
            info->fsync_pauses = strcmp(value->str, "no") != 0;
        if (strcmp(name->str, "min-replicas-to-write") == 0)
            info->min_replicas = strtoll(value->str, NULL, 10);
        if (strcmp(name->str, "min-replicas-max-lag") == 0)
            info->max_lag_s = strtoll(value->str, NULL, 10);
        if (strcmp(name->str, "cluster-node-timeout") == 0)
            info->node_timeout_ms = strtoll(value->str, NULL, 10);
        if (strcmp(name->str, "cluster-allow-replica-migration") == 0)
            info->replicas_stay = strcmp(value->str, "no") == 0;
    }
}

static bool has_line(const redisReply *reply, const char *name, const char *value)
{
    char line[RESP_RUN_ID_SIZE + 24];
    size_t len = (size_t)snprintf(line, sizeof line, "%s:%s\r", name, value);

    return memmem(reply->str, (size_t)reply->len, line, len) != NULL;
}

bool resp_info_is_same_master(const struct resp_info *info, const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && has_line(reply, "role", "master") &&
           has_line(reply, "master_replid", info->replid);
}

static bool evicts(const struct resp_info *info)
{
    return info->max_memory != 0 && strcmp(info->policy, "noeviction") != 0;
}

static bool syncs(const struct resp_info *info)
{
    return info->aof && !info->aof_begins && !info->fsync_pauses &&
           strcmp(info->fsync, "always") == 0;
}

static bool is_durable(const struct resp_info *info)
{
    return syncs(info) && !evicts(info);
}

bool resp_info_was_promoted(const struct resp_info *info)
{
    return info->has_past && (info->followed || info->major < STATS_MAJOR);
}

enum dlock_status resp_info_judge(const struct resp_info *info, const struct resp_config *config,
                                  uint64_t *caps, struct dlock_error *err)
{
    *caps = DLOCK_CAP_FENCE;
    if (info->sentinel)
        return resp_error_fail(config, err, DLOCK_CONFIG,
                               "a Sentinel, not a Redis server: name the master that it watches, "
                               "redis://HOST:PORT");
    if (info->server[0] == '\0' || info->role[0] == '\0' || info->policy[0] == '\0' ||
        info->replid[0] == '\0')
        return resp_error_fail(config, err, DLOCK_PROTOCOL,
                               "INFO does not say version, role, master_replid and "
                               "maxmemory_policy: not Redis?");
    if (info->major < LEAST_MAJOR)
        return resp_error_fail(config, err, DLOCK_CONFIG, "%s is too old: want Redis %d or later",
                               info->server, LEAST_MAJOR);
    if (info->loading)
        return resp_error_fail(config, err, DLOCK_UNAVAILABLE, "the server is loading its data");
    if (info->cluster && !config->all_keys)
        return resp_error_fail(config, err, DLOCK_CONFIG,
                               "a node of a cluster: its scheme is redis+cluster");
    if (!info->cluster && config->all_keys)
        return resp_error_fail(config, err, DLOCK_CONFIG, "not a node of a cluster");
    if (strcmp(info->role, "master") != 0)
        return resp_error_fail(config, err, config->moves ? DLOCK_UNAVAILABLE : DLOCK_CONFIG,
                               "a replica (role %s): locks have to be taken at the master",
                               info->role);
    if (evicts(info) && !config->unsafe_eviction)
        return resp_error_fail(config, err, DLOCK_CONFIG,
                               "maxmemory-policy is %s: a full server would throw locks away; want "
                               "noeviction (or unsafe_eviction=on)",
                               info->policy);
    if (!config->raw)
        *caps |= DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE;
    if (config->moves) /* a replica that is promoted may have missed the last locks */
        return DLOCK_OK;
    if (is_durable(info))
        *caps |= DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE;
    else if (config->restart_guard_ms > 0 && !evicts(info))
        *caps |= DLOCK_CAP_CRASH_SAFE;
    return DLOCK_OK;
}

static const char *persistence(const struct resp_info *info)
{
    if (!info->aof)
        return "off";
    if (info->aof_begins)
        return "on, and not written completely yet";
    if (info->fsync[0] == '\0')
        return "unknown";
    if (info->fsync_pauses && strcmp(info->fsync, "always") == 0)
        return "always, but not during a rewrite";
    return info->fsync;
}

void resp_info_report(const struct resp_info *info, const struct resp_config *config,
                      dlock_check_fn *fn, void *arg)
{
    const uint64_t durability = DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE;
    bool guarded = config->restart_guard_ms > 0, durable = is_durable(info);
    char guard[64];

    (void)snprintf(guard, sizeof guard, "%g s, the server is up for %lld s",
                   (double)config->restart_guard_ms / 1000, (long long)info->uptime_s);
    const struct dlock_check checks[] = {
        {.struct_size = sizeof(struct dlock_check), .name = "role", .found = info->role},
        {.struct_size = sizeof(struct dlock_check),
         .name = "maxmemory-policy",
         .found = info->policy,
         .advice = evicts(info) ? "set noeviction: locks may be thrown away" : NULL,
         .clears = evicts(info) ? durability : 0},
        {.struct_size = sizeof(struct dlock_check),
         .name = "append-only file, fsync",
         .found = persistence(info),
         .advice = syncs(info) ? NULL
                               : "a crash of the server forgets locks and the last fences: "
                                 "appendonly yes, appendfsync always and "
                                 "no-appendfsync-on-rewrite no",
         .clears = syncs(info) ? 0 : DLOCK_CAP_FENCE_DURABLE},
        {.struct_size = sizeof(struct dlock_check),
         .name = "restart_guard",
         .found = guard,
         .advice = durable || guarded ? NULL : RESP_UNGUARDED,
         .clears = durable || guarded ? 0 : DLOCK_CAP_CRASH_SAFE},
    };

    for (size_t i = 0; fn != NULL && i < sizeof checks / sizeof checks[0]; i++)
        fn(arg, &checks[i]);
}
