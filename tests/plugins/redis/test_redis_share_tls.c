/* SPDX-License-Identifier: MIT */
/* Tests: plugins/net/tls.c plugins/net/tls_late.c */
/*
 * test_redis_share.c over TLS: a connection of OpenSSL is shared, and who reads on it spins. The
 * program is linked with --wrap, so that it sees whether two threads are ever inside OpenSSL with
 * the same connection, which OpenSSL does not forgive and seldom shows.
 */
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

enum { INSIDE_MAX = 64 };

static pthread_mutex_t inside_mutex = PTHREAD_MUTEX_INITIALIZER;
static SSL *inside[INSIDE_MAX];
static unsigned entries;

int __real_SSL_read_ex(SSL *ssl, void *buf, size_t size, size_t *done);
int __real_SSL_write_ex(SSL *ssl, const void *buf, size_t size, size_t *done);
int __wrap_SSL_read_ex(SSL *ssl, void *buf, size_t size, size_t *done);
int __wrap_SSL_write_ex(SSL *ssl, const void *buf, size_t size, size_t *done);

/* Stays a little now and then, so that others would come in. */
static int enter(SSL *ssl)
{
    int place = -1;
    bool stays = false;

    (void)pthread_mutex_lock(&inside_mutex);
    for (int i = 0; i < INSIDE_MAX; i++) {
        if (inside[i] == ssl)
            abort();
        if (inside[i] == NULL)
            place = i;
    }
    if (place < 0)
        abort();
    inside[place] = ssl;
    stays = ++entries % 16 == 0;
    (void)pthread_mutex_unlock(&inside_mutex);
    if (stays)
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    return place;
}

static void leave(int place)
{
    (void)pthread_mutex_lock(&inside_mutex);
    inside[place] = NULL;
    (void)pthread_mutex_unlock(&inside_mutex);
}

int __wrap_SSL_read_ex(SSL *ssl, void *buf, size_t size, size_t *done)
{
    int place = enter(ssl);
    int result = __real_SSL_read_ex(ssl, buf, size, done);

    leave(place);
    return result;
}

int __wrap_SSL_write_ex(SSL *ssl, const void *buf, size_t size, size_t *done)
{
    int place = enter(ssl);
    int result = __real_SSL_write_ex(ssl, buf, size, done);

    leave(place);
    return result;
}
