/* SPDX-License-Identifier: MIT */
#include "probe.h"

#include "connect.h"
#include "rpc.h"

#include <string.h>

#define MS_PER_S 1000
#define KB       1024

void etcd_probe_info(struct etcd_session *session, const struct etcd_member *member,
                     struct dlock_session_info *info)
{
    info->caps = ETCD_CAPS;
    if (session->config.raw) /* keys of other names may stand among those of a name */
        info->caps &= ~DLOCK_CAP_LIMIT;
    (void)snprintf(info->server, sizeof info->server, "etcd %s", member->version);
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%s", member->endpoint);
    info->ttl_least_ms = etcd_lease_pool_least(&session->pool);
    info->ttl_most_ms = ETCD_TTL_MOST_MS;
    info->ttl_step_ms = MS_PER_S;
}

/* Who is told. */
struct report {
    dlock_check_fn *fn; /* NULL: nobody */
    void *arg;
};

static void tell(const struct report *report, const char *name, const char *found,
                 const char *advice)
{
    const struct dlock_check check = {
        .struct_size = sizeof check, .name = name, .found = found, .advice = advice};

    if (report->fn != NULL)
        report->fn(report->arg, &check);
}

/* ---- what the members say ---- */

struct answers {
    struct etcd_rpc status, alarms, members, read;
};

static void answers_init(struct answers *answers)
{
    etcd_rpc_init(&answers->status, ETCD_STATUS, 1);
    etcd_rpc_init(&answers->alarms, ETCD_ALARM, 1);
    etcd_rpc_init(&answers->members, ETCD_MEMBER_LIST, 1);
    etcd_rpc_init(&answers->read, ETCD_RANGE, 1);
}

static void answers_fini(struct answers *answers)
{
    etcd_rpc_fini(&answers->status);
    etcd_rpc_fini(&answers->alarms);
    etcd_rpc_fini(&answers->members);
    etcd_rpc_fini(&answers->read);
}

/* Counts all keys of the prefix, which wants the right to read them all. */
static bool read_add(struct etcd_rpc *rpc, const struct etcd_config *config)
{
    Pb__RangeRequest request = PB__RANGE_REQUEST__INIT;
    unsigned char begin[sizeof config->prefix] = {0}, end[sizeof config->prefix] = {0};
    size_t len = config->prefix_len > 0 ? config->prefix_len : 1;

    memcpy(begin, config->prefix, config->prefix_len);
    memcpy(end, config->prefix, config->prefix_len);
    if (config->prefix_len > 0)
        end[len - 1]++; /* it ends with a slash */
    request.key = (ProtobufCBinaryData){len, begin};
    request.range_end = (ProtobufCBinaryData){len, end};
    request.count_only = true;
    return etcd_rpc_add(rpc, &request.base);
}

static bool answers_ask(struct answers *answers, const struct etcd_config *config,
                        struct etcd_channel *channel, int64_t deadline_ns)
{
    Pb__Empty request = PB__EMPTY__INIT;
    struct etcd_call *calls[] = {&answers->status.call, &answers->alarms.call,
                                 &answers->members.call, &answers->read.call};

    if (!etcd_rpc_add(&answers->status, &request.base) ||
        !etcd_rpc_add(&answers->alarms, &request.base) ||
        !etcd_rpc_add(&answers->members, &request.base) || !read_add(&answers->read, config))
        return false;
    etcd_channel_run(channel, calls, sizeof calls / sizeof calls[0], deadline_ns);
    return true;
}

/* NULL: there is no answer, which is told. */
static const ProtobufCMessage *answer_of(const struct report *report, const char *name,
                                         const struct etcd_rpc *rpc)
{
    if (etcd_rpc_judge(&rpc->call).status == DLOCK_OK && rpc->count == 1)
        return etcd_rpc_answer(rpc, 0);
    tell(report, name, rpc->call.text[0] != '\0' ? rpc->call.text : "not known", NULL);
    return NULL;
}

static void alarms_tell(const struct report *report, const struct etcd_rpc *rpc)
{
    const Pb__AlarmResponse *answer = (const Pb__AlarmResponse *)answer_of(report, "alarms", rpc);
    bool full = false, corrupt = false;

    if (answer == NULL)
        return;
    for (size_t i = 0; i < answer->n_alarms; i++) {
        full = full || answer->alarms[i]->alarm == 1;
        corrupt = corrupt || answer->alarms[i]->alarm == 2;
    }
    if (corrupt)
        tell(report, "alarms", "CORRUPT",
             "no lock is given: members have different data; restore the cluster");
    else if (full)
        tell(report, "alarms", "NOSPACE",
             "no new lock is given: compact and defragment the database, then disarm the alarm");
    else
        tell(report, "alarms", answer->n_alarms > 0 ? "an unknown one" : "none", NULL);
}

static void members_tell(const struct report *report, const struct etcd_rpc *rpc, size_t named)
{
    const Pb__MemberListResponse *answer =
        (const Pb__MemberListResponse *)answer_of(report, "members", rpc);
    const char *advice = NULL;
    char found[64];

    if (answer == NULL)
        return;
    (void)snprintf(found, sizeof found, "%zu, in the URI %zu", answer->n_members, named);
    if (answer->n_members > named)
        advice = "name all members in the URI: if those in it are down, the others are not found";
    else if (answer->n_members < 3)
        advice = "while one member is down there are no locks; a cluster of three goes on";
    tell(report, "members", found, advice);
}

static void keys_tell(const struct report *report, const struct etcd_rpc *rpc)
{
    const Pb__RangeResponse *answer = NULL;
    char found[64];

    if (rpc->call.end == ETCD_ANSWERED && etcd_rpc_judge(&rpc->call).status == DLOCK_AUTH) {
        tell(report, "keys", "no right to read all keys of the prefix",
             "locks may work, if the user has rights on their names; a list of locks does not");
        return;
    }
    answer = (const Pb__RangeResponse *)answer_of(report, "keys", rpc);
    if (answer == NULL)
        return;
    (void)snprintf(found, sizeof found, "%lld below the prefix", (long long)answer->count);
    tell(report, "keys", found, NULL);
}

/* ---- one member ---- */

static void member_tell(const struct report *report, const char *name,
                        const struct answers *answers, const struct etcd_member *member)
{
    const Pb__StatusResponse *answer =
        (const Pb__StatusResponse *)answer_of(report, name, &answers->status);
    char found[192];

    if (answer == NULL)
        return;
    (void)snprintf(found, sizeof found, "%.63s, etcd %s, %s, database of %lld kB", member->endpoint,
                   member->version,
                   answer->header != NULL && answer->header->member_id == answer->leader
                       ? "leader"
                       : "follower",
                   (long long)answer->db_size / KB);
    tell(report, name, found, NULL);
}

/* On a connection of its own, so that it finds what the next connection would find. cluster: tell
 * what all members say alike, too. */
static enum dlock_status member_probe(struct etcd_session *session, size_t index,
                                      int64_t deadline_ns, struct etcd_member *member,
                                      const struct report *report, bool cluster,
                                      struct dlock_error *err)
{
    struct etcd_channel *channel = NULL;
    struct answers answers;
    char name[32];
    enum dlock_status status =
        etcd_connect(&session->endpoints.cluster, index, deadline_ns, &channel, member, err);

    (void)snprintf(name, sizeof name, "member %zu", index + 1);
    if (status != DLOCK_OK) {
        tell(report, name, err->message,
             status == DLOCK_UNAVAILABLE
                 ? "the others serve without it, as long as they are a majority of the cluster"
                 : "it serves no locks: correct it, or take it out of the URI");
        return status;
    }
    answers_init(&answers);
    if (answers_ask(&answers, &session->config, channel, deadline_ns)) {
        member_tell(report, name, &answers, member);
        if (cluster) {
            members_tell(report, &answers.members, session->config.count);
            alarms_tell(report, &answers.alarms);
            keys_tell(report, &answers.read);
        }
    } else {
        status = dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
    }
    answers_fini(&answers);
    etcd_channel_free(channel);
    return status;
}

static void session_tell(struct etcd_session *session, const struct report *report)
{
    const struct etcd_config *config = &session->config;
    char found[32];

    (void)snprintf(found, sizeof found, "%016llx",
                   (unsigned long long)atomic_load(&session->endpoints.cluster.id));
    tell(report, "cluster", found, NULL);
    tell(report, "prefix", config->prefix_len > 0 ? config->prefix : "none", NULL);
}

enum dlock_status etcd_probe(void *self, int64_t deadline_ns, struct dlock_session_info *info,
                             dlock_check_fn *fn, void *arg, struct dlock_error *err)
{
    struct etcd_session *session = self;
    const struct report report = {fn, arg};
    const size_t count = session->config.count;
    struct dlock_error first = DLOCK_ERROR_INIT;
    bool served = false;

    for (size_t i = 0; i < count; i++) {
        const int64_t now_ns = session->host->now_ns(session->host->ctx);
        const int64_t share_ns = (deadline_ns - now_ns) / (int64_t)(count - i);
        struct dlock_error why = DLOCK_ERROR_INIT;
        struct etcd_member member = {.cluster_id = 0};
        enum dlock_status status =
            member_probe(session, i, now_ns + share_ns, &member, &report, !served, &why);

        if (status == DLOCK_OK && !served)
            etcd_probe_info(session, &member, info);
        else if (status != DLOCK_OK && first.status == DLOCK_OK)
            first = why;
        served = served || status == DLOCK_OK;
    }
    if (!served)
        return dlock_fail(err, ETCD_ORIGIN, first.status, first.code, "%s", first.message);
    session_tell(session, &report);
    return DLOCK_OK;
}
