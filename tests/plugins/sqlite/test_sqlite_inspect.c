/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/inspect.c */
/* create=off: who only looks makes nothing, and sees a store that he may only read. */
#include "peer_kit.h"
#include "store_kit.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64], path[96];
static struct dlt_store s;
static struct dlt_request a, b;
static struct dlt_peer nobody;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    dlt_store_init(&s, path);
    dlt_store_request(&s, &a, "job", 'a', 60000);
    dlt_store_request(&s, &b, "job", 'b', 60000);
}

static void tear_down(void)
{
    dlt_peer_kill(&nobody);
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(look, .init = set_up, .fini = tear_down, .timeout = 60);

static int files(void)
{
    DIR *dir = opendir(directory);
    int count = -2; /* . and .. */

    cr_assert_not_null(dir);
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

static void no_store(int files_before)
{
    enum dlock_status status = DLOCK_INTERNAL;

    s.target.create_off = 1;
    status = dlt_store_open(&s);
    cr_assert_eq(status, DLOCK_NO_STORE, "%s: %s", dlock_status_name((int)status), s.err.message);
    cr_assert_not_null(strstr(s.err.message, path), "%s", s.err.message);
    cr_assert_eq(files(), files_before, "something was made");
    s.target.create_off = 0;
}

static void sql(const char *text)
{
    sqlite3 *db = NULL;

    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
}

Test(look, NO_STORE_no_file)
{
    no_store(0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
}

Test(look, NO_STORE_an_empty_file)
{
    cr_assert_eq(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    no_store(1);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
}

Test(look, NO_STORE_a_database_without_tables)
{
    sql("CREATE TABLE t (a); DROP TABLE t");
    no_store(1);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
}

Test(look, NO_STORE_no_directory)
{
    char missing[96];

    (void)snprintf(missing, sizeof missing, "%s/missing/locks.db", directory);
    s.target.target.path = missing;
    s.target.create_off = 1;
    cr_assert_eq(dlt_store_open(&s), DLOCK_NO_STORE, "%s", s.err.message);
    cr_assert_not_null(strstr(s.err.message, "/missing"), "%s", s.err.message);
    cr_assert_eq(files(), 0);
}

Test(look, a_store_that_is_there_is_opened_as_ever)
{
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    dlt_store_close(&s);
    s.target.create_off = 1;
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_store_break(&s, "job", NULL), DLOCK_OK);
}

/* ---- read rights only ---- */

/* A store of root's with one lease, which others may read. */
static void readable(void)
{
    if (geteuid() != 0)
        cr_skip("becoming another user takes root");
    cr_assert_eq(chmod(directory, 0755), 0);
    cr_assert_eq(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    cr_assert_eq(chmod(path, 0644), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
}

static struct dlt_answer nobody_opens(const char *how)
{
    if (nobody.pid == 0)
        dlt_peer_start(&nobody, "setpriv --reuid 65534 --regid 65534 --clear-groups");
    return dlt_peer_ask(&nobody, "open %s %s", path, how);
}

static void nobody_sees(unsigned long long count)
{
    struct dlt_answer answer = dlt_peer_ask(&nobody, "count *");

    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    cr_assert_eq(answer.fence, count, "%llu leases", answer.fence);
}

static void nobody_changes_nothing(void)
{
    static const char *const changes[] = {"try other b 60000 1000",
                                          "try job b 60000 1000 e",
                                          "break job",
                                          "renew b",
                                          "unlock b",
                                          "quit b"};

    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct dlt_answer answer = dlt_peer_ask(&nobody, "%s", changes[i]);

        cr_assert_eq(answer.status, DLOCK_AUTH, "%s: %s", changes[i],
                     dlock_status_name((int)answer.status));
        cr_assert_not_null(strstr(answer.message, path), "%s", answer.message);
    }
}

Test(look, a_reader_sees_what_is_held_while_others_use_the_store)
{
    struct dlt_answer answer;

    readable();
    answer = nobody_opens("look");
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    nobody_sees(1);
    nobody_changes_nothing();
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
    nobody_sees(0);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    nobody_sees(1);
    cr_assert_eq(dlt_peer_ask(&nobody, "probe").status, DLOCK_OK);
    cr_assert_eq(files(), 4);
}

Test(look, a_reader_sees_what_is_held_while_nobody_uses_the_store)
{
    struct dlt_answer answer;

    readable();
    dlt_store_close(&s);
    cr_assert_eq(files(), 2, "without -wal and -shm");
    answer = nobody_opens("look");
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    nobody_sees(1);
    nobody_changes_nothing();
    cr_assert_eq(dlt_peer_ask(&nobody, "probe").status, DLOCK_OK);
    cr_assert_eq(files(), 2);
}

/* What it read may be half of a change. */
Test(look, UNAVAILABLE_a_reader_of_an_idle_store_that_is_used_again)
{
    struct dlt_answer answer;

    readable();
    dlt_store_close(&s);
    cr_assert_eq(nobody_opens("look").status, DLOCK_OK);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
    answer = dlt_peer_ask(&nobody, "count *");
    cr_assert_eq(answer.status, DLOCK_UNAVAILABLE, "%s", dlock_status_name((int)answer.status));
    cr_assert_eq(nobody_opens("look").status, DLOCK_OK, "as core does it after that");
    nobody_sees(0);
    cr_assert_eq(nobody_opens("look").status, DLOCK_OK);
    dlt_store_close(&s);
    nobody_sees(0);
}

/* Closed by all between the look at -wal and -shm, and SQLite's. */
static int close_before_open;

int __real_sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs);
int __wrap_sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs);
int __wrap_sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs)
{
    if (close_before_open && strcmp(name, path) == 0) {
        close_before_open = 0;
        cr_assert_eq(seteuid(0), 0);
        dlt_store_close(&s);
        cr_assert_eq(seteuid(65534), 0);
    }
    return __real_sqlite3_open_v2(name, db, flags, vfs);
}

Test(look, a_reader_of_a_store_that_is_closed_in_that_moment)
{
    struct dlt_store reader;
    struct dlt_holder holder;
    size_t count = 1;
    enum dlock_status status = DLOCK_INTERNAL;

    readable();
    dlt_store_init(&reader, path);
    reader.target.create_off = 1;
    close_before_open = 1;
    cr_assert_eq(seteuid(65534), 0);
    status = dlt_store_open(&reader);
    cr_assert_eq(status, DLOCK_OK, "%s: %s", dlock_status_name((int)status), reader.err.message);
    cr_assert_eq(close_before_open, 0);
    cr_assert_eq(dlt_store_inspect(&reader, "job", &holder, &count), DLOCK_OK);
    cr_assert_eq(count, 1u);
    dlt_store_close(&reader);
    cr_assert_eq(seteuid(0), 0);
    cr_assert_eq(files(), 2);
}

/* After kill -9: the log is there, and nobody has it open. */
Test(look, a_reader_sees_what_a_killed_process_left)
{
    struct dlt_peer killed;
    struct dlt_answer answer;

    readable();
    dlt_store_close(&s);
    dlt_peer_start(&killed, NULL);
    cr_assert_eq(dlt_peer_ask(&killed, "open %s normal", path).status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&killed, "try second b 60000 1000").status, DLOCK_OK);
    dlt_peer_kill(&killed);
    answer = nobody_opens("look");
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    nobody_sees(2);
}

/* As in a set-group-ID program: the real group cannot see whether there is a log, by access(2), on
 * which SQLite relies. No answer, rather than "free". */
Test(look, a_reader_by_the_effective_group_is_not_told_that_the_name_is_free)
{
    struct dlt_answer answer;

    readable();
    cr_assert_eq(chown(directory, 0, 65510), 0);
    cr_assert_eq(chmod(directory, 0750), 0);
    dlt_peer_start(&nobody, "setpriv --reuid 65534 --rgid 65534 --egid 65510 --clear-groups");
    answer = nobody_opens("look");
    cr_assert_neq(answer.status, DLOCK_OK);
    dlt_store_close(&s);
    answer = nobody_opens("look");
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    nobody_sees(1);
}

/* SQLite would make what is missing of -wal and -shm, and the store's owner could not write it. */
Test(look, AUTH_a_reader_who_may_make_files_beside_a_store_in_use)
{
    struct dlt_answer answer;
    char shm[112];

    readable();
    cr_assert_eq(chmod(directory, 0777), 0);
    (void)snprintf(shm, sizeof shm, "%s-shm", path);
    cr_assert_eq(unlink(shm), 0);
    answer = nobody_opens("look");
    cr_assert_neq(access(shm, F_OK), 0, "%s was made", shm);
    cr_assert_eq(answer.status, DLOCK_AUTH, "%s", answer.message);
    cr_assert_not_null(strstr(answer.message, path), "%s", answer.message);
    dlt_store_close(&s);
    answer = nobody_opens("look");
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    nobody_sees(1);
    cr_assert_eq(files(), 2);
}

Test(look, a_reader_of_a_path_with_every_kind_of_character)
{
    char odd[96];
    struct dlt_answer answer;

    readable();
    dlt_store_close(&s);
    (void)snprintf(odd, sizeof odd, "%s/a%%41?b#c&mode=rwc", directory);
    cr_assert_eq(rename(path, odd), 0);
    (void)snprintf(path, sizeof path, "%s", odd);
    answer = nobody_opens("look");
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    nobody_sees(1);
}

Test(look, without_create_off_who_may_not_write_is_refused)
{
    readable();
    cr_assert_eq(nobody_opens("normal").status, DLOCK_CONFIG);
    cr_assert_eq(chmod(path, 0600), 0);
    cr_assert_eq(nobody_opens("look").status, DLOCK_AUTH, "may not even read");
}
