/* SPDX-License-Identifier: MIT */
/*
 * scripted.h - the parts of dlock-scripted, a server that says what a script says, and complains
 * when its clients do not.
 *
 * The script is read whole before the first connection; then nothing changes it. Each connection
 * plays its part on a thread of its own.
 */
#ifndef DLT_SCRIPTED_H
#define DLT_SCRIPTED_H

#include "escape.h"
#include "frame.h"

#include <pthread.h>
#include <stdio.h>

enum scripted_kind {
    SCRIPTED_EXPECT,
    SCRIPTED_COMMAND,
    SCRIPTED_PACKET,
    SCRIPTED_ANY,
    SCRIPTED_END,
    SCRIPTED_SEND,
    SCRIPTED_SEND_PACKET,
    SCRIPTED_DELAY,
    SCRIPTED_CLOSE,
    SCRIPTED_HALFCLOSE,
    SCRIPTED_RESET,
    SCRIPTED_AGAIN
};

struct scripted_step {
    enum scripted_kind kind;
    unsigned line;
    uint64_t number; /* milliseconds, frames or a packet's sequence; UINT64_MAX: any */
    char *text;      /* what words point into */
    struct dlt_words words;
    size_t first; /* of words that is data */
};

/* What one connection does. */
struct scripted_part {
    unsigned line;
    struct scripted_step *steps;
    size_t count;
    size_t played; /* under scripted.mutex */
    bool taken;    /* a client came for it */
    bool over;     /* ... and it was played, or failed */
};

struct scripted {
    enum dlt_framing framing; /* of `any` */
    uint64_t timeout_ms;      /* each wait for a client */
    struct scripted_part *parts;
    size_t count;
    bool others_are_scripted; /* "conn *" */
    struct scripted_part others;

    pthread_mutex_t mutex;
    unsigned mismatches;
    size_t over; /* parts */
    int wake;    /* eventfd: a part is over */
};

/* Reads the script up to its end, or to a line ".". False: a complaint was printed to `errors`. */
bool scripted_read(struct scripted *script, FILE *in, FILE *errors);
void scripted_free(struct scripted *script);

/* Plays the part with the client; closes fd. */
void scripted_play(struct scripted *script, struct scripted_part *part, size_t number, int fd);

/* Prints "mismatch line L, connection N: ..." */
__attribute__((format(printf, 4, 5))) void
scripted_complain(struct scripted *script, unsigned line, size_t number, const char *format, ...);

/* scripted_command.c, pure: does the RESP command in these bytes, a whole frame, have the step's
 * words? */
bool scripted_command_meets(const struct scripted_step *step, const unsigned char *frame,
                            size_t len);

#endif
