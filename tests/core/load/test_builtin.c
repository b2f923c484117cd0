/* SPDX-License-Identifier: MIT */
/* Tests: core/load/registry.c core/load/plugin_path.c */
/* Does a program that is linked with libdlock_static.a use all stores without loading a file?
 * Linked with that library alone. dlopen is ours: it counts, and passes on. */
#include "tap.h"

#include <dlock/dlock.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRANGER 65533 /* a uid of nobody */

static int opened; /* calls of dlopen */

void *dlopen(const char *file, int mode)
{
    void *(*next)(const char *, int) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "dlopen");

    opened++;
    memcpy(&next, &symbol, sizeof next);
    return next(file, mode);
}

/* Acquires and releases a lock. */
static enum dlock_status use(const char *uri, const char *dirs, struct dlock_error *err)
{
    const struct dlock_client_options options = {.struct_size = sizeof options,
                                                 .plugin_dirs = dirs};
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;
    enum dlock_status status = dlock_client_open(uri, &options, &client, err);

    if (status == DLOCK_OK)
        status = dlock_new(client, "job", 3, NULL, &lock, err);
    if (status == DLOCK_OK)
        status = dlock_acquire(lock, DLOCK_EXCLUSIVE, 5000, err);
    if (status == DLOCK_OK)
        status = dlock_unlock(lock, err);
    dlock_free(lock);
    dlock_client_close(client);
    return status;
}

static void expect(const char *uri, const char *dirs, enum dlock_status status, const char *words)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status got = use(uri, dirs, &err);

    if (!dlt_ok(got == status && (words == NULL || strstr(err.message, words) != NULL), "%s: %s %s",
                uri, dlock_status_name(status), words != NULL ? words : ""))
        printf("# got %s \"%s\"\n", dlock_status_name(got), err.message);
}

static bool builtin_count(void *arg, const struct dlock_plugin_info *info)
{
    int *count = arg;

    printf("# %s\n", info->path);
    *count += info->err == NULL && strncmp(info->path, "built-in/", 9) == 0 &&
              strcmp(info->path + 9, info->name) == 0;
    return false;
}

static int listed(const char *dirs)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    int count = 0;

    return dlock_plugin_list(dirs, builtin_count, &count, &err) == DLOCK_OK ? count : -1;
}

/* Nothing listens on port 1: the plugin itself says so. */
static void servers_test(void)
{
    static const char *const uris[] = {
        "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
        "redis://127.0.0.1:1",
        "rediss://127.0.0.1:1",
        "mysql://u@127.0.0.1:1/d",
        "postgresql://u@127.0.0.1:1/d",
        "etcd://127.0.0.1:1",
        "zk://127.0.0.1:1",
    };

    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++)
        expect(uris[i], NULL, i == 0 ? DLOCK_NO_QUORUM : DLOCK_UNAVAILABLE, NULL);
}

/* ---- the owner of a plugin's file ---- */

static void copy_make(const char *from, const char *to, uid_t owner)
{
    char bytes[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    ssize_t got = -1;

    while (in >= 0 && (got = read(in, bytes, sizeof bytes)) > 0)
        if (write(out, bytes, (size_t)got) != got)
            abort();
    if (got != 0 || fchmod(out, 0755) != 0 || fchown(out, owner, owner) != 0 || close(in) != 0 ||
        close(out) != 0)
        abort();
}

/* What this program says of the plugin `good` in dir, with another name of itself: the end of its
 * output. */
static void said_by(const char *program, const char *name, const char *dir, char *said, size_t size)
{
    size_t length = 0;
    ssize_t got = 0;
    int ends[2], status = -1;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0 || (pid = fork()) < 0)
        abort();
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)execl(program, name, "--load-from", dir, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    while (length + 1 < size && (got = read(ends[0], said + length, size - 1 - length)) > 0)
        length += (size_t)got;
    said[length] = '\0';
    (void)close(ends[0]);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        (void)snprintf(said, size, "it ended with %d", status);
}

static void owner_expect(const char *program, const char *name, const char *dir, bool is_refused,
                         const char *text)
{
    char said[1024];

    said_by(program, name, dir, said, sizeof said);
    if (!dlt_ok((strstr(said, "its file belongs to uid 65533") != NULL) == is_refused &&
                    (strncmp(said, "loaded", 6) == 0) != is_refused,
                "%s", text))
        printf("# it said: %s\n", said);
}

/* argv[0] is the caller's: it may name a file of the one who made the plugin. */
static void owner_test(void)
{
    char dir[] = "/tmp/dlock-builtin-XXXXXX", plugin[64], bait[64], program[64];

    if (geteuid() != 0) {
        dlt_skip("the owner of the program counts, and not that of argv[0]",
                 "needs root to make files of another user");
        return;
    }
    if (mkdtemp(dir) == NULL || chmod(dir, 0755) != 0)
        abort();
    (void)snprintf(plugin, sizeof plugin, "%s/dlock_good.so", dir);
    (void)snprintf(bait, sizeof bait, "%s/bait", dir);
    (void)snprintf(program, sizeof program, "%s/program", dir);
    copy_make(LOADER_DIR "/dlock_good.so", plugin, STRANGER);
    copy_make("/proc/self/exe", bait, STRANGER);
    copy_make("/proc/self/exe", program, 0);
    owner_expect(program, bait, dir, true, "a plugin's owner that owns argv[0] is not trusted");
    owner_expect(bait, program, dir, false,
                 "an owner of the program is trusted, whatever argv[0] is");
    (void)unlink(program);
    (void)unlink(bait);
    (void)unlink(plugin);
    (void)rmdir(dir);
}

static bool good_is_loaded(void *arg, const struct dlock_plugin_info *info)
{
    (void)arg;
    printf("%s", info->err == NULL ? "loaded" : info->err->message);
    return false;
}

int main(int argc, char **argv)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;

    if (argc == 3 && strcmp(argv[1], "--load-from") == 0)
        return dlock_plugin_list(argv[2], good_is_loaded, NULL, &err) == DLOCK_OK ? 0 : 1;
    (void)unsetenv("DLOCK_PLUGIN_PATH");
    owner_test();
    dlt_ok(listed(NULL) == 8, "all plugins are listed as built-in");
    expect("memory://x", NULL, DLOCK_OK, NULL);
    expect("sqlite://" DATABASE, NULL, DLOCK_OK, NULL);
    servers_test();
    dlt_ok(opened == 0, "nothing was loaded: %d calls of dlopen", opened);
    expect("toy://x", NULL, DLOCK_INVALID, "no directory");

    /* Directories that the caller gave count alone; those of the environment come first. */
    dlt_ok(listed(EMPTY_DIR) == 0, "with plugin_dirs no built-in plugin is listed");
    expect("memory://x", EMPTY_DIR, DLOCK_NO_PLUGIN, EMPTY_DIR);
    (void)setenv("DLOCK_PLUGIN_PATH", LOADER_DIR, 1);
    expect("badmagic://x", NULL, DLOCK_PLUGIN_ABI, "magic");
    expect("memory://x", NULL, DLOCK_OK, NULL);
    dlt_ok(opened > 0, "a plugin that is not built-in is loaded from its file");
    (void)setenv("DLOCK_PLUGIN_PATH", EVIL_DIR, 1);
    if (dlock_client_open("sqlite://" DATABASE, NULL, &client, &err) == DLOCK_OK)
        dlock_client_close(client);
    dlt_ok(getenv("DLT_EVIL_WAS_HERE") != NULL, "its file comes before a plugin that is built-in");
    return dlt_done();
}
