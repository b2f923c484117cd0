/* SPDX-License-Identifier: MIT */
#include "net/tls_bio.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/socket.h>

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static int bio_fd(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static int bio_write(BIO *bio, const char *bytes, int len)
{
    ssize_t sent = send(bio_fd(bio), bytes, (size_t)len, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)sent;
}

static int bio_read(BIO *bio, char *bytes, int size)
{
    ssize_t got = recv(bio_fd(bio), bytes, (size_t)size, 0);

    BIO_clear_retry_flags(bio);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)got;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static void method_make(void)
{
    int type = BIO_get_new_index();

    if (type < 0)
        return;
    method = BIO_meth_new(type | BIO_TYPE_SOURCE_SINK, "dlock socket");
    if (method == NULL)
        return;
    (void)BIO_meth_set_write(method, bio_write);
    (void)BIO_meth_set_read(method, bio_read);
    (void)BIO_meth_set_ctrl(method, bio_ctrl);
    (void)BIO_meth_set_create(method, bio_create);
}

BIO *tls_bio_new(int fd)
{
    BIO *bio = NULL;

    (void)pthread_once(&method_once, method_make);
    bio = method != NULL ? BIO_new(method) : NULL;
    if (bio != NULL)
        BIO_set_data(bio, (void *)(intptr_t)fd);
    return bio;
}
