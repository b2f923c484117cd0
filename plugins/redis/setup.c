/* SPDX-License-Identifier: MIT */
/*
 * Everything that a new connection needs goes out in one piece, and is answered in one: the way to
 * the first lock is short. What was asked is remembered, to know which answer is which.
 */
#include "redis.h"

#include <stdlib.h>
#include <string.h>

enum question { Q_AUTH, Q_SELECT, Q_SETNAME, Q_INFO, Q_FSYNC };

struct setup {
    struct redis_link *link;
    struct redis_facts *facts;
    char *bytes;
    size_t len;
    enum question questions[12];
    size_t count;
    bool failed; /* no memory */
};

static void add(struct setup *setup, enum question question, const char *const *words, size_t count)
{
    struct resp_command command;
    char *one = NULL, *all = NULL;
    size_t len = 0;

    resp_command_begin(&command);
    for (size_t i = 0; i < count; i++)
        resp_command_text(&command, words[i]);
    one = resp_command_format(&command, &len);
    all = one != NULL ? malloc(setup->len + len) : NULL;
    if (all == NULL) {
        setup->failed = true;
    } else {
        if (setup->bytes != NULL) {
            memcpy(all, setup->bytes, setup->len);
            explicit_bzero(setup->bytes, setup->len);
            free(setup->bytes);
        }
        memcpy(all + setup->len, one, len);
        setup->bytes = all;
        setup->len += len;
        setup->questions[setup->count++] = question;
    }
    if (one != NULL)
        explicit_bzero(one, len);
    free(one);
}

static void add_identity(struct setup *setup)
{
    const struct redis_place *place = setup->link->place;
    const struct dlock_target *target = place->target;
    char database[24];

    if (target->user != NULL)
        add(setup, Q_AUTH,
            (const char *[]){"AUTH", target->user,
                             target->password != NULL ? target->password : ""},
            3);
    else if (target->password != NULL)
        add(setup, Q_AUTH, (const char *[]){"AUTH", target->password}, 2);
    (void)snprintf(database, sizeof database, "%lld", (long long)place->database);
    if (place->database != 0)
        add(setup, Q_SELECT, (const char *[]){"SELECT", database}, 2);
    add(setup, Q_SETNAME, (const char *[]){"CLIENT", "SETNAME", "dlock"}, 3);
}

static void add_look(struct setup *setup)
{
    static const char *const sections[] = {"server", "memory", "persistence", "replication"};

    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        add(setup, Q_INFO, (const char *[]){"INFO", sections[i]}, 2);
    add(setup, Q_FSYNC, (const char *[]){"CONFIG", "GET", "appendfsync"}, 3);
}

/* AUTH: an old or a patched server may repeat the password in its complaint. */
static enum dlock_status refused(const struct setup *setup, enum question question,
                                 const redisReply *reply, struct dlock_error *err)
{
    const struct redis_place *place = setup->link->place;
    enum dlock_status status = DLOCK_OK;

    switch (question) {
    case Q_AUTH:
        status = redis_error_quiet(place, reply, "user and password are refused", err);
        return status == DLOCK_UNAVAILABLE ? status : (err->status = DLOCK_AUTH);
    case Q_SELECT:
        status = redis_error(place, reply, err);
        return status == DLOCK_UNKNOWN ? (err->status = DLOCK_CONFIG) : status;
    case Q_INFO:
        status = redis_error(place, reply, err);
        return status == DLOCK_UNKNOWN ? (err->status = DLOCK_PROTOCOL) : status;
    case Q_SETNAME:
    case Q_FSYNC:
        break; /* nice to have */
    }
    return DLOCK_OK;
}

static enum dlock_status take(struct setup *setup, enum question question, const redisReply *reply,
                              struct dlock_error *err)
{
    const struct redis_place *place = setup->link->place;

    if (reply->type == REDIS_REPLY_ERROR)
        return refused(setup, question, reply, err);
    switch (question) {
    case Q_AUTH:
    case Q_SELECT:
    case Q_SETNAME:
        if (reply->type != REDIS_REPLY_STATUS || strcmp(reply->str, "OK") != 0)
            return redis_fail(place, err, DLOCK_PROTOCOL, "not the answer of a Redis server");
        break;
    case Q_INFO:
        if (reply->type != REDIS_REPLY_STRING)
            return redis_fail(place, err, DLOCK_PROTOCOL, "not the answer of a Redis server");
        redis_facts_info(setup->facts, reply->str, (size_t)reply->len);
        break;
    case Q_FSYNC:
        redis_facts_config(setup->facts, reply);
        break;
    }
    return DLOCK_OK;
}

static enum dlock_status answers(struct setup *setup, int64_t deadline_ns, struct dlock_error *err)
{
    for (size_t i = 0; i < setup->count; i++) {
        redisReply *reply = NULL;
        enum dlock_status status = redis_link_read(setup->link, deadline_ns, &reply, err);

        if (status == DLOCK_UNKNOWN) /* nothing of it changes the store */
            status = err->status = DLOCK_UNAVAILABLE;
        if (status == DLOCK_OK)
            status = take(setup, setup->questions[i], reply, err);
        freeReplyObject(reply);
        if (status != DLOCK_OK)
            return status;
    }
    if (resp_reader_pending(&setup->link->reader))
        return redis_fail(setup->link->place, err, DLOCK_PROTOCOL, "more answers than questions");
    return DLOCK_OK;
}

static enum dlock_status run(struct setup *setup, int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if (setup->failed)
        status = redis_fail(setup->link->place, err, DLOCK_NOMEM, "no memory for a command");
    else
        status = redis_link_send(setup->link, setup->bytes, setup->len, deadline_ns, err);
    if (setup->bytes != NULL)
        explicit_bzero(setup->bytes, setup->len);
    free(setup->bytes);
    if (status == DLOCK_UNKNOWN)
        status = err->status = DLOCK_UNAVAILABLE;
    return status == DLOCK_OK ? answers(setup, deadline_ns, err) : status;
}

enum dlock_status redis_setup_look(struct redis_link *link, int64_t deadline_ns,
                                   struct redis_facts *facts, struct dlock_error *err)
{
    struct setup setup = {.link = link, .facts = facts};

    *facts = (struct redis_facts){.uptime_s = 0};
    add_look(&setup);
    return run(&setup, deadline_ns, err);
}

enum dlock_status redis_setup_identity(struct redis_link *link, int64_t deadline_ns,
                                       struct dlock_error *err)
{
    struct setup setup = {.link = link};

    add_identity(&setup);
    return run(&setup, deadline_ns, err);
}

enum dlock_status redis_setup(struct redis_link *link, int64_t deadline_ns,
                              struct redis_facts *facts, struct dlock_error *err)
{
    struct setup setup = {.link = link, .facts = facts};

    *facts = (struct redis_facts){.uptime_s = 0};
    add_identity(&setup);
    add_look(&setup);
    return run(&setup, deadline_ns, err);
}
