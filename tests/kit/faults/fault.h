/* SPDX-License-Identifier: MIT */
/*
 * fault.h - the n-th call of a kind fails, in a process that a test names.
 *
 * A program that runs with libdlockfault.so preloaded and DLOCK_FAULT_FILE in its environment looks
 * into that file, which a test maps, at each call of a function of DLT_FAULT_MAP:
 *
 *     dlt_fault_open(&fault, path);
 *     dlt_fault_preload(path);                  the environment of programs started from now on
 *     dlt_fault_arm(&fault, &(struct dlt_fault_plan){
 *         .pid = pid, .kinds = DLT_FAULT_BIT(READ), .nth = 3, .error = EIO});
 *
 * A loop over nth that ends when a run had no hit has met every place where a call can fail.
 */
#ifndef DLT_FAULT_H
#define DLT_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Every kind, and the functions that it stands for besides the one of its name.
 *   X(name)
 */
#define DLT_FAULT_MAP(X)                                            \
    X(MALLOC)                                                       \
    X(CALLOC)                                                       \
    X(REALLOC) /* reallocarray */                                   \
    X(OPEN)    /* openat and their 64s */                           \
    X(READ)                                                         \
    X(WRITE)                                                        \
    X(PREAD)  /* pread64 */                                         \
    X(PWRITE) /* pwrite64 */                                        \
    X(FSYNC)                                                        \
    X(FDATASYNC)                                                    \
    X(FTRUNCATE) /* ftruncate64 */                                  \
    X(FALLOCATE) /* posix_fallocate and its 64 */                   \
    X(LOCK)      /* fcntl and fcntl64 that take a lock on a file */ \
    X(MMAP)      /* mmap64 */                                       \
    X(GETRANDOM)                                                    \
    X(SOCKET)                                                       \
    X(CONNECT)                                                      \
    X(SEND) /* sendmsg */                                           \
    X(RECV) /* recvmsg */                                           \
    X(POLL) /* ppoll */                                             \
    X(EVENTFD)                                                      \
    X(TIMERFD) /* timerfd_create */                                 \
    X(PTHREAD) /* pthread_create */

#define DLT_FAULT_ENUM(name) DLT_FAULT_##name,
enum dlt_fault_kind { DLT_FAULT_MAP(DLT_FAULT_ENUM) DLT_FAULT_KINDS };
#undef DLT_FAULT_ENUM

#define DLT_FAULT_BIT(name) (UINT64_C(1) << DLT_FAULT_##name)
#define DLT_FAULT_MEMORY    (DLT_FAULT_BIT(MALLOC) | DLT_FAULT_BIT(CALLOC) | DLT_FAULT_BIT(REALLOC))

struct dlt_fault_plan {
    pid_t pid;      /* 0: every process with the shim and the file */
    uint64_t kinds; /* DLT_FAULT_BITs, counted together */
    uint64_t nth;   /* the first call that fails, from 1; 0: none, they are counted only */
    uint64_t times; /* how many fail in a row; 0: one */
    int error;      /* errno, or what the function returns in its place */
    size_t most;    /* not 0: no failure, but at most so many bytes read or written */
    /* Allocations of a shared library whose path has this text are left alone, for one that cannot
     * go on without memory. NULL: none. */
    const char *spare;
};

#define DLT_FAULT_SPARE_SIZE 32

/* The file. */
struct dlt_fault_page {
    _Atomic int armed;
    _Atomic int64_t pid;
    _Atomic uint64_t kinds, nth, times, most;
    _Atomic int error;
    _Atomic uint64_t calls; /* of the kinds, since armed */
    _Atomic uint64_t hits;  /* of them made to fail */
    _Atomic uint64_t of_kind[DLT_FAULT_KINDS];
    char spare[DLT_FAULT_SPARE_SIZE]; /* set while nothing is armed */
};

struct dlt_fault {
    struct dlt_fault_page *page;
};

/* Maps the file at path, which is made if it is not there. False: errno. */
bool dlt_fault_open(struct dlt_fault *fault, const char *path);
void dlt_fault_close(struct dlt_fault *fault);

/* Puts the shim and the file into this process's environment, for programs that it starts. */
bool dlt_fault_preload(const char *path);

/* Sets all counts to zero and the plan in force. */
void dlt_fault_arm(struct dlt_fault *fault, const struct dlt_fault_plan *plan);
/* Nothing fails, nothing is counted, until the plan goes on. */
void dlt_fault_pause(struct dlt_fault *fault);
void dlt_fault_resume(struct dlt_fault *fault);

uint64_t dlt_fault_calls(const struct dlt_fault *fault);
uint64_t dlt_fault_hits(const struct dlt_fault *fault);
uint64_t dlt_fault_calls_of(const struct dlt_fault *fault, enum dlt_fault_kind kind);

/* "MALLOC" ... */
const char *dlt_fault_name(enum dlt_fault_kind kind);

#endif
