/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/inspect.c plugins/sqlite/config.c */
/* Does the plugin notice what kind of system it is on: the file system, the time namespace, the
 * disk that it is asked to wait for? And does probe say so? */
#include "errmap.h"
#include "peer_kit.h"
#include "session.h"
#include "store_kit.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char directory[64], path[64];
static struct dlt_store s;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    dlt_store_init(&s, path);
}

static void tear_down(void)
{
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(world, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- a file system in a thread: an empty directory, in which nothing can be made ---- */

struct fuse_question {
    struct fuse_in_header head;
    unsigned char rest[FUSE_MIN_READ_BUFFER * 2];
};

static void fuse_answer(int fd, uint64_t unique, int error, const void *body, size_t size)
{
    struct {
        struct fuse_out_header head;
        unsigned char body[256];
    } answer = {.head = {.unique = unique, .error = error}};

    if (size > 0)
        memcpy(answer.body, body, size);
    answer.head.len = (uint32_t)(sizeof answer.head + size);
    (void)!write(fd, &answer, answer.head.len);
}

static void *fuse_serve(void *arg)
{
    static struct fuse_question q;
    int fd = *(int *)arg;

    while (read(fd, &q, sizeof q) > 0) {
        struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 4096};
        struct fuse_attr_out attr = {.attr = {.ino = 1, .mode = S_IFDIR | 0777, .nlink = 2}};
        struct fuse_statfs_out statfs = {.st = {.bsize = 4096}};
        struct fuse_open_out opened = {0};

        if (q.head.opcode == FUSE_INIT)
            fuse_answer(fd, q.head.unique, 0, &init, sizeof init);
        else if (q.head.opcode == FUSE_GETATTR)
            fuse_answer(fd, q.head.unique, 0, &attr, sizeof attr);
        else if (q.head.opcode == FUSE_STATFS)
            fuse_answer(fd, q.head.unique, 0, &statfs, sizeof statfs);
        else if (q.head.opcode == FUSE_OPENDIR)
            fuse_answer(fd, q.head.unique, 0, &opened, sizeof opened);
        else if (q.head.opcode != FUSE_FORGET)
            fuse_answer(fd, q.head.unique, q.head.opcode == FUSE_LOOKUP ? -ENOENT : -ENOSYS, &q, 0);
    }
    return NULL;
}

Test(world, CONFIG_on_a_file_system_that_other_hosts_may_share)
{
    static int fd;
    pthread_t thread;
    char options[128];
    enum dlock_status status = DLOCK_INTERNAL;

    if (geteuid() != 0)
        cr_skip("mounting takes root");
    fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        cr_skip("no /dev/fuse");
    cr_assert_eq(unshare(CLONE_NEWNS), 0);
    cr_assert_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    (void)snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    cr_assert_eq(mount("test", directory, "fuse", 0, options), 0);
    cr_assert_eq(pthread_create(&thread, NULL, fuse_serve, &fd), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_CONFIG);
    cr_assert_not_null(strstr(s.err.message, path), "%s", s.err.message);
    cr_assert_not_null(strstr(s.err.message, "fuse"), "%s", s.err.message);
    cr_assert_not_null(strstr(s.err.message, "unsafe_network_fs"), "%s", s.err.message);
    s.target.unsafe_network_fs = 1;
    status = dlt_store_open(&s);
    cr_assert_neq(status, DLOCK_OK, "this one cannot hold files");
    cr_assert_null(strstr(s.err.message, "unsafe_network_fs"), "%s", s.err.message);
    cr_assert_eq(umount2(directory, MNT_DETACH), 0);
}

/* ---- time ---- */

Test(world, the_clock_is_boot_time)
{
    struct sqlite_clock clock;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct timespec ts;
    int64_t now = 0, boot = 0;
    unsigned char zero[SQ_BOOT_SIZE] = {0};

    cr_assert_eq(sqlite_clock_init(&clock, &err), DLOCK_OK, "%s", err.message);
    now = sqlite_clock_now(&clock) + clock.offset_ns;
    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    boot = ts.tv_sec * DL_NS_PER_S + ts.tv_nsec;
    cr_assert(boot >= now && boot - now < DL_NS_PER_S);
    cr_assert_neq(memcmp(clock.boot, zero, sizeof zero), 0);
}

/* What the kernel shows then is the offset of children to come. */
Test(world, CONFIG_in_a_process_that_unshared_its_time_for_its_children)
{
    if (geteuid() != 0)
        cr_skip("a time namespace takes root");
    cr_assert_eq(unshare(CLONE_NEWTIME), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert_not_null(strstr(s.err.message, "time namespace"), "%s", s.err.message);
}

/* ---- sync ---- */

/* How many times a session waits for the disk in ten turns. */
static int syncs_of(const char *sync)
{
    struct dlt_peer peer;
    char file[128], wrapper[256], line[1024];
    int opened = 0, syncs = 0;
    FILE *f = NULL;

    (void)snprintf(file, sizeof file, "%s/trace", directory);
    (void)snprintf(wrapper, sizeof wrapper, "strace -f -qq -e trace=fsync,fdatasync,write -o %s",
                   file);
    dlt_peer_start(&peer, wrapper);
    cr_assert_eq(dlt_peer_ask(&peer, "open %s %s", path, sync).status, DLOCK_OK);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(dlt_peer_ask(&peer, "try job a 60000 1000").status, DLOCK_OK);
        cr_assert_eq(dlt_peer_ask(&peer, "unlock a").status, DLOCK_OK);
    }
    dlt_peer_kill(&peer);
    f = fopen(file, "r");
    cr_assert_not_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        opened = opened || strstr(line, "write(1, \"OK") != NULL;
        syncs += opened && strstr(line, "sync(") != NULL;
    }
    (void)fclose(f);
    return syncs;
}

Test(world, sync_full_waits_for_the_disk_in_every_change_and_normal_does_not)
{
    cr_assert_geq(syncs_of("full"), 20);
    cr_assert_lt(syncs_of("normal"), 5);
}

/* ---- result codes ---- */

Test(world, every_result_code_has_a_status_and_none_of_them_is_OK)
{
    for (int rc = SQLITE_ERROR; rc <= SQLITE_WARNING; rc++) {
        cr_assert_neq(sqlite_errmap_status(rc), DLOCK_OK, "%d", rc);
        cr_assert_neq(sqlite_errmap_status(rc), DLOCK_UNKNOWN, "%d", rc);
        cr_assert_neq(sqlite_errmap_commit_status(rc), DLOCK_OK, "%d", rc);
    }
    cr_assert_eq(sqlite_errmap_status(SQLITE_BUSY_RECOVERY), DLOCK_UNAVAILABLE);
    cr_assert_eq(sqlite_errmap_status(SQLITE_IOERR_NOMEM), DLOCK_NOMEM);
    cr_assert_eq(sqlite_errmap_status(SQLITE_IOERR_READ), DLOCK_UNAVAILABLE);
    cr_assert_eq(sqlite_errmap_status(SQLITE_NOTADB), DLOCK_CONFIG);
    cr_assert_eq(sqlite_errmap_status(SQLITE_MISUSE), DLOCK_INTERNAL);
    cr_assert_eq(sqlite_errmap_commit_status(SQLITE_IOERR_WRITE), DLOCK_UNKNOWN);
    cr_assert_eq(sqlite_errmap_commit_status(SQLITE_IOERR_FSYNC), DLOCK_UNKNOWN);
    cr_assert_eq(sqlite_errmap_commit_status(SQLITE_FULL), DLOCK_UNAVAILABLE);
}

/* ---- probe ---- */

struct findings {
    char names[512];
    uint64_t clears;
    int advice;
};

static bool finding(void *arg, const struct dlock_check *check)
{
    struct findings *findings = arg;
    size_t used = strlen(findings->names);

    (void)snprintf(findings->names + used, sizeof findings->names - used, "%s=%s;", check->name,
                   check->found);
    findings->clears |= check->clears;
    findings->advice += check->advice != NULL;
    return false;
}

static struct findings probe(void)
{
    struct findings findings = {0};

    s.err = (struct dlock_error)DLOCK_ERROR_INIT;
    cr_assert_eq(
        s.ops->probe(s.self, dlt_host_in(&s.host, 2000), &s.info, finding, &findings, &s.err),
        DLOCK_OK, "%s", s.err.message);
    return findings;
}

Test(world, probe_tells_what_the_store_gives)
{
    struct findings findings;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    findings = probe();
    cr_assert_not_null(strstr(findings.names, path), "%s", findings.names);
    cr_assert_not_null(strstr(findings.names, "sync=normal;"), "%s", findings.names);
    cr_assert_not_null(strstr(findings.names, "wake file=in use;"), "%s", findings.names);
    cr_assert_not_null(strstr(findings.names, "integrity=ok;"), "%s", findings.names);
    cr_assert_eq(findings.clears, DLOCK_CAP_FENCE_DURABLE);
    cr_assert_eq(findings.advice, 1);
    dlt_store_close(&s);
    s.target.sync = "full";
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    findings = probe();
    cr_assert_not_null(strstr(findings.names, "sync=full;"), "%s", findings.names);
    cr_assert_eq(findings.clears, 0);
    cr_assert_eq(findings.advice, 0);
}

Test(world, probe_tells_whose_store_it_is)
{
    struct findings findings;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_not_null(strstr(probe().names, "users=this store is yours alone"));
    cr_assert_eq(chmod(path, 0666), 0);
    cr_assert_not_null(strstr(probe().names, "users=of all users;"));
    cr_assert_eq(chmod(path, 0660), 0);
    cr_assert_not_null(strstr(probe().names, "users=of its owner and its group;"));
    cr_assert_eq(chmod(directory, 0777), 0);
    findings = probe();
    cr_assert_not_null(strstr(findings.names, "users=this store is yours alone"));
    cr_assert_eq(findings.advice, 2, "sync and the directory");
}

Test(world, probe_finds_damage_and_a_moved_file)
{
    static unsigned char garbage[4096];
    int fd = -1;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    dlt_store_close(&s);
    memset(garbage, 0xa5, sizeof garbage);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    cr_assert_eq(pwrite(fd, garbage, sizeof garbage, 4096), (ssize_t)sizeof garbage);
    cr_assert_eq(probe().advice, 2, "sync and integrity");
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(s.ops->probe(s.self, dlt_host_in(&s.host, 2000), &s.info, NULL, NULL, &s.err),
                 DLOCK_CONFIG);
}

/* sqlite3_threadsafe tells how it was built only. */
Test(world, CONFIG_an_application_that_made_SQLite_single_threaded)
{
    cr_assert_eq(sqlite3_shutdown(), SQLITE_OK);
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_SINGLETHREAD), SQLITE_OK);
    cr_assert_eq(dlt_store_open(&s), DLOCK_CONFIG);
    cr_assert_not_null(strstr(s.err.message, "thread"), "%s", s.err.message);
    cr_assert_neq(access(path, F_OK), 0);
}

Test(world, SQLite_for_several_threads_without_mutexes_of_its_own)
{
    cr_assert_eq(sqlite3_shutdown(), SQLITE_OK);
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_MULTITHREAD), SQLITE_OK);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
}

/* ---- ulimit -f ---- */

static void file_limit(rlim_t most)
{
    struct rlimit limit;

    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = most == RLIM_INFINITY ? limit.rlim_max : most;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void signals_as_before(void)
{
    struct sigaction action;
    sigset_t set;

    cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
    cr_assert_eq(sigismember(&set, SIGXFSZ), 0);
    cr_assert_eq(sigpending(&set), 0);
    cr_assert_eq(sigismember(&set, SIGXFSZ), 0);
    cr_assert_eq(sigaction(SIGXFSZ, NULL, &action), 0);
    cr_assert_eq(action.sa_handler, SIG_DFL);
}

/* C10: it would be the end of the program. */
Test(world, a_limit_on_the_size_of_files_is_an_error_and_no_signal)
{
    enum dlock_status status = DLOCK_INTERNAL;
    struct dlt_request a;

    file_limit(0);
    status = dlt_store_open(&s);
    file_limit(RLIM_INFINITY);
    cr_assert_eq(status, DLOCK_CONFIG, "no wait ends that: %s", dlock_status_name((int)status));
    cr_assert_not_null(strstr(s.err.message, "ulimit -f"), "%s", s.err.message);
    signals_as_before();
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_store_request(&s, &a, "job", 'a', 60000);
    file_limit(0);
    status = dlt_store_try(&s, &a);
    dlt_store_close(&s);
    file_limit(RLIM_INFINITY);
    cr_assert(status == DLOCK_UNAVAILABLE || status == DLOCK_UNKNOWN, "%s",
              dlock_status_name((int)status));
    signals_as_before();
    file_limit(0);
    status = dlt_store_open(&s);
    file_limit(RLIM_INFINITY);
    cr_assert_eq(status, DLOCK_CONFIG, "nor if the store is there: %s",
                 dlock_status_name((int)status));
    cr_assert_not_null(strstr(s.err.message, "ulimit -f"), "%s", s.err.message);
    signals_as_before();
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
}
