/* SPDX-License-Identifier: MIT */
/* work_command.h - programs that run a command under a lock, and where they are. */
#ifndef BENCH_WORK_COMMAND_H
#define BENCH_WORK_COMMAND_H

#include "work.h"

#include <stddef.h>

/* The path of a file, from the directory of this program. */
void bench_command_beside(char *path, size_t size, const char *file);

/* The command of bench_work_dlock. */
void bench_work_command_dlock(const struct bench_config *config, struct bench_command *command);

#endif
