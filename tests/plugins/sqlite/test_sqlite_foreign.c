/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/trust.c plugins/sqlite/config.c */
/* Can another user change what is in a store, by files beside it or in its path? */
#include "store_kit.h"
#include "wake_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STRANGER 65501
#define OWNER    65502

static char directory[64], path[64];
static struct dlt_store s;
static struct dlt_request a, b;

/* A store in a directory like /tmp, in which "job" is held. */
static void set_up(void)
{
    if (geteuid() != 0)
        cr_skip("giving files away takes root");
    dlt_store_directory(directory, path);
    cr_assert_eq(chmod(directory, 01777), 0);
    dlt_store_init(&s, path);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_store_request(&s, &a, "job", 'a', 60000);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
}

static void tear_down(void)
{
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(foreign, .init = set_up, .fini = tear_down, .timeout = 60);

/* "<path><suffix>", in one of two buffers. */
static const char *sibling(const char *suffix)
{
    static char buffers[2][96];
    static unsigned next;
    char *buffer = buffers[next++ % 2];

    (void)snprintf(buffer, sizeof buffers[0], "%s%s", path, suffix);
    return buffer;
}

/* By a program, which has all rights of root. */
static void give(const char *file, uid_t user)
{
    char command[160];

    (void)snprintf(command, sizeof command, "chown %u:%u %s && chmod 666 %s", user, user, file,
                   file);
    cr_assert_eq(system(command), 0);
}

static void plant(const char *suffix, const void *bytes, size_t size, uid_t owner)
{
    int fd = open(sibling(suffix), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
    (void)close(fd);
    give(sibling(suffix), owner);
}

/* A journal of SQLite that cuts the database to nothing when it is played back: no page, and a size
 * of zero pages before. */
static void plant_journal(uid_t owner)
{
    static const unsigned char head[512] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, 0, 0,
                                            0,    0,    1,    2,    3,    4,    0,    0,    0, 0,
                                            0,    0,    2,    0,    0,    0,    4,    0};

    plant("-journal", head, sizeof head, owner);
}

static void refused(const char *says)
{
    for (int off = 0; off < 2; off++) {
        s.target.create_off = off;
        cr_assert_eq(dlt_store_open(&s), DLOCK_AUTH, "%s", s.err.message);
        cr_assert_not_null(strstr(s.err.message, says), "%s", s.err.message);
    }
    s.target.create_off = 0;
}

static void refused_by(uid_t user, const char *says)
{
    cr_assert_eq(seteuid(user), 0);
    refused(says);
    cr_assert_eq(seteuid(0), 0);
}

static void still_held(void)
{
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_store_request(&s, &b, "job", 'b', 60000);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
}

/* Nobody has the store open, and whoever opens it next would believe what is in that file. */
Test(foreign, AUTH_a_file_of_another_user_beside_the_store)
{
    static const char *const suffixes[] = {"-journal", "-wal", "-shm"};

    dlt_store_close(&s);
    for (size_t i = 0; i < 3; i++) {
        plant(suffixes[i], "", 0, STRANGER);
        refused(suffixes[i]);
        cr_assert_eq(unlink(sibling(suffixes[i])), 0);
    }
    still_held();
}

Test(foreign, AUTH_a_file_of_another_user_beside_a_store_that_is_not_there_yet)
{
    static const char *const suffixes[] = {"-journal", "-wal", "-shm"};

    dlt_store_close(&s);
    for (size_t i = 0; i < 3; i++) {
        (void)unlink(path);
        plant(suffixes[i], "", 0, STRANGER);
        cr_assert_eq(seteuid(OWNER), 0);
        cr_assert_eq(dlt_store_open(&s), DLOCK_AUTH, "%s: %s", suffixes[i], s.err.message);
        cr_assert_eq(seteuid(0), 0);
        cr_assert_eq(unlink(sibling(suffixes[i])), 0);
    }
}

/* A link to a file of the owner: what is in it need not come from the owner. */
Test(foreign, AUTH_a_second_name_of_a_file_of_the_owner)
{
    dlt_store_close(&s);
    plant("-mail", "", 0, 0);
    cr_assert_eq(link(sibling("-mail"), sibling("-journal")), 0);
    refused("-journal");
    cr_assert_eq(unlink(sibling("-journal")), 0);
    cr_assert_eq(symlink(sibling("-mail"), sibling("-journal")), 0);
    refused("-journal");
}

Test(foreign, a_journal_of_another_user_changes_nothing)
{
    dlt_store_close(&s);
    plant_journal(STRANGER);
    refused("-journal");
    cr_assert_eq(unlink(sibling("-journal")), 0);
    still_held();
}

/* What a crash in the first open leaves: SQLite undoes it. */
Test(foreign, a_journal_of_the_owner_is_played_back)
{
    dlt_store_close(&s);
    plant_journal(0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_neq(access(sibling("-journal"), F_OK), 0);
    dlt_store_request(&s, &b, "job", 'b', 60000);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
}

/* ---- stores of a group, and directories of a group ---- */

#define GROUP 65510

static void modes(mode_t directory_mode, gid_t directory_group, mode_t file_mode)
{
    cr_assert_eq(chown(directory, 0, directory_group), 0);
    cr_assert_eq(chmod(directory, directory_mode), 0);
    cr_assert_eq(chown(path, 0, GROUP), 0);
    cr_assert_eq(chmod(path, file_mode), 0);
}

/* The setgid bit gives the file that group, whoever makes it. */
Test(foreign, AUTH_a_log_of_anybody_beside_a_store_of_a_group)
{
    dlt_store_close(&s);
    plant("-wal", "", 0, STRANGER);
    cr_assert_eq(chown(sibling("-wal"), STRANGER, GROUP), 0);
    modes(02777, GROUP, 0660);
    refused("-wal");
    modes(02775, GROUP + 1, 0660);
    refused("-wal");
    modes(0775, GROUP, 0600);
    refused("-wal");
    modes(02770, GROUP, 0660);
    still_held();
    dlt_store_close(&s);
    modes(01777, GROUP, 0666);
    still_held();
}

/* It would leave a -wal and a -shm of its own behind, which the owner refuses. */
Test(foreign, AUTH_a_user_of_the_group_in_a_directory_of_everybodys)
{
    dlt_store_close(&s);
    modes(02777, GROUP, 0660);
    cr_assert_eq(setegid(GROUP), 0);
    refused_by(OWNER, path);
    cr_assert_neq(access(sibling("-wal"), F_OK), 0);
    modes(02770, GROUP, 0660);
    cr_assert_eq(seteuid(OWNER), 0);
    still_held();
    dlt_store_close(&s);
    cr_assert_eq(seteuid(0), 0);
}

/* Members of the group, who may read the store, see what is in -wal. */
Test(foreign, a_store_of_root_keeps_its_group)
{
    struct stat st;

    dlt_store_close(&s);
    modes(0775, GROUP + 1, 0640);
    still_held();
    cr_assert_eq(stat(sibling("-wal"), &st), 0);
    cr_assert_eq(st.st_gid, GROUP);
    cr_assert_eq(stat(sibling("-shm"), &st), 0);
    cr_assert_eq(st.st_gid, GROUP);
    plant("-mine", "", 0, 0);
    cr_assert_eq(stat(sibling("-mine"), &st), 0);
    cr_assert_eq(st.st_gid, 0, "the thread is in its own group again");
}

/* ---- the path ---- */

/* Its owner can write into it what he likes. */
Test(foreign, AUTH_a_store_of_another_user_in_a_directory_of_everybodys)
{
    dlt_store_close(&s);
    cr_assert_eq(chmod(path, 0666), 0);
    cr_assert_eq(chown(path, STRANGER, STRANGER), 0);
    refused_by(0, path);
    refused_by(OWNER, path);
    cr_assert_eq(chmod(directory, 0755), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "root put it there: %s", s.err.message);
}

Test(foreign, AUTH_a_directory_of_another_user_in_a_directory_of_everybodys)
{
    char sub[80], file[96];

    (void)snprintf(sub, sizeof sub, "%s/sub", directory);
    (void)snprintf(file, sizeof file, "%s/locks.db", sub);
    cr_assert_eq(mkdir(sub, 0777), 0);
    cr_assert_eq(chown(sub, STRANGER, STRANGER), 0);
    dlt_store_close(&s);
    s.target.target.path = file;
    refused(sub);
    cr_assert_neq(access(file, F_OK), 0);
    cr_assert_eq(chown(sub, 0, 0), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_store_close(&s);
    dlt_store_remove(sub);
}

/* ---- files that appear after the check ---- */

static void (*before_open)(void);

int __real_sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs);
int __wrap_sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs);
int __wrap_sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs)
{
    if (before_open != NULL && strcmp(name, path) == 0)
        before_open();
    return __real_sqlite3_open_v2(name, db, flags, vfs);
}

static void give_store_away(void)
{
    give(path, STRANGER);
}

Test(foreign, AUTH_a_store_of_another_user_that_appears_after_the_check)
{
    dlt_store_close(&s);
    before_open = give_store_away;
    cr_assert_eq(dlt_store_open(&s), DLOCK_AUTH, "%s", s.err.message);
}

static unsigned char log_bytes[65536];
static ssize_t log_size;
static int opens; /* until the log is planted */

/* A -wal of this store in which "evil" is held. */
static void log_make(void)
{
    int fd = -1;

    dlt_store_request(&s, &b, "evil", 'e', 60000);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    fd = open(sibling("-wal"), O_RDONLY | O_CLOEXEC);
    log_size = read(fd, log_bytes, sizeof log_bytes);
    cr_assert_gt(log_size, 0);
    (void)close(fd);
    cr_assert_eq(dlt_store_unlock(&s, &b), DLOCK_OK);
    dlt_store_close(&s);
}

static uid_t owner; /* of the store */

static void plant_log(void)
{
    if (--opens > 0)
        return;
    cr_assert_eq(seteuid(0), 0);
    plant("-wal", log_bytes, (size_t)log_size, STRANGER);
    cr_assert_eq(seteuid(owner), 0);
}

static enum dlock_status owner_opens(uid_t user)
{
    enum dlock_status status = DLOCK_INTERNAL;

    owner = user;
    cr_assert_eq(chown(path, owner, owner), 0);
    cr_assert_eq(chown(sibling("-wake"), owner, owner), 0);
    cr_assert_eq(seteuid(owner), 0);
    status = dlt_store_open(&s);
    cr_assert_eq(seteuid(0), 0);
    (void)unlink(sibling("-wal"));
    (void)unlink(sibling("-shm"));
    return status;
}

static void nothing_changed(void)
{
    before_open = NULL;
    cr_assert_eq(chown(path, 0, 0), 0);
    (void)unlink(sibling("-wal"));
    still_held();
    dlt_store_request(&s, &a, "evil", 'f', 60000);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
}

/* In the first of the two opens, in which the file is taken alone, and in the second one; of a user
 * and of root, whose SQLite gives the files to the owner. */
Test(foreign, AUTH_a_log_that_appears_after_the_check)
{
    log_make();
    before_open = plant_log;
    for (int which = 1; which <= 4; which++) {
        opens = (which + 1) / 2;
        cr_assert_eq(owner_opens(which % 2 == 1 ? OWNER : 0), DLOCK_AUTH, "%d: %s", which,
                     s.err.message);
        cr_assert_leq(opens, 0);
    }
    nothing_changed();
}

static bool swap_armed, blinks;

int __real_lstat(const char *file, struct stat *st);
int __wrap_lstat(const char *file, struct stat *st);
int __wrap_lstat(const char *file, struct stat *st)
{
    int rc = -1;

    if (swap_armed && opens <= 0 && strcmp(file, sibling("-wal")) == 0) {
        swap_armed = false;
        cr_assert_eq(seteuid(0), 0);
        cr_assert_eq(unlink(file), 0);
        plant("-wal", "", 0, OWNER);
        cr_assert_eq(seteuid(OWNER), 0);
    }
    if (blinks && strcmp(file, sibling("-journal")) == 0) { /* gone at the look, and back at once */
        (void)unlink(file);
        rc = __real_lstat(file, st);
        plant_journal(STRANGER);
        errno = ENOENT;
        return rc;
    }
    return __real_lstat(file, st);
}

/* The look finds a file of the owner, and SQLite has another one open. */
Test(foreign, UNAVAILABLE_a_log_that_is_swapped_before_the_look_at_it)
{
    log_make();
    before_open = plant_log;
    for (int which = 1; which <= 2; which++) {
        opens = which;
        swap_armed = true;
        cr_assert_eq(owner_opens(OWNER), DLOCK_UNAVAILABLE, "%d: %s", which, s.err.message);
        cr_assert(!swap_armed);
    }
    nothing_changed();
}

/* The wake file tells whether -wal and -shm are those of a database that was there before. */
Test(foreign, a_wake_file_of_another_user_removes_no_log)
{
    struct sqlite_wake_map map;
    struct dlt_store second;
    struct stat before, after;
    int fd = open(sibling("-wake"), O_RDONLY | O_CLOEXEC);

    cr_assert_eq(read(fd, &map, sizeof map), (ssize_t)sizeof map);
    (void)close(fd);
    map.identity.db_inode++;
    cr_assert_eq(unlink(sibling("-wake")), 0);
    plant("-wake", &map, sizeof map, STRANGER);
    cr_assert_eq(stat(sibling("-wal"), &before), 0);
    cr_assert_eq(dlt_store_start(&second, path), DLOCK_OK);
    cr_assert_eq(stat(sibling("-wal"), &after), 0);
    cr_assert_eq(before.st_ino, after.st_ino);
    dlt_store_close(&second);
}

static void plant_foreign_journal(void)
{
    plant_journal(STRANGER);
}

Test(foreign, a_journal_that_appears_after_the_check_changes_nothing)
{
    dlt_store_close(&s);
    before_open = plant_foreign_journal;
    (void)dlt_store_open(&s);
    dlt_store_close(&s);
    before_open = NULL;
    (void)unlink(sibling("-journal"));
    still_held();
}

static void plant_blinking_journal(void)
{
    plant_journal(STRANGER);
    blinks = true;
}

/* SQLite asks whether it is there; then it is looked at; then SQLite opens it. */
Test(foreign, a_journal_that_comes_and_goes_changes_nothing)
{
    dlt_store_close(&s);
    before_open = plant_blinking_journal;
    (void)dlt_store_open(&s);
    dlt_store_close(&s);
    before_open = NULL;
    blinks = false;
    (void)unlink(sibling("-journal"));
    still_held();
}

Test(foreign, a_journal_that_appears_while_the_store_is_open_changes_nothing)
{
    plant_journal(STRANGER);
    dlt_store_request(&s, &b, "job", 'b', 60000);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_OK);
    dlt_store_close(&s);
    refused("-journal");
    cr_assert_eq(unlink(sibling("-journal")), 0);
    still_held();
}
