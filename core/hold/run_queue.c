/* SPDX-License-Identifier: MIT */
#include "hold/run_queue.h"
#include "lib/time.h"

#include <stddef.h>
#include <stdlib.h>

struct dl_run_queue *dl_run_queue_new(void)
{
    struct dl_run_queue *queue = calloc(1, sizeof *queue);

    if (queue == NULL)
        return NULL;
    if (dl_deadline_cond_init(&queue->work[0]) != 0) {
        free(queue);
        return NULL;
    }
    if (dl_deadline_cond_init(&queue->work[1]) != 0) {
        (void)pthread_cond_destroy(&queue->work[0]);
        free(queue);
        return NULL;
    }
    return queue;
}

void dl_run_queue_free(struct dl_run_queue *queue)
{
    if (queue == NULL)
        return;
    for (unsigned i = 0; i < DL_RUN_THREADS; i++) {
        (void)pthread_cond_destroy(&queue->work[i]);
        free(queue->room[i]);
    }
    dl_schedule_fini(&queue->waiting);
    free(queue->numbered);
    free(queue->free_numbers);
    free(queue);
}

/* Room for one more number. */
static bool numbers_grow(struct dl_run_queue *queue)
{
    uint32_t room = queue->numbers_room + queue->numbers_room / 4 + 16;
    struct dl_run_node **numbered;
    uint32_t *free_numbers;

    if (queue->numbers + 1 < queue->numbers_room)
        return true;
    numbered = realloc(queue->numbered, room * sizeof(*numbered));
    if (numbered == NULL)
        return false;
    queue->numbered = numbered;
    free_numbers = realloc(queue->free_numbers, room * sizeof(*free_numbers));
    if (free_numbers == NULL)
        return false;
    queue->free_numbers = free_numbers;
    queue->numbers_room = room;
    return true;
}

bool dl_run_queue_number_locked(struct dl_run_queue *queue, struct dl_run_node *node)
{
    if (queue->numbers_free > 0) {
        node->number = queue->free_numbers[--queue->numbers_free];
    } else {
        if (!numbers_grow(queue))
            return false;
        node->number = ++queue->numbers;
    }
    queue->numbered[node->number] = node;
    return true;
}

void dl_run_queue_unnumber_locked(struct dl_run_queue *queue, struct dl_run_node *node)
{
    if (node->number == 0)
        return;
    queue->numbered[node->number] = NULL;
    queue->free_numbers[queue->numbers_free++] = node->number;
    node->number = 0;
}

struct dl_run_node *dl_run_queue_numbered(const struct dl_run_queue *queue, uint32_t number)
{
    return number == 0 || number > queue->numbers ? NULL : queue->numbered[number];
}

static void list_push(struct dl_run_list *list, struct dl_run_node *node)
{
    node->next = NULL;
    if (list->last != NULL)
        list->last->next = node;
    else
        list->first = node;
    list->last = node;
}

static struct dl_run_node *list_pop(struct dl_run_list *list)
{
    struct dl_run_node *node = list->first;

    if (node == NULL)
        return NULL;
    list->first = node->next;
    if (list->first == NULL)
        list->last = NULL;
    return node;
}

static struct dl_run_node *list_take(struct dl_run_list *list)
{
    struct dl_run_node *node = list_pop(list);

    if (node == NULL)
        return NULL;
    node->ready = false;
    node->running = true;
    node->woken = false;
    return node;
}

static void node_ready(struct dl_run_queue *queue, struct dl_run_node *node, int64_t now_ns)
{
    node->ready = true;
    node->due.at_ns = now_ns;
    list_push(node->urgent ? &queue->urgent : &queue->others, node);
}

/* The second thread sleeps without a bound while the first one has nothing to do. */
static void thread_wake(struct dl_run_queue *queue)
{
    unsigned i = queue->asleep[0] ? 0 : 1;

    if (!queue->asleep[i])
        return;
    queue->asleep[i] = false;
    if (i == 0 && queue->rouse != NULL)
        queue->rouse(queue->rouse_arg);
    else
        (void)pthread_cond_broadcast(&queue->work[i]);
}

bool dl_run_queue_has_thread(const struct dl_run_queue *queue)
{
    bool has = false;

    for (unsigned i = 0; i < DL_RUN_THREADS; i++) /* zeros are no thread */
        has |= pthread_equal(queue->thread[i], pthread_self()) != 0;
    return has;
}

void dl_run_queue_rouse_locked(struct dl_run_queue *queue)
{
    if (queue->asleep[0])
        thread_wake(queue);
}

void dl_run_queue_wake_locked(struct dl_run_queue *queue, struct dl_run_node *node, int64_t now_ns)
{
    if (node->running) {
        node->woken = true;
        return;
    }
    if (node->ready)
        return;
    dl_schedule_remove(&queue->waiting, &node->due);
    node_ready(queue, node, now_ns);
    thread_wake(queue);
}

struct dl_run_node *dl_run_queue_take_locked(struct dl_run_queue *queue, int64_t now_ns)
{
    struct dl_run_node *node;
    struct dl_due *due;

    for (due = dl_schedule_first(&queue->waiting); due != NULL && due->at_ns <= now_ns;
         due = dl_schedule_first(&queue->waiting)) {
        dl_schedule_remove(&queue->waiting, due);
        node_ready(queue,
                   (struct dl_run_node *)(void *)((char *)due - offsetof(struct dl_run_node, due)),
                   now_ns);
    }
    node = list_take(&queue->urgent);
    return node != NULL ? node : list_take(&queue->others);
}

static struct dl_run_list *list_of(struct dl_run_queue *queue, const struct dl_run_node *node)
{
    return node->urgent ? &queue->urgent : &queue->others;
}

struct dl_run_node *dl_run_queue_next(const struct dl_run_queue *queue,
                                      const struct dl_run_node *like)
{
    return like->urgent ? queue->urgent.first : queue->others.first;
}

void dl_run_queue_take_next_locked(struct dl_run_queue *queue, const struct dl_run_node *next)
{
    (void)list_take(list_of(queue, next));
}

void dl_run_queue_put_back_locked(struct dl_run_queue *queue, struct dl_run_node *node)
{
    struct dl_run_list *list = list_of(queue, node);

    node->running = false;
    node->ready = true;
    node->next = list->first;
    list->first = node;
    if (list->last == NULL)
        list->last = node;
    thread_wake(queue);
}

bool dl_run_queue_has_work(const struct dl_run_queue *queue, int64_t now_ns)
{
    const struct dl_due *due = dl_schedule_first(&queue->waiting);

    return queue->urgent.first != NULL || queue->others.first != NULL ||
           (due != NULL && due->at_ns <= now_ns);
}

void dl_run_queue_wait_locked(struct dl_run_queue *queue, struct dl_run_node *node,
                              int64_t until_ns, int64_t now_ns)
{
    node->running = false;
    if (node->woken)
        node_ready(queue, node, now_ns);
    else
        dl_schedule_set(&queue->waiting, &node->due, until_ns);
    if (queue->asleep[0])
        thread_wake(queue);
}

void dl_run_queue_end_locked(struct dl_run_queue *queue, struct dl_run_node *node)
{
    (void)queue;
    node->running = false;
}
