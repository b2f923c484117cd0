/* SPDX-License-Identifier: MIT */
/*
 * loop_epoll.c - one thread, an epoll loop, many locks under way: each name is locked, printed and
 * unlocked as its notices come.
 *
 *     loop_epoll URI NAME...
 */
#include <dlock/dlock.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

/* Returns true once the work on the lock of this notice is over. */
static bool notice_handle(const struct dlock_notice *notice)
{
    if (notice->kind != DLOCK_NOTICE_DONE)
        return false;
    if (notice->op == DLOCK_OP_LOCK && notice->status == DLOCK_OK) {
        (void)printf("%s: locked, fence %" PRIu64 "\n", (const char *)notice->user, notice->fence);
        if (dlock_op_start(notice->lock, DLOCK_OP_UNLOCK, 0, NULL) == DLOCK_OK)
            return false;
    } else if (notice->status != DLOCK_OK)
        (void)printf("%s: %s\n", (const char *)notice->user, notice->error.message);
    dlock_free(notice->lock);
    return true;
}

int main(int argc, char **argv)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct epoll_event event = {.events = EPOLLIN};
    struct dlock_client *client = NULL;
    int left = 0, loop = epoll_create1(EPOLL_CLOEXEC);

    if (argc < 3 || dlock_client_open(argv[1], NULL, &client, &err) != DLOCK_OK) {
        (void)fprintf(stderr, "usage: loop_epoll URI NAME...: %s\n", err.message);
        return 1;
    }
    (void)epoll_ctl(loop, EPOLL_CTL_ADD, dlock_client_fd(client), &event);
    for (int i = 2; i < argc; i++) {
        struct dlock_options options = DLOCK_OPTIONS_INIT;
        struct dlock_handle *lock = NULL;

        options.user = argv[i];
        if (dlock_new(client, argv[i], DLOCK_NUL, &options, &lock, &err) == DLOCK_OK)
            left += dlock_op_start(lock, DLOCK_OP_LOCK, 10000, &err) == DLOCK_OK;
    }
    while (left > 0 && epoll_wait(loop, &event, 1, -1) >= 0) {
        struct dlock_notice notice = DLOCK_NOTICE_INIT;

        while (dlock_client_next(client, &notice, &err) == DLOCK_OK &&
               notice.kind != DLOCK_NOTICE_NONE)
            left -= notice_handle(&notice);
    }
    dlock_client_close(client);
    return 0;
}
