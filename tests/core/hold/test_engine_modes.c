/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/renewer.c core/api/adopt.c */
/* Downgrading a claim (C12), and adopting one, whatever becomes of the messages. Virtual time. */
#include "engine.h"

#include <criterion/criterion.h>

static struct dlt_engine engine;
static struct dlock_client *rival;
static struct dlock_handle *lock;

static void set_up(void)
{
    dlt_engine_open(&engine, "modes", NULL);
    rival = dlt_engine_rival(&engine);
    lock = dlt_engine_lock(&engine, "a", NULL);
}

static void tear_down(void)
{
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 60000), DLOCK_OK);
    dlock_free(lock);
    dlock_client_close(rival);
}

TestSuite(modes, .init = set_up, .fini = tear_down);

static void take(void)
{
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
}

Test(modes, a_downgraded_lock_lets_readers_in_and_no_writer)
{
    struct dlock_handle *reader, *writer = NULL;

    take();
    cr_assert_eq(dlt_do(&engine, DLT_DOWNGRADE, lock, 0), DLOCK_OK);
    reader = dlt_rival_hold(rival, "a", DLOCK_SHARED);
    cr_assert_eq(dlock_new(rival, "a", 1, NULL, &writer, NULL), DLOCK_OK);
    cr_assert_eq(dlock_trylock(writer, NULL), DLOCK_BUSY);
    cr_assert_eq(dlt_do(&engine, DLT_DOWNGRADE, lock, 0), DLOCK_OK, "again");
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    dlock_free(reader);
    dlock_free(writer);
}

Test(modes, a_reader_of_the_same_client_gets_in_by_a_downgrade)
{
    struct dlock_handle *reader = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call wait;

    take();
    dlt_call_start(&wait, &engine, DLT_RDLOCK, reader, 0);
    dlt_engine_run(&engine, 100);
    cr_assert_eq(dlt_do(&engine, DLT_DOWNGRADE, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 100), DLOCK_OK);
    dlock_free(reader);
}

Test(modes, C4_a_downgrade_that_got_lost_is_repeated_by_the_renewer)
{
    struct dlock_handle *reader;
    struct memory_seen seen;

    take();
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LOST_REQUEST, (struct memory_fault){0});
    cr_assert_eq(dlt_do(&engine, DLT_DOWNGRADE, lock, 0), DLOCK_UNKNOWN);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_DOUBTFUL);
    dlt_engine_run(&engine, 1000);
    cr_assert_eq(memory_hooks_last("modes", MEMORY_RENEW, &seen), 1);
    cr_assert_eq(seen.flags, DLOCK_REQ_DOWNGRADE);
    reader = dlt_rival_hold(rival, "a", DLOCK_SHARED);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
    dlock_free(reader);
}

Test(modes, downgrade_needs_a_lock_that_is_held)
{
    cr_assert_eq(dlt_do(&engine, DLT_DOWNGRADE, lock, 0), DLOCK_NOT_HELD);
    take();
    cr_assert_eq(dlock_client_break(rival, "a", 1, NULL, NULL), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_DOWNGRADE, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
}

static void token_of(const struct dlock_handle *from, char token[DLOCK_TOKEN_CHARS])
{
    cr_assert_eq(dlock_token(from, token, DLOCK_TOKEN_CHARS), 32);
}

Test(modes, a_lease_is_adopted_with_its_fence_and_renewed)
{
    struct dlock_handle *theirs = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    char token[DLOCK_TOKEN_CHARS];

    token_of(theirs, token);
    cr_assert_eq(dlock_adopt(lock, token, NULL), DLOCK_OK);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
    cr_assert_eq(dlock_fence(lock), dlock_fence(theirs) + 31, "above every turn of the lease");
    for (int i = 0; i < 600; i++)
        dlt_engine_advance(&engine, 100);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlock_renew(theirs, 0, NULL), DLOCK_LOST);
    dlock_free(theirs);
}

Test(modes, a_shared_lease_is_adopted_as_one)
{
    struct dlock_handle *theirs = dlt_rival_hold(rival, "a", DLOCK_SHARED), *reader;
    char token[DLOCK_TOKEN_CHARS];

    token_of(theirs, token);
    cr_assert_eq(dlock_adopt(lock, token, NULL), DLOCK_OK);
    cr_assert_eq(dlock_fence(lock), dlock_fence(theirs), "C6: a reader's number is nobody's turn");
    reader = dlt_rival_hold(rival, "a", DLOCK_SHARED);
    dlock_free(reader);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    dlock_free(theirs);
}

Test(modes, what_is_not_there_is_not_adopted)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    cr_assert_eq(dlock_adopt(lock, "00112233445566778899aabbccddeeff", &err), DLOCK_NOT_HELD);
    cr_assert_eq(dlock_adopt(lock, "0011", &err), DLOCK_INVALID);
    cr_assert_eq(dlock_adopt(lock, "00112233445566778899aabbccddeefg", &err), DLOCK_INVALID);
    cr_assert_eq(dlock_adopt(lock, NULL, &err), DLOCK_INVALID);
    take();
    cr_assert_eq(dlock_adopt(lock, "00112233445566778899aabbccddeeff", &err), DLOCK_ALREADY);
    cr_assert_eq(dlock_client_break(rival, "a", 1, NULL, NULL), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlock_adopt(lock, "00112233445566778899aabbccddeeff", &err), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
}

Test(modes, C4_an_adoption_without_an_answer_leaves_the_lease_alone)
{
    struct dlock_handle *theirs = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    char token[DLOCK_TOKEN_CHARS];

    token_of(theirs, token);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LOST_REPLY, (struct memory_fault){0});
    cr_assert_eq(dlock_adopt(lock, token, NULL), DLOCK_UNKNOWN);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    cr_assert_eq(dlock_adopt(lock, token, NULL), DLOCK_OK);
    dlock_free(theirs);
}

Test(modes, C1_a_lease_is_adopted_in_the_mode_it_has)
{
    struct dlock_handle *theirs, *reader = NULL;
    char token[DLOCK_TOKEN_CHARS];
    struct memory_seen seen;

    take();
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LOST_REQUEST, (struct memory_fault){0});
    cr_assert_eq(dlt_do(&engine, DLT_DOWNGRADE, lock, 0), DLOCK_UNKNOWN);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    theirs = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    token_of(theirs, token);
    cr_assert_eq(dlock_adopt(lock, token, NULL), DLOCK_OK);
    cr_assert_eq(memory_hooks_last("modes", MEMORY_RENEW, &seen), 1);
    cr_assert_leq(seen.deadline_ns, engine.now_ns, "REN-5: how long it is valid is not known");
    cr_assert_eq(seen.flags, DLOCK_REQ_ADOPT, "REN-6");
    cr_assert_eq(dlock_new(rival, "a", 1, NULL, &reader, NULL), DLOCK_OK);
    cr_assert_eq(dlock_tryrdlock(reader, NULL), DLOCK_BUSY, "it is exclusive");
    dlock_free(reader);
    dlock_free(theirs);
}

static void *adopt_main(void *arg)
{
    return (void *)(uintptr_t)dlock_adopt(lock, arg, NULL);
}

Test(modes, free_waits_for_an_adoption)
{
    struct dlock_handle *theirs = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    char token[DLOCK_TOKEN_CHARS];
    struct dlt_call freeing;
    pthread_t thread;

    token_of(theirs, token);
    dlt_fault(&engine, MEMORY_INSPECT, MEMORY_HELD_REPLY, (struct memory_fault){0});
    cr_assert_eq(pthread_create(&thread, NULL, adopt_main, token), 0);
    dlt_settle();
    cr_assert_eq(memory_hooks_held("modes"), 1);
    dlt_call_start(&freeing, &engine, DLT_FREE, lock, 0);
    cr_assert_eq(freeing.done, 0, "the adoption still uses the handle");
    memory_hooks_go("modes");
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(dlt_call_finish(&freeing, 100), DLOCK_OK);
    lock = NULL;
    dlock_free(theirs);
}
