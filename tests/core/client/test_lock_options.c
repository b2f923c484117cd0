/* SPDX-License-Identifier: MIT */
/* Tests: core/client/lock_options.c */
/* Do handles made alike share what was asked for, and only those? */
#include "client/lock_options.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* C24: a copy, and handles with other data do not share it. */
Test(terms, data_are_copied_and_compared)
{
    struct dl_settings settings;
    struct dl_lock_options *last = NULL, *a, *b, *c;
    char data[] = "a\0b";

    dl_settings_init(&settings);
    settings.data = data;
    settings.data_len = 3;
    a = dl_lock_options_ref(&last, &settings);
    b = dl_lock_options_ref(&last, &settings);
    cr_assert_eq(a, b);
    data[2] = 'c';
    cr_assert_eq(a->data_len, 3);
    cr_assert_arr_eq(a->data, "a\0b", 3);
    c = dl_lock_options_ref(&last, &settings);
    cr_assert_neq(a, c, "other data");
    cr_assert_arr_eq(c->data, "a\0c", 3);
    dl_lock_options_unref(a);
    dl_lock_options_unref(b);
    settings.data_len = 0;
    a = dl_lock_options_ref(&last, &settings);
    cr_assert_neq(a, c, "no data");
    cr_assert_null(a->data);
    dl_lock_options_unref(a);
    dl_lock_options_unref(c);
    dl_lock_options_unref(last);
}

Test(terms, the_same_are_shared_and_others_are_not)
{
    char number[32];
    struct dl_settings settings;
    struct dl_lock_options *last = NULL, *a, *b, *c, *d;

    dl_settings_init(&settings);
    a = dl_lock_options_ref(&last, &settings);
    b = dl_lock_options_ref(&last, &settings);
    settings.ttl_ms = 77000;
    c = dl_lock_options_ref(&last, &settings);
    (void)snprintf(settings.label, sizeof settings.label, "nightly");
    d = dl_lock_options_ref(&last, &settings);
    cr_assert(a != NULL && c != NULL && d != NULL);
    cr_assert_eq(a, b);
    cr_assert_neq(b, c);
    cr_assert_neq(c, d, "another label");
    cr_assert_eq(last, d);
    cr_assert_eq(c->ttl_ms, 77000);
    cr_assert_str_eq(d->label_text, "nightly");
    cr_assert_str_eq(strrchr(d->label, ':') + 1, "nightly");
    (void)snprintf(number, sizeof number, ":%ld@", (long)getpid());
    cr_assert_not_null(strstr(d->label, number), "%s", d->label);
    cr_assert_eq(strcspn(strchr(d->label, '@') + 1, ":"), 8, "%s", d->label);
    dl_lock_options_unref(a);
    cr_assert_eq(b->refs, 1, "the other handle has them still");
    dl_lock_options_unref(b);
    dl_lock_options_unref(c);
    dl_lock_options_unref(d);
    cr_assert_eq(last->refs, 1);
    dl_lock_options_unref(last);
}
