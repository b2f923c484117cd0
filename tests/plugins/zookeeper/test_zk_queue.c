/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/queue.c */
/* Which place has a node in the queue of its name? */
#include "queue.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MOST      8
#define SEMAPHORE "123456789abcdef0123456789abcdef-l2-__WRIT__000000000" /* of two */
#define TOKEN     "0123456789abcdef0123456789abcdef"
#define OWN       "_c_" TOKEN "-__WRIT__000000000"

static char *list[MOST];
static struct String_vector children;
static struct zk_position position;

/* The children of a name, in the order in which a server happens to name them. */
static void queue_is(const char *const *names, size_t count)
{
    static char texts[MOST][64];

    cr_assert_leq(count, MOST);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%s", names[i]);
        list[i] = texts[i];
    }
    children = (struct String_vector){.count = (int32_t)count, .data = list};
}

#define QUEUE(...)                                        \
    do {                                                  \
        static const char *const names[] = {__VA_ARGS__}; \
        queue_is(names, sizeof names / sizeof names[0]);  \
    } while (0)

static void predecessor_is(const char *want)
{
    if (want == NULL) {
        cr_assert_null(position.predecessor);
        return;
    }
    cr_assert_not_null(position.predecessor, "want %s", want);
    cr_assert_str_eq(position.predecessor, want);
}

Test(queue, TRY_1_the_first_node_holds_the_name)
{
    QUEUE("b-lock-0000000007", OWN "3", "c-lock-0000000005");
    zk_queue_judge(&position, &children, OWN "3", TOKEN, false);
    cr_assert(position.holds);
    cr_assert_str_eq(position.own, OWN "3");
    cr_assert_eq(position.before, 0);
    cr_assert_eq(position.contenders, 3);
    cr_assert_eq(position.shared_first, 0);
    cr_assert_not(position.exhausted);
    predecessor_is(NULL);
}

Test(queue, C16_a_writer_waits_for_the_node_before_it_whatever_the_recipe)
{
    QUEUE("z__lock__0000000004", OWN "5", "_c_a-__READ__0000000002", "b-lock-0000000006", "note");
    zk_queue_judge(&position, &children, OWN "5", TOKEN, false);
    cr_assert_not(position.holds);
    predecessor_is("z__lock__0000000004");
    cr_assert_eq(position.before, 2);
    cr_assert_eq(position.contenders, 4);
    cr_assert_eq(position.shared_first, 1);
    QUEUE(OWN "5", "_c_a-__READ__0000000002");
    zk_queue_judge(&position, &children, OWN "5", TOKEN, false);
    predecessor_is("_c_a-__READ__0000000002");
}

Test(queue, C12_a_reader_waits_for_the_last_writer_before_it)
{
    QUEUE("r__rlock__0000000006", "w-lock-0000000003", "_c_" TOKEN "-__READ__0000000007",
          "v-lock-0000000002", "q__rlock__0000000001", "u-lock-0000000009");
    zk_queue_judge(&position, &children, NULL, TOKEN, true);
    cr_assert_not(position.holds);
    predecessor_is("w-lock-0000000003");
    cr_assert_eq(position.before, 4);
    cr_assert_eq(position.shared_first, 1);
    QUEUE("r__rlock__0000000006", "_c_" TOKEN "-__READ__0000000007", "u-lock-0000000009");
    zk_queue_judge(&position, &children, NULL, TOKEN, true);
    cr_assert(position.holds, "a writer behind it does not matter");
    cr_assert_eq(position.shared_first, 2);
    predecessor_is(NULL);
}

Test(queue, TRY_5_of_several_nodes_of_a_token_the_first_one_counts)
{
    QUEUE(OWN "9", "a-lock-0000000004", OWN "3", OWN "5");
    zk_queue_judge(&position, &children, NULL, TOKEN, false);
    cr_assert_str_eq(position.own, OWN "3");
    cr_assert(position.holds);
    zk_queue_judge(&position, &children, OWN "5", TOKEN, false);
    cr_assert_str_eq(position.own, OWN "5", "unless the node is known");
    predecessor_is("a-lock-0000000004");
}

Test(queue, TRY_1_a_node_that_is_not_there_holds_nothing)
{
    QUEUE("a-lock-0000000004", "b__rlock__0000000005");
    zk_queue_judge(&position, &children, OWN "1", TOKEN, false);
    cr_assert_null(position.own);
    cr_assert_not(position.holds);
    predecessor_is("b__rlock__0000000005");
    zk_queue_judge(&position, &children, NULL, TOKEN, true);
    predecessor_is("a-lock-0000000004");
    children.count = 0;
    zk_queue_judge(&position, &children, NULL, TOKEN, false);
    cr_assert_not(position.holds, "the name is free, but not ours");
    cr_assert_eq(position.contenders, 0);
}

Test(queue, the_end_of_the_sequences_is_seen)
{
    QUEUE(OWN "3", "a-lock-2147483000");
    zk_queue_judge(&position, &children, OWN "3", TOKEN, false);
    cr_assert(position.exhausted);
    QUEUE(OWN "3", "a-lock-2147482999");
    zk_queue_judge(&position, &children, OWN "3", TOKEN, false);
    cr_assert_not(position.exhausted);
    QUEUE("_c_" TOKEN "-lock--2147483648", "a-lock-2147483647");
    zk_queue_judge(&position, &children, NULL, TOKEN, false);
    cr_assert(position.exhausted);
    cr_assert_not(position.holds, "what ran over comes last");
    predecessor_is("a-lock-2147483647");
}

/* ---- holders ---- */

static char holders[MOST * 64];

static void holder_note(void *arg, const char *name, const struct zk_node *node)
{
    const struct zk_node *const none = NULL;
    size_t used = strlen(holders);

    cr_assert_eq(arg, &children);
    cr_assert_neq(node, none);
    (void)snprintf(holders + used, sizeof holders - used, "%.*s ", (int)node->owner_len,
                   node->owner);
    cr_assert_eq(strncmp(name, node->owner, 1), 0);
}

static void holders_are(const char *want, uint32_t waiters)
{
    holders[0] = '\0';
    cr_assert_eq(zk_queue_holders(&children, holder_note, &children), waiters, "%s", want);
    cr_assert_str_eq(holders, want);
}

static void waiters_are(const char *want)
{
    struct zk_queue_waiter *waiters = NULL;
    char have[MOST + 1] = "";
    size_t count = 0;

    cr_assert(zk_queue_waiters(&children, &waiters, &count));
    for (size_t i = 0; i < count; i++)
        have[i] = waiters[i].may_hold ? waiters[i].node.owner[0]
                                      : (char)toupper((unsigned char)waiters[i].node.owner[0]);
    cr_assert_str_eq(have, want);
    free(waiters);
}

/* The first ones of a semaphore may wait, or hold: small letters. */
Test(queue, C13_waiters_in_order)
{
    QUEUE("c-lock-0000000009", "a-lock-0000000003", "b__rlock__0000000005");
    waiters_are("BC");
    QUEUE("c" SEMAPHORE "9", "a" SEMAPHORE "3", "b" SEMAPHORE "5");
    waiters_are("abC");
    QUEUE("c-lock-0000000009", "a" SEMAPHORE "3");
    waiters_are("aC");
    QUEUE("c" SEMAPHORE "9", "a-lock-0000000003");
    waiters_are("C");
    QUEUE("a" SEMAPHORE "3");
    waiters_are("a");
    QUEUE("note");
    waiters_are("");
}

Test(queue, C12_a_writer_holds_alone_and_readers_together)
{
    QUEUE("c-lock-0000000009", "a-lock-0000000003", "b__rlock__0000000005");
    holders_are("a ", 2);
    QUEUE("c__rlock__0000000009", "d-lock-0000000004", "a__rlock__0000000003",
          "b__rlock__0000000001");
    holders_are("b a ", 2);
    QUEUE("c__rlock__0000000009", "a__rlock__0000000003", "note");
    holders_are("a c ", 0);
    QUEUE("note");
    holders_are("", 0);
    children.count = 0;
    holders_are("", 0);
}
