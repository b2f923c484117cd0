/* SPDX-License-Identifier: MIT */
/*
 * set.h - sets: several names that are held together: all of them, or none (C18).
 *
 * A set acquires its names one after the other, in the order of their bytes, whatever order the
 * application writes. So users of sets never wait for each other in a circle. A user that holds a
 * name by another handle while it waits for a set has no such protection.
 *
 * A set is an owner, as a handle is. It is not recursive, whatever the option says.
 */
#ifndef DLOCK_SET_H
#define DLOCK_SET_H

#include <dlock/dlock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLOCK_SET_MAX 32 /* names in a set */

struct dlock_set;

/*
 * Makes a set. Sends no request.
 *
 * names: 1 to DLOCK_SET_MAX different names. lens: their lengths; NULL: each ends with a NUL.
 * options: of each name; may be NULL.
 * out: set with DLOCK_OK only. Free the set with dlock_set_free.
 *
 * As dlock_new. DLOCK_INVALID: also a name that is twice in the set, no name, or too many.
 */
DLOCK_API DLOCK_MUST enum dlock_status
dlock_set_new(struct dlock_client *client, const char *const *names, const size_t *lens,
              size_t count, const struct dlock_options *options, struct dlock_set **out,
              struct dlock_error *err);

/* As dlock_free. All unlocks together take two op_timeouts at most if the store gives no answer. */
DLOCK_API void dlock_set_free(struct dlock_set *set);

/*
 * Acquires all names, or none. All of them share the timeout.
 *
 *   DLOCK_OK        all are held, and each is valid as dlock_acquire promises
 *   others          as dlock_acquire, for the first name that was not acquired, which the text
 *                   names. Those before it were given back
 *   DLOCK_UNKNOWN   also, whatever the others say: a name could not be given back. At worst it
 *                   stays taken for one ttl. The text has the reason of both
 *   DLOCK_CONFIG    also: where leases live in sessions (DLOCK_CAP_SESSION), there are more names
 *                   than `connections`
 *
 * A name whose lease ends while the call waits for the others is acquired again, with all others,
 * until the deadline; its loss gives a notice all the same. Against a store without an answer the
 * call takes up to 3 x op_timeout.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_set_acquire(struct dlock_set *set,
                                                         enum dlock_mode mode, int64_t timeout_ms,
                                                         struct dlock_error *err);

/*
 * Releases all names, also those that are still held after a loss.
 *
 *   DLOCK_OK         all released
 *   DLOCK_LOST       one of them was lost before. The loss is acknowledged, and the set is free
 *   DLOCK_NOT_HELD   nothing to release
 *   others           as dlock_unlock. Once the store gives no answer, it is not asked for the rest
 *                    of the names, which end with their leases. The call may be repeated
 */
DLOCK_API enum dlock_status dlock_set_unlock(struct dlock_set *set, struct dlock_error *err);

/* As dlock_renew, for each name, until one of them is not DLOCK_OK. */
DLOCK_API DLOCK_MUST enum dlock_status dlock_set_renew(struct dlock_set *set, int64_t ttl_ms,
                                                       struct dlock_error *err);

/* As dlock_cancel and dlock_cancel_reset. */
DLOCK_API void dlock_set_cancel(struct dlock_set *set);
DLOCK_API void dlock_set_cancel_reset(struct dlock_set *set);

/*
 * State and validity of a set without I/O, async-signal-safe. The loss of one name is the loss of
 * the set; the other names stay held, and are renewed, until dlock_set_unlock.
 */
DLOCK_API enum dlock_state dlock_set_state(const struct dlock_set *set);
DLOCK_API int64_t dlock_set_remaining_ms(const struct dlock_set *set); /* the least of all */

/*
 * The handle of names[index], for dlock_state, dlock_remaining_ms, dlock_fence and dlock_token, and
 * to compare with dlock_notice.lock, where a loss of this name is told. NULL: there is no such
 * index. The set owns the handle.
 */
DLOCK_API const struct dlock *dlock_set_member(const struct dlock_set *set, size_t index);

#ifdef __cplusplus
}
#endif
#endif
