/* SPDX-License-Identifier: MIT */
/* Opens and closes a shared connection. */
#include "redis/link/pipeline.h"
#include "resp/error.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum dlock_status redis_pipeline_open(struct redis_pipeline **out, const struct resp_config *config,
                                      const struct tls *tls, const struct dlock_host *host,
                                      int64_t deadline_ns, struct resp_info *server_info,
                                      struct dlock_error *err)
{
    struct redis_pipeline *pipeline = calloc(1, sizeof *pipeline);
    struct redis_connect_args args = {.tls = tls, .host = host};
    enum dlock_status status = DLOCK_NOMEM;

    *out = NULL;
    if (pipeline == NULL)
        return resp_error_fail(config, err, status, "no memory for a connection");
    (void)pthread_mutex_init(&pipeline->mutex, NULL);
    pipeline->config = *config;
    args.config = &pipeline->config;
    pipeline->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (pipeline->wake_fd < 0)
        (void)resp_error_fail(config, err, status, "no descriptor for an event");
    else
        status = redis_setup_connect(&pipeline->connection, &args, deadline_ns, server_info, err);
    if (status == DLOCK_OK)
        *out = pipeline;
    else
        redis_pipeline_close(pipeline);
    return status;
}

void redis_pipeline_close(struct redis_pipeline *pipeline)
{
    redis_connection_close(&pipeline->connection);
    if (pipeline->wake_fd >= 0)
        (void)close(pipeline->wake_fd);
    (void)pthread_mutex_destroy(&pipeline->mutex);
    free(pipeline->out);
    free(pipeline);
}

void redis_pipeline_after_fork(struct redis_pipeline *pipeline)
{
    redis_connection_after_fork(&pipeline->connection);
    if (pipeline->wake_fd >= 0)
        (void)close(pipeline->wake_fd);
}
