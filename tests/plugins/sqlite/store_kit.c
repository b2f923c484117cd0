/* SPDX-License-Identifier: MIT */
#include "store_kit.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CALL_MS 2000

void dlt_store_directory(char *directory, char *path)
{
    (void)snprintf(directory, 64, "%s", "/tmp/dlock-sqlite-XXXXXX");
    if (mkdtemp(directory) == NULL)
        abort();
    (void)snprintf(path, 64, "%s/locks.db", directory);
}

void dlt_store_remove(const char *directory)
{
    DIR *dir = opendir(directory);
    struct dirent *entry = NULL;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir != NULL)
        (void)closedir(dir);
    (void)rmdir(directory);
}

static const struct dlt_store_target *store_target(const struct dlock_target *target)
{
    return (const struct dlt_store_target *)(const void *)target;
}

static const char *target_option(const struct dlock_target *target, const char *name)
{
    return strcmp(name, "sync") == 0 ? store_target(target)->sync : NULL;
}

static int64_t target_number(const struct dlock_target *target, const char *name)
{
    if (strcmp(name, "waiter_lease") == 0)
        return store_target(target)->waiter_lease_ms;
    if (strcmp(name, "create") == 0)
        return !store_target(target)->create_off;
    return strcmp(name, "unsafe_network_fs") == 0 ? store_target(target)->unsafe_network_fs : 0;
}

void dlt_store_init(struct dlt_store *store, const char *path)
{
    memset(store, 0, sizeof *store);
    store->ops = dlock_plugin_sqlite()->ops;
    dlt_host_init_running(&store->host);
    store->target.waiter_lease_ms = 3000;
    store->target.target = (struct dlock_target){
        .scheme = "sqlite",
        .path = path,
        .directory = "/",
        .hosts = store->target.hosts,
        .option = target_option,
        .number = target_number,
        .read_secret = dlt_read_secret,
    };
}

static void calls_begin(struct dlt_store *store)
{
    store->err = (struct dlock_error)DLOCK_ERROR_INIT;
    store->grant = (struct dlock_grant){
        .struct_size = sizeof store->grant, .waiters = UINT32_MAX, .holder_ms = -1};
}

enum dlock_status dlt_store_open(struct dlt_store *store)
{
    enum dlock_status status = DLOCK_INTERNAL;

    calls_begin(store);
    store->self = calloc(1, store->ops->session_size);
    if (store->self == NULL)
        abort();
    status = store->ops->open(store->self, &store->host.table, &store->target.target,
                              dlt_host_in(&store->host, CALL_MS), &store->info, &store->err);
    if (status != DLOCK_OK)
        dlt_store_close(store);
    return status;
}

void dlt_store_close(struct dlt_store *store)
{
    if (store->self != NULL)
        store->ops->close(store->self, 0);
    free(store->self);
    store->self = NULL;
}

enum dlock_status dlt_store_start(struct dlt_store *store, const char *path)
{
    enum dlock_status status = DLOCK_INTERNAL;

    dlt_store_init(store, path);
    status = dlt_store_open(store);
    if (status != DLOCK_OK)
        printf("# %s: %s\n", path, store->err.message);
    return status;
}

enum dlock_status dlt_store_try(struct dlt_store *store, struct dlt_request *request)
{
    calls_begin(store);
    return store->ops->trylock(store->self, &request->req, &store->grant, &store->err);
}

static enum dlock_status try_with(struct dlt_store *store, struct dlt_request *request,
                                  uint32_t flags)
{
    enum dlock_status status = DLOCK_INTERNAL;

    request->req.flags = flags;
    request->req.deadline_ns = dlt_host_in(&store->host, CALL_MS);
    status = dlt_store_try(store, request);
    request->req.flags = 0;
    return status;
}

enum dlock_status dlt_store_enqueue(struct dlt_store *store, struct dlt_request *request)
{
    return try_with(store, request, DLOCK_REQ_ENQUEUE);
}

enum dlock_status dlt_store_refresh(struct dlt_store *store, struct dlt_request *request)
{
    return try_with(store, request, DLOCK_REQ_REFRESH);
}

enum dlock_status dlt_store_watch(struct dlt_store *store, struct dlt_request *request,
                                  int64_t timeout_ms)
{
    calls_begin(store);
    request->req.deadline_ns = dlt_host_in(&store->host, timeout_ms);
    return store->ops->watch(store->self, &request->req, &store->grant, &store->err);
}

enum dlock_status dlt_store_renew(struct dlt_store *store, struct dlt_request *request)
{
    struct dlock_lease_op op = {.req = &request->req, .status = DLOCK_INTERNAL};
    enum dlock_status status = DLOCK_INTERNAL;

    calls_begin(store);
    status = dlt_renew_many(store->ops, store->self, &op, 1, dlt_host_in(&store->host, CALL_MS),
                            &store->err);
    store->grant = op.grant;
    return status == DLOCK_OK ? op.status : status;
}

enum dlock_status dlt_store_downgrade(struct dlt_store *store, struct dlt_request *request)
{
    enum dlock_status status = DLOCK_INTERNAL;

    request->req.flags = DLOCK_REQ_DOWNGRADE;
    status = dlt_store_renew(store, request);
    request->req.flags = 0;
    return status;
}

enum dlock_status dlt_store_leave(struct dlt_store *store, struct dlt_request *request)
{
    calls_begin(store);
    request->req.deadline_ns = dlt_host_in(&store->host, CALL_MS);
    return store->ops->dequeue(store->self, &request->req, &store->err);
}

enum dlock_status dlt_store_unlock(struct dlt_store *store, struct dlt_request *request)
{
    calls_begin(store);
    request->req.deadline_ns = dlt_host_in(&store->host, CALL_MS);
    return store->ops->unlock(store->self, &request->req, &store->err);
}

enum dlock_status dlt_store_break(struct dlt_store *store, const char *name, const char *owner)
{
    calls_begin(store);
    return store->ops->break_lock(store->self, (const unsigned char *)name, (uint32_t)strlen(name),
                                  owner, dlt_host_in(&store->host, CALL_MS), &store->err);
}

struct collect {
    struct dlt_holder *holders;
    size_t room, count;
};

static bool collect_one(void *arg, const struct dlock_holder *lease)
{
    struct collect *collect = arg;
    struct dlt_holder *holder = &collect->holders[collect->count];

    if (collect->count == collect->room)
        return 1;
    *holder = (struct dlt_holder){
        .fence = lease->fence,
        .remaining_ms = lease->remaining_ms,
        .held_ms = lease->held_ms,
        .waiters = lease->waiters,
        .mode = lease->mode,
    };
    memcpy(holder->name, lease->name, lease->name_len);
    (void)snprintf(holder->owner, sizeof holder->owner, "%s", lease->owner);
    (void)snprintf(holder->label, sizeof holder->label, "%s", lease->label);
    collect->count++;
    return 0;
}

enum dlock_status dlt_store_list(struct dlt_store *store, const char *prefix,
                                 struct dlt_holder *holders, size_t *count)
{
    struct collect collect = {.holders = holders, .room = *count};
    enum dlock_status status = DLOCK_INTERNAL;

    calls_begin(store);
    status =
        store->ops->list(store->self, (const unsigned char *)prefix, (uint32_t)strlen(prefix),
                         dlt_host_in(&store->host, CALL_MS), collect_one, &collect, &store->err);
    *count = collect.count;
    return status;
}

enum dlock_status dlt_store_inspect(struct dlt_store *store, const char *name,
                                    struct dlt_holder *holder, size_t *count)
{
    struct collect collect = {.holders = holder, .room = *count};
    enum dlock_status status = DLOCK_INTERNAL;

    calls_begin(store);
    status =
        store->ops->inspect(store->self, (const unsigned char *)name, (uint32_t)strlen(name),
                            dlt_host_in(&store->host, CALL_MS), collect_one, &collect, &store->err);
    *count = collect.count;
    return status;
}

struct waited {
    int64_t *out;
    size_t count, room;
};

static bool waited_take(void *arg, const struct dlock_waiter *waiter)
{
    struct waited *taken = arg;

    if (taken->count < taken->room)
        taken->out[taken->count++] = waiter->waited_ms;
    return taken->count == taken->room;
}

enum dlock_status dlt_store_waited(struct dlt_store *store, const char *name, int64_t *waited_ms,
                                   size_t *count)
{
    struct waited taken = {waited_ms, 0, *count};
    enum dlock_status status = DLOCK_INTERNAL;

    calls_begin(store);
    status = store->ops->list_waiters(store->self, (const unsigned char *)name,
                                      (uint32_t)strlen(name), dlt_host_in(&store->host, CALL_MS),
                                      waited_take, &taken, &store->err);
    *count = taken.count;
    return status;
}

void dlt_store_request(struct dlt_store *store, struct dlt_request *request, const char *name,
                       unsigned char owner, int64_t ttl_ms)
{
    dlt_request_init(request, &store->host, name, owner, ttl_ms);
    request->req.op_timeout_ms = CALL_MS;
    request->req.deadline_ns = dlt_host_in(&store->host, CALL_MS);
}

void dlt_sleep_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}
