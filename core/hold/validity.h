/* SPDX-License-Identifier: MIT */
/*
 * validity.h - how long a lease may be believed. Pure.
 *
 * The store counts a lease from the moment at which it executes the request. The client counts from
 * a moment before the request was sent, and subtracts the drift that two clocks may have, so that
 * the client always stops believing first. (The rule of the Redlock description: ttl less elapsed
 * less drift.)
 */
#ifndef DL_VALIDITY_H
#define DL_VALIDITY_H

#include <stdbool.h>
#include <stdint.h>

/* 1 % of the lease and 2 ms. */
int64_t dl_validity_drift_ns(int64_t lease_ms);

/* base_ns + lease - drift; base_ns: a moment before the first byte of the request was sent (C1). */
int64_t dl_validity_until_ns(int64_t base_ns, int64_t lease_ms);

/* C3: the time that must be left so that a grant is of use: max(10 ms, lease/10). */
int64_t dl_validity_least_ns(int64_t lease_ms);

/* Whether more than that is left. */
bool dl_validity_enough(int64_t now_ns, int64_t until_ns, int64_t lease_ms);

#endif
