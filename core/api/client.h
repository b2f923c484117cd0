/* SPDX-License-Identifier: MIT */
/*
 * client.h - the life of a client: open reads the URI, loads the plugin and makes the first
 * session; shutdown ends all calls that wait; close also unlocks and disconnects. A client lives
 * until it is closed and its last handle is freed: the client itself and each of its handles count
 * as one reference. Close waits for calls.
 */
#ifndef DL_API_CLIENT_H
#define DL_API_CLIENT_H

#include "client/client.h"

enum dlock_status dl_client_open(const char *uri, const struct dlock_client_options *options,
                                 struct dlock_client **out, struct dlock_error *err);

/* Connects by a thread of the driver. */
enum dlock_status dl_client_open_start(const char *uri, const struct dlock_client_options *options,
                                       struct dlock_client **out, struct dlock_error *err);

/* For tests: a descriptor instead of a file; host replaces clock and random bytes, or is NULL. */
enum dlock_status dl_client_open_static(const struct dlock_plugin *descriptor, const char *uri,
                                        const struct dlock_client_options *options,
                                        const struct dl_host *host, struct dlock_client **out,
                                        struct dlock_error *err);

void dl_client_shutdown(struct dlock_client *client);
void dl_client_close(struct dlock_client *client);

/* Drops one reference, and frees the client with the last one. Without the mutex. */
void dl_client_unref(struct dlock_client *client);

/*
 * The same in the child of a fork, where no mutex can be used. Another thread of the parent may
 * have been changing what belongs to the client: freed it, and not forgotten it yet. So the child
 * frees only what no such thread changes, and the rest stays.
 */
void dl_client_unref_after_fork(struct dlock_client *client);

/* A call that is not on a handle begins (CLOSED: it may not) and ends. */
enum dlock_status dl_client_call_begin(struct dlock_client *client, struct dlock_error *err);
void dl_client_call_end(struct dlock_client *client);

#endif
