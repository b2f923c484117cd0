/* SPDX-License-Identifier: MIT */
/* row_inspect.h - strategy row: the holders of a name, or of many, and the queue of a name. */
#ifndef PG_ROW_INSPECT_H
#define PG_ROW_INSPECT_H

#include "session.h"

enum dlock_status pg_inspect_name(struct pg_session *session, const unsigned char *name,
                                  uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                  void *arg, struct dlock_error *err);
/* In the order of the names, page by page; each page has as long as the deadline gives the first.
 */
enum dlock_status pg_inspect_list(struct pg_session *session, const unsigned char *prefix,
                                  uint32_t prefix_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                  void *arg, struct dlock_error *err);
enum dlock_status pg_inspect_waiters(struct pg_session *session, const unsigned char *name,
                                     uint32_t name_len, int64_t deadline_ns, dlock_waiter_fn *fn,
                                     void *arg, struct dlock_error *err);

#endif
