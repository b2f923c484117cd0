/* SPDX-License-Identifier: MIT */
/*
 * vfs_kit.h - SQLite's file operations with a fault in the nth of them. It takes the place of the
 * VFS "unix" in this process.
 */
#ifndef DLT_VFS_KIT_H
#define DLT_VFS_KIT_H

/* Once, before the first open. */
void dlt_vfs_install(void);

/* The nth operation from now on fails, n from 1; and all after it if `on` is not zero. */
void dlt_vfs_arm(int n, int on);

/* No more faults. How many there were. */
int dlt_vfs_disarm(void);

#endif
