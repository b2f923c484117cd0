/* SPDX-License-Identifier: MIT */
#include "environment.h"
#include "lib/hex.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEX_MAX (2 * DLOCK_NAME_MAX + 1)

static const char *const ours[] = {
    "DLOCK_NAME=", "DLOCK_FENCE=", "DLOCK_TOKEN=", "DLOCK_URI=", "DLOCK_HELD="};

static bool is_replaced(const char *entry, const struct environment_lock *lock)
{
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strncmp(entry, ours[i], strlen(ours[i])) == 0)
            return lock->uri != NULL || strcmp(ours[i], "DLOCK_URI=") != 0;
    return false;
}

static void name_hex(char out[HEX_MAX], const void *name, size_t len)
{
    dl_hex_encode(out, name, len < DLOCK_NAME_MAX ? len : DLOCK_NAME_MAX);
}

static char *held_entry(const struct environment_lock *lock)
{
    const char *outer = getenv("DLOCK_HELD");
    char hex[HEX_MAX];
    char *entry;

    name_hex(hex, lock->name, lock->name_len);
    if (asprintf(&entry, "DLOCK_HELD=%s:%s%s%s", hex, lock->token, outer != NULL ? " " : "",
                 outer != NULL ? outer : "") < 0)
        return NULL;
    return entry;
}

/* Appends one entry, taken always; false: it is NULL, there was no memory for it. */
static bool env_add(char **env, size_t *n, char *entry)
{
    env[(*n)++] = entry;
    return entry != NULL;
}

static char *entry_new(const char *key, const char *value, size_t len)
{
    char *entry;

    return asprintf(&entry, "%s%.*s", key, (int)len, value) < 0 ? NULL : entry;
}

static bool lock_add(char **env, size_t *n, const struct environment_lock *lock)
{
    char fence[24];

    (void)snprintf(fence, sizeof fence, "%" PRIu64, lock->fence);
    if (memchr(lock->name, '\0', lock->name_len) == NULL &&
        !env_add(env, n, entry_new("DLOCK_NAME=", lock->name, lock->name_len)))
        return false;
    if (lock->fence != 0 && !env_add(env, n, entry_new("DLOCK_FENCE=", fence, strlen(fence))))
        return false;
    if (lock->uri != NULL &&
        !env_add(env, n, entry_new("DLOCK_URI=", lock->uri, strlen(lock->uri))))
        return false;
    return env_add(env, n, entry_new("DLOCK_TOKEN=", lock->token, strlen(lock->token))) &&
           env_add(env, n, held_entry(lock));
}

char **environment_new(const struct environment_lock *lock)
{
    size_t count = 0;
    size_t n = 0;
    char **env;

    while (environ != NULL && environ[count] != NULL)
        count++;
    env = calloc(count + sizeof ours / sizeof ours[0] + 1, sizeof *env);
    if (env == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!is_replaced(environ[i], lock) && !env_add(env, &n, strdup(environ[i])))
            goto no_memory;
    if (lock_add(env, &n, lock))
        return env;
no_memory:
    environment_free(env);
    return NULL;
}

void environment_free(char **env)
{
    if (env == NULL)
        return;
    for (size_t i = 0; env[i] != NULL; i++)
        free(env[i]);
    free(env);
}

bool environment_holder(const void *name, size_t name_len, unsigned index,
                        char token[DLOCK_TOKEN_CHARS])
{
    const char *at = getenv("DLOCK_HELD");
    char hex[HEX_MAX];
    size_t hex_len;

    name_hex(hex, name, name_len);
    hex_len = strlen(hex);
    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, " ");

        if (len == hex_len + DLOCK_TOKEN_CHARS && strncmp(at, hex, hex_len) == 0 &&
            at[hex_len] == ':' && index-- == 0) {
            memcpy(token, at + hex_len + 1, DLOCK_TOKEN_CHARS - 1);
            token[DLOCK_TOKEN_CHARS - 1] = '\0';
            return true;
        }
        at += len + strspn(at + len, " ");
    }
    return false;
}
