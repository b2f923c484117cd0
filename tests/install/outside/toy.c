/* SPDX-License-Identifier: MIT */
/* A plugin outside the tree, with the installed headers alone: one lock for one process. */
#include <dlock/plugin.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t toy_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned char toy_owner[DLOCK_TOKEN_SIZE];
static int toy_held;

static int toy_is_owner(const struct dlock_request *req)
{
    return toy_held && memcmp(toy_owner, req->token, DLOCK_TOKEN_SIZE) == 0;
}

static enum dlock_status toy_open(void *self, const struct dlock_host *host,
                                  const struct dlock_target *target, int64_t deadline_ns,
                                  struct dlock_session_info *info, struct dlock_error *err)
{
    (void)self, (void)host, (void)target, (void)deadline_ns, (void)err;
    info->caps = 0;
    (void)snprintf(info->server, sizeof info->server, "toy");
    (void)snprintf(info->endpoint, sizeof info->endpoint, "here");
    return DLOCK_OK;
}

static void toy_close(void *self, bool forked)
{
    (void)self, (void)forked;
}

static enum dlock_status toy_trylock(void *self, const struct dlock_request *req,
                                     struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_BUSY;

    (void)self, (void)err;
    pthread_mutex_lock(&toy_mutex);
    if (!toy_held || toy_is_owner(req)) {
        toy_held = 1;
        memcpy(toy_owner, req->token, DLOCK_TOKEN_SIZE);
        grant->lease_ms = req->ttl_ms;
        status = DLOCK_OK;
    } else {
        grant->holder_ms = -1;
    }
    pthread_mutex_unlock(&toy_mutex);
    return status;
}

static enum dlock_status toy_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                   int64_t deadline_ns, struct dlock_error *err)
{
    (void)self, (void)deadline_ns, (void)err;
    pthread_mutex_lock(&toy_mutex);
    for (size_t i = 0; i < n; i++) {
        ops[i]->status = toy_is_owner(ops[i]->req) ? DLOCK_OK : DLOCK_LOST;
        ops[i]->grant.lease_ms = ops[i]->req->ttl_ms;
    }
    pthread_mutex_unlock(&toy_mutex);
    return DLOCK_OK;
}

static enum dlock_status toy_unlock(void *self, const struct dlock_request *req,
                                    struct dlock_error *err)
{
    int mine;

    (void)self;
    pthread_mutex_lock(&toy_mutex);
    mine = toy_is_owner(req);
    if (mine)
        toy_held = 0;
    pthread_mutex_unlock(&toy_mutex);
    return mine ? DLOCK_OK : dlock_fail(err, "toy", DLOCK_LOST, 0, "not held by this token");
}

static const char *const toy_schemes[] = {"toy", NULL};
static const struct dlock_option_spec toy_options[] = {{NULL, NULL, NULL, NULL, NULL}};

static const struct dlock_backend_ops toy_ops = {
    .struct_size = sizeof toy_ops,
    .session_size = 1,
    .open = toy_open,
    .close = toy_close,
    .trylock = toy_trylock,
    .renew = toy_renew,
    .unlock = toy_unlock,
};

static const struct dlock_plugin toy_plugin = {
    .magic = DLOCK_PLUGIN_MAGIC,
    .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = sizeof toy_plugin,
    .name = "toy",
    .version = "1",
    .schemes = toy_schemes,
    .options = toy_options,
    .ops = &toy_ops,
};

DLOCK_PLUGIN_ENTRY(toy, &toy_plugin)
