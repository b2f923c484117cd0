/* SPDX-License-Identifier: MIT */
/* child.h - a program of the kit as a child, talked to through one socket. */
#ifndef DLT_CHILD_H
#define DLT_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Its standard input and output are the other end of *fd; standard error is ours. argv[0] is the
 * program's path. -1: errno. */
pid_t dlt_tool_start(char *const argv[], int *fd);

/* Reads up to a newline, which it drops; a longer line is cut. False: the stream ended first. */
bool dlt_line_read(int fd, char *line, size_t size);

/* False: errno. */
bool dlt_write_all(int fd, const void *bytes, size_t len);

#endif
