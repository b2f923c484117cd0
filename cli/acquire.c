/* SPDX-License-Identifier: MIT */
#include "acquire.h"
#include "child.h"
#include "client.h"
#include "environment.h"
#include "exitcode.h"
#include "info.h"
#include "lib/time.h"
#include "output.h"
#include "process.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int64_t acquire_now_ms(void)
{
    return dl_time_now_ns(CLOCK_BOOTTIME) / DL_NS_PER_MS;
}

/* As the functions of dlock.h of these names. */
static enum dlock_status held_acquire(const struct held *held, enum dlock_mode mode,
                                      int64_t timeout_ms, struct dlock_error *err)
{
    return held->set != NULL ? dlock_set_acquire(held->set, mode, timeout_ms, err)
                             : dlock_acquire(held->lock, mode, timeout_ms, err);
}

enum dlock_status held_unlock(const struct held *held, struct dlock_error *err)
{
    return held->set != NULL ? dlock_set_unlock(held->set, err) : dlock_unlock(held->lock, err);
}

enum dlock_state held_state(const struct held *held)
{
    return held->set != NULL ? dlock_set_state(held->set) : dlock_state(held->lock);
}

int64_t held_remaining_ms(const struct held *held)
{
    return held->set != NULL ? dlock_set_remaining_ms(held->set) : dlock_remaining_ms(held->lock);
}

static void held_cancel(const struct held *held)
{
    if (held->set != NULL)
        dlock_set_cancel(held->set);
    else
        dlock_cancel(held->lock);
}

const struct dlock_handle *held_member(const struct held *held, size_t index)
{
    if (held->set != NULL)
        return dlock_set_member(held->set, index);
    return index == 0 ? held->lock : NULL;
}

bool held_has(const struct held *held, const struct dlock_handle *lock)
{
    const struct dlock_handle *member;

    for (size_t i = 0; (member = held_member(held, i)) != NULL; i++)
        if (member == lock)
            return true;
    return false;
}

/* Frees what was made. */
static void held_free(struct held *held)
{
    dlock_free(held->lock);
    dlock_set_free(held->set);
    *held = (struct held){NULL, NULL};
}

/* Nobody holds the name: the one of which the time ends first. */
static void kept_describe(const struct info_list *list, char out[HOLDER_SIZE])
{
    const struct info *first = &list->items[0];
    char ran[24];
    char until[24];

    for (size_t i = 1; i < list->count; i++)
        if (list->items[i].remaining_ms < first->remaining_ms)
            first = &list->items[i];
    info_time(ran, -first->held_ms);
    info_time(until, first->remaining_ms);
    (void)snprintf(out, HOLDER_SIZE, "ran already at %s on %.300s, kept until %s", ran,
                   cli_output_printable(first->label, strlen(first->label)), until);
}

/* Somebody holds it. */
static void list_describe(const struct info_list *list, char out[HOLDER_SIZE])
{
    const struct info *first = &list->items[0];
    const char *label = first->label[0] != '\0' ? first->label : first->owner;
    char held[24];
    char left[24];
    char others[32] = "";
    bool ends;

    while (first->kept) {
        first++;
        label = first->label[0] != '\0' ? first->label : first->owner;
    }
    ends = first->remaining_ms >= 0; /* the store knows when */
    info_duration(held, first->held_ms);
    info_duration(left, first->remaining_ms);
    if (info_list_held(list) > 1)
        (void)snprintf(others, sizeof others, " and %zu more", info_list_held(list) - 1);
    (void)snprintf(out, HOLDER_SIZE, "held by %.300s%s%s%s%s%s%s",
                   cli_output_printable(label, strlen(label)), others,
                   first->held_ms >= 0 ? " for " : "", first->held_ms >= 0 ? held : "",
                   ends ? ", " : "", ends ? left : "", ends ? " left" : "");
}

/*
 * "held by web1:4242@9f3c11d0:nightly for 12.0s, 18.0s left", or "ran already at 2026-11-24
 * 17:05:30 UTC on web1:4242@9f3c11d0, kept until 2026-11-24 18:00:00 UTC", by one
 * dlock_client_inspect. False, and an empty text: nobody holds the name now, or the store does not
 * know.
 */
static bool holder_describe(struct dlock_client *client, const struct cli_name *name,
                            char out[HOLDER_SIZE])
{
    struct info_list list = {0};
    enum dlock_status status =
        dlock_client_inspect(client, name->bytes, name->len, info_list_add, &list, NULL);

    out[0] = '\0';
    if (status == DLOCK_OK && !list.no_memory && info_list_is_kept(&list))
        kept_describe(&list, out);
    else if (status == DLOCK_OK && !list.no_memory && list.count > 0)
        list_describe(&list, out);
    info_list_fini(&list);
    return out[0] != '\0';
}

/* A wait that lasts longer is reported. */
#define WAIT_REPORTED_MS 250

/* A second signal after this time ends the process at once. An earlier one is the first again, sent
 * to the process and to its group. */
#define IMPATIENT_MS 500

struct owner_search {
    const char *token;
    enum dlock_mode mode;
    uint64_t fence;
    bool found;
    bool is_permit;
    bool is_parent; /* the holder will end this process if it loses the lock */
};

static bool owner_compare(void *arg, const struct dlock_holder *info)
{
    struct owner_search *search = arg;
    struct process process;

    if (info->owner == NULL || info->kept || strcmp(info->owner, search->token) != 0)
        return 0;
    process_read(&process, info->label, -1); /* the time is by the clock of the store */
    if (process.state == PROCESS_ENDED)      /* its lease ends, too */
        return 1;
    search->found = true;
    search->mode = info->mode;
    search->fence = info->fence;
    search->is_permit = info->limit > 0;
    search->is_parent = process_is_parent(&process);
    return 1;
}

/* True: the run that was found holds for this one, too. */
static bool join_add(struct acquire *acquire, const struct owner_search *search)
{
    struct acquire_joined *join = &acquire->joins[acquire->joined];

    if (!acquire->join || !search->found || !search->is_parent || search->is_permit ||
        (search->mode == DLOCK_SHARED && !acquire->shared))
        return false;
    (void)snprintf(join->token, sizeof join->token, "%s", search->token);
    join->fence = search->fence;
    acquire->joined++;
    return true;
}

/*
 * INVALID, and nested: the enclosing runs hold the name, or all permits, and wait for us, so that
 * the wait would never end (two readers do not exclude each other). OK: they do not. Others: not
 * known.
 */
static enum dlock_status ancestors_check(struct acquire *acquire, const struct cli_name *name)
{
    char token[DLOCK_TOKEN_CHARS];
    int64_t free_count = acquire->options.limit > 1 ? acquire->options.limit : 1;

    for (unsigned i = 0; environment_holder(name->bytes, name->len, i, token); i++) {
        struct owner_search search = {.token = token};
        enum dlock_status status = dlock_client_inspect(acquire->client, name->bytes, name->len,
                                                        owner_compare, &search, &acquire->err);

        if (status == DLOCK_UNSUPPORTED && !acquire->join) /* the store cannot be inspected */
            continue;
        if (status != DLOCK_OK)
            return status;
        if (join_add(acquire, &search))
            return DLOCK_OK;
        if (search.found && !(acquire->shared && search.mode == DLOCK_SHARED))
            free_count--;
        acquire->nested = free_count == 0;
        if (acquire->nested) {
            acquire->name = name;
            return DLOCK_INVALID;
        }
    }
    return DLOCK_OK;
}

/* ancestors_check of all names. */
static enum dlock_status ancestors_check_all(struct acquire *acquire)
{
    const struct cli_name *names = acquire->name;
    size_t count = acquire->name_count > 1 ? acquire->name_count : 1;
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; status == DLOCK_OK && i < count; i++) {
        size_t before = acquire->joined;

        status = ancestors_check(acquire, &names[i]);
        if (status == DLOCK_OK && acquire->joined > 0 && acquire->joined <= i) {
            acquire->name = &names[before > 0 ? 0 : i]; /* held; and another one is not */
            acquire->nested = true;
            return DLOCK_INVALID;
        }
    }
    return status;
}

static enum dlock_status held_new(struct acquire *acquire)
{
    const struct cli_name *name = acquire->name;
    const char *names[DLOCK_SET_MAX];
    size_t lens[DLOCK_SET_MAX];

    if (acquire->name_count <= 1)
        return dlock_new(acquire->client, name->bytes, name->len, &acquire->options,
                         &acquire->held.lock, &acquire->err);
    for (size_t i = 0; i < acquire->name_count; i++) {
        names[i] = name[i].bytes;
        lens[i] = name[i].len;
    }
    return dlock_set_new(acquire->client, names, lens, acquire->name_count, &acquire->options,
                         &acquire->held.set, &acquire->err);
}

/* A URI with renew=off, or a store whose leases live in sessions: without the timer. */
static enum dlock_status held_make(struct acquire *acquire)
{
    enum dlock_status status = held_new(acquire);

    if (acquire->options.on_expiry == DLOCK_EXPIRE_KILL &&
        (status == DLOCK_CONFIG || status == DLOCK_UNSUPPORTED)) {
        acquire->options.on_expiry = DLOCK_EXPIRE_REPORT;
        status = held_new(acquire);
    }
    return status;
}

static enum dlock_status held_wait(struct acquire *acquire)
{
    /* Stored before `canceled` is read: this thread or the canceling one sees the other's store. */
    atomic_store(&acquire->waiting, true);
    if (atomic_load(&acquire->canceled))
        return DLOCK_CANCELED;
    return held_acquire(&acquire->held, acquire->shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
                        acquire->timeout_ms, &acquire->err);
}

/* The first connection says whether leases live in sessions: then the timer is not asked for. */
static enum dlock_status held_take(struct acquire *acquire)
{
    const uint64_t sessions = DLOCK_CAP_SESSION | DLOCK_CAP_TETHERED;
    enum dlock_status status = held_wait(acquire);

    if (status != DLOCK_UNSUPPORTED || acquire->options.on_expiry != DLOCK_EXPIRE_KILL ||
        (dlock_client_caps(acquire->client) & sessions) == 0)
        return status;
    (void)pthread_mutex_lock(&acquire->held_mutex);
    atomic_store(&acquire->waiting, false);
    (void)pthread_mutex_unlock(&acquire->held_mutex);
    held_free(&acquire->held);
    acquire->options.on_expiry = DLOCK_EXPIRE_REPORT;
    status = held_new(acquire);
    return status == DLOCK_OK ? held_wait(acquire) : status;
}

/* The first name that another owner holds. */
static void conflict_describe(struct acquire *acquire)
{
    const struct cli_name *name = acquire->name;

    for (size_t i = 0; i == 0 || i < acquire->name_count; i++) {
        if (holder_describe(acquire->client, &name[i], acquire->holder)) {
            acquire->name = &name[i];
            return;
        }
    }
}

static enum dlock_status acquire_steps(struct acquire *acquire)
{
    enum dlock_status status =
        cli_client_open(acquire->cli, CLI_TO_LOCK, &acquire->client, &acquire->err);

    if (status != DLOCK_OK)
        return status;
    if ((dlock_client_caps(acquire->client) & DLOCK_CAP_PRIVATE) != 0) {
        (void)snprintf(acquire->err.message, sizeof acquire->err.message,
                       "%s is inside this process: it would exclude no other process",
                       dlock_client_uri(acquire->client));
        return DLOCK_CONFIG;
    }
    status = held_make(acquire);
    if (status == DLOCK_OK)
        status = ancestors_check_all(acquire);
    if (status != DLOCK_OK || acquire->joined > 0)
        return status;
    status = held_take(acquire);
    if (status == DLOCK_OK && acquire->options.keep_ms > 0) /* only a command that ran keeps */
        status = dlock_keep_name(acquire->held.lock, 0, &acquire->err);
    if (status == DLOCK_BUSY || status == DLOCK_TIMEOUT)
        conflict_describe(acquire);
    return status;
}

static void *acquire_main(void *arg)
{
    struct acquire *acquire = arg;
    uint64_t one = 1;

    acquire->status = acquire_steps(acquire);
    while (write(acquire->done, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    return NULL;
}

static void *asker_main(void *arg)
{
    struct acquire *acquire = arg;
    char holder[HOLDER_SIZE];

    if (holder_describe(acquire->client, acquire->name, holder))
        cli_output_say(acquire->cli, "%s: %s; waiting",
                       cli_output_printable(acquire->name->bytes, acquire->name->len), holder);
    atomic_store(&acquire->asker_done, true);
    return NULL;
}

/* In a thread of its own: the store may be slow, and signals and deadlines must not wait. */
static void asker_start(struct acquire *acquire)
{
    if (!acquire->asked && atomic_load(&acquire->waiting))
        acquire->asked = pthread_create(&acquire->asker, NULL, asker_main, acquire) == 0;
}

static void acquire_cancel(struct acquire *acquire)
{
    atomic_store(&acquire->canceled, true); /* stored before `waiting` is read, see held_wait */
    (void)pthread_mutex_lock(&acquire->held_mutex);
    if (atomic_load(&acquire->waiting))
        held_cancel(&acquire->held);
    (void)pthread_mutex_unlock(&acquire->held_mutex);
}

/* Waits for the thread. Returns the first signal that ends programs, or 0. */
static int acquire_wait(struct acquire *acquire, const struct signals *signals)
{
    struct pollfd fds[3] = {{.fd = acquire->done, .events = POLLIN},
                            {.fd = signals->fd, .events = POLLIN},
                            {.fd = acquire->parent, .events = POLLIN}};
    bool talks = acquire->cli->verbose > 0 && acquire->timeout_ms != 0;
    int first = 0;
    int64_t first_ms = 0;

    descendants_reap(0); /* those that ended before this program was executed */
    for (;;) {
        int quiet_ms = talks && !acquire->asked ? WAIT_REPORTED_MS : -1;
        int n = poll(fds, 3, first != 0 ? -1 : quiet_ms);

        if (n < 0 && errno != EINTR)
            return first;
        if (n == 0 && first == 0)
            asker_start(acquire);
        while ((n = signals_next(signals)) != 0) {
            if (n == SIGCHLD) {
                descendants_reap(0);
                continue;
            }
            /* If the lock is held already, it ends with its lease. */
            if (first != 0 && acquire_now_ms() - first_ms > IMPATIENT_MS)
                _exit(CLI_EXIT_SIGNAL + n);
            if (first == 0)
                first_ms = acquire_now_ms();
            first = first == 0 ? n : first;
        }
        if (fds[0].revents != 0)
            return first;
        if (fds[2].revents != 0) {
            fds[2].fd = -1;
            first = first == 0 ? SIGTERM : first;
        }
        if (first != 0)
            acquire_cancel(acquire);
    }
}

int acquire_lock(struct acquire *acquire, const struct signals *signals)
{
    pthread_t thread;
    int caught;

    acquire->status = DLOCK_NOMEM;
    acquire->err = (struct dlock_error)DLOCK_ERROR_INIT;
    acquire->err.status = DLOCK_NOMEM;
    acquire->err.nodes = acquire->nodes;
    acquire->err.node_room = DLOCK_NODE_ERRORS_MAX;
    atomic_init(&acquire->canceled, false);
    atomic_store(&acquire->waiting, false);
    acquire->cli->untimed = !acquire->timed && !acquire->nowait;
    acquire->done = eventfd(0, EFD_CLOEXEC);
    if (acquire->done < 0)
        return 0;
    if (pthread_create(&thread, NULL, acquire_main, acquire) == 0) {
        caught = acquire_wait(acquire, signals);
        (void)pthread_join(thread, NULL);
    } else {
        caught = 0;
    }
    (void)close(acquire->done);
    return caught;
}

void acquire_fini(struct acquire *acquire)
{
    held_free(&acquire->held);
    if (!acquire->asked || acquire->status == DLOCK_OK || atomic_load(&acquire->asker_done)) {
        if (acquire->asked)
            (void)pthread_join(acquire->asker, NULL);
        dlock_client_close(acquire->client);
    }
    acquire->client = NULL;
}

void acquire_reset(struct acquire *acquire, const struct cli_name *names)
{
    acquire->name = names;
    acquire->nested = false;
    acquire->joined = 0;
    acquire->holder[0] = '\0';
    acquire->asked = false;
    atomic_store(&acquire->asker_done, false);
}

static int json_line(const struct acquire *acquire, const char *token, uint64_t fence)
{
    json_t *root = cli_output_json_name(acquire->name->bytes, acquire->name->len);
    char *line = NULL;

    if (json_object_set_new(root, "token", json_string(token)) == 0 &&
        json_object_set_new(root, "fence", cli_output_json_number(fence, fence != 0)) == 0 &&
        json_object_set_new(root, "remaining_ms",
                            json_integer(dlock_remaining_ms(acquire->held.lock))) == 0)
        line = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (line == NULL) {
        cli_output_fail(acquire->cli, "out of memory");
        return CLI_EXIT_INTERNAL;
    }
    (void)puts(line);
    free(line);
    return CLI_EXIT_OK;
}

int acquire_print(const struct acquire *acquire)
{
    uint64_t fence = dlock_fence(acquire->held.lock);
    char token[DLOCK_TOKEN_CHARS] = "";
    char number[24];
    int exit_code = CLI_EXIT_OK;

    (void)dlock_token(acquire->held.lock, token, sizeof token);
    info_number(number, fence, fence != 0);
    if (acquire->cli->json)
        exit_code = json_line(acquire, token, fence);
    else
        (void)printf("%s %s\n", token, number);
    return exit_code != CLI_EXIT_OK ? exit_code : cli_output_close(acquire->cli, CLI_EXIT_OK);
}

bool refusal_is_conflict(const struct acquire *acquire)
{
    return acquire->status == DLOCK_BUSY || acquire->status == DLOCK_TIMEOUT;
}

/* Not acquired although no holder is known, as in a restart guard: the text has the reason. */
static bool reason_given(const struct acquire *acquire)
{
    const char *text = acquire->err.message;
    const char *usual = dlock_status_text((int)acquire->status);

    if (acquire->name_count > 1 && strlen(text) > strlen(usual)) /* of a set: "NAME: text" */
        text += strlen(text) - strlen(usual);
    return acquire->holder[0] == '\0' && text[0] != '\0' && strcmp(text, usual) != 0;
}

static void status_print(const struct acquire *acquire, const char *name)
{
    (void)cli_output_fail_status(
        acquire->cli,
        acquire->client != NULL && acquire->name->len > 0 && acquire->name_count <= 1 ? name : NULL,
        &acquire->err);
}

int refusal_report(struct acquire *acquire, const struct refusal *rules)
{
    static const struct refusal usual = {.conflict_code = -1};
    const char *name = cli_output_printable(acquire->name->bytes, acquire->name->len);
    bool conflict = refusal_is_conflict(acquire) && !reason_given(acquire);

    if (rules == NULL)
        rules = &usual;
    if (acquire->nested) {
        cli_output_fail(acquire->cli, "%s: %s: %s", name,
                        acquire->options.limit > 1 ? "enclosing dlock runs hold all permits"
                                                   : "an enclosing dlock run holds this lock",
                        acquire->join ? "it cannot be joined" : "the wait would never end");
        return CLI_EXIT_USAGE;
    }
    if (conflict && rules->skip_quietly)
        return (int)rules->conflict_code;
    acquire->err.status = acquire->status;
    if (refusal_is_conflict(acquire) && acquire->holder[0] != '\0')
        cli_output_fail(acquire->cli, "%s: %s%s", name,
                        acquire->status == DLOCK_TIMEOUT ? "not acquired before the deadline: "
                                                         : "",
                        acquire->holder);
    else
        status_print(acquire, name);
    if (conflict && rules->conflict_code >= 0)
        return (int)rules->conflict_code;
    return cli_exitcode_of(acquire->status);
}

int refusal_or_use(struct acquire *acquire, refusal_use_fn *use)
{
    struct signals signals = {.fd = -1};
    int exit_code;
    int caught;

    if (signals_start(&signals) != 0) {
        cli_output_fail(acquire->cli, "signals: %s", strerror(errno));
        return CLI_EXIT_INTERNAL;
    }
    caught = acquire_lock(acquire, &signals);
    if (caught != 0)
        exit_code = CLI_EXIT_SIGNAL + caught;
    else if (acquire->status != DLOCK_OK)
        exit_code = refusal_report(acquire, NULL);
    else
        exit_code = use(acquire, &signals);
    acquire_fini(acquire);
    return exit_code;
}
