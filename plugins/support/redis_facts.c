/* SPDX-License-Identifier: MIT */
#include "redis_peer.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_MAJOR 5 /* older ones refuse scripts that look at the clock and then write */

/* A server may say what it likes, and it is shown. */
static void copy(char *out, size_t size, const char *text, size_t len)
{
    size_t i = 0;

    for (; i < len && i + 1 < size; i++)
        out[i] = (char)(text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
    out[i] = '\0';
}

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
            copy(out, size, value, value_len);
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

/* CONFIG SET appendonly yes begins with a rewrite. Until that has succeeded nothing counts that was
 * written to the file, although aof_enabled is 1; the sizes are 0 for so long. */
static void aof_look(struct redis_facts *facts, const char *text, size_t len)
{
    bool rewriting = false, scheduled = false, fine = true;
    int64_t base = -1, current = -1;

    flag(text, len, "aof_rewrite_in_progress", "1", &rewriting);
    flag(text, len, "aof_rewrite_scheduled", "1", &scheduled);
    flag(text, len, "aof_last_bgrewrite_status", "ok", &fine);
    number(text, len, "aof_base_size", &base);
    number(text, len, "aof_current_size", &current);
    if (base >= 0)
        facts->aof_begins = base == 0 && current == 0 && (rewriting || scheduled || !fine);
}

void redis_facts_info(struct redis_facts *facts, const char *text, size_t len)
{
    char version[40];

    number(text, len, "redis_version", &facts->major);
    if (field(text, len, "redis_version", version, sizeof version))
        (void)snprintf(facts->server, sizeof facts->server, "Redis %s", version);
    if (field(text, len, "valkey_version", version, sizeof version))
        (void)snprintf(facts->server, sizeof facts->server, "Valkey %s", version);
    flag(text, len, "redis_mode", "cluster", &facts->cluster);
    flag(text, len, "redis_mode", "sentinel", &facts->sentinel);
    number(text, len, "uptime_in_seconds", &facts->uptime_s);
    number(text, len, "maxmemory", &facts->max_memory);
    (void)field(text, len, "maxmemory_policy", facts->policy, sizeof facts->policy);
    flag(text, len, "aof_enabled", "1", &facts->aof);
    aof_look(facts, text, len);
    flag(text, len, "loading", "1", &facts->loading);
    (void)field(text, len, "role", facts->role, sizeof facts->role);
    (void)field(text, len, "run_id", facts->run_id, sizeof facts->run_id);
    number(text, len, "server_time_usec", &facts->clock_us);
}

void redis_facts_config(struct redis_facts *facts, const redisReply *reply)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const redisReply *name = redis_reply_text(reply, i),
                         *value = redis_reply_text(reply, i + 1);

        if (name == NULL || value == NULL)
            continue;
        if (strcmp(name->str, "appendfsync") == 0)
            copy(facts->fsync, sizeof facts->fsync, value->str, (size_t)value->len);
        if (strcmp(name->str, "no-appendfsync-on-rewrite") == 0)
            facts->fsync_pauses = strcmp(value->str, "no") != 0;
    }
}

static bool evicts(const struct redis_facts *facts)
{
    return facts->max_memory != 0 && strcmp(facts->policy, "noeviction") != 0;
}

static bool syncs(const struct redis_facts *facts)
{
    return facts->aof && !facts->aof_begins && !facts->fsync_pauses &&
           strcmp(facts->fsync, "always") == 0;
}

bool redis_facts_durable(const struct redis_facts *facts)
{
    return syncs(facts) && !evicts(facts);
}

enum dlock_status redis_facts_judge(const struct redis_facts *facts,
                                    const struct redis_place *place, uint32_t *caps,
                                    struct dlock_error *err)
{
    *caps = DLOCK_CAP_FENCE;
    if (facts->sentinel)
        return redis_fail(place, err, DLOCK_CONFIG,
                          "a Sentinel, not a Redis server: name the master that it watches, "
                          "redis://HOST:PORT");
    if (facts->server[0] == '\0' || facts->role[0] == '\0' || facts->policy[0] == '\0')
        return redis_fail(place, err, DLOCK_PROTOCOL,
                          "INFO does not say version, role and maxmemory_policy: not Redis?");
    if (facts->major < LEAST_MAJOR)
        return redis_fail(place, err, DLOCK_CONFIG, "%s is too old: want Redis %d or later",
                          facts->server, LEAST_MAJOR);
    if (facts->loading)
        return redis_fail(place, err, DLOCK_UNAVAILABLE, "the server is loading its data");
    if (facts->cluster)
        return redis_fail(place, err, DLOCK_CONFIG, "a node of a cluster, which is not supported");
    if (strcmp(facts->role, "master") != 0)
        return redis_fail(place, err, DLOCK_CONFIG,
                          "a replica (role %s): locks have to be taken at the master", facts->role);
    if (evicts(facts) && !place->unsafe_eviction)
        return redis_fail(place, err, DLOCK_CONFIG,
                          "maxmemory-policy is %s: a full server would throw locks away; want "
                          "noeviction (or unsafe_eviction=on)",
                          facts->policy);
    if (!place->raw)
        *caps |= DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE;
    if (redis_facts_durable(facts))
        *caps |= DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE;
    else if (place->restart_guard_ms > 0 && !evicts(facts))
        *caps |= DLOCK_CAP_CRASH_SAFE;
    return DLOCK_OK;
}

static const char *persistence(const struct redis_facts *facts)
{
    if (!facts->aof)
        return "off";
    if (facts->aof_begins)
        return "on, and not written completely yet";
    if (facts->fsync[0] == '\0')
        return "unknown";
    if (facts->fsync_pauses && strcmp(facts->fsync, "always") == 0)
        return "always, but not during a rewrite";
    return facts->fsync;
}

void redis_facts_report(const struct redis_facts *facts, const struct redis_place *place,
                        dlock_check_fn *fn, void *arg)
{
    const uint32_t durability = DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE;
    bool guarded = place->restart_guard_ms > 0, durable = redis_facts_durable(facts);
    char guard[64];

    (void)snprintf(guard, sizeof guard, "%g s, the server is up for %lld s",
                   (double)place->restart_guard_ms / 1000, (long long)facts->uptime_s);
    const struct dlock_check checks[] = {
        {.name = "role", .found = facts->role},
        {.name = "maxmemory-policy",
         .found = facts->policy,
         .advice = evicts(facts) ? "set noeviction: locks may be thrown away" : NULL,
         .clears = evicts(facts) ? durability : 0},
        {.name = "append-only file, fsync",
         .found = persistence(facts),
         .advice = syncs(facts) ? NULL
                                : "a crash of the server forgets locks and the last fences: "
                                  "appendonly yes, appendfsync always and "
                                  "no-appendfsync-on-rewrite no",
         .clears = syncs(facts) ? 0 : DLOCK_CAP_FENCE_DURABLE},
        {.name = "restart_guard",
         .found = durable ? "not needed" : guard,
         .advice = durable || guarded ? NULL : REDIS_UNGUARDED,
         .clears = durable || guarded ? 0 : DLOCK_CAP_CRASH_SAFE},
    };

    for (size_t i = 0; fn != NULL && i < sizeof checks / sizeof checks[0]; i++)
        fn(arg, &checks[i]);
}
