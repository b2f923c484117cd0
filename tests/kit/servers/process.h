/* SPDX-License-Identifier: MIT */
/* process.h - what servers started by tests have in common: a directory of their own, a free port,
 * a process that ends with the one that started it. */
#ifndef DLT_PROCESS_H
#define DLT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define DLT_DIRECTORY_SIZE 64

/* Free now, on 127.0.0.1; somebody else may be quicker, and then another one is tried. 0: none. */
unsigned dlt_port_free(void);

/* Below /dev/shm or /tmp; kind is in its name. Those of processes that are no
 * more are removed. False: errno, and an empty name. */
bool dlt_directory_make(char directory[DLT_DIRECTORY_SIZE], const char *kind);
/* With all that is in it, and forgets the name. Harmless twice. */
void dlt_directory_remove(char directory[DLT_DIRECTORY_SIZE]);

/* Certificates and keys for tests of TLS; the script "certificates" says which. */
bool dlt_certificates_make(const char *directory);

/* The database, prefix or root that a test has for itself on a borrowed server, as the path of a
 * URI: with_server says it (DLT_PATH), or else "/locks". */
const char *dlt_path(void);

/* Adds more (NULL-terminated, or NULL) to args, which has room for `room` words, NULL included. */
void dlt_args_add(const char **args, size_t room, const char *const *more);

/* Runs argv with its output in the file "log" of that directory, without LD_PRELOAD but for
 * `preload` (NULL: none). -1: errno. */
pid_t dlt_process_spawn(const char *directory, const char *const *argv, const char *preload);
/* Runs it to its end. */
bool dlt_process_run(const char *directory, const char *const *argv);

struct dlt_user {
    uid_t uid;
    gid_t gid;
};
/* For programs that refuse to run as root: the user of this name, or else "nobody". NULL: we are
 * not root, and it runs as we do. */
const struct dlt_user *dlt_process_user(const char *name);
/* The same two, as this user, and in the directory. user: NULL for ourselves. */
pid_t dlt_process_spawn_as(const char *directory, const char *const *argv, const char *preload,
                           const struct dlt_user *user);
bool dlt_process_run_as(const char *directory, const char *const *argv,
                        const struct dlt_user *user);

/* SIGKILL, waits for the end, and sets *pid to 0. Harmless twice. */
void dlt_process_kill(pid_t *pid);
/* SIGSTOP, and waits until it has stopped; SIGCONT. */
void dlt_process_pause(pid_t pid, bool pause);

/* Waits for its end, which somebody has asked for, and sets *pid to 0. */
void dlt_process_end(pid_t *pid);

/* The same for the process and its children, which are processes of a server, and have no children.
 * All of them have ended, or stand still, when these return. */
void dlt_process_kill_family(pid_t *pid);
void dlt_process_pause_family(pid_t pid, bool pause);

/* 'R', 'S', 'T' ... as in /proc/PID/stat, and its parent; 'X': it is no more. */
char dlt_process_state(pid_t pid, pid_t *parent);
/* Returns their number. */
size_t dlt_process_children(pid_t pid, pid_t *children, size_t most);

/* Asks `answers` until it says yes. False: errno is ECHILD if the process has ended (then *pid is
 * 0), and ETIMEDOUT after a minute. */
bool dlt_process_wait(pid_t *pid, bool (*answers)(void *arg), void *arg);

/* For a test that has failed: the end of the log of each server that this process has started, or
 * added by its directory, and that still has it; to standard error, as comments of TAP. */
void dlt_process_logs_show(void);
void dlt_process_logs_add(const char *directory);

/* Says what failed, why (errno), and the end of the log. */
void dlt_process_why(char *why, size_t size, const char *directory, const char *what);

#endif
