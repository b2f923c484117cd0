/* SPDX-License-Identifier: MIT */
/*
 * store_command.h - a store that is not ours: a URI, and commands of the shell that start, stop and
 * kill its server. store.c hands such a store on to here.
 */
#ifndef TORTURE_STORE_COMMAND_H
#define TORTURE_STORE_COMMAND_H

#include "store.h"

#include <stdio.h>

/* What the command line gave; NULL: nothing. */
struct store_commands {
    const char *uri;
    const char *start, *stop, *cont, *kill;
    const char *proxy; /* HOST:PORT in the URI; each client gets a way of its own to it */
};

/* In the environment of clients whose locks live in sessions. */
#define TORTURE_LIMIT    "DLT_TORTURE_LIMIT"    /* tells clients the limit of the names */
#define TORTURE_PROGRAMS "DLT_TORTURE_PROGRAMS" /* tells clients to start programs */
#define TORTURE_KEEPS    "DLT_TORTURE_KEEPS"    /* tells clients to keep what they release */
#define TORTURE_SESSION  "DLT_TORTURE_SESSION"

/* Opens a client, to learn what the store can do, and returns its backend. The server is started
 * for that, and stays. NULL: *why. Once in a process. */
const struct backend *store_command_backend(const struct store_commands *commands,
                                            const char **why);

/* The options again, for a line that repeats the run, without secrets. */
void store_command_print(FILE *out);

/* Commands that were given: FAULT_BITs of plan.h that they allow besides those of clients. */
bool store_command_can_pause(void);
bool store_command_can_kill(void);
bool store_command_can_cut(void);

bool store_command_start(struct store *store);
void store_command_stop(struct store *store);
/* For the proxies. */
const char *store_command_address(void);
void store_command_uri(const struct store *store, unsigned client, char *uri, size_t size);
bool store_command_pause(bool pause);
bool store_command_kill(void);
bool store_command_again(void);

#endif
