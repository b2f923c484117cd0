/* SPDX-License-Identifier: MIT */
/* dlock-scripted: a server on 127.0.0.1 that plays a script. */
#include "address.h"
#include "scripted.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const char usage[] =
    "usage: dlock-scripted [FILE]\n"
    "Plays the script in FILE, or on standard input up to a line \".\"; then, the end of standard\n"
    "input ends the play. Prints \"listening ADDRESS\", a line for each mismatch, and \"done\".\n";

/* What a thread takes with it; freed by the thread. */
struct guest {
    struct scripted *script;
    struct scripted_part *part;
    size_t number;
    int fd;
};

void scripted_complain(struct scripted *script, unsigned line, size_t number, const char *format,
                       ...)
{
    va_list args;

    va_start(args, format);
    (void)pthread_mutex_lock(&script->mutex);
    script->mismatches++;
    (void)printf("mismatch line %u, connection %zu: ", line, number);
    (void)vprintf(format, args);
    (void)putchar('\n');
    (void)fflush(stdout);
    (void)pthread_mutex_unlock(&script->mutex);
    va_end(args);
}

static void *guest_serve(void *arg)
{
    struct guest *guest = arg;
    struct scripted *script = guest->script;

    scripted_play(script, guest->part, guest->number, guest->fd);
    (void)pthread_mutex_lock(&script->mutex);
    if (guest->part != &script->others) {
        guest->part->over = true;
        script->over++;
    }
    (void)pthread_mutex_unlock(&script->mutex);
    (void)eventfd_write(script->wake, 1);
    free(guest);
    return NULL;
}

static void guest_accept(struct scripted *script, int listener, size_t number)
{
    struct guest *guest = calloc(1, sizeof *guest);
    bool known = number <= script->count;
    pthread_t thread;

    if (guest == NULL)
        abort();
    guest->script = script;
    guest->number = number;
    guest->part = known ? &script->parts[number - 1] : &script->others;
    guest->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (known)
        guest->part->taken = true;
    if (!known && !script->others_are_scripted) {
        scripted_complain(script, 0, number, "nobody was expected");
        dlt_socket_reset(guest->fd);
        free(guest);
        return;
    }
    if (pthread_create(&thread, NULL, guest_serve, guest) != 0)
        abort();
    (void)pthread_detach(thread);
}

static bool all_over(struct scripted *script)
{
    bool over;

    (void)pthread_mutex_lock(&script->mutex);
    over = script->over == script->count && !script->others_are_scripted;
    (void)pthread_mutex_unlock(&script->mutex);
    return over;
}

/* `asked`: a descriptor whose end ends the play; -1: none. */
static void script_run(struct scripted *script, int listener, int asked)
{
    struct pollfd fds[] = {{.fd = listener, .events = POLLIN},
                           {.fd = script->wake, .events = POLLIN},
                           {.fd = asked, .events = POLLIN}};
    size_t number = 0;
    eventfd_t count;
    char byte;

    while (!all_over(script)) {
        if (poll(fds, 3, -1) < 0)
            continue;
        if (fds[0].revents != 0)
            guest_accept(script, listener, ++number);
        if (fds[1].revents != 0)
            (void)eventfd_read(script->wake, &count);
        if (fds[2].revents != 0 && read(asked, &byte, 1) == 0)
            return;
    }
}

static void unplayed_tell(struct scripted *script, size_t number)
{
    struct scripted_part *part = &script->parts[number - 1];
    bool over;
    size_t played;

    (void)pthread_mutex_lock(&script->mutex);
    over = part->over || (part->played == part->count && part->count > 0);
    played = part->played;
    (void)pthread_mutex_unlock(&script->mutex);
    if (over)
        return;
    if (!part->taken)
        scripted_complain(script, part->line, number, "nobody came");
    else if (played < part->count)
        scripted_complain(script, part->steps[played].line, number, "not played to the end");
}

static bool script_open(struct scripted *script, int argc, char **argv)
{
    FILE *in = argc == 2 ? fopen(argv[1], "re") : stdin;
    bool good;

    if (in == NULL) {
        (void)printf("error %s: %s\n", argv[1], strerror(errno));
        return false;
    }
    (void)setvbuf(in, NULL, _IONBF, 0); /* what follows the script stays in the descriptor */
    good = scripted_read(script, in, stdout);
    if (in != stdin)
        (void)fclose(in);
    return good;
}

int main(int argc, char **argv)
{
    static struct scripted script = {.timeout_ms = 5000, .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct dlt_address address;
    char text[128];
    int listener;

    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        (void)fputs(usage, stderr);
        return 64;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (!script_open(&script, argc, argv))
        return 64;
    (void)dlt_address_parse("127.0.0.1:0", &address);
    script.wake = eventfd(0, EFD_CLOEXEC);
    listener = dlt_address_listen(&address, 128);
    if (listener < 0 || script.wake < 0)
        return 71;
    dlt_address_print(&address, text, sizeof text);
    (void)printf("listening %s\n", text);
    (void)fflush(stdout);
    script_run(&script, listener, argc == 2 ? -1 : STDIN_FILENO);
    (void)close(listener);
    for (size_t i = 1; i <= script.count; i++)
        unplayed_tell(&script, i);
    (void)printf("done\n");
    (void)fflush(stdout);
    /* Threads may still play; nothing of theirs is freed. */
    (void)pthread_mutex_lock(&script.mutex);
    _exit(script.mismatches == 0 ? 0 : 1);
}
