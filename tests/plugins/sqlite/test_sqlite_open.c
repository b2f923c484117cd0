/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/setup.c plugins/sqlite/config.c */
/* What can be opened, what is refused and how, and what a new store looks like [OPN-1] [OPN-3]. */
#include "peer_kit.h"
#include "store_kit.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64], path[64];
static struct dlt_store s;
static struct dlt_request a;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    dlt_store_init(&s, path);
}

static void tear_down(void)
{
    dlt_store_close(&s);
    (void)umount2(directory, MNT_DETACH); /* some tests mount it: the one below is left */
    dlt_store_remove(directory);
}

TestSuite(open, .init = set_up, .fini = tear_down, .timeout = 60);

static const char *in_directory(const char *name)
{
    static char buffer[160];

    (void)snprintf(buffer, sizeof buffer, "%s/%s", directory, name);
    return buffer;
}

static void file_write(const char *file, const void *bytes, size_t size)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
    (void)close(fd);
}

/* The size of the file, and its bytes, at most 64 KiB, in a buffer of its own. */
static unsigned char *file_read(const char *file, size_t *size)
{
    unsigned char *bytes = calloc(1, 65536);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, bytes, 65536);

    cr_assert_geq(n, 0);
    (void)close(fd);
    *size = (size_t)n;
    return bytes;
}

static void sql(const char *file, const char *text)
{
    sqlite3 *db = NULL;
    char *why = NULL;

    cr_assert_eq(sqlite3_open(file, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, text, NULL, NULL, &why), SQLITE_OK, "%s", why);
    (void)sqlite3_close(db);
}

static void refused(enum dlock_status status, const char *says)
{
    enum dlock_status got = dlt_store_open(&s);

    cr_assert_eq(got, status, "%s: %s", dlock_status_name((int)got), s.err.message);
    cr_assert_eq(s.err.status, status);
    cr_assert_str_eq(s.err.origin, "sqlite");
    cr_assert_not_null(strstr(s.err.message, says), "%s", s.err.message);
}

static unsigned mode_of(const char *file)
{
    struct stat st;

    cr_assert_eq(stat(file, &st), 0, "%s", file);
    return st.st_mode & 07777u;
}

Test(open, a_new_store_is_for_one_user)
{
    static const char *const files[] = {"locks.db", "locks.db-wal", "locks.db-shm",
                                        "locks.db-wake"};

    (void)umask(0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        cr_assert_eq(mode_of(in_directory(files[i])), 0600u, "%s", files[i]);
}

Test(open, an_empty_file_becomes_a_store_and_keeps_its_mode)
{
    file_write(path, "", 0);
    cr_assert_eq(chmod(path, 0660), 0);
    (void)umask(0077);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(mode_of(path), 0660u);
    cr_assert_eq(mode_of(in_directory("locks.db-wake")), 0660u);
    cr_assert_eq(mode_of(in_directory("locks.db-shm")), 0660u);
}

Test(open, root_leaves_the_files_to_their_owner)
{
    struct stat st;

    if (geteuid() != 0)
        cr_skip("takes root");
    file_write(path, "", 0);
    cr_assert_eq(chown(path, 12345, 12346), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(stat(in_directory("locks.db-wake"), &st), 0);
    cr_assert_eq(st.st_uid, 12345);
    cr_assert_eq(st.st_gid, 12346);
}

Test(open, a_relative_path_starts_where_the_client_was_opened)
{
    s.target.target.path = "locks.db";
    s.target.target.directory = directory;
    cr_assert_eq(chdir("/"), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(mode_of(path), 0600u);
    dlt_store_close(&s);
    s.target.target.directory = NULL;
    refused(DLOCK_CONFIG, "locks.db");
}

Test(open, INVALID_what_is_not_the_path_of_a_file)
{
    s.target.target.path = "";
    refused(DLOCK_INVALID, "path of a file");
    s.target.target.path = "/tmp/";
    refused(DLOCK_INVALID, "path of a file");
    s.target.target.path = path;
    s.target.hosts[0] = "db.example.org";
    refused(DLOCK_INVALID, "no host");
}

Test(open, CONFIG_a_directory)
{
    s.target.target.path = directory;
    refused(DLOCK_CONFIG, directory);
}

Test(open, CONFIG_no_such_parent)
{
    char missing[160];

    (void)snprintf(missing, sizeof missing, "%s/missing/locks.db", directory);
    s.target.target.path = missing;
    refused(DLOCK_CONFIG, "/missing");
    (void)snprintf(missing, sizeof missing, "%s/locks.db", path);
    file_write(path, "x", 1);
    s.target.target.path = missing;
    refused(DLOCK_CONFIG, path);
}

Test(open, CONFIG_a_path_too_long)
{
    char longest[1024];

    (void)snprintf(longest, sizeof longest, "%s/%0254d", directory, 7);
    s.target.target.path = longest;
    refused(DLOCK_CONFIG, directory);
    cr_assert_neq(access(longest, F_OK), 0, "nothing is made on the way");
    (void)snprintf(longest, sizeof longest, "%s/%0600d", directory, 7);
    refused(DLOCK_CONFIG, directory);
}

Test(open, CONFIG_a_device)
{
    s.target.target.path = "/dev/null";
    refused(DLOCK_CONFIG, "/dev/null");
}

Test(open, CONFIG_garbage_is_not_touched)
{
    static const char text[] = "These are the accounts of the year, and no database at all.\n";
    size_t size = 0;
    unsigned char *bytes = NULL;

    file_write(path, text, sizeof text);
    refused(DLOCK_CONFIG, path);
    bytes = file_read(path, &size);
    cr_assert_eq(size, sizeof text);
    cr_assert_eq(memcmp(bytes, text, size), 0);
    free(bytes);
}

static void foreign(const char *text)
{
    size_t before_size = 0, after_size = 0;
    unsigned char *before = NULL, *after = NULL;

    sql(path, text);
    before = file_read(path, &before_size);
    refused(DLOCK_CONFIG, path);
    after = file_read(path, &after_size);
    cr_assert_eq(before_size, after_size);
    cr_assert_eq(memcmp(before, after, before_size), 0);
    free(before);
    free(after);
}

Test(open, CONFIG_the_database_of_another_program)
{
    foreign("CREATE TABLE names (a)");
}

Test(open, CONFIG_the_wal_database_of_another_program)
{
    foreign("PRAGMA journal_mode = WAL; CREATE TABLE names (a); PRAGMA application_id = 7");
    cr_assert_neq(access(in_directory("locks.db-wal"), F_OK), 0, "nothing is left beside it");
}

Test(open, CONFIG_a_layout_of_the_future)
{
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    dlt_store_close(&s);
    foreign("PRAGMA user_version = 99");
    cr_assert_not_null(strstr(s.err.message, "99"), "%s", s.err.message);
}

Test(open, CONFIG_a_store_without_its_table)
{
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    dlt_store_close(&s);
    sql(path, "DROP TABLE locks");
    refused(DLOCK_CONFIG, path);
}

Test(open, CONFIG_a_store_taken_out_of_WAL_mode)
{
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    dlt_store_close(&s);
    sql(path, "PRAGMA journal_mode = DELETE");
    refused(DLOCK_CONFIG, "not in WAL mode");
}

/* A session of nobody's. */
static struct dlt_answer as_nobody(const char *file)
{
    struct dlt_peer peer;
    struct dlt_answer answer;

    dlt_peer_start(&peer, "setpriv --reuid 65534 --regid 65534 --clear-groups");
    answer = dlt_peer_ask(&peer, "open %s normal", file);
    dlt_peer_kill(&peer);
    cr_assert_not_null(strstr(answer.message, directory), "%s", answer.message);
    return answer;
}

Test(open, AUTH_permissions)
{
    if (geteuid() != 0)
        cr_skip("becoming another user takes root");
    cr_assert_eq(chmod(directory, 0755), 0);
    cr_assert_eq(as_nobody(path).status, DLOCK_AUTH, "may not make it");
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(as_nobody(path).status, DLOCK_AUTH, "may not read it");
    cr_assert_eq(chmod(path, 0644), 0);
    cr_assert_eq(as_nobody(path).status, DLOCK_CONFIG, "may only read it");
    dlt_store_close(&s);
    cr_assert_eq(as_nobody(path).status, DLOCK_CONFIG, "may only read it");
    cr_assert_eq(chmod(path, 0600), 0);
    cr_assert_eq(as_nobody(path).status, DLOCK_AUTH, "may not read it, and nobody has it open");
    cr_assert_eq(chmod(directory, 0700), 0);
    cr_assert_eq(as_nobody(path).status, DLOCK_AUTH, "may not enter the directory");
}

/* He may write the file, and not make what SQLite needs beside it. */
Test(open, AUTH_a_file_that_may_be_written_in_a_directory_that_may_not)
{
    struct dlt_answer answer;

    if (geteuid() != 0)
        cr_skip("becoming another user takes root");
    cr_assert_eq(chmod(directory, 0755), 0);
    file_write(path, "", 0);
    cr_assert_eq(chmod(path, 0666), 0);
    answer = as_nobody(path);
    cr_assert_eq(answer.status, DLOCK_AUTH, "empty: %s", answer.message);
    cr_assert_not_null(strstr(answer.message, "directory"), "%s", answer.message);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    dlt_store_close(&s);
    answer = as_nobody(path);
    cr_assert_eq(answer.status, DLOCK_AUTH, "a store: %s", answer.message);
    cr_assert_not_null(strstr(answer.message, "directory"), "%s", answer.message);
}

/* ---- symbolic links, as fs.protected_symlinks has it, which need not be on ---- */

static void protected_links(const char *what, uid_t owner, enum dlock_status expected)
{
    char link[96], file[128];
    enum dlock_status got = DLOCK_INTERNAL;

    (void)snprintf(link, sizeof link, "%s/link", directory);
    (void)snprintf(file, sizeof file, "%s%s", link, what);
    cr_assert_eq(symlink(what[0] == '/' ? directory : path, link), 0);
    cr_assert_eq(lchown(link, owner, owner), 0);
    s.target.target.path = file;
    got = dlt_store_open(&s);
    cr_assert_eq(got, expected, "%s: %s", dlock_status_name((int)got), s.err.message);
    if (expected != DLOCK_OK)
        cr_assert_not_null(strstr(s.err.message, link), "%s", s.err.message);
    dlt_store_close(&s);
    cr_assert_eq(unlink(link), 0);
}

Test(open, AUTH_a_link_of_another_user_in_a_directory_of_everybodys)
{
    if (geteuid() != 0)
        cr_skip("giving links away takes root");
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    dlt_store_close(&s);
    cr_assert_eq(chmod(directory, 01777), 0);
    protected_links("", 65534, DLOCK_AUTH);
    protected_links("/locks.db", 65534, DLOCK_AUTH);
    protected_links("/new.db", 65534, DLOCK_AUTH);
    cr_assert_neq(access(in_directory("new.db"), F_OK), 0);
    protected_links("", 0, DLOCK_OK);
    protected_links("/locks.db", 0, DLOCK_OK);
    cr_assert_eq(chmod(directory, 0777), 0);
    protected_links("", 65534, DLOCK_OK);
}

/* In a directory that root made for that user: one in /tmp would be refused itself. */
Test(open, a_link_and_a_store_of_the_owner_of_a_directory_of_everybodys)
{
    char outer[64];

    if (geteuid() != 0)
        cr_skip("giving links away takes root");
    memcpy(outer, directory, sizeof outer);
    (void)snprintf(directory, sizeof directory, "%.40s/sub", outer);
    (void)snprintf(path, sizeof path, "%.44s/locks.db", directory);
    cr_assert_eq(mkdir(directory, 0700), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    dlt_store_close(&s);
    cr_assert_eq(chown(directory, 65534, 65534), 0);
    cr_assert_eq(chmod(directory, 01777), 0);
    cr_assert_eq(chown(path, 65534, 65534), 0);
    protected_links("", 65534, DLOCK_OK);
    protected_links("/locks.db", 65534, DLOCK_OK);
    dlt_store_remove(directory);
    memcpy(directory, outer, sizeof directory);
}

Test(open, a_path_with_links_dots_and_slashes)
{
    char file[160];

    cr_assert_eq(mkdir(in_directory("sub"), 0700), 0);
    cr_assert_eq(symlink("../sub/./", in_directory("sub/self")), 0);
    cr_assert_eq(symlink("sub//self", in_directory("link")), 0);
    (void)snprintf(file, sizeof file, "%s/./link//../sub/self/x.db", directory);
    s.target.target.path = file;
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(mode_of(in_directory("sub/x.db")), 0600u);
    dlt_store_close(&s);
    cr_assert_eq(unlink(in_directory("link")), 0);
    cr_assert_eq(symlink("link", in_directory("link")), 0);
    s.target.target.path = in_directory("link");
    refused(DLOCK_CONFIG, "link");
    dlt_store_remove(in_directory("sub"));
}

/* ---- shared among users of a group ---- */

Test(open, users_of_one_group_share_a_store_and_its_wake_file)
{
    struct dlt_peer peers[2];
    struct dlt_answer answer;

    if (geteuid() != 0)
        cr_skip("becoming other users takes root");
    cr_assert_eq(chown(directory, 0, 65510), 0);
    cr_assert_eq(chmod(directory, 02770), 0);
    file_write(path, "", 0);
    cr_assert_eq(chown(path, 0, 65510), 0);
    cr_assert_eq(chmod(path, 0660), 0);
    dlt_peer_start(&peers[0], "setpriv --reuid 65501 --regid 65501 --groups 65510");
    dlt_peer_start(&peers[1], "setpriv --reuid 65502 --regid 65502 --groups 65510");
    for (int i = 0; i < 2; i++) {
        answer = dlt_peer_ask(&peers[i], "open %s normal", path);
        cr_assert_eq(answer.status, DLOCK_OK, "%d: %s", i, answer.message);
        answer = dlt_peer_ask(&peers[i], "wake_file");
        cr_assert_eq(answer.status, DLOCK_OK, "%d: %s", i, answer.message);
    }
    cr_assert_eq(mode_of(in_directory("locks.db-wake")), 0660u);
    cr_assert_eq(dlt_peer_ask(&peers[0], "try job a 60000 1000").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&peers[1], "try job b 60000 1000 e").status, DLOCK_BUSY);
    cr_assert_eq(dlt_peer_ask(&peers[0], "unlock a").status, DLOCK_OK);
    answer = dlt_peer_ask(&peers[1], "watch b 20000");
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    dlt_peer_kill(&peers[0]);
    dlt_peer_kill(&peers[1]);
}

/* Who may put files of that group there need not be of the group. */
Test(open, a_wake_file_of_the_group_in_a_directory_of_everybodys_is_not_trusted)
{
    struct dlt_peer peer;
    struct dlt_answer answer;

    if (geteuid() != 0)
        cr_skip("giving files away takes root");
    file_write(path, "", 0);
    cr_assert_eq(chown(path, 0, 65510), 0);
    cr_assert_eq(chmod(path, 0660), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(chown(in_directory("locks.db-wake"), 65501, 65510), 0);
    cr_assert_eq(chmod(directory, 02777), 0);
    dlt_peer_start(&peer, NULL);
    cr_assert_eq(dlt_peer_ask(&peer, "open %s normal", path).status, DLOCK_OK);
    answer = dlt_peer_ask(&peer, "wake_file");
    cr_assert_eq(answer.status, DLOCK_UNAVAILABLE);
    cr_assert_not_null(strstr(answer.message, "trust"), "%s", answer.message);
    cr_assert_eq(chmod(directory, 02770), 0);
    cr_assert_eq(dlt_peer_ask(&peer, "open %s normal", path).status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&peer, "wake_file").status, DLOCK_OK);
    dlt_peer_kill(&peer);
}

/* Mounts that go away with this process. */
static void mount_here(const char *type, unsigned long flags, const char *data)
{
    cr_assert_eq(unshare(CLONE_NEWNS), 0);
    cr_assert_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    cr_assert_eq(mount("none", directory, type, flags, data), 0);
}

Test(open, CONFIG_a_read_only_file_system)
{
    if (geteuid() != 0)
        cr_skip("mounting takes root");
    mount_here("tmpfs", 0, "size=1m");
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    dlt_store_close(&s);
    cr_assert_eq(mount("none", directory, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    refused(DLOCK_CONFIG, path);
    s.target.target.path = in_directory("new.db");
    refused(DLOCK_CONFIG, directory);
}

Test(open, OPN_4_leaves_no_log_behind)
{
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    dlt_store_request(&s, &a, "job", 'a', 60000);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    dlt_store_close(&s);
    cr_assert_neq(access(in_directory("locks.db-wal"), F_OK), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_OK, "the lease outlives the session");
}
