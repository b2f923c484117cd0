/* SPDX-License-Identifier: MIT */
#include "net/resolve.h"
#include "lib/thread.h"

#include "lib/time.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* One lookup. The caller and the thread share it, and the last user frees it. */
struct resolve_job {
    pthread_mutex_t mutex;
    pthread_cond_t done_changed;
    bool done, abandoned;
    int result;
    struct addrinfo *found;
    char port[8];
    char host[]; /* the name */
};

static _Atomic unsigned left; /* abandoned threads that have not ended */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void child(void)
{
    atomic_store(&left, 0);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, child);
}

static void job_free(struct resolve_job *job)
{
    if (job->found != NULL)
        freeaddrinfo(job->found);
    (void)pthread_cond_destroy(&job->done_changed);
    (void)pthread_mutex_destroy(&job->mutex);
    free(job);
}

static int look_up(const char *host, const char *port, int flags, struct addrinfo **out)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | flags,
    };

    *out = NULL;
    return getaddrinfo(host, port, &hints, out);
}

static void *job_run(void *arg)
{
    struct resolve_job *job = arg;
    struct addrinfo *found = NULL;
    int result = look_up(job->host, job->port, AI_ADDRCONFIG, &found);
    bool abandoned = false;

    (void)pthread_mutex_lock(&job->mutex);
    job->result = result;
    job->found = found;
    job->done = true;
    abandoned = job->abandoned;
    (void)pthread_cond_signal(&job->done_changed);
    (void)pthread_mutex_unlock(&job->mutex);
    if (abandoned) {
        job_free(job);
        (void)atomic_fetch_sub(&left, 1);
    }
    return NULL;
}

static struct resolve_job *job_new(const char *host, const char *port)
{
    size_t size = sizeof(struct resolve_job) + strlen(host) + 1;
    struct resolve_job *job = calloc(1, size);

    if (job == NULL)
        return NULL;
    (void)snprintf(job->host, size - sizeof *job, "%s", host);
    (void)snprintf(job->port, sizeof job->port, "%s", port);
    (void)pthread_mutex_init(&job->mutex, NULL);
    (void)dl_deadline_cond_init(&job->done_changed);
    return job;
}

/* With the mutex held. */
static void job_wait(struct resolve_job *job, const struct dlock_host *clock, int64_t deadline_ns)
{
    while (!job->done && clock->now_ns(clock->ctx) < deadline_ns)
        dl_deadline_cond_wait(&job->done_changed, &job->mutex,
                              deadline_ns - clock->now_ns(clock->ctx));
}

static const char *service_of(char *out, size_t size, uint16_t port)
{
    (void)snprintf(out, size, "%u", (unsigned)port);
    return out;
}

int resolve_number(const char *host, uint16_t port, struct addrinfo **out)
{
    char service[8];

    return look_up(host, service_of(service, sizeof service, port), AI_NUMERICHOST, out);
}

struct resolve_job *resolve_begin(const char *host, uint16_t port)
{
    char service[8];
    struct resolve_job *job = NULL;

    (void)pthread_once(&once, watch_forks);
    if (atomic_load(&left) >= RESOLVE_LEFT_MOST)
        return NULL;
    job = job_new(host, service_of(service, sizeof service, port));
    if (job != NULL && dl_thread_start(NULL, NULL, job_run, job) != 0) {
        job_free(job);
        job = NULL;
    }
    return job;
}

/* With the mutex held, which it gives up. */
static bool job_take(struct resolve_job *job, int *result, struct addrinfo **out)
{
    bool done = job->done;

    if (done) {
        *result = job->result;
        *out = job->found;
        job->found = NULL;
    }
    (void)pthread_mutex_unlock(&job->mutex);
    if (done)
        job_free(job);
    return done;
}

bool resolve_poll(struct resolve_job *job, int *result, struct addrinfo **out)
{
    (void)pthread_mutex_lock(&job->mutex);
    return job_take(job, result, out);
}

void resolve_abandon(struct resolve_job *job)
{
    bool done = false;

    if (job == NULL)
        return;
    (void)pthread_mutex_lock(&job->mutex);
    done = job->done;
    job->abandoned = true;
    if (!done)
        (void)atomic_fetch_add(&left, 1);
    (void)pthread_mutex_unlock(&job->mutex);
    if (done)
        job_free(job);
}

int resolve_host(const char *host, uint16_t port, const struct dlock_host *clock,
                 int64_t deadline_ns, struct addrinfo **out)
{
    struct resolve_job *job = NULL;
    int result = EAI_AGAIN;

    if (resolve_number(host, port, out) == 0)
        return 0;
    if (clock->now_ns(clock->ctx) >= deadline_ns)
        return EAI_AGAIN;
    job = resolve_begin(host, port);
    if (job == NULL)
        return atomic_load(&left) >= RESOLVE_LEFT_MOST ? EAI_AGAIN : EAI_MEMORY;
    (void)pthread_mutex_lock(&job->mutex);
    job_wait(job, clock, deadline_ns);
    if (!job_take(job, &result, out))
        resolve_abandon(job);
    return result;
}
