/* SPDX-License-Identifier: MIT */
/* Do bare connections go where dlock goes, and do subjects get the names that they were given? */
#include "address.h"
#include "subjects.h"

#include <criterion/criterion.h>
#include <string.h>

static struct bench_address a;

static void parse(const char *uri)
{
    cr_assert_eq(bench_address_parse(uri, &a), 0, "%s", uri);
}

Test(address, of_servers)
{
    parse("redis://app:p%40ss@db1:6380/2?ttl=1m");
    cr_assert(a.kind == BENCH_REDIS && a.plain && a.hosts == 1);
    cr_assert_str_eq(a.user, "app");
    cr_assert_str_eq(a.password, "p@ss");
    cr_assert_str_eq(a.host[0].name, "db1");
    cr_assert_eq(a.host[0].port, 6380);
    cr_assert_str_eq(a.database, "2");
    parse("mysql://u:secret@127.0.0.1:3307/locks?table_prefix=x_&strategy=session");
    cr_assert_eq(a.kind, BENCH_MYSQL_SESSION);
    cr_assert_str_eq(a.database, "locks");
    parse("postgres://u@db/locks");
    cr_assert(a.kind == BENCH_POSTGRESQL && a.plain && a.host[0].port == 5432);
    parse("postgresql://u@db:5433/locks?strategy=session");
    cr_assert(a.kind == BENCH_POSTGRESQL_SESSION && a.host[0].port == 5433);
    parse("etcd://h1,h2:2/prefix");
    cr_assert(a.kind == BENCH_ETCD && a.plain && a.hosts == 2 && a.host[0].port == 2379);
    parse("zk://h1:1,h2/locks?recipe=kazoo");
    cr_assert(a.kind == BENCH_ZOOKEEPER && a.plain && a.hosts == 2 && a.host[1].port == 2181);
    parse("zookeeper://h");
    cr_assert(a.kind == BENCH_ZOOKEEPER && a.hosts == 1);
    parse("redlock://h1,h2:2,[::1]:3?restart_guard=0");
    cr_assert(a.kind == BENCH_REDLOCK && a.nodes == 3 && a.host[0].port == 6379);
    cr_assert(a.host[1].port == 2 && a.host[2].port == 3);
    cr_assert_str_eq(a.host[2].name, "::1");
}

Test(address, of_sockets_and_files)
{
    parse("redis+unix:///run/r.sock?db=3");
    cr_assert_str_eq(a.socket, "/run/r.sock");
    cr_assert_str_eq(a.database, "3");
    parse("mysql://u@/locks?unix_socket=/run/m.sock");
    cr_assert_str_eq(a.socket, "/run/m.sock");
    cr_assert_str_eq(a.database, "locks");
    cr_assert_str_eq(a.user, "u");
    parse("sqlite:///srv/a%20b.db?sync=full");
    cr_assert_eq(a.kind, BENCH_SQLITE);
    cr_assert_str_eq(a.path, "/srv/a b.db");
}

Test(address, of_what_bare_connections_cannot_do)
{
    parse("rediss://h");
    cr_assert_not(a.plain);
    parse("mysql://u@h/d?tls=on");
    cr_assert_not(a.plain);
    parse("toy:x");
    cr_assert_eq(a.kind, BENCH_OTHER);
    cr_assert_eq(bench_address_parse("nothing", &a), -1);
}

Test(address, is_shown_without_secrets)
{
    char text[128];

    cr_assert_str_eq(bench_address_show("mysql://u:secret@h/d?x=1", text, sizeof text),
                     "mysql://h/d");
    cr_assert_str_eq(bench_address_show("sqlite:///a/b.db", text, sizeof text), "sqlite:///a/b.db");
}

Test(subjects, labels_limits_and_places)
{
    static struct bench_subjects subjects;
    char why[BENCH_WHY_SIZE];

    cr_assert_eq(bench_subjects_add(&subjects, "one, spin=off=redis://h:1?spin=off", why), 0);
    cr_assert_eq(bench_subjects_add(&subjects, "redis://h:1", why), 0);
    cr_assert_eq(bench_subjects_add(&subjects, "redis://h:2?ttl=1s", why), 0);
    cr_assert_eq(bench_subjects_add(&subjects, "redis://h:2", why), -1, "the same label");
    cr_assert_str_eq(subjects.all[0].label, "one, spin=off");
    cr_assert_str_eq(subjects.all[0].uri, "redis://h:1?spin=off");
    cr_assert_str_eq(subjects.all[2].label, "redis://h:2");
    cr_assert(subjects.all[1].group == 0 && subjects.all[2].group == 2);
    bench_subjects_add_limits(&subjects);
    cr_assert_gt(subjects.count, 3);
    for (int i = 3; i < subjects.count; i++)
        cr_assert_neq(subjects.all[i].group, 1, "the limits of one address are measured once");
}
