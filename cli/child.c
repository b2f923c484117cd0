/* SPDX-License-Identifier: MIT */
#include "child.h"
#include "contain.h"
#include "exitcode.h"
#include "lib/pid_space.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_pipe(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

void tty_init(struct tty *tty)
{
    *tty = (struct tty){.fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)};
    if (tty->fd < 0)
        return;
    tty->has_modes = tcgetattr(tty->fd, &tty->modes) == 0;
    tty->eager = tty_is_ours(tty) && isatty(STDIN_FILENO) == 1 && getpgrp() == getpid() &&
                 !is_pipe(STDOUT_FILENO);
}

void tty_fini(struct tty *tty)
{
    if (tty->fd >= 0)
        (void)close(tty->fd);
    tty->fd = -1;
}

void tty_lend(const struct tty *tty, pid_t group)
{
    if (tty->fd >= 0)
        (void)tcsetpgrp(tty->fd, group);
}

bool tty_is_ours(const struct tty *tty)
{
    return tty->fd >= 0 && tcgetpgrp(tty->fd) == getpgrp();
}

bool tty_is_lent(const struct tty *tty, pid_t group)
{
    return tty->fd >= 0 && tcgetpgrp(tty->fd) == group;
}

void tty_take_back(const struct tty *tty, pid_t group, bool restore)
{
    if (!tty_is_lent(tty, group))
        return;
    (void)tcsetpgrp(tty->fd, getpgrp());
    if (restore && tty->has_modes)
        (void)tcsetattr(tty->fd, TCSADRAIN, &tty->modes);
}

/* A process of the table, which has all processes that can be seen. */
struct entry {
    struct proc_stat stat;
    bool is_ours;
};

struct table {
    struct entry *entries; /* by pid */
    size_t count, room;
};

void descendants_reap(pid_t kept)
{
    siginfo_t info = {0};

    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
           info.si_pid != kept) {
        (void)waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
}

static bool table_add(struct table *table, const struct proc_stat *stat)
{
    if (table->count == table->room) {
        size_t room = table->room > 0 ? 2 * table->room : 256;
        struct entry *entries = realloc(table->entries, room * sizeof *entries);

        if (entries == NULL)
            return false;
        table->entries = entries;
        table->room = room;
    }
    table->entries[table->count++] = (struct entry){.stat = *stat};
    return true;
}

static int by_pid(const void *a, const void *b)
{
    const struct entry *one = a, *other = b;

    return (one->stat.pid > other->stat.pid) - (one->stat.pid < other->stat.pid);
}

/* False: no memory, or no descriptor. */
static bool table_read(struct table *table)
{
    const struct entry self = {.stat.pid = getpid()};
    bool has_memory = true;
    struct proc_stat stat;
    struct dirent *name;
    DIR *proc;

    if (!dl_pid_space_is_in_proc())
        return true;
    proc = opendir("/proc");
    if (proc == NULL)
        return errno != EMFILE && errno != ENFILE && errno != ENOMEM;
    while (has_memory && (name = readdir(proc)) != NULL)
        if (isdigit((unsigned char)name->d_name[0]) &&
            proc_stat_read((pid_t)strtol(name->d_name, NULL, 10), &stat))
            has_memory = table_add(table, &stat);
    (void)closedir(proc);
    if (table->count == 0)
        return false;
    qsort(table->entries, table->count, sizeof *table->entries, by_pid);
    return has_memory && bsearch(&self, table->entries, table->count, sizeof self, by_pid) != NULL;
}

static bool is_elder(const struct descendants *descendants, const struct proc_stat *stat)
{
    for (size_t i = 0; i < descendants->elder_count; i++)
        if (descendants->elders[i].pid == stat->pid &&
            descendants->elders[i].start_ticks == stat->start_ticks)
            return true;
    return false;
}

/* A parent is not younger than its child: a younger one got the number after the parent had
 * ended. */
static bool parent_is_ours(const struct table *table, const struct entry *entry)
{
    const struct entry key = {.stat.pid = entry->stat.parent};
    const struct entry *parent;

    if (entry->stat.parent == getpid())
        return true;
    parent = bsearch(&key, table->entries, table->count, sizeof key, by_pid);
    return parent != NULL && parent->is_ours && parent->stat.start_ticks <= entry->stat.start_ticks;
}

static void table_mark(struct table *table, const struct descendants *descendants)
{
    bool found = table->count > 0;

    while (found) {
        found = false;
        for (size_t i = 0; i < table->count; i++) {
            struct entry *entry = &table->entries[i];

            if (!entry->is_ours && parent_is_ours(table, entry) &&
                !is_elder(descendants, &entry->stat))
                entry->is_ours = found = true;
        }
    }
}

/* To the process that the table has, and to no other one that has got its number since: the
 * descriptor stays with the process, and is opened before the second look. Its parent may have
 * ended by the signal that it got just before. 0 or an errno. */
static int entry_signal(const struct proc_stat *seen, int n)
{
    int fd = (int)syscall(SYS_pidfd_open, seen->pid, 0);
    struct proc_stat now;
    int error = 0;

    if (!proc_stat_read(seen->pid, &now) || now.start_ticks != seen->start_ticks ||
        (now.parent != seen->parent && now.parent != getpid()))
        error = ESRCH;
    else if ((fd >= 0 ? (int)syscall(SYS_pidfd_send_signal, fd, n, NULL, 0) : kill(seen->pid, n)) !=
             0) /* no descriptor: an old kernel */
        error = errno;
    if (fd >= 0)
        (void)close(fd);
    return error;
}

/* From now on this process becomes the parent of each descendant whose parent ends. Its present
 * children do not count. 0 or an errno; after 0: descendants_fini. */
static int descendants_init(struct descendants *descendants)
{
    siginfo_t info = {0};
    struct table table = {0};

    *descendants = (struct descendants){0};
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return errno;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD)
        return 0; /* there are none, and /proc need not be read */
    if (table_read(&table))
        descendants->elders = calloc(table.count + 1, sizeof *descendants->elders);
    if (descendants->elders == NULL) {
        free(table.entries);
        return ENOMEM;
    }
    table_mark(&table, descendants);
    for (size_t i = 0; i < table.count; i++)
        if (table.entries[i].is_ours)
            descendants->elders[descendants->elder_count++] = table.entries[i].stat;
    free(table.entries);
    return 0;
}

static void descendants_fini(struct descendants *descendants)
{
    free(descendants->elders);
    descendants->elders = NULL;
    descendants->elder_count = 0;
}

/* Signal n, 0: none, to all but those of a group. */
static void sweep(struct descendants *descendants, int n, pid_t group)
{
    struct table table = {0};

    descendants->refused = 0;
    descendants_reap(descendants->kept);
    descendants->living = table_read(&table) ? 0 : 1; /* who was not seen may live */
    table_mark(&table, descendants);
    for (size_t i = 0; i < table.count; i++) {
        const struct proc_stat *stat = &table.entries[i].stat;
        int error = 0;

        if (!table.entries[i].is_ours || stat->pid == descendants->init)
            continue;
        descendants->living++;
        if (n != 0 && stat->group != group)
            error = entry_signal(stat, n);
        if (n == SIGTERM && stat->group != group)
            (void)entry_signal(stat, SIGCONT); /* a stopped process cannot act on SIGTERM */
        if (error == EPERM && descendants->refused++ == 0)
            descendants->stubborn = *stat;
    }
    free(table.entries);
}

void descendants_count(struct descendants *descendants)
{
    sweep(descendants, 0, 0);
}

void descendants_term(struct descendants *descendants, pid_t group)
{
    sweep(descendants, SIGTERM, group);
}

void descendants_kill(struct descendants *descendants)
{
    if (descendants->init > 0)
        contain_kill(descendants->init);
    sweep(descendants, SIGKILL, 0);
}

struct start_failure {
    int error;
    int in_exec;
};

static void child_give_up(int fd, int error, int in_exec)
{
    struct start_failure failure = {.error = error, .in_exec = in_exec};

    if (write(fd, &failure, sizeof failure) < 0)
        _exit(CLI_EXIT_NOT_EXECUTABLE);
    _exit(CLI_EXIT_NOT_FOUND);
}

/* Of the pipe whose other end only the parent has. */
static bool is_read_by_nobody(int fd)
{
    struct pollfd pipe_end = {.fd = fd};

    return poll(&pipe_end, 1, 0) != 0;
}

/* The parent has threads: nothing but async-signal-safe calls here (glibc's execvpe is one, it
 * allocates nothing). */
static void child_become(const struct child_plan *plan, const int fds[2])
{
    int fd = fds[1];

    (void)close(fds[0]);
    if (setpgid(0, 0) != 0)
        child_give_up(fd, errno, 0);
    if (plan->die_with_us) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
            child_give_up(fd, errno, 0);
        if (is_read_by_nobody(fd)) /* the parent died before prctl */
            _exit(CLI_EXIT_NOT_FOUND);
    }
    if (plan->tty->eager)
        tty_lend(plan->tty, getpid());
    signals_restore(plan->signals);
    (void)execvpe(plan->argv[0], plan->argv, plan->env);
    child_give_up(fd, errno, 1);
}

/* fork. The child writes a struct start_failure, or closes fds[1] by exec. */
static int child_fork(struct child *child, const struct child_plan *plan, int fds[2])
{
    int error = 0;

    if (pipe2(fds, O_CLOEXEC) != 0)
        return errno;
    if (plan->contain)
        error = contain_fork(&child->pid, &child->descendants.init, fds);
    else if ((child->pid = fork()) < 0)
        error = errno;
    if (error == 0 && child->pid == 0)
        child_become(plan, fds);
    if (error == 0)
        return 0;
    (void)close(fds[0]);
    (void)close(fds[1]);
    return error;
}

int child_start(struct child *child, const struct child_plan *plan, bool *in_exec)
{
    struct start_failure failure = {0};
    int fds[2];
    ssize_t n;

    *in_exec = false;
    *child = (struct child){0};
    failure.error = descendants_init(&child->descendants);
    if (failure.error == 0)
        failure.error = child_fork(child, plan, fds);
    if (failure.error != 0) {
        descendants_fini(&child->descendants);
        return failure.error;
    }
    child->descendants.kept = child->pid;
    (void)close(fds[1]);
    do
        n = read(fds[0], &failure, sizeof failure);
    while (n < 0 && errno == EINTR);
    (void)close(fds[0]);
    if (n != (ssize_t)sizeof failure)
        return 0; /* exec closed the pipe */
    child_reap(child);
    tty_take_back(plan->tty, child->pid, false);
    *in_exec = failure.in_exec != 0;
    return failure.error;
}

void child_poll(struct child *child)
{
    siginfo_t info = {0};

    descendants_reap(child->pid);
    if (waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
        info.si_pid != 0)
        child->stopped = info.si_code == CLD_STOPPED ? info.si_status : 0;
    info.si_pid = 0;
    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
        /* Another part of this process has reaped it: how it ended is not known. */
        child->ended = true;
        child->code = CLI_EXIT_INTERNAL;
        return;
    }
    if (info.si_pid == 0)
        return;
    child->ended = true;
    child->stopped = 0;
    child->signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
    child->code = child->signal == 0 ? info.si_status : CLI_EXIT_SIGNAL + child->signal;
}

void child_signal(const struct child *child, int n)
{
    (void)kill(-child->pid, n);
}

void child_reap(struct child *child)
{
    if (child->descendants.init > 0)
        contain_kill(child->descendants.init);
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    while (child->descendants.init > 0 && waitpid(child->descendants.init, NULL, 0) < 0 &&
           errno == EINTR)
        continue;
    descendants_fini(&child->descendants);
}

const char *child_shell_hint(char *const *argv)
{
    if (argv[1] != NULL || strpbrk(argv[0], " \t\n;|&<>$`*") == NULL)
        return "";
    return "; a command line needs a shell: sh -c '...'";
}
