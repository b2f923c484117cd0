/* SPDX-License-Identifier: MIT */
#include "http2.h"
#include "lib/text.h"
#include "lib/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_ROOM    ((size_t)20 << 10) /* the most that nghttp2 gives at once, and more */
#define WINDOW        (1 << 20)          /* bytes that the server may send before we have read */
#define IDLE_MOST     1000u              /* idle frames, in IDLE_NS, are a flood */
#define IDLE_NS       (10 * DL_NS_PER_S)
#define USER_AGENT    "dlock"
#define LITERAL(text) (const uint8_t *)(text)

static bool broken(struct etcd_http2 *http2, const char *why)
{
    http2->broken = true;
    (void)snprintf(http2->why, sizeof http2->why, "%s", why);
    return false;
}

static struct etcd_call *call_of(struct etcd_http2 *http2, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(http2->session, stream_id);
}

/* From here on nghttp2 does not know the call. */
static void forget(struct etcd_http2 *http2, struct etcd_call *call, uint32_t code)
{
    (void)nghttp2_session_set_stream_user_data(http2->session, call->stream_id, NULL);
    if (code != NGHTTP2_NO_ERROR &&
        nghttp2_submit_rst_stream(http2->session, NGHTTP2_FLAG_NONE, call->stream_id, code) != 0)
        (void)broken(http2, "no memory for HTTP/2");
}

/* After a function of call.c. complete: a message is there, also without an end. */
static void settle(struct etcd_http2 *http2, struct etcd_call *call, bool complete, bool last)
{
    bool all_sent = call->sent == call->request_len;

    if (call->end == ETCD_OPEN && !complete)
        return;
    http2->idle_frames = 0;
    if (call->end != ETCD_OPEN)
        forget(http2, call, last && all_sent ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
    http2->on_event(http2->ctx, call);
}

/* ---- what nghttp2 calls ---- */

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *header, void *user)
{
    struct etcd_http2 *http2 = user;

    (void)session;
    (void)header;
    http2->idle_frames++;
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct etcd_http2 *http2 = user;
    struct etcd_call *call = call_of(http2, frame->hd.stream_id);

    (void)session;
    (void)flags;
    if (call == NULL)
        return 0;
    etcd_call_header(call, (const char *)name, name_len, (const char *)value, value_len);
    settle(http2, call, false, false);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t len, void *user)
{
    struct etcd_http2 *http2 = user;
    struct etcd_call *call = call_of(http2, stream_id);
    bool complete = false;

    (void)session;
    (void)flags;
    if (call == NULL)
        return 0;
    http2->idle_frames = 0;
    complete = etcd_call_data(call, bytes, len);
    settle(http2, call, complete, false);
    return 0;
}

static void depart(struct etcd_http2 *http2, const nghttp2_goaway *goaway)
{
    char text[80];

    dl_printable_mask(text, sizeof text, (const char *)goaway->opaque_data,
                      goaway->opaque_data_len);
    http2->departing = true;
    (void)snprintf(http2->why, sizeof http2->why, "the server ends the connection: %s %s",
                   nghttp2_http2_strerror(goaway->error_code), text);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct etcd_http2 *http2 = user;
    bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    struct etcd_call *call = NULL;

    (void)session;
    if (frame->hd.type == NGHTTP2_SETTINGS)
        http2->settled = true;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        depart(http2, &frame->goaway);
    if (frame->hd.type != NGHTTP2_HEADERS && (frame->hd.type != NGHTTP2_DATA || !last))
        return 0;
    call = call_of(http2, frame->hd.stream_id);
    if (call == NULL)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS)
        etcd_call_headers_done(call, last);
    else
        etcd_call_finish(call);
    settle(http2, call, false, last);
    return 0;
}

/* nghttp2 will reset the stream. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int code,
                            void *user)
{
    struct etcd_http2 *http2 = user;
    struct etcd_call *call = call_of(http2, frame->hd.stream_id);

    (void)session;
    if (call == NULL)
        return 0;
    etcd_call_end(call, ETCD_FOREIGN, "not an answer of HTTP/2: %s", nghttp2_strerror(code));
    settle(http2, call, false, true);
    return 0;
}

/* REFUSED_STREAM comes from the server, or is what nghttp2 makes of GOAWAY. */
static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *user)
{
    struct etcd_http2 *http2 = user;
    struct etcd_call *call = call_of(http2, stream_id);

    (void)session;
    if (call == NULL)
        return 0;
    if (!call->produced)
        etcd_call_end(call, ETCD_UNSENT, "the server takes no new calls");
    else if (code == NGHTTP2_REFUSED_STREAM && call->header_bytes == 0)
        etcd_call_end(call, ETCD_UNSENT, "the server refused the call");
    else
        etcd_call_end(call, ETCD_CUT, "the server ended the call: %s",
                      nghttp2_http2_strerror(code));
    call->sent = call->request_len;
    settle(http2, call, false, true);
    return 0;
}

static int before_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct etcd_http2 *http2 = user;
    struct etcd_call *call = NULL;
    char text[96];
    bool ours = false;

    (void)session;
    if (frame->hd.type == NGHTTP2_HEADERS) {
        call = call_of(http2, frame->hd.stream_id);
        if (call != NULL) {
            call->produced = true;
            call->begins = http2->produced;
        }
    }
    if (frame->hd.type == NGHTTP2_GOAWAY) { /* what nghttp2 says at an end */
        dl_printable_mask(text, sizeof text, (const char *)frame->goaway.opaque_data,
                          frame->goaway.opaque_data_len);
        ours = frame->goaway.error_code == NGHTTP2_INTERNAL_ERROR; /* it had no memory */
        http2->broken = true;
        http2->foreign = !http2->settled && !ours;
        (void)snprintf(http2->why, sizeof http2->why, "%s: %s %s",
                       ours ? "HTTP/2 cannot go on" : "the server broke the rules of HTTP/2",
                       nghttp2_http2_strerror(frame->goaway.error_code), text);
    }
    return 0;
}

static ssize_t request_read(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t size,
                            uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct etcd_call *call = call_of(user, stream_id);
    size_t len = 0;

    (void)session;
    (void)source;
    if (call == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    len = call->request_len - call->sent;
    if (len > size)
        len = size;
    memcpy(out, call->request + call->sent, len);
    call->sent += len;
    if (call->sent == call->request_len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

/* ---- beginning and end ---- */

static bool session_make(struct etcd_http2 *http2, nghttp2_session_callbacks *callbacks,
                         nghttp2_option *option)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, ETCD_HEADERS_MAX},
    };

    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, before_send);
    nghttp2_option_set_max_reserved_remote_streams(option, 0);
    return nghttp2_session_client_new2(&http2->session, callbacks, http2, option) == 0 &&
           nghttp2_submit_settings(http2->session, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof settings[0]) == 0 &&
           nghttp2_session_set_local_window_size(http2->session, NGHTTP2_FLAG_NONE, 0, WINDOW) == 0;
}

bool etcd_http2_init(struct etcd_http2 *http2, const char *scheme, const char *authority)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    bool made = false;

    http2->scheme = scheme;
    http2->authority = strdup(authority);
    if (http2->authority != NULL && nghttp2_session_callbacks_new(&callbacks) == 0 &&
        nghttp2_option_new(&option) == 0)
        made = session_make(http2, callbacks, option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return made;
}

void etcd_http2_fini(struct etcd_http2 *http2)
{
    nghttp2_session_del(http2->session);
    free(http2->authority);
    if (http2->token != NULL)
        explicit_bzero(http2->token, strlen(http2->token));
    free(http2->token);
}

bool etcd_http2_set_token(struct etcd_http2 *http2, const char *token)
{
    char *copy = strdup(token);

    if (copy == NULL)
        return false;
    if (http2->token != NULL)
        explicit_bzero(http2->token, strlen(http2->token));
    free(http2->token);
    http2->token = copy;
    return true;
}

const char *etcd_http2_why(const struct etcd_http2 *http2)
{
    return http2->why;
}

bool etcd_http2_open(const struct etcd_http2 *http2)
{
    return !http2->broken && nghttp2_session_check_request_allowed(http2->session) != 0;
}

/* ---- calls ---- */

static nghttp2_nv field(const char *name, const char *value, uint8_t flags)
{
    /* nghttp2 does not write to them. */
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), flags};
}

bool etcd_http2_submit(struct etcd_http2 *http2, struct etcd_call *call)
{
    nghttp2_nv fields[] = {
        field(":method", "POST", 0),
        field(":scheme", http2->scheme, 0),
        field(":path", call->path, 0),
        field(":authority", http2->authority, 0),
        field("te", "trailers", 0),
        field("content-type", "application/grpc", 0),
        field("user-agent", USER_AGENT, 0),
        field("hasleader", "true", 0), /* a member without a leader answers at once */
        field("token", http2->token != NULL ? http2->token : "", NGHTTP2_NV_FLAG_NO_INDEX),
    };
    size_t count = sizeof fields / sizeof fields[0] - (http2->token == NULL);
    nghttp2_data_provider provider = {.read_callback = request_read};
    int32_t id = nghttp2_submit_request(http2->session, NULL, fields, count, &provider, call);

    if (id > 0) {
        call->stream_id = id;
        return true;
    }
    if (id == NGHTTP2_ERR_NOMEM)
        etcd_call_end(call, ETCD_NO_MEMORY, "no memory for a call");
    else
        etcd_call_end(call, ETCD_UNSENT, "the connection takes no more calls");
    return false;
}

void etcd_http2_reset(struct etcd_http2 *http2, struct etcd_call *call, const char *text)
{
    etcd_call_end(call, call->produced ? ETCD_CUT : ETCD_UNSENT, "%s", text);
    forget(http2, call, NGHTTP2_CANCEL);
}

/* ---- bytes ---- */

/* A server may say much that is of no use to a call, but not for long. */
static bool flooded(struct etcd_http2 *http2, int64_t now_ns)
{
    bool flood = false;

    if (http2->idle_frames < IDLE_MOST)
        return false;
    flood = http2->idle_since_ns != 0 && now_ns - http2->idle_since_ns < IDLE_NS;
    http2->idle_since_ns = now_ns;
    http2->idle_frames = 0;
    return flood;
}

bool etcd_http2_receive(struct etcd_http2 *http2, const unsigned char *bytes, size_t len,
                        int64_t now_ns)
{
    ssize_t taken = nghttp2_session_mem_recv(http2->session, bytes, len);

    http2->foreign = taken < 0 && taken != NGHTTP2_ERR_NOMEM && !http2->settled;
    if (taken < 0)
        return broken(http2, nghttp2_strerror((int)taken));
    if (flooded(http2, now_ns))
        return broken(http2, "a flood of frames that no call is waiting for");
    if (!http2->broken && !http2->departing && !etcd_http2_open(http2))
        (void)etcd_http2_produce(http2); /* finds GOAWAY, if nghttp2 wants to say it */
    if (http2->broken)
        return false;
    return !http2->departing || nghttp2_session_want_read(http2->session) != 0;
}

bool etcd_http2_produce(struct etcd_http2 *http2)
{
    while (!http2->broken && sizeof http2->out - http2->out_len >= FRAME_ROOM) {
        const uint8_t *bytes = NULL;
        ssize_t len = nghttp2_session_mem_send(http2->session, &bytes);

        if (len == 0)
            break;
        if (len < 0)
            return broken(http2, nghttp2_strerror((int)len));
        if ((size_t)len > sizeof http2->out - http2->out_len)
            return broken(http2, "a frame that is too long");
        memcpy(http2->out + http2->out_len, bytes, (size_t)len);
        http2->out_len += (size_t)len;
        http2->produced += (size_t)len;
    }
    return !http2->broken;
}
