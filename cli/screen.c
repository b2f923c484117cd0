/* SPDX-License-Identifier: MIT */
#include "screen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BEGIN     "\033[?1049h\033[?25l" /* the second screen; no cursor */
#define END       "\033[?25h\033[?1049l"
#define HOME      "\033[H\033[K"
#define CLEAR_END "\033[J"

bool screen_is_there(void)
{
    const char *kind = getenv("TERM");

    return kind != NULL && kind[0] != '\0' && strcmp(kind, "dumb") != 0 &&
           isatty(STDOUT_FILENO) == 1 && tcgetpgrp(STDOUT_FILENO) == getpgrp();
}

void screen_size(size_t *columns, size_t *rows)
{
    struct winsize size = {0};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;

    *columns = known && size.ws_col > 0 ? size.ws_col : 80;
    *rows = known && size.ws_row > 0 ? size.ws_row : 24;
}

static void text_write(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        errno = 0; /* the next frame says it */
}

void screen_begin(struct screen *screen)
{
    struct termios modes;

    screen->has_modes = tcgetattr(STDIN_FILENO, &screen->modes) == 0;
    if (screen->has_modes) {
        modes = screen->modes;
        modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        modes.c_cc[VMIN] = 1;
        modes.c_cc[VTIME] = 0;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &modes);
    }
    text_write(BEGIN);
    screen->is_ours = true;
}

void screen_end(struct screen *screen)
{
    if (!screen->is_ours)
        return;
    screen->is_ours = false;
    text_write(END);
    if (screen->has_modes)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen->modes);
}

FILE *screen_frame(char **text, size_t *len)
{
    FILE *frame = NULL;

    *text = NULL;
    *len = 0;
    frame = open_memstream(text, len);
    if (frame != NULL)
        (void)fputs(HOME, frame);
    return frame;
}

bool screen_frame_end(FILE *frame, char **text, size_t *len)
{
    size_t done = 0;
    bool written = false;

    (void)fputs(CLEAR_END, frame);
    written = fclose(frame) == 0;
    while (written && done < *len) {
        ssize_t n = write(STDOUT_FILENO, *text + done, *len - done);

        written = n > 0 || (n < 0 && errno == EINTR);
        done += n > 0 ? (size_t)n : 0;
    }
    free(*text);
    return written;
}
