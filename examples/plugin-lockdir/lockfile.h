/* SPDX-License-Identifier: MIT */
/*
 * lockfile.h - the file of one name: where it is, what is in it, and the locks on it.
 *
 * Locks are OFD locks (fcntl(2)): they belong to an open file and go with its last descriptor, at
 * the latest when the process dies. Byte 0 is the lock of the name; byte 1 + i says that holder
 * record i is somebody's. Nobody deletes a file: the fence in it has to survive.
 */
#ifndef LOCKFILE_H
#define LOCKFILE_H

#include <dlock/plugin.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#define LOCKDIR_ORIGIN   "lockdir"
#define LOCKFILE_HOLDERS 64 /* readers of one name; one more finds it busy */

/* At the start of the file. */
struct lockfile_head {
    char magic[8];
    uint64_t fence; /* the last one given out; 0: none yet */
    uint32_t name_len;
    unsigned char name[260];
};

/* LOCKFILE_HOLDERS of these follow. They tell inspect what it shows, and no lock hangs on them. */
struct lockfile_holder {
    int64_t since_ns, until_ns; /* CLOCK_BOOTTIME; until: as far as the holder has renewed it */
    unsigned char token[DLOCK_TOKEN_SIZE];
    uint32_t mode;
    char label[252];
};

/* The file of this name. dir is shorter than PATH_MAX - NAME_MAX. */
void lockfile_path(char path[PATH_MAX], const char *dir, const unsigned char *name, uint32_t len);

/* -1: see errno. create: with this mode unless it is there; 0: only what is there, to read. */
int lockfile_open(const char *path, mode_t create);

/* type: F_RDLCK, F_WRLCK or F_UNLCK. OK; BUSY; UNAVAILABLE. Waits for nothing. */
enum dlock_status lockfile_lock(int fd, int64_t byte, int type, struct dlock_error *err);

/* Does another open file have this byte? */
bool lockfile_locked(int fd, int64_t byte);

/* OK: path leads to what fd has open, a plain file; LOST: it does not any more; CONFIG. */
enum dlock_status lockfile_check(int fd, const char *path, struct dlock_error *err);

/* OK: this name's, with fence 0 if the file is new; CONFIG: what is in there is not this name's. */
enum dlock_status lockfile_read(int fd, const char *path, const unsigned char *name, uint32_t len,
                                struct lockfile_head *head, struct dlock_error *err);
enum dlock_status lockfile_write(int fd, const char *path, const struct lockfile_head *head,
                                 struct dlock_error *err);

bool lockfile_holder_read(int fd, int64_t i, struct lockfile_holder *holder);
bool lockfile_holder_write(int fd, int64_t i, const struct lockfile_holder *holder);

/* What errno means to whoever wants a lock. */
enum dlock_status lockfile_fail(struct dlock_error *err, const char *what, const char *path);

#endif
