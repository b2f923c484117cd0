/* SPDX-License-Identifier: MIT */
#include "address.h"
#include "child.h"
#include "scripted.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHOWN 400 /* of the bytes in a complaint, escaped */

/* One connection. */
struct player {
    struct scripted *script;
    size_t number;
    int fd;
    unsigned char *bytes; /* received, not yet expected */
    size_t len, room;
    bool ended; /* the client's end of the stream, or a reset */
};

static int64_t now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

/* Waits for more bytes. False: there are none by the deadline, or none will come. */
static bool player_read(struct player *player, int64_t deadline_ms)
{
    struct pollfd wait = {.fd = player->fd, .events = POLLIN};
    int64_t left = deadline_ms - now_ms();
    ssize_t got;

    if (player->ended || poll(&wait, 1, left > 0 ? (int)left : 0) <= 0)
        return false;
    if (player->room - player->len < 4096) {
        player->room = player->room * 2 + 4096;
        player->bytes = realloc(player->bytes, player->room);
        if (player->bytes == NULL)
            abort();
    }
    got = recv(player->fd, player->bytes + player->len, player->room - player->len, 0);
    if (got > 0)
        player->len += (size_t)got;
    player->ended = got <= 0;
    return got > 0;
}

static void player_take(struct player *player, size_t len)
{
    player->len -= len;
    memmove(player->bytes, player->bytes + len, player->len);
}

static bool fail(struct player *player, const struct scripted_step *step, const char *what)
{
    char got[SHOWN];
    const char *why = player->len > 0 ? "" : player->ended ? " (connection ended)" : " (time out)";

    dlt_escape(player->bytes, player->len, got, sizeof got);
    scripted_complain(player->script, step->line, player->number, "%s, got \"%s\"%s", what, got,
                      why);
    return false;
}

/* The words that are data, one behind the other; *len as if there were room. */
static size_t data_join(const struct scripted_step *step, unsigned char *out, size_t room)
{
    size_t len = 0;

    for (size_t i = step->first; i < step->words.count; i++) {
        if (out != NULL && len + step->words.len[i] <= room)
            memcpy(out + len, step->words.at[i], step->words.len[i]);
        len += step->words.len[i];
    }
    return len;
}

static unsigned char *data_new(const struct scripted_step *step, size_t head, size_t *len)
{
    size_t size = data_join(step, NULL, 0);
    unsigned char *data = malloc(head + size + 1);

    if (data == NULL)
        abort();
    (void)data_join(step, data + head, size);
    *len = head + size;
    return data;
}

static bool play_expect(struct player *player, const struct scripted_step *step, int64_t deadline)
{
    size_t len = 0;
    unsigned char *wanted = data_new(step, 0, &len);
    bool same = false;

    for (;;) {
        size_t there = player->len < len ? player->len : len;

        same = there == 0 || memcmp(player->bytes, wanted, there) == 0;
        if (!same || there == len || !player_read(player, deadline))
            break;
    }
    same = same && player->len >= len;
    free(wanted);
    if (!same)
        return fail(player, step, "other bytes expected");
    player_take(player, len);
    return true;
}

/* The length of the frame at the front, once it is whole. 0: none came. */
static size_t frame_wait(struct player *player, enum dlt_framing framing, int64_t deadline)
{
    do {
        struct dlt_framer framer;
        bool ended = false;
        size_t len;

        dlt_framer_init(&framer, framing);
        len = player->len == 0 ? 0 : dlt_framer_feed(&framer, player->bytes, player->len, &ended);
        if (ended)
            return len;
    } while (player_read(player, deadline));
    return 0;
}

static bool play_command(struct player *player, const struct scripted_step *step, int64_t deadline)
{
    size_t len = frame_wait(player, DLT_FRAMING_RESP, deadline);

    if (len == 0 || !scripted_command_meets(step, player->bytes, len))
        return fail(player, step, "another command expected");
    player_take(player, len);
    return true;
}

/* Its payload is the data, or begins with it when the last word is **. */
static bool play_packet(struct player *player, const struct scripted_step *step, int64_t deadline)
{
    struct scripted_step data = *step;
    size_t last = step->words.count - 1, size = 0;
    size_t len = frame_wait(player, DLT_FRAMING_MYSQL, deadline);
    bool open =
        last >= step->first && !step->words.quoted[last] && strcmp(step->words.at[last], "**") == 0;
    unsigned char *wanted;
    bool same;

    data.words.count -= open;
    wanted = data_new(&data, 0, &size);
    same = len >= 4 + size && (open || len == 4 + size) &&
           memcmp(player->bytes + 4, wanted, size) == 0 &&
           (step->number == UINT64_MAX || step->number == player->bytes[3]);
    free(wanted);
    if (!same)
        return fail(player, step, "another packet expected");
    player_take(player, len);
    return true;
}

static bool play_any(struct player *player, const struct scripted_step *step, int64_t deadline)
{
    for (uint64_t i = 0; i < step->number; i++) {
        size_t len = frame_wait(player, player->script->framing, deadline);

        if (len == 0)
            return fail(player, step, "another frame expected");
        player_take(player, len);
    }
    return true;
}

static bool play_end(struct player *player, const struct scripted_step *step, int64_t deadline)
{
    while (player->len == 0 && player_read(player, deadline))
        continue;
    if (!player->ended || player->len > 0)
        return fail(player, step, "the end of the stream expected");
    return true;
}

static bool play_send(struct player *player, const struct scripted_step *step)
{
    bool packet = step->kind == SCRIPTED_SEND_PACKET;
    size_t len = 0;
    unsigned char *data = data_new(step, packet ? 4 : 0, &len);
    bool sent;

    if (packet) {
        size_t size = len - 4;

        data[0] = (unsigned char)size;
        data[1] = (unsigned char)(size >> 8);
        data[2] = (unsigned char)(size >> 16);
        data[3] = (unsigned char)step->number;
    }
    sent = dlt_write_all(player->fd, data, len);
    free(data);
    if (!sent)
        scripted_complain(player->script, step->line, player->number, "cannot send: %s",
                          strerror(errno));
    return sent;
}

/* False: the part is over. */
static bool step_play(struct player *player, const struct scripted_step *step)
{
    int64_t deadline = now_ms() + (int64_t)player->script->timeout_ms;

    switch (step->kind) {
    case SCRIPTED_EXPECT:
        return play_expect(player, step, deadline);
    case SCRIPTED_COMMAND:
        return play_command(player, step, deadline);
    case SCRIPTED_PACKET:
        return play_packet(player, step, deadline);
    case SCRIPTED_ANY:
        return play_any(player, step, deadline);
    case SCRIPTED_END:
        return play_end(player, step, deadline);
    case SCRIPTED_SEND:
    case SCRIPTED_SEND_PACKET:
        return play_send(player, step);
    case SCRIPTED_DELAY:
        (void)poll(NULL, 0, (int)step->number);
        return true;
    case SCRIPTED_HALFCLOSE:
        return shutdown(player->fd, SHUT_WR) == 0 ||
               fail(player, step, "no connection to close half of");
    case SCRIPTED_CLOSE:
        dlt_socket_finish(player->fd);
        break;
    case SCRIPTED_RESET:
        dlt_socket_reset(player->fd);
        break;
    case SCRIPTED_AGAIN:
        return true;
    }
    player->fd = -1;
    return true;
}

/* A part that goes round for ever ends well where the client ends it. */
static bool client_left(struct player *player, size_t rounds)
{
    while (rounds > 0 && player->len == 0 && !player->ended)
        (void)player_read(player, now_ms() + 1000);
    return rounds > 0 && player->ended && player->len == 0;
}

void scripted_play(struct scripted *script, struct scripted_part *part, size_t number, int fd)
{
    struct player player = {.script = script, .number = number, .fd = fd};
    size_t at = 0, rounds = 0;

    while (at < part->count && player.fd >= 0 && !(at == 0 && client_left(&player, rounds))) {
        const struct scripted_step *step = &part->steps[at];

        if (!step_play(&player, step))
            break;
        at++;
        (void)pthread_mutex_lock(&script->mutex);
        part->played = at > part->played ? at : part->played;
        (void)pthread_mutex_unlock(&script->mutex);
        if (step->kind == SCRIPTED_AGAIN) {
            at = 0;
            rounds++;
        }
    }
    if (player.fd >= 0)
        dlt_socket_finish(player.fd);
    free(player.bytes);
}
