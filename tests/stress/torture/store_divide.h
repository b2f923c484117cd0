/* SPDX-License-Identifier: MIT */
/* store_divide.h - a network that falls in two, where masters are replaced: a master with some of
 * the clients on one side, all other servers, the sentinels and the other clients on the other. */
#ifndef TORTURE_STORE_DIVIDE_H
#define TORTURE_STORE_DIVIDE_H

#include "store.h"

/* Each client gets a way of its own to each server with data, and to each sentinel. False: why. */
bool store_divide_start(struct store *store);
/* Harmless twice. */
void store_divide_stop(struct store *store);

/* The master and the clients of one side hear nothing of the others, who hear nothing of it. It is
 * for others to cut the servers off from each other. False: a proxy disobeys. */
bool store_divide(struct store *store, unsigned master, uint32_t variant);
/* ... and all hear each other again. True: something had been lost in between. */
bool store_unite(struct store *store);

#endif
