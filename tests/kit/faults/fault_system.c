/* SPDX-License-Identifier: MIT */
#include "fault_shim.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

SHIM_EXPORT ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
    SHIM_REAL(getrandom)
    FAULT_RETURN(DLT_FAULT_GETRANDOM, &len, -1);
    return call(bytes, len, flags);
}

SHIM_EXPORT int socket(int family, int type, int protocol)
{
    SHIM_REAL(socket)
    FAULT_RETURN(DLT_FAULT_SOCKET, NULL, -1);
    return call(family, type, protocol);
}

SHIM_EXPORT int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t len)
{
    SHIM_REAL(connect)
    FAULT_RETURN(DLT_FAULT_CONNECT, NULL, -1);
    return call(fd, address, len);
}

SHIM_EXPORT ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    SHIM_REAL(send)
    FAULT_RETURN(DLT_FAULT_SEND, &len, -1);
    return call(fd, bytes, len, flags);
}

SHIM_EXPORT ssize_t recv(int fd, void *bytes, size_t len, int flags)
{
    SHIM_REAL(recv)
    FAULT_RETURN(DLT_FAULT_RECV, &len, -1);
    return call(fd, bytes, len, flags);
}

/* A shorter message is its first part, or less of that. */
static struct msghdr shortened(const struct msghdr *message, struct iovec *part, size_t most)
{
    struct msghdr less = *message;

    *part = message->msg_iov[0];
    if (part->iov_len > most)
        part->iov_len = most;
    less.msg_iov = part;
    less.msg_iovlen = 1;
    return less;
}

SHIM_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    SHIM_REAL(sendmsg)
    size_t most = SIZE_MAX;
    struct iovec part;
    struct msghdr less;

    FAULT_RETURN(DLT_FAULT_SEND, &most, -1);
    if (most == SIZE_MAX || message->msg_iovlen == 0)
        return call(fd, message, flags);
    less = shortened(message, &part, most);
    return call(fd, &less, flags);
}

SHIM_EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    SHIM_REAL(recvmsg)
    size_t most = SIZE_MAX;
    struct iovec part;
    struct msghdr less;
    ssize_t got;

    FAULT_RETURN(DLT_FAULT_RECV, &most, -1);
    if (most == SIZE_MAX || message->msg_iovlen == 0)
        return call(fd, message, flags);
    less = shortened(message, &part, most);
    got = call(fd, &less, flags);
    less.msg_iov = message->msg_iov;
    less.msg_iovlen = message->msg_iovlen;
    *message = less;
    return got;
}

SHIM_EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    SHIM_REAL(poll)
    FAULT_RETURN(DLT_FAULT_POLL, NULL, -1);
    return call(fds, count, timeout_ms);
}

SHIM_EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                      const sigset_t *mask)
{
    SHIM_REAL(ppoll)
    FAULT_RETURN(DLT_FAULT_POLL, NULL, -1);
    return call(fds, count, timeout, mask);
}

SHIM_EXPORT int eventfd(unsigned count, int flags)
{
    SHIM_REAL(eventfd)
    FAULT_RETURN(DLT_FAULT_EVENTFD, NULL, -1);
    return call(count, flags);
}

SHIM_EXPORT int timerfd_create(clockid_t id, int flags)
{
    SHIM_REAL(timerfd_create)
    FAULT_RETURN(DLT_FAULT_TIMERFD, NULL, -1);
    return call(id, flags);
}

/* Returns its error. */
SHIM_EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr,
                               void *(*run)(void *), void *restrict arg)
{
    SHIM_REAL(pthread_create)
    int error = fault_meets(DLT_FAULT_PTHREAD, NULL);

    return error != 0 ? error : call(thread, attr, run, arg);
}

/* Allocates. AddressSanitizer asks it for the stack of each new thread and does not bear a failure.
 */
SHIM_EXPORT int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
    SHIM_REAL(pthread_getattr_np)
    int rc;

    fault_exempt++;
    rc = call(thread, attr);
    fault_exempt--;
    return rc;
}
