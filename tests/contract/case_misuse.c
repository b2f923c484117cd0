/* SPDX-License-Identifier: MIT */
/* Is a mistake of the caller answered, and harmless? */
#include "conformance.h"

#include <inttypes.h>
#include <string.h>

void dlt_case_misuse_of_a_handle(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);

    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
    DLT_STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_NOT_HELD);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_ALREADY);
    DLT_STATUS(dlock_timedlock(lock, 1000, &dlt_err), DLOCK_ALREADY);
    DLT_STATUS(dlock_lock(lock, &dlt_err), DLOCK_ALREADY);
    DLT_STATE(lock, DLOCK_STATE_HELD, "after a second acquire was refused");
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
    DLT_STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_NOT_HELD);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}

void dlt_case_misuse_of_a_waiting_handle(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *holder = dlt_lock(run, client, "x", 0),
                        *lock = dlt_lock(run, client, "x", 0);
    struct dlt_waiter waiter;

    DLT_OK(dlock_trylock(holder, &dlt_err));
    dlt_waiter_start(&waiter, lock, 30000);
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_ALREADY);
    DLT_STATUS(dlock_timedlock(lock, 10, &dlt_err), DLOCK_ALREADY);
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_ALREADY);
    DLT_OK(dlock_unlock(holder, &dlt_err));
    DLT_OK(dlt_waiter_join(&waiter));
    DLT_OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_free(holder);
    dlock_client_close(client);
}

static void options_refused(struct dlock_client *client, const struct dlock_options *options,
                            const char *what)
{
    struct dlock_handle *lock = NULL;
    enum dlock_status status = dlock_new(client, "x", 1, options, &lock, &dlt_err);

    DLT_CHECK(status == DLOCK_INVALID, "%s: %s, want INVALID", what,
              dlock_status_name((int)status));
    DLT_CHECK(lock == NULL, "%s: the refused call made a handle", what);
    DLT_CHECK(dlt_err.message[0] != '\0', "%s: the error has no text", what);
}

#define REFUSED(client, ...)                                                                       \
    options_refused(                                                                               \
        client, &(struct dlock_options){.struct_size = sizeof(struct dlock_options), __VA_ARGS__}, \
        #__VA_ARGS__)

void dlt_case_misuse_of_options(struct dlt_run *run)
{
    static const int64_t week_ms = INT64_C(7) * 24 * 3600 * 1000;
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = NULL;

    REFUSED(client, .ttl_ms = 49);
    REFUSED(client, .ttl_ms = 1);
    REFUSED(client, .ttl_ms = -1);
    REFUSED(client, .ttl_ms = week_ms + 1);
    REFUSED(client, .ttl_ms = INT64_MAX);
    REFUSED(client, .ttl_ms = INT64_MIN);
    REFUSED(client, .wait_ms = -3);
    REFUSED(client, .wait_ms = INT64_MIN);
    REFUSED(client, .op_timeout_ms = -1);
    REFUSED(client, .max_hold_ms = -1);
    REFUSED(client, .renew = (enum dlock_tri)3);
    REFUSED(client, .fence = (enum dlock_tri) - 1);
    REFUSED(client, .label = "a line\nand another");
    REFUSED(client, .label = "12345678901234567890123456789012345678901234567890123456789012345");
    lock = dlt_lock(run, client, "x", 0);
    DLT_STATUS(dlock_timedlock(lock, -4, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_acquire(lock, (enum dlock_mode)2, 0, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_timedlock(lock, INT64_MIN, &dlt_err), DLOCK_INVALID);
    DLT_OK(dlock_timedlock(lock, INT64_MAX, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}

/* This one is held for that long. */
static void longest_taken(const struct dlt_run *run, struct dlock_client *client, int64_t ttl_ms)
{
    struct dlock_handle *lock = dlt_lease(run, client, "x", ttl_ms);
    struct dlt_name name = dlt_name(run, "x");
    int64_t spare_ms = ttl_ms / 10 < 60000 ? ttl_ms / 10 : 60000;

    DLT_OK(dlock_trylock(lock, &dlt_err));
    if (!dlt_session_lives(client)) { /* a claim lasts from ping to ping there */
        DLT_CHECK(dlock_remaining_ms(lock) > ttl_ms - ttl_ms / 8 - run->slack_ms,
                  "%" PRId64 " ms are left of a ttl of %" PRId64 " ms", dlock_remaining_ms(lock),
                  ttl_ms);
        DLT_CHECK(dlt_is_tethered(client) || !dlt_can_inspect(client) ||
                      dlt_inspect(client, &name).info.remaining_ms > ttl_ms - spare_ms,
                  "inspect shows less than a ttl of %" PRId64 " ms", ttl_ms);
    }
    DLT_OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
}

/* The longest ttl that the client has for a lock. What is longer is refused in words. */
static int64_t longest_find(struct dlock_client *client, int64_t refused_ms)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = refused_ms};
    int64_t least_ms = dlt_ttl(client, 50);
    struct dlock_handle *lock = NULL;

    DLT_STATUS(dlock_new(client, "x", 1, &options, &lock, &dlt_err), DLOCK_CONFIG);
    DLT_CHECK(lock == NULL && dlt_err.message[0] != '\0', "the refusal made a handle or no text");
    while (refused_ms - least_ms > 1) {
        int64_t middle_ms = least_ms + (refused_ms - least_ms) / 2;

        if (dlock_client_ttl_ms(client, middle_ms) != 0)
            least_ms = middle_ms;
        else
            refused_ms = middle_ms;
    }
    return least_ms;
}

/* Refused at the acquire. Returns what a lock of the client gets. */
static int64_t longest_asked(const struct dlt_run *run, struct dlock_client *client,
                             int64_t refused_ms)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = refused_ms};
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_handle *lock = NULL;

    DLT_OK(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err));
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_CONFIG);
    DLT_CHECK(dlt_err.message[0] != '\0', "the refusal has no text");
    dlock_free(lock);
    return dlt_ttl(client, 0);
}

static int64_t longest_ms(const struct dlt_run *run, struct dlock_client *client, int64_t week_ms)
{
    if (dlock_client_ttl_ms(client, week_ms) == 0)
        return longest_find(client, week_ms);
    return dlt_ttl_asked(client, week_ms) == 0 ? longest_asked(run, client, week_ms) : week_ms;
}

void dlt_case_ttl_from_least_to_most(struct dlt_run *run)
{
    static const int64_t week_ms = INT64_C(7) * 24 * 3600 * 1000;
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *shortest = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    longest_taken(run, client, longest_ms(run, client, week_ms));
    /* 50 ms may be over before the answer is here; one in many has to get through. */
    shortest = dlt_lock(run, client, "y", 50);
    for (int i = 0; i < 50 && status != DLOCK_OK; i++)
        status = dlock_timedlock(shortest, 2000, &dlt_err);
    DLT_CHECK(status == DLOCK_OK, "50 tries with a ttl of 50 ms: the last is %s, want one OK",
              dlock_status_name((int)status));
    dlock_free(shortest);
    dlock_client_close(client);
}

/* What the handle believes in is what the client foretells, to the millisecond. */
static void ttl_taken(const struct dlt_run *run, struct dlock_client *client, int64_t asked_ms)
{
    int64_t ttl_ms = dlt_ttl(client, asked_ms);
    struct dlock_handle *lock = dlt_lease(run, client, "x", asked_ms);
    struct dlt_name name = dlt_name(run, "x");
    int64_t shown_ms = 0, start_ns = 0, left_ms = 0;
    enum dlock_status status;
    double took_ms = 0;

    DLT_CHECK(dlt_ttl(client, ttl_ms) == ttl_ms,
              "the client makes %" PRId64 " ms of %" PRId64 ", and another ttl of that", ttl_ms,
              asked_ms);
    start_ns = dlt_now_ns();
    DLT_TAKE(lock);
    if (!dlt_ends_with_claim(client) &&
        dlt_can_inspect(client)) /* a session has an end of its own */
        shown_ms = dlt_inspect(client, &name).info.remaining_ms;
    left_ms = dlock_remaining_ms(lock);
    took_ms = dlt_ms_since(start_ns);
    DLT_CHECK(left_ms <= ttl_ms - dlt_margin_ms(ttl_ms),
              "%" PRId64 " ms are left of a ttl of %" PRId64 " that became %" PRId64, left_ms,
              asked_ms, ttl_ms);
    DLT_CHECK(dlt_session_lives(client) || (double)left_ms > (double)(ttl_ms / 2) - took_ms,
              "%" PRId64 " ms are left of a ttl of %" PRId64 " that became %" PRId64
              " %.0f ms after the call",
              left_ms, asked_ms, ttl_ms, took_ms);
    DLT_CHECK(shown_ms <= ttl_ms + run->grid_ms + 1,
              "inspect shows %" PRId64 " ms of a ttl of %" PRId64 " that became %" PRId64, shown_ms,
              asked_ms, ttl_ms);
    status = dlock_unlock(lock, &dlt_err);
    if (status != DLOCK_LOST || dlt_ms_since(start_ns) < (double)(ttl_ms * 9 / 10))
        DLT_STATUS(status, DLOCK_OK);
    dlock_free(lock);
}

void dlt_case_ttl_is_foretold(struct dlt_run *run)
{
    static const int64_t asked_ms[] = {2000, 2001, 2999, 9500, 30000};
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, "ttl=4100ms");
    int64_t last_ms = dlt_ttl(client, 50);

    for (size_t i = 0; i < sizeof asked_ms / sizeof asked_ms[0]; i++) {
        DLT_CHECK(dlt_ttl(client, asked_ms[i]) >= last_ms,
                  "the client makes %" PRId64 " ms of %" PRId64 ", and more of less",
                  dlt_ttl(client, asked_ms[i]), asked_ms[i]);
        last_ms = dlt_ttl(client, asked_ms[i]);
        ttl_taken(run, client, asked_ms[i]);
    }
    DLT_CHECK(dlock_client_ttl_ms(other, 0) == dlt_ttl(other, 4100),
              "0 is not the ttl of the client");
    DLT_CHECK(dlock_client_ttl_ms(client, 49) == 0 && dlock_client_ttl_ms(client, -1) == 0 &&
                  dlock_client_ttl_ms(client, INT64_MAX) == 0 && dlock_client_ttl_ms(NULL, 0) == 0,
              "the client makes something of a ttl that is refused, want 0");
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_misuse_of_pointers(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = NULL;

    DLT_STATUS(dlock_client_open(run->uri, NULL, NULL, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_new(NULL, "x", 1, NULL, &lock, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_new(client, "x", 1, NULL, NULL, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_trylock(NULL, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_unlock(NULL, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_client_inspect(client, "x", 1, NULL, NULL, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_client_inspect(client, "x", 0, NULL, NULL, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_client_break(client, "x", 256, NULL, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_client_probe(NULL, NULL, NULL, &dlt_err), DLOCK_INVALID);
    DLT_CHECK(dlock_state(NULL) == DLOCK_STATE_FREE && dlock_remaining_ms(NULL) == 0 &&
                  dlock_fence(NULL) == 0,
              "a call on NULL does not say FREE, 0 or nothing");
    dlock_cancel(NULL);
    dlock_free(NULL);
    dlock_client_shutdown(NULL);
    dlock_client_close(NULL);
    lock = dlt_lock(run, client, "x", 0);
    DLT_OK(dlock_trylock(lock, NULL)); /* no error is wanted */
    DLT_STATUS(dlock_trylock(lock, NULL), DLOCK_ALREADY);
    dlock_free(lock);
    dlock_client_close(client);
}

static void defaults_refused(const struct dlt_run *run, const char *defaults)
{
    struct dlock_client_options options = {.struct_size = sizeof options, .defaults = defaults};
    struct dlock_client *client = NULL;
    enum dlock_status status = dlock_client_open(run->uri, &options, &client, &dlt_err);

    DLT_CHECK(status == DLOCK_INVALID && client == NULL, "\"%s\": %s, want INVALID", defaults,
              dlock_status_name((int)status));
    DLT_CHECK(dlt_err.message[0] != '\0' && strchr(dlt_err.message, '\n') == NULL,
              "\"%s\": the text is \"%s\"", defaults, dlt_err.message);
}

void dlt_case_misuse_of_defaults(struct dlt_run *run)
{
    defaults_refused(run, "nonsense=1");
    defaults_refused(run, "ttl=30");
    defaults_refused(run, "ttl=0s");
    defaults_refused(run, "ttl=-1s");
    defaults_refused(run, "ttl=9223372036854775808ms");
    defaults_refused(run, "ttl=8d");
    defaults_refused(run, "ttl=1s&ttl=2s");
    defaults_refused(run, "renew=maybe");
    defaults_refused(run, "ttl");
    defaults_refused(run, "=1s");
}

static bool nothing_seen(void *arg, const struct dlock_holder *holder)
{
    (void)arg;
    (void)holder;
    return true;
}

/* The nodes of an error are never written past the room that the caller gives. */
void dlt_case_errors_keep_to_their_size(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct dlock_node_error nodes[2];
    struct dlock_error full = DLOCK_ERROR_INIT, small = {.nodes = nodes, .node_room = 1};

    memset(nodes, 0xa5, sizeof nodes);
    DLT_STATUS(dlock_unlock(lock, &small), DLOCK_NOT_HELD);
    DLT_CHECK(small.status == DLOCK_NOT_HELD && small.message[0] != '\0', "no error detail");
    (void)dlock_client_inspect(client, "x", 1, nothing_seen, NULL, &small);
    DLT_CHECK(small.node_count <= 1, "%u nodes in a room of one", small.node_count);
    for (size_t i = sizeof nodes[0]; i < sizeof nodes; i++)
        DLT_CHECK(((unsigned char *)nodes)[i] == 0xa5, "byte %zu past the room was written", i);
    DLT_STATUS(dlock_unlock(lock, &full), DLOCK_NOT_HELD);
    DLT_CHECK(full.origin[0] != '\0' && strchr(full.message, '\n') == NULL,
              "the error has no origin, or a newline in its text");
    dlock_free(lock);
    dlock_client_close(client);
}
