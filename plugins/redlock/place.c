/* SPDX-License-Identifier: MIT */
#include "lib/hex.h"
#include "redlock.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT     6379
#define TIMEOUT_SHARE    20 /* of the ttl: how long a node may take */
#define TIMEOUT_LEAST_MS 5
#define TIMEOUT_MOST_MS  50

static enum dlock_status refuse(struct dlock_error *err, const char *why)
{
    return dlock_fail(err, REDLOCK_ORIGIN, DLOCK_INVALID, 0, "%s", why);
}

/* Digits of a database's number; "" is 0. */
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
        .user = target->user,
        .prefix = prefix != NULL ? prefix : "",
        .unsafe_eviction = target->number(target, "unsafe_eviction") != 0,
        .restart_guard_ms = target->number(target, "restart_guard"),
        .secure = strcmp(target->scheme, "redlocks") == 0,
    };
    if (strlen(node->prefix) > RESP_PREFIX_MAX || strpbrk(node->prefix, "{}") != NULL)
        return refuse(err, "prefix: at most 64 bytes, and no braces");
    if (!database_parse(path[0] == '/' ? path + 1 : path, &node->database))
        return refuse(err, "the path is the number of a database, as in redlock://h1,h2,h3/2");
    return DLOCK_OK;
}

/* A target lives as long as one session, and the place as long as all of them. */
static enum dlock_status common_keep(struct redlock_place *place, struct resp_config *common,
                                     struct dlock_error *err)
{
    const char **texts[] = {&common->user, &common->prefix};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (*texts[i] == NULL)
            continue;
        place->common[i] = strdup(*texts[i]);
        if (place->common[i] == NULL)
            return dlock_fail(err, REDLOCK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a client");
        *texts[i] = place->common[i];
    }
    return DLOCK_OK;
}

/* ---- node= ---- */

/* In place. */
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

/* "user:password", which replaces that of the URI. */
static bool user_take(struct resp_config *node, char *text)
{
    char *colon = strchr(text, ':');

    if (colon != NULL)
        *colon = '\0';
    node->user = text[0] != '\0' ? text : NULL;
    node->password = colon != NULL ? colon + 1 : NULL;
    return percent_decode(text) && (colon == NULL || percent_decode(colon + 1));
}

/* scheme://[user[:password]@]host[:port][/db]; text is taken apart, and borrowed. */
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
static enum dlock_status lines_init(struct redlock_place *place, const struct resp_config *common,
                                    const char *lines, struct dlock_error *err)
{
    while (lines != NULL && *lines != '\0') {
        size_t len = strcspn(lines, "\n");

        if (place->count == REDLOCK_NODES_MAX)
            return refuse(err, "at most 9 nodes");
        place->texts[place->count] = strndup(lines, len);
        if (place->texts[place->count] == NULL)
            return dlock_fail(err, REDLOCK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a node");
        place->text_lens[place->count] = len;
        place->nodes[place->count] = *common;
        if (strrchr(place->texts[place->count], '@') != NULL)
            place->named |= 1u << place->count;
        if (!node_parse(&place->nodes[place->count], place->texts[place->count]))
            return refuse(err, "node: want redis://[user:password@]host[:port][/db], or rediss://, "
                               "percent-encoded as a whole");
        place->count++;
        lines += len + (lines[len] == '\n');
    }
    return DLOCK_OK;
}

static enum dlock_status hosts_init(struct redlock_place *place, const struct resp_config *common,
                                    const char *const *hosts, struct dlock_error *err)
{
    for (; *hosts != NULL; hosts++) {
        if (place->count == REDLOCK_NODES_MAX)
            return refuse(err, "at most 9 nodes");
        place->nodes[place->count] = *common;
        if (!address_parse(&place->nodes[place->count].address, *hosts, DEFAULT_PORT))
            return refuse(err, "a host is not one that can be looked up");
        place->count++;
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

/* The password in the line of lines that is for this node, NULL: there is none; or the one that the
 * node had when the client was opened. lines are taken apart. */
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

enum dlock_status redlock_place_secret(const struct redlock_place *place, unsigned node,
                                       const struct dlock_target *target, char **secret,
                                       struct dlock_error *err)
{
    bool named = (place->named & 1u << node) != 0;
    char *room = malloc(SECRET_ROOM);
    const char *found = NULL;
    int len = -2;

    *secret = NULL;
    if (room == NULL)
        return dlock_fail(err, REDLOCK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a password");
    len = target->read_secret(target, named ? "node" : NULL, room, SECRET_ROOM, err);
    if (len >= 0)
        found = named ? line_password(&place->nodes[node], room) : room;
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

static enum dlock_status count_check(struct redlock_place *place, bool any_count,
                                     struct dlock_error *err)
{
    for (unsigned i = 0; i < place->count; i++)
        for (unsigned other = 0; other < i; other++)
            if (same_address(&place->nodes[i], &place->nodes[other]))
                return refuse_twice(&place->nodes[i], err);
    if (place->count == 0)
        return refuse(err, "want nodes, as in redlock://h1,h2,h3");
    if (!any_count && (place->count < 3 || place->count % 2 == 0))
        return count_refuse(place->count, err);
    place->need = quorum_need(place->count);
    return DLOCK_OK;
}

enum dlock_status redlock_place_init(struct redlock_place *place, const struct dlock_target *target,
                                     struct dlock_error *err)
{
    struct resp_config common;
    enum dlock_status status = common_init(&common, target, err);

    *place = (struct redlock_place){
        .node_timeout_ms = target->number(target, "node_timeout"),
        .restart_guard_ms = target->number(target, "restart_guard"),
        .retry_delay_ms = target->number(target, "retry_delay"),
        .retry_count = (unsigned)target->number(target, "retry_count"),
        .spin = target->number(target, "spin") != 0,
    };
    if (status == DLOCK_OK)
        status = common_keep(place, &common, err);
    if (status == DLOCK_OK)
        status = hosts_init(place, &common, target->hosts, err);
    if (status == DLOCK_OK)
        status = lines_init(place, &common, target->option(target, "node"), err);
    if (status == DLOCK_OK)
        status = count_check(place, target->number(target, "any_count") != 0, err);
    if (status == DLOCK_OK)
        status = resp_config_take_tls(place->nodes, place->count, target, err);
    if (status == DLOCK_OK)
        status = resp_guard_judge_ttl(REDLOCK_ORIGIN, place->restart_guard_ms,
                                      target->number(target, "ttl"), err);
    for (unsigned i = 0; i < place->count; i++)
        address_format(&place->nodes[i].address, place->nodes[i].endpoint,
                       sizeof place->nodes[i].endpoint);
    return status;
}

void redlock_place_free(struct redlock_place *place)
{
    for (size_t i = 0; i < sizeof place->common / sizeof place->common[0]; i++) {
        if (place->common[i] != NULL)
            explicit_bzero(place->common[i], strlen(place->common[i]));
        free(place->common[i]);
        place->common[i] = NULL;
    }
    for (unsigned i = 0; i < REDLOCK_NODES_MAX; i++) {
        if (place->texts[i] != NULL)
            explicit_bzero(place->texts[i], place->text_lens[i]);
        free(place->texts[i]);
        place->texts[i] = NULL;
    }
}

void redlock_place_show(const struct redlock_place *place, char *out, size_t size)
{
    char others[24] = "";

    if (place->count > 1)
        (void)snprintf(others, sizeof others, " and %u more", place->count - 1);
    (void)snprintf(out, size, "%.40s%s", place->nodes[0].endpoint, others);
}

int64_t redlock_place_timeout_ns(const struct redlock_place *place, int64_t ttl_ms)
{
    int64_t timeout_ms = ttl_ms / TIMEOUT_SHARE;

    if (place->node_timeout_ms > 0)
        return place->node_timeout_ms * DL_NS_PER_MS;
    if (ttl_ms == 0 || timeout_ms > TIMEOUT_MOST_MS)
        timeout_ms = TIMEOUT_MOST_MS;
    return (timeout_ms < TIMEOUT_LEAST_MS ? TIMEOUT_LEAST_MS : timeout_ms) * DL_NS_PER_MS;
}
