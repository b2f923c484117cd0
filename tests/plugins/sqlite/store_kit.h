/* SPDX-License-Identifier: MIT */
/*
 * store_kit.h - a SQLite store in a directory of its own, and a session of it opened through the
 * plugin's table. The host's clock runs.
 */
#ifndef DLT_STORE_KIT_H
#define DLT_STORE_KIT_H

#include "fake_host.h"

struct dlt_store_target {
    struct dlock_target target; /* first: its functions look behind it */
    const char *hosts[2];
    const char *sync; /* NULL: as if not given */
    int unsafe_network_fs;
    int create_off;
    int64_t waiter_lease_ms;
};

struct dlt_store {
    const struct dlock_backend_ops *ops;
    struct dlt_host host;
    struct dlt_store_target target;
    struct dlock_session_info info;
    struct dlock_error err; /* of the last call */
    struct dlock_grant grant;
    void *self;
};

const struct dlock_plugin *dlock_plugin_sqlite(void);

/* A new directory, and the path of a file in it that is not there. They hold 64 bytes. */
void dlt_store_directory(char *directory, char *path);
/* With all files in it; it has no directories. */
void dlt_store_remove(const char *directory);

void dlt_store_init(struct dlt_store *store, const char *path);
/* Bounded by 2 s, as all calls here except where a request says otherwise. */
enum dlock_status dlt_store_open(struct dlt_store *store);
void dlt_store_close(struct dlt_store *store);
/* Both; on failure prints why. */
enum dlock_status dlt_store_start(struct dlt_store *store, const char *path);

enum dlock_status dlt_store_try(struct dlt_store *store, struct dlt_request *request);
/* The same with ENQUEUE, and with REFRESH. */
enum dlock_status dlt_store_enqueue(struct dlt_store *store, struct dlt_request *request);
enum dlock_status dlt_store_refresh(struct dlt_store *store, struct dlt_request *request);
enum dlock_status dlt_store_watch(struct dlt_store *store, struct dlt_request *request,
                                  int64_t timeout_ms);
enum dlock_status dlt_store_renew(struct dlt_store *store, struct dlt_request *request);
enum dlock_status dlt_store_unlock(struct dlt_store *store, struct dlt_request *request);
enum dlock_status dlt_store_downgrade(struct dlt_store *store, struct dlt_request *request);
enum dlock_status dlt_store_leave(struct dlt_store *store, struct dlt_request *request);
enum dlock_status dlt_store_break(struct dlt_store *store, const char *name, const char *owner);

/* The holders, at most as many as fit. */
struct dlt_holder {
    char name[256];
    char owner[33];
    char label[256];
    uint64_t fence;
    int64_t remaining_ms, held_ms;
    uint32_t waiters, mode;
};
enum dlock_status dlt_store_list(struct dlt_store *store, const char *prefix,
                                 struct dlt_holder *holders, size_t *count);
enum dlock_status dlt_store_inspect(struct dlt_store *store, const char *name,
                                    struct dlt_holder *holder, size_t *count);

/* For how long the waiters of a name have waited, by position; *count as above. */
enum dlock_status dlt_store_waited(struct dlt_store *store, const char *name, int64_t *waited_ms,
                                   size_t *count);

/* dlt_request_init, due in 2 s. */
void dlt_store_request(struct dlt_store *store, struct dlt_request *request, const char *name,
                       unsigned char owner, int64_t ttl_ms);

void dlt_sleep_ms(int64_t ms);

#endif
