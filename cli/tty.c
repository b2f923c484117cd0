/* SPDX-License-Identifier: MIT */
#include "tty.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_pipe(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

void tty_init(struct tty *tty)
{
    *tty = (struct tty){.fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)};
    if (tty->fd < 0)
        return;
    tty->has_modes = tcgetattr(tty->fd, &tty->modes) == 0;
    tty->eager = tty_is_ours(tty) && isatty(STDIN_FILENO) == 1 && getpgrp() == getpid() &&
                 !is_pipe(STDOUT_FILENO);
}

void tty_fini(struct tty *tty)
{
    if (tty->fd >= 0)
        (void)close(tty->fd);
    tty->fd = -1;
}

void tty_lend(const struct tty *tty, pid_t group)
{
    if (tty->fd >= 0)
        (void)tcsetpgrp(tty->fd, group);
}

bool tty_is_ours(const struct tty *tty)
{
    return tty->fd >= 0 && tcgetpgrp(tty->fd) == getpgrp();
}

bool tty_is_lent(const struct tty *tty, pid_t group)
{
    return tty->fd >= 0 && tcgetpgrp(tty->fd) == group;
}

void tty_take_back(const struct tty *tty, pid_t group, bool restore)
{
    if (!tty_is_lent(tty, group))
        return;
    (void)tcsetpgrp(tty->fd, getpgrp());
    if (restore && tty->has_modes)
        (void)tcsetattr(tty->fd, TCSADRAIN, &tty->modes);
}
