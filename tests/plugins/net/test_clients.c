/* SPDX-License-Identifier: MIT */
/* Tests: plugins/net/clients.c */
/* A plugin has one client for each host [HST-1], as long as somebody refers to it, and a child of a
 * fork has none of its parent. */
#include "net/clients.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct thing {
    struct client client;
    const struct dlock_host *made_for;
    const char *name;
    int closed; /* in a child */
};

static const struct dlock_host hosts[2];
static bool fails;

static struct client *thing_make(const struct dlock_host *host, const void *name)
{
    struct thing *thing = fails ? NULL : calloc(1, sizeof *thing);

    if (thing == NULL)
        return NULL;
    thing->made_for = host;
    thing->name = name;
    return &thing->client;
}

static void thing_after_fork(struct client *client)
{
    ((struct thing *)(void *)client)->closed++;
}

static struct clients things = {.make = thing_make, .after_fork = thing_after_fork};
static struct clients others = {.make = thing_make};

static void set_up(void)
{
    cr_assert(clients_init(&things));
    cr_assert(clients_init(&others));
    cr_assert(clients_init(&things), "once more");
}

TestSuite(clients, .init = set_up, .timeout = 60);

static struct thing *find(struct clients *clients, int host, const char *name)
{
    return (struct thing *)(void *)clients_find(clients, &hosts[host], name);
}

static void unref(struct clients *clients, struct thing *thing, bool last)
{
    cr_assert_eq(clients_unref(clients, &thing->client), last, "%s", thing->name);
    if (last)
        free(thing);
}

Test(clients, HST_1_are_found_by_their_host)
{
    struct thing *one = find(&things, 0, "one"), *two = find(&things, 1, "two");
    struct thing *other = find(&others, 0, "other");

    cr_assert_str_eq(one->name, "one");
    cr_assert_eq(one->made_for, &hosts[0]);
    cr_assert_eq(one->client.host, &hosts[0]);
    cr_assert_str_eq(two->name, "two");
    cr_assert_str_eq(other->name, "other", "another plugin has clients of its own");
    cr_assert_eq(find(&things, 0, "again"), one);
    cr_assert_eq(find(&things, 1, "again"), two);
    unref(&things, one, false);
    unref(&things, one, true); /* the one that was made first, behind the other one */
    cr_assert_eq(find(&things, 1, "again"), two);
    unref(&things, two, false);
    unref(&things, two, false);
    unref(&things, two, true);
    unref(&others, other, true);
}

Test(clients, live_as_long_as_somebody_refers_to_them)
{
    struct thing *one = find(&things, 0, "first");

    clients_ref(&one->client);
    unref(&things, one, false);
    cr_assert_eq(find(&things, 0, "second"), one);
    unref(&things, one, false);
    unref(&things, one, true);
    one = find(&things, 0, "second");
    cr_assert_str_eq(one->name, "second", "the first one has ended");
    unref(&things, one, true);
}

Test(clients, that_cannot_be_made_leave_nothing)
{
    struct thing *one = NULL;

    fails = true;
    cr_assert_null(clients_find(&things, &hosts[0], "none"));
    fails = false;
    one = find(&things, 0, "one");
    cr_assert_str_eq(one->name, "one");
    unref(&things, one, true);
}

/* In the child: 0, or the line that does not hold. */
static int child_check(struct thing *one, struct thing *two)
{
    struct thing *mine = find(&things, 0, "child's");

    if (one->closed != 1 || two->closed != 1)
        return 1;
    if (mine == one || mine->closed != 0)
        return 2;
    if (find(&others, 0, "child's") == NULL)
        return 3;
    return find(&things, 0, "again") == mine ? 0 : 4;
}

Test(clients, of_the_parent_are_not_found_in_a_child)
{
    struct thing *one = find(&things, 0, "one"), *two = find(&things, 1, "two");
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(child_check(one, two));
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0, "%d", WEXITSTATUS(status));
    cr_assert_eq(one->closed, 0);
    cr_assert_eq(find(&things, 0, "again"), one);
    unref(&things, one, false);
    unref(&things, one, true);
    unref(&things, two, true);
}

static _Atomic int unlocked;

static void *hold(void *begun)
{
    clients_lock();
    *(_Atomic int *)begun = 1;
    (void)usleep(50000);
    unlocked = 1;
    clients_unlock();
    return NULL;
}

Test(clients, are_whole_in_a_child)
{
    _Atomic int begun = 0;
    int status = -1;
    pthread_t thread;
    pid_t pid = 0;

    cr_assert_eq(pthread_create(&thread, NULL, hold, &begun), 0);
    while (begun == 0)
        (void)usleep(100);
    pid = fork();
    if (pid == 0) {
        clients_lock(); /* nobody has it */
        _exit(unlocked != 1);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0, "the fork did not wait");
    (void)pthread_join(thread, NULL);
    clients_lock();
    clients_unlock();
}
