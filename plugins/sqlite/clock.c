/* SPDX-License-Identifier: MIT */
#include "clock.h"
#include "lib/text.h"

#include "os_error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BOOT_ID_PATH  "/proc/sys/kernel/random/boot_id"
#define OFFSETS_PATH  "/proc/self/timens_offsets"
#define OWN_NS_PATH   "/proc/self/ns/time"
#define CHILD_NS_PATH "/proc/self/ns/time_for_children"
#define LEFT_MOST_NS  (365 * 86400 * DL_NS_PER_S)
#define NAP_FIRST_NS  (50 * DL_NS_PER_US)
#define NAP_MOST_NS   (5 * DL_NS_PER_MS)

int64_t sqlite_clock_now(const struct sqlite_clock *clock)
{
    return dl_time_now_ns(CLOCK_BOOTTIME) - clock->offset_ns;
}

int64_t sqlite_clock_wall_us(void)
{
    return dl_time_now_ns(CLOCK_REALTIME) / DL_NS_PER_US;
}

int64_t sqlite_clock_boottime(void)
{
    return dl_time_now_ns(CLOCK_BOOTTIME);
}

int64_t sqlite_clock_until(int64_t left_ns)
{
    return sqlite_clock_boottime() + (left_ns < LEFT_MOST_NS ? left_ns : LEFT_MOST_NS);
}

struct timespec sqlite_clock_futex(int64_t until_ns)
{
    int64_t left_ns = sqlite_clock_min(until_ns - sqlite_clock_boottime(), DL_NS_PER_S);

    return dl_time_spec(dl_time_now_ns(CLOCK_MONOTONIC) + left_ns);
}

bool sqlite_clock_nap(int round, int64_t until_ns)
{
    int64_t left = until_ns - sqlite_clock_boottime();
    int64_t nap = round < 7 ? NAP_FIRST_NS << round : NAP_MOST_NS;

    if (left <= 0)
        return false;
    if (nap > left)
        nap = left;
    (void)nanosleep(&(struct timespec){.tv_nsec = (long)nap}, NULL);
    return true;
}

/* 0 and text, or an errno. */
static int file_read(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;
    int rc = 0;

    buf[0] = '\0';
    if (fd < 0)
        return errno;
    do
        n = read(fd, buf, size - 1);
    while (n < 0 && errno == EINTR);
    rc = n < 0 ? errno : 0;
    (void)close(fd);
    buf[n < 0 ? 0 : n] = '\0';
    return rc;
}

/* 32 digits with hyphens anywhere. False: it is something else. */
static bool boot_parse(const char *text, unsigned char *boot)
{
    unsigned digits = 0;

    for (; *text != '\0' && *text != '\n'; text++) {
        int value = dl_hex_digit(*text);

        if (*text == '-')
            continue;
        if (value < 0 || digits == 2 * SQ_BOOT_SIZE)
            return false;
        boot[digits / 2] = (unsigned char)(boot[digits / 2] << 4 | value);
        digits++;
    }
    return digits == 2 * SQ_BOOT_SIZE;
}

/* Lines of "boottime <seconds> <nanoseconds>". False: there is no such line. */
static bool offset_parse(const char *text, int64_t *offset_ns)
{
    const char *line = strstr(text, "boottime");
    char *end = NULL;
    int64_t seconds = 0;

    if (line == NULL)
        return false;
    line += strlen("boottime");
    seconds = strtoll(line, &end, 10);
    if (end == line)
        return false;
    line = end;
    *offset_ns = seconds * DL_NS_PER_S + strtoll(line, &end, 10);
    return end != line;
}

/* False: the offsets that the kernel shows belong to our children, not to us. */
static bool namespace_is_own(void)
{
    char own[64] = "", children[64] = "";
    ssize_t own_len = readlink(OWN_NS_PATH, own, sizeof own);
    ssize_t children_len = readlink(CHILD_NS_PATH, children, sizeof children);

    return own_len > 0 && own_len == children_len && memcmp(own, children, (size_t)own_len) == 0;
}

static enum dlock_status offset_init(struct sqlite_clock *clock, struct dlock_error *err)
{
    char text[256];
    int rc = file_read(OFFSETS_PATH, text, sizeof text);

    clock->offset_ns = 0;
    if (rc == ENOENT && access(BOOT_ID_PATH, R_OK) == 0) /* a kernel without time namespaces */
        return DLOCK_OK;
    if (rc != 0)
        return sqlite_os_error_fail(err, OFFSETS_PATH, "read", rc);
    if (!namespace_is_own())
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                          "this process changed the time namespace of its children only; open the "
                          "store in a child");
    if (!offset_parse(text, &clock->offset_ns))
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0, "%s has an unknown format",
                          OFFSETS_PATH);
    return DLOCK_OK;
}

enum dlock_status sqlite_clock_init(struct sqlite_clock *clock, struct dlock_error *err)
{
    char text[64];
    int rc = file_read(BOOT_ID_PATH, text, sizeof text);

    memset(clock, 0, sizeof *clock);
    if (rc != 0)
        return sqlite_os_error_fail(err, BOOT_ID_PATH, "read", rc);
    if (!boot_parse(text, clock->boot))
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0, "%s has an unknown format",
                          BOOT_ID_PATH);
    return offset_init(clock, err);
}
