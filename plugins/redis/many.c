/* SPDX-License-Identifier: MIT */
#include "many.h"
#include "resp/reply.h"

bool redis_many_is_possible(const struct redis_session *session)
{
    return session->cluster == NULL && !session->config.all_keys && !session->config.raw;
}

/* *number: 0 for a name that the script left alone. */
static bool answer_read(const char **at, int64_t *number)
{
    if (**at != '-')
        return resp_reply_digits(at, number);
    ++*at;
    *number = 0;
    return true;
}

/* call->expects: the number of names. */
static bool many_validate(const struct redis_call *call, const redisReply *reply)
{
    const char *at = reply->str;
    int64_t number = 0;

    if (reply->type != REDIS_REPLY_STRING)
        return false;
    for (size_t i = 0; i < call->expects; i++)
        if ((i > 0 && *at++ != ' ') || !answer_read(&at, &number))
            return false;
    return *at == '\0';
}

void redis_many_begin(struct redis_many *many, enum redis_script_id script,
                      const struct resp_keys *const *keys)
{
    redis_call_begin_many(&many->call, script, keys, many->n, many_validate);
}

int64_t redis_many_next(const char **at)
{
    int64_t number = 0;

    (void)answer_read(at, &number);
    *at += **at == ' ';
    return number;
}

bool redis_many_is_over(const struct redis_many *many, enum dlock_status status)
{
    return !many->call.outcome.refused && status != DLOCK_BUSY && status != DLOCK_CONFIG;
}

bool redis_many_is_in_doubt(const struct redis_many *many, enum dlock_status status)
{
    return many->call.outcome.refused && status == DLOCK_UNKNOWN;
}
