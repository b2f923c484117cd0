/* SPDX-License-Identifier: MIT */
#include "release.h"
#include "lib/hex.h"
#include "resp/error.h"
#include "resp/reply.h"
#include "waiter.h"

static bool release_validate(const struct redis_call *call, const redisReply *reply)
{
    int64_t freed = 0;

    (void)call;
    if (reply->type == REDIS_REPLY_INTEGER)
        return true;
    return resp_reply_array(reply, 2) && resp_reply_int(reply, 0, 0, 1, &freed) &&
           resp_reply_text(reply, 1) != NULL;
}

/* Waiters ask by themselves, too, so that one line of log is enough. */
static void passed_on(struct redis_session *session, const redisReply *failure)
{
    char text[128], line[400];

    if (failure->len == 0 || atomic_exchange(&session->failure_reported, true))
        return;
    resp_error_text(text, sizeof text, failure);
    (void)snprintf(line, sizeof line,
                   "%s: a name was released, and its waiters have to ask for it: %s",
                   session->config.endpoint, text);
    session->host->log(session->host->ctx, 1, line);
}

static void release_begin(struct redis_release *release, const char *token, const char *what)
{
    redis_call_begin(&release->call, REDIS_SCRIPT_RELEASE, &release->keys, 1, release_validate);
    resp_command_text(&release->call.command, token);
    resp_command_text(&release->call.command, what);
    resp_command_text(&release->call.command, release->call.sent.guarded);
}

void redis_release_begin(struct redis_session *session, const unsigned char *name,
                         uint32_t name_len, const char *token, const char *what,
                         struct redis_release *release)
{
    resp_keys_make(&release->keys, &session->config, name, name_len);
    release_begin(release, token, what);
}

static void keep_begin(const struct dlock_request *req, struct redis_release *release)
{
    redis_call_begin(&release->call, REDIS_SCRIPT_KEEP, &release->keys, 1, release_validate);
    resp_command_text(&release->call.command, release->token);
    resp_command_text(&release->call.command,
                      resp_command_number(release->keep_ms, dlock_request_keep_ms(req)));
}

void redis_release_prepare_unlock(const struct redis_session *session,
                                  const struct dlock_request *req, struct redis_release *release)
{
    redis_waiter_free(req->attempt);
    resp_keys_make(&release->keys, &session->config, req->name, req->name_len);
    dl_hex_encode(release->token, req->token, DLOCK_TOKEN_SIZE);
}

/* Whether data are to end with the claim [C24]. Whose lease was adopted may have published some. */
static bool clears(const struct dlock_request *req)
{
    const struct redis_slot *slot = req->attempt;
    uint32_t len = 0;

    (void)dlock_request_data(req, &len);
    return len > 0 || slot->adopted;
}

void redis_release_begin_unlock(const struct dlock_request *req, struct redis_release *release)
{
    if (dlock_request_keep_ms(req) > 0)
        keep_begin(req, release);
    else
        release_begin(release, release->token, clears(req) ? "CLEAR" : "UNLOCK");
}

bool redis_release_is_simple(const struct dlock_request *req)
{
    return dlock_request_keep_ms(req) == 0 && req->mode == DLOCK_EXCLUSIVE &&
           dlock_request_limit(req) <= 1 && !clears(req);
}

bool redis_release_end(struct redis_session *session, const struct redis_release *release,
                       redisReply *reply)
{
    bool is_kept = release->call.kind == REDIS_CALL_KEEPS;
    bool is_list = reply->type == REDIS_REPLY_ARRAY;
    bool freed = !is_list || (!is_kept && reply->element[0]->integer != 0);

    if (is_list && !is_kept)
        passed_on(session, reply->element[1]);
    freeReplyObject(reply);
    return freed;
}

enum dlock_status redis_release_end_unlock(struct redis_session *session,
                                           const struct redis_release *release,
                                           enum dlock_status status, redisReply *reply,
                                           struct dlock_error *err)
{
    if (status != DLOCK_OK || redis_release_end(session, release, reply))
        return status;
    return resp_error_fail(&session->config, err, DLOCK_LOST, "the name is not held by this token");
}
