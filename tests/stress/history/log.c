/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x31474f4c544c44) /* "DLTLOG1" */

struct header {
    uint64_t magic;
    uint64_t record_size;
    uint64_t capacity;
    _Atomic uint64_t used; /* more than capacity: some were not kept */
    uint64_t spare[4];
};

struct dlt_log {
    struct header *header;
    struct dlt_record *records;
    size_t size;
    int32_t pid;
    _Atomic uint64_t attempts;
};

struct dlt_log *dlt_log_open(const char *path, size_t capacity)
{
    struct dlt_log *log = calloc(1, sizeof *log);
    size_t size = sizeof(struct header) + capacity * sizeof(struct dlt_record);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    void *map = MAP_FAILED;

    if (log != NULL && fd >= 0 && ftruncate(fd, (off_t)size) == 0)
        map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void)close(fd);
    if (map == MAP_FAILED) {
        free(log);
        return NULL;
    }
    log->header = map;
    log->records = (struct dlt_record *)(log->header + 1);
    log->size = size;
    log->pid = getpid();
    log->header->record_size = sizeof(struct dlt_record);
    log->header->capacity = capacity;
    log->header->magic = MAGIC;
    return log;
}

void dlt_log_close(struct dlt_log *log)
{
    if (log == NULL)
        return;
    (void)munmap(log->header, log->size);
    free(log);
}

void dlt_log_call(struct dlt_log *log, int32_t pid)
{
    log->pid = pid;
}

int64_t dlt_log_now_ns(void)
{
    struct timespec now = {0, 0};

    (void)syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t dlt_log_attempt(struct dlt_log *log)
{
    return (uint64_t)log->pid << 40 | (atomic_fetch_add(&log->attempts, 1) + 1);
}

void dlt_log_write(struct dlt_log *log, const struct dlt_record *record)
{
    struct dlt_record filled = *record;
    uint64_t place;

    if (filled.clock_ns == 0)
        filled.clock_ns = dlt_log_now_ns();
    if (filled.pid == 0)
        filled.pid = log->pid;
    filled.tid = gettid();
    filled.seq = 0;
    place = atomic_fetch_add(&log->header->used, 1);
    if (place >= log->header->capacity)
        return;
    log->records[place] = filled;
    __atomic_store_n(&log->records[place].seq, place + 1, __ATOMIC_RELEASE);
}

static const char *header_fault(const struct header *header, size_t size)
{
    if (size < sizeof *header || header->magic != MAGIC)
        return "not a log";
    if (header->record_size != sizeof(struct dlt_record))
        return "a log of another version";
    if (header->capacity > (size - sizeof *header) / sizeof(struct dlt_record))
        return "cut short";
    if (header->used > header->capacity)
        return "it was too small for what happened";
    return NULL;
}

static const char *records_add(const struct header *header, struct dlt_history *history)
{
    const struct dlt_record *records = (const struct dlt_record *)(header + 1);

    for (uint64_t i = 0; i < header->used; i++) {
        struct dlt_record *place;

        if (records[i].seq == 0)
            continue;
        place = dlt_history_add(history);
        if (place == NULL)
            return "no memory";
        *place = records[i];
    }
    return NULL;
}

int dlt_log_read(const char *path, struct dlt_history *history, char *why, size_t why_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const char *fault = NULL;
    void *map = MAP_FAILED;
    struct stat st = {0};

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size == 0)
        fault = "empty";
    else if (fd >= 0 && st.st_size > 0)
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED && fault == NULL) {
        fault = strerrordesc_np(errno);
    } else if (map != MAP_FAILED) {
        fault = header_fault(map, (size_t)st.st_size);
        if (fault == NULL)
            fault = records_add(map, history);
        (void)munmap(map, (size_t)st.st_size);
    }
    if (fd >= 0)
        (void)close(fd);
    if (fault != NULL)
        (void)snprintf(why, why_size, "%s: %s", path, fault);
    return fault == NULL ? 0 : -1;
}
