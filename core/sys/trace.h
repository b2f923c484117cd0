/* SPDX-License-Identifier: MIT */
/*
 * trace.h - a line for each call of a plugin's slot, for people who write or search a plugin.
 *
 * DLOCK_TRACE in the environment says where: "stderr", or the absolute path of a file to append to.
 * It is read once in a process, and not in a program with more rights than its caller. Without it
 * each function returns at once. A line that cannot be written is dropped: a pipe without a reader
 * raises no SIGPIPE, nor a file that is full SIGXFSZ. A line has the process, the thread and
 * CLOCK_BOOTTIME in seconds:
 *
 *     dlock-trace 4711/4712 8123.512345 redis trylock 0a1b2c "job" token=5f0c21aa.. -> BUSY (0.412
 * ms)
 *
 * Owner tokens are cut to four bytes: the line gives nobody a lock. No function here is given a
 * password.
 */
#ifndef DL_TRACE_H
#define DL_TRACE_H

#include <dlock/types.h>
#include <stdint.h>

/* One line that is being made. */
struct dl_trace {
    int fd; /* -1: no trace is wanted */
    int64_t begin_ns;
    const char *plugin, *slot;
    const void *session;
    size_t used;
    char *text;
};

/* session: shown as a short number. */
void dl_trace_begin(struct dl_trace *trace, const char *plugin, const char *slot,
                    const void *session);

/* Adds a word. */
__attribute__((format(printf, 2, 3))) void dl_trace_add(struct dl_trace *trace, const char *format,
                                                        ...);

/* Adds bytes, quoted and escaped. */
void dl_trace_quote(struct dl_trace *trace, const void *bytes, size_t len);

/* Adds a token of 16 bytes, cut. */
void dl_trace_token(struct dl_trace *trace, const unsigned char *token);

/* Adds a deadline on CLOCK_BOOTTIME as the time that is left. */
void dl_trace_deadline(struct dl_trace *trace, int64_t deadline_ns);

/* Writes what there is: the call is about to wait, and may not return. */
void dl_trace_waits(struct dl_trace *trace);

/* Adds the answer, with the text of err (NULL: none) unless it is OK, and writes the line. */
void dl_trace_end(struct dl_trace *trace, enum dlock_status status, const struct dlock_error *err);

/* Adds that the call has no status, and writes the line. */
void dl_trace_done(struct dl_trace *trace);

#endif
