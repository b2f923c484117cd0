/* SPDX-License-Identifier: MIT */
/* work_command.h - programs that run a command under a lock; they are beside this one. */
#ifndef BENCH_WORK_COMMAND_H
#define BENCH_WORK_COMMAND_H

#include "work.h"

/* The command of bench_work_dlock. */
void bench_work_command_dlock(const struct bench_config *config, struct bench_command *command);

#endif
