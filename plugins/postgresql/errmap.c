/* SPDX-License-Identifier: MIT */
#include "errmap.h"

#include <stddef.h>
#include <string.h>

#define STATE_LEN 5

int32_t pg_errmap_code(const char *state)
{
    int32_t code = 0;

    if (state == NULL || strlen(state) != STATE_LEN)
        return 0;
    for (int i = 0; i < STATE_LEN; i++)
        code |= (int32_t)((state[i] - '0') & 0x3F) << (6 * i);
    return code;
}

static bool is_one_of(const char *state, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strncmp(state, *list, strlen(*list)) == 0)
            return true;
    return false;
}

/* Beginnings of states. */
static const char *const contention[] = {"40001", "40P01", "55P03", "23505", NULL};
static const char *const refused[] = {"28", "42501", "0LP01", "0P000", NULL};
static const char *const wrong[] = {"42", "3D", "3F", "22", "23", "0A", "26", "P0", "2F", NULL};
/* They end the session before a statement begins, or inside a transaction. */
static const char *const before[] = {"57P05", "25P03", "25P04", "57P03", "57P04", "53300", NULL};

bool pg_errmap_contention(int32_t code)
{
    for (size_t i = 0; contention[i] != NULL; i++)
        if (code == pg_errmap_code(contention[i]))
            return true;
    return false;
}

enum dlock_status pg_errmap_status(const char *state, bool fatal)
{
    if (state == NULL)
        return DLOCK_UNKNOWN;
    if (is_one_of(state, contention))
        return DLOCK_UNAVAILABLE;
    if (is_one_of(state, refused))
        return DLOCK_AUTH;
    if (is_one_of(state, wrong))
        return DLOCK_CONFIG;
    if (is_one_of(state, before))
        return DLOCK_UNAVAILABLE;
    /* 08: a pooler that lost its server in the middle of a statement */
    if (fatal || strncmp(state, "08", 2) == 0 || strcmp(state, "57P01") == 0 ||
        strcmp(state, "57P02") == 0 || strcmp(state, "40003") == 0)
        return DLOCK_UNKNOWN;
    return DLOCK_UNAVAILABLE;
}

struct phrase {
    const char *text;
    enum dlock_status status;
};

/* Of the library and of pgbouncer, in English: the library's calls run in the locale "C". */
static const struct phrase phrases[] = {
    {"could not read root certificate", DLOCK_INVALID},
    {"could not read certificate file", DLOCK_INVALID},
    {"private key file", DLOCK_INVALID},
    {"root certificate file", DLOCK_INVALID},
    {"server does not support SSL", DLOCK_CONFIG},
    {"unsupported startup parameter", DLOCK_CONFIG},
    {"no such database", DLOCK_CONFIG},
    {"certificate", DLOCK_AUTH}, /* ours, or the server's */
    {"alert unknown ca", DLOCK_AUTH},
    {"no password supplied", DLOCK_AUTH},
    {"no such user", DLOCK_AUTH},
    {"password authentication failed", DLOCK_AUTH},
    {"auth failed", DLOCK_AUTH},
    {"authentication method", DLOCK_AUTH},
    {"invalid response to SSL negotiation", DLOCK_PROTOCOL},
    {"expected authentication request", DLOCK_PROTOCOL},
    {"out of memory", DLOCK_NOMEM},
};

enum dlock_status pg_errmap_connect(const char *state, const char *text)
{
    if (state != NULL && strncmp(state, "08", 2) != 0) {
        enum dlock_status status = pg_errmap_status(state, false);

        return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status;
    }
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++)
        if (strstr(text, phrases[i].text) != NULL)
            return phrases[i].status;
    return DLOCK_UNAVAILABLE;
}
