/* SPDX-License-Identifier: MIT */
/* row_watch.h - strategies row and insert: waiting for a name. */
#ifndef MY_ROW_WATCH_H
#define MY_ROW_WATCH_H

#include "session.h"

enum dlock_status my_watch(struct my_session *session, const struct dlock_request *req,
                           struct dlock_error *err);

#endif
