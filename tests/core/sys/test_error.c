/* SPDX-License-Identifier: MIT */
/* Tests: core/sys/error.c lib/text.c */
/* Does an error reach callers of any age, in one printable line? */
#include "sys/error.h"

#include <criterion/criterion.h>
#include <dlock/dlock.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

Test(error, filled)
{
    struct dlock_error err;

    memset(&err, 0x55, sizeof err);
    cr_assert_eq(dl_error(&err, DLOCK_INVALID, "%s %d", "x", 7), DLOCK_INVALID);
    cr_expect_eq(err.status, DLOCK_INVALID);
    cr_expect_eq(err.struct_size, sizeof err);
    cr_expect_eq(err.code, 0);
    cr_expect_eq(err.node_count, 0);
    cr_expect_str_eq(err.origin, "core");
    cr_expect_str_eq(err.message, "x 7");
}

Test(error, too_long_a_text_is_cut)
{
    struct dlock_error err;
    char text[1000];

    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    (void)dl_error(&err, DLOCK_INVALID, "%s", text);
    cr_expect_eq(strlen(err.message), sizeof err.message - 1);
}

Test(error, export_to_nobody)
{
    struct dlock_error from;

    dl_error_reset(&from);
    cr_assert_eq(dl_error_export(NULL, &from, DLOCK_LOST), DLOCK_LOST);
}

/* An older caller's struct is shorter: nothing behind it is touched. */
Test(error, export_to_an_older_caller)
{
    struct dlock_error from, to;
    uint32_t old = offsetof(struct dlock_error, message) + 8;

    (void)dl_error(&from, DLOCK_INVALID, "0123456789");
    memset(&to, 0x55, sizeof to);
    to.struct_size = old;
    cr_assert_eq(dl_error_export(&to, &from, DLOCK_INVALID), DLOCK_INVALID);
    cr_expect_eq(to.struct_size, old);
    cr_expect_eq(memcmp(to.message, "01234567", 8), 0);
    for (size_t i = old; i < sizeof to; i++)
        cr_assert_eq(((const char *)&to)[i], 0x55, "byte %zu", i);
}

Test(error, export_to_a_newer_caller)
{
    struct {
        struct dlock_error known;
        char later[16];
    } to = {.known = {.struct_size = sizeof to}, .later = "untouched"};
    struct dlock_error from;

    (void)dl_error(&from, DLOCK_AUTH, "no");
    cr_assert_eq(dl_error_export(&to.known, &from, DLOCK_AUTH), DLOCK_AUTH);
    cr_expect_eq(to.known.struct_size, sizeof(struct dlock_error));
    cr_expect_str_eq(to.later, "untouched");
}

/* The size of the first header, whatever this library's has grown to. */
Test(error, export_to_a_caller_that_says_no_size)
{
    enum { FIRST = offsetof(struct dlock_error, nodes) + sizeof(void *) };
    struct {
        struct dlock_error known;
        char later[16];
    } to = {.later = "untouched"};
    struct dlock_error from;

    (void)dl_error(&from, DLOCK_AUTH, "no");
    cr_assert_eq(dl_error_export(&to.known, &from, DLOCK_AUTH), DLOCK_AUTH);
    cr_expect_eq(to.known.struct_size, FIRST);
    cr_expect_str_eq(to.known.message, "no");
    cr_expect_str_eq(to.later, "untouched");
}

/* A store's text may hold an escape sequence; a log line must not. */
Test(error, export_is_printable)
{
    struct dlock_error from, to = DLOCK_ERROR_INIT;

    (void)dl_error(&from, DLOCK_PROTOCOL, "a\nb\x1b[2J\x7f");
    (void)snprintf(from.origin, sizeof from.origin, "x\ty");
    (void)dl_error_export(&to, &from, DLOCK_PROTOCOL);
    cr_expect_str_eq(to.message, "a?b?[2J?");
    cr_expect_str_eq(to.origin, "x?y");
}

Test(error, export_always_has_a_text)
{
    struct dlock_error from, to = DLOCK_ERROR_INIT;

    dl_error_reset(&from);
    (void)dl_error_export(&to, &from, DLOCK_BUSY);
    cr_expect_str_eq(to.message, "held by another owner");
    cr_expect_eq(to.status, DLOCK_BUSY);
}

/* What an attempt before the last one said is no error of a call that succeeds. */
Test(error, export_of_a_success)
{
    struct dlock_error from, to;

    memset(&to, 0x55, sizeof to);
    to.struct_size = sizeof to;
    (void)dl_error(&from, DLOCK_UNAVAILABLE, "no answer");
    cr_assert_eq(dl_error_export(&to, &from, DLOCK_OK), DLOCK_OK);
    cr_expect_eq(to.status, DLOCK_OK);
    cr_expect_eq(to.code, 0);
    cr_expect_eq(to.node_count, 0u);
    cr_expect_str_eq(to.message, "success");
}

static void *node_of_another_thread(void *err)
{
    return (void *)(uintptr_t)dlock_error_node(err, 0);
}

Test(error, nodes_belong_to_the_callers_error_and_to_its_thread)
{
    struct dlock_error from, to = DLOCK_ERROR_INIT, copy;
    pthread_t thread;
    void *elsewhere = &to;

    dl_error_begin(&from);
    memset(from.nodes, 0, DLOCK_NODE_ERRORS_MAX * sizeof from.nodes[0]);
    from.node_count = 4000000000u;
    (void)snprintf(from.nodes[8].message, sizeof from.nodes[8].message, "bad\n");
    (void)dl_error_export(&to, &from, DLOCK_NO_QUORUM);
    cr_expect_eq(to.node_count, DLOCK_NODE_ERRORS_MAX);
    cr_assert_not_null(dlock_error_node(&to, 8));
    cr_expect_str_eq(dlock_error_node(&to, 8)->message, "bad?");
    cr_expect_null(dlock_error_node(&to, DLOCK_NODE_ERRORS_MAX));
    cr_expect_null(dlock_error_node(NULL, 0));
    copy = to;
    cr_expect_null(dlock_error_node(&copy, 0));
    cr_assert_eq(pthread_create(&thread, NULL, node_of_another_thread, &to), 0);
    cr_assert_eq(pthread_join(thread, &elsewhere), 0);
    cr_expect_null(elsewhere);
    dl_error_begin(&from); /* the next call */
    cr_expect_null(dlock_error_node(&to, 0));
}

/* A call that succeeds or fails for one node. */
static void call_with_node(struct dlock_error *to, const char *text)
{
    struct dlock_error from;

    dl_error_begin(&from);
    (void)snprintf(from.nodes[0].message, sizeof from.nodes[0].message, "%s", text);
    from.node_count = 1;
    (void)dl_error_export(to, &from, DLOCK_NO_QUORUM);
}

Test(error, nodes_stay_over_a_call_that_takes_no_error)
{
    struct dlock_error to = DLOCK_ERROR_INIT;

    call_with_node(&to, "kept");
    dlock_cancel(NULL);
    dlock_cancel_reset(NULL);
    dlock_client_shutdown(NULL);
    cr_expect_eq(dlock_client_caps(NULL), 0u);
    cr_expect_eq(dlock_client_fd(NULL), -1);
    cr_assert_not_null(dlock_error_node(&to, 0));
    cr_expect_str_eq(dlock_error_node(&to, 0)->message, "kept");
}

/* A callback of dlock_client_list may use another client. */
Test(error, nodes_of_a_call_in_a_callback_are_not_those_of_the_outer_call)
{
    struct dlock_error from, outer = DLOCK_ERROR_INIT, inner = DLOCK_ERROR_INIT;

    dl_error_begin(&from);
    from.node_count = 1;
    call_with_node(&inner, "inner");
    (void)dl_error_export(&outer, &from, DLOCK_OK);
    cr_expect_null(dlock_error_node(&outer, 0));
    cr_assert_not_null(dlock_error_node(&inner, 0));
    cr_expect_str_eq(dlock_error_node(&inner, 0)->message, "inner");
}

/* The error of a call has the address of its caller's next one. */
Test(error, nodes_of_a_call_without_an_error_belong_to_none)
{
    struct dlock_error from;

    dl_error_begin(&from);
    from.node_count = 1;
    (void)dl_error_export(NULL, &from, DLOCK_NO_QUORUM);
    cr_expect_null(dlock_error_node(&from, 0));
}

Test(error, an_error_without_nodes_has_none)
{
    struct dlock_error from = DLOCK_ERROR_INIT, to = DLOCK_ERROR_INIT;

    (void)dl_error(&from, DLOCK_AUTH, "no");
    (void)dl_error_export(&to, &from, DLOCK_AUTH);
    cr_expect_null(dlock_error_node(&to, 0));
    dl_error_begin(&from);
    (void)dl_error_export(&to, &from, DLOCK_AUTH);
    cr_expect_null(dlock_error_node(&to, 0));
}

Test(error, what_may_go_better_later_is_retryable)
{
    static const enum dlock_status yes[] = {DLOCK_BUSY, DLOCK_TIMEOUT, DLOCK_UNKNOWN,
                                            DLOCK_UNAVAILABLE, DLOCK_NO_QUORUM};
    unsigned count = 0;

    for (int status = DLOCK_OK; status <= DLOCK_NO_STORE; status++) {
        struct dlock_error from = DLOCK_ERROR_INIT, to = DLOCK_ERROR_INIT;
        bool expected = false;

        for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
            expected |= (int)yes[i] == status;
        (void)dl_error_export(&to, &from, (enum dlock_status)status);
        cr_expect_eq(to.retryable, expected, "%s", dlock_status_name(status));
        count += to.retryable;
    }
    cr_expect_eq(count, sizeof yes / sizeof yes[0]);
}
