/* SPDX-License-Identifier: MIT */
/* channel_fixture.h - a channel whose other end is the test's, and calls that note what they hear.
 */
#ifndef DLT_CHANNEL_FIXTURE_H
#define DLT_CHANNEL_FIXTURE_H

#include "channel.h"
#include "fake_host.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct dlt_host host;
static struct etcd_channel *channel;
static struct etcd_wait wait;
static int client, server; /* the channel's end, and the other one */

/* A call and the texts of its answer. */
struct asked {
    struct etcd_call call; /* the first member */
    unsigned char request[4096];
    char heard[256]; /* the messages, with a bar behind each */
    unsigned messages;
};

static bool hear(struct etcd_call *call, const unsigned char *message, size_t len)
{
    struct asked *asked = (struct asked *)call;
    size_t used = strlen(asked->heard);

    asked->messages++;
    if (len == 4 && memcmp(message, "JUNK", 4) == 0)
        return false;
    (void)snprintf(asked->heard + used, sizeof asked->heard - used, "%.*s|", (int)len,
                   (const char *)message);
    return true;
}

static void asked_init(struct asked *asked, const char *path, const char *text)
{
    size_t len = strlen(text);

    memset(asked, 0, sizeof *asked);
    asked->request[3] = (unsigned char)(len >> 8);
    asked->request[4] = (unsigned char)len;
    memcpy(asked->request + ETCD_PREFIX_SIZE, text, len);
    asked->call.path = path;
    asked->call.request = asked->request;
    asked->call.request_len = ETCD_PREFIX_SIZE + len;
    asked->call.on_message = hear;
}

static void open_channel(void)
{
    struct stream stream;
    int ends[2];

    dlt_host_init_running(&host);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    stream_init(&stream, &host.table);
    stream.fd = client = ends[0];
    cr_assert_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    server = ends[1];
    channel = etcd_channel_new(&stream, "127.0.0.1:2379");
    cr_assert_not_null(channel);
    memset(&wait, 0, sizeof wait);
    etcd_channel_join(channel, &wait);
}

#endif
