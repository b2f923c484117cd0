/* SPDX-License-Identifier: MIT */
#include "metrics_thread.h"

#include "lib/deadline_cond.h"
#include "lib/thread.h"
#include "lib/time.h"

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
