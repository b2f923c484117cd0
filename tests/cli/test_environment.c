/* SPDX-License-Identifier: MIT */
/* Tests: cli/environment.c */
/* Does a nested run find what enclosing ones hold, and nothing else? */
#include "environment.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_A "00112233445566778899aabbccddeeff"
#define TOKEN_B "ffeeddccbbaa99887766554433221100"

static const char *value_of(char **env, const char *key)
{
    size_t len = strlen(key);

    for (; *env != NULL; env++)
        if (strncmp(*env, key, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

/* The environment that a run of name under TOKEN_A gives to its command. */
static char **env_of(const void *name, size_t len, uint64_t fence, const char *uri)
{
    struct environment_lock lock = {
        .name = name, .name_len = len, .token = TOKEN_A, .fence = fence, .uri = uri};
    char **env = environment_new(&lock, 1);

    cr_assert_not_null(env);
    return env;
}

Test(environment, tells_name_fence_token_uri)
{
    char **env = env_of("job", 3, 42, "memory://x");

    cr_assert_str_eq(value_of(env, "DLOCK_NAME"), "job");
    cr_assert_str_eq(value_of(env, "DLOCK_FENCE"), "42");
    cr_assert_str_eq(value_of(env, "DLOCK_TOKEN"), TOKEN_A);
    cr_assert_str_eq(value_of(env, "DLOCK_URI"), "memory://x");
    environment_free(env);
}

Test(environment, nothing_of_an_outer_run_shines_through)
{
    char **env;

    setenv("DLOCK_URI", "redis://:secret@h", 1);
    setenv("DLOCK_NAME", "outer", 1);
    setenv("DLOCK_FENCE", "7", 1);
    setenv("OTHER", "stays", 1);
    env = env_of("a\0b", 3, 0, "redis://:***@other");
    cr_assert_str_eq(value_of(env, "DLOCK_URI"), "redis://:***@other");
    cr_assert_null(value_of(env, "DLOCK_NAME"), "a name with NUL");
    cr_assert_null(value_of(env, "DLOCK_FENCE"));
    cr_assert_str_eq(value_of(env, "OTHER"), "stays");
    environment_free(env);
}

Test(environment, a_uri_that_is_not_ours_to_change_stays)
{
    char **env;

    setenv("DLOCK_URI", "redis://:secret@h", 1);
    env = env_of("job", 3, 42, NULL);
    cr_assert_str_eq(value_of(env, "DLOCK_URI"), "redis://:secret@h");
    environment_free(env);
    unsetenv("DLOCK_URI");
    env = env_of("job", 3, 42, NULL);
    cr_assert_null(value_of(env, "DLOCK_URI"));
    environment_free(env);
}

Test(environment, holders_of_all_levels_are_found)
{
    char token[DLOCK_TOKEN_CHARS];
    char **env = env_of("job", 3, 1, "memory://x");

    setenv("DLOCK_HELD", value_of(env, "DLOCK_HELD"), 1);
    environment_free(env);
    env = env_of("other", 5, 1, "memory://x");
    setenv("DLOCK_HELD", value_of(env, "DLOCK_HELD"), 1);
    environment_free(env);

    cr_assert(environment_holder("job", 3, 0, token));
    cr_assert_str_eq(token, TOKEN_A);
    cr_assert(environment_holder("other", 5, 0, token));
    cr_assert_not(environment_holder("job", 3, 1, token));
    cr_assert_not(environment_holder("jo", 2, 0, token));
    cr_assert_not(environment_holder("jobs", 4, 0, token));
}

Test(environment, one_name_may_be_held_in_two_stores)
{
    char token[DLOCK_TOKEN_CHARS];

    setenv("DLOCK_HELD", "6a:" TOKEN_A " 6a:" TOKEN_B, 1);
    cr_assert(environment_holder("j", 1, 1, token));
    cr_assert_str_eq(token, TOKEN_B);
}

Test(environment, nonsense_is_no_holder)
{
    static const char *const values[] = {
        "", " ", ":", "6a", "6a:", "6a:short", "6a" TOKEN_A, "6A:" TOKEN_A "0", ":" TOKEN_A};
    char token[DLOCK_TOKEN_CHARS];

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        setenv("DLOCK_HELD", values[i], 1);
        cr_assert_not(environment_holder("j", 1, 0, token), "'%s'", values[i]);
    }
    unsetenv("DLOCK_HELD");
    cr_assert_not(environment_holder("j", 1, 0, token));
}
