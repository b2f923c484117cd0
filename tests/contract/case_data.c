/* SPDX-License-Identifier: MIT */
/* What a holder publishes with its claim. */
#include "../kit/drop.h"
#include "conformance.h"

#include <dlock/dlock.h>
#include <inttypes.h>
#include <string.h>

#define SHOWN_MAX 8

/* The holders of a name. */
struct shown {
    unsigned count;
    struct {
        char label[65];
        uint64_t fence;
        uint32_t kept, len;
        unsigned char data[DLOCK_DATA_MAX];
    } holders[SHOWN_MAX];
};

static bool shown_add(void *arg, const struct dlock_holder *holder)
{
    struct shown *shown = arg;
    const char *label = strrchr(holder->label, ':');

    DLT_CHECK(shown->count < SHOWN_MAX, "more than %d holders", SHOWN_MAX);
    DLT_CHECK((holder->data == NULL) == (holder->data_len == 0), "%u bytes of data at %s",
              holder->data_len, holder->data != NULL ? "an address" : "NULL");
    (void)snprintf(shown->holders[shown->count].label, sizeof shown->holders[0].label, "%s",
                   label != NULL ? label + 1 : "");
    shown->holders[shown->count].fence = holder->fence;
    shown->holders[shown->count].kept = holder->kept;
    shown->holders[shown->count].len = holder->data_len;
    if (holder->data_len > 0)
        memcpy(shown->holders[shown->count].data, holder->data, holder->data_len);
    shown->count++;
    return false;
}

static struct shown inspect(struct dlock_client *client, const struct dlt_name *name)
{
    struct shown shown = {0};

    DLT_OK(dlock_client_inspect(client, name->text, name->len, shown_add, &shown, &dlt_err));
    return shown;
}

/* The one holder has these data, in inspect, and in list if the store has that. */
static void want(const struct dlt_run *run, struct dlock_client *client,
                 const struct dlt_name *name, const void *data, size_t len, const char *when)
{
    enum dlock_status status = DLOCK_OK;
    struct shown shown = inspect(client, name);

    for (int i = 0; i < 2; i++) {
        DLT_CHECK(shown.count == 1, "%u holders %s", shown.count, when);
        DLT_CHECK(shown.holders[0].len == len, "%u bytes of data %s, want %zu",
                  shown.holders[0].len, when, len);
        DLT_CHECK(len == 0 || memcmp(shown.holders[0].data, data, len) == 0, "other data %s", when);
        shown = (struct shown){0};
        if (i == 0)
            status = dlock_client_list(client, name->text, name->len, shown_add, &shown, &dlt_err);
        if (i == 0 && dlt_may_lack(run, status))
            return;
        DLT_OK(status);
    }
}

static struct dlock_handle *publisher(const struct dlt_run *run, struct dlock_client *client,
                                      const void *data, size_t len, int64_t limit)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .op_timeout_ms = dlt_op_timeout_ms(run),
                                    .limit = limit,
                                    .data = data,
                                    .data_len = len};

    return dlt_lock_with(run, client, "x", &options);
}

/* Each byte, and each length that is a border. */
void dlt_case_data_are_bytes(struct dlt_run *run)
{
    static const size_t lens[] = {1, 2, 255, 256, 257, DLOCK_DATA_MAX};
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    unsigned char data[DLOCK_DATA_MAX];

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        struct dlock_handle *lock = publisher(run, client, data, lens[i], 0);

        DLT_TAKE(lock);
        want(run, other, &name, data, lens[i], "of a holder");
        dlock_free(lock);
    }
    memset(data, 0, sizeof data);
    for (size_t len = 1; len < 4; len++) {
        struct dlock_handle *lock = publisher(run, client, data, len, 0);

        DLT_TAKE(lock);
        want(run, other, &name, data, len, "that are zero");
        dlock_free(lock);
    }
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_data_belong_to_the_claim(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    char text[] = "http://10.0.0.3:8080";
    struct dlock_handle *lock = publisher(run, client, text, strlen(text), 0);
    struct dlock_handle *next = publisher(run, other, "b", 1, 0),
                        *plain = dlt_lock(run, client, "x", 0);

    memset(text, '-', strlen(text)); /* the handle has a copy */
    DLT_TAKE(lock);
    want(run, other, &name, "http://10.0.0.3:8080", 20, "of a holder");
    DLT_STATUS(dlock_trylock(next, &dlt_err), DLOCK_BUSY);
    want(run, other, &name, "http://10.0.0.3:8080", 20, "after another one was refused");
    DLT_OK(dlock_renew(lock, 0, &dlt_err));
    want(run, other, &name, "http://10.0.0.3:8080", 20, "after a renewal");
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_CHECK(inspect(other, &name).count == 0, "a free name has a holder");
    DLT_TAKE(plain);
    want(run, other, &name, NULL, 0, "of a holder without data");
    DLT_OK(dlock_unlock(plain, &dlt_err));
    DLT_TAKE(next);
    want(run, client, &name, "b", 1, "of the next holder");
    DLT_OK(dlock_unlock(next, &dlt_err));
    DLT_TAKE(lock);
    want(run, client, &name, "http://10.0.0.3:8080", 20, "of the same handle again");
    dlock_free(lock);
    dlock_free(next);
    dlock_free(plain);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Takes the name, and looks at what is shown then. */
struct candidate {
    const struct dlt_run *run;
    struct dlock_client *client;
    struct dlt_name name;
    struct dlock_handle *lock;
    const char *word; /* label and data; of some the data are empty */
    size_t len;
    _Atomic int done;
};

enum { CANDIDATES = 6, TURNS = 3 };

static void *candidate_run(void *arg)
{
    struct candidate *self = arg;

    for (int i = 0; i < TURNS; i++) {
        DLT_OK(dlock_timedlock(self->lock, 60000, &dlt_err));
        want(self->run, self->client, &self->name, self->word, self->len,
             "of the thread that holds it");
        dlt_sleep_ms(20);
        DLT_OK(dlock_unlock(self->lock, &dlt_err));
    }
    self->done = 1;
    return NULL;
}

/* Somebody else looks all the time: label and data are of one holder. */
static bool want_pair(struct dlock_client *client, const struct dlt_name *name,
                      const struct candidate *candidates)
{
    struct shown shown = inspect(client, name);
    int done = 0;

    for (unsigned i = 0; i < shown.count; i++) {
        const struct candidate *it;

        if (shown.holders[i].label[0] != 'w') /* it has gone while it was looked at */
            continue;
        it = &candidates[(shown.holders[i].label[1] - '0') % CANDIDATES];
        DLT_CHECK(strcmp(shown.holders[i].label, it->word) == 0, "the label is '%s'",
                  shown.holders[i].label);
        DLT_CHECK(shown.holders[i].len == it->len &&
                      memcmp(shown.holders[i].data, it->word, it->len) == 0,
                  "%s has the data '%.*s'", it->word, (int)shown.holders[i].len,
                  (const char *)shown.holders[i].data);
    }
    for (int i = 0; i < CANDIDATES; i++)
        done += candidates[i].done;
    return done == CANDIDATES;
}

/* Threads of two clients follow each other. */
void dlt_case_data_arrive_with_the_grant(struct dlt_run *run)
{
    static const char *const words[CANDIDATES] = {"w0", "w1", "w2", "w3", "w4", "w5"};
    struct dlock_client *clients[2] = {dlt_client(run, NULL), dlt_client(run, NULL)};
    struct candidate candidates[CANDIDATES] = {0};
    pthread_t threads[CANDIDATES];

    for (int i = 0; i < CANDIDATES; i++) {
        struct dlock_options options = {
            .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .label = words[i]};

        options.data_len = i % 3 == 2 ? 0 : strlen(words[i]);
        options.data = words[i];
        candidates[i].run = run;
        candidates[i].client = clients[i % 2];
        candidates[i].name = dlt_name(run, "x");
        candidates[i].lock = dlt_lock_with(run, clients[i % 2], "x", &options);
        candidates[i].word = words[i];
        candidates[i].len = options.data_len;
    }
    for (int i = 0; i < CANDIDATES; i++)
        threads[i] = dlt_thread(candidate_run, &candidates[i]);
    while (!want_pair(clients[0], &candidates[0].name, candidates))
        dlt_sleep_ms(1);
    for (int i = 0; i < CANDIDATES; i++) {
        (void)dlt_join(threads[i]);
        dlock_free(candidates[i].lock);
    }
    dlock_client_close(clients[0]);
    dlock_client_close(clients[1]);
}

/* Two hold the name together: one has the data "a", one "bb". */
static void want_both(struct dlock_client *client, const struct dlt_name *name, const char *what)
{
    struct shown shown = inspect(client, name);
    uint32_t lens = 0;

    DLT_CHECK(shown.count == 2, "%u %s, want 2", shown.count, what);
    for (int i = 0; i < 2; i++) {
        uint32_t len = shown.holders[i].len;

        DLT_CHECK(len == 1 || len == 2, "%u bytes of %s", len, what);
        DLT_CHECK(memcmp(shown.holders[i].data, len == 1 ? "a" : "bb", len) == 0,
                  "other data of %s", what);
        lens |= 1u << len;
    }
    DLT_CHECK(lens == (1u << 1 | 1u << 2), "data of %u and %u bytes of %s", shown.holders[0].len,
              shown.holders[1].len, what);
}

void dlt_case_data_of_each_holder(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    uint64_t caps = dlock_client_caps(client);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_handle *a = publisher(run, client, "a", 1, 0),
                        *b = publisher(run, other, "bb", 2, 0);

    if ((caps & DLOCK_CAP_RWLOCK) != 0) {
        DLT_OK(dlock_tryrdlock(a, &dlt_err));
        DLT_OK(dlock_tryrdlock(b, &dlt_err));
        want_both(client, &name, "readers");
        DLT_OK(dlock_unlock(a, &dlt_err));
        want(run, client, &name, "bb", 2, "of the reader that is left");
        DLT_OK(dlock_unlock(b, &dlt_err));
    }
    if ((caps & DLOCK_CAP_DOWNGRADE) != 0) {
        DLT_TAKE(a);
        DLT_OK(dlock_downgrade(a, &dlt_err));
        want(run, other, &name, "a", 1, "after a downgrade");
        DLT_OK(dlock_tryrdlock(b, &dlt_err));
        want_both(client, &name, "readers, one by a downgrade");
        DLT_OK(dlock_unlock(a, &dlt_err));
        DLT_OK(dlock_unlock(b, &dlt_err));
    }
    dlock_free(a);
    dlock_free(b);
    if ((caps & DLOCK_CAP_LIMIT) != 0) {
        a = publisher(run, client, "a", 1, 2);
        b = publisher(run, other, "bb", 2, 2);
        DLT_TAKE(a);
        DLT_TAKE(b);
        want_both(client, &name, "permits");
        dlock_free(a);
        want(run, client, &name, "bb", 2, "of the permit that is left");
        dlock_free(b);
    }
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Released and kept, broken, or run out. */
void dlt_case_data_end_with_the_claim(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_handle *lock = publisher(run, client, "a", 1, 0),
                        *plain = dlt_lock(run, other, "x", 0);
    struct shown shown;

    if ((dlock_client_caps(client) & DLOCK_CAP_KEEP) != 0) {
        DLT_TAKE(lock);
        DLT_OK(dlock_keep_name(lock, 30000, &dlt_err));
        DLT_OK(dlock_unlock(lock, &dlt_err));
        shown = inspect(other, &name);
        DLT_CHECK(shown.count == 1 && shown.holders[0].kept == 1, "the name is not kept");
        DLT_CHECK(shown.holders[0].len == 0, "a kept name has %u bytes of data",
                  shown.holders[0].len);
        dlt_break(run, other, &name);
    }
    if (dlt_can_break(run, other)) {
        DLT_TAKE(lock);
        dlt_break(run, other, &name);
        DLT_TAKE(plain);
        want(run, client, &name, NULL, 0, "of a holder after a break");
        DLT_OK(dlock_unlock(plain, &dlt_err));
        dlt_drop(dlock_unlock(lock, &dlt_err));
    }
    dlock_free(lock);
    dlock_free(plain);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_data_are_adopted(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_handle *lock = publisher(run, client, "a", 1, 0), *heir;
    char token[DLOCK_TOKEN_CHARS];

    if (dlt_ends_with_claim(client))
        dlt_skip("leases live in sessions");
    heir = publisher(run, other, "another", 7, 0);
    DLT_TAKE(lock);
    DLT_CHECK(dlock_token(lock, token, sizeof token) > 0, "no token");
    DLT_OK(dlock_adopt(heir, token, &dlt_err));
    want(run, client, &name, "a", 1, "after an adoption");
    DLT_OK(dlock_renew(heir, 0, &dlt_err));
    want(run, client, &name, "a", 1, "after a renewal of an adopted lease");
    if ((dlock_client_caps(other) & DLOCK_CAP_DOWNGRADE) != 0) {
        DLT_OK(dlock_downgrade(heir, &dlt_err));
        want(run, client, &name, "a", 1, "after a downgrade of an adopted lease");
    }
    DLT_OK(dlock_unlock(heir, &dlt_err));
    DLT_TAKE(heir);
    want(run, client, &name, "another", 7, "of a lease of the heir's own");
    DLT_OK(dlock_unlock(heir, &dlt_err));
    dlt_drop(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_free(heir);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_data_are_observed(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_handle *a = publisher(run, other, "a", 1, 0),
                        *b = publisher(run, other, "bb", 2, 0);
    struct shown shown = {0};

    DLT_TAKE(a);
    DLT_OK(
        dlock_client_observe(client, name.text, name.len, 0, 20000, shown_add, &shown, &dlt_err));
    DLT_CHECK(shown.count == 1 && shown.holders[0].len == 1, "%u bytes of the first one",
              shown.holders[0].len);
    DLT_OK(dlock_unlock(a, &dlt_err));
    DLT_TAKE(b);
    shown.count = 0;
    DLT_OK(dlock_client_observe(client, name.text, name.len, shown.holders[0].fence, 20000,
                                shown_add, &shown, &dlt_err));
    DLT_CHECK(shown.count == 1 && shown.holders[0].len == 2 &&
                  memcmp(shown.holders[0].data, "bb", 2) == 0,
              "%u bytes of the second one", shown.holders[0].len);
    dlock_free(a);
    dlock_free(b);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_data_or_a_refusal(struct dlt_run *run)
{
    static const unsigned char data[DLOCK_DATA_MAX + 1];
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_options options = {.struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS};
    bool able = (dlock_client_caps(client) & DLOCK_CAP_DATA) != 0;
    struct dlock_handle *lock = NULL;

    options.data = data;
    options.data_len = sizeof data;
    DLT_STATUS(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err), DLOCK_INVALID);
    DLT_CHECK(strstr(dlt_err.message, "1025") != NULL && strstr(dlt_err.message, "1024") != NULL,
              "the text is '%s'", dlt_err.message);
    options.data = NULL;
    options.data_len = 1;
    DLT_STATUS(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err), DLOCK_INVALID);
    options.data = data;
    DLT_STATUS(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err),
               able ? DLOCK_OK : DLOCK_UNSUPPORTED);
    dlock_free(lock);
    lock = NULL;
    options.data_len = 0;
    DLT_OK(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err));
    DLT_TAKE(lock);
    if (dlt_can_inspect(client))
        want(run, client, &name, NULL, 0, "of a holder that publishes nothing");
    dlock_free(lock);
    dlock_client_close(client);
}

static bool remaining_note(void *arg, const struct dlock_holder *info)
{
    *(int64_t *)arg = info->remaining_ms;
    return true;
}

/* No clock of the store ends it after max_hold: it is given back (C14). */
static void no_ttl_with_max_hold(struct dlt_run *run, struct dlock_client *client)
{
    struct dlock_client *other = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "held");
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = DLOCK_TTL_NONE,
                                    .max_hold_ms = 200};
    struct dlock_handle *rival = dlt_lock(run, other, "held", 0), *lock = NULL;

    DLT_OK(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err));
    DLT_TAKE(lock);
    DLT_TAKE(rival);
    DLT_STATE(lock, DLOCK_STATE_LOST, "after max_hold");
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    DLT_OK(dlock_renew(rival, 0, &dlt_err));
    dlock_free(rival);
    dlock_free(lock);
    dlock_client_close(other);
}

void dlt_case_no_ttl_or_a_refusal(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = DLOCK_TTL_NONE};
    bool able = (dlock_client_caps(client) & DLOCK_CAP_NO_TTL) != 0;
    struct dlock_handle *lock = NULL, *rival;
    int64_t remaining_ms = 0;

    DLT_CHECK(dlock_client_ttl_ms(client, DLOCK_TTL_NONE) == (able ? DLOCK_TTL_NONE : 0),
              "the client's ttl");
    DLT_STATUS(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err),
               able ? DLOCK_OK : DLOCK_CONFIG);
    if (able) {
        rival = dlt_lock(run, other, "x", 0);
        DLT_TAKE(lock);
        DLT_CHECK(dlock_remaining_ms(lock) == DLOCK_TTL_NONE, "it has a clock");
        DLT_STATUS(dlock_renew(lock, 1000, &dlt_err), DLOCK_INVALID);
        DLT_OK(dlock_renew(lock, 0, &dlt_err));
        DLT_STATUS(dlock_acquire(rival, DLOCK_EXCLUSIVE, 0, &dlt_err), DLOCK_BUSY);
        DLT_OK(dlock_client_inspect(other, name.text, name.len, remaining_note, &remaining_ms,
                                    &dlt_err));
        DLT_CHECK(remaining_ms == -1, "inspect shows %lld ms", (long long)remaining_ms);
        DLT_OK(dlock_client_break(other, name.text, name.len, NULL, &dlt_err));
        DLT_TAKE(rival);
        DLT_STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_LOST);
        DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
        DLT_OK(dlock_unlock(rival, &dlt_err));
        DLT_TAKE(lock);
        DLT_OK(dlock_unlock(lock, &dlt_err));
        DLT_TAKE(rival);
        dlock_free(rival);
        options.end = DLOCK_END_TTL;
        dlock_free(lock);
        DLT_STATUS(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err), DLOCK_CONFIG);
        no_ttl_with_max_hold(run, client);
    }
    dlock_client_close(client);
    dlock_client_close(other);
}
