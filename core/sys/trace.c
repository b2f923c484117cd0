/* SPDX-License-Identifier: MIT */
#include "sys/trace.h"
#include "lib/text.h"
#include "lib/thread.h"
#include "sys/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOKEN_BYTES 4 /* that are printed */
#define LINE_SIZE   1200

static pthread_once_t opened = PTHREAD_ONCE_INIT;
static int trace_fd = -1;

static void trace_open(void)
{
    const char *where = secure_getenv("DLOCK_TRACE");

    if (where == NULL)
        return;
    if (strcmp(where, "stderr") == 0)
        trace_fd = STDERR_FILENO;
    else if (where[0] == '/')
        trace_fd = open(where, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void line_begin(struct dl_trace *trace, int64_t now_ns)
{
    trace->used = 0;
    dl_trace_add(trace, "dlock-trace %d/%d %lld.%06lld %s %s", (int)getpid(), (int)gettid(),
                 (long long)(now_ns / DL_NS_PER_S), (long long)(now_ns % DL_NS_PER_S / 1000),
                 trace->plugin, trace->slot);
    dl_trace_add(trace, "%06x", (unsigned)((uintptr_t)trace->session >> 4 & 0xffffff));
}

/* One write, so that lines of several processes do not mix. */
static void line_write(struct dl_trace *trace)
{
    struct dl_signal_guard pipe, size;
    ssize_t written;

    if (trace->used >= LINE_SIZE)
        trace->used = LINE_SIZE - 1;
    trace->text[trace->used++] = '\n';
    dl_signal_guard_begin(&pipe, SIGPIPE);
    dl_signal_guard_begin(&size, SIGXFSZ);
    written = write(trace->fd, trace->text, trace->used);
    (void)written; /* a trace that nobody takes any more is no failure of the call */
    dl_signal_guard_end(&size);
    dl_signal_guard_end(&pipe);
}

void dl_trace_begin(struct dl_trace *trace, const char *plugin, const char *slot,
                    const void *session)
{
    (void)pthread_once(&opened, trace_open);
    trace->fd = trace_fd;
    if (trace->fd < 0)
        return;
    trace->text = malloc(LINE_SIZE);
    if (trace->text == NULL) {
        trace->fd = -1;
        return;
    }
    trace->plugin = plugin;
    trace->slot = slot;
    trace->session = session;
    trace->begin_ns = dl_clock_now(&dl_clock_boottime);
    line_begin(trace, trace->begin_ns);
}

void dl_trace_add(struct dl_trace *trace, const char *format, ...)
{
    va_list args;
    int len;

    if (trace->fd < 0 || trace->used + 2 >= LINE_SIZE)
        return;
    if (trace->used > 0)
        trace->text[trace->used++] = ' ';
    va_start(args, format);
    len = vsnprintf(trace->text + trace->used, LINE_SIZE - trace->used, format, args);
    va_end(args);
    if (len > 0)
        trace->used += (size_t)len;
    if (trace->used >= LINE_SIZE)
        trace->used = LINE_SIZE - 1;
}

void dl_trace_quote(struct dl_trace *trace, const void *bytes, size_t len)
{
    char text[300];

    if (trace->fd >= 0)
        dl_trace_add(trace, "\"%s\"", dl_printable_escape(text, sizeof text, bytes, len));
}

void dl_trace_token(struct dl_trace *trace, const unsigned char *token)
{
    char digits[2 * TOKEN_BYTES + 1];

    if (trace->fd < 0)
        return;
    dl_hex_encode(digits, token, TOKEN_BYTES);
    dl_trace_add(trace, "token=%s..", digits);
}

void dl_trace_deadline(struct dl_trace *trace, int64_t deadline_ns)
{
    if (trace->fd >= 0)
        dl_trace_add(trace, "deadline=%+lldms",
                     (long long)((deadline_ns - trace->begin_ns) / DL_NS_PER_MS));
}

void dl_trace_waits(struct dl_trace *trace)
{
    if (trace->fd < 0)
        return;
    dl_trace_add(trace, "...");
    line_write(trace);
    line_begin(trace, dl_clock_now(&dl_clock_boottime));
}

void dl_trace_done(struct dl_trace *trace)
{
    if (trace->fd < 0)
        return;
    dl_trace_add(trace, "(%.3f ms)",
                 (double)(dl_clock_now(&dl_clock_boottime) - trace->begin_ns) / DL_NS_PER_MS);
    line_write(trace);
    free(trace->text);
    trace->fd = -1;
}

void dl_trace_end(struct dl_trace *trace, enum dlock_status status, const struct dlock_error *err)
{
    if (trace->fd < 0)
        return;
    dl_trace_add(trace, "-> %s", dlock_status_name((int)status));
    if (status != DLOCK_OK && err != NULL && err->message[0] != '\0')
        dl_trace_add(trace, "(%s)", err->message);
    dl_trace_done(trace);
}
