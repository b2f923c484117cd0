/* SPDX-License-Identifier: MIT */
#include "role.h"
#include "kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDLES 8

static struct dlock_client *client;
static struct dlock *handles[HANDLES];

/* The words of a command after the first two. */
struct words {
    const char *verb;
    struct dlock **lock;
    char *rest;
};

static int64_t next_number(struct words *words)
{
    char *end = words->rest;
    int64_t value = strtoll(words->rest, &end, 10);

    DLT_CHECK(end != words->rest, "%s: want a number at \"%s\"", words->verb, words->rest);
    words->rest = end;
    return value;
}

static const char *next_word(struct words *words)
{
    char *word = words->rest + strspn(words->rest, " ");

    words->rest = word + strcspn(word, " ");
    if (*words->rest != '\0')
        *words->rest++ = '\0';
    return word;
}

static const char *state_name(enum dlock_state state)
{
    static const char *const names[] = {"FREE", "HELD", "DOUBTFUL", "LOST"};

    return names[state];
}

static void do_new(struct words *words)
{
    struct dlock_options options = {.struct_size = sizeof options, .op_timeout_ms = 2000};
    const char *name = next_word(words);

    options.ttl_ms = next_number(words);
    options.renew = next_number(words) != 0 ? DLOCK_ON : DLOCK_OFF;
    dlock_free(*words->lock);
    *words->lock = NULL;
    DLT_OK(dlock_new(client, name, strlen(name), &options, words->lock, &dlt_err));
    (void)puts("OK");
}

static void tell_acquired(const struct dlock *lock, enum dlock_status status)
{
    (void)printf("%s %" PRIu64 "\n", dlock_status_name((int)status), dlock_fence(lock));
}

static void do_try(struct words *words)
{
    tell_acquired(*words->lock, dlock_trylock(*words->lock, &dlt_err));
}

static void do_lock(struct words *words)
{
    int64_t timeout_ms = next_number(words);

    tell_acquired(*words->lock, dlock_timedlock(*words->lock, timeout_ms, &dlt_err));
}

static void do_unlock(struct words *words)
{
    (void)puts(dlock_status_name((int)dlock_unlock(*words->lock, &dlt_err)));
}

static void do_renew(struct words *words)
{
    (void)puts(dlock_status_name((int)dlock_renew(*words->lock, 0, &dlt_err)));
}

static void do_state(struct words *words)
{
    (void)printf("%s %" PRId64 "\n", state_name(dlock_state(*words->lock)),
                 dlock_remaining_ms(*words->lock));
}

/*
 * Answers "STATE REMAINING GAP_MS REVIVED": the first reading after the longest gap between two
 * readings, which is where the process was stopped, and how many readings said "valid" after one
 * said "lost". A reading inside of which the gap lies is ambiguous; then the next one counts.
 */
static void do_watch(struct words *words)
{
    int64_t duration_ns = next_number(words) * DLT_NS_PER_MS;
    int64_t start_ns = dlt_now_ns(), last_ns = start_ns, gap_ns = 0;
    int64_t left_ms = 0;
    enum dlock_state after = DLOCK_STATE_FREE;
    unsigned revived = 0;
    int lost = 0;

    while (last_ns - start_ns < duration_ns) {
        int64_t before_ns = dlt_now_ns();
        int64_t remaining_ms = dlock_remaining_ms(*words->lock);
        enum dlock_state state = dlock_state(*words->lock);
        int64_t after_ns = 0;

        if (before_ns - last_ns > gap_ns) {
            gap_ns = before_ns - last_ns;
            after = state;
            left_ms = remaining_ms;
        }
        after_ns = dlt_now_ns();
        last_ns = after_ns - before_ns > 10 * DLT_NS_PER_MS ? before_ns : after_ns;
        revived += lost && (state != DLOCK_STATE_LOST || remaining_ms > 0);
        lost |= state == DLOCK_STATE_LOST;
    }
    (void)printf("%s %" PRId64 " %" PRId64 " %u\n", state_name(after), left_ms,
                 gap_ns / DLT_NS_PER_MS, revived);
}

/* A read-modify-write that loses updates if two are inside; the pause invites them. */
static uint64_t number_add(int file)
{
    char text[32] = "";
    uint64_t number = 0;
    ssize_t len = pread(file, text, sizeof text - 1, 0);

    DLT_CHECK(len >= 0, "cannot read the number");
    number = strtoull(text, NULL, 10) + 1;
    dlt_sleep_until(dlt_now_ns() + 200000);
    len = snprintf(text, sizeof text, "%" PRIu64, number);
    DLT_CHECK(pwrite(file, text, (size_t)len, 0) == len, "cannot write the number");
    return number;
}

static void do_count(struct words *words)
{
    int64_t turns = next_number(words);
    const char *path = next_word(words);
    char fences_path[512];
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    FILE *fences = NULL;

    (void)snprintf(fences_path, sizeof fences_path, "%s.fences", path);
    fences = fopen(fences_path, "ae");
    DLT_CHECK(file >= 0 && fences != NULL, "cannot open %s", path);
    for (int64_t i = 0; i < turns; i++) {
        DLT_OK(dlock_timedlock(*words->lock, 60000, &dlt_err));
        (void)number_add(file);
        (void)fprintf(fences, "%" PRIu64 "\n", dlock_fence(*words->lock));
        DLT_CHECK(fflush(fences) == 0, "cannot write %s", fences_path);
        DLT_OK(dlock_unlock(*words->lock, &dlt_err));
    }
    (void)close(file);
    (void)fclose(fences);
    (void)puts("OK");
}

static const struct {
    const char *verb;
    void (*run)(struct words *words);
} commands[] = {
    {"new", do_new},     {"try", do_try},     {"lock", do_lock},   {"unlock", do_unlock},
    {"renew", do_renew}, {"state", do_state}, {"watch", do_watch}, {"count", do_count},
};

static void command_run(char *line)
{
    struct words words = {.rest = line};
    int64_t handle = -1;

    words.verb = next_word(&words);
    handle = next_number(&words);
    DLT_CHECK(handle >= 0 && handle < HANDLES, "no handle %" PRId64, handle);
    words.lock = &handles[handle];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].verb, words.verb) == 0) {
            commands[i].run(&words);
            return;
        }
    }
    dlt_fail(__FILE__, __LINE__, "no command %s", words.verb);
}

int dlt_role_holder(const char *uri, const char *defaults)
{
    struct dlt_run run = {.uri = uri};
    char line[1024];

    client = dlt_client(&run, defaults);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)puts("ready");
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        command_run(line);
    }
    for (int i = 0; i < HANDLES; i++)
        dlock_free(handles[i]);
    dlock_client_close(client);
    return 0;
}

int dlt_role_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry = NULL;

    DLT_CHECK(dir != NULL, "no /proc/self/fd");
    while ((entry = readdir(dir)) != NULL) {
        char path[300], target[256] = "";
        int fd = (int)strtol(entry->d_name, NULL, 10);

        if (entry->d_name[0] == '.' || fd <= 2 || fd == dirfd(dir))
            continue;
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        (void)!readlink(path, target, sizeof target - 1);
        (void)printf("%d %s\n", fd, target);
    }
    (void)closedir(dir);
    return 0;
}
