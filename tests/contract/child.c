/* SPDX-License-Identifier: MIT */
#include "child.h"
#include "role.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The store goes by the environment: arguments are for all to see, and it may hold a password. */
_Noreturn static void child_exec(const struct dlt_run *run, const char *defaults, int in, int out)
{
    char slack[24];

    (void)snprintf(slack, sizeof slack, "%" PRId64, run->slack_ms);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(in, 0) != 0 || dup2(out, 1) != 1 || setenv("DLT_URI", run->uri, 1) != 0 ||
        setenv("DLT_SLACK", slack, 1) != 0 ||
        setenv("DLT_DEFAULTS", defaults == NULL ? "" : defaults, 1) != 0)
        _exit(127);
    (void)execle(run->program, "dlock-conformance", "--role", "holder", (char *)NULL, environ);
    _exit(127);
}

static void *party_main(void *arg)
{
    struct dlt_child *child = arg;

    dlt_role_serve(child->run, child->defaults, child->in, child->out);
    (void)fclose(child->in);
    (void)fclose(child->out);
    return NULL;
}

static void child_begin(struct dlt_child *child, int process)
{
    int to[2], from[2];

    DLT_CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0, "no pipe");
    child->pid = process ? fork() : 0;
    DLT_CHECK(child->pid >= 0, "no process");
    if (process && child->pid == 0)
        child_exec(child->run, child->defaults, to[0], from[1]);
    if (process) {
        (void)close(to[0]);
        (void)close(from[1]);
    } else {
        child->in = fdopen(to[0], "r");
        child->out = fdopen(from[1], "w");
        DLT_CHECK(child->in != NULL && child->out != NULL, "no stream");
        child->thread = dlt_thread(party_main, child);
    }
    child->to = fdopen(to[1], "w");
    child->from = fdopen(from[0], "r");
    DLT_CHECK(child->to != NULL && child->from != NULL, "no stream");
    DLT_CHECK(strcmp(dlt_child_hear(child), "ready") == 0, "the process says: %s", child->reply);
}

void dlt_child_start(struct dlt_child *child, const struct dlt_run *run, const char *defaults)
{
    *child = (struct dlt_child){.run = run, .defaults = defaults};
    child_begin(child, 1);
}

void dlt_party_start(struct dlt_child *child, const struct dlt_run *run, const char *defaults)
{
    *child = (struct dlt_child){.run = run, .defaults = defaults};
    child_begin(child, !run->is_private && !run->party_is_thread);
}

__attribute__((format(printf, 2, 0))) static void child_send(struct dlt_child *child,
                                                             const char *format, va_list args)
{
    (void)vfprintf(child->to, format, args);
    (void)fputc('\n', child->to);
    DLT_CHECK(fflush(child->to) == 0, "process %d does not listen", (int)child->pid);
}

void dlt_child_tell(struct dlt_child *child, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    child_send(child, format, args);
    va_end(args);
}

const char *dlt_child_hear(struct dlt_child *child)
{
    DLT_CHECK(fgets(child->reply, sizeof child->reply, child->from) != NULL,
              "process %d went silent", (int)child->pid);
    child->reply[strcspn(child->reply, "\n")] = '\0';
    return child->reply;
}

void dlt_child_want(struct dlt_child *child, const char *want, const char *format, ...)
{
    size_t len = strlen(want);
    va_list args;

    va_start(args, format);
    child_send(child, format, args);
    va_end(args);
    (void)dlt_child_hear(child);
    DLT_CHECK(strncmp(child->reply, want, len) == 0 &&
                  (child->reply[len] == ' ' || child->reply[len] == '\0'),
              "\"%s\" in another process: %s, want %s", format, child->reply, want);
}

struct dlt_waited dlt_child_waited(struct dlt_child *child, const char *want)
{
    struct dlt_waited waited = {0};
    char *end = NULL;

    dlt_child_want(child, want, "waited 0");
    waited.fence = strtoull(child->reply + strlen(want), &end, 10);
    waited.done_ns = strtoll(end, NULL, 10);
    return waited;
}

void dlt_child_signal(const struct dlt_child *child, int signal)
{
    int status = 0;

    DLT_CHECK(child->pid > 0 && kill(child->pid, signal) == 0, "cannot signal process %d",
              (int)child->pid);
    /* Its threads run on until one of them was scheduled and has seen it. */
    while (signal == SIGSTOP && waitpid(child->pid, &status, WUNTRACED) < 0)
        DLT_CHECK(errno == EINTR, "waitpid");
    DLT_CHECK(signal != SIGSTOP || WIFSTOPPED(status), "process %d did not stop", (int)child->pid);
}

static int child_reap(struct dlt_child *child)
{
    int status = 0;

    while (waitpid(child->pid, &status, 0) < 0)
        DLT_CHECK(errno == EINTR, "waitpid");
    (void)fclose(child->from);
    return status;
}

void dlt_child_kill(struct dlt_child *child)
{
    dlt_child_signal(child, SIGKILL);
    (void)fclose(child->to);
    (void)child_reap(child);
}

void dlt_child_stop(struct dlt_child *child)
{
    int status = 0;

    (void)fclose(child->to);
    if (child->pid == 0) {
        (void)dlt_join(child->thread);
        (void)fclose(child->from);
        return;
    }
    status = child_reap(child);
    DLT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %d ended with status %#x",
              (int)child->pid, (unsigned)status);
}
