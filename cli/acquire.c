/* SPDX-License-Identifier: MIT */
#include "acquire.h"

#include "client.h"
#include "descendants.h"
#include "environment.h"
#include "exitcode.h"
#include "output.h"
#include "process.h"
#include "supervise.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

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

    if (info->owner == NULL || info->kept != 0 || strcmp(info->owner, search->token) != 0)
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

/* dlock_error_node answers in the thread of the call alone, and until its next call. */
static void nodes_keep(struct acquire *acquire)
{
    const struct dlock_node_error *node = dlock_error_node(&acquire->err, acquire->node_count);

    for (; node != NULL; node = dlock_error_node(&acquire->err, acquire->node_count))
        acquire->nodes[acquire->node_count++] = *node;
}

static enum dlock_status held_make(struct acquire *acquire)
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
    /* Stored before `canceled` is read: this thread or the canceling one sees the other's store. */
    atomic_store(&acquire->waiting, true);
    if (atomic_load(&acquire->canceled))
        return DLOCK_CANCELED;
    status = held_acquire(&acquire->held, acquire->shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
                          acquire->timeout_ms, &acquire->err);
    nodes_keep(acquire);
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
    nodes_keep(acquire);
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
    atomic_store(&acquire->canceled, true); /* stored before `waiting` is read, see acquire_steps */
    if (atomic_load(&acquire->waiting))
        held_cancel(&acquire->held);
}

/* Waits for the thread. Returns the first signal that ends programs, or 0. */
static int acquire_wait(struct acquire *acquire, const struct signals *signals)
{
    struct pollfd fds[3] = {{.fd = acquire->done, .events = POLLIN},
                            {.fd = signals->fd, .events = POLLIN},
                            {.fd = acquire->parent, .events = POLLIN}};
    bool talks = acquire->cli->verbose > 0 && acquire->timeout_ms != DLOCK_TRY;
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
            if (first != 0 && supervise_now_ms() - first_ms > IMPATIENT_MS)
                _exit(CLI_EXIT_SIGNAL + n);
            if (first == 0)
                first_ms = supervise_now_ms();
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
    acquire->node_count = 0;
    acquire->nested = false;
    acquire->joined = 0;
    acquire->holder[0] = '\0';
    acquire->asked = false;
    atomic_store(&acquire->asker_done, false);
}
