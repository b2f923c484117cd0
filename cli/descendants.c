/* SPDX-License-Identifier: MIT */
#include "descendants.h"

#include "lib/pid_space.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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
    if (table->count > 0)
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

int descendants_init(struct descendants *descendants)
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

void descendants_fini(struct descendants *descendants)
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

        if (!table.entries[i].is_ours)
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
    sweep(descendants, SIGKILL, 0);
}
