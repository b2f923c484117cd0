/* SPDX-License-Identifier: MIT */
/*
 * ruler.h - judges upper bounds of time. A test asks it, and never compares a duration itself.
 *
 * A busy machine takes time away from a test. A sampler, a process that sleeps again and again for
 * some milliseconds, measures how much: how late it was at most, all stalls of a tenth of a second
 * and more, and the growth of "some" in /proc/pressure/cpu (time in which a task of any program
 * waited for a processor). The pressure counts up to DLT_RULER_WAKES times the greatest lateness:
 * beside programs that keep all processors busy it grows like the clock, and a call that sleeps
 * loses little by that. A call is late only by time that the machine left to the test. If the
 * machine took more than the bound itself, the measurement says nothing: it is void.
 *
 * The sampler sees that its starter is stopped, too. It is in a process group of its own, ends with
 * its starter, has none of its descriptors, and no wait() sees it. Forked children read what it
 * measures. A test may have threads or none, and forks as it likes.
 *
 * Lower bounds need no ruler: no machine makes a call return early.
 */
#ifndef DLT_RULER_H
#define DLT_RULER_H

#include <stdint.h>
#include <sys/types.h>

#define DLT_RULER_WAKES 20 /* of threads and servers, one after the other, in a call */

enum dlt_ruling { DLT_IN_TIME, DLT_LATE, DLT_VOID };

/* What was measured, for a message. */
struct dlt_measure {
    double took_ms, stolen_ms;
    char text[160]; /* "3200 ms, of which the machine took 150; at most 3000" */
};

/* Starts a sampler, unless this process or one that it was forked from, in the same group, has one
 * that runs. It begins before what is to be judged: of the time before, the machine is taken to
 * have stolen nothing. If it cannot be started, the ruler judges without an excuse.
 * Async-signal-safe. */
void dlt_ruler_start(void);

/* A sampler whose measurements are in a file, which others can open. starter > 0: makes the file,
 * and watches until that process has ended; 0: opens it. Returns 0: errno. */
int dlt_ruler_open(const char *path, pid_t starter);

/* CLOCK_BOOTTIME. */
int64_t dlt_ruler_now_ns(void);

/* Whether end_ns was at most most_ms after begin_ns, both of CLOCK_BOOTTIME. Waits until the
 * sampler has seen end_ns. measure may be NULL. */
enum dlt_ruling dlt_ruler_judge(int64_t begin_ns, int64_t end_ns, int64_t most_ms,
                                struct dlt_measure *measure);

/* The rules themselves, without a clock. */
int64_t dlt_ruler_stolen(int64_t late_ns, int64_t stalls_ns, int64_t pressure_ns);
enum dlt_ruling dlt_ruling(int64_t took_ns, int64_t stolen_ns, int64_t most_ns);

/* dlt_ruler_judge until now, for tests that cannot be repeated. Returns 0 only for a late call. A
 * void measurement prints a line "# void: ..." of TAP, which scripts/test counts, and a late one
 * "# late: ...". A program that calls one of these has a sampler from its beginning. */
int dlt_within(int64_t begin_ns, int64_t most_ms);

/* The same for what ended at end_ns. */
int dlt_ended_within(int64_t begin_ns, int64_t end_ns, int64_t most_ms);

/* The same for what took took_ms, by any clock, and has ended just now. */
int dlt_took_within(int64_t took_ms, int64_t most_ms);

/* What the thread's last dlt_within measured. */
const char *dlt_within_text(void);

#endif
