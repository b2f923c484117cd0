/* SPDX-License-Identifier: MIT */
/* Tests: core/sys/error.c lib/text.c */
/* Does an error reach callers of any age, in one printable line? */
#include "sys/error.h"

#include <criterion/criterion.h>
#include <dlock/dlock.h>
#include <stdio.h>
#include <string.h>

Test(error, filled)
{
    struct dlock_error err;

    memset(&err, 0x55, sizeof err);
    cr_assert_eq(dl_error(&err, DLOCK_INVALID, "%s %d", "x", 7), DLOCK_INVALID);
    cr_expect_eq(err.status, DLOCK_INVALID);
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
    (void)dl_error(&from, DLOCK_UNAVAILABLE, "no answer");
    cr_assert_eq(dl_error_export(&to, &from, DLOCK_OK), DLOCK_OK);
    cr_expect_eq(to.status, DLOCK_OK);
    cr_expect_eq(to.code, 0);
    cr_expect_eq(to.node_count, 0u);
    cr_expect_str_eq(to.message, "success");
}

/* What a plugin writes, and says that it has written. */
Test(error, nodes_are_in_the_array_of_the_caller)
{
    struct dlock_node_error nodes[3] = {{.message = ""}};
    struct dlock_error from, to = {.nodes = nodes, .node_room = 2};

    (void)snprintf(nodes[2].message, sizeof nodes[2].message, "behind\n");
    dl_error_begin(&from, &to);
    cr_assert_eq(from.nodes, nodes);
    cr_expect_eq(from.node_room, 2u);
    cr_expect_eq(from.node_count, 0u);
    from.node_count = 4000000000u;
    (void)snprintf(from.nodes[1].message, sizeof from.nodes[1].message, "bad\n");
    (void)dl_error_export(&to, &from, DLOCK_NO_QUORUM);
    cr_expect_eq(to.nodes, nodes);
    cr_expect_eq(to.node_room, 2u);
    cr_expect_eq(to.node_count, 2u);
    cr_expect_str_eq(nodes[1].message, "bad?");
    cr_expect_str_eq(nodes[2].message, "behind\n");
}

Test(error, without_an_array_there_are_no_nodes)
{
    struct dlock_error from, to = {.node_room = 7};

    dl_error_begin(&from, &to);
    cr_expect_null(from.nodes);
    cr_expect_eq(from.node_room, 0u);
    from.node_count = 1;
    (void)dl_error_export(&to, &from, DLOCK_AUTH);
    cr_expect_eq(to.node_count, 0u);
    dl_error_begin(&from, NULL);
    cr_expect_null(from.nodes);
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
