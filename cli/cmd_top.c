/* SPDX-License-Identifier: MIT */
#include "args.h"
#include "client.h"
#include "exitcode.h"
#include "lib/thread.h"
#include "signals.h"
#include "table.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* ---- the screen: ours for a while, by the escape sequences that all terminals have (ECMA-48 and
 * xterm's second screen) ---- */

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

#define BEGIN     "\033[?1049h\033[?25l" /* the second screen; no cursor */
#define END       "\033[?25h\033[?1049l"
#define HOME      "\033[H\033[K"
#define CLEAR_END "\033[J"

/* True: standard output is a terminal that this process may draw on, and no dumb one. */
static bool screen_is_there(void)
{
    const char *kind = getenv("TERM");

    return kind != NULL && kind[0] != '\0' && strcmp(kind, "dumb") != 0 &&
           isatty(STDOUT_FILENO) == 1 && tcgetpgrp(STDOUT_FILENO) == getpgrp();
}

/* Its size; 80 x 24 if it does not say. */
static void screen_size(size_t *columns, size_t *rows)
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

/* From here on keys arrive without a newline, and are not shown. */
static void screen_begin(struct screen *screen)
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

/* All as it was. Harmless twice. */
static void screen_end(struct screen *screen)
{
    if (!screen->is_ours)
        return;
    screen->is_ours = false;
    text_write(END);
    if (screen->has_modes)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen->modes);
}

/* Begins a frame, which screen_frame_end writes at once. NULL: no memory. A frame has a line less
 * than the screen, which scrolls else. */
static FILE *screen_frame(char **text, size_t *len)
{
    FILE *frame = NULL;

    *text = NULL;
    *len = 0;
    frame = open_memstream(text, len);
    if (frame != NULL)
        (void)fputs(HOME, frame);
    return frame;
}

/* False: it cannot be written; errno says why. */
static bool screen_frame_end(FILE *frame, char **text, size_t *len)
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

/* ---- dlock top: the locks of a store, drawn again each second ---- */

enum { TOP_ONCE = CLI_OPTION_OWN, TOP_EVERY };

static const struct option top_options[] = {
    {"once", no_argument, NULL, TOP_ONCE},
    {"every", required_argument, NULL, TOP_EVERY},
    {NULL, 0, NULL, 0},
};

static const struct cli_duration every = {100, INT64_C(3600000), "100ms..1h", false};

struct top {
    struct cli *cli;
    struct dlock_client *client;
    struct cli_name prefix;
    bool once;
    int64_t every_ms;
    struct info_list list;
    char summary[TABLE_SUMMARY_SIZE];
    struct dlock_error err; /* of the last query */

    /* The query that goes on, in a thread of its own: keys and signals do not wait for the store.
     */
    bool asking;
    time_t asked; /* when it began */
    pthread_t thread;
    int answered; /* an eventfd; -1: at a pipe there is no thread */
    struct info_list next;
    struct dlock_error next_err;
};

/* -1: go on; else the exit code. */
static int top_options_read(struct top *top, int argc, char **argv)
{
    struct cli *cli = top->cli;
    char why[CLI_WHY];
    int exit_code;
    int option;

    while ((option = cli_args_next(cli, argc, argv, top_options, false, &exit_code)) != -1) {
        if (option == -2)
            return exit_code;
        top->once = top->once || option == TOP_ONCE;
        if (option == TOP_EVERY && !cli_args_duration(optarg, &every, &top->every_ms, why))
            return cli_args_usage(cli, "--every=%s %s",
                                  cli_output_printable(optarg, strlen(optarg)), why);
    }
    if (cli->json)
        return cli_args_usage(cli, "top: has no JSON; write: dlock --json list");
    if (argc - optind > 1)
        return cli_args_usage(cli, "top: more than one PREFIX");
    if (!cli_args_name(optind < argc ? argv[optind] : "", cli->name_hex, &top->prefix))
        return cli_args_usage(cli, "top: PREFIX is not hex, or too long");
    return -1;
}

/* After a failure the list has what was read before it. */
static void *query_main(void *arg)
{
    struct top *top = arg;
    uint64_t one = 1;

    top->next_err = (struct dlock_error)DLOCK_ERROR_INIT;
    top->next_err.status = dlock_client_list(top->client, top->prefix.bytes, top->prefix.len,
                                             info_list_add, &top->next, &top->next_err);
    while (top->answered >= 0 && write(top->answered, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    return NULL;
}

static void query_take(struct top *top)
{
    info_list_fini(&top->list);
    top->list = top->next;
    top->next = (struct info_list){0};
    top->err = top->next_err;
    if (top->err.status == DLOCK_OK && top->list.no_memory)
        top->err.status = DLOCK_NOMEM;
    info_list_sort(&top->list);
    table_summary(&top->list, top->summary);
    table_sort(&top->list);
}

/* 0 or an errno. */
static int query_start(struct top *top)
{
    int error = dl_thread_start(&top->thread, NULL, query_main, top);

    top->asking = error == 0;
    top->asked = time(NULL);
    return error;
}

/* The query has answered. */
static void query_end(struct top *top)
{
    uint64_t count;

    (void)pthread_join(top->thread, NULL);
    if (read(top->answered, &count, sizeof count) < 0)
        errno = 0; /* it was written */
    top->asking = false;
    query_take(top);
}

/* Without a terminal lines are as long as they have to be. */
static int top_print_once(struct top *top)
{
    static const char *plain[2] = {"", ""};
    size_t columns = 0, rows = 0;

    if (isatty(STDOUT_FILENO) == 1)
        screen_size(&columns, &rows);
    (void)query_main(top);
    query_take(top);
    if (top->err.status != DLOCK_OK)
        return cli_output_fail_status(top->cli, NULL, &top->err);
    table_print(stdout, &top->list, columns, 0, plain, "\n");
    return cli_output_close(top->cli, CLI_EXIT_OK);
}

/* The time, what there is in all, and where; or what is wrong. Cut to the width. */
static void summary_print(const struct top *top, FILE *out, size_t columns)
{
    const time_t now = time(NULL);
    const char *error = top->err.message;
    char clock[16] = "", line[512], silence[64];
    const bool is_silent = top->asking && now > top->asked + 1;
    struct tm tm;

    if (gmtime_r(&now, &tm) != NULL)
        (void)strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    if (error[0] == '\0')
        error = dlock_status_text((int)top->err.status);
    (void)snprintf(silence, sizeof silence, "the store has not answered for %lld s",
                   (long long)(now - top->asked));
    if (is_silent)
        error = silence;
    (void)snprintf(line, sizeof line, "%s UTC  %s  %s", clock, top->summary,
                   top->err.status == DLOCK_OK && !is_silent ? dlock_client_uri(top->client)
                                                             : error);
    (void)fprintf(out, "%.*s%s", (int)columns, cli_output_printable(line, strlen(line)),
                  SCREEN_EOL);
}

/* 0 or an errno. */
static int top_draw(const struct top *top)
{
    static const char *reverse[2] = {SCREEN_REVERSE, SCREEN_PLAIN};
    size_t columns = 0, rows = 0, len = 0;
    char *text = NULL;
    FILE *frame = screen_frame(&text, &len);

    if (frame == NULL)
        return ENOMEM;
    screen_size(&columns, &rows);
    summary_print(top, frame, columns);
    table_print(frame, &top->list, columns, rows > 4 ? rows - 2 : 2, reverse, SCREEN_EOL);
    return screen_frame_end(frame, &text, &len) ? 0 : errno;
}

enum event { EVENT_TIME, EVENT_ANSWER, EVENT_SIZE, EVENT_STOP, EVENT_QUIT, EVENT_SIGNAL };

/* q, or the end of the input. */
static bool key_is_quit(void)
{
    char key = 'q';
    ssize_t n = read(STDIN_FILENO, &key, 1);

    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN) ||
           (n > 0 && (key == 'q' || key == 'Q'));
}

/* *ending: the signal of EVENT_SIGNAL. */
static enum event event_of(const struct signals *signals, int *ending)
{
    int n = 0;
    enum event event = EVENT_TIME;

    while ((n = signals_next(signals)) != 0) {
        if (n == SIGTSTP)
            return EVENT_STOP;
        if (n != SIGWINCH && n != SIGCONT && n != SIGCHLD) {
            *ending = n;
            return EVENT_SIGNAL;
        }
        event = EVENT_SIZE;
    }
    return event;
}

/* Waits for the next event, EVENT_TIME at the latest when the time has passed. */
static enum event event_wait(const struct top *top, const struct signals *signals,
                             const struct screen *screen, int *ending)
{
    const bool has_keys = screen->is_ours && isatty(STDIN_FILENO) == 1;
    struct pollfd fds[3] = {
        {.fd = signals->fd, .events = POLLIN},
        {.fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN},
        {.fd = top->answered, .events = POLLIN},
    };

    if (poll(fds, 3, (int)top->every_ms) <= 0)
        return EVENT_TIME;
    if (fds[0].revents != 0)
        return event_of(signals, ending);
    if (fds[1].revents != 0)
        return key_is_quit() ? EVENT_QUIT : EVENT_SIZE;
    return EVENT_ANSWER;
}

static void top_stop(struct screen *screen)
{
    screen_end(screen);
    (void)signals_stop_self();
    screen_begin(screen);
}

/* Until q or a signal, which is in *ending then. 0 or an errno. */
static int screen_run(struct top *top, struct screen *screen, const struct signals *signals,
                      int *ending)
{
    enum event event = EVENT_SIZE;
    int error = 0;

    screen_begin(screen);
    while (error == 0 && event != EVENT_QUIT && event != EVENT_SIGNAL) {
        error = top_draw(top);
        event = event_wait(top, signals, screen, ending);
        if (event == EVENT_ANSWER)
            query_end(top);
        if (event == EVENT_TIME && !top->asking && error == 0)
            error = query_start(top);
        if (event == EVENT_STOP)
            top_stop(screen);
    }
    screen_end(screen);
    return error;
}

/* The first query says whether the store can be used at all. Messages would spoil the screen. */
static int top_run(struct top *top, const struct signals *signals, int *ending)
{
    const bool quiet = top->cli->quiet;
    struct screen screen = {0};
    int error = query_start(top);

    while (error == 0 && top->asking && *ending == 0) {
        enum event event = event_wait(top, signals, &screen, ending);

        if (event == EVENT_ANSWER)
            query_end(top);
        if (event == EVENT_STOP)
            (void)signals_stop_self();
    }
    if (error == 0 && *ending == 0 && top->err.status != DLOCK_OK)
        return cli_output_fail_status(top->cli, NULL, &top->err);
    top->cli->quiet = true;
    if (error == 0 && *ending == 0)
        error = screen_run(top, &screen, signals, ending);
    top->cli->quiet = quiet;
    if (error == 0)
        return CLI_EXIT_OK;
    cli_output_fail(top->cli, "top: %s", strerror(error));
    return CLI_EXIT_INTERNAL;
}

/* Ends the process. The thread of a query may still wait for the store. */
static void top_exit(int exit_code, int ending)
{
    if (ending != 0)
        signals_die(ending);
    _exit(exit_code);
}

/* 0 or an errno. */
static int signals_begin(struct signals *signals)
{
    int error = signals_start(signals);

    return error != 0 ? error : signals_run(signals);
}

int cli_top(struct cli *cli, int argc, char **argv)
{
    struct dlock_error err = CLI_ERROR_INIT;
    struct top top = {.cli = cli, .every_ms = 1000, .answered = -1};
    struct signals signals;
    int ending = 0, error = 0;
    int exit_code = top_options_read(&top, argc, argv);

    if (exit_code >= 0)
        return exit_code;
    top.once = top.once || !screen_is_there();
    if (cli_client_open(cli, CLI_TO_INSPECT, &top.client, &err) != DLOCK_OK)
        return cli_output_fail_status(cli, NULL, &err);
    if (!top.once) {
        error = signals_begin(&signals);
        top.answered = eventfd(0, EFD_CLOEXEC);
        error = error == 0 && top.answered < 0 ? errno : error;
    }
    if (error != 0) {
        cli_output_fail(cli, "signals: %s", strerror(error));
        return CLI_EXIT_INTERNAL;
    }
    exit_code = top.once ? top_print_once(&top) : top_run(&top, &signals, &ending);
    if (top.asking)
        top_exit(exit_code, ending);
    dlock_client_close(top.client);
    info_list_fini(&top.list);
    if (ending != 0)
        signals_die(ending);
    return exit_code;
}
