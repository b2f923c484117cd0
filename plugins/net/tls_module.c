/* SPDX-License-Identifier: MIT */
#include "net/tls_module.h"

static const struct tls_functions functions = {
    .version = DLOCK_VERSION,
    .stream_size = sizeof(struct stream),
    .make = tls_new,
    .free = tls_free,
    .begin = tls_begin,
    .step = tls_step,
    .try_send = tls_try_send,
    .try_receive = tls_try_receive,
    .idle = tls_idle,
    .end = tls_end,
    .moved = tls_moved,
};

__attribute__((visibility("default"))) const struct tls_functions *dlock_tls(void);

const struct tls_functions *dlock_tls(void)
{
    return &functions;
}
