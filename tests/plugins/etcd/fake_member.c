/* SPDX-License-Identifier: MIT */
#include "fake_member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE 3

static struct dlt_member_call *call_of(struct dlt_member *member, int32_t id)
{
    for (size_t i = 0; i < DLT_MEMBER_CALLS; i++)
        if (member->call[i].id == id)
            return &member->call[i];
    return NULL;
}

/* ---- what the client says ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct dlt_member *member = user;
    struct dlt_member_call *call = call_of(member, 0);

    (void)session;
    if (call == NULL)
        abort();
    memset(call, 0, sizeof *call);
    call->id = frame->hd.stream_id;
    atomic_fetch_add(&member->calls, 1);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct dlt_member *member = user;
    struct dlt_member_call *call = call_of(member, frame->hd.stream_id);
    size_t used = strlen(member->headers);

    (void)session;
    if (call != NULL && name_len == 5 && memcmp(name, ":path", 5) == 0)
        (void)snprintf(call->path, sizeof call->path, "%.*s", (int)value_len, (const char *)value);
    if (atomic_load(&member->calls) == 1)
        (void)snprintf(member->headers + used, sizeof member->headers - used, "%s%.*s: %.*s\n",
                       (flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0 ? "!" : "", (int)name_len,
                       (const char *)name, (int)value_len, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *user)
{
    struct dlt_member_call *call = call_of(user, id);

    (void)session;
    (void)flags;
    if (call == NULL || len > sizeof call->bytes - call->len)
        abort();
    memcpy(call->bytes + call->len, bytes, len);
    call->len += len;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct dlt_member *member = user;
    struct dlt_member_call *call = call_of(member, frame->hd.stream_id);

    (void)session;
    if (call != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
        (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS))
        call->complete = true;
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        atomic_fetch_add(&member->resets, 1);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct dlt_member_call *call = call_of(user, id);

    (void)session;
    (void)code;
    if (call != NULL)
        call->id = 0;
    return 0;
}

/* ---- answers ---- */

#define FIELD(name, value)                                                                        \
    {                                                                                             \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value), \
            NGHTTP2_NV_FLAG_NONE                                                                  \
    }

static ssize_t data_read(nghttp2_session *session, int32_t id, uint8_t *out, size_t size,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct dlt_member_call *call = call_of(user, id);
    const nghttp2_nv trailers[] = {FIELD("grpc-status", "0")};
    size_t len = 0;

    (void)source;
    if (call == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    len = call->len - call->said;
    if (strcmp(call->path, "/pieces") == 0 && len > PIECE)
        len = PIECE;
    if (len > size)
        len = size;
    memcpy(out, call->bytes + call->said, len);
    call->said += len;
    if (call->said == call->len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(session, id, trailers, 1) != 0)
            abort();
    }
    return (ssize_t)len;
}

static void answer(struct dlt_member *member, struct dlt_member_call *call)
{
    const nghttp2_nv good[] = {FIELD(":status", "200"), FIELD("content-type", "application/grpc")};
    const nghttp2_nv bad[] = {FIELD(":status", "200"), FIELD("content-type", "application/grpc"),
                              FIELD("grpc-status", "14"), FIELD("grpc-message", "no leader")};
    const nghttp2_data_provider provider = {.read_callback = data_read};
    int result = 0;

    call->answered = true;
    if (strcmp(call->path, "/refuse") == 0)
        result = nghttp2_submit_rst_stream(member->session, NGHTTP2_FLAG_NONE, call->id,
                                           NGHTTP2_REFUSED_STREAM);
    else if (strcmp(call->path, "/fail") == 0)
        result = nghttp2_submit_response(member->session, call->id, bad, 4, NULL);
    else if (strcmp(call->path, "/silent") != 0)
        result = nghttp2_submit_response(member->session, call->id, good, 2, &provider);
    if (result != 0)
        abort();
}

static void answer_all(struct dlt_member *member)
{
    for (;;) {
        struct dlt_member_call *last = NULL;

        for (size_t i = 0; i < DLT_MEMBER_CALLS; i++) {
            struct dlt_member_call *call = &member->call[i];

            if (call->id != 0 && call->complete && !call->answered &&
                (last == NULL || call->id > last->id))
                last = call;
        }
        if (last == NULL)
            return;
        answer(member, last);
    }
}

static bool speak(struct dlt_member *member)
{
    const uint8_t *bytes = NULL;
    ssize_t len = 0;

    while ((len = nghttp2_session_mem_send(member->session, &bytes)) > 0)
        for (ssize_t at = 0, sent = 0; at < len; at += sent) {
            sent = send(member->fd, bytes + at, (size_t)(len - at), MSG_NOSIGNAL);
            if (sent <= 0)
                return false;
        }
    return len == 0;
}

static void *serve(void *arg)
{
    struct dlt_member *member = arg;
    unsigned char bytes[16384];
    ssize_t got = 0;

    while (speak(member)) {
        got = recv(member->fd, bytes, sizeof bytes, 0);
        if (got <= 0 || nghttp2_session_mem_recv(member->session, bytes, (size_t)got) < 0)
            break;
        answer_all(member);
    }
    nghttp2_session_del(member->session);
    (void)close(member->fd);
    return NULL;
}

void dlt_member_start(struct dlt_member *member)
{
    nghttp2_settings_entry setting = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, member->most_calls};
    nghttp2_session_callbacks *callbacks = NULL;

    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        abort();
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_server_new(&member->session, callbacks, member) != 0 ||
        nghttp2_submit_settings(member->session, NGHTTP2_FLAG_NONE, &setting,
                                member->most_calls != 0) != 0 ||
        pthread_create(&member->thread, NULL, serve, member) != 0)
        abort();
    nghttp2_session_callbacks_del(callbacks);
}

void dlt_member_join(struct dlt_member *member)
{
    (void)pthread_join(member->thread, NULL);
}
