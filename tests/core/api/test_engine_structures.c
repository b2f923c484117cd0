/* SPDX-License-Identifier: MIT */
/* Tests: core/sys/struct_size.c */
/* Is a structure refused whose struct_size the application has not set, so that no member of it is
 * passed over without a word? Each public structure. */
#include "engine.h"
#include "notices.h"

#include <criterion/criterion.h>
#include <dlock/dlock.h>
#include <dlock/metrics.h>
#include <string.h>

static struct dlock_error err = DLOCK_ERROR_INIT;
static struct dlt_engine engine;

static void set_up(void)
{
    dlt_engine_open(&engine, "structures", NULL);
}

static void tear_down(void)
{
    dlt_engine_close(&engine);
}

TestSuite(structures, .init = set_up, .fini = tear_down);

static void expect_named(const char *what)
{
    cr_expect_eq(err.status, DLOCK_INVALID);
    cr_expect(strstr(err.message, "struct_size is 0") != NULL, "%s", err.message);
    cr_expect(strstr(err.message, what) != NULL, "%s", err.message);
}

Test(structures, options_of_a_handle_or_a_set)
{
    const struct dlock_options zeroed = {.limit = 2, .keep_ms = 5, .end = DLOCK_END_TTL};
    struct dlock_options options = DLOCK_OPTIONS_INIT;
    const char *const names[] = {"a"};
    struct dlock_handle *lock = NULL;
    struct dlock_set *set = NULL;

    cr_assert_eq(dlock_new(engine.client, "a", 1, &zeroed, &lock, &err), DLOCK_INVALID);
    expect_named("dlock_options");
    cr_assert_eq(dlock_set_new(engine.client, names, NULL, 1, &zeroed, &set, &err), DLOCK_INVALID);
    expect_named("dlock_options");
    cr_expect(lock == NULL && set == NULL);
    options.limit = 2;
    cr_assert_eq(dlock_new(engine.client, "a", 1, &options, &lock, &err), DLOCK_OK);
    dlock_free(lock);
}

Test(structures, options_of_a_client)
{
    const struct dlock_client_options zeroed = {.defaults = "ttl=1s"};
    struct dlock_client_options options = DLOCK_CLIENT_OPTIONS_INIT;
    struct dlock_client *client = NULL;

    cr_assert_eq(dlock_client_open("memory://a", &zeroed, &client, &err), DLOCK_INVALID);
    expect_named("dlock_client_options");
    cr_assert_eq(dlock_client_open_start("memory://a", &zeroed, &client, &err), DLOCK_INVALID);
    expect_named("dlock_client_options");
    cr_expect_null(client);
    options.plugin_dirs = "/nonexistent";
    cr_assert_eq(dlock_client_open("memory://a", &options, &client, &err), DLOCK_NO_PLUGIN);
}

/* Else a refused acquire would read as DLOCK_OK. */
Test(structures, C19_a_notice_that_stays_in_the_queue)
{
    struct dlock_notice zeroed = {0}, notice = DLOCK_NOTICE_INIT;
    struct dlock_handle *held = dlt_engine_lock(&engine, "a", NULL);
    struct dlock_handle *other = dlt_engine_lock(&engine, "a", NULL);

    cr_assert_eq(dlt_notice_take(engine.client, &zeroed, &err), -1);
    expect_named("dlock_notice");
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, held, 0), DLOCK_OK);
    cr_assert_eq(dlock_op_start(other, DLOCK_OP_LOCK, 0, NULL), DLOCK_OK);
    dlt_settle();
    cr_assert_eq(dlt_notice_take(engine.client, &zeroed, &err), -1);
    expect_named("dlock_notice");
    cr_expect_neq(zeroed.kind, DLOCK_NOTICE_DONE);
    cr_assert_eq(dlt_notice_take(engine.client, &notice, &err), 1);
    cr_expect_eq(notice.lock, other);
    cr_expect_eq(notice.status, DLOCK_BUSY);
    dlock_free(other);
    (void)dlt_do(&engine, DLT_FREE, held, 0);
}

Test(structures, stats)
{
    struct dlock_stats zeroed = {0}, stats = DLOCK_STATS_INIT;

    cr_assert_eq(dlock_client_stats(engine.client, &zeroed, &err), DLOCK_INVALID);
    expect_named("dlock_stats");
    cr_assert_eq(dlock_client_stats(engine.client, &stats, &err), DLOCK_OK);
}

static bool holder_count(void *arg, const struct dlock_holder *holder)
{
    *(unsigned *)arg += holder->name_len == 3 && memcmp(holder->name, "abc", 3) == 0;
    return false;
}

/* Each function that takes a name. */
Test(structures, C11_names_that_end_with_a_nul)
{
    static const char *const names[] = {"x", "abc"};
    static const size_t lens[] = {1, DLOCK_NUL};
    struct dlock_handle *lock = NULL, *same = NULL;
    struct dlock_set *set = NULL;
    unsigned seen = 0;
    char text[DLOCK_NAME_MAX + 2];

    cr_assert_eq(dlock_new(engine.client, "abc", DLOCK_NUL, NULL, &lock, &err), DLOCK_OK);
    cr_assert_eq(dlock_new(engine.client, "abcd", 3, NULL, &same, &err), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_expect_eq(dlt_do(&engine, DLT_TRYLOCK, same, 0), DLOCK_BUSY);
    cr_assert_eq(dlock_client_inspect(engine.client, "abc", DLOCK_NUL, holder_count, &seen, &err),
                 DLOCK_OK);
    cr_assert_eq(dlock_client_list(engine.client, "ab", DLOCK_NUL, holder_count, &seen, &err),
                 DLOCK_OK);
    cr_assert_eq(dlock_client_list(engine.client, "", DLOCK_NUL, holder_count, &seen, &err),
                 DLOCK_OK);
    cr_expect_eq(seen, 3u);
    cr_assert_eq(dlock_set_new(engine.client, names, lens, 2, NULL, &set, &err), DLOCK_OK);
    cr_expect_eq(dlock_set_acquire(set, DLOCK_EXCLUSIVE, 0, &err), DLOCK_BUSY);
    cr_assert_eq(dlock_client_break(engine.client, "abc", DLOCK_NUL, NULL, &err), DLOCK_OK);
    memset(text, 'n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    cr_expect_eq(dlock_client_break(engine.client, text, DLOCK_NUL, NULL, &err), DLOCK_INVALID);
    cr_expect_eq(dlock_client_list(engine.client, text, DLOCK_NUL, holder_count, &seen, &err),
                 DLOCK_INVALID);
    cr_expect_eq(dlock_client_inspect(engine.client, "", DLOCK_NUL, holder_count, &seen, &err),
                 DLOCK_INVALID);
    dlock_set_free(set);
    dlock_free(same);
    (void)dlt_do(&engine, DLT_FREE, lock, 0);
}

/* An unlock must not fail for the sake of its error. */
Test(structures, an_error_is_filled_whole_all_the_same)
{
    struct dlock_error zeroed = {0};
    struct dlock_handle *lock = dlt_engine_lock(&engine, "a", NULL);

    cr_assert_eq(dlock_unlock(lock, &zeroed), DLOCK_NOT_HELD);
    cr_expect_eq(zeroed.status, DLOCK_NOT_HELD);
    cr_expect_str_eq(zeroed.origin, "core");
    cr_expect_str_neq(zeroed.message, "");
    dlock_free(lock);
}
