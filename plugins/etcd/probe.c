/* SPDX-License-Identifier: MIT */
#include "probe.h"

#include "connect.h"

#define MS_PER_S 1000

void etcd_probe_info(struct etcd_session *session, const struct etcd_member *member,
                     struct dlock_session_info *info)
{
    info->caps = ETCD_CAPS;
    (void)snprintf(info->server, sizeof info->server, "etcd %s", member->version);
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%s", member->endpoint);
    if (DLOCK_HAS(info, ttl_step_ms)) {
        info->ttl_least_ms = etcd_stock_least(&session->stock);
        info->ttl_most_ms = ETCD_TTL_MOST_MS;
        info->ttl_step_ms = MS_PER_S;
    }
}

static void report(const char *name, const char *found, const char *advice, dlock_check_fn *fn,
                   void *arg)
{
    const struct dlock_check check = {
        .struct_size = sizeof check, .name = name, .found = found, .advice = advice};

    if (fn != NULL)
        fn(arg, &check);
}

/* One member, on a connection of its own. */
static enum dlock_status member_probe(struct etcd_session *session, size_t index,
                                      int64_t deadline_ns, struct etcd_member *member,
                                      dlock_check_fn *fn, void *arg, struct dlock_error *err)
{
    struct etcd_channel *channel = NULL;
    char name[16], found[96];
    enum dlock_status status =
        etcd_connect(&session->endpoints.cluster, index, deadline_ns, &channel, member, err);

    (void)snprintf(name, sizeof name, "member %zu", index + 1);
    if (status != DLOCK_OK) {
        report(name, err->message, "the other members serve without it, if they are a majority", fn,
               arg);
        return status;
    }
    etcd_channel_free(channel);
    (void)snprintf(found, sizeof found, "%s, etcd %s", member->endpoint, member->version);
    report(name, found, NULL, fn, arg);
    return DLOCK_OK;
}

enum dlock_status etcd_probe(struct etcd_session *session, int64_t deadline_ns,
                             struct dlock_session_info *info, dlock_check_fn *fn, void *arg,
                             struct dlock_error *err)
{
    const size_t count = session->config.count;
    enum dlock_status first = DLOCK_UNAVAILABLE;
    bool served = false;

    for (size_t i = 0; i < count; i++) {
        const int64_t now_ns = etcd_stock_now(&session->stock);
        struct dlock_error why = DLOCK_ERROR_INIT;
        struct etcd_member member = {.cluster_id = 0};
        enum dlock_status status =
            member_probe(session, i, now_ns + (deadline_ns - now_ns) / (int64_t)(count - i),
                         &member, fn, arg, &why);

        if (status == DLOCK_OK && !served)
            etcd_probe_info(session, &member, info);
        else if (status != DLOCK_OK && i == 0)
            first = dlock_fail(err, ETCD_ORIGIN, status, why.code, "%s", why.message);
        served = served || status == DLOCK_OK;
    }
    return served ? DLOCK_OK : first;
}
