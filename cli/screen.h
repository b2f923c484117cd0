/* SPDX-License-Identifier: MIT */
/* screen.h - a terminal whose whole screen is ours for a while, by the escape sequences that all of
 * them have (ECMA-48 and xterm's second screen). */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <termios.h>

#define SCREEN_REVERSE "\033[7m"
#define SCREEN_PLAIN   "\033[m"
/* Ends a line, and clears the next one: a clearing behind a line that fills its row would take its
 * last character. */
#define SCREEN_EOL "\r\n\033[K"

struct screen {
    bool is_ours;
    bool has_modes;       /* of standard input, which is a terminal */
    struct termios modes; /* as they were */
};

/* True: standard output is a terminal that this process may draw on, and no dumb one. */
bool screen_is_there(void);

/* Its size; 80 x 24 if it does not say. */
void screen_size(size_t *columns, size_t *rows);

/* From here on keys arrive without a newline, and are not shown. */
void screen_begin(struct screen *screen);
/* All as it was. Harmless twice. */
void screen_end(struct screen *screen);

/* Begins a frame, which screen_frame_end writes at once. NULL: no memory. A frame has a line less
 * than the screen, which scrolls else. */
FILE *screen_frame(char **text, size_t *len);
/* False: it cannot be written; errno says why. */
bool screen_frame_end(FILE *frame, char **text, size_t *len);

#endif
