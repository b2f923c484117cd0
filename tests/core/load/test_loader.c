/* SPDX-License-Identifier: MIT */
/* Tests: core/load/loader.c core/load/abi.c core/load/registry.c core/sys/host.c core/sys/log.c */
/* Is a plugin that is wrong refused with the right status and the true cause? Are good ones, old
 * and new, taken? */
#include "load/registry.h"
#include "sys/error.h"
#include "sys/host.h"
#include "tap.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int starts; /* of plugins' init, as they log it */
static char scratch[64];

static void log_count(void *arg, enum dlock_log_level level, const char *message)
{
    (void)arg;
    (void)level;
    starts += strstr(message, "starts") != NULL;
}

static enum dlock_status find(const char *scheme, const char *dirs, const struct dl_plugin **out,
                              struct dlock_error *err)
{
    struct dl_host host;

    dl_host_init(&host, (struct dl_log){log_count, NULL});
    dl_error_reset(err);
    return dl_registry_find(scheme, dirs, &host.table, out, err);
}

/* The status, and every word, in the text. */
static void expect(const char *scheme, const char *dirs, enum dlock_status status,
                   const char *words, const char *more)
{
    const struct dl_plugin *plugin = NULL;
    struct dlock_error err;
    enum dlock_status got = find(scheme, dirs, &plugin, &err);

    if (!dlt_ok(got == status && err.status == status && strstr(err.message, words) != NULL &&
                    strstr(err.message, more) != NULL,
                "%s: %s, \"%s\"", scheme, dlock_status_name(status), words))
        printf("# got %s \"%s\"\n", dlock_status_name((int)got), err.message);
}

static void expect_loads(const char *scheme)
{
    const struct dl_plugin *plugin = NULL;
    struct dlock_error err;
    enum dlock_status got = find(scheme, LOADER_DIR, &plugin, &err);

    if (!dlt_ok(got == DLOCK_OK && plugin->ops.renew != NULL && plugin->ops.dequeue == NULL &&
                    plugin->ops.struct_size == sizeof plugin->ops && plugin->caps == 0,
                "%s: loads", scheme))
        printf("# got %s \"%s\"\n", dlock_status_name((int)got), err.message);
}

static void file_write(const char *base, const void *bytes, size_t len, mode_t mode)
{
    char path[160];
    int fd = -1;

    (void)snprintf(path, sizeof path, "%s/%s", scratch, base);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, len) != (ssize_t)len || fchmod(fd, mode) != 0 || close(fd) != 0)
        abort();
}

static size_t file_read(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, buf, size);

    if (got <= 0 || close(fd) != 0)
        abort();
    return (size_t)got;
}

/* Files of the directory made for this run. */
static void scratch_make(void)
{
    static const char prose[4096] = "This is a text, and no shared object.\n";
    static char good[4 * 1024 * 1024];
    char link[160];
    size_t len = file_read(LOADER_DIR "/dlock_good.so", good, sizeof good);

    (void)snprintf(scratch, sizeof scratch, "/tmp/dlock-loader-XXXXXX");
    if (mkdtemp(scratch) == NULL)
        abort();
    file_write("dlock_empty.so", good, 0, 0644);
    file_write("dlock_prose.so", prose, sizeof prose, 0644);
    file_write("dlock_truncated.so", good, len / 4, 0644); /* the rest may be symbols alone */
    file_write("dlock_header.so", good, 40, 0644);
    file_write("dlock_groupwritable.so", good, len, 0664);
    file_write("dlock_good.so", good, len, 0644);
    file_write("libdlock_lost.so", good, len, 0644);
    (void)snprintf(link, sizeof link, "%s/dlock_dangling.so", scratch);
    if (symlink("/nonexistent/dlock_dangling.so", link) != 0)
        abort();
    (void)snprintf(link, sizeof link, "%s/dlock_folder.so", scratch);
    if (mkdir(link, 0755) != 0)
        abort();
}

static void scratch_remove(void)
{
    static const char *const names[] = {"empty",         "prose", "truncated", "header",
                                        "groupwritable", "good",  "dangling",  "cut"};
    char path[160];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/dlock_%s.so", scratch, names[i]);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof path, "%s/libdlock_lost.so", scratch);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/dlock_folder.so", scratch);
    (void)rmdir(path);
    (void)rmdir(scratch);
}

static void test_schemes(void)
{
    expect("redis", LOADER_DIR, DLOCK_NO_PLUGIN, "is known, but", "looked in " LOADER_DIR);
    expect("valkeys", LOADER_DIR, DLOCK_NO_PLUGIN, "dlock_redis.so is not installed", LOADER_DIR);
    expect("redlocks", LOADER_DIR, DLOCK_NO_PLUGIN,
           "is not installed; the Debian package libdlock-redis has it", LOADER_DIR);
    expect("zk", LOADER_DIR, DLOCK_NO_PLUGIN,
           "is not installed; the Debian package libdlock-zookeeper has it", LOADER_DIR);
    expect("sqlite", LOADER_DIR, DLOCK_NO_PLUGIN,
           "is not installed; the Debian package libdlock0 has it", LOADER_DIR);
    expect("redis+unix", LOADER_DIR, DLOCK_NO_PLUGIN, "dlock_redis.so is not installed", "");
    expect("mariadb", LOADER_DIR, DLOCK_NO_PLUGIN, "dlock_mysql.so is not installed", "");
    expect("nosuch", LOADER_DIR, DLOCK_INVALID, "unknown scheme 'nosuch'", LOADER_DIR);
    expect("sqlit", LOADER_DIR, DLOCK_INVALID, "did you mean 'sqlite'? see `dlock backends`",
           "unknown scheme 'sqlit'");
    expect("lost", scratch, DLOCK_INVALID, "libdlock_lost.so is there: a plugin has no 'lib'", "");
    expect("good+tcp", LOADER_DIR, DLOCK_INVALID, "unknown scheme 'good+tcp'", "plugin good");
    expect("../../tmp/evil", LOADER_DIR, DLOCK_INVALID, "a scheme is", "");
    expect("Good", LOADER_DIR, DLOCK_INVALID, "a scheme is", "");
    expect("good", "relative/dir", DLOCK_INVALID, "'relative/dir' is not an absolute", "");
    expect("good", LOADER_DIR "::/x", DLOCK_INVALID, "'' is not an absolute", "plugin_dirs");
    expect("redis", "/nonexistent/a:/nonexistent/b", DLOCK_NO_PLUGIN, "/nonexistent/a:/nonex", "");
}

static void test_files(void)
{
    expect("empty", scratch, DLOCK_PLUGIN_LOAD, "file too short", scratch);
    expect("header", scratch, DLOCK_PLUGIN_LOAD, "file too short", "found dlock_header.so");
    expect("prose", scratch, DLOCK_PLUGIN_LOAD, "invalid ELF header", "will not load");
    expect("truncated", scratch, DLOCK_PLUGIN_LOAD, "the file is truncated", "dlock_truncated.so");
    expect("dangling", scratch, DLOCK_PLUGIN_LOAD, "leads nowhere: No such file", scratch);
    expect("folder", scratch, DLOCK_PLUGIN_LOAD, "not a regular file", "dlock_folder.so");
    expect("undefined", LOADER_DIR, DLOCK_PLUGIN_LOAD, "undefined symbol: dlt_nobody_defines_this",
           "found dlock_undefined.so");
    expect("dependency", LOADER_DIR, DLOCK_PLUGIN_LOAD,
           "libdlt_gone.so: cannot open shared object file", "found dlock_dependency.so");
    expect("groupwritable", scratch, DLOCK_PLUGIN_LOAD, "its file may be written by its group",
           "0664");
    if (chmod(scratch, 0777) != 0)
        abort();
    expect("good", scratch, DLOCK_PLUGIN_LOAD, "its directory may be written by anybody", "0777");
    if (chmod(scratch, 0700) != 0)
        abort();
}

/* A copy that ends anywhere is refused, or has lost nothing that is loaded; it is never SIGBUS. */
static void test_truncation(void)
{
    static char good[4 * 1024 * 1024];
    size_t len = file_read(LOADER_DIR "/dlock_good.so", good, sizeof good), refused = 0;
    enum dlock_status status = DLOCK_PLUGIN_LOAD;
    const struct dl_plugin *plugin = NULL;
    struct dlock_error err;

    for (size_t end = 0; end < len && status == DLOCK_PLUGIN_LOAD; end += len / 61) {
        char base[] = "dlock_cut.so";

        file_write(base, good, end, 0644);
        status = find("cut", scratch, &plugin, &err);
        refused += status == DLOCK_PLUGIN_LOAD;
    }
    dlt_ok(refused > 10 && status != DLOCK_OK, "%zu copies cut short are refused", refused);
}

static void test_owner(void)
{
    char path[160];

    if (geteuid() != 0) {
        dlt_skip("a plugin of another user is refused", "needs root to make one");
        return;
    }
    (void)snprintf(path, sizeof path, "%s/dlock_good.so", scratch);
    if (chown(path, 65533, 65533) != 0)
        abort();
    expect("good", scratch, DLOCK_PLUGIN_LOAD, "its file belongs to uid 65533", "uid 0");
    if (chown(path, 0, 0) != 0)
        abort();
}

static void test_descriptors(void)
{
    expect("noentry", LOADER_DIR, DLOCK_PLUGIN_ABI, "expected the symbol dlock_plugin, got none",
           "dlock_noentry.so");
    expect("nodescriptor", LOADER_DIR, DLOCK_PLUGIN_ABI, "expected a descriptor, got NULL",
           "dlock_nodescriptor.so");
    expect("badmagic", LOADER_DIR, DLOCK_PLUGIN_ABI, "expected 0x444c4b50, got 0x12345678", "");
    expect("otherabi", LOADER_DIR, DLOCK_PLUGIN_ABI, "plugin ABI: expected 3, got 99.",
           "built for a newer dlock");
    expect("olderabi", LOADER_DIR, DLOCK_PLUGIN_ABI, "plugin ABI: expected 3, got 2.",
           "built for an older dlock, and has to be built for this one");
    expect("shorttable", LOADER_DIR, DLOCK_PLUGIN_ABI, "ops struct_size: expected 168", "got 160");
    expect("shortplugin", LOADER_DIR, DLOCK_PLUGIN_ABI, "descriptor struct_size: expected 80",
           "got 72");
    expect("missingslot", LOADER_DIR, DLOCK_PLUGIN_ABI, "slot renew: expected a function, got NULL",
           "");
    expect("caponly", LOADER_DIR, DLOCK_PLUGIN_ABI,
           "capability NATIVE_WAIT: expected slot lock with it, got NULL", "");
    expect("slotonly", LOADER_DIR, DLOCK_PLUGIN_ABI,
           "slot dequeue: expected capability QUEUE with it, got none", "");
    expect("nointerrupt", LOADER_DIR, DLOCK_PLUGIN_ABI, "expected slot interrupt with it, got NULL",
           "WATCH");
    expect("foreign", LOADER_DIR, DLOCK_PLUGIN_ABI, "expected 'foreign', got 'stranger'", "");
    expect("clash", LOADER_DIR, DLOCK_PLUGIN_ABI, "option 'ttl': expected a name", "");
}

static void test_init(void)
{
    const struct dl_plugin *first = NULL, *second = NULL;
    struct dlock_error err;

    starts = 0;
    expect("initfails", LOADER_DIR, DLOCK_UNAVAILABLE, "the driver is not at home", "");
    expect("initfails", LOADER_DIR, DLOCK_UNAVAILABLE, "the driver is not at home", "");
    dlt_ok(starts == 1, "a failed init is not called again, and its answer is kept");
    starts = 0;
    dlt_ok(find("good", LOADER_DIR, &first, &err) == DLOCK_OK && starts == 1, "init is called");
    dlt_ok(find("good+unix", LOADER_DIR "/../plugins", &second, &err) == DLOCK_OK && starts == 1 &&
               first == second,
           "by another scheme and another path: the same plugin, no second init");
}

static void *thread_find(void *arg)
{
    const struct dl_plugin *plugin = NULL;
    struct dlock_error err;

    (void)arg;
    return find("newer", LOADER_DIR, &plugin, &err) == DLOCK_OK ? (void *)plugin->name : NULL;
}

/* Runs before anything else has loaded "newer". */
static void test_threads(void)
{
    pthread_t threads[8];
    void *names[8] = {NULL};
    bool same = true;

    starts = 0;
    for (size_t i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, thread_find, NULL) != 0)
            abort();
    for (size_t i = 0; i < 8; i++)
        (void)pthread_join(threads[i], &names[i]);
    for (size_t i = 0; i < 8; i++)
        same = same && names[i] != NULL && names[i] == names[0];
    dlt_ok(same && starts == 1, "eight threads at once: one load, one init");
}

static void test_fork(void)
{
    int wait_status = -1;
    pid_t child = fork();

    if (child == 0) {
        const struct dl_plugin *plugin = NULL;
        struct dlock_error err;

        _exit(find("good", LOADER_DIR, &plugin, &err) == DLOCK_OK ? 0 : 1);
    }
    dlt_ok(child > 0 && waitpid(child, &wait_status, 0) == child && wait_status == 0,
           "a forked child can look plugins up");
}

static bool list_count(void *arg, const struct dlock_plugin_info *info)
{
    int *counts = arg; /* those that load, those that do not, faults */

    if (info->err == NULL)
        counts[0] += info->name != NULL && info->schemes[0] != NULL && info->version != NULL;
    else
        counts[1] += info->name == NULL && info->schemes == NULL && info->err->message[0] != '\0';
    counts[2] += info->path[0] != '/' || info->struct_size != sizeof *info;
    return false;
}

static bool list_first(void *arg, const struct dlock_plugin_info *info)
{
    (void)info;
    ++*(int *)arg;
    return true;
}

static bool list_shadowed(void *arg, const struct dlock_plugin_info *info)
{
    if (info->err != NULL && strstr(info->err->message, "comes first") != NULL &&
        strstr(info->path, "dlock_good.so") != NULL)
        ++*(int *)arg;
    return false;
}

static bool list_library(void *arg, const struct dlock_plugin_info *info)
{
    if (strstr(info->path, "/libdlock_lost.so") != NULL && info->err != NULL &&
        strstr(info->err->message, "a plugin is called dlock_lost.so") != NULL)
        ++*(int *)arg;
    return false;
}

static void test_listing(void)
{
    int counts[3] = {0}, calls = 0;
    char both[200];
    struct dlock_error err;

    dl_error_reset(&err);
    dlt_ok(dl_registry_each(LOADER_DIR, list_count, counts, &err) == DLOCK_OK && counts[0] == 3 &&
               counts[1] == 15 && counts[2] == 0,
           "listing: 3 load, 15 do not, each with a cause");
    printf("# %d load, %d do not\n", counts[0], counts[1]);
    dlt_ok(dl_registry_each(LOADER_DIR, list_first, &calls, &err) == DLOCK_OK && calls == 1,
           "listing: ends when the callback says so");
    calls = 0;
    dlt_ok(dl_registry_each(scratch, list_library, &calls, &err) == DLOCK_OK && calls == 1,
           "listing: a plugin with the name of a library is told as such");
    calls = 0;
    (void)snprintf(both, sizeof both, "%s:%s", LOADER_DIR, scratch);
    dlt_ok(dl_registry_each(both, list_shadowed, &calls, &err) == DLOCK_OK && calls == 1,
           "listing: a file that another directory hides is told as such, and not loaded");
    dlt_ok(dl_registry_each("/nonexistent", list_first, &calls, &err) == DLOCK_OK && calls == 1,
           "listing: a directory that is not there is empty");
    dlt_ok(dl_registry_each("x", list_first, &calls, &err) == DLOCK_INVALID,
           "listing: a relative directory is refused");
}

int main(void)
{
    scratch_make();
    test_threads();
    test_init();
    test_schemes();
    test_files();
    test_owner();
    test_descriptors();
    expect_loads("good");
    expect_loads("newer");
    test_truncation();
    test_fork();
    test_listing();
    scratch_remove();
    return dlt_done();
}
