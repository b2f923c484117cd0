/* SPDX-License-Identifier: MIT */
#include "probe.h"

#include "admin.h"
#include "lib/text.h"
#include "net/stream.h"

#include <stdlib.h>
#include <string.h>

#define ANSWER_MOST 1024 /* to "srvr" */
#define TEXT        256
#define NAMES_MOST  1000 /* that are looked at for their recipes */

void zk_probe_info(struct zk_session *session, struct dlock_session_info *info)
{
    struct zk_session_state state;

    zk_link_state(session->link, &state);
    info->caps = ZK_CAPS;
    if (session->config.recipe == ZK_CURATOR)
        info->caps &= ~DLOCK_CAP_RWLOCK;
    if (info->server[0] == '\0')
        (void)snprintf(info->server, sizeof info->server, "ZooKeeper");
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%s",
                   state.server[0] != '\0' ? state.server : session->servers.endpoint);
    if (state.timeout_ms > 0) {
        const int64_t ttl_ms = state.timeout_ms - ZK_MARGIN_TICKS * session->tick_ms;

        info->ttl_least_ms = info->ttl_most_ms = ttl_ms > 0 ? ttl_ms : 1;
        info->ttl_step_ms = 0;
    }
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

/* ---- servers, by their four-letter word "srvr" ---- */

/* False: no answer, and answer says why. */
static bool srvr_ask(const struct zk_session *session, const struct address *address,
                     int64_t deadline_ns, char answer[ANSWER_MOST])
{
    struct stream stream;
    size_t len = 0, received = 0;
    bool begun = false;
    enum stream_result result = STREAM_FAILED;

    stream_init(&stream, session->host);
    result = stream_connect(&stream, address, deadline_ns);
    if (result == STREAM_OK)
        result = stream_send(&stream, "srvr", 4, deadline_ns, &begun);
    while (result == STREAM_OK && len < ANSWER_MOST - 1) {
        result =
            stream_receive(&stream, answer + len, ANSWER_MOST - 1 - len, deadline_ns, &received);
        len += result == STREAM_OK ? received : 0;
    }
    answer[len] = '\0';
    if (len == 0)
        (void)snprintf(answer, ANSWER_MOST, "%s",
                       result == STREAM_CLOSED ? "it closed the connection" : stream.why);
    stream_close(&stream);
    return len > 0;
}

/* What follows the label in its line, up to a stop; "": no such line. */
static void field_copy(char *out, size_t size, const char *answer, const char *label,
                       const char *stop)
{
    const char *at = strstr(answer, label);

    if (at == NULL)
        at = "";
    else
        at += strlen(label);
    dl_printable_mask(out, size, at, strcspn(at, stop));
}

struct server {
    char version[32], mode[24];
};

/* NULL: fine. */
static const char *server_advice(const struct server *server)
{
    int major = 0, minor = 0;

    if (strcmp(server->mode, "read-only") == 0)
        return "it takes no locks: it is cut off from the majority of the servers";
    if (strcmp(server->mode, "standalone") == 0)
        return "while it is down there are no locks; an ensemble of three servers goes on";
    /* NOLINTNEXTLINE(cert-err34-c): for advice to people */
    if (sscanf(server->version, "%d.%d", &major, &minor) == 2 &&
        (major < 3 || (major == 3 && minor < 5)))
        return "it takes no locks: dlock needs ZooKeeper 3.5 or later";
    return NULL;
}

static void answer_tell(const struct report *report, const char *name, const char *endpoint,
                        const char *answer, struct server *server)
{
    char found[TEXT];
    const char *advice = NULL;

    field_copy(server->version, sizeof server->version, answer, "Zookeeper version: ", "-,\n");
    field_copy(server->mode, sizeof server->mode, answer, "Mode: ", "\r\n");
    if (server->version[0] != '\0' && server->mode[0] != '\0') {
        (void)snprintf(found, sizeof found, "%s, ZooKeeper %s, %s", endpoint, server->version,
                       server->mode);
        advice = server_advice(server);
    } else if (strstr(answer, "not currently serving requests") != NULL) {
        (void)snprintf(found, sizeof found, "%s, without a quorum", endpoint);
        advice = "it takes no locks until it is connected to a majority of the servers";
    } else if (strstr(answer, "whitelist") != NULL) {
        (void)snprintf(found, sizeof found,
                       "%s answers; version and mode are not known, as srvr is not in its "
                       "4lw.commands.whitelist",
                       endpoint);
    } else {
        (void)snprintf(found, sizeof found, "%s: not an answer of ZooKeeper", endpoint);
        advice = "it takes no locks: correct it, or take it out of the URI";
    }
    tell(report, name, found, advice);
}

static void server_probe(const struct zk_session *session, size_t index, int64_t deadline_ns,
                         const struct report *report, struct server *server)
{
    const struct address *address = &session->config.servers[index];
    char answer[ANSWER_MOST], endpoint[64], name[32], found[TEXT];

    (void)snprintf(name, sizeof name, "server %zu", index + 1);
    address_format(address, endpoint, sizeof endpoint);
    if (srvr_ask(session, address, deadline_ns, answer)) {
        answer_tell(report, name, endpoint, answer, server);
        return;
    }
    (void)snprintf(found, sizeof found, "%s: %.160s", endpoint, answer);
    tell(report, name, found,
         "the others serve without it, as long as a majority of the ensemble is up");
}

/* All servers; one share of the time is left. version: of one of them; "": not known. */
static void servers_probe(const struct zk_session *session, int64_t deadline_ns,
                          const struct report *report, char *version, size_t size)
{
    for (size_t i = 0; i < session->config.count; i++) {
        const int64_t now_ns = zk_link_now(session->link);
        const int64_t parts = (int64_t)(session->config.count - i + 1);
        struct server server = {.version = ""};

        server_probe(session, i, now_ns + (deadline_ns - now_ns) / parts, report, &server);
        if (version[0] == '\0')
            (void)snprintf(version, size, "%s", server.version);
    }
}

/* ---- the session ---- */

static void session_tell(const struct zk_session *session, const struct report *report)
{
    const struct zk_config *config = &session->config;
    const char *advice = NULL;
    struct zk_session_state state;
    char found[TEXT];
    int64_t most_ms = 0;

    zk_link_state(session->link, &state);
    most_ms = state.timeout_ms - ZK_MARGIN_TICKS * session->tick_ms;
    if (most_ms < config->ttl_ms)
        advice = "the servers do not give the ttl that was asked for: raise their "
                 "maxSessionTimeout, or shorten ttl=";
    (void)snprintf(found, sizeof found,
                   "%llx, at %.63s, timeout %lld ms: the ttl is %lld ms at most",
                   (unsigned long long)state.session_id, state.server, (long long)state.timeout_ms,
                   (long long)most_ms);
    tell(report, "session", found, advice);
    (void)snprintf(found, sizeof found, "%lld ms, %s", (long long)session->tick_ms,
                   config->tick_ms > 0 ? "from tick= of the URI"
                                       : "assumed: half of the shortest session of the servers");
    tell(report, "tick", found, NULL);
    (void)snprintf(found, sizeof found, "%s",
                   config->creator_acl ? "creator: the user of the URI alone"
                                       : "open: everybody may delete the nodes of dlock");
    tell(report, "acl", found, NULL);
}

/* ---- recipes ---- */

struct recipes {
    const struct zk_link *link;
    int64_t deadline_ns;
    size_t names; /* that have contenders */
    size_t with[ZK_KAZOO + 1], mixed;
    size_t read; /* with or without contenders */
};

static const char *const titles[] = {"curator-rw", "curator", "kazoo"};

static enum zk_recipe recipe_of(const char *child)
{
    if (strstr(child, "__WRIT__") != NULL || strstr(child, "__READ__") != NULL)
        return ZK_CURATOR_RW;
    return strstr(child, "-lock-") != NULL ? ZK_CURATOR : ZK_KAZOO;
}

static enum dlock_status names_count(void *arg, struct zk_admin_name *names, size_t n,
                                     bool *stopped, struct dlock_error *err)
{
    struct recipes *recipes = arg;

    (void)err;
    for (size_t i = 0; i < n; i++) {
        const struct String_vector *children = names[i].children;
        bool has[ZK_KAZOO + 1] = {false};
        size_t count = 0;

        for (int32_t k = 0; k < children->count; k++) {
            struct zk_node node;

            if (zk_node_parse(&node, children->data[k]))
                has[recipe_of(children->data[k])] = true;
        }
        for (size_t r = 0; r <= ZK_KAZOO; r++) {
            recipes->with[r] += has[r];
            count += has[r];
        }
        recipes->names += count > 0;
        recipes->mixed += count > 1;
    }
    recipes->read += n;
    *stopped = recipes->read >= NAMES_MOST || zk_link_now(recipes->link) >= recipes->deadline_ns;
    return DLOCK_OK;
}

static void recipes_tell(const struct zk_config *config, const struct report *report,
                         const struct recipes *recipes)
{
    const char *advice = NULL;
    char found[TEXT];

    if (recipes->mixed > 0)
        advice = "programs with different recipes may hold one name together: give the same recipe "
                 "to all programs that share a name";
    else if (recipes->with[config->recipe] < recipes->names)
        advice = "programs with another recipe do not wait for this client: set recipe= to that of "
                 "the programs that share the names";
    if (recipes->names == 0)
        (void)snprintf(found, sizeof found, "%s in the URI; no names in use",
                       titles[config->recipe]);
    else
        (void)snprintf(
            found, sizeof found,
            "%s in the URI; names in use: %zu of %s, %zu of %s, %zu of %s, %zu of several",
            titles[config->recipe], recipes->with[ZK_CURATOR_RW], titles[ZK_CURATOR_RW],
            recipes->with[ZK_CURATOR], titles[ZK_CURATOR], recipes->with[ZK_KAZOO],
            titles[ZK_KAZOO], recipes->mixed);
    tell(report, "recipes", found, advice);
}

static enum dlock_status base_probe(struct zk_session *session, int64_t deadline_ns,
                                    const struct report *report, struct dlock_error *err)
{
    const struct zk_config *config = &session->config;
    const char *base = config->base_len > 0 ? config->base : "/";
    struct recipes recipes = {.link = session->link, .deadline_ns = deadline_ns};
    enum dlock_status status =
        zk_admin_each(session, (const unsigned char *)"", 0,
                      deadline_ns - zk_link_now(session->link), names_count, &recipes, err);

    if (status == DLOCK_AUTH) {
        tell(report, "base", base,
             "there are nodes below it that this user may not read: a list "
             "of locks is not complete");
        err->message[0] = '\0';
        status = DLOCK_OK;
    } else if (status == DLOCK_OK) {
        tell(report, "base", base, NULL);
    }
    if (status == DLOCK_OK && recipes.read > 0)
        recipes_tell(config, report, &recipes);
    return status;
}

enum dlock_status zk_probe(void *self, int64_t deadline_ns, struct dlock_session_info *info,
                           dlock_check_fn *fn, void *arg, struct dlock_error *err)
{
    struct zk_session *session = self;
    const struct report report = {fn, arg};
    char version[32] = "";
    enum dlock_status status = DLOCK_INTERNAL;

    servers_probe(session, deadline_ns, &report, version, sizeof version);
    status = base_probe(session, deadline_ns, &report, err);
    if (status != DLOCK_OK)
        return status;
    session_tell(session, &report);
    if (version[0] != '\0')
        (void)snprintf(info->server, sizeof info->server, "ZooKeeper %s", version);
    zk_probe_info(session, info);
    return DLOCK_OK;
}
