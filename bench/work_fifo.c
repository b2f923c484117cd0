/* SPDX-License-Identifier: MIT */
#include "work.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 64 /* condition variables, one a waiter: no thread is woken in vain */

struct fifo {
    pthread_mutex_t mutex;
    pthread_cond_t called[SLOTS];
    uint64_t next, holder;
};

static void *fifo_open(const struct bench_config *config, char *why)
{
    struct fifo *fifo = calloc(1, sizeof *fifo);

    (void)config;
    if (fifo == NULL) {
        (void)snprintf(why, BENCH_WHY_SIZE, "no memory");
        return NULL;
    }
    (void)pthread_mutex_init(&fifo->mutex, NULL);
    for (int i = 0; i < SLOTS; i++)
        (void)pthread_cond_init(&fifo->called[i], NULL);
    return fifo;
}

static void fifo_close(void *process)
{
    struct fifo *fifo = process;

    for (int i = 0; i < SLOTS; i++)
        (void)pthread_cond_destroy(&fifo->called[i]);
    (void)pthread_mutex_destroy(&fifo->mutex);
    free(fifo);
}

static void *fifo_begin(void *process, const struct bench_config *config, int index, char *why)
{
    (void)config;
    (void)index;
    (void)why;
    return process;
}

static void fifo_end(void *worker)
{
    (void)worker;
}

static int fifo_lock(void *worker, char *why)
{
    struct fifo *fifo = worker;
    uint64_t ticket = 0;

    (void)why;
    (void)pthread_mutex_lock(&fifo->mutex);
    ticket = fifo->next++;
    while (fifo->holder != ticket)
        (void)pthread_cond_wait(&fifo->called[ticket % SLOTS], &fifo->mutex);
    (void)pthread_mutex_unlock(&fifo->mutex);
    return 0;
}

static int fifo_unlock(void *worker, char *why)
{
    struct fifo *fifo = worker;

    (void)why;
    (void)pthread_mutex_lock(&fifo->mutex);
    fifo->holder++;
    (void)pthread_cond_broadcast(&fifo->called[fifo->holder % SLOTS]);
    (void)pthread_mutex_unlock(&fifo->mutex);
    return 0;
}

const struct bench_work bench_work_fifo = {
    .open = fifo_open,
    .close = fifo_close,
    .begin = fifo_begin,
    .end = fifo_end,
    .lock = fifo_lock,
    .unlock = fifo_unlock,
};
