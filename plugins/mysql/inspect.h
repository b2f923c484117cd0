/* SPDX-License-Identifier: MIT */
/* inspect.h - the holders of a name, or of many. */
#ifndef MY_INSPECT_H
#define MY_INSPECT_H

#include "connection.h"

/* Of the name in conn->input; */
enum dlock_status my_inspect(struct my_connection *conn, dlock_holder_fn *fn, void *arg,
                             struct dlock_error *err);
/* of the names that begin with it. */
enum dlock_status my_inspect_list(struct my_connection *conn, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err);

#endif
