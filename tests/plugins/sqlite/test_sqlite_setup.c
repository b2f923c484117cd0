/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/setup.c plugins/sqlite/lock_file.c */
/* Who can keep a process from the first open of a store, and what is it told then? */
#include "clock.h"
#include "lock_file.h"
#include "peer_kit.h"
#include "store_kit.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64], path[64], lock_path[96];
static struct sqlite_config config = {.real = path, .directory = directory};
static struct dlt_store s;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    (void)snprintf(lock_path, sizeof lock_path, "%s" SQ_LOCK_SUFFIX, path);
    dlt_store_init(&s, path);
}

static void tear_down(void)
{
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(setup, .init = set_up, .fini = tear_down, .timeout = 60);

static enum dlock_status open_again(void)
{
    dlt_store_close(&s);
    return dlt_store_open(&s);
}

/* Anybody who may read the directory can lock it: flock /srv/app dlock ... */
Test(setup, a_lock_on_the_directory_keeps_nobody_out)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    cr_assert_eq(flock(fd, LOCK_EX), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(open_again(), DLOCK_OK, "%s", s.err.message);
    (void)close(fd);
}

/* The lock of a process that stopped in its first open. */
Test(setup, UNAVAILABLE_while_another_process_opens_the_store)
{
    int fd = -1;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_neq(access(lock_path, F_OK), 0, "it is not there after the open");
    fd = sqlite_lock_file_take(&config, sqlite_clock_until(DL_NS_PER_S));
    cr_assert_geq(fd, 0);
    cr_assert_eq(open_again(), DLOCK_UNAVAILABLE, "%s", s.err.message);
    cr_assert_not_null(strstr(s.err.message, lock_path), "%s", s.err.message);
    (void)close(fd);
    cr_assert_eq(access(lock_path, F_OK), 0, "as a kill leaves it");
    cr_assert_eq(open_again(), DLOCK_OK, "%s", s.err.message);
    cr_assert_neq(access(lock_path, F_OK), 0);
}

static void lock_mode_is(mode_t store_mode, mode_t lock_mode)
{
    struct stat st;
    int fd = -1;

    cr_assert_eq(chmod(path, store_mode), 0);
    fd = sqlite_lock_file_take(&config, sqlite_clock_until(DL_NS_PER_S));
    cr_assert_eq(fstat(fd, &st), 0);
    cr_assert_eq(st.st_mode & 0777u, lock_mode, "%o: %o", store_mode, st.st_mode & 0777u);
    sqlite_lock_file_give(&config, fd);
}

Test(setup, only_users_who_may_write_the_store_may_open_the_lock_file)
{
    (void)umask(0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    lock_mode_is(0600, 0600);
    lock_mode_is(0644, 0600);
    lock_mode_is(0664, 0660);
    lock_mode_is(0666, 0666);
}

#define OWNER 65502
#define GROUP 65510

static int naps_until_rights = -1;

bool __real_sqlite_clock_nap(int round, int64_t until_ns);
bool __wrap_sqlite_clock_nap(int round, int64_t until_ns);
bool __wrap_sqlite_clock_nap(int round, int64_t until_ns)
{
    if (naps_until_rights >= 0 && naps_until_rights-- == 0) {
        cr_assert_eq(seteuid(0), 0);
        cr_assert_eq(chmod(lock_path, 0660), 0);
        cr_assert_eq(seteuid(OWNER), 0);
    }
    return __real_sqlite_clock_nap(round, until_ns);
}

static void lock_file_of_root(void)
{
    cr_assert_geq(open(lock_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), 0);
    cr_assert_eq(chown(lock_path, 0, GROUP), 0);
    cr_assert_eq(chmod(lock_path, 0600), 0);
}

/* A process of another user of the group makes the file, and then lets the group in. */
Test(setup, a_lock_file_that_gets_its_rights_is_waited_for)
{
    if (geteuid() != 0)
        cr_skip("giving files away takes root");
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_store_close(&s);
    cr_assert_eq(chown(directory, 0, GROUP), 0);
    cr_assert_eq(chmod(directory, 02770), 0);
    cr_assert_eq(chown(path, 0, GROUP), 0);
    cr_assert_eq(chmod(path, 0660), 0);
    lock_file_of_root();
    cr_assert_eq(setegid(GROUP), 0);
    cr_assert_eq(seteuid(OWNER), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_AUTH, "%s", s.err.message);
    naps_until_rights = 3;
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(seteuid(0), 0);
}

Test(setup, AUTH_a_lock_file_of_another_user_in_a_directory_of_everybodys)
{
    if (geteuid() != 0)
        cr_skip("giving files away takes root");
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_store_close(&s);
    cr_assert_eq(chmod(directory, 01777), 0);
    cr_assert_geq(open(lock_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666), 0);
    cr_assert_eq(chown(lock_path, 65501, 65501), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_AUTH, "%s", s.err.message);
    cr_assert_not_null(strstr(s.err.message, lock_path), "%s", s.err.message);
}

/* It would be removed. */
Test(setup, AUTH_a_file_of_another_program_in_the_place_of_the_lock_file)
{
    int fd = open(lock_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);

    cr_assert_eq(write(fd, "x", 1), 1);
    (void)close(fd);
    cr_assert_eq(dlt_store_open(&s), DLOCK_AUTH, "%s", s.err.message);
    cr_assert_eq(access(lock_path, F_OK), 0);
}

/* A process that is stopped in its last close has the file for itself, and -wal and -shm are gone.
 * Nobody has to do anything but wait for it. */
Test(setup, UNAVAILABLE_while_the_last_user_closes_the_store)
{
    sqlite3 *last = NULL;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_store_close(&s);
    cr_assert_eq(sqlite3_open(path, &last), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(last, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA user_version", NULL,
                              NULL, NULL),
                 SQLITE_OK);
    cr_assert_eq(dlt_store_open(&s), DLOCK_UNAVAILABLE, "%s", s.err.message);
    cr_assert_eq(sqlite3_close(last), SQLITE_OK);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
}

static int files(const char *pattern)
{
    char command[160];

    (void)snprintf(command, sizeof command, "exit $(ls -d %s%s | wc -l)", path, pattern);
    return WEXITSTATUS(system(command));
}

/* A process that was killed while it made the wake file. */
Test(setup, what_a_killed_process_left_is_removed)
{
    struct dlt_peer peer;

    dlt_peer_start(&peer, "strace -f -qq -o /dev/null -e trace=fallocate "
                          "-e inject=fallocate:signal=SIGKILL");
    dlt_peer_say(&peer, "open %s normal", path);
    cr_assert_eq(waitpid(peer.pid, NULL, 0), peer.pid);
    cr_assert_eq(files("-wake.*"), 1, "it was killed in the middle");
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(files("*"), 4, "with -wal, -shm and -wake");
}
