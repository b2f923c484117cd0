/* SPDX-License-Identifier: MIT */
#include "fault_shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where off_t has 64 bits, the names with 64 behind them are the same functions. */
_Static_assert(sizeof(off_t) == 8, "the 64s need functions of their own");
#define TWIN(name) __attribute__((alias(name), visibility("default")))

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

SHIM_EXPORT int openat(int dir, const char *path, int flags, ...)
{
    SHIM_REAL(openat)
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = mode_of(flags, args);
    va_end(args);
    FAULT_RETURN(DLT_FAULT_OPEN, NULL, -1);
    return call(dir, path, flags, mode);
}

SHIM_EXPORT int open(const char *path, int flags, ...)
{
    SHIM_REAL(open)
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = mode_of(flags, args);
    va_end(args);
    FAULT_RETURN(DLT_FAULT_OPEN, NULL, -1);
    return call(path, flags, mode);
}

TWIN("openat") int openat64(int dir, const char *path, int flags, ...);
TWIN("open") int open64(const char *path, int flags, ...);

SHIM_EXPORT ssize_t read(int fd, void *bytes, size_t len)
{
    SHIM_REAL(read)
    if (!fault_spares(__builtin_return_address(0)))
        FAULT_RETURN(DLT_FAULT_READ, &len, -1);
    return call(fd, bytes, len);
}

SHIM_EXPORT ssize_t write(int fd, const void *bytes, size_t len)
{
    SHIM_REAL(write)
    FAULT_RETURN(DLT_FAULT_WRITE, &len, -1);
    return call(fd, bytes, len);
}

SHIM_EXPORT ssize_t pread(int fd, void *bytes, size_t len, off_t at)
{
    SHIM_REAL(pread)
    FAULT_RETURN(DLT_FAULT_PREAD, &len, -1);
    return call(fd, bytes, len, at);
}

SHIM_EXPORT ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    SHIM_REAL(pwrite)
    FAULT_RETURN(DLT_FAULT_PWRITE, &len, -1);
    return call(fd, bytes, len, at);
}

TWIN("pread") ssize_t pread64(int fd, void *bytes, size_t len, off_t at);
TWIN("pwrite") ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t at);

SHIM_EXPORT int fsync(int fd)
{
    SHIM_REAL(fsync)
    FAULT_RETURN(DLT_FAULT_FSYNC, NULL, -1);
    return call(fd);
}

SHIM_EXPORT int fdatasync(int fd)
{
    SHIM_REAL(fdatasync)
    FAULT_RETURN(DLT_FAULT_FDATASYNC, NULL, -1);
    return call(fd);
}

SHIM_EXPORT int ftruncate(int fd, off_t len)
{
    SHIM_REAL(ftruncate)
    FAULT_RETURN(DLT_FAULT_FTRUNCATE, NULL, -1);
    return call(fd, len);
}

TWIN("ftruncate") int ftruncate64(int fd, off_t len);

/* Returns its error, and leaves errno alone. */
SHIM_EXPORT int posix_fallocate(int fd, off_t at, off_t len)
{
    SHIM_REAL(posix_fallocate)
    int error = fault_meets(DLT_FAULT_FALLOCATE, NULL);

    return error != 0 ? error : call(fd, at, len);
}

TWIN("posix_fallocate") int posix_fallocate64(int fd, off_t at, off_t len);

/* Giving a lock up does not fail: no kernel refuses that. */
static int takes_lock(int command, const struct flock *lock)
{
    return (command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK ||
            command == F_OFD_SETLKW) &&
           lock->l_type != F_UNLCK;
}

SHIM_EXPORT int fcntl(int fd, int command, ...)
{
    SHIM_REAL(fcntl)
    va_list args;
    void *arg;

    va_start(args, command);
    arg = va_arg(args, void *); /* an int passes in the same register */
    va_end(args);
    if (takes_lock(command, arg))
        FAULT_RETURN(DLT_FAULT_LOCK, NULL, -1);
    return call(fd, command, arg);
}

TWIN("fcntl") int fcntl64(int fd, int command, ...);

SHIM_EXPORT void *mmap(void *where, size_t len, int access, int flags, int fd, off_t at)
{
    SHIM_REAL(mmap)
    FAULT_RETURN(DLT_FAULT_MMAP, NULL, MAP_FAILED);
    return call(where, len, access, flags, fd, at);
}

TWIN("mmap") void *mmap64(void *where, size_t len, int access, int flags, int fd, off_t at);
