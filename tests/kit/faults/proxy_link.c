/* SPDX-License-Identifier: MIT */
#include "proxy.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_SIZE  65536
#define QUEUE_MAX  ((size_t)4 << 20) /* bytes that stand still; then their sender waits */
#define CLOSED_MAX 512               /* links kept for their counts */
#define AGAIN_NS   (10 * PROXY_NS_PER_MS)

static void counts_add(struct proxy_counts *to, const struct proxy_counts *from)
{
    to->seen += from->seen;
    to->frames += from->frames;
    to->bytes += from->bytes;
    to->dropped += from->dropped;
    to->swallowed += from->swallowed;
    to->delayed += from->delayed;
    to->sliced += from->sliced;
    to->withheld += from->withheld;
    to->broken += from->broken;
}

/* Gives back the memory of the oldest closed links beyond CLOSED_MAX. */
static void closed_trim(struct proxy *proxy)
{
    struct proxy_link **at = &proxy->links;
    size_t closed = 0;

    while (*at != NULL) {
        struct proxy_link *link = *at;

        closed += link->closed;
        if (!link->closed || closed <= CLOSED_MAX) {
            at = &link->next;
            continue;
        }
        counts_add(&proxy->gone[0], &link->pipe[0].counts);
        counts_add(&proxy->gone[1], &link->pipe[1].counts);
        *at = link->next;
        free(link);
    }
}

void proxy_link_close(struct proxy *proxy, struct proxy_link *link, bool reset)
{
    if (link->closed)
        return;
    link->closed = true;
    for (int side = 0; side < 2; side++) {
        proxy_pipe_fini(proxy, &link->pipe[side]);
        if (link->fd[side] < 0)
            continue;
        if (reset)
            dlt_socket_reset(link->fd[side]);
        else
            dlt_socket_finish(link->fd[side]);
        link->fd[side] = -1;
    }
}

void proxy_links_free(struct proxy *proxy)
{
    while (proxy->links != NULL) {
        struct proxy_link *link = proxy->links;

        proxy_link_close(proxy, link, false);
        proxy->links = link->next;
        free(link);
    }
}

/* No server: the client gets what comes nearest to a refused connection. */
static void link_unreachable(struct proxy *proxy, struct proxy_link *link)
{
    proxy->unreachable++;
    proxy_link_close(proxy, link, true);
}

/* The server may be there soon. */
static void link_refused(struct proxy *proxy, struct proxy_link *link)
{
    int64_t now_ns = proxy_now();

    if (now_ns - link->accepted_ns >= proxy->patience_ns) {
        link_unreachable(proxy, link);
        return;
    }
    (void)close(link->fd[PROXY_S2C]);
    link->fd[PROXY_S2C] = -1;
    link->connecting = true;
    link->again_ns = now_ns + AGAIN_NS;
}

static void link_connect(struct proxy *proxy, struct proxy_link *link)
{
    link->again_ns = 0;
    link->connecting = false;
    link->fd[PROXY_S2C] = dlt_address_socket(&proxy->server);
    if (link->fd[PROXY_S2C] < 0) {
        link_unreachable(proxy, link);
    } else if (connect(link->fd[PROXY_S2C], &proxy->server.of.any, proxy->server.len) != 0) {
        link->connecting = errno == EINPROGRESS;
        if (!link->connecting)
            link_refused(proxy, link);
    }
}

void proxy_link_add(struct proxy *proxy, int client)
{
    struct proxy_link *link = calloc(1, sizeof *link);

    if (link == NULL)
        abort();
    closed_trim(proxy);
    link->number = ++proxy->accepted;
    link->next = proxy->links;
    proxy->links = link;
    proxy_pipe_init(&link->pipe[PROXY_C2S], proxy->framing);
    proxy_pipe_init(&link->pipe[PROXY_S2C], proxy->framing);
    link->fd[PROXY_C2S] = client;
    link->fd[PROXY_S2C] = -1;
    link->accepted_ns = proxy_now();
    proxy_orders_apply(proxy, link);
    link_connect(proxy, link);
}

static bool pipe_may_write(const struct proxy_link *link, enum proxy_dir dir)
{
    const struct proxy_pipe *pipe = &link->pipe[dir];

    if (link->closed || link->connecting || pipe->out_ended || pipe->shape.blackhole)
        return false;
    return pipe->first == NULL ? pipe->in_ended : !pipe->first->held;
}

short proxy_link_events(const struct proxy_link *link, enum proxy_dir side)
{
    const struct proxy_pipe *in = &link->pipe[side], *out = &link->pipe[1 - side];
    bool writes = out->blocked && pipe_may_write(link, (enum proxy_dir)(1 - side));
    short events = 0;

    if (link->closed || link->again_ns != 0)
        return 0;
    if (link->connecting)
        return side == PROXY_S2C ? POLLOUT : 0;
    if (!in->in_ended && in->queued < QUEUE_MAX)
        events |= POLLIN;
    if (writes)
        events |= POLLOUT;
    return events;
}

int64_t proxy_link_due(const struct proxy_link *link, int64_t now_ns)
{
    int64_t due = link->again_ns != 0 && !link->closed ? link->again_ns : PROXY_NEVER;

    for (int dir = 0; dir < 2; dir++) {
        const struct proxy_pipe *pipe = &link->pipe[dir];
        int64_t at = now_ns;

        if (!pipe_may_write(link, (enum proxy_dir)dir) || pipe->blocked)
            continue;
        if (pipe->first != NULL && pipe->first->due_ns > at)
            at = pipe->first->due_ns;
        if (pipe->first != NULL && pipe->next_write_ns > at)
            at = pipe->next_write_ns;
        if (at < due)
            due = at;
    }
    return due;
}

static void link_read(struct proxy *proxy, struct proxy_link *link, enum proxy_dir dir)
{
    static unsigned char bytes[READ_SIZE];
    struct proxy_pipe *pipe = &link->pipe[dir];
    ssize_t got = recv(link->fd[dir], bytes, sizeof bytes, 0);

    if (got > 0) {
        proxy_pipe_feed(proxy, link, dir, bytes, (size_t)got);
        return;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    pipe->in_ended = true;
    pipe->in_reset = got < 0;
    proxy_pipe_flush(proxy, link, dir);
}

void proxy_link_ready(struct proxy *proxy, struct proxy_link *link, enum proxy_dir side,
                      short events)
{
    int failed = 0;
    socklen_t len = sizeof failed;

    if (link->closed)
        return;
    if (link->connecting) {
        (void)getsockopt(link->fd[side], SOL_SOCKET, SO_ERROR, &failed, &len);
        link->connecting = false;
        if (failed != 0)
            link_refused(proxy, link);
        return;
    }
    if (events & POLLOUT)
        link->pipe[1 - side].blocked = false;
    if ((events & (POLLIN | POLLHUP | POLLERR)) && !link->pipe[side].in_ended)
        link_read(proxy, link, side);
}

static void link_cut(struct proxy *proxy, struct proxy_link *link, struct proxy_pipe *pipe)
{
    enum proxy_cut how = pipe->shape.cut_how;

    proxy->cuts++;
    pipe->shape.cuts = false;
    if (how == PROXY_CUT_HANG)
        pipe->shape.blackhole = true;
    else
        proxy_link_close(proxy, link, how == PROXY_CUT_RST);
}

/* The end of the stream goes on to the receiver, as it came. */
static void end_forward(struct proxy *proxy, struct proxy_link *link, enum proxy_dir dir)
{
    struct proxy_pipe *pipe = &link->pipe[dir];

    pipe->out_ended = true;
    if (pipe->in_reset)
        proxy_link_close(proxy, link, true);
    else
        (void)shutdown(link->fd[1 - dir], SHUT_WR);
}

/* One write. False: nothing more to do now. */
static bool pipe_write(struct proxy *proxy, struct proxy_link *link, enum proxy_dir dir,
                       int64_t now_ns)
{
    struct proxy_pipe *pipe = &link->pipe[dir];
    struct proxy_shape *shape = &pipe->shape;
    struct proxy_frame *frame = pipe->first;
    size_t len = frame->len - frame->sent;
    bool sliced = shape->slice > 0 && len > shape->slice;
    ssize_t sent;

    if (sliced)
        len = (size_t)shape->slice;
    if (shape->cuts && len > shape->cut_left)
        len = (size_t)shape->cut_left;
    sent = len == 0 ? 0 : send(link->fd[1 - dir], frame->bytes + frame->sent, len, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        pipe->out_ended = true;
        proxy_pipe_discard(proxy, pipe);
        return false;
    }
    if (sent < 0) {
        pipe->blocked = errno == EAGAIN;
        return errno == EINTR;
    }
    frame->sent += (size_t)sent;
    pipe->counts.bytes += (uint64_t)sent;
    pipe->counts.sliced += sliced;
    shape->cut_left -= shape->cuts ? (uint64_t)sent : 0;
    if (shape->slice > 0)
        pipe->next_write_ns = now_ns + shape->slice_gap_ns;
    if (frame->sent == frame->len) {
        pipe->counts.frames++;
        pipe->counts.delayed += shape->delay_ns > 0 && frame->due_ns > frame->came_ns;
        proxy_pipe_pop(proxy, pipe);
        proxy_until(proxy, link, dir);
    }
    if (shape->cuts && shape->cut_left == 0)
        link_cut(proxy, link, pipe);
    return true;
}

void proxy_link_serve(struct proxy *proxy, struct proxy_link *link, int64_t now_ns)
{
    if (!link->closed && link->again_ns != 0 && link->again_ns <= now_ns)
        link_connect(proxy, link);
    for (int dir = 0; dir < 2; dir++) {
        struct proxy_pipe *pipe = &link->pipe[dir];

        while (pipe_may_write(link, (enum proxy_dir)dir) && !pipe->blocked && pipe->first != NULL &&
               pipe->first->due_ns <= now_ns && pipe->next_write_ns <= now_ns)
            if (!pipe_write(proxy, link, (enum proxy_dir)dir, now_ns))
                break;
        if (pipe_may_write(link, (enum proxy_dir)dir) && pipe->first == NULL)
            end_forward(proxy, link, (enum proxy_dir)dir);
    }
    if (!link->closed && link->pipe[0].out_ended && link->pipe[1].out_ended)
        proxy_link_close(proxy, link, false);
}
