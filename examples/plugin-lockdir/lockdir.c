/* SPDX-License-Identifier: MIT */
/*
 * lockdir:///srv/locks - a directory of lock files, for the processes of one host.
 *
 * A worked plugin, built outside of dlock's tree. The kernel keeps the lock for a descriptor, so
 * the lock lives in the session that took it (DLOCK_CAP_SESSION), has no time of its own, and ends
 * with the process. README.md says what is promised; docs/plugins.md of dlock goes through this
 * file slot by slot.
 */
#include "lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#define LOCKDIR_CAPS (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_SESSION)
#define NS_PER_MS    INT64_C(1000000)

/* What core allocates for `self`. While fd >= 0 the last five are of the lock that it holds. */
struct session {
    struct session *next; /* all of this process, under sessions_mutex */
    const struct dlock_host *host;
    char dir[PATH_MAX - NAME_MAX - 1];
    mode_t mode; /* of new lock files: group and owner, or owner alone, as the directory has it */
    int fd;      /* -1: holds nothing */
    int64_t record;
    uint64_t fence;
    struct lockfile_holder holder; /* what is in that record */
    char path[PATH_MAX];
};

static struct session *sessions;
static pthread_mutex_t sessions_mutex = PTHREAD_MUTEX_INITIALIZER;

static void fork_prepare(void)
{
    (void)pthread_mutex_lock(&sessions_mutex);
}

static void fork_parent(void)
{
    (void)pthread_mutex_unlock(&sessions_mutex);
}

/* A child has the parent's files open, too, and would keep the locks of a parent that died. */
static void fork_child(void)
{
    for (const struct session *session = sessions; session != NULL; session = session->next)
        if (session->fd >= 0)
            (void)close(session->fd);
    sessions = NULL;
    (void)pthread_mutex_unlock(&sessions_mutex);
}

static enum dlock_status lockdir_init(const struct dlock_host *host, struct dlock_error *err)
{
    (void)host;
    if (pthread_atfork(fork_prepare, fork_parent, fork_child) != 0)
        return dlock_fail(err, LOCKDIR_ORIGIN, DLOCK_NOMEM, 0, "no memory for a fork handler");
    return DLOCK_OK;
}

/* nfs, smb, cifs, smb2, fuse, 9p, ceph, afs, ocfs2, gfs2, lustre, vboxsf, virtiofs, gpfs, coda */
static bool on_network(const struct statfs *fs)
{
    static const uint32_t magics[] = {0x00006969, 0x0000517b, 0xff534d42, 0xfe534d42, 0x65735546,
                                      0x01021997, 0x00c36400, 0x5346414f, 0x7461636f, 0x01161970,
                                      0x0bd00bd0, 0x786f4256, 0x6a656a63, 0x47504653, 0x73757245};

    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++)
        if ((uint32_t)fs->f_type == magics[i])
            return true;
    return false;
}

static enum dlock_status dir_find(struct session *session, const struct dlock_target *target,
                                  struct dlock_error *err)
{
    bool relative = target->path[0] != '/';
    int len = 0;

    if (target->hosts[0] != NULL || target->user != NULL || target->password != NULL ||
        target->path[0] == '\0' || (relative && target->directory == NULL))
        return dlock_fail(err, LOCKDIR_ORIGIN, DLOCK_INVALID, 0,
                          "want a directory: lockdir:///absolute/path or lockdir:relative/path");
    len = snprintf(session->dir, sizeof session->dir, "%s%s%s", relative ? target->directory : "",
                   relative ? "/" : "", target->path);
    if (len < 0 || (size_t)len >= sizeof session->dir)
        return dlock_fail(err, LOCKDIR_ORIGIN, DLOCK_INVALID, 0, "the path is too long");
    return DLOCK_OK;
}

/* Where a lock would not be safe there is none [OPN-1]. */
static enum dlock_status dir_check(struct session *session, bool network_too,
                                   struct dlock_error *err)
{
    struct stat st;
    struct statfs fs;

    if (stat(session->dir, &st) != 0 || statfs(session->dir, &fs) != 0)
        return lockfile_fail(err, "use", session->dir);
    if (!S_ISDIR(st.st_mode) || (st.st_mode & S_IWOTH) != 0)
        return dlock_fail(err, LOCKDIR_ORIGIN, DLOCK_CONFIG, 0,
                          "%.160s is not a directory that others may not write", session->dir);
    if (on_network(&fs) && !network_too)
        return dlock_fail(err, LOCKDIR_ORIGIN, DLOCK_CONFIG, 0,
                          "%.120s is on a network file system, where locks of other hosts may not "
                          "be seen; unsafe_network_fs=on accepts that",
                          session->dir);
    session->mode = (st.st_mode & S_IWGRP) != 0 ? 0660 : 0600;
    return DLOCK_OK;
}

static enum dlock_status lockdir_open(void *self, const struct dlock_host *host,
                                      const struct dlock_target *target, int64_t deadline_ns,
                                      struct dlock_session_info *info, struct dlock_error *err)
{
    struct session *session = self;
    enum dlock_status status = dir_find(session, target, err);

    (void)deadline_ns; /* nothing here waits for long */
    session->host = host;
    session->fd = -1;
    if (status == DLOCK_OK)
        status = dir_check(session, target->number(target, "unsafe_network_fs") != 0, err);
    if (status != DLOCK_OK)
        return status;
    (void)pthread_mutex_lock(&sessions_mutex);
    session->next = sessions;
    sessions = session;
    (void)pthread_mutex_unlock(&sessions_mutex);
    info->caps = LOCKDIR_CAPS;
    (void)snprintf(info->server, sizeof info->server, "lock files of this host");
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%.63s", session->dir);
    return DLOCK_OK;
}

/* The lock of the session, if any, is free. */
static void release(struct session *session)
{
    struct dlock_error ignored;

    if (session->fd < 0)
        return;
    /* Not by closing alone: a child that was made without fork_child may have the file open. */
    (void)lockfile_lock(session->fd, 0, F_UNLCK, &ignored);
    (void)pthread_mutex_lock(&sessions_mutex);
    (void)close(session->fd);
    session->fd = -1;
    (void)pthread_mutex_unlock(&sessions_mutex);
}

static void lockdir_close(void *self, bool forked)
{
    struct session *session = self, **link = &sessions;

    if (forked) /* [CLS-1]; fork_child has closed what there was */
        return;
    release(session);
    (void)pthread_mutex_lock(&sessions_mutex);
    while (*link != NULL && *link != session)
        link = &(*link)->next;
    if (*link != NULL) /* it is not there after an open that failed */
        *link = session->next;
    (void)pthread_mutex_unlock(&sessions_mutex);
}

static bool holds(const struct session *session, const struct dlock_request *req)
{
    return session->fd >= 0 && memcmp(session->holder.token, req->token, DLOCK_TOKEN_SIZE) == 0;
}

static enum dlock_status file_open(struct session *session, struct dlock_error *err)
{
    struct stat st;

    (void)pthread_mutex_lock(&sessions_mutex); /* fork_child sees each file that is open */
    session->fd = lockfile_open(session->path, session->mode);
    (void)pthread_mutex_unlock(&sessions_mutex);
    if (session->fd < 0)
        return lockfile_fail(err, "open", session->path);
    /* umask is not for the group of a directory that is a group's. */
    if (fstat(session->fd, &st) == 0 && st.st_size == 0 && st.st_uid == geteuid())
        (void)fchmod(session->fd, session->mode);
    return DLOCK_OK;
}

/* The wall clock keeps fences rising if somebody removed the file. */
static uint64_t fence_after(uint64_t last)
{
    struct timespec now;
    uint64_t us = 0;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    return us > last ? us : last + 1;
}

/* Byte 0 is ours. A writer is alone here, and its fence is in the file before OK is said [TRY-6];
 * readers show the fence of the last writer, and all write the same to a new file. */
static enum dlock_status fence_take(struct session *session, const struct dlock_request *req,
                                    struct dlock_error *err)
{
    struct lockfile_head head;
    enum dlock_status status =
        lockfile_read(session->fd, session->path, req->name, req->name_len, &head, err);

    if (status != DLOCK_OK)
        return status;
    if (req->mode == DLOCK_EXCLUSIVE)
        head.fence = fence_after(head.fence);
    session->fence = head.fence;
    if (req->mode == DLOCK_EXCLUSIVE || head.fence == 0)
        return lockfile_write(session->fd, session->path, &head, err);
    return DLOCK_OK;
}

static enum dlock_status record_take(struct session *session, const struct dlock_request *req,
                                     struct dlock_error *err)
{
    int64_t now_ns = session->host->now_ns(session->host->ctx);
    enum dlock_status status = DLOCK_BUSY;

    session->holder = (struct lockfile_holder){
        .since_ns = now_ns, .until_ns = now_ns + req->ttl_ms * NS_PER_MS, .mode = req->mode};
    memcpy(session->holder.token, req->token, DLOCK_TOKEN_SIZE);
    (void)snprintf(session->holder.label, sizeof session->holder.label, "%s", req->label);
    for (int64_t i = 0; i < LOCKFILE_HOLDERS && status == DLOCK_BUSY; i++) {
        session->record = i;
        status = lockfile_lock(session->fd, 1 + i, F_WRLCK, err);
    }
    if (status == DLOCK_OK)
        (void)lockfile_holder_write(session->fd, session->record, &session->holder);
    return status;
}

static enum dlock_status take(struct session *session, const struct dlock_request *req,
                              struct dlock_error *err)
{
    int type = req->mode == DLOCK_SHARED ? F_RDLCK : F_WRLCK;
    enum dlock_status status = DLOCK_INTERNAL;

    lockfile_path(session->path, session->dir, req->name, req->name_len);
    status = file_open(session, err);
    if (status == DLOCK_OK)
        status = lockfile_lock(session->fd, 0, type, err);
    if (status == DLOCK_OK)
        status = lockfile_check(session->fd, session->path, err);
    if (status == DLOCK_LOST) /* between open and lock; the next attempt makes a new one */
        return dlock_fail(err, LOCKDIR_ORIGIN, DLOCK_UNAVAILABLE, 0, "%.180s was just removed",
                          session->path);
    if (status == DLOCK_OK)
        status = fence_take(session, req, err);
    return status == DLOCK_OK ? record_take(session, req, err) : status;
}

static enum dlock_status lockdir_trylock(void *self, const struct dlock_request *req,
                                         struct dlock_grant *grant, struct dlock_error *err)
{
    struct session *session = self;
    enum dlock_status status = holds(session, req) ? DLOCK_OK : take(session, req, err);

    if (status != DLOCK_OK) {
        release(session);
        return status;
    }
    grant->fence = session->fence;
    grant->lease_ms = req->ttl_ms;
    return DLOCK_OK;
}

/* A ping: the kernel keeps the lock, but somebody may have moved the file from under it. */
static enum dlock_status renew_one(struct session *session, struct dlock_lease_op *op,
                                   struct dlock_error *err)
{
    int64_t now_ns = session->host->now_ns(session->host->ctx);
    int64_t until_ns = now_ns + op->req->ttl_ms * NS_PER_MS;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!holds(session, op->req))
        return dlock_fail(err, LOCKDIR_ORIGIN, DLOCK_LOST, 0, "this session does not hold it");
    status = lockfile_check(session->fd, session->path, err);
    if (status == DLOCK_OK && (op->req->flags & DLOCK_REQ_DOWNGRADE) != 0) {
        status = lockfile_lock(session->fd, 0, F_RDLCK, err); /* the kernel leaves no gap */
        session->holder.mode = status == DLOCK_OK ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    }
    if (status != DLOCK_OK)
        return status;
    if (until_ns > session->holder.until_ns) /* never less [REN-3] */
        session->holder.until_ns = until_ns;
    (void)lockfile_holder_write(session->fd, session->record, &session->holder);
    op->grant.fence = session->fence;
    op->grant.lease_ms = op->req->ttl_ms; /* never more, even where the old lease lasts longer */
    return DLOCK_OK;
}

static enum dlock_status lockdir_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                       int64_t deadline_ns, struct dlock_error *err)
{
    (void)deadline_ns;
    for (size_t i = 0; i < n; i++)
        ops[i]->status = renew_one(self, ops[i], err);
    return DLOCK_OK;
}

static enum dlock_status lockdir_unlock(void *self, const struct dlock_request *req,
                                        struct dlock_error *err)
{
    struct session *session = self;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!holds(session, req))
        return dlock_fail(err, LOCKDIR_ORIGIN, DLOCK_LOST, 0, "this session does not hold it");
    status = lockfile_check(session->fd, session->path, err);
    release(session);
    return status == DLOCK_LOST ? DLOCK_LOST : DLOCK_OK;
}

static int holder_tell(const struct lockfile_head *head, const struct lockfile_holder *holder,
                       int64_t now_ns, dlock_holder_fn *fn, void *arg)
{
    char owner[2 * DLOCK_TOKEN_SIZE + 1] = "";
    struct dlock_holder info = {
        .struct_size = sizeof info,
        .name = head->name,
        .name_len = head->name_len,
        .mode = holder->mode == DLOCK_SHARED ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
        .waiters = UINT32_MAX,
        .fence = head->fence,
        .held_ms = -1,
        .owner = owner,
        .label = holder->label,
    };

    for (size_t i = 0; i < DLOCK_TOKEN_SIZE; i++)
        (void)snprintf(owner + 2 * i, 3, "%02x", holder->token[i]);
    if (holder->until_ns > now_ns) /* else the holder is late; the kernel keeps the lock */
        info.remaining_ms = (holder->until_ns - now_ns) / NS_PER_MS;
    if (holder->since_ns >= 0 && holder->since_ns <= now_ns)
        info.held_ms = (now_ns - holder->since_ns) / NS_PER_MS;
    return fn(arg, &info);
}

static enum dlock_status lockdir_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                         int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                         struct dlock_error *err)
{
    const struct session *session = self;
    struct lockfile_head head;
    struct lockfile_holder holder;
    enum dlock_status status = DLOCK_INTERNAL;
    char path[PATH_MAX];
    int fd = -1;

    (void)deadline_ns;
    lockfile_path(path, session->dir, name, name_len);
    fd = lockfile_open(path, 0);
    if (fd < 0)
        return errno == ENOENT ? DLOCK_OK : lockfile_fail(err, "open", path);
    status = lockfile_read(fd, path, name, name_len, &head, err);
    for (int64_t i = 0; status == DLOCK_OK && i < LOCKFILE_HOLDERS; i++)
        if (lockfile_locked(fd, 1 + i) && lockfile_holder_read(fd, i, &holder) &&
            holder_tell(&head, &holder, session->host->now_ns(session->host->ctx), fn, arg) != 0)
            break;
    (void)close(fd);
    return status;
}

static const struct dlock_backend_ops lockdir_ops = {
    .struct_size = sizeof lockdir_ops,
    .session_size = sizeof(struct session),
    .open = lockdir_open,
    .close = lockdir_close,
    .trylock = lockdir_trylock,
    .renew = lockdir_renew,
    .unlock = lockdir_unlock,
    .inspect = lockdir_inspect,
};

static const char *const lockdir_schemes[] = {"lockdir", NULL};

static const struct dlock_option_spec lockdir_options[] = {
    {"unsafe_network_fs", "bool", "off", NULL,
     "accept a network file system, on which locks of other hosts may not be seen"},
    {.name = NULL},
};

static const struct dlock_plugin lockdir_plugin = {
    .magic = DLOCK_PLUGIN_MAGIC,
    .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = sizeof lockdir_plugin,
    .caps = LOCKDIR_CAPS,
    .name = "lockdir",
    .version = "1",
    .schemes = lockdir_schemes,
    .options = lockdir_options,
    .init = lockdir_init,
    .ops = &lockdir_ops,
};

DLOCK_PLUGIN_ENTRY(lockdir, &lockdir_plugin)
