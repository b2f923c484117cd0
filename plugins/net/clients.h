/* SPDX-License-Identifier: MIT */
/*
 * clients.h - what a plugin keeps once for all sessions of a client. The sessions of a client find
 * it by their host [HST-1].
 *
 * A fork waits until nobody has the mutex of this file. The child finds none of the parent's
 * clients: it may open a client of its own at the address of a host of the parent.
 */
#ifndef NET_CLIENTS_H
#define NET_CLIENTS_H

#include <dlock/plugin.h>
#include <stdbool.h>

/* The first member of the plugin's own struct. */
struct client {
    struct client *next;           /* guarded by the mutex of clients.c */
    const struct dlock_host *host; /* stands for the client */
    unsigned refs;                 /* guarded by the mutex of clients.c */
};

/* All clients of a plugin in this process. */
struct clients {
    /* Makes a zeroed client of the plugin, with the mutex held; arg is that of clients_find. NULL:
     * it failed. */
    struct client *(*make)(const struct dlock_host *host, const void *arg);
    /* NULL, or called for each client in the child of a fork. It may close descriptors, and takes
     * no mutex and frees nothing. */
    void (*after_fork)(struct client *client);

    struct client *first, *inherited; /* inherited: from the parent, of no use in the child */
    struct clients *next;
};

/* In slot init, which core calls for one plugin at a time; harmless twice. False: no memory. */
bool clients_init(struct clients *clients);

/* The client of this host, made if there is none, with a reference for the caller. NULL: it could
 * not be made. */
struct client *clients_find(struct clients *clients, const struct dlock_host *host,
                            const void *arg);
void clients_ref(struct client *client);
/* True: that was the last reference. Nobody finds the client any more, and the caller frees it. */
bool clients_unref(struct clients *clients, struct client *client);

/* The mutex may guard a few fields of the plugin's struct as well. It is a leaf. */
void clients_lock(void);
void clients_unlock(void);

#endif
