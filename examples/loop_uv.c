/* SPDX-License-Identifier: MIT */
/* loop_uv.c - the same as loop_epoll.c with libuv. loop_uv URI NAME... */
#include <dlock/dlock.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

static int left; /* locks under way */

static void notice_handle(const struct dlock_notice *notice)
{
    if (notice->kind != DLOCK_NOTICE_DONE)
        return;
    if (notice->op == DLOCK_OP_LOCK && notice->status == DLOCK_OK) {
        (void)printf("%s: locked, fence %" PRIu64 "\n", (const char *)notice->user, notice->fence);
        if (dlock_op_start(notice->lock, DLOCK_OP_UNLOCK, 0, NULL) == DLOCK_OK)
            return;
    } else if (notice->status != DLOCK_OK)
        (void)printf("%s: %s\n", (const char *)notice->user, notice->error.message);
    dlock_free(notice->lock);
    left--;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct dlock_notice notice = DLOCK_NOTICE_INIT;

    (void)status, (void)events;
    while (dlock_client_next(poll->data, &notice, NULL) == DLOCK_OK &&
           notice.kind != DLOCK_NOTICE_NONE)
        notice_handle(&notice);
    if (left == 0)
        (void)uv_poll_stop(poll); /* and the loop ends */
}

int main(int argc, char **argv)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    uv_poll_t poll;

    if (argc < 3 || dlock_client_open(argv[1], NULL, &client, &err) != DLOCK_OK)
        return fprintf(stderr, "usage: loop_uv URI NAME...: %s\n", err.message) > 0;
    for (int i = 2; i < argc; i++) {
        struct dlock_options options = DLOCK_OPTIONS_INIT;
        struct dlock_handle *lock = NULL;

        options.user = argv[i];
        if (dlock_new(client, argv[i], DLOCK_NUL, &options, &lock, &err) == DLOCK_OK)
            left += dlock_op_start(lock, DLOCK_OP_LOCK, 10000, &err) == DLOCK_OK;
    }
    (void)uv_poll_init(uv_default_loop(), &poll, dlock_client_fd(client));
    poll.data = client;
    if (left > 0)
        (void)uv_poll_start(&poll, UV_READABLE, on_readable);
    (void)uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    dlock_client_close(client);
    return 0;
}
