/* SPDX-License-Identifier: MIT */
/*
 * proxy.h - the parts of dlock-faultproxy. One thread; everything belongs to struct proxy.
 *
 * A link is one connection that a client made and the one that the proxy made to the server for it.
 * Each of its two directions is a pipe: bytes are read, cut into frames, queued whole, and written
 * when the orders in force allow it.
 */
#ifndef DLT_PROXY_H
#define DLT_PROXY_H

#include "address.h"
#include "escape.h"
#include "frame.h"

#include <poll.h>

/* Also the side of a link that a pipe reads from; it writes to the other one. */
enum proxy_dir { PROXY_C2S = 0, PROXY_S2C = 1 };

#define PROXY_NS_PER_MS INT64_C(1000000)
#define PROXY_NEVER     INT64_MAX

enum proxy_cut { PROXY_CUT_FIN, PROXY_CUT_RST, PROXY_CUT_HANG };

/* How a pipe writes. */
struct proxy_shape {
    bool blackhole;
    int64_t delay_ns; /* of each frame */
    uint64_t slice;   /* bytes a write; 0: as many as go */
    int64_t slice_gap_ns;
    bool cuts;
    uint64_t cut_left; /* bytes until the cut */
    enum proxy_cut cut_how;
};

struct proxy_frame {
    struct proxy_frame *next;
    int64_t came_ns, due_ns;
    bool held;
    bool awaited; /* counted in proxy.delivering */
    enum proxy_dir until_dir;
    uint64_t until_left; /* frames of other links in until_dir after which it goes on; 0: never */
    size_t len, sent;
    unsigned char bytes[];
};

struct proxy_counts {
    uint64_t seen;      /* frames read whole */
    uint64_t frames;    /* frames written whole */
    uint64_t bytes;     /* written */
    uint64_t held;      /* held now */
    uint64_t dropped;   /* frames */
    uint64_t swallowed; /* came while nothing was passed on */
    uint64_t delayed;   /* written whole, and late on purpose */
    uint64_t sliced;    /* writes that a slice made shorter */
    uint64_t withheld;  /* held at some time */
    uint64_t broken;    /* streams that left their framing */
};

struct proxy_pipe {
    struct dlt_framer framer;
    unsigned char *part; /* of the frame that is not whole yet */
    size_t part_len, part_room;
    struct proxy_frame *first, **end;
    size_t queued; /* bytes */
    struct proxy_shape shape;
    int64_t next_write_ns; /* slices */
    bool blocked;          /* the socket takes no more */
    bool in_ended;         /* the sender said so, or is gone */
    bool in_reset;         /* ... by RST */
    bool out_ended;        /* said so to the receiver, or it is gone */
    struct proxy_counts counts;
};

struct proxy_link {
    struct proxy_link *next; /* the newest first */
    uint64_t number;         /* from 1, in the order of accept */
    bool connecting;
    int64_t accepted_ns, again_ns; /* again_ns: of the next attempt to connect; 0: none is due */
    bool closed;                   /* kept for its counts */
    int fd[2];                     /* of the client, of the server */
    struct proxy_pipe pipe[2];
};

enum proxy_rule_kind { PROXY_HOLD, PROXY_DROP };

/* What happens to certain frames. */
struct proxy_rule {
    struct proxy_rule *next;
    enum proxy_rule_kind kind;
    enum proxy_dir dir;
    uint64_t link;    /* 0: any */
    bool every;       /* each frame */
    bool relative;    /* the n-th from when the rule was made, over all its links */
    uint64_t n;       /* which frame; counts down when relative */
    size_t match_len; /* 0: any frame */
    char match[64];   /* bytes that the frame contains */
    enum proxy_dir until_dir;
    uint64_t until; /* 0: only deliver ends it */
};

/* An order on shapes, kept for connections to come. */
struct proxy_order {
    uint64_t link; /* 0: every one */
    enum proxy_dir dir;
    enum proxy_order_kind {
        PROXY_ORDER_PASS,
        PROXY_ORDER_BLACKHOLE,
        PROXY_ORDER_DELAY,
        PROXY_ORDER_SLICE,
        PROXY_ORDER_CUT
    } kind;
    uint64_t bytes;
    int64_t ns;
    enum proxy_cut how;
};

#define PROXY_ORDERS_MAX 256

enum proxy_door_mode { PROXY_DOOR_ON, PROXY_DOOR_PAUSE, PROXY_DOOR_HANG, PROXY_DOOR_REFUSE };

#define PROXY_FILLERS_MAX 8

/* Where clients knock. */
struct proxy_door {
    struct dlt_address address;
    enum proxy_door_mode mode;
    int fd;      /* -1 while it refuses */
    int reserve; /* bound to the same port, never listening: keeps the port ours. -1: a path */
    int filler[PROXY_FILLERS_MAX]; /* our own connections that keep the queue full; -1: none */
};

#define PROXY_LINE_MAX 1024

/* A client of the control channel. */
struct proxy_control {
    struct proxy_control *next;
    int in, out;
    size_t used;
    char line[PROXY_LINE_MAX];
    enum { PROXY_IDLE, PROXY_AWAITS, PROXY_DELIVERS } pending;
    int64_t deadline_ns;
    uint64_t link; /* of what is awaited */
    char counter[32];
    char relation; /* '=' or '>' (at least) */
    uint64_t count;
};

struct proxy {
    struct dlt_address server;
    enum dlt_framing framing;
    int64_t patience_ns; /* with a server that refuses connections */
    struct proxy_door door;
    struct proxy_link *links;
    uint64_t accepted, unreachable, cuts, killed;
    struct proxy_counts gone[2]; /* of links whose memory was given back */
    struct proxy_order order[PROXY_ORDERS_MAX];
    size_t orders;
    struct proxy_rule *rules;
    uint64_t delivering; /* frames released by deliver, not yet written */
    struct proxy_control *controls;
    int control_fd; /* listens; -1: none */
    bool again;     /* something was released: look at all pipes once more */
    bool quit;
};

int64_t proxy_now(void);

/* proxy_door.c */
bool proxy_door_open(struct proxy_door *door);
/* In force when it returns. False: errno. */
bool proxy_door_set(struct proxy_door *door, enum proxy_door_mode mode);
/* A client's socket, or -1: nobody is there. */
int proxy_door_accept(struct proxy_door *door);
void proxy_door_close(struct proxy_door *door);

/* proxy_link.c */
void proxy_link_add(struct proxy *proxy, int client);
/* The events to poll a side's socket for; 0: none. */
short proxy_link_events(const struct proxy_link *link, enum proxy_dir side);
void proxy_link_ready(struct proxy *proxy, struct proxy_link *link, enum proxy_dir side,
                      short events);
/* Writes what may be written now. */
void proxy_link_serve(struct proxy *proxy, struct proxy_link *link, int64_t now_ns);
void proxy_link_close(struct proxy *proxy, struct proxy_link *link, bool reset);
/* When to serve it next, though no socket says anything. */
int64_t proxy_link_due(const struct proxy_link *link, int64_t now_ns);
void proxy_links_free(struct proxy *proxy);

/* proxy_pipe.c: the queue of one direction */
void proxy_pipe_init(struct proxy_pipe *pipe, enum dlt_framing framing);
void proxy_pipe_fini(struct proxy *proxy, struct proxy_pipe *pipe);
void proxy_pipe_feed(struct proxy *proxy, struct proxy_link *link, enum proxy_dir dir,
                     const unsigned char *bytes, size_t len);
/* The sender is done: what there is of a frame is queued as one. */
void proxy_pipe_flush(struct proxy *proxy, struct proxy_link *link, enum proxy_dir dir);
/* Takes the first frame off the queue. */
void proxy_pipe_pop(struct proxy *proxy, struct proxy_pipe *pipe);
void proxy_pipe_discard(struct proxy *proxy, struct proxy_pipe *pipe);
void proxy_frame_release(struct proxy *proxy, struct proxy_pipe *pipe, struct proxy_frame *frame,
                         bool awaited);

/* proxy_order.c */
/* Takes the order: false, too many. */
bool proxy_order_give(struct proxy *proxy, const struct proxy_order *order);
void proxy_orders_apply(struct proxy *proxy, struct proxy_link *link);
/* Ends orders and rules of these links (0: all) in this direction, and releases what is held. */
void proxy_orders_end(struct proxy *proxy, uint64_t link, enum proxy_dir dir);
/* Copies the rule. False: no memory. */
bool proxy_rule_add(struct proxy *proxy, const struct proxy_rule *rule);
/* Looks for a rule that meets this frame, the seen-th of its pipe; *out lives until the call that
 * ends it. True: there is one. */
bool proxy_rule_take(struct proxy *proxy, uint64_t link, enum proxy_dir dir, uint64_t seen,
                     const struct proxy_frame *frame, struct proxy_rule *out);
void proxy_rules_free(struct proxy *proxy);
/* A frame of this link was written: others may wait for that. */
void proxy_until(struct proxy *proxy, const struct proxy_link *link, enum proxy_dir dir);

/* proxy_count.c: "c2s.frames" and its like, of one link or (0) of all. False: no such counter. */
bool proxy_count(const struct proxy *proxy, uint64_t link, const char *name, uint64_t *out);
/* All of them: "accepted=1 open=0 ...". */
void proxy_count_print(const struct proxy *proxy, uint64_t link, char *out, size_t size);

/* proxy_control.c */
bool proxy_control_add(struct proxy *proxy, int in, int out);
void proxy_control_ready(struct proxy *proxy, struct proxy_control *control);
/* Answers what was waited for. */
void proxy_control_serve(struct proxy *proxy, int64_t now_ns);
int64_t proxy_control_due(const struct proxy *proxy);
void proxy_controls_free(struct proxy *proxy);

/* proxy_verb.c: does what the line says. True: answer[] is the answer; false: control->pending. */
bool proxy_verb(struct proxy *proxy, struct proxy_control *control, struct dlt_words *words,
                char *answer, size_t size);

#endif
