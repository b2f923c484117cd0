/* SPDX-License-Identifier: MIT */
#include "zk_client.h"
#include "zk_request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_S  5
#define XID_EVENT (-1)

/* ---- packets ---- */

/* A stop ends a recv that has a time limit. */
static bool bytes_read(int fd, void *out, size_t len)
{
    unsigned char *at = out;

    while (len > 0) {
        ssize_t got = recv(fd, at, len, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        len -= (size_t)got;
    }
    return true;
}

static bool packet_send(const struct dlt_zk_client *client, struct zk_packet *packet)
{
    zk_packet_end(packet);
    return send(client->fd, packet->bytes, packet->len, MSG_NOSIGNAL) == (ssize_t)packet->len;
}

static bool packet_receive(const struct dlt_zk_client *client, struct zk_packet *packet)
{
    unsigned char header[4];
    uint32_t len = 0;

    zk_packet_begin(packet);
    if (!bytes_read(client->fd, header, sizeof header))
        return false;
    for (size_t i = 0; i < sizeof header; i++)
        len = len << 8 | header[i];
    if (len > sizeof packet->bytes - packet->len || !bytes_read(client->fd, packet->bytes + 4, len))
        return false;
    packet->len += len;
    return true;
}

int32_t zk_request_call(struct dlt_zk_client *client, int32_t xid, struct zk_packet *packet)
{
    int32_t got = 0, error = 0;

    if (client->fd < 0 || !packet_send(client, packet))
        return ZK_CONNECTION_LOSS;
    do {
        if (!packet_receive(client, packet))
            return ZK_CONNECTION_LOSS;
        got = zk_packet_take_int(packet);
        (void)zk_packet_take_long(packet); /* zxid */
        error = zk_packet_take_int(packet);
    } while (got == XID_EVENT);
    return got == xid ? error : ZK_CONNECTION_LOSS;
}

void zk_request_begin(struct dlt_zk_client *client, struct zk_packet *packet, int32_t op,
                      const char *path)
{
    zk_packet_begin(packet);
    zk_packet_put_int(packet, ++client->xid);
    zk_packet_put_int(packet, op);
    if (path != NULL)
        zk_packet_put_text(packet, path);
}

int32_t zk_request(struct dlt_zk_client *client, struct zk_packet *packet)
{
    return zk_request_call(client, client->xid, packet);
}

/* ---- sessions ---- */

static bool connect_to(struct dlt_zk_client *client, unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = ANSWER_S};

    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0)
        return false;
    (void)setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return connect(client->fd, (struct sockaddr *)&address, sizeof address) == 0;
}

/* The session of client->session_id, or a new one. */
static bool greet(struct dlt_zk_client *client, int32_t timeout_ms)
{
    struct zk_packet packet;

    zk_packet_begin(&packet);
    zk_packet_put_int(&packet, 0);  /* version of the protocol */
    zk_packet_put_long(&packet, 0); /* the last zxid that was seen */
    zk_packet_put_int(&packet, timeout_ms);
    zk_packet_put_long(&packet, client->session_id);
    zk_packet_put_bytes(&packet, client->password, sizeof client->password);
    zk_packet_put_byte(&packet, 0); /* not read-only */
    if (!packet_send(client, &packet) || !packet_receive(client, &packet))
        return false;
    (void)zk_packet_take_int(&packet);
    client->timeout_ms = zk_packet_take_int(&packet);
    client->session_id = zk_packet_take_long(&packet);
    (void)zk_packet_take_bytes(&packet, client->password, sizeof client->password);
    return client->timeout_ms > 0 && client->session_id != 0;
}

static bool open_session(struct dlt_zk_client *client, unsigned port, int32_t timeout_ms)
{
    if (connect_to(client, port) && greet(client, timeout_ms))
        return true;
    dlt_zk_client_drop(client);
    return false;
}

bool dlt_zk_client_open(struct dlt_zk_client *client, const struct dlt_zk_member *member,
                        int32_t timeout_ms)
{
    *client = (struct dlt_zk_client){.fd = -1};
    return open_session(client, member->port, timeout_ms);
}

/* As the servers do it, of which each can so check the sessions of all: java.util.Random with a
 * seed of the number and a constant of theirs. */
static void password_guess(unsigned char password[16], int64_t session_id)
{
    static const uint64_t factor = UINT64_C(0x5DEECE66D), mask = (UINT64_C(1) << 48) - 1;
    uint64_t seed = (((uint64_t)session_id ^ UINT64_C(0xB3415C00)) ^ factor) & mask;

    for (size_t i = 0; i < 16; i += 4) {
        uint32_t number = 0;

        seed = (seed * factor + 0xB) & mask;
        number = (uint32_t)(seed >> 16);
        for (size_t byte = 0; byte < 4; byte++)
            password[i + byte] = (unsigned char)(number >> (8 * byte));
    }
}

bool dlt_zk_client_join(struct dlt_zk_client *client, const struct dlt_zk_member *member,
                        int64_t session_id)
{
    *client = (struct dlt_zk_client){.fd = -1, .session_id = session_id};
    password_guess(client->password, session_id);
    return open_session(client, member->port, 60000) && client->session_id == session_id;
}

void dlt_zk_client_drop(struct dlt_zk_client *client)
{
    if (client->fd >= 0)
        (void)close(client->fd);
    client->fd = -1;
}

void dlt_zk_client_close(struct dlt_zk_client *client)
{
    struct zk_packet packet;

    if (client->fd < 0)
        return;
    zk_request_begin(client, &packet, ZK_OP_CLOSE, NULL);
    (void)zk_request(client, &packet);
    dlt_zk_client_drop(client);
}

bool dlt_zk_expire(const struct dlt_zk *server, int64_t session_id)
{
    struct dlt_zk_client client;
    bool joined = false;

    for (unsigned i = 0; !joined && i < server->count; i++)
        if ((server->members[i].pid > 0 || server->borrowed) && !server->members[i].paused)
            joined = dlt_zk_client_join(&client, &server->members[i], session_id);
    if (joined)
        dlt_zk_client_close(&client);
    return joined;
}
