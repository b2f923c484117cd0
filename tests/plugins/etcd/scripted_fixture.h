/* SPDX-License-Identifier: MIT */
/* scripted_fixture.h - a channel whose server is the test, frame by frame. */
#ifndef DLT_SCRIPTED_FIXTURE_H
#define DLT_SCRIPTED_FIXTURE_H

#include "channel_fixture.h"
#include "frames.h"

static const char *const good[] = {":status: 200", "content-type: application/grpc", NULL};
static const char *const ok[] = {"grpc-status: 0", NULL};

static void close_channel(void)
{
    etcd_channel_leave(&wait);
    etcd_channel_free(channel);
    (void)close(server);
}

/* Begins the calls and sends them; the server has said that it speaks HTTP/2. */
static void begin(struct asked *first, struct asked *second)
{
    cr_assert(dlt_frame_say(server, FRAME_SETTINGS, 0, 0, NULL, 0));
    asked_init(first, "/first", "one");
    cr_assert(etcd_channel_begin(&wait, &first->call));
    if (second != NULL) {
        asked_init(second, "/second", "two");
        cr_assert(etcd_channel_begin(&wait, &second->call));
    }
    etcd_channel_flush(&wait);
}

/* Until the call has ended; it has half a second. */
static enum etcd_end end_of(const struct asked *asked)
{
    int64_t deadline_ns = dlt_host_in(&host, 500);

    while (asked->call.end == ETCD_OPEN && etcd_channel_await(&wait, deadline_ns))
        continue;
    return asked->call.end;
}

#define ENDS(asked, wanted, said)                                                                 \
    do {                                                                                          \
        cr_assert_eq(end_of(asked), wanted, "the call ended with %d: %s", (int)(asked)->call.end, \
                     (asked)->call.text);                                                         \
        cr_assert_not_null(strstr((asked)->call.text, said), "%s", (asked)->call.text);           \
    } while (0)

#endif
