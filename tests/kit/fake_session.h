/* SPDX-License-Identifier: MIT */
/*
 * fake_session.h - a backend whose locks live in the sessions that took them, and whose server
 * blocks for the waiter: DLOCK_CAP_SESSION and DLOCK_CAP_NATIVE_WAIT, as a database's row locks.
 *
 * It sleeps on the engine's clock, writes down who was asked what, and watches over [SES-1] and
 * [SES-2] itself: fake_session_wrong() names the first breach.
 */
#ifndef FAKE_SESSION_H
#define FAKE_SESSION_H

#include "engine.h"

enum fake_slot {
    FAKE_OPEN,
    FAKE_CLOSE,
    FAKE_TRYLOCK,
    FAKE_LOCK,
    FAKE_RENEW,
    FAKE_UNLOCK,
    FAKE_FORGET,
    FAKE_INTERRUPT,
    FAKE_SLOTS
};

const struct dlock_plugin *fake_session_plugin(void);

/* Before the client is opened: an empty store on this engine's clock. */
void fake_session_begin(struct dlt_engine *engine);

/* The next calls of a slot answer this in place of what they would; OK: no more. executed: but do
 * it nevertheless. */
void fake_session_answer(enum fake_slot slot, enum dlock_status status, bool executed);

/* grant.since_ns is reported, as the moment of the grant. */
void fake_session_confirm(bool since);

/* Opening takes so long; one whose deadline comes before goes on at the next call [OPN-7]. */
void fake_session_login(int64_t ms);

/* Pings hang until their deadline, then answer UNKNOWN; of this name's first byte only. */
void fake_session_hang(char name);

/* Pings sleep until this moment and are then answered, whatever their deadline. */
void fake_session_delay(int64_t until_ns);

/* Waits that are interrupted go on until this moment: what comes free meanwhile they take. */
void fake_session_linger(int64_t until_ns);

/* The server ends the session that holds the name. */
void fake_session_kill(const char *name);

unsigned fake_session_calls(enum fake_slot slot);
unsigned fake_session_open_now(void);
bool fake_session_held(const char *name);
unsigned char fake_session_token(void); /* the first byte of the last attempt's */
const char *fake_session_wrong(void);   /* NULL: nothing */

#endif
