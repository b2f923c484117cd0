/* SPDX-License-Identifier: MIT */
/*
 * observe.h - who holds a name, and when that changes: the leader of an election, for example
 * (C20).
 */
#ifndef DLOCK_OBSERVE_H
#define DLOCK_OBSERVE_H

#include <dlock/dlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Waits until the holder of a name is another than the one with the fencing token known_fence.
 *
 * known_fence: the fence of the holder that the caller knows; 0: none, the caller knows the name to
 * be free, or knows nothing.
 * timeout_ms: how long to wait, or DLOCK_FOREVER. 0: one question.
 * fn: called once for each holder then, with DLOCK_OK only. It must not call into the same client.
 * A next call takes the holder's fence as its known_fence.
 *
 *   DLOCK_OK            another holder
 *   DLOCK_NOT_HELD      the holder that was seen is gone, and nobody holds the name
 *   DLOCK_TIMEOUT       no change; with known_fence 0: the name is free
 *   DLOCK_UNSUPPORTED   the store has no DLOCK_CAP_FENCE, or cannot be inspected
 *   DLOCK_CLOSED        dlock_client_shutdown ended the wait
 *   others              as dlock_client_inspect
 *
 * A semaphore, or readers, may have several holders. While the one with known_fence is among them,
 * there is no change. When it is gone, fn is called for all others. So a caller follows one holder
 * after the other; it does not see others come and go.
 *
 * The store is asked again and again, after pauses that grow to poll_max: a change that lasts no
 * longer may be missed, but never the last one. A store that fails is asked again until the
 * deadline, as by dlock_acquire. Threads of one client that hand a lease to each other are one
 * holder here.
 */
DLOCK_API enum dlock_status dlock_observe(struct dlock_client *client, const void *name,
                                          size_t name_len, uint64_t known_fence, int64_t timeout_ms,
                                          dlock_holder_fn *fn, void *arg, struct dlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
