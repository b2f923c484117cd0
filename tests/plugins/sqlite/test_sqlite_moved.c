/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/db.c */
/* Does a file that is moved, removed or replaced under those who use it ever become two locks? */
#include "peer_kit.h"
#include "store_kit.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64], path[64];
static struct dlt_peer old, fresh;

static void set_up(void)
{
    struct dlt_answer answer;

    dlt_store_directory(directory, path);
    dlt_peer_start(&old, NULL);
    dlt_peer_start(&fresh, NULL);
    answer = dlt_peer_ask(&old, "open %s normal", path);
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    answer = dlt_peer_ask(&old, "try job a 60000 1000");
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
}

static void tear_down(void)
{
    dlt_peer_kill(&old);
    dlt_peer_kill(&fresh);
    dlt_store_remove(directory);
}

TestSuite(moved, .init = set_up, .fini = tear_down, .timeout = 60);

/* "<directory>/<name>", in one of a few buffers. */
static const char *in_directory(const char *name)
{
    static char buffers[4][160];
    static unsigned next;
    char *buffer = buffers[next++ % 4];

    (void)snprintf(buffer, sizeof buffers[0], "%s/%s", directory, name);
    return buffer;
}

/* The old process finds out, and cannot do anything any more. */
static void old_is_out(void)
{
    struct dlt_answer answer = dlt_peer_ask(&old, "try other b 60000 1000");

    cr_assert_eq(answer.status, DLOCK_CONFIG, "%s", dlock_status_name((int)answer.status));
    cr_assert_not_null(strstr(answer.message, path), "%s", answer.message);
    cr_assert_eq(dlt_peer_ask(&old, "try job c 60000 1000").status, DLOCK_CONFIG, "busy or not");
    cr_assert_eq(dlt_peer_ask(&old, "renew a").status, DLOCK_LOST);
    cr_assert_eq(dlt_peer_ask(&old, "unlock a").status, DLOCK_LOST);
    cr_assert_eq(dlt_peer_ask(&old, "count *").status, DLOCK_CONFIG);
    cr_assert_eq(dlt_peer_ask(&old, "break job").status, DLOCK_CONFIG);
}

/* A new file works, in a new process, before and after the old one is gone, and in the old one. */
static void fresh_works(unsigned long long fence)
{
    struct dlt_answer answer = dlt_peer_ask(&fresh, "open %s normal", path);

    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    answer = dlt_peer_ask(&fresh, "try job a 60000 1000");
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    cr_assert_gt(answer.fence, fence);
    old_is_out();
    cr_assert_eq(dlt_peer_ask(&old, "close").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&fresh, "renew a").status, DLOCK_OK);
    answer = dlt_peer_ask(&old, "open %s normal", path);
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    cr_assert_eq(dlt_peer_ask(&old, "try job d 60000 1000").status, DLOCK_BUSY);
    cr_assert_eq(dlt_peer_ask(&fresh, "unlock a").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&old, "try job d 60000 1000").status, DLOCK_OK);
}

static unsigned long long fence_now(void)
{
    struct dlt_answer answer = dlt_peer_ask(&old, "try job a 60000 1000");

    cr_assert_eq(answer.status, DLOCK_OK);
    return answer.fence;
}

Test(moved, renamed)
{
    unsigned long long fence = fence_now();

    cr_assert_eq(rename(path, in_directory("away")), 0);
    old_is_out();
    fresh_works(fence);
}

Test(moved, removed)
{
    unsigned long long fence = fence_now();

    cr_assert_eq(unlink(path), 0);
    old_is_out();
    fresh_works(fence);
}

Test(moved, all_files_renamed)
{
    unsigned long long fence = fence_now();

    cr_assert_eq(rename(path, in_directory("away")), 0);
    cr_assert_eq(rename(in_directory("locks.db-wal"), in_directory("away-wal")), 0);
    cr_assert_eq(rename(in_directory("locks.db-shm"), in_directory("away-shm")), 0);
    cr_assert_eq(rename(in_directory("locks.db-wake"), in_directory("away-wake")), 0);
    fresh_works(fence);
}

Test(moved, renamed_and_back)
{
    cr_assert_eq(rename(path, in_directory("away")), 0);
    old_is_out();
    cr_assert_eq(rename(in_directory("away"), path), 0);
    cr_assert_eq(dlt_peer_ask(&old, "renew a").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&fresh, "open %s normal", path).status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&fresh, "try job b 60000 1000").status, DLOCK_BUSY);
}

Test(moved, the_directory_is_renamed)
{
    char away[80];

    (void)snprintf(away, sizeof away, "%s-away", directory);
    cr_assert_eq(rename(directory, away), 0);
    old_is_out();
    cr_assert_eq(dlt_peer_ask(&fresh, "open %s normal", path).status, DLOCK_CONFIG);
    cr_assert_eq(rename(away, directory), 0);
}

Test(moved, a_link_is_turned_to_another_file)
{
    const char *link = in_directory("link");
    struct dlt_peer linked;
    struct dlt_answer answer;

    cr_assert_eq(symlink(path, link), 0);
    dlt_peer_start(&linked, NULL);
    cr_assert_eq(dlt_peer_ask(&linked, "open %s normal", link).status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&linked, "try other b 60000 1000").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&linked, "try job b 60000 1000").status, DLOCK_BUSY, "one file");
    cr_assert_eq(unlink(link), 0);
    cr_assert_eq(symlink(in_directory("second.db"), link), 0);
    answer = dlt_peer_ask(&fresh, "open %s normal", link);
    cr_assert_eq(answer.status, DLOCK_CONFIG, "to nowhere: %s", answer.message);
    cr_assert_eq(dlt_peer_ask(&fresh, "open %s normal", in_directory("second.db")).status,
                 DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&linked, "try third c 60000 1000").status, DLOCK_CONFIG);
    cr_assert_eq(dlt_peer_ask(&old, "renew a").status, DLOCK_OK);
    dlt_peer_kill(&linked);
}

Test(moved, CONFIG_a_second_name_of_the_file)
{
    struct dlt_answer answer;

    cr_assert_eq(link(path, in_directory("second.db")), 0);
    answer = dlt_peer_ask(&fresh, "open %s normal", in_directory("second.db"));
    cr_assert_eq(answer.status, DLOCK_CONFIG, "%s", answer.message);
    cr_assert_eq(dlt_peer_ask(&old, "renew a").status, DLOCK_OK);
    cr_assert_eq(unlink(in_directory("second.db")), 0);
    cr_assert_eq(dlt_peer_ask(&fresh, "open %s normal", path).status, DLOCK_OK);
}

/* As containers do it: the same file in another directory, and nothing of what is beside it. */
Test(moved, CONFIG_the_file_is_mounted_in_another_directory_while_in_use)
{
    struct dlt_answer answer;
    char elsewhere[96], file[128];

    if (geteuid() != 0)
        cr_skip("mounting takes root");
    (void)snprintf(elsewhere, sizeof elsewhere, "%s-elsewhere", directory);
    (void)snprintf(file, sizeof file, "%s/locks.db", elsewhere);
    cr_assert_eq(mkdir(elsewhere, 0700), 0);
    cr_assert_eq(close(open(file, O_CREAT | O_CLOEXEC, 0600)), 0);
    cr_assert_eq(unshare(CLONE_NEWNS), 0);
    cr_assert_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    cr_assert_eq(mount(path, file, NULL, MS_BIND, NULL), 0);
    dlt_peer_kill(&fresh);
    dlt_peer_start(&fresh, NULL);
    answer = dlt_peer_ask(&fresh, "open %s normal", file);
    cr_assert_eq(answer.status, DLOCK_CONFIG, "%s", answer.message);
    cr_assert_eq(umount2(file, MNT_DETACH), 0);
    dlt_store_remove(elsewhere);
}

/* A daemon that changes its root directory after it opened the store. */
Test(moved, C5_another_root_directory_ends_no_lease)
{
    struct dlt_answer answer;

    if (geteuid() != 0)
        cr_skip("chroot takes root");
    cr_assert_eq(dlt_peer_ask(&old, "chroot %s", directory).status, DLOCK_OK);
    answer = dlt_peer_ask(&old, "renew a");
    cr_assert_eq(answer.status, DLOCK_UNAVAILABLE, "%s", answer.message);
    cr_assert_eq(dlt_peer_ask(&old, "unlock a").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&fresh, "open %s normal", path).status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&fresh, "try job b 60000 1000").status, DLOCK_OK, "it was released");
}

/* A directory of everybody's, and a user who holds `job` and `other` in it. */
static void nobody_holds(struct dlt_peer *nobody)
{
    cr_assert_eq(chmod(directory, 0777), 0);
    dlt_peer_start(nobody, "setpriv --reuid 65534 --regid 65534 --clear-groups");
    cr_assert_eq(dlt_peer_ask(nobody, "open %s normal", in_directory("second.db")).status,
                 DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(nobody, "try job a 60000 1000").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(nobody, "try other b 60000 1000").status, DLOCK_OK);
}

/* C5: the store did not say that the lock is not ours. */
Test(moved, C5_a_path_that_cannot_be_looked_at_ends_no_lease)
{
    struct dlt_answer answer;
    struct dlt_peer nobody;

    if (geteuid() != 0)
        cr_skip("becoming another user takes root");
    nobody_holds(&nobody);
    cr_assert_eq(chmod(directory, 0700), 0);
    answer = dlt_peer_ask(&nobody, "renew a");
    cr_assert_eq(answer.status, DLOCK_UNAVAILABLE, "%s", dlock_status_name((int)answer.status));
    cr_assert_not_null(strstr(answer.message, "Permission denied"), "%s", answer.message);
    answer = dlt_peer_ask(&nobody, "try third c 60000 1000");
    cr_assert_eq(answer.status, DLOCK_UNAVAILABLE, "nobody knows whether it is the file");
    cr_assert_eq(dlt_peer_ask(&nobody, "count *").status, DLOCK_UNAVAILABLE);
    dlt_sleep_ms(1);
    answer = dlt_peer_ask(&nobody, "unlock b");
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    cr_assert_eq(chmod(directory, 0777), 0);
    answer = dlt_peer_ask(&nobody, "renew a");
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    answer = dlt_peer_ask(&nobody, "try other d 60000 1000");
    cr_assert_eq(answer.status, DLOCK_OK, "the name was freed: %s", answer.message);
    dlt_peer_kill(&nobody);
}

/* Another store is moved to the name, while the log of the one before is there. */
Test(moved, replaced_by_another_store)
{
    struct dlt_answer answer;

    cr_assert_eq(dlt_peer_ask(&fresh, "open %s normal", in_directory("second.db")).status,
                 DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&fresh, "try second b 60000 1000").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&fresh, "close").status, DLOCK_OK);
    cr_assert_eq(rename(in_directory("second.db"), path), 0);
    old_is_out();
    answer = dlt_peer_ask(&fresh, "open %s normal", path);
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    cr_assert_eq(dlt_peer_ask(&fresh, "try second c 60000 1000").status, DLOCK_BUSY);
    cr_assert_eq(dlt_peer_ask(&fresh, "try job c 60000 1000").status, DLOCK_OK);
    old_is_out();
    cr_assert_eq(dlt_peer_ask(&old, "close").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&fresh, "renew c").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&old, "open %s normal", path).status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&old, "try job d 60000 1000").status, DLOCK_BUSY);
}

/* Two sessions of one process, one of the file before and one of the file after. */
static void in_one_process(int (*move)(const char *))
{
    static struct dlt_store before, after;
    static struct dlt_request a, b;

    cr_assert_eq(dlt_store_start(&before, path), DLOCK_OK);
    dlt_store_request(&before, &a, "mine", 'a', 60000);
    dlt_store_request(&before, &b, "mine", 'b', 60000);
    cr_assert_eq(dlt_store_try(&before, &a), DLOCK_OK);
    cr_assert_eq(move(path), 0);
    cr_assert_eq(dlt_store_start(&after, path), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&after, &b), DLOCK_OK);
    cr_assert_eq(dlt_store_renew(&before, &a), DLOCK_LOST);
    dlt_store_close(&before);
    cr_assert_eq(dlt_store_renew(&after, &b), DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&fresh, "open %s normal", path).status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&fresh, "try mine c 60000 1000").status, DLOCK_BUSY);
    dlt_store_close(&after);
}

static int move_away(const char *file)
{
    return rename(file, in_directory("away"));
}

static struct dlt_store mover;
static struct dlt_request mine;

static void hold_mine(void)
{
    cr_assert_eq(dlt_store_start(&mover, path), DLOCK_OK);
    dlt_store_request(&mover, &mine, "mine", 'a', 60000);
    cr_assert_eq(dlt_store_try(&mover, &mine), DLOCK_OK);
}

/* Who has the other file open already needs no time to take the name there. */
Test(moved, an_acquire_looks_however_short_ago_another_one_did)
{
    hold_mine();
    cr_assert_eq(dlt_store_unlock(&mover, &mine), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&mover, &mine), DLOCK_OK);
    cr_assert_eq(dlt_store_unlock(&mover, &mine), DLOCK_OK);
    cr_assert_eq(move_away(path), 0);
    cr_assert_eq(dlt_store_try(&mover, &mine), DLOCK_CONFIG);
    dlt_store_close(&mover);
}

/* However short it was held. */
Test(moved, an_unlock_compares_the_file_with_the_path)
{
    hold_mine();
    cr_assert_eq(move_away(path), 0);
    cr_assert_eq(dlt_store_unlock(&mover, &mine), DLOCK_LOST);
    dlt_store_close(&mover);
}

Test(moved, renamed_under_one_process_with_two_sessions)
{
    in_one_process(move_away);
}

Test(moved, removed_under_one_process_with_two_sessions)
{
    in_one_process(unlink);
}

/* -wal and -shm are removed while they are in use. */
static void removed(int wal, int shm)
{
    struct dlt_answer answer;
    struct dlt_peer user;

    dlt_peer_start(&user, NULL);
    cr_assert_eq(dlt_peer_ask(&user, "open %s normal", path).status, DLOCK_OK);
    cr_assert_eq(!wal || unlink(in_directory("locks.db-wal")) == 0, 1);
    cr_assert_eq(!shm || unlink(in_directory("locks.db-shm")) == 0, 1);
    answer = dlt_peer_ask(&fresh, "open %s normal", path);
    cr_assert_eq(answer.status, DLOCK_CONFIG, "%s", answer.message);
    cr_assert_not_null(strstr(answer.message, path), "%s", answer.message);
    cr_assert_eq(dlt_peer_ask(&user, "try job b 60000 1000").status, DLOCK_BUSY,
                 "those who have it open still agree");
    dlt_peer_kill(&user);
    dlt_peer_kill(&old);
    answer = dlt_peer_ask(&fresh, "open %s normal", path);
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    answer = dlt_peer_ask(&fresh, "try new b 60000 1000");
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
}

Test(moved, the_log_is_removed)
{
    removed(1, 0);
}

Test(moved, the_index_is_removed)
{
    removed(0, 1);
}

Test(moved, log_and_index_are_removed)
{
    removed(1, 1);
}
