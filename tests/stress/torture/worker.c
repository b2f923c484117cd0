/* SPDX-License-Identifier: MIT */
#include "worker.h"
#include "../../kit/notices.h"
#include "call.h"
#include "crew.h"
#include "route.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#define LOG_RECORDS (UINT64_C(1) << 23)
#define OPEN_MS     50
#define PATIENCE_MS 1500 /* for waits to end by themselves, before all waits are ended */
#define LEAVING_MS  50
#define EVENTS_MS   10

static _Atomic int leaving; /* lock-free: set by a signal, read by all threads */

static void leave(int number)
{
    (void)number;
    atomic_store(&leaving, 1);
}

bool worker_stopping(const struct worker *worker)
{
    return atomic_load(&leaving) != 0 || atomic_load(&worker->shared->stopping) != 0;
}

static void sleep_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

static bool log_start(struct worker *worker)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/client-%02u-%03u.log", worker->order->directory,
                   worker->order->number, worker->order->generation);
    worker->log = dlt_log_open(path, LOG_RECORDS);
    if (worker->log == NULL)
        return false;
    dlt_log_call(worker->log, member_number(worker->order->number, worker->order->generation));
    return true;
}

/* While the store is away, again and again. */
static bool client_open(struct worker *worker)
{
    char defaults[160];
    struct dlock_client_options options = {.struct_size = sizeof options, .defaults = defaults};
    struct dlock_error err = DLOCK_ERROR_INIT;
    int64_t ttl_ms = worker->order->ttl_ms;

    (void)snprintf(defaults, sizeof defaults,
                   "ttl=%lldms&poll_max=200ms&op_timeout=%lldms&connect_timeout=1s",
                   (long long)ttl_ms, (long long)worker->op_timeout_ms);
    if (!worker->polls_events) {
        options.on_lost = actor_lost;
        options.on_lost_arg = worker;
    }
    while (dlock_client_open(worker->order->uri, &options, &worker->client, &err) != DLOCK_OK) {
        bool transient = dlock_status_class((int)err.status) == DLOCK_CLASS_BACKEND;

        if (worker_stopping(worker))
            return false;
        if (!transient)
            (void)fprintf(stderr, "dlock-torture: client %u: %s: %s\n", worker->order->number,
                          dlock_status_name((int)err.status), err.message);
        if (!transient)
            return false;
        sleep_ms(OPEN_MS);
    }
    worker->caps = dlock_client_caps(worker->client);
    return true;
}

struct events {
    struct worker *worker;
    _Atomic bool over;
};

static void *events_run(void *arg)
{
    struct events *events = arg;
    struct dlock_client *client = events->worker->client;
    struct pollfd fd = {.fd = dlock_client_fd(client), .events = POLLIN};
    struct dlock_notice event = {.struct_size = sizeof event};

    while (!atomic_load(&events->over)) {
        (void)poll(&fd, 1, EVENTS_MS);
        while (dlt_notice_take(client, &event, NULL) == 1) {
            if (event.kind == DLOCK_NOTICE_LOST)
                actor_lost(events->worker, &event);
            else if (event.kind == DLOCK_NOTICE_DONE)
                call_done(events->worker, &event);
        }
    }
    return NULL;
}

/* Waits that end by themselves do; those without an end are ended. */
static void threads_end(struct worker *worker, const pthread_t *threads)
{
    while (!worker_stopping(worker))
        sleep_ms(10);
    sleep_ms(atomic_load(&leaving) != 0 ? LEAVING_MS : PATIENCE_MS);
    dlock_client_shutdown(worker->client);
    for (unsigned i = 0; i < worker->order->threads; i++)
        (void)pthread_join(threads[i], NULL);
}

static void work(struct worker *worker)
{
    unsigned count = worker->order->threads;
    pthread_t *threads = calloc(count, sizeof *threads), listener;
    struct events events = {.worker = worker};
    bool listens = worker->polls_events;

    if (threads == NULL || (listens && pthread_create(&listener, NULL, events_run, &events) != 0))
        abort();
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, actor_run, &worker->actors[i]) != 0)
            abort();
    threads_end(worker, threads);
    atomic_store(&events.over, true);
    if (listens)
        (void)pthread_join(listener, NULL);
    free(threads);
}

static bool live(struct worker *worker)
{
    const struct worker_order *order = worker->order;
    unsigned ready = 0;

    worker->actors = calloc(order->threads, sizeof *worker->actors);
    if (worker->actors == NULL)
        return false;
    if (!client_open(worker))
        return worker_stopping(worker);
    while (ready < order->threads &&
           actor_init(&worker->actors[ready], worker, order->number * order->threads + ready))
        ready++;
    if (ready == order->threads)
        work(worker);
    for (unsigned i = 0; i < ready; i++)
        actor_fini(&worker->actors[i]);
    dlock_client_close(worker->client);
    return ready == order->threads;
}

int worker_main(const struct worker_order *order)
{
    struct worker worker = {.order = order};
    const struct sigaction on_leave = {.sa_handler = leave};
    sigset_t leave_set;
    bool right = false;

    (void)sigaction(SIGTERM, &on_leave, NULL);
    (void)sigemptyset(&leave_set);
    (void)sigaddset(&leave_set, SIGTERM);
    (void)sigprocmask(SIG_UNBLOCK, &leave_set, NULL); /* blocked by crew.c */
    worker.polls_events = order->number % 2 == 0 && !order->session;
    worker.op_timeout_ms = order->ttl_ms / 4 > 250 ? order->ttl_ms / 4 : 250;
    worker.shared = shared_open(order->directory, false);
    if (!route_read(getenv(TORTURE_ROUTES)))
        (void)fprintf(stderr, "dlock-torture: %s makes no sense\n", TORTURE_ROUTES);
    else if (worker.shared != NULL && log_start(&worker))
        right = live(&worker);
    else
        perror("dlock-torture: a client");
    free(worker.actors);
    dlt_log_close(worker.log);
    shared_close(worker.shared);
    return right ? 0 : 1;
}
