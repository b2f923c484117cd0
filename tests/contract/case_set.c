/* SPDX-License-Identifier: MIT */
/* Sets: are several names held together, all of them or none? */
#include "conformance.h"

#include <dlock/dlock.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMES 3

/* The names run->prefix + a letter of `letters`, in that order. */
struct names {
    struct dlt_name name[NAMES];
    const char *text[NAMES];
    size_t count;
};

static void names_make(const struct dlt_run *run, const char *letters, struct names *names)
{
    for (names->count = 0; letters[names->count] != '\0'; names->count++) {
        char suffix[2] = {letters[names->count], '\0'};

        names->name[names->count] = dlt_name(run, suffix);
        names->text[names->count] = names->name[names->count].text;
    }
}

static struct dlock_set *set_new(const struct dlt_run *run, struct dlock_client *client,
                                 const char *letters, int64_t ttl_ms)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .op_timeout_ms = dlt_op_timeout_ms(run)};
    struct dlock_set *set = NULL;
    struct names names;

    options.ttl_ms = dlt_ttl_asked(client, ttl_ms);
    names_make(run, letters, &names);
    DLT_OK(dlock_set_new(client, names.text, NULL, names.count, &options, &set, &dlt_err));
    return set;
}

/* As set_new, and its release keeps the names. */
static struct dlock_set *set_keeping(const struct dlt_run *run, struct dlock_client *client,
                                     const char *letters)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .op_timeout_ms = dlt_op_timeout_ms(run),
                                    .keep_ms = 60000};
    struct dlock_set *set = NULL;
    struct names names;

    names_make(run, letters, &names);
    DLT_OK(dlock_set_new(client, names.text, NULL, names.count, &options, &set, &dlt_err));
    return set;
}

static enum dlock_status set_try(struct dlock_set *set)
{
    return dlock_set_acquire(set, DLOCK_EXCLUSIVE, 0, &dlt_err);
}

/* As dlt_times_out. The wait that ended so is one for the best. */
static void set_times_out(struct dlock_set *set, int64_t timeout_ms, struct dlt_best *best)
{
    enum dlock_status status = DLOCK_UNKNOWN;
    int64_t due_ns = 0;

    for (int i = 0; i < 8 && status != DLOCK_TIMEOUT; i++) {
        int64_t start_ns = dlt_now_ns();

        status = dlock_set_acquire(set, DLOCK_EXCLUSIVE, timeout_ms << i, &dlt_err);
        due_ns = start_ns + (timeout_ms << i) * DLT_NS_PER_MS;
        DLT_CHECK(dlt_ran_out(status), "a set of which a name is held is %s",
                  dlock_status_name((int)status));
    }
    DLT_STATUS(status, DLOCK_TIMEOUT);
    dlt_best_take(best, due_ns, dlt_now_ns());
}

/* The names of the letters have to answer `want` to another client; what it gets, it gives back. */
static void others_get(const struct dlt_run *run, struct dlock_client *client, const char *letters,
                       enum dlock_status want)
{
    for (; *letters != '\0'; letters++) {
        char suffix[2] = {*letters, '\0'};
        struct dlock_handle *lock = dlt_lock(run, client, suffix, 0);

        /* A release whose answer was late is executed nevertheless. */
        if (want == DLOCK_OK)
            DLT_OK(dlock_timedlock(lock, 20000, &dlt_err));
        else
            DLT_STATUS(dlock_trylock(lock, &dlt_err), want);
        dlock_free(lock);
    }
}

static void set_state_is(const struct dlock_set *set, enum dlock_state want, const char *when)
{
    DLT_CHECK(dlock_set_state(set) == want, "the set is %s %s, want %s",
              dlt_state_name(dlock_set_state(set)), when, dlt_state_name(want));
}

void dlt_case_set_all_or_none(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_set *set = set_new(run, client, "cab", 0);
    struct dlock_handle *b = dlt_lock(run, other, "b", 0);
    struct dlt_best best = {0};

    DLT_OK(dlock_trylock(b, &dlt_err));
    DLT_STATUS(set_try(set), DLOCK_BUSY);
    DLT_CHECK(strstr(dlt_err.message, "b: ") != NULL, "the text does not name b: %s",
              dlt_err.message);
    set_state_is(set, DLOCK_STATE_FREE, "after BUSY");
    others_get(run, other, "ac", DLOCK_OK);
    for (int i = 0; i < 5; i++)
        set_times_out(set, 200, &best);
    DLT_BETWEEN(best.begin_ns, best.end_ns, 500 + run->slack_ms,
                "5 waits for a set ended late, at best");
    others_get(run, other, "ac", DLOCK_OK);
    DLT_OK(dlock_unlock(b, &dlt_err));

    /* What the timeout could not take back in time may have got b; that ends by itself. */
    DLT_OK(dlock_set_acquire(set, DLOCK_EXCLUSIVE, 20000, &dlt_err));
    set_state_is(set, DLOCK_STATE_HELD, "after the acquire");
    DLT_CHECK(dlock_set_remaining_ms(set) > 0, "no time remains of a set that is held");
    others_get(run, other, "abc", DLOCK_BUSY);
    DLT_STATUS(set_try(set), DLOCK_ALREADY);
    DLT_OK(dlock_set_renew(set, 0, &dlt_err));
    DLT_OK(dlock_set_unlock(set, &dlt_err));
    set_state_is(set, DLOCK_STATE_FREE, "after the unlock");
    others_get(run, other, "abc", DLOCK_OK);
    DLT_STATUS(dlock_set_unlock(set, &dlt_err), DLOCK_NOT_HELD);
    DLT_OK(set_try(set));
    dlock_set_free(set);
    others_get(run, other, "abc", DLOCK_OK);
    dlock_free(b);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Nobody was to run: what the set had of its names is free for others. */
void dlt_case_set_keeps_whole(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_set *set = set_keeping(run, client, "cab");
    struct dlock_handle *c = dlt_lock(run, other, "c", 0);

    DLT_OK(dlock_trylock(c, &dlt_err));
    DLT_STATUS(set_try(set), DLOCK_BUSY);
    others_get(run, other, "ab", DLOCK_OK);
    set_times_out(set, 200, &(struct dlt_best){0});
    others_get(run, other, "ab", DLOCK_OK);
    DLT_OK(dlock_unlock(c, &dlt_err));
    /* What the timeout could not take back in time may have got c; that ends by itself. */
    DLT_OK(dlock_set_acquire(set, DLOCK_EXCLUSIVE, 20000, &dlt_err));
    DLT_OK(dlock_set_unlock(set, &dlt_err));
    others_get(run, other, "abc", DLOCK_BUSY);
    dlock_free(c);
    dlock_set_free(set);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_set_members(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_set *set = set_new(run, client, "cab", 0);
    int fences = (dlock_client_caps(client) & DLOCK_CAP_FENCE) != 0;
    uint64_t before[NAMES];
    struct names names;

    names_make(run, "cab", &names);
    DLT_OK(set_try(set));
    for (size_t i = 0; i < NAMES; i++) {
        const struct dlock_handle *member = dlock_set_member(set, i);
        char token[DLOCK_TOKEN_CHARS] = "";

        DLT_STATE(member, DLOCK_STATE_HELD, "as a member of a set that is held");
        before[i] = dlock_fence(member);
        DLT_CHECK((before[i] != 0) == fences, "name %zu of the set has fence %" PRIu64, i,
                  before[i]);
        DLT_CHECK(dlock_token(member, token, sizeof token) == DLOCK_TOKEN_CHARS - 1,
                  "name %zu of the set has no token", i);
        if (dlt_can_inspect(other))
            DLT_CHECK(strcmp(dlt_inspect(other, &names.name[i]).owner, token) == 0,
                      "the member of index %zu has not the name of index %zu", i, i);
    }
    DLT_CHECK(dlock_set_member(set, NAMES) == NULL, "a set of %d names has one more", NAMES);
    DLT_OK(dlock_set_unlock(set, &dlt_err));
    DLT_OK(set_try(set));
    for (size_t i = 0; i < NAMES; i++)
        DLT_CHECK(!fences || dlock_fence(dlock_set_member(set, i)) > before[i],
                  "the fence of name %zu did not rise", i);
    dlock_set_free(set);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_set_loss(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_set *set = set_new(run, client, "cab", dlt_kept_ttl_ms(run));
    struct dlock_notice event = {.struct_size = sizeof event};
    struct names names;

    names_make(run, "cab", &names);
    DLT_OK(dlock_set_acquire(set, DLOCK_EXCLUSIVE, 15000, &dlt_err));
    dlt_break(run, other, &names.name[1]);
    DLT_CHECK(dlt_event_await(client, &event, 10000), "no loss event came, want one");
    DLT_CHECK(event.lock == dlock_set_member(set, 1), "the loss event has not the member's handle");
    DLT_REASON(event.reason, DLOCK_REASON_TAKEN);
    set_state_is(set, DLOCK_STATE_LOST, "after the loss of one name");
    DLT_CHECK(dlock_set_remaining_ms(set) == 0, "time remains of a set that is lost");
    DLT_STATUS(set_try(set), DLOCK_LOST);
    DLT_STATUS(dlock_set_renew(set, 0, &dlt_err), DLOCK_LOST);
    others_get(run, other, "bc", DLOCK_BUSY);
    DLT_STATUS(dlock_set_unlock(set, &dlt_err), DLOCK_LOST);
    set_state_is(set, DLOCK_STATE_FREE, "after the unlock that acknowledges the loss");
    others_get(run, other, "abc", DLOCK_OK);
    DLT_OK(set_try(set));
    DLT_OK(dlock_set_unlock(set, &dlt_err));
    dlock_set_free(set);
    dlock_client_close(client);
    dlock_client_close(other);
}

#define ROUNDS  8
#define WORKERS 4

struct circle {
    struct dlt_run *run;
    _Atomic int inside[NAMES];
    int counts[NAMES]; /* guarded by the locks alone */
};

struct worker {
    struct circle *circle;
    struct dlock_client *client;
    const char *letters;
};

static void *worker_main(void *arg)
{
    const struct worker *worker = arg;
    struct circle *circle = worker->circle;
    struct dlock_set *set = set_new(circle->run, worker->client, worker->letters, 0);

    for (int i = 0; i < ROUNDS; i++) {
        DLT_OK(dlock_set_acquire(set, DLOCK_EXCLUSIVE, 60000, &dlt_err));
        for (const char *letter = worker->letters; *letter != '\0'; letter++) {
            DLT_CHECK(atomic_fetch_add(&circle->inside[*letter - 'a'], 1) == 0,
                      "two sets hold the name %c", *letter);
            circle->counts[*letter - 'a']++;
        }
        for (const char *letter = worker->letters; *letter != '\0'; letter++)
            (void)atomic_fetch_sub(&circle->inside[*letter - 'a'], 1);
        DLT_OK(dlock_set_unlock(set, &dlt_err));
    }
    dlock_set_free(set);
    return NULL;
}

void dlt_case_set_in_a_circle(struct dlt_run *run)
{
    static const char *const letters[WORKERS] = {"ab", "bc", "ca", "cba"};
    struct dlock_client *clients[2] = {dlt_client(run, NULL), dlt_client(run, NULL)};
    struct circle circle = {.run = run};
    struct worker workers[WORKERS];
    pthread_t threads[WORKERS];

    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){&circle, clients[i % 2], letters[i]};
        threads[i] = dlt_thread(worker_main, &workers[i]);
    }
    for (int i = 0; i < WORKERS; i++)
        (void)dlt_join(threads[i]);
    for (int i = 0; i < NAMES; i++)
        DLT_CHECK(circle.counts[i] == 3 * ROUNDS, "name %c was held %d times, want %d", 'a' + i,
                  circle.counts[i], 3 * ROUNDS);
    dlock_client_close(clients[0]);
    dlock_client_close(clients[1]);
}

struct set_wait {
    struct dlock_set *set;
    enum dlock_status status;
    atomic_bool done;
};

static void *wait_main(void *arg)
{
    struct set_wait *wait = arg;

    wait->status = dlock_set_acquire(wait->set, DLOCK_EXCLUSIVE, 60000, &dlt_err);
    atomic_store(&wait->done, true);
    return NULL;
}

/* Returns when the set holds what it can: a, while b is held by another. */
static pthread_t wait_begin(const struct dlt_run *run, struct dlock_client *other,
                            struct set_wait *wait)
{
    pthread_t thread = dlt_thread(wait_main, wait);
    struct dlock_handle *a = dlt_lock(run, other, "a", 0);

    while (dlock_trylock(a, &dlt_err) == DLOCK_OK) {
        DLT_OK(dlock_unlock(a, &dlt_err));
        dlt_sleep_ms(10);
    }
    DLT_CHECK(!atomic_load(&wait->done), "the set did not wait: %s",
              dlock_status_name((int)wait->status));
    set_state_is(wait->set, DLOCK_STATE_FREE, "while it waits");
    DLT_STATUS(dlock_set_unlock(wait->set, &dlt_err), DLOCK_ALREADY);
    DLT_STATUS(set_try(wait->set), DLOCK_ALREADY);
    dlock_free(a);
    return thread;
}

void dlt_case_set_wait_ends(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *b = dlt_lock(run, other, "b", 0);
    struct set_wait wait = {.set = set_new(run, client, "abc", 0)};
    pthread_t thread;

    DLT_OK(dlock_trylock(b, &dlt_err));
    thread = wait_begin(run, other, &wait);
    dlock_set_cancel(wait.set);
    (void)dlt_join(thread);
    DLT_CHECK(wait.status == DLOCK_CANCELED, "dlock_set_cancel ended the wait with %s",
              dlock_status_name((int)wait.status));
    others_get(run, other, "ac", DLOCK_OK);

    wait.done = false;
    thread = wait_begin(run, other, &wait);
    DLT_OK(dlock_unlock(b, &dlt_err));
    (void)dlt_join(thread);
    DLT_CHECK(wait.status == DLOCK_OK, "the wait ended with %s, want OK",
              dlock_status_name((int)wait.status));
    DLT_OK(dlock_set_unlock(wait.set, &dlt_err));

    DLT_OK(dlock_trylock(b, &dlt_err));
    wait.done = false;
    thread = wait_begin(run, other, &wait);
    dlock_set_free(wait.set);
    (void)dlt_join(thread);
    DLT_CHECK(wait.status == DLOCK_CANCELED, "dlock_set_free ended the wait with %s",
              dlock_status_name((int)wait.status));
    others_get(run, other, "ac", DLOCK_OK);
    dlock_free(b);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_set_in_a_forked_child(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_set *set = set_new(run, client, "ab", 0);
    int status = 0;
    pid_t pid;

    DLT_OK(set_try(set));
    (void)fflush(NULL);
    pid = fork();
    DLT_CHECK(pid >= 0, "fork");
    if (pid == 0) {
        struct dlock_set *fresh = NULL;
        const char *names[] = {"x"};
        int wrong = 0;

        wrong += set_try(set) != DLOCK_FORKED;
        wrong += dlock_set_unlock(set, NULL) != DLOCK_FORKED;
        wrong += dlock_set_renew(set, 0, NULL) != DLOCK_FORKED;
        wrong += dlock_set_state(set) != DLOCK_STATE_FREE || dlock_set_remaining_ms(set) != 0;
        wrong += dlock_set_new(client, names, NULL, 1, NULL, &fresh, NULL) != DLOCK_FORKED;
        dlock_set_cancel(set);
        dlock_set_free(set);
        dlock_client_close(client);
        _exit(wrong);
    }
    DLT_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "the child died: %d", status);
    DLT_CHECK(WEXITSTATUS(status) == 0, "%d calls of the child did not answer FORKED",
              WEXITSTATUS(status));
    set_state_is(set, DLOCK_STATE_HELD, "after the child freed its copy");
    others_get(run, other, "ab", DLOCK_BUSY);
    DLT_OK(dlock_set_unlock(set, &dlt_err));
    dlock_set_free(set);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_set_misuse(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    const char *names[DLOCK_SET_MAX + 1];
    char texts[DLOCK_SET_MAX + 1][DLOCK_NAME_MAX + 1];
    const char *twice[] = {"a", "b", "a"}, *empty[] = {"a", ""}, *none[] = {"a", NULL};
    const char *long_one[] = {"a", "ab"};
    size_t lens[] = {1, 1};
    struct dlock_set *set = NULL;

    for (int i = 0; i <= DLOCK_SET_MAX; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%s%d", run->prefix, i);
        names[i] = texts[i];
    }
    DLT_STATUS(dlock_set_new(client, names, NULL, DLOCK_SET_MAX + 1, NULL, &set, &dlt_err),
               DLOCK_INVALID);
    DLT_STATUS(dlock_set_new(client, names, NULL, 0, NULL, &set, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_set_new(client, NULL, NULL, 1, NULL, &set, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_set_new(NULL, names, NULL, 1, NULL, &set, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_set_new(client, names, NULL, 1, NULL, NULL, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_set_new(client, twice, NULL, 3, NULL, &set, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_set_new(client, long_one, lens, 2, NULL, &set, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_set_new(client, empty, NULL, 2, NULL, &set, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_set_new(client, none, NULL, 2, NULL, &set, &dlt_err), DLOCK_INVALID);
    DLT_CHECK(set == NULL, "a set was made of what is INVALID");
    DLT_STATUS(set_try(NULL), DLOCK_INVALID);
    DLT_STATUS(dlock_set_unlock(NULL, &dlt_err), DLOCK_INVALID);
    DLT_CHECK(dlock_set_state(NULL) == DLOCK_STATE_FREE && dlock_set_remaining_ms(NULL) == 0 &&
                  dlock_set_member(NULL, 0) == NULL,
              "a set that is NULL has a state");
    dlock_set_cancel(NULL);
    dlock_set_free(NULL);
    DLT_OK(dlock_set_new(client, names, NULL, DLOCK_SET_MAX, NULL, &set, &dlt_err));
    DLT_STATUS(dlock_set_acquire(set, (enum dlock_mode)7, 0, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_set_acquire(set, DLOCK_EXCLUSIVE, -4, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_set_renew(set, 1, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_set_unlock(set, &dlt_err), DLOCK_NOT_HELD);
    /* Where each name has a session of its own there are not as many as that. */
    DLT_STATUS(set_try(set), dlt_session_lives(client) ? DLOCK_CONFIG : DLOCK_OK);
    dlock_set_free(set);
    dlock_client_close(client);
}
