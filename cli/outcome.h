/* SPDX-License-Identifier: MIT */
/*
 * outcome.h - the events of `dlock run`, in lines for programs: `--status-fd` and `--outcome`.
 *
 * A line is an event and its fields, "event name=value ...", or with --json one object on one line.
 * The lines are an interface: fields and events are added, never changed (dlock(1), OUTCOME).
 */
#ifndef CLI_OUTCOME_H
#define CLI_OUTCOME_H

#include "environment.h"
#include "output.h"

#include <jansson.h>
#include <stdbool.h>

#define OUTCOME_FILES 2

struct outcome {
    int fds[OUTCOME_FILES];
    int count;
    int error; /* the first errno of a failed write, except EPIPE; 0: none */
    bool json;
};

/* Lines go to descriptor n, which the command does not inherit. 0 or an errno: n cannot be written
 * to. */
int outcome_add_fd(struct outcome *outcome, int n);

/* Lines go to the file, which is created or emptied. 0 or an errno. */
int outcome_add_file(struct outcome *outcome, const char *path);

/* Writes a line and does not wait for a reader, because the lease does not wait. fields: an object
 * of numbers, words without spaces and nulls, which this function frees; or NULL. */
void outcome_write(struct outcome *outcome, const char *event, json_t *fields);

void outcome_fini(struct outcome *outcome);

/* With --verbose a line for each name; and the event "acquired": of a set, its fields have the
 * index of the name. */
void outcome_acquired(const struct cli *cli, struct outcome *outcome, const char *server,
                      const struct environment_lock *locks, size_t count);

#endif
