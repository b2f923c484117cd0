/* SPDX-License-Identifier: MIT */
/*
 * probe.h - static probes (USDT) of the provider "dlock", for tracers: perf, bpftrace, SystemTap. A
 * probe that nobody traces is a nop, and what it takes to have its arguments at hand.
 *
 * The first three arguments of each are the handle, the name (without a NUL at its end) and the
 * length of the name; docs/operations.md has the others. They are an interface: appended to, never
 * changed. Built without <sys/sdt.h> there are none.
 */
#ifndef DL_PROBE_H
#define DL_PROBE_H

#ifdef DLOCK_PROBES
#include <sys/sdt.h>
#define DL_PROBE(probe, lock, a, b) \
    DTRACE_PROBE5(dlock, probe, lock, &(lock)->name->bytes[0], (lock)->name->len, a, b)
#else
#define DL_PROBE(probe, lock, a, b) ((void)(lock), (void)(a), (void)(b))
#endif

#endif
