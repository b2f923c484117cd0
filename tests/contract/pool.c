/* SPDX-License-Identifier: MIT */
#include "pool.h"
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WIDTH_MAX 256u

static volatile sig_atomic_t signal_caught;

static void signal_note(int number)
{
    signal_caught = number;
}

void dlt_pool_catch_signals(void)
{
    struct sigaction note = {.sa_handler = signal_note}, ignore = {.sa_handler = SIG_IGN};

    (void)sigaction(SIGINT, &note, NULL);
    (void)sigaction(SIGTERM, &note, NULL);
    (void)sigaction(SIGHUP, &note, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
}

int dlt_pool_signal(void)
{
    return signal_caught;
}

_Noreturn static void job_exec(const char *program, const struct dlt_job *job)
{
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct sigaction by_default = {.sa_handler = SIG_DFL};

    (void)sigaction(SIGPIPE, &by_default, NULL);
    /* What the runner was started with is not for the case to find. */
    (void)close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (input < 0 || dup2(input, 0) != 0 || dup2(job->output, 1) != 1 ||
        dup2(job->output, 2) != 2 || setenv("DLT_URI", job->uri, 1) != 0 ||
        (job->ttl_most != NULL && setenv("DLT_TTL_MOST", job->ttl_most, 1) != 0))
        _exit(127);
    (void)execv(program, (char *const *)(uintptr_t)job->args);
    _exit(127);
}

static void job_start(const char *program, struct dlt_job *job)
{
    (void)fflush(NULL);
    job->output = memfd_create("output", MFD_CLOEXEC);
    DLT_CHECK(job->output >= 0, "no memory for output");
    job->start_ns = dlt_now_ns();
    job->pid = fork();
    DLT_CHECK(job->pid >= 0, "no process");
    if (job->pid == 0)
        job_exec(program, job);
    (void)setpgid(job->pid, job->pid); /* here, too: whoever is first */
    job->pidfd = pidfd_open(job->pid, 0);
    DLT_CHECK(job->pidfd >= 0, "no pidfd");
    job->state = DLT_JOB_RUNNING;
    job->runs++;
}

/* The leader is still a zombie here, so that its group's number is nobody else's. */
static void job_finish(struct dlt_job *job)
{
    siginfo_t info = {0};

    while (waitid(P_PIDFD, (id_t)job->pidfd, &info, WEXITED | WNOWAIT) < 0)
        DLT_CHECK(errno == EINTR, "waitid");
    (void)kill(-job->pid, SIGKILL);
    while (waitid(P_PIDFD, (id_t)job->pidfd, &info, WEXITED) < 0)
        DLT_CHECK(errno == EINTR, "waitid");
    (void)close(job->pidfd);
    job->took_ms = (int64_t)dlt_ms_since(job->start_ns);
    job->exit_status = info.si_code == CLD_EXITED ? info.si_status : -1;
    job->signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
    (void)lseek(job->output, 0, SEEK_SET);
    job->state = DLT_JOB_DONE;
}

static int64_t job_left_ms(const struct dlt_job *job)
{
    int64_t left = job->limit_ms - (int64_t)dlt_ms_since(job->start_ns);

    return left < 0 ? 0 : left;
}

/* Shows where each process of the group waits: in a job's output, before the group is killed. */
static void hang_show(const struct dlt_job *job)
{
    static const char script[] = "for p in $(pgrep -g \"$1\"); do\n"
                                 "  echo \"process $p: $(tr '\\0' ' ' </proc/$p/cmdline)\"\n"
                                 "  for t in /proc/$p/task/*; do\n"
                                 "    echo \"  thread ${t##*/}: $(sed -n 's/^State:\\t//p' "
                                 "$t/status), $(cat $t/wchan), system call $(cat $t/syscall)\"\n"
                                 "  done\n"
                                 "  ! command -v gdb >/dev/null || timeout 20 gdb -p $p -batch -ex "
                                 "'thread apply all bt 12' 2>/dev/null | grep '^[#T]'\n"
                                 "done\n";
    char group[16];
    pid_t pid;

    (void)snprintf(group, sizeof group, "%d", (int)job->pid);
    pid = fork();
    if (pid == 0) {
        (void)dup2(job->output, 1);
        (void)dup2(job->output, 2);
        (void)execl("/bin/sh", "sh", "-c", script, "sh", group, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* One end, or one time limit that passed. */
static void pool_wait(struct dlt_job **running, unsigned count)
{
    struct pollfd fds[WIDTH_MAX];
    int64_t sleep_ms = 60000;

    for (unsigned i = 0; i < count; i++) {
        int64_t left = job_left_ms(running[i]);

        fds[i] = (struct pollfd){.fd = running[i]->pidfd, .events = POLLIN};
        sleep_ms = left < sleep_ms ? left : sleep_ms;
    }
    (void)poll(fds, count, (int)sleep_ms + 1);
    for (unsigned i = 0; i < count; i++) {
        struct dlt_job *job = running[i];

        if ((fds[i].revents & POLLIN) == 0 && job_left_ms(job) > 0)
            continue;
        if ((fds[i].revents & POLLIN) == 0) {
            job->timed_out = 1;
            hang_show(job);
            (void)kill(-job->pid, SIGKILL);
        }
        job_finish(job);
    }
}

static void pool_kill(struct dlt_job **running, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (running[i]->state != DLT_JOB_RUNNING)
            continue;
        (void)kill(-running[i]->pid, SIGKILL);
        job_finish(running[i]);
    }
}

static void run_again_if_void(const char *program, struct dlt_job *job)
{
    if (job->exit_status != DLT_EXIT_VOID || job->runs == DLT_JOB_RUNS)
        return;
    (void)close(job->output);
    job_start(program, job);
}

static unsigned running_sift(const char *program, struct dlt_job **running, unsigned count)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < count; i++) {
        if (running[i]->state == DLT_JOB_DONE)
            run_again_if_void(program, running[i]);
        if (running[i]->state == DLT_JOB_RUNNING)
            running[kept++] = running[i];
    }
    return kept;
}

void dlt_pool_run(const char *program, struct dlt_job *jobs, size_t count, unsigned width,
                  void (*done)(void *arg), void *arg)
{
    struct dlt_job *running[WIDTH_MAX];
    unsigned busy = 0;
    size_t next = 0;

    width = width < WIDTH_MAX ? width : WIDTH_MAX;
    while (next < count || busy > 0) {
        while (next < count && busy < width && (busy == 0 || !jobs[next].alone)) {
            job_start(program, &jobs[next]);
            running[busy++] = &jobs[next++];
            if (running[busy - 1]->alone)
                break;
        }
        pool_wait(running, busy);
        if (signal_caught != 0) {
            pool_kill(running, busy);
            return;
        }
        busy = running_sift(program, running, busy);
        done(arg);
    }
}
