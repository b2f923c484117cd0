/* SPDX-License-Identifier: MIT */
/*
 * wait_any.h - waiting in the store for all attempts on which no thread waits: by the slot
 * wait_any, where the plugin has it. The threads of driver.h call it, one at a time.
 */
#ifndef DL_WAIT_ANY_H
#define DL_WAIT_ANY_H

#include "hold/handle.h"

#define DL_WAIT_ANY_ROOM 64

/* Attempts for which another try is worth it. */
struct dl_wait_any_news {
    uint32_t waiters[DL_WAIT_ANY_ROOM];
    size_t count;
};

/* Whether the plugin of the client has the slot, and can watch. */
bool dl_wait_any_is_there(struct dlock_client *client);

/*
 * Waits until until_ns, until the store has news, or until the first thread is roused. Releases the
 * mutex meanwhile. false: did not wait: no attempt wants it, or the store cannot tell now.
 */
bool dl_wait_any_locked(struct dlock_client *client, int64_t until_ns, int64_t now_ns,
                        struct dl_wait_any_news *news);

#endif
