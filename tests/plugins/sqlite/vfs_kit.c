/* SPDX-License-Identifier: MIT */
#include "vfs_kit.h"

#include <sqlite3.h>
#include <stdlib.h>

struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real; /* in the memory behind this */
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs faulty_vfs;
static int countdown; /* 0: not armed */
static int goes_on, faults;

void dlt_vfs_arm(int n, int on)
{
    countdown = n;
    goes_on = on;
    faults = 0;
}

int dlt_vfs_disarm(void)
{
    countdown = 0;
    return faults;
}

static int fault_now(void)
{
    if (countdown == 0 || --countdown > 0)
        return 0;
    countdown = goes_on ? 1 : 0;
    faults++;
    return 1;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct faulty_file *)(void *)file)->real;
}

static int faulty_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int faulty_read(sqlite3_file *file, void *buf, int n, sqlite3_int64 at)
{
    if (fault_now())
        return SQLITE_IOERR_READ;
    return real_of(file)->pMethods->xRead(real_of(file), buf, n, at);
}

/* Half of it is written: what a crash or a bad disk leaves. */
static int faulty_write(sqlite3_file *file, const void *buf, int n, sqlite3_int64 at)
{
    if (!fault_now())
        return real_of(file)->pMethods->xWrite(real_of(file), buf, n, at);
    (void)real_of(file)->pMethods->xWrite(real_of(file), buf, n / 2, at);
    return SQLITE_IOERR_WRITE;
}

static int faulty_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    if (fault_now())
        return SQLITE_IOERR_TRUNCATE;
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int faulty_sync(sqlite3_file *file, int flags)
{
    if (fault_now())
        return SQLITE_IOERR_FSYNC;
    return real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int faulty_size(sqlite3_file *file, sqlite3_int64 *size)
{
    if (fault_now())
        return SQLITE_IOERR_FSTAT;
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int faulty_lock(sqlite3_file *file, int level)
{
    if (fault_now())
        return SQLITE_IOERR_LOCK;
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int faulty_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int faulty_reserved(sqlite3_file *file, int *out)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

static int faulty_control(sqlite3_file *file, int op, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int faulty_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int faulty_device(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int faulty_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **map)
{
    if (fault_now())
        return SQLITE_IOERR_SHMMAP;
    return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, map);
}

static int faulty_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    if ((flags & SQLITE_SHM_LOCK) != 0 && fault_now())
        return SQLITE_IOERR_SHMLOCK;
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags);
}

static void faulty_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int faulty_shm_unmap(sqlite3_file *file, int remove)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

static const sqlite3_io_methods faulty_methods = {
    .iVersion = 2,
    .xClose = faulty_close,
    .xRead = faulty_read,
    .xWrite = faulty_write,
    .xTruncate = faulty_truncate,
    .xSync = faulty_sync,
    .xFileSize = faulty_size,
    .xLock = faulty_lock,
    .xUnlock = faulty_unlock,
    .xCheckReservedLock = faulty_reserved,
    .xFileControl = faulty_control,
    .xSectorSize = faulty_sector,
    .xDeviceCharacteristics = faulty_device,
    .xShmMap = faulty_shm_map,
    .xShmLock = faulty_shm_lock,
    .xShmBarrier = faulty_shm_barrier,
    .xShmUnmap = faulty_shm_unmap,
};

static int faulty_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    struct faulty_file *faulty = (struct faulty_file *)(void *)file;
    int rc = SQLITE_CANTOPEN;

    (void)vfs;
    faulty->base.pMethods = NULL;
    faulty->real = (sqlite3_file *)(void *)(faulty + 1);
    if (fault_now())
        return rc;
    rc = real_vfs->xOpen(real_vfs, name, faulty->real, flags, out);
    if (faulty->real->pMethods != NULL)
        faulty->base.pMethods = &faulty_methods;
    return rc;
}

void dlt_vfs_install(void)
{
    real_vfs = sqlite3_vfs_find("unix");
    if (real_vfs == NULL)
        abort();
    faulty_vfs = *real_vfs;
    faulty_vfs.szOsFile += (int)sizeof(struct faulty_file);
    faulty_vfs.xOpen = faulty_open;
    faulty_vfs.pNext = NULL;
    if (sqlite3_vfs_register(&faulty_vfs, 1) != SQLITE_OK)
        abort();
}
