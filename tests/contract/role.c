/* SPDX-License-Identifier: MIT */
#include "role.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t dlt_words_number(struct dlt_words *words)
{
    char *end = words->rest;
    int64_t value = strtoll(words->rest, &end, 10);

    DLT_CHECK(end != words->rest, "%s: want a number at \"%s\"", words->verb, words->rest);
    words->rest = end;
    return value;
}

const char *dlt_words_next(struct dlt_words *words)
{
    char *word = words->rest + strspn(words->rest, " ");

    words->rest = word + strcspn(word, " ");
    if (*words->rest != '\0')
        *words->rest++ = '\0';
    return word;
}

static void tell_status(const struct dlt_words *words, enum dlock_status status)
{
    (void)fprintf(words->role->out, "%s\n", dlock_status_name((int)status));
}

static void tell_acquired(const struct dlt_words *words, enum dlock_status status)
{
    (void)fprintf(words->role->out, "%s %" PRIu64 "\n", dlock_status_name((int)status),
                  dlock_fence(*words->lock));
}

static void do_new(struct dlt_words *words)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .op_timeout_ms = dlt_op_timeout_ms(words->role->run)};
    const char *name = dlt_words_next(words);

    options.ttl_ms = dlt_ttl_asked(words->role->client, dlt_words_number(words));
    options.renew = dlt_words_number(words) != 0 ? DLOCK_ON : DLOCK_OFF;
    options.end = strcmp(dlt_words_next(words), "ttl") == 0 ? DLOCK_END_TTL : DLOCK_END_PROCESS;
    dlock_free(*words->lock);
    *words->lock = NULL;
    DLT_OK(dlock_new(words->role->client, name, strlen(name), &options, words->lock, &dlt_err));
    tell_status(words, DLOCK_OK);
}

static void do_semaphore(struct dlt_words *words)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .op_timeout_ms = dlt_op_timeout_ms(words->role->run)};
    const char *name = dlt_words_next(words);

    options.ttl_ms = dlt_ttl_asked(words->role->client, dlt_words_number(words));
    options.limit = dlt_words_number(words);
    DLT_OK(dlock_new(words->role->client, name, strlen(name), &options, words->lock, &dlt_err));
    tell_status(words, DLOCK_OK);
}

static void do_try(struct dlt_words *words)
{
    tell_acquired(words, dlock_trylock(*words->lock, &dlt_err));
}

static void do_tryrd(struct dlt_words *words)
{
    tell_acquired(words, dlock_tryrdlock(*words->lock, &dlt_err));
}

static void do_lock(struct dlt_words *words)
{
    tell_acquired(words, dlock_timedlock(*words->lock, dlt_words_number(words), &dlt_err));
}

static void do_rdlock(struct dlt_words *words)
{
    tell_acquired(words, dlock_timedrdlock(*words->lock, dlt_words_number(words), &dlt_err));
}

static void do_wait(struct dlt_words *words)
{
    enum dlock_mode mode = *dlt_words_next(words) == 's' ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    int64_t timeout_ms = dlt_words_number(words);

    dlt_waiter_enter(words->waiter, *words->lock, mode, timeout_ms, dlt_words_number(words));
    tell_status(words, DLOCK_OK);
}

static void do_waited(struct dlt_words *words)
{
    enum dlock_status status = dlt_waiter_join(words->waiter);

    (void)fprintf(words->role->out, "%s %" PRIu64 " %" PRId64 "\n", dlock_status_name((int)status),
                  words->waiter->fence, words->waiter->done_ns);
}

static void do_cancel(struct dlt_words *words)
{
    dlock_cancel(*words->lock);
    tell_status(words, DLOCK_OK);
}

static void do_unlock(struct dlt_words *words)
{
    tell_status(words, dlock_unlock(*words->lock, &dlt_err));
}

static void do_renew(struct dlt_words *words)
{
    tell_status(words, dlock_renew(*words->lock, 0, &dlt_err));
}

static void do_downgrade(struct dlt_words *words)
{
    tell_status(words, dlock_downgrade(*words->lock, &dlt_err));
}

static void do_token(struct dlt_words *words)
{
    char token[DLOCK_TOKEN_CHARS] = "";

    (void)dlock_token(*words->lock, token, sizeof token);
    (void)fprintf(words->role->out, "OK %s\n", token);
}

static void do_adopt(struct dlt_words *words)
{
    tell_acquired(words, dlock_adopt(*words->lock, dlt_words_next(words), &dlt_err));
}

static void do_state(struct dlt_words *words)
{
    (void)fprintf(words->role->out, "%s %" PRId64 "\n", dlt_state_name(dlock_state(*words->lock)),
                  dlock_remaining_ms(*words->lock));
}

_Noreturn static void do_exit(struct dlt_words *words)
{
    (void)words;
    exit(0);
}

static const struct {
    const char *verb;
    void (*run)(struct dlt_words *words);
} commands[] = {
    {"new", do_new},           {"semaphore", do_semaphore}, {"try", do_try},
    {"tryrd", do_tryrd},       {"lock", do_lock},           {"rdlock", do_rdlock},
    {"wait", do_wait},         {"waited", do_waited},       {"cancel", do_cancel},
    {"unlock", do_unlock},     {"renew", do_renew},         {"downgrade", do_downgrade},
    {"token", do_token},       {"adopt", do_adopt},         {"state", do_state},
    {"watch", dlt_role_watch}, {"count", dlt_role_count},   {"race", dlt_role_race},
    {"exit", do_exit},
};

static void command_run(struct dlt_role *role, char *line)
{
    struct dlt_words words = {.role = role, .rest = line};
    int64_t handle = -1;

    words.verb = dlt_words_next(&words);
    handle = dlt_words_number(&words);
    DLT_CHECK(handle >= 0 && handle < DLT_ROLE_HANDLES, "no handle %" PRId64, handle);
    words.lock = &role->handles[handle];
    words.waiter = &role->waiters[handle];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].verb, words.verb) == 0) {
            commands[i].run(&words);
            return;
        }
    }
    dlt_fail(__FILE__, __LINE__, "no command %s", words.verb);
}

void dlt_role_serve(const struct dlt_run *run, const char *defaults, FILE *in, FILE *out)
{
    struct dlt_role role = {.run = run, .client = dlt_client(run, defaults), .in = in, .out = out};
    char line[1024];

    (void)setvbuf(out, NULL, _IOLBF, 0);
    (void)fputs("ready\n", out);
    while (fgets(line, sizeof line, in) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        command_run(&role, line);
    }
    for (int i = 0; i < DLT_ROLE_HANDLES; i++)
        dlock_free(role.handles[i]);
    dlock_client_close(role.client);
}

int dlt_role_holder(const struct dlt_run *run, const char *defaults)
{
    dlt_role_serve(run, defaults, stdin, stdout);
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
