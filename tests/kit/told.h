/* SPDX-License-Identifier: MIT */
/*
 * told.h - do operations of dlock_op_start wait in the store, and not poll (C13, C19)? On any
 * store. Used by programs that run under ThreadSanitizer, too.
 */
#ifndef DLT_TOLD_H
#define DLT_TOLD_H

/* 20 operations wait for five held names. First they make no request, by `requests`, a count of
 * what the store was asked. Then the names are released, and all acquire, one after the other.
 * Three results of TAP. The URI has to keep waiters from asking by themselves: poll_max=60s, long
 * leases. */
void dlt_told_check(const char *uri, unsigned long (*requests)(void *arg), void *arg);

/* An operation that does not wait makes the requests of a blocking call, and no more: it enters no
 * queue. One result. */
void dlt_told_try_check(const char *uri, unsigned long (*requests)(void *arg), void *arg);

#endif
