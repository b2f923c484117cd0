/* SPDX-License-Identifier: MIT */
#include "redis/guard/settings.h"
#include "redis/guard/view.h"
#include "resp/error.h"

#include <stdio.h>

#define CLOCKS_DIFFER_MS 1000 /* S */
#define MARGIN_MS        1000 /* of D, beyond what the server's settings say */
#define LEAST_MAJOR      7    /* an older server replicates relative times to live */

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
            (long long)redis_view_followers_least(info->replicas), (long long)info->min_replicas,
            (long long)info->replicas);
    return resp_error_fail(
        config, err, DLOCK_CONFIG,
        "a replica may become the master, and nothing ends this one then: set "
        "min-replicas-to-write %lld (now %lld) and min-replicas-max-lag 10 in all "
        "servers, or failover=unsafe in the URI: a failover may make two holders",
        (long long)redis_view_followers_least(info->replicas), (long long)info->min_replicas);
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
    return info->min_replicas >= redis_view_followers_least(info->replicas) &&
           settings_last_ms(info) > 0;
}

enum dlock_status redis_settings_judge(const struct resp_config *config,
                                       const struct resp_info *info, struct redis_guard *guard,
                                       struct dlock_error *err)
{
    int64_t longest_ms = config->restart_guard_ms, lasts_ms = settings_last_ms(info);
    int64_t least = redis_view_followers_least(info->replicas);
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
    guard->is_safe = redis_settings_lack(info) == NULL;
    return DLOCK_OK;
}

const char *redis_settings_lack(const struct resp_info *info)
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

void redis_settings_report(const struct resp_config *config, const struct resp_info *info,
                           dlock_check_fn *fn, void *arg)
{
    struct dlock_check check = {.struct_size = sizeof check, .name = "failover guard"};
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct redis_guard guard = {.on = true};
    char found[160];

    check.found = off_why(config);
    if (info->replicas > 0 || resp_info_was_promoted(info) || config->moves || info->cluster)
        check.advice = "a failover may make two holders";
    if (info->is_guarded && redis_settings_judge(config, info, &guard, &ignored) == DLOCK_OK) {
        (void)snprintf(found, sizeof found,
                       "%g s (T %g s, D %g s), %lld of %lld replicas have to confirm",
                       (double)guard.grants_ms / 1000, (double)config->restart_guard_ms / 1000,
                       (double)(guard.grants_ms - config->restart_guard_ms) / 1000,
                       (long long)guard.needed, (long long)info->replicas);
        check.found = found;
        check.advice = redis_settings_lack(info);
    }
    check.clears = check.advice != NULL ? DLOCK_CAP_FAILOVER_SAFE : 0;
    fn(arg, &check);
    check = (struct dlock_check){
        .struct_size = sizeof check, .name = "followers of the server", .found = info->followers};
    if (info->followers[0] != '\0') /* one of them may be no replica, and confirm */
        fn(arg, &check);
}
