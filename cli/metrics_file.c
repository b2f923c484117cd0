/* SPDX-License-Identifier: MIT */
#include "metrics_file.h"
#include "lib/text.h"
#include "lib/thread.h"
#include "lib/time.h"
#include "output.h"

#include <dlock/metrics.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX   ".prom"
#define END_LINE "# EOF\n"

/* A writing in progress. */
struct writing {
    char path[PATH_MAX]; /* of the new file */
    FILE *out;
};

/* The collector reads *.prom: this name is not one. The number tells apart the programs that write
 * the same file. */
static int writing_begin(struct writing *writing, const char *path)
{
    int len = snprintf(writing->path, sizeof writing->path, "%s.%ld.tmp", path, (long)getpid());
    int fd;

    if (len < 0 || (size_t)len >= sizeof writing->path)
        return ENAMETOOLONG;
    (void)unlink(writing->path); /* of a process that died, and had our number */
    fd = open(writing->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
    writing->out = fd < 0 ? NULL : fdopen(fd, "w");
    if (writing->out != NULL)
        return 0;
    if (fd >= 0)
        (void)close(fd);
    return errno;
}

/* path: NULL: drops the file. */
static int writing_end(struct writing *writing, const char *path)
{
    int error = 0;

    errno = 0;
    if (fflush(writing->out) != 0 || ferror(writing->out) != 0)
        error = errno != 0 ? errno : EIO;
    if (fclose(writing->out) != 0 && error == 0)
        error = errno;
    if (error == 0 && path != NULL && rename(writing->path, path) != 0)
        error = errno;
    if (error != 0 || path == NULL)
        (void)unlink(writing->path);
    return error;
}

int metrics_file_init(struct metrics_file *file, const char *path)
{
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    size_t len = strlen(name);
    struct writing probe;
    int error;

    *file = (struct metrics_file){.path = path};
    if (len > strlen(SUFFIX) && strcmp(name + len - strlen(SUFFIX), SUFFIX) == 0)
        len -= strlen(SUFFIX);
    (void)snprintf(file->label, sizeof file->label, "%.*s", (int)len, name);
    if (name[0] == '\0')
        return EISDIR;
    error = writing_begin(&probe, path);
    return error != 0 ? error : writing_end(&probe, NULL);
}

/* All lines but the last one. */
static bool text_take(void *arg, const char *text, size_t len)
{
    FILE *out = arg;

    if (len != strlen(END_LINE) || memcmp(text, END_LINE, len) != 0)
        (void)fwrite(text, 1, len, out);
    return false;
}

void metrics_file_write(struct metrics_file *file, struct dlock_client *client,
                        metrics_file_fn *more, void *arg)
{
    const char *const labels[] = {"file", file->label, NULL};
    char value[5 * METRICS_FILE_LABEL + 16];
    char label[sizeof value + 16];
    struct writing writing;

    if (file->path == NULL)
        return;
    file->error = writing_begin(&writing, file->path);
    if (file->error != 0)
        return;
    if (client != NULL)
        (void)dlock_client_metrics(client, labels, text_take, writing.out, NULL);
    (void)snprintf(label, sizeof label, "file=\"%s\"",
                   dl_printable_quote(value, sizeof value, file->label, strlen(file->label)));
    if (more != NULL)
        more(arg, writing.out, label);
    (void)fputs(END_LINE, writing.out);
    file->error = writing_end(&writing, file->path);
}

void metrics_file_family(FILE *out, const char *name, const char *type, const char *unit,
                         const char *help)
{
    (void)fprintf(out, "# TYPE %s %s\n", name, type);
    if (unit[0] != '\0')
        (void)fprintf(out, "# UNIT %s %s\n", name, unit);
    (void)fprintf(out, "# HELP %s %s\n", name, help);
}

void metrics_file_gauge(FILE *out, const char *label, const char *name, const char *unit,
                        const char *help, double value)
{
    metrics_file_family(out, name, "gauge", unit, help);
    (void)fprintf(out, "%s{%s} %.15g\n", name, label, value);
}

void metrics_file_report(const struct metrics_file *file, const struct cli *cli)
{
    if (file->path != NULL && file->error != 0)
        cli_output_fail(cli, "--metrics=%s: %s",
                        cli_output_printable(file->path, strlen(file->path)),
                        strerror(file->error));
}

#define EVERY_NS (10 * DL_NS_PER_S)
#define FIRST_NS DL_NS_PER_S          /* after the first writing: a wait has begun by then */
#define SOON_NS  (100 * DL_NS_PER_MS) /* the store is not open yet */

static void *thread_main(void *arg)
{
    struct metrics_thread *thread = arg;
    int64_t at_ns = 0, pause_ns = FIRST_NS;

    (void)pthread_mutex_lock(&thread->mutex);
    while (!thread->stop) {
        int64_t now_ns = dl_time_now_ns(CLOCK_BOOTTIME);

        if (now_ns < at_ns) {
            dl_deadline_cond_wait(&thread->stopped, &thread->mutex, at_ns - now_ns);
        } else if (!atomic_load(&thread->acquire->waiting)) {
            at_ns = now_ns + SOON_NS;
        } else {
            (void)pthread_mutex_unlock(&thread->mutex);
            metrics_file_write(thread->file, thread->acquire->client, NULL, NULL);
            (void)pthread_mutex_lock(&thread->mutex);
            at_ns = now_ns + pause_ns;
            pause_ns = EVERY_NS;
        }
    }
    (void)pthread_mutex_unlock(&thread->mutex);
    return NULL;
}

void metrics_thread_start(struct metrics_thread *thread, struct metrics_file *file,
                          struct acquire *acquire)
{
    *thread = (struct metrics_thread){.file = file, .acquire = acquire};
    atomic_store(&acquire->waiting, false);
    if (file->path == NULL || pthread_mutex_init(&thread->mutex, NULL) != 0)
        return;
    if (dl_deadline_cond_init(&thread->stopped) == 0) {
        thread->running = dl_thread_start(&thread->thread, NULL, thread_main, thread) == 0;
        if (thread->running)
            return;
        (void)pthread_cond_destroy(&thread->stopped);
    }
    (void)pthread_mutex_destroy(&thread->mutex);
}

void metrics_thread_stop(struct metrics_thread *thread, metrics_file_fn *more, void *arg)
{
    if (thread->running) {
        (void)pthread_mutex_lock(&thread->mutex);
        thread->stop = true;
        (void)pthread_cond_broadcast(&thread->stopped);
        (void)pthread_mutex_unlock(&thread->mutex);
        (void)pthread_join(thread->thread, NULL);
        (void)pthread_cond_destroy(&thread->stopped);
        (void)pthread_mutex_destroy(&thread->mutex);
    }
    metrics_file_write(thread->file, thread->acquire->client, more, arg);
}
