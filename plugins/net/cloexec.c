/* SPDX-License-Identifier: MIT */
#include "net/cloexec.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void cloexec_lock(void)
{
    (void)pthread_mutex_lock(&mutex);
}

void cloexec_unlock(void)
{
    (void)pthread_mutex_unlock(&mutex);
}

int cloexec_init(void)
{
    return pthread_atfork(cloexec_lock, cloexec_unlock, cloexec_unlock);
}
