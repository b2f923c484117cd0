/* SPDX-License-Identifier: MIT */
/* process_kit.h - what test_zk_process looks at in its process, and does to the functions of the
 * system that the client library calls. The program exports its symbols. */
#ifndef DLT_ZK_PROCESS_KIT_H
#define DLT_ZK_PROCESS_KIT_H

#include "tap.h"
#include "zk_client.h"

#include <dlock/dlock.h>
#include <stdint.h>

int64_t process_now_ms(void);
void rest_ms(int64_t ms);

/* Runs fn in a child, whose tests are counted here. True: it ended well, and wrote nothing to
 * standard error. */
bool process_run_silently(void (*fn)(void *arg), void *arg);

struct process_usage {
    int descriptors, threads;
};
struct process_usage process_usage_now(void);

/* Each descriptor from 3 on has close-on-exec. */
bool process_inherits_nothing(void);
/* A program that is started now has no descriptor from 3 on of a socket or the like. */
bool process_exec_is_alone(void);
/* The threads beside the main one have blocked the signals that an application uses. */
bool process_signals_are_ours(void);
/* A child of fork frees and closes these: does it end by itself, and soon? */
bool process_child_closes(struct dlock_client *client, struct dlock_handle *lock);

/* Looking up "slow" takes until it is switched off. */
void process_names_hang(bool hang);
/* Each socket stays without close-on-exec for a while before its maker has it, if it ever is, and a
 * child is forked then. Off: true if no child saw one. */
bool process_sockets_slow(bool slow);

/* The address of a server that talks to its clients, but not as ZooKeeper does. */
const char *process_babbler(void);

#endif
