/* SPDX-License-Identifier: MIT */
#include "work.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SEATS 64 /* a condition variable for each, so that nobody is woken in vain */

struct fifo {
    pthread_mutex_t mutex;
    pthread_cond_t called[SEATS];
    uint64_t next, turn;
};

static void *fifo_open(const struct bench_place *place, char *why)
{
    struct fifo *fifo = calloc(1, sizeof *fifo);

    (void)place;
    if (fifo == NULL) {
        (void)snprintf(why, BENCH_WHY_SIZE, "no memory");
        return NULL;
    }
    (void)pthread_mutex_init(&fifo->mutex, NULL);
    for (int i = 0; i < SEATS; i++)
        (void)pthread_cond_init(&fifo->called[i], NULL);
    return fifo;
}

static void fifo_close(void *process)
{
    struct fifo *fifo = process;

    for (int i = 0; i < SEATS; i++)
        (void)pthread_cond_destroy(&fifo->called[i]);
    (void)pthread_mutex_destroy(&fifo->mutex);
    free(fifo);
}

static void *fifo_join(void *process, const struct bench_place *place, int index, char *why)
{
    (void)place;
    (void)index;
    (void)why;
    return process;
}

static void fifo_leave(void *worker)
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
    while (fifo->turn != ticket)
        (void)pthread_cond_wait(&fifo->called[ticket % SEATS], &fifo->mutex);
    (void)pthread_mutex_unlock(&fifo->mutex);
    return 0;
}

static int fifo_unlock(void *worker, char *why)
{
    struct fifo *fifo = worker;

    (void)why;
    (void)pthread_mutex_lock(&fifo->mutex);
    fifo->turn++;
    (void)pthread_cond_broadcast(&fifo->called[fifo->turn % SEATS]);
    (void)pthread_mutex_unlock(&fifo->mutex);
    return 0;
}

const struct bench_work bench_work_fifo = {
    .open = fifo_open,
    .close = fifo_close,
    .join = fifo_join,
    .leave = fifo_leave,
    .lock = fifo_lock,
    .unlock = fifo_unlock,
};
