/* SPDX-License-Identifier: MIT */
#include "connect.h"

#include "lib/text.h"
#include "net/stream.h"
#include "rpc.h"

#include <stdlib.h>
#include <string.h>

#define LOG_WARNING    1 /* DLOCK_LOG_WARNING of dlock.h */
#define SECRET_SIZE    4096
#define AUTHORITY_SIZE (ADDRESS_HOST_MAX + 16)
#define LEAST_MAJOR    3
#define LEAST_MINOR    4
#define GRPC_CANCELED  1

/* A connection that is being made. */
struct setup {
    struct etcd_cluster *cluster;
    const struct etcd_config *config;
    const struct address *address;
    struct etcd_member *member;
    struct etcd_channel *channel;
    bool answered;    /* the member has answered a call */
    int64_t revision; /* that the cluster is known to have had before the checks */
    int64_t deadline_ns;
    struct dlock_error *err;
};

static enum dlock_status fail_more(const struct setup *setup, enum dlock_status status, int code,
                                   const char *what, const char *more)
{
    return dlock_fail(setup->err, ETCD_ORIGIN, status, code, "%s: %s%s", setup->member->endpoint,
                      what, more);
}

static enum dlock_status fail(const struct setup *setup, enum dlock_status status, const char *what)
{
    return fail_more(setup, status, 0, what, "");
}

/* ---- transport ---- */

static enum dlock_status stream_status(enum stream_result result)
{
    switch (result) {
    case STREAM_OK:
        return DLOCK_OK;
    case STREAM_REFUSED:
        return DLOCK_AUTH;
    case STREAM_FOREIGN:
        return DLOCK_PROTOCOL;
    case STREAM_INVALID:
        return DLOCK_INVALID;
    default:
        return DLOCK_UNAVAILABLE;
    }
}

/* A server without TLS answers the first bytes of HTTP/2, a client's, by its SETTINGS: a length,
 * their type, 4, and flags. No secret is sent. */
static bool is_plain(const struct setup *setup)
{
    static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    unsigned char answer[9] = {0};

    return stream_ask_apart(setup->cluster->host, setup->address, hello, sizeof hello, answer,
                            sizeof answer, setup->deadline_ns) == sizeof answer &&
           answer[0] == 0 && answer[3] == 4 && answer[4] == 0;
}

/* The channel takes the stream over. */
static enum dlock_status channel_open(struct setup *setup)
{
    const char *sni = setup->config->sni;
    char authority[AUTHORITY_SIZE];
    struct stream stream;
    enum stream_result result = STREAM_OK;

    stream_init(&stream, setup->cluster->host);
    result = stream_connect(&stream, setup->address, setup->deadline_ns);
    if (result == STREAM_OK && setup->config->secure)
        result = stream_connect_tls(&stream, setup->cluster->tls,
                                    sni != NULL ? sni : setup->address->host, setup->deadline_ns);
    if (result != STREAM_OK) {
        bool closed = stream.ssl != NULL && (result == STREAM_CLOSED || result == STREAM_FAILED);

        stream_close(&stream);
        if (closed && is_plain(setup))
            return fail(setup, DLOCK_PROTOCOL,
                        "the server does not speak TLS: give its port with TLS, or write etcd://, "
                        "which encrypts nothing");
        return fail_more(setup, stream_status(result), 0, stream.why,
                         closed ? ": does it speak TLS?" : "");
    }
    address_format(setup->address, authority, sizeof authority);
    setup->channel = etcd_channel_new(&stream, authority);
    return setup->channel != NULL ? DLOCK_OK
                                  : fail(setup, DLOCK_NOMEM, "no memory for a connection");
}

/* ---- calls ---- */

static const char *certificate_refused(const struct setup *setup)
{
    return setup->config->tls.cert != NULL ? "the server refused our certificate: "
                                           : "the server wants a certificate, cert=: ";
}

/* The status of a call that changes nothing. The error is filled unless it is OK. */
static enum dlock_status call_judge(struct setup *setup, const struct etcd_rpc *rpc)
{
    const struct etcd_call *call = &rpc->call;
    enum stream_result failed = etcd_channel_failed(setup->channel);
    enum dlock_status status = etcd_rpc_judge(call).status;
    bool silent = false;

    if (rpc->no_memory)
        return fail(setup, DLOCK_NOMEM, "no memory for an answer");
    if (status == DLOCK_OK && rpc->count != rpc->most)
        return fail(setup, DLOCK_PROTOCOL, "an answer without a message");
    if (call->end == ETCD_ANSWERED)
        setup->answered = true;
    else if (failed == STREAM_REFUSED)
        return fail_more(setup, DLOCK_AUTH, 0, certificate_refused(setup), call->text);
    else if (failed == STREAM_FOREIGN)
        status = DLOCK_PROTOCOL;
    if (status == DLOCK_UNKNOWN)
        status = DLOCK_UNAVAILABLE;
    if (status == DLOCK_OK)
        return status;
    silent = failed == STREAM_CLOSED && !setup->config->secure && !setup->answered;
    if (silent && stream_wants_tls(setup->cluster->host, setup->address, setup->deadline_ns))
        return fail(setup, DLOCK_PROTOCOL, "the server speaks TLS: write etcds://");
    return fail_more(setup, status, call->grpc_status, call->text,
                     silent ? ": does it want TLS, etcds://?" : etcd_rpc_hint(call));
}

/* ---- login ---- */

static enum dlock_status secret_read(struct setup *setup, char *secret)
{
    const struct dlock_target *target = setup->config->target;
    int len = target->read_secret(target, NULL, secret, SECRET_SIZE, setup->err);

    if (len == -1)
        return fail(setup, DLOCK_AUTH, "a login needs a password: pass_file= or pass_env=");
    return len >= 0 ? DLOCK_OK : setup->err->status;
}

static enum dlock_status token_take(struct setup *setup, const struct etcd_rpc *rpc)
{
    const Pb__AuthenticateResponse *answer =
        (const Pb__AuthenticateResponse *)etcd_rpc_answer(rpc, 0);
    bool done = etcd_channel_set_token(setup->channel, answer->token);

    explicit_bzero(answer->token, strlen(answer->token));
    return done ? DLOCK_OK : fail(setup, DLOCK_NOMEM, "no memory for a token");
}

/* A cluster without authentication takes any user, as a new user may be in URIs before it is
 * switched on. */
static bool is_login_needless(const struct etcd_call *call)
{
    return call->end == ETCD_ANSWERED &&
           strstr(call->text, "authentication is not enabled") != NULL;
}

static enum dlock_status login_with(struct setup *setup, char *secret)
{
    Pb__AuthenticateRequest request = PB__AUTHENTICATE_REQUEST__INIT;
    struct etcd_rpc rpc;
    struct etcd_call *call = &rpc.call;
    enum dlock_status status = DLOCK_NOMEM;
    union {
        const char *in;
        char *out;
    } user = {.in = setup->config->user};

    request.name = user.out;
    request.password = secret;
    etcd_rpc_init(&rpc, ETCD_AUTHENTICATE, 1);
    if (!etcd_rpc_add(&rpc, &request.base)) {
        (void)fail(setup, status, "no memory for a login");
    } else {
        etcd_channel_run(setup->channel, &call, 1, setup->deadline_ns);
        status = call_judge(setup, &rpc);
        if (status == DLOCK_OK)
            status = token_take(setup, &rpc);
        else if (is_login_needless(call))
            status = DLOCK_OK;
    }
    etcd_rpc_fini(&rpc);
    return status;
}

/* [SEC-1] The secret may be changed between the two readings. */
static enum dlock_status login(struct setup *setup)
{
    char secret[SECRET_SIZE] = "", again[SECRET_SIZE] = "";
    enum dlock_status status = secret_read(setup, secret);

    if (status == DLOCK_OK)
        status = login_with(setup, secret);
    if (status == DLOCK_AUTH && setup->answered && secret_read(setup, again) == DLOCK_OK &&
        strcmp(secret, again) != 0)
        status = login_with(setup, again);
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(again, sizeof again);
    return status;
}

/* ---- checks ---- */

/* False: this is another cluster than before. */
static bool cluster_is_same(struct etcd_cluster *cluster, uint64_t id)
{
    uint64_t before = 0;

    return atomic_compare_exchange_strong(&cluster->id, &before, id) || before == id;
}

/* The members agreed on this revision after `before` was the greatest one. endpoint: the member
 * that says so. */
static void revision_check(struct etcd_cluster *cluster, int64_t before, int64_t revision,
                           const char *endpoint)
{
    char line[300];

    etcd_connect_note(cluster, revision);
    if (revision >= before || atomic_exchange(&cluster->warned, true))
        return;
    (void)snprintf(line, sizeof line,
                   "%s: the cluster has lost data: its revision went back from %lld to %lld. "
                   "Locks may be lost, and fencing tokens may repeat",
                   endpoint, (long long)before, (long long)revision);
    cluster->host->log(cluster->host->ctx, LOG_WARNING, line);
}

static enum dlock_status version_check(struct setup *setup, const char *version)
{
    char *end = NULL, text[80];
    long major = strtol(version, &end, 10);
    long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;

    dl_printable_mask(setup->member->version, sizeof setup->member->version, version,
                      strlen(version));
    if (major > LEAST_MAJOR || (major == LEAST_MAJOR && minor >= LEAST_MINOR))
        return DLOCK_OK;
    (void)snprintf(text, sizeof text, "etcd %s is too old: %d.%d or later is needed",
                   setup->member->version, LEAST_MAJOR, LEAST_MINOR);
    return fail(setup, DLOCK_CONFIG, text);
}

/* Holders in two clusters would know nothing of each other. */
static enum dlock_status cluster_check(struct setup *setup, uint64_t id)
{
    setup->member->cluster_id = id;
    if (cluster_is_same(setup->cluster, id))
        return DLOCK_OK;
    return fail(setup, DLOCK_CONFIG,
                "it belongs to another cluster than the member before; locks in two clusters "
                "exclude nobody");
}

static enum dlock_status status_check(struct setup *setup, const struct etcd_rpc *rpc)
{
    const Pb__StatusResponse *answer = NULL;
    enum dlock_status status = call_judge(setup, rpc);

    if (status != DLOCK_OK)
        return status;
    answer = (const Pb__StatusResponse *)etcd_rpc_answer(rpc, 0);
    if (answer->header == NULL)
        return fail(setup, DLOCK_PROTOCOL, "no etcd: a status without a header");
    status = version_check(setup, answer->version);
    if (status == DLOCK_OK && answer->is_learner)
        status = fail(setup, DLOCK_UNAVAILABLE, "it is a learner, which serves no locks");
    if (status == DLOCK_OK && answer->leader == 0)
        status = fail(setup, DLOCK_UNAVAILABLE, "it has no leader");
    return status == DLOCK_OK ? cluster_check(setup, answer->header->cluster_id) : status;
}

/* A read that the cluster agrees on: the cluster works, wants no other login, and has not lost
 * what it had. The user may have rights on other keys only. */
static enum dlock_status read_check(struct setup *setup, const struct etcd_rpc *rpc)
{
    enum dlock_status status = call_judge(setup, rpc);

    if (status == DLOCK_OK)
        revision_check(setup->cluster, setup->revision, etcd_rpc_revision(rpc),
                       setup->member->endpoint);
    else if (status == DLOCK_AUTH && !etcd_rpc_judge(&rpc->call).login && setup->answered)
        status = DLOCK_OK;
    return status;
}

/* A grpc-proxy of etcd keeps leases alive by itself, and gives its client the answer to an earlier
 * question, so that nobody knows how long a lease lasts. It cancels a KeepAlive when the client has
 * said all; a member answers first. No lease has the number 0. */
static enum dlock_status alive_check(struct setup *setup, const struct etcd_rpc *rpc)
{
    if (rpc->call.end == ETCD_ANSWERED &&
        (rpc->call.grpc_status == GRPC_CANCELED || strstr(rpc->call.text, "context canceled")))
        return fail(setup, DLOCK_CONFIG,
                    "it is a grpc-proxy of etcd, which answers for leases by itself: name the "
                    "members of the cluster");
    return call_judge(setup, rpc);
}

static bool alive_add(struct etcd_rpc *rpc)
{
    Pb__LeaseRequest request = PB__LEASE_REQUEST__INIT;

    return etcd_rpc_add(rpc, &request.base);
}

static bool read_add(const struct setup *setup, struct etcd_rpc *rpc)
{
    Pb__RangeRequest request = PB__RANGE_REQUEST__INIT;
    unsigned char key[sizeof setup->config->prefix] = {0};
    size_t len = setup->config->prefix_len;

    memcpy(key, setup->config->prefix, len);
    request.key = (ProtobufCBinaryData){len > 0 ? len : 1, key};
    request.keys_only = true;
    return etcd_rpc_add(rpc, &request.base);
}

static enum dlock_status member_check(struct setup *setup)
{
    Pb__Empty request = PB__EMPTY__INIT;
    struct etcd_rpc about, read, alive;
    struct etcd_call *calls[] = {&about.call, &read.call, &alive.call};
    enum dlock_status status = DLOCK_NOMEM;

    setup->revision = atomic_load(&setup->cluster->revision);
    etcd_rpc_init(&about, ETCD_STATUS, 1);
    etcd_rpc_init(&read, ETCD_RANGE, 1);
    etcd_rpc_init(&alive, ETCD_LEASE_KEEP_ALIVE, 1);
    if (!etcd_rpc_add(&about, &request.base) || !read_add(setup, &read) || !alive_add(&alive)) {
        (void)fail(setup, status, "no memory for a request");
    } else {
        etcd_channel_run(setup->channel, calls, 3, setup->deadline_ns);
        status = status_check(setup, &about);
        if (status == DLOCK_OK)
            status = read_check(setup, &read);
        if (status == DLOCK_OK)
            status = alive_check(setup, &alive);
    }
    etcd_rpc_fini(&about);
    etcd_rpc_fini(&read);
    etcd_rpc_fini(&alive);
    return status;
}

enum dlock_status etcd_connect(struct etcd_cluster *cluster, size_t index, int64_t deadline_ns,
                               struct etcd_channel **out, struct etcd_member *member,
                               struct dlock_error *err)
{
    struct setup setup = {
        .cluster = cluster,
        .config = cluster->config,
        .address = &cluster->config->members[index],
        .member = member,
        .deadline_ns = deadline_ns,
        .err = err,
    };
    enum dlock_status status = DLOCK_INTERNAL;

    *member = (struct etcd_member){0};
    address_format(setup.address, member->endpoint, sizeof member->endpoint);
    status = channel_open(&setup);
    if (status == DLOCK_OK && setup.config->user != NULL)
        status = login(&setup);
    if (status == DLOCK_OK)
        status = member_check(&setup);
    *out = setup.channel;
    if (status == DLOCK_OK || setup.channel == NULL)
        return status;
    etcd_channel_free(setup.channel);
    *out = NULL;
    return status;
}
