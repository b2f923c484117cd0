/* SPDX-License-Identifier: MIT */
#include "bare_etcd.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PREFIX 5 /* of a message of gRPC: a flag, and the length */
#define WINDOW (1 << 20)

struct bench_etcd {
    int fd;
    nghttp2_session *session;
    char authority[160];
};

int bench_etcd_failed(const char *text, char *why)
{
    (void)snprintf(why, BENCH_WHY_SIZE, "etcd: %.200s", text);
    return -1;
}

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *out, size_t size,
                       uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct bench_etcd_call *call = source->ptr;
    size_t part = call->length - call->sent;

    (void)session;
    (void)stream;
    (void)arg;
    part = part < size ? part : size;
    memcpy(out, call->request + call->sent, part);
    call->sent += part;
    if (call->sent == call->length)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)part;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
                   size_t length, void *arg)
{
    struct bench_etcd_call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)flags;
    (void)arg;
    if (call == NULL)
        return 0;
    if (length > sizeof call->answer - call->got)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    memcpy(call->answer + call->got, data, length);
    call->got += length;
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t length, uint8_t flags,
                     void *arg)
{
    static const char status[] = "grpc-status";
    struct bench_etcd_call *call =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)length;
    (void)flags;
    (void)arg;
    if (call != NULL && name_length == sizeof status - 1 && memcmp(name, status, name_length) == 0)
        call->status = (int)strtol((const char *)value, NULL, 10);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *arg)
{
    struct bench_etcd_call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)code;
    (void)arg;
    if (call != NULL)
        call->ended = 1;
    return 0;
}

static int session_make(struct bench_etcd *etcd)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW}};
    nghttp2_session_callbacks *callbacks = NULL;
    int rc = nghttp2_session_callbacks_new(&callbacks);

    if (rc != 0)
        return rc;
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    rc = nghttp2_session_client_new(&etcd->session, callbacks, etcd);
    nghttp2_session_callbacks_del(callbacks);
    if (rc == 0)
        rc = nghttp2_submit_settings(etcd->session, NGHTTP2_FLAG_NONE, settings, 2);
    if (rc == 0)
        rc = nghttp2_session_set_local_window_size(etcd->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
    return rc;
}

static int socket_connect(const struct bench_host *host)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[16];
    int fd = -1, yes = 1;

    (void)snprintf(port, sizeof port, "%d", host->port);
    if (getaddrinfo(host->name, port, &hints, &found) != 0)
        return -1;
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        (void)close(fd);
        fd = -1;
    }
    if (fd >= 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    freeaddrinfo(found);
    return fd;
}

struct bench_etcd *bench_etcd_connect(const struct bench_address *address, char *why)
{
    struct bench_etcd *etcd = calloc(1, sizeof *etcd);
    const struct bench_host *host = &address->host[0];

    if (etcd == NULL) {
        (void)bench_etcd_failed("no memory", why);
        return NULL;
    }
    (void)snprintf(etcd->authority, sizeof etcd->authority, "%.127s:%d", host->name, host->port);
    etcd->fd = socket_connect(host);
    if (etcd->fd >= 0 && session_make(etcd) == 0)
        return etcd;
    (void)bench_etcd_failed("no connection", why);
    bench_etcd_close(etcd);
    return NULL;
}

void bench_etcd_close(struct bench_etcd *etcd)
{
    if (etcd == NULL)
        return;
    nghttp2_session_del(etcd->session);
    if (etcd->fd >= 0)
        (void)close(etcd->fd);
    free(etcd);
}

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value),
                        .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

int bench_etcd_begin(struct bench_etcd *etcd, struct bench_etcd_call *call, const char *method,
                     const ProtobufCMessage *request, char *why)
{
    size_t length = protobuf_c_message_get_packed_size(request);
    nghttp2_data_provider provider = {.source = {.ptr = call}, .read_callback = on_read};
    char path[64];
    nghttp2_nv headers[] = {header(":method", "POST"),
                            header(":scheme", "http"),
                            header(":path", path),
                            header(":authority", etcd->authority),
                            header("content-type", "application/grpc"),
                            header("te", "trailers")};

    if (length > sizeof call->request - PREFIX)
        return bench_etcd_failed("a long request", why);
    (void)snprintf(path, sizeof path, "/etcdserverpb.%s", method);
    headers[2] = header(":path", path);
    headers[2].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
    call->ended = 0;
    call->status = -1;
    call->got = call->sent = 0;
    call->request[0] = 0;
    for (int i = 0; i < 4; i++)
        call->request[1 + i] = (unsigned char)(length >> (24 - 8 * i));
    (void)protobuf_c_message_pack(request, call->request + PREFIX);
    call->length = PREFIX + length;
    call->stream = nghttp2_submit_request(etcd->session, NULL, headers,
                                          sizeof headers / sizeof headers[0], &provider, call);
    return call->stream > 0 ? 0 : bench_etcd_failed("no stream", why);
}

/* All that there is, at once. */
static int flush(struct bench_etcd *etcd, char *why)
{
    unsigned char out[16384];
    const uint8_t *part = NULL;
    size_t length = 0;
    ssize_t got = 0;

    while ((got = nghttp2_session_mem_send(etcd->session, &part)) > 0) {
        if ((size_t)got > sizeof out - length)
            return bench_etcd_failed("a long flight", why);
        memcpy(out + length, part, (size_t)got);
        length += (size_t)got;
    }
    if (got == 0 && (length == 0 || send(etcd->fd, out, length, MSG_NOSIGNAL) == (ssize_t)length))
        return 0;
    return bench_etcd_failed("the connection does not send", why);
}

static int receive(struct bench_etcd *etcd, char *why)
{
    unsigned char in[16384];
    ssize_t got = recv(etcd->fd, in, sizeof in, 0);

    if (got <= 0)
        return bench_etcd_failed("the connection ended", why);
    if (nghttp2_session_mem_recv(etcd->session, in, (size_t)got) != got)
        return bench_etcd_failed("no HTTP/2", why);
    return 0;
}

int bench_etcd_end(struct bench_etcd *etcd, struct bench_etcd_call *call, char *why)
{
    char text[32];

    if (flush(etcd, why) != 0)
        return -1;
    while (!call->ended)
        if (receive(etcd, why) != 0)
            return -1;
    if (call->status == 0)
        return 0;
    (void)snprintf(text, sizeof text, "status %d", call->status);
    return bench_etcd_failed(text, why);
}

void bench_etcd_reset(struct bench_etcd *etcd, struct bench_etcd_call *call)
{
    (void)nghttp2_session_set_stream_user_data(etcd->session, call->stream, NULL);
    (void)nghttp2_submit_rst_stream(etcd->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
}

/* Zero: not whole yet. */
static size_t message_length(const struct bench_etcd_call *call)
{
    size_t length = 0;

    if (call->got < PREFIX)
        return 0;
    for (int i = 0; i < 4; i++)
        length = length << 8 | call->answer[1 + i];
    return call->got >= PREFIX + length ? PREFIX + length : 0;
}

ProtobufCMessage *bench_etcd_message(struct bench_etcd *etcd, struct bench_etcd_call *call,
                                     const ProtobufCMessageDescriptor *type, char *why)
{
    ProtobufCMessage *message = NULL;
    size_t length = 0;

    if (flush(etcd, why) != 0)
        return NULL;
    while ((length = message_length(call)) == 0) {
        if (call->ended) {
            (void)bench_etcd_failed("no answer", why);
            return NULL;
        }
        if (receive(etcd, why) != 0)
            return NULL;
    }
    message = protobuf_c_message_unpack(type, NULL, length - PREFIX, call->answer + PREFIX);
    call->got -= length;
    memmove(call->answer, call->answer + length, call->got);
    if (message == NULL)
        (void)bench_etcd_failed("no such message", why);
    return message;
}
