/* SPDX-License-Identifier: MIT */
/* orphan.h - leases of a name whose process has died (life.h). */
#ifndef SQLITE_ORPHAN_H
#define SQLITE_ORPHAN_H

#include "name.h"

#define SQ_ORPHAN_POLL_NS (20 * DL_NS_PER_MS) /* the first waiter polls so often */

/* *found: the name has one. Needs no transaction and no sqlite_name_find. */
int sqlite_orphan_find(struct sqlite_name *name, bool *found);

/* In a write transaction, of a name that was found: ends them. *ended: there were some. The caller
 * advances and saves the name. */
int sqlite_orphan_end(struct sqlite_name *name, bool *ended);

#endif
