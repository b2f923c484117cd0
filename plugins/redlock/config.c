/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "lib/text.h"
#include "quorum.h"
#include "resp/config.h"
#include "resp/guard.h"

#include <stdlib.h>
#include <string.h>

#define KEY_TEXT_MAX     80 /* bytes of a key in a message */
#define DEFAULT_PORT     6379
#define TIMEOUT_SHARE    20 /* a node may take the ttl divided by this */
#define TIMEOUT_LEAST_MS 5
#define TIMEOUT_MOST_MS  50

/* Without PUBLISH and SUBSCRIBE waiters ask. */
static const char *const commands[RESP_COMMANDS_MOST + 1] = {
    "EVALSHA", "EVAL",      "TIME",   "EXISTS",       "GET",  "SET",  "DEL",  "PTTL",
    "PEXPIRE", "PEXPIREAT", "HGET",   "HSET",         "HDEL", "ZADD", "ZREM", "ZREMRANGEBYSCORE",
    "ZCARD",   "ZSCORE",    "ZRANGE", "ZRANGEBYSCORE"};

static enum dlock_status refuse(struct dlock_error *err, const char *why)
{
    return dlock_fail(err, REDLOCK_ORIGIN, DLOCK_INVALID, 0, "%s", why);
}

/* text: the number of a database; "" is 0. */
static bool database_parse(const char *text, int64_t *out)
{
    int64_t value = 0;

    if (strlen(text) > 7 || text[strspn(text, "0123456789")] != '\0')
        return false;
    for (; *text != '\0'; text++)
        value = value * 10 + (*text - '0');
    *out = value;
    return true;
}

/* ---- what all nodes have in common ---- */

static enum dlock_status common_init(struct resp_config *node, const struct dlock_target *target,
                                     struct dlock_error *err)
{
    const char *prefix = target->option(target, "prefix");
    const char *path = target->path;

    *node = (struct resp_config){
        .origin = REDLOCK_ORIGIN,
        .commands = commands,
        .user = target->user,
        .prefix = prefix != NULL ? prefix : "",
        .unsafe_eviction = target->number(target, "unsafe_eviction") != 0,
        .restart_guard_ms = target->number(target, "restart_guard"),
        .asks_past = target->number(target, "restart_guard") > 0,
        .secure = strcmp(target->scheme, "redlocks") == 0,
    };
    if (strlen(node->prefix) > RESP_PREFIX_MAX || strpbrk(node->prefix, "{}") != NULL)
        return refuse(err, "prefix: at most 64 bytes, and no braces");
    if (!database_parse(path[0] == '/' ? path + 1 : path, &node->database))
        return refuse(err, "the path is the number of a database, as in redlock://h1,h2,h3/2");
    return DLOCK_OK;
}

/* Copies the texts: a target lives as long as one session, the config as long as the client. */
static enum dlock_status common_keep(struct redlock_config *config, struct resp_config *common,
                                     struct dlock_error *err)
{
    const char **texts[] = {&common->user, &common->prefix};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (*texts[i] == NULL)
            continue;
        config->common[i] = strdup(*texts[i]);
        if (config->common[i] == NULL)
            return dlock_fail(err, REDLOCK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a client");
        *texts[i] = config->common[i];
    }
    return DLOCK_OK;
}

/* ---- node= ---- */

/* In its place. */
static bool percent_decode(char *text)
{
    char *to = text;

    for (; *text != '\0'; text++, to++) {
        *to = *text;
        if (*text != '%')
            continue;
        if (dl_hex_byte(text + 1) <= 0)
            return false;
        *to = (char)dl_hex_byte(text + 1);
        text += 2;
    }
    *to = '\0';
    return true;
}

static bool scheme_take(char **text, bool *secure)
{
    static const struct {
        const char *begin;
        bool secure;
    } schemes[] = {
        {"redis://", false}, {"rediss://", true}, {"valkey://", false}, {"valkeys://", true}};

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t len = strlen(schemes[i].begin);

        if (strncmp(*text, schemes[i].begin, len) == 0) {
            *text += len;
            *secure = schemes[i].secure;
            return true;
        }
    }
    return false;
}

/* text: "user:password", which replaces the user and the password of the URI. */
static bool user_take(struct resp_config *node, char *text)
{
    char *colon = strchr(text, ':');

    if (colon != NULL)
        *colon = '\0';
    node->user = text[0] != '\0' ? text : NULL;
    node->password = colon != NULL ? colon + 1 : NULL;
    return percent_decode(text) && (colon == NULL || percent_decode(colon + 1));
}

/* scheme://[user[:password]@]host[:port][/db]; text is cut into its parts, which are borrowed. */
static bool node_parse(struct resp_config *node, char *text)
{
    char *at = NULL, *slash = NULL;

    if (!scheme_take(&text, &node->secure))
        return false;
    slash = strchr(text, '/');
    if (slash != NULL) {
        *slash = '\0';
        if (!database_parse(slash + 1, &node->database))
            return false;
    }
    at = strrchr(text, '@');
    if (at != NULL) {
        *at = '\0';
        if (!user_take(node, text))
            return false;
        text = at + 1;
    }
    return address_parse(&node->address, text, DEFAULT_PORT);
}

/* Each line of the option is a node. */
static enum dlock_status lines_init(struct redlock_config *config, const struct resp_config *common,
                                    const char *lines, struct dlock_error *err)
{
    while (lines != NULL && *lines != '\0') {
        size_t len = strcspn(lines, "\n");

        if (config->count == REDLOCK_NODES_MAX)
            return refuse(err, "at most 9 nodes");
        config->texts[config->count] = strndup(lines, len);
        if (config->texts[config->count] == NULL)
            return dlock_fail(err, REDLOCK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a node");
        config->text_lens[config->count] = len;
        config->nodes[config->count] = *common;
        if (strrchr(config->texts[config->count], '@') != NULL)
            config->named |= 1u << config->count;
        if (!node_parse(&config->nodes[config->count], config->texts[config->count]))
            return refuse(err, "node: want redis://[user:password@]host[:port][/db], or rediss://, "
                               "percent-encoded as a whole");
        config->count++;
        lines += len + (lines[len] == '\n');
    }
    return DLOCK_OK;
}

static enum dlock_status hosts_init(struct redlock_config *config, const struct resp_config *common,
                                    const char *const *hosts, struct dlock_error *err)
{
    for (; *hosts != NULL; hosts++) {
        if (config->count == REDLOCK_NODES_MAX)
            return refuse(err, "at most 9 nodes");
        config->nodes[config->count] = *common;
        if (!address_parse(&config->nodes[config->count].address, *hosts, DEFAULT_PORT))
            return refuse(err, "a host is not one that can be looked up");
        config->count++;
    }
    return DLOCK_OK;
}

/* ---- the whole ---- */

static bool same_address(const struct resp_config *one, const struct resp_config *other)
{
    return one->address.port == other->address.port &&
           strcasecmp(one->address.host, other->address.host) == 0;
}

/* ---- passwords ---- */

#define SECRET_ROOM ((size_t)16 * 1024) /* of all lines of node= */

static bool same_text(const char *one, const char *other)
{
    return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

/* The password in the line of this node; NULL: there is none. Without such a line, the password
 * that the node had when the client was opened. lines: are cut into their parts. */
static const char *line_password(const struct resp_config *node, char *lines)
{
    char *rest = NULL;

    for (char *line = strtok_r(lines, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        struct resp_config now = {.user = NULL};

        if (node_parse(&now, line) && same_address(&now, node) && same_text(now.user, node->user))
            return now.password;
    }
    return node->password;
}

enum dlock_status redlock_config_secret(const struct redlock_config *config, unsigned node,
                                        const struct dlock_target *target, char **secret,
                                        struct dlock_error *err)
{
    bool named = (config->named & 1u << node) != 0;
    char *room = malloc(SECRET_ROOM);
    const char *found = NULL;
    int len = -2;

    *secret = NULL;
    if (room == NULL)
        return dlock_fail(err, REDLOCK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a password");
    len = target->read_secret(target, named ? "node" : NULL, room, SECRET_ROOM, err);
    if (len >= 0)
        found = named ? line_password(&config->nodes[node], room) : room;
    if (found != NULL)
        *secret = strdup(found);
    explicit_bzero(room, SECRET_ROOM);
    free(room);
    if (len == -2)
        return err->status;
    return found == NULL || *secret != NULL
               ? DLOCK_OK
               : dlock_fail(err, REDLOCK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a password");
}

/* ---- counting ---- */

static enum dlock_status refuse_twice(const struct resp_config *node, struct dlock_error *err)
{
    char endpoint[sizeof node->endpoint];

    address_format(&node->address, endpoint, sizeof endpoint);
    return dlock_fail(err, REDLOCK_ORIGIN, DLOCK_INVALID, 0, "%s is there twice", endpoint);
}

static enum dlock_status count_refuse(unsigned count, struct dlock_error *err)
{
    if (count < 3)
        return refuse(err, "at least 3 nodes, as in redlock://h1,h2,h3; for one server write "
                           "redis://host (any_count=on takes any number)");
    return refuse(err, "want 3, 5, 7 or 9 nodes: an even number survives no more failures than one "
                       "node less (any_count=on takes any number)");
}

static enum dlock_status count_check(struct redlock_config *config, bool any_count,
                                     struct dlock_error *err)
{
    for (unsigned i = 0; i < config->count; i++)
        for (unsigned other = 0; other < i; other++)
            if (same_address(&config->nodes[i], &config->nodes[other]))
                return refuse_twice(&config->nodes[i], err);
    if (config->count == 0)
        return refuse(err, "want nodes, as in redlock://h1,h2,h3");
    if (!any_count && (config->count < 3 || config->count % 2 == 0))
        return count_refuse(config->count, err);
    config->need = redlock_quorum_need(config->count);
    return DLOCK_OK;
}

enum dlock_status redlock_config_init(struct redlock_config *config,
                                      const struct dlock_target *target, struct dlock_error *err)
{
    struct resp_config common;
    enum dlock_status status = common_init(&common, target, err);

    *config = (struct redlock_config){
        .node_timeout_ms = target->number(target, "node_timeout"),
        .restart_guard_ms = target->number(target, "restart_guard"),
        .retry_delay_ms = target->number(target, "retry_delay"),
        .retry_count = (unsigned)target->number(target, "retry_count"),
        .spin = target->number(target, "spin") != 0,
        .fences = target->number(target, "fence") == DLOCK_ON,
    };
    if (status == DLOCK_OK)
        status = common_keep(config, &common, err);
    if (status == DLOCK_OK)
        status = hosts_init(config, &common, target->hosts, err);
    if (status == DLOCK_OK)
        status = lines_init(config, &common, target->option(target, "node"), err);
    if (status == DLOCK_OK)
        status = count_check(config, target->number(target, "any_count") != 0, err);
    if (status == DLOCK_OK)
        status = resp_config_take_tls(config->nodes, config->count, target, err);
    if (status == DLOCK_OK)
        status = resp_guard_judge_ttl(REDLOCK_ORIGIN, config->restart_guard_ms,
                                      target->number(target, "ttl"), err);
    for (unsigned i = 0; i < config->count; i++)
        address_format(&config->nodes[i].address, config->nodes[i].endpoint,
                       sizeof config->nodes[i].endpoint);
    return status;
}

void redlock_config_free(struct redlock_config *config)
{
    for (size_t i = 0; i < sizeof config->common / sizeof config->common[0]; i++) {
        if (config->common[i] != NULL)
            explicit_bzero(config->common[i], strlen(config->common[i]));
        free(config->common[i]);
        config->common[i] = NULL;
    }
    for (unsigned i = 0; i < REDLOCK_NODES_MAX; i++) {
        if (config->texts[i] != NULL)
            explicit_bzero(config->texts[i], config->text_lens[i]);
        free(config->texts[i]);
        config->texts[i] = NULL;
    }
}

void redlock_config_print(const struct redlock_config *config, char *out, size_t size)
{
    char others[24] = "";

    if (config->count > 1)
        (void)snprintf(others, sizeof others, " and %u more", config->count - 1);
    (void)snprintf(out, size, "%.40s%s", config->nodes[0].endpoint, others);
}

int64_t redlock_config_timeout_ns(const struct redlock_config *config, int64_t ttl_ms)
{
    int64_t timeout_ms = ttl_ms / TIMEOUT_SHARE;

    if (config->node_timeout_ms > 0)
        return config->node_timeout_ms * DL_NS_PER_MS;
    if (ttl_ms == 0 || timeout_ms > TIMEOUT_MOST_MS)
        timeout_ms = TIMEOUT_MOST_MS;
    return (timeout_ms < TIMEOUT_LEAST_MS ? TIMEOUT_LEAST_MS : timeout_ms) * DL_NS_PER_MS;
}

/* ---- errors ---- */

enum dlock_status redlock_config_fail(struct dlock_error *err, const struct redlock_config *config,
                                      enum dlock_status status, const char *format, ...)
{
    char text[sizeof err->message], all[64] = "";
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (config->count > 0)
        redlock_config_print(config, all, sizeof all);
    return dlock_fail(err, REDLOCK_ORIGIN, status, 0, "%s%s%.180s", all, all[0] != '\0' ? ": " : "",
                      text);
}

enum dlock_status redlock_config_fail_key(struct dlock_error *err,
                                          const struct redlock_config *config,
                                          enum dlock_status status, const struct resp_keys *keys)
{
    size_t len = keys->lens[0] < KEY_TEXT_MAX ? keys->lens[0] : KEY_TEXT_MAX;

    return redlock_config_fail(err, config, status,
                               "the key %.*s, or one beside it, is something else (WRONGTYPE)",
                               (int)len, keys->bytes[0]);
}
