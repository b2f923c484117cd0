/* SPDX-License-Identifier: MIT */
#include "environment.h"
#include "lib/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEX_MAX (2 * DLOCK_NAME_MAX + 1)

static const char *const ours[] = {
    "DLOCK_NAME=", "DLOCK_FENCE=", "DLOCK_TOKEN=", "DLOCK_URI=", "DLOCK_HELD=", "DLOCK_PERMIT="};

static const char fence_of[] = "DLOCK_FENCE_";

static bool is_replaced(const char *entry, const struct environment_lock *lock)
{
    if (strncmp(entry, fence_of, strlen(fence_of)) == 0 &&
        isdigit((unsigned char)entry[strlen(fence_of)]))
        return true;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strncmp(entry, ours[i], strlen(ours[i])) == 0)
            return lock->uri != NULL || strcmp(ours[i], "DLOCK_URI=") != 0;
    return false;
}

static void name_hex(char out[HEX_MAX], const void *name, size_t len)
{
    dl_hex_encode(out, name, len < DLOCK_NAME_MAX ? len : DLOCK_NAME_MAX);
}

/* It is one of an enclosing run. */
static bool is_listed(const struct environment_lock *lock)
{
    char token[DLOCK_TOKEN_CHARS];

    for (unsigned i = 0; environment_holder(lock->name, lock->name_len, i, token); i++)
        if (strcmp(token, lock->token) == 0)
            return true;
    return false;
}

/* The name and the token of each lock, then those of enclosing runs. */
static char *held_entry(const struct environment_lock *locks, size_t count)
{
    const char *outer = getenv("DLOCK_HELD");
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    const char *gap = "";
    char hex[HEX_MAX];

    if (out == NULL)
        return NULL;
    (void)fputs("DLOCK_HELD=", out);
    for (size_t i = 0; i < count; i++) {
        if (is_listed(&locks[i]))
            continue;
        name_hex(hex, locks[i].name, locks[i].name_len);
        (void)fprintf(out, "%s%s:%s", gap, hex, locks[i].token);
        gap = " ";
    }
    if (outer != NULL)
        (void)fprintf(out, "%s%s", gap, outer);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
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
    if (lock->permit != NULL &&
        !env_add(env, n, entry_new("DLOCK_PERMIT=", lock->permit, strlen(lock->permit))))
        return false;
    if (lock->uri != NULL &&
        !env_add(env, n, entry_new("DLOCK_URI=", lock->uri, strlen(lock->uri))))
        return false;
    return env_add(env, n, entry_new("DLOCK_TOKEN=", lock->token, strlen(lock->token)));
}

/* The fences of a set. */
static bool fences_add(char **env, size_t *n, const struct environment_lock *locks, size_t count)
{
    for (size_t i = 0; count > 1 && i < count; i++) {
        char *entry;

        if (locks[i].fence == 0)
            continue;
        if (asprintf(&entry, "%s%zu=%" PRIu64, fence_of, i, locks[i].fence) < 0)
            return false;
        (void)env_add(env, n, entry);
    }
    return true;
}

char **environment_new(const struct environment_lock *locks, size_t count)
{
    size_t entries = 0;
    size_t n = 0;
    char **env;

    while (environ != NULL && environ[entries] != NULL)
        entries++;
    env = calloc(entries + count + sizeof ours / sizeof ours[0] + 1, sizeof *env);
    if (env == NULL)
        return NULL;
    for (size_t i = 0; i < entries; i++)
        if (!is_replaced(environ[i], locks) && !env_add(env, &n, strdup(environ[i])))
            goto no_memory;
    if (lock_add(env, &n, locks) && env_add(env, &n, held_entry(locks, count)) &&
        fences_add(env, &n, locks, count))
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
