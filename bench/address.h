/* SPDX-License-Identifier: MIT */
/*
 * address.h - the address of a URI's store, for measurements without dlock. It reads the needed
 * part of the grammar of docs/uri.md; dlock judges whether a URI is right.
 */
#ifndef BENCH_ADDRESS_H
#define BENCH_ADDRESS_H

#include "work.h"

#include <stddef.h>

#define BENCH_HOSTS_MAX 8

enum bench_kind {
    BENCH_OTHER,
    BENCH_MEMORY,
    BENCH_SQLITE,
    BENCH_REDIS,
    BENCH_REDLOCK,
    BENCH_MYSQL,         /* rows */
    BENCH_MYSQL_SESSION, /* the same plugin by strategy=session */
    BENCH_POSTGRESQL,
    BENCH_POSTGRESQL_SESSION,
    BENCH_ETCD,
    BENCH_ZOOKEEPER
};

struct bench_host {
    char name[128];
    int port;
};

struct bench_address {
    enum bench_kind kind;
    int plain;        /* zero: over TLS, which the bare connections do not use */
    int nodes, hosts; /* the number of hosts, and the number of elements of host */
    struct bench_host host[BENCH_HOSTS_MAX];
    char user[64], password[128];
    char path[256];   /* of a file, or a socket */
    char socket[256]; /* of a server; "": by host and port */
    char database[64];
};

/* 0, or -1: the text is not like a URI. */
int bench_address_parse(const char *uri, struct bench_address *address);

/* A new address, to be freed; the bench_work.open of the stores. */
void *bench_address_open(const struct bench_config *config, char *why);

/* The URI without user, password and options, for people. */
const char *bench_address_show(const char *uri, char *text, size_t size);

#endif
