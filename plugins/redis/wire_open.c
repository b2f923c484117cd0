/* SPDX-License-Identifier: MIT */
/* How a shared connection begins and ends. */
#include "wire.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum dlock_status redis_wire_open(struct redis_wire **out, const struct resp_config *place,
                                  const struct tls *tls, const struct dlock_host *host,
                                  int64_t deadline_ns, struct resp_info *facts,
                                  struct dlock_error *err)
{
    struct redis_wire *wire = calloc(1, sizeof *wire);
    const struct redis_dial dial = {.place = place, .tls = tls, .host = host};
    enum dlock_status status = DLOCK_NOMEM;

    *out = NULL;
    if (wire == NULL)
        return resp_error_fail(place, err, status, "no memory for a connection");
    (void)pthread_mutex_init(&wire->mutex, NULL);
    wire->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wire->wake_fd < 0)
        (void)resp_error_fail(place, err, status, "no descriptor for an event");
    else
        status = redis_connect(&wire->link, &dial, deadline_ns, facts, err);
    if (status == DLOCK_OK)
        *out = wire;
    else
        redis_wire_close(wire);
    return status;
}

void redis_wire_close(struct redis_wire *wire)
{
    redis_link_close(&wire->link);
    if (wire->wake_fd >= 0)
        (void)close(wire->wake_fd);
    (void)pthread_mutex_destroy(&wire->mutex);
    free(wire->out);
    free(wire);
}

void redis_wire_leave(struct redis_wire *wire)
{
    redis_link_leave(&wire->link);
    if (wire->wake_fd >= 0)
        (void)close(wire->wake_fd);
}
