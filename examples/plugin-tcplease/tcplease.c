/* SPDX-License-Identifier: MIT */
/*
 * tcplease.c - a plugin for a store with leases that listens on TCP: the slots, the table, the
 * descriptor.
 *
 * One session is one connection. Each slot is one request and one answer; what is not known is said
 * to be not known (link.h).
 */
#include "link.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ORIGIN "tcplease"

struct session {
    struct link link;
};

/* ---- requests and answers ---- */

static void hex(char *out, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", at[i]);
    out[2 * len] = '\0';
}

static int digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c != '\0' ? strchr(digits, c) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

/* The bytes of a word in hex, "-" for none. False: it is not that, or too long. */
static bool unhex(const char *word, char *out, size_t size)
{
    size_t len = strcmp(word, "-") == 0 ? 0 : strlen(word);

    if (len % 2 != 0 || len / 2 >= size)
        return false;
    for (size_t i = 0; i < len; i += 2) {
        int high = digit(word[i]), low = digit(word[i + 1]);

        if (high < 0 || low < 0)
            return false;
        out[i / 2] = (char)(high * 16 + low);
    }
    out[len / 2] = '\0';
    return true;
}

/* The numbers behind the verb of an answer. Returns what follows them; NULL: it is another answer.
 */
static const char *numbers(const char *answer, const char *verb, int64_t *out, size_t count)
{
    const char *at = answer + strlen(verb);

    if (strncmp(answer, verb, strlen(verb)) != 0)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        char *end = NULL;

        if (at[0] != ' ' || digit(at[1]) < 0)
            return NULL;
        out[i] = strtoll(at + 1, &end, 10);
        at = end;
    }
    return at;
}

static bool answered(const char *answer, const char *verb, int64_t *out, size_t count)
{
    const char *rest = numbers(answer, verb, out, count);

    return rest != NULL && rest[0] == '\0';
}

/* "VERB NAME TOKEN", without a newline. */
static void request_begin(char *line, size_t size, const char *verb,
                          const struct dlock_request *req)
{
    char name[2 * 255 + 1], token[2 * DLOCK_TOKEN_SIZE + 1];

    hex(name, req->name, req->name_len);
    hex(token, req->token, sizeof req->token);
    (void)snprintf(line, size, "%s %s %s", verb, name, token);
}

/* The answer is none of those that the request has: what the server did is not known. */
static enum dlock_status nonsense(struct link *link, const char *answer, struct dlock_error *err)
{
    link->broken = true;
    return dlock_fail(err, ORIGIN, DLOCK_UNKNOWN, 0, "%s: an answer that makes no sense: %.40s",
                      link->endpoint, answer);
}

/* Where nothing can have been changed, there is nothing in doubt. */
static enum dlock_status only_read(enum dlock_status status, struct dlock_error *err)
{
    if (status == DLOCK_UNKNOWN)
        err->status = status = DLOCK_UNAVAILABLE;
    return status;
}

/* ---- the slots ---- */

static enum dlock_status tcplease_open(void *self, const struct dlock_host *host,
                                       const struct dlock_target *target, int64_t deadline_ns,
                                       struct dlock_session_info *info, struct dlock_error *err)
{
    struct session *session = self;
    struct link *link = &session->link;
    char answer[LINK_LINE_MAX];
    enum dlock_status status;

    link->fd = -1;
    if (target->hosts == NULL || target->hosts[0] == NULL || target->hosts[1] != NULL)
        return dlock_fail(err, ORIGIN, DLOCK_INVALID, 0, "want one address: tcplease://HOST:PORT");
    status = link_open(link, host, target->hosts[0], deadline_ns, err);
    if (status == DLOCK_OK)
        status = only_read(link_ask(link, "hello\n", answer, deadline_ns, err), err);
    if (status != DLOCK_OK)
        return status;
    if (strcmp(answer, "tcplease 1") != 0)
        return dlock_fail(err, ORIGIN, DLOCK_PROTOCOL, 0, "%s is no server of tcplease",
                          link->endpoint);
    info->caps = DLOCK_CAP_FENCE;
    (void)snprintf(info->server, sizeof info->server, "%.60s", answer);
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%s", link->endpoint);
    return DLOCK_OK;
}

static void tcplease_close(void *self, bool forked)
{
    struct session *session = self;

    (void)forked; /* to close a socket sends nothing while the parent has it open, too [CLS-1] */
    link_close(&session->link);
}

static enum dlock_status tcplease_trylock(void *self, const struct dlock_request *req,
                                          struct dlock_grant *grant, struct dlock_error *err)
{
    struct session *session = self;
    char line[LINK_LINE_MAX], answer[LINK_LINE_MAX], label[2 * 128 + 1];
    int64_t fence_and_lease[2];
    enum dlock_status status;
    size_t used;

    request_begin(line, sizeof line, "take", req);
    hex(label, req->label, strnlen(req->label, 128));
    used = strlen(line);
    (void)snprintf(line + used, sizeof line - used, " %" PRId64 " %s\n", req->ttl_ms,
                   label[0] != '\0' ? label : "-");
    status = link_ask(&session->link, line, answer, req->deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    if (answered(answer, "busy", &grant->holder_ms, 1))
        return DLOCK_BUSY;
    if (!answered(answer, "ok", fence_and_lease, 2))
        return nonsense(&session->link, answer, err);
    grant->fence = (uint64_t)fence_and_lease[0];
    grant->lease_ms = fence_and_lease[1];
    if (grant->lease_ms > req->ttl_ms) /* the store has a longer one of this token */
        grant->lease_ms = req->ttl_ms;
    return DLOCK_OK;
}

static enum dlock_status renew_one(struct session *session, struct dlock_lease_op *op,
                                   int64_t deadline_ns, struct dlock_error *err)
{
    char line[LINK_LINE_MAX], answer[LINK_LINE_MAX];
    enum dlock_status status;
    size_t used;

    request_begin(line, sizeof line, "keep", op->req);
    used = strlen(line);
    (void)snprintf(line + used, sizeof line - used, " %" PRId64 "\n", op->req->ttl_ms);
    status = link_ask(&session->link, line, answer, deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    if (strcmp(answer, "lost") == 0)
        return dlock_fail(err, ORIGIN, DLOCK_LOST, 0, "%s: the lease has ended, or was broken",
                          session->link.endpoint);
    if (!answered(answer, "ok", &op->grant.lease_ms, 1))
        return nonsense(&session->link, answer, err);
    if (op->grant.lease_ms > op->req->ttl_ms)
        op->grant.lease_ms = op->req->ttl_ms;
    return DLOCK_OK;
}

static enum dlock_status tcplease_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                        int64_t deadline_ns, struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++) /* [REN-5]: the deadline of the call, and of no element */
        ops[i]->status = renew_one(self, ops[i], deadline_ns, err);
    return DLOCK_OK;
}

static enum dlock_status tcplease_unlock(void *self, const struct dlock_request *req,
                                         struct dlock_error *err)
{
    struct session *session = self;
    char line[LINK_LINE_MAX], answer[LINK_LINE_MAX];
    enum dlock_status status;
    size_t used;

    request_begin(line, sizeof line, "drop", req);
    used = strlen(line);
    (void)snprintf(line + used, sizeof line - used, "\n");
    status = link_ask(&session->link, line, answer, req->deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    if (strcmp(answer, "lost") == 0)
        return dlock_fail(err, ORIGIN, DLOCK_LOST, 0, "%s: the lease has ended, or was broken",
                          session->link.endpoint);
    return strcmp(answer, "ok") == 0 ? DLOCK_OK : nonsense(&session->link, answer, err);
}

static enum dlock_status tcplease_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                          int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                          struct dlock_error *err)
{
    struct session *session = self;
    struct dlock_holder holder = {.struct_size = sizeof holder,
                                  .mode = DLOCK_EXCLUSIVE,
                                  .name = name,
                                  .name_len = name_len,
                                  .waiters = UINT32_MAX};
    char line[LINK_LINE_MAX], answer[LINK_LINE_MAX], hex_name[2 * 255 + 1];
    char token[2 * DLOCK_TOKEN_SIZE + 1], label[128 + 1];
    int64_t fence_left_held[3];
    const char *rest;
    enum dlock_status status;

    hex(hex_name, name, name_len);
    (void)snprintf(line, sizeof line, "show %s\n", hex_name);
    status = only_read(link_ask(&session->link, line, answer, deadline_ns, err), err);
    if (status != DLOCK_OK || strcmp(answer, "free") == 0)
        return status;
    rest = numbers(answer, "held", fence_left_held, 3); /* and " TOKEN LABEL" */
    if (rest == NULL || strlen(rest) < sizeof token + 1 || rest[sizeof token] != ' ' ||
        !unhex(rest + sizeof token + 1, label, sizeof label))
        return only_read(nonsense(&session->link, answer, err), err);
    (void)snprintf(token, sizeof token, "%s", rest + 1);
    holder.fence = (uint64_t)fence_left_held[0];
    holder.remaining_ms = fence_left_held[1];
    holder.held_ms = fence_left_held[2];
    holder.owner = token;
    holder.label = label;
    (void)fn(arg, &holder);
    return DLOCK_OK;
}

static enum dlock_status tcplease_break(void *self, const unsigned char *name, uint32_t name_len,
                                        const char *owner, int64_t deadline_ns,
                                        struct dlock_error *err)
{
    struct session *session = self;
    char line[LINK_LINE_MAX], answer[LINK_LINE_MAX], hex_name[2 * 255 + 1];
    enum dlock_status status;

    /* Any text may be asked for. What is no token of ours is nobody's, and must not be a part of
     * the request. */
    if (owner != NULL && (strlen(owner) != 2 * (size_t)DLOCK_TOKEN_SIZE ||
                          strspn(owner, "0123456789abcdef") != strlen(owner)))
        return dlock_fail(err, ORIGIN, DLOCK_NOT_HELD, 0, "no such holder");
    hex(hex_name, name, name_len);
    (void)snprintf(line, sizeof line, "break %s %s\n", hex_name, owner != NULL ? owner : "-");
    status = link_ask(&session->link, line, answer, deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    if (strcmp(answer, "free") == 0)
        return dlock_fail(err, ORIGIN, DLOCK_NOT_HELD, 0, "no such holder");
    return strcmp(answer, "ok") == 0 ? DLOCK_OK : nonsense(&session->link, answer, err);
}

/* ---- the descriptor ---- */

static const struct dlock_backend_ops tcplease_ops = {
    .struct_size = sizeof tcplease_ops,
    .session_size = sizeof(struct session),
    .open = tcplease_open,
    .close = tcplease_close,
    .trylock = tcplease_trylock,
    .renew = tcplease_renew,
    .unlock = tcplease_unlock,
    .inspect = tcplease_inspect,
    .break_lock = tcplease_break,
};

static const char *const tcplease_schemes[] = {"tcplease", NULL};
static const struct dlock_option_spec tcplease_options[] = {{.name = NULL}};

static const struct dlock_plugin tcplease_plugin = {
    .magic = DLOCK_PLUGIN_MAGIC,
    .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = sizeof tcplease_plugin,
    .caps = DLOCK_CAP_FENCE,
    .name = "tcplease",
    .version = "1",
    .schemes = tcplease_schemes,
    .options = tcplease_options,
    .ops = &tcplease_ops,
};

DLOCK_PLUGIN_ENTRY(tcplease, &tcplease_plugin)
