/* SPDX-License-Identifier: MIT */
/* A lease is taken up by its token, in another handle or process. */
#include "child.h"
#include "conformance.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A client of a store whose leases do not live in sessions. */
static struct dlock_client *adopting_client(const struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);

    if (dlt_ends_with_claim(client))
        dlt_skip("leases live in sessions");
    if (!dlt_can_inspect(client))
        dlt_skip("this store cannot inspect");
    return client;
}

static void token_of(const struct dlock_handle *lock, char token[DLOCK_TOKEN_CHARS])
{
    DLT_CHECK(dlock_token(lock, token, DLOCK_TOKEN_CHARS) == DLOCK_TOKEN_CHARS - 1,
              "dlock_token of a held lock does not give %d characters", DLOCK_TOKEN_CHARS - 1);
}

/* From a handle that does not renew: only who adopted it can have kept it. */
void dlt_case_adopt_by_token(struct dlt_run *run)
{
    struct dlock_client *client = adopting_client(run), *other = dlt_client(run, NULL);
    int64_t ttl_ms = dlt_kept_ttl_ms(run);
    struct dlock_handle *giver = dlt_lease(run, client, "x", ttl_ms),
                        *late = dlt_lock(run, client, "x", 0);
    struct dlock_handle *heirs[2] = {dlt_lock(run, other, "x", ttl_ms),
                                     dlt_lock(run, client, "x", ttl_ms)};
    char token[2][DLOCK_TOKEN_CHARS];
    uint64_t fence;

    for (int i = 0; i < 2; i++) {
        struct dlock_handle *heir = heirs[i];

        DLT_TAKE(giver);
        token_of(giver, token[0]);
        DLT_OK(dlock_adopt(heir, token[0], &dlt_err));
        token_of(heir, token[1]);
        DLT_CHECK(strcmp(token[0], token[1]) == 0, "after dlock_adopt the token is %s, want %s",
                  token[1], token[0]);
        DLT_CHECK(dlock_fence(heir) >= dlock_fence(giver), "fence %" PRIu64 " after %" PRIu64,
                  dlock_fence(heir), dlock_fence(giver));
        fence = dlock_fence(heir);
        dlt_sleep_ms(dlt_ttl(client, ttl_ms) + 1000);
        DLT_STATE(heir, DLOCK_STATE_HELD, "the adopted lease was not renewed");
        DLT_STATE(giver, DLOCK_STATE_LOST, "the first handle still holds what another one adopted");
        DLT_OK(dlock_renew(heir, 0, &dlt_err));
        DLT_STATUS(dlock_trylock(late, &dlt_err), DLOCK_BUSY);
        DLT_STATUS(dlock_unlock(giver, &dlt_err), DLOCK_LOST);
        DLT_STATUS(dlock_trylock(late, &dlt_err), DLOCK_BUSY);
        DLT_OK(dlock_unlock(heir, &dlt_err));
        DLT_OK(dlock_trylock(late, &dlt_err));
        DLT_CHECK(fence == 0 || dlock_fence(late) > fence, "fence %" PRIu64 " after %" PRIu64,
                  dlock_fence(late), fence);
        DLT_OK(dlock_unlock(late, &dlt_err));
        dlock_free(heir);
    }
    dlock_free(giver);
    dlock_free(late);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* The process that took it is gone; what it did not renew goes on. */
void dlt_case_adopt_from_the_dead(struct dlt_run *run)
{
    struct dlock_client *client = adopting_client(run);
    int64_t ttl_ms = dlt_kept_ttl_ms(run);
    struct dlock_handle *heir = dlt_lock(run, client, "x", ttl_ms),
                        *late = dlt_lock(run, client, "x", 0);
    struct dlt_child giver;
    uint64_t fence = 0;

    dlt_child_start(&giver, run, NULL);
    dlt_child_want(&giver, "OK", "new 0 %sx %" PRId64 " 0", run->prefix, ttl_ms);
    dlt_child_want(&giver, "OK", "lock 0 15000");
    fence = strtoull(giver.reply + 2, NULL, 10);
    dlt_child_want(&giver, "OK", "token 0");
    DLT_OK(dlock_adopt(heir, giver.reply + 3, &dlt_err));
    dlt_child_kill(&giver);
    DLT_CHECK(dlock_fence(heir) >= fence, "fence %" PRIu64 " after %" PRIu64, dlock_fence(heir),
              fence);
    dlt_sleep_ms(dlt_ttl(client, ttl_ms) + 400);
    DLT_STATE(heir, DLOCK_STATE_HELD, "the adopted lease was not renewed");
    DLT_STATUS(dlock_trylock(late, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_unlock(heir, &dlt_err));
    DLT_OK(dlock_trylock(late, &dlt_err));
    dlock_free(late);
    dlock_free(heir);
    dlock_client_close(client);
}

/* Through one lease: whoever unlocked left a token that holds nothing, and who adopts the token of
 * a later thread has a number above that thread's. */
void dlt_case_adopt_after_a_handoff(struct dlt_run *run)
{
    struct dlock_client *client = adopting_client(run), *other = dlt_client(run, NULL);
    struct dlock_handle *turns[] = {dlt_lock(run, client, "x", 0), dlt_lock(run, client, "x", 0),
                                    dlt_lock(run, client, "x", 0)};
    struct dlock_handle *heir = dlt_lock(run, other, "x", 0);
    char token[DLOCK_TOKEN_CHARS];
    struct dlt_waiter waiter;

    DLT_OK(dlock_trylock(turns[0], &dlt_err));
    for (int i = 0; i < 2; i++) {
        dlt_waiter_enter(&waiter, turns[i + 1], DLOCK_EXCLUSIVE, 20000, -1);
        if (i == 1) /* of the thread that was handed the lease */
            token_of(turns[i], token);
        dlt_sleep_ms(2);
        DLT_OK(dlock_unlock(turns[i], &dlt_err));
        DLT_OK(dlt_waiter_join(&waiter));
    }
    DLT_STATUS(dlock_adopt(heir, token, &dlt_err), DLOCK_NOT_HELD);
    DLT_OK(dlock_unlock(turns[2], &dlt_err));

    DLT_OK(dlock_trylock(turns[0], &dlt_err));
    dlt_waiter_enter(&waiter, turns[1], DLOCK_EXCLUSIVE, 20000, -1);
    dlt_sleep_ms(2);
    DLT_OK(dlock_unlock(turns[0], &dlt_err));
    DLT_OK(dlt_waiter_join(&waiter));
    token_of(turns[1], token);
    DLT_OK(dlock_adopt(heir, token, &dlt_err));
    DLT_CHECK(dlock_fence(heir) >= dlock_fence(turns[1]), "fence %" PRIu64 " after %" PRIu64,
              dlock_fence(heir), dlock_fence(turns[1]));
    DLT_OK(dlock_unlock(heir, &dlt_err));
    DLT_STATUS(dlock_unlock(turns[1], &dlt_err), DLOCK_LOST);
    for (int i = 0; i < 3; i++)
        dlock_free(turns[i]);
    dlock_free(heir);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* By another process; and as a reader who stays a reader. */
void dlt_case_adopt_shared(struct dlt_run *run)
{
    struct dlock_client *client = adopting_client(run);
    struct dlock_handle *reader = dlt_lease(run, client, "x", 30000),
                        *late = dlt_lock(run, client, "x", 0);
    char token[DLOCK_TOKEN_CHARS];
    struct dlt_child heir;

    DLT_OK(dlock_tryrdlock(reader, &dlt_err));
    token_of(reader, token);
    dlt_party_start(&heir, run, NULL);
    dlt_child_want(&heir, "OK", "new 0 %sx 30000 1", run->prefix);
    dlt_child_want(&heir, "OK", "adopt 0 %s", token);
    DLT_OK(dlock_tryrdlock(late, &dlt_err));
    DLT_OK(dlock_unlock(late, &dlt_err));
    DLT_STATUS(dlock_trylock(late, &dlt_err), DLOCK_BUSY);
    dlt_child_want(&heir, "HELD", "state 0");
    dlt_child_want(&heir, "OK", "unlock 0");
    DLT_OK(dlock_trylock(late, &dlt_err));
    DLT_STATUS(dlock_renew(reader, 0, &dlt_err), DLOCK_LOST);
    dlt_child_stop(&heir);
    dlock_free(reader);
    dlock_free(late);
    dlock_client_close(client);
}

static void refusals(const struct dlt_run *run, struct dlock_client *client)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "0123456789abcdef0123456789abcde",
                                      "0123456789abcdef0123456789abcdef0",
                                      "0123456789abcdef0123456789abcdeg",
                                      "0x23456789abcdef0123456789abcdef"};
    struct dlock_handle *holder = dlt_lock(run, client, "x", 0),
                        *heir = dlt_lock(run, client, "x", 0);
    struct dlock_handle *elsewhere = dlt_lock(run, client, "y", 0);
    char token[DLOCK_TOKEN_CHARS];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        DLT_STATUS(dlock_adopt(heir, bad[i], &dlt_err), DLOCK_INVALID);
    DLT_OK(dlock_trylock(holder, &dlt_err));
    token_of(holder, token);
    DLT_STATUS(dlock_adopt(heir, "0123456789abcdef0123456789abcdef", &dlt_err), DLOCK_NOT_HELD);
    DLT_STATUS(dlock_adopt(elsewhere, token, &dlt_err), DLOCK_NOT_HELD);
    DLT_STATUS(dlock_adopt(holder, token, &dlt_err), DLOCK_ALREADY);
    DLT_STATE(holder, DLOCK_STATE_HELD, "a refusal cost the lock");
    DLT_OK(dlock_unlock(holder, &dlt_err));
    DLT_STATUS(dlock_adopt(heir, token, &dlt_err), DLOCK_NOT_HELD);
    DLT_STATE(heir, DLOCK_STATE_FREE, "a refusal made it %s", dlt_state_name(dlock_state(heir)));
    DLT_OK(dlock_trylock(heir, &dlt_err)); /* none of them took the name */
    dlock_free(holder);
    dlock_free(heir);
    dlock_free(elsewhere);
}

void dlt_case_adopt_or_a_refusal(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *holder = NULL, *heir = NULL;
    char token[DLOCK_TOKEN_CHARS];

    if (!dlt_ends_with_claim(client) && dlt_can_inspect(client)) {
        refusals(run, client);
    } else {
        holder = dlt_lock(run, client, "x", 0);
        heir = dlt_lock(run, client, "x", 0);
        DLT_OK(dlock_trylock(holder, &dlt_err));
        token_of(holder, token);
        DLT_STATUS(dlock_adopt(heir, token, &dlt_err), DLOCK_UNSUPPORTED);
        dlock_free(holder);
        dlock_free(heir);
    }
    dlock_client_close(client);
}

/* The handle of a permit's heir need not say the limit: it asks for no other permit. */
void dlt_case_adopt_permit(struct dlt_run *run)
{
    struct dlock_client *client = adopting_client(run), *other = dlt_client(run, NULL);
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 30000,
                                    .limit = 2,
                                    .renew = DLOCK_OFF};
    struct dlock_handle *first = dlt_lock_with(run, client, "x", &options);
    struct dlock_handle *second = dlt_lock_with(run, client, "x", &options);
    struct dlock_handle *heir = dlt_lock(run, other, "x", 30000);
    struct dlock_handle *late = dlt_lock_with(run, other, "x", &options);
    char token[DLOCK_TOKEN_CHARS];

    DLT_OK(dlock_trylock(first, &dlt_err));
    DLT_OK(dlock_trylock(second, &dlt_err));
    token_of(second, token);
    DLT_OK(dlock_adopt(heir, token, &dlt_err));
    DLT_CHECK(dlock_permit(heir) == 1, "the adopted permit is %u, want 1", dlock_permit(heir));
    DLT_OK(dlock_renew(heir, 0, &dlt_err));
    DLT_STATUS(dlock_trylock(late, &dlt_err), DLOCK_BUSY);
    if ((dlock_client_caps(other) & DLOCK_CAP_DOWNGRADE) != 0)
        DLT_STATUS(dlock_downgrade(heir, &dlt_err), DLOCK_INVALID);
    DLT_OK(dlock_unlock(heir, &dlt_err));
    DLT_OK(dlock_trylock(late, &dlt_err));
    DLT_CHECK(dlock_permit(late) == 1, "the permit that came back is %u, want 1",
              dlock_permit(late));
    dlock_free(first);
    dlock_free(second);
    dlock_free(late);
    DLT_OK(dlock_trylock(heir, &dlt_err)); /* a lock again, as its options say */
    dlock_free(heir);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Two who use one token: the store cannot tell them apart, but when one has released it, the other
 * learns that, and does not touch who comes next. */
void dlt_case_adopt_twice(struct dlt_run *run)
{
    struct dlock_client *client = adopting_client(run);
    struct dlock_handle *giver = dlt_lease(run, client, "x", 30000),
                        *next = dlt_lock(run, client, "x", 0);
    struct dlock_handle *heirs[2] = {dlt_lock(run, client, "x", 0), dlt_lock(run, client, "x", 0)};
    char token[DLOCK_TOKEN_CHARS];

    DLT_OK(dlock_trylock(giver, &dlt_err));
    token_of(giver, token);
    for (int i = 0; i < 2; i++)
        DLT_OK(dlock_adopt(heirs[i], token, &dlt_err));
    DLT_OK(dlock_unlock(heirs[0], &dlt_err));
    DLT_STATUS(dlock_renew(heirs[1], 0, &dlt_err), DLOCK_LOST);
    DLT_OK(dlock_timedlock(next, 10000, &dlt_err));
    DLT_CHECK(dlock_fence(giver) == 0 || dlock_fence(next) > dlock_fence(giver),
              "fence %" PRIu64 " came after %" PRIu64, dlock_fence(next), dlock_fence(giver));
    DLT_STATUS(dlock_adopt(heirs[1], token, &dlt_err), DLOCK_LOST);
    DLT_STATUS(dlock_unlock(heirs[1], &dlt_err), DLOCK_LOST);
    DLT_STATUS(dlock_unlock(giver, &dlt_err), DLOCK_LOST);
    DLT_OK(dlock_renew(next, 0, &dlt_err));
    for (int i = 0; i < 2; i++)
        dlock_free(heirs[i]);
    dlock_free(giver);
    dlock_free(next);
    dlock_client_close(client);
}
