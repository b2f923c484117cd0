/* SPDX-License-Identifier: MIT */
#include "redis/guard/view.h"
#include "lib/time.h"
#include "redis/link/slot.h"
#include "resp/error.h"
#include "resp/reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the slots of a server of a cluster, and since when they are guarded (owned.lua) ---- */

void redis_view_slots_free(struct redis_slots *owned)
{
    free(owned->ranges);
    *owned = (struct redis_slots){.ranges = NULL};
}

/* A number up to this one, and the character after it. */
static bool digits_read(const char **at, char after, int64_t most, int64_t *out)
{
    char *end = NULL;

    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *out = strtoll(*at, &end, 10);
    if (errno != 0 || *out > most || (after != '\0' ? *end != after : *end != ' ' && *end != '\0'))
        return false;
    *at = after != '\0' ? end + 1 : end;
    return true;
}

static bool range_read(struct redis_slot_range *range, const char **at, int64_t least)
{
    int64_t first = 0, last = 0;

    if (*(*at)++ != ' ' || !digits_read(at, '-', REDIS_SLOTS - 1, &first) ||
        !digits_read(at, '@', REDIS_SLOTS - 1, &last) ||
        !digits_read(at, '\0', INT64_MAX, &range->since_us) || first < least || last < first)
        return false;
    range->first = (uint16_t)first;
    range->last = (uint16_t)last;
    return true;
}

bool redis_view_slots_read(struct redis_slots *owned, const char *text)
{
    size_t most = 0;
    int64_t least = 0;

    redis_view_slots_free(owned);
    for (const char *at = text; (at = strchr(at, '@')) != NULL; at++)
        most++;
    if (most == 0)
        return *text == '\0';
    owned->ranges = calloc(most, sizeof owned->ranges[0]);
    while (owned->ranges != NULL && *text != '\0') {
        if (owned->count == most || !range_read(&owned->ranges[owned->count], &text, least)) {
            redis_view_slots_free(owned);
            return false;
        }
        least = (int64_t)owned->ranges[owned->count++].last + 1;
    }
    return owned->ranges != NULL;
}

int64_t redis_view_slots_since(const struct redis_slots *owned, unsigned slot)
{
    size_t low = 0, high = owned->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct redis_slot_range *range = &owned->ranges[middle];

        if (slot < range->first)
            high = middle;
        else if (slot > range->last)
            low = middle + 1;
        else
            return range->since_us;
    }
    return -1;
}

/* ---- where the guard keeps its record in a cluster ---- */

#define ID_SIZE   41
#define WORD_SIZE 96
#define FIRST     12007u /* slots with low numbers are moved first, as a rule */
#define SPREAD    40503u /* odd: FIRST + i * SPREAD is an order of all slots */
#define TAGS_MOST (1u << 24)

/* "id address flags master ping pong epoch link slots..." */
struct line {
    char id[ID_SIZE], flags[WORD_SIZE], master[ID_SIZE];
    const char *slots; /* to the end of the line */
};

static bool line_read(struct line *line, const char *text)
{
    int used = 0;

    if (sscanf(text, "%40s %*s %95s %40s %*s %*s %*s %*[^ \n]%n", line->id, line->flags,
               line->master, &used) != 3 ||
        used == 0)
        return false;
    line->slots = text + used;
    return true;
}

static const char *line_next(const char *text)
{
    const char *end = strchr(text, '\n');

    return end != NULL && end[1] != '\0' ? end + 1 : NULL;
}

static bool self_find(struct line *line, const char *nodes)
{
    for (const char *text = nodes; text != NULL; text = line_next(text))
        if (line_read(line, text) && strstr(line->flags, "myself") != NULL)
            return true;
    return false;
}

static int64_t replicas_count(const char *nodes, const char *id)
{
    struct line line;
    int64_t count = 0;

    for (const char *text = nodes; text != NULL; text = line_next(text))
        count += line_read(&line, text) && strstr(line.flags, "slave") != NULL &&
                 strcmp(line.master, id) == 0;
    return count;
}

/* What to do with a word of the slots: "5", "0-5460", or "[7->-id]" of one that moves. */
static void word_take(bool has[REDIS_SLOTS], const char *word, bool moving)
{
    char *end = NULL;
    bool moves = *word == '[';
    unsigned long first = strtoul(word + (moves ? 1 : 0), &end, 10), last = first;

    if (moves != moving)
        return;
    if (!moves && *end == '-')
        last = strtoul(end + 1, NULL, 10);
    for (unsigned long slot = first; slot <= last && slot < REDIS_SLOTS; slot++)
        has[slot] = !moves;
}

static void slots_take(bool has[REDIS_SLOTS], const char *slots, bool moving)
{
    for (const char *at = slots; *at == ' '; at += strcspn(at, " \n")) {
        at += strspn(at, " ");
        word_take(has, at, moving);
    }
}

/* The shortest text of hexadecimal digits with this slot. */
static bool tag_make(char tag[REDIS_TAG_SIZE], unsigned slot)
{
    for (unsigned i = 0; i < TAGS_MOST; i++) {
        int len = snprintf(tag, REDIS_TAG_SIZE, "{%x}", i);

        if (redis_slot(tag, (size_t)len) == slot)
            return true;
    }
    return false;
}

bool redis_view_tag_choose(const char *nodes, char tag[REDIS_TAG_SIZE], int64_t *replicas)
{
    struct line line;
    bool has[REDIS_SLOTS] = {false};

    if (!self_find(&line, nodes))
        return false;
    *replicas = replicas_count(nodes, line.id);
    slots_take(has, line.slots, false);
    slots_take(has, line.slots, true);
    for (unsigned i = 0; i < REDIS_SLOTS; i++) {
        unsigned slot = (FIRST + i * SPREAD) % REDIS_SLOTS;

        if (has[slot])
            return tag_make(tag, slot);
    }
    return false;
}

/* ---- what a server's settings are worth ---- */

#define CLOCKS_DIFFER_MS 1000 /* S */
#define MARGIN_MS        1000 /* of D, beyond what the server's settings say */
#define LEAST_MAJOR      7    /* an older server replicates relative times to live */

/* The master and its followers have to be more than half of the servers: two masters with so many
 * followers each would have one in common. */
static int64_t followers_least(int64_t replicas)
{
    return replicas > 1 ? (replicas + 1) / 2 : 1;
}

static enum dlock_status unbounded(const struct resp_config *config, const struct resp_info *info,
                                   struct dlock_error *err)
{
    if (info->min_replicas < 0)
        return resp_error_fail(
            config, err, DLOCK_CONFIG,
            "a replica may become the master, and how long this one goes on then "
            "is not known: the user may not read min-replicas-to-write%s (grant "
            "+config|get, or set failover_guard=%s, or failover=unsafe)",
            info->cluster ? " and cluster-node-timeout" : "", info->cluster ? "46s" : "41s");
    if (info->cluster)
        return resp_error_fail(
            config, err, DLOCK_CONFIG,
            "a replica may become the master, and nothing ends this one then: set "
            "min-replicas-to-write %lld (now %lld) in all servers of the cluster, which has "
            "%lld replicas of this one, or failover=unsafe in the URI: a failover may make two "
            "holders",
            (long long)followers_least(info->replicas), (long long)info->min_replicas,
            (long long)info->replicas);
    return resp_error_fail(
        config, err, DLOCK_CONFIG,
        "a replica may become the master, and nothing ends this one then: set "
        "min-replicas-to-write %lld (now %lld) and min-replicas-max-lag 10 in all "
        "servers, or failover=unsafe in the URI: a failover may make two holders",
        (long long)followers_least(info->replicas), (long long)info->min_replicas);
}

/* D, as the server's settings say; 0: they do not. */
static int64_t settings_last_ms(const struct resp_info *info)
{
    int64_t lasts_ms = info->cluster ? info->node_timeout_ms : info->max_lag_s * 1000;

    return lasts_ms > 0 ? lasts_ms + MARGIN_MS : 0;
}

/* The settings say how many replicas have to follow, and D. */
static bool are_known(const struct resp_info *info)
{
    return info->min_replicas >= followers_least(info->replicas) && settings_last_ms(info) > 0;
}

enum dlock_status redis_view_judge(const struct resp_config *config, const struct resp_info *info,
                                   struct redis_guard *guard, struct dlock_error *err)
{
    int64_t longest_ms = config->restart_guard_ms, lasts_ms = settings_last_ms(info);
    int64_t least = followers_least(info->replicas);
    bool known = are_known(info);

    if (longest_ms <= 0)
        return resp_error_fail(config, err, DLOCK_CONFIG,
                               "a replica may become the master: restart_guard has to say what the "
                               "longest ttl is (or failover=unsafe)");
    if (config->failover_guard_ms > 0)
        lasts_ms = config->failover_guard_ms - longest_ms;
    if (lasts_ms <= 0 || (!known && info->min_replicas >= 0) ||
        (!known && config->failover_guard_ms == 0))
        return unbounded(config, info, err);
    guard->needed = info->min_replicas > least ? info->min_replicas : least;
    guard->lasts_ms = lasts_ms / 2;
    guard->yours_ms = lasts_ms + CLOCKS_DIFFER_MS;
    guard->grants_ms = longest_ms + lasts_ms;
    guard->is_safe = redis_view_lack(info) == NULL;
    return DLOCK_OK;
}

const char *redis_view_lack(const struct resp_info *info)
{
    if (!are_known(info))
        return "the user may not read the settings that make a failover safe: grant +config|get";
    if (info->major < LEAST_MAJOR)
        return "a server before Redis 7.0 sends its replicas how long a lease lasts, and not until "
               "when: a failover may lengthen it";
    if (info->cluster && info->replicas > info->min_replicas && !info->replicas_stay)
        return "a replica of an old master may go to another one: set "
               "cluster-allow-replica-migration no in all servers, or min-replicas-to-write to the "
               "number of replicas";
    return NULL;
}

/* ---- for doctor ---- */

static const char *off_why(const struct resp_config *config)
{
    if (config->raw)
        return "off, for key=raw";
    return config->failover == RESP_FAILOVER_UNSAFE ? "off" : "off, as no replica is seen";
}

void redis_view_report(const struct resp_config *config, const struct resp_info *info,
                       dlock_check_fn *fn, void *arg)
{
    struct dlock_check check = {.struct_size = sizeof check, .name = "failover guard"};
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct redis_guard guard = {.on = true};
    char found[160];

    check.found = off_why(config);
    if (info->replicas > 0 || resp_info_was_promoted(info) || config->moves || info->cluster)
        check.advice = "a failover may make two holders";
    if (info->is_guarded && redis_view_judge(config, info, &guard, &ignored) == DLOCK_OK) {
        (void)snprintf(found, sizeof found,
                       "%g s (T %g s, D %g s), %lld of %lld replicas have to confirm",
                       (double)guard.grants_ms / 1000, (double)config->restart_guard_ms / 1000,
                       (double)(guard.grants_ms - config->restart_guard_ms) / 1000,
                       (long long)guard.needed, (long long)info->replicas);
        check.found = found;
        check.advice = redis_view_lack(info);
    }
    check.clears = check.advice != NULL ? DLOCK_CAP_FAILOVER_SAFE : 0;
    fn(arg, &check);
    check = (struct dlock_check){
        .struct_size = sizeof check, .name = "followers of the server", .found = info->followers};
    if (info->followers[0] != '\0') /* one of them may be no replica, and confirm */
        fn(arg, &check);
}

/* ---- looks ---- */

#define VIEWS_EVERY_MS 1000 /* see call.c */
#define US_PER_MS      INT64_C(1000)

static bool number_read(const redisReply *reply, size_t i, int64_t *out)
{
    const redisReply *text = resp_reply_text(reply, i);

    if (text == NULL || text->len == 0 || text->len > 18 ||
        strspn(text->str, "0123456789") != (size_t)text->len)
        return false;
    *out = strtoll(text->str, NULL, 10);
    return true;
}

const char *redis_view_keep(struct redis_guard *guard, const redisReply *reply, int64_t seen_ns)
{
    struct redis_view view = {.seen_ns = seen_ns};
    struct redis_slots owned = {.ranges = NULL}, spare;
    int64_t since_us = 0, replicas = 0;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 6 ||
        !number_read(reply, 0, &view.server_us) || !number_read(reply, 1, &view.offset) ||
        !number_read(reply, 2, &since_us) || !number_read(reply, 3, &replicas) ||
        resp_reply_text(reply, 4) == NULL || view.server_us == 0)
        return "no longer the master that it was";
    if (followers_least(replicas) > guard->needed)
        return "the server has more replicas now";
    if (!redis_view_slots_read(&owned, reply->element[4]->str))
        return "the slots of the server make no sense";
    (void)pthread_mutex_lock(&guard->mutex);
    if (guard->views[0].server_us == 0 || view.offset >= guard->views[0].offset) {
        guard->views[1] = guard->views[0];
        guard->views[0] = view;
        guard->since_us = since_us;
        spare = guard->owned;
        guard->owned = owned;
        owned = spare;
    } /* else another thread has stored a later look already */
    (void)pthread_mutex_unlock(&guard->mutex);
    redis_view_slots_free(&owned);
    return NULL;
}

static bool counts(const struct redis_guard *guard, const struct redis_view *view, int64_t now_ns)
{
    return view->server_us != 0 && now_ns - view->seen_ns <= guard->lasts_ms * DL_NS_PER_MS;
}

bool redis_view_expired(struct redis_guard *guard, int64_t now_ns)
{
    bool expired = false;

    (void)pthread_mutex_lock(&guard->mutex);
    expired = !counts(guard, &guard->views[0], now_ns);
    (void)pthread_mutex_unlock(&guard->mutex);
    return expired;
}

bool redis_view_unsettled(struct redis_guard *guard, int64_t now_ns)
{
    int64_t most_ms = guard->lasts_ms - VIEWS_EVERY_MS / 2;
    bool unsettled = false;

    (void)pthread_mutex_lock(&guard->mutex);
    unsettled =
        guard->views[1].server_us == 0 || now_ns - guard->views[1].seen_ns > most_ms * DL_NS_PER_MS;
    (void)pthread_mutex_unlock(&guard->mutex);
    return unsettled;
}

/* [FO-12] Since when the guard of names of this slot runs; 0: not yet. With the mutex held. */
static int64_t since_us_locked(const struct redis_guard *guard, int slot)
{
    int64_t there_us = slot >= 0 ? redis_view_slots_since(&guard->owned, (unsigned)slot) : 0;

    if (there_us < 0 || guard->since_us == 0)
        return 0;
    return there_us > guard->since_us ? there_us : guard->since_us;
}

void redis_view_word(struct redis_guard *guard, int slot, int64_t now_ns,
                     char out[REDIS_VIEW_WORD_SIZE])
{
    struct redis_view views[2];
    int64_t since_us = 0;

    if (!guard->on) {
        (void)snprintf(out, REDIS_VIEW_WORD_SIZE, "%s%s", guard->id, guard->alone ? " alone" : "");
        return;
    }
    (void)pthread_mutex_lock(&guard->mutex);
    memcpy(views, guard->views, sizeof views);
    since_us = since_us_locked(guard, slot);
    (void)pthread_mutex_unlock(&guard->mutex);
    for (size_t i = 0; i < 2; i++)
        if (!counts(guard, &views[i], now_ns))
            views[i] = (struct redis_view){.offset = -1};
    (void)snprintf(out, REDIS_VIEW_WORD_SIZE, "%s %lld %lld %lld %lld %lld %lld %lld %lld %lld",
                   guard->id, (long long)since_us, (long long)views[0].server_us,
                   (long long)views[0].offset, (long long)views[1].server_us,
                   (long long)views[1].offset, (long long)guard->needed,
                   (long long)guard->lasts_ms * US_PER_MS, (long long)guard->yours_ms * US_PER_MS,
                   (long long)guard->grants_ms * US_PER_MS);
}

int64_t redis_view_left_ms(struct redis_guard *guard, int slot, int64_t now_ns, int64_t *age_ms)
{
    int64_t age_us = guard->grants_ms * US_PER_MS; /* not known yet: the script refuses */
    int64_t since_us = 0;

    (void)pthread_mutex_lock(&guard->mutex);
    since_us = since_us_locked(guard, slot);
    if (since_us != 0)
        age_us = guard->views[0].server_us - since_us +
                 (now_ns - guard->views[0].seen_ns) / (DL_NS_PER_MS / US_PER_MS);
    (void)pthread_mutex_unlock(&guard->mutex);
    *age_ms = age_us / US_PER_MS;
    return *age_ms < guard->grants_ms ? guard->grants_ms - *age_ms : 0;
}
