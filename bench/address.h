/* SPDX-License-Identifier: MIT */
/*
 * address.h - where a URI's store is, for those who go there without dlock. Knows what it needs of
 * the grammar of docs/uri.md; whether a URI is right is for dlock to say.
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
    BENCH_POSTGRESQL_SESSION
};

struct bench_host {
    char name[128];
    int port;
};

struct bench_address {
    enum bench_kind kind;
    int plain;        /* zero: over TLS, where the bare connections do not go */
    int nodes, hosts; /* how many hosts there are, and how many of them fit in here */
    struct bench_host host[BENCH_HOSTS_MAX];
    char user[64], password[128];
    char path[256];   /* of a file, or a socket */
    char socket[256]; /* of a server; "": by host and port */
    char database[64];
};

/* 0, or -1: it is not like a URI. */
int bench_address_parse(const char *uri, struct bench_address *address);

/* An address of its own, to be freed. As bench_work.open. */
void *bench_address_open(const struct bench_place *place, char *why);

/* The URI without user, password and options, for people. */
const char *bench_address_show(const char *uri, char *text, size_t size);

#endif
