/* SPDX-License-Identifier: MIT */
/* probe.h - processes that tell the runner about a store, which opens nothing itself. */
#ifndef DLT_PROBE_H
#define DLT_PROBE_H

#include <stdint.h>

/* Prints three lines: capabilities in hex, the step of the store's clock (that of its ttls), the
 * greatest ttl (0: as dlock_client_ttl_ms says), 1 if all locks of a client have one ttl that is
 * longer than the cases need; the URI without secrets; why the store grants nothing yet ("": it
 * grants). strict: only the first two of these numbers, and not the clock of a store of which all
 * ttls are one. Or why it cannot be opened. Returns the exit status. */
int dlt_probe_main(int strict);

/* Prints how many clients can be open at once, up to `most`. */
int dlt_room_main(int64_t most);

#endif
