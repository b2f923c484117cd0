/* SPDX-License-Identifier: MIT */
/* options.h - the command line of dlock-conformance. */
#ifndef DLT_OPTIONS_H
#define DLT_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

struct dlt_options {
    int list;
    const char *format; /* "tap", "table", "json" */
    const char *only;   /* NULL: all cases */
    unsigned jobs;      /* at once */
    int64_t slack_ms;   /* what the machine may add to a time */
    int64_t grid_ms;    /* the step of the store's clock; -1: that of its ttls */
    int has_expect;     /* else by the scheme */
    uint64_t expect;    /* DLOCK_CAP_* */
    int strict;         /* nothing is adapted to what the server lacks */
    int is_private;     /* the store lives in one process, whatever its scheme says */
    char **uris;        /* the rest of argv */
    size_t uri_count;
    const char *debug;   /* the one case that runs in this process; NULL: none */
    int trace;           /* each call of a slot is shown */
    const char *program; /* its name, for messages */
    /* How this program runs itself: */
    const char *run_case; /* --case NAME */
    const char *role;     /* --role NAME */
    int probe;            /* --probe */
    int64_t room;         /* --room N; 0: no */
};

#define DLT_OPTION_OWN 1000 /* the first number of an option that one program has */

struct dlt_program;

/* 0; else the exit status with which the program should end: --help, or usage. program: NULL is
 * dlock-conformance. */
int dlt_options_parse(int argc, char **argv, const struct dlt_program *program,
                      struct dlt_options *options, int *exit_status);

#endif
