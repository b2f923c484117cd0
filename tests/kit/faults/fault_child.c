/* SPDX-License-Identifier: MIT */
/*
 * The program under the shim in test_fault. A line of its input names a function; it calls it once,
 * on things that work, and answers with the result and errno: "-1 EIO", "4 0".
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static int file, other, pair[2]; /* an open file of zeros, one more descriptor, two sockets */
static char bytes[8];

static long of_pointer(void *got)
{
    long result = got == NULL ? -1 : 0;

    free(got);
    return result;
}

static long of_fd(int fd)
{
    if (fd < 0)
        return -1;
    (void)close(fd);
    return 0;
}

/* Calls that the compiler could see through go by volatile pointers. */
static long do_malloc(void)
{
    void *(*volatile fn)(size_t) = malloc;

    return of_pointer(fn(8));
}

static long do_calloc(void)
{
    void *(*volatile fn)(size_t, size_t) = calloc;

    return of_pointer(fn(1, 8));
}

static long do_realloc(void)
{
    void *(*volatile fn)(void *, size_t) = realloc;

    return of_pointer(fn(NULL, 8));
}

static long do_reallocarray(void)
{
    void *(*volatile fn)(void *, size_t, size_t) = reallocarray;

    return of_pointer(fn(NULL, 2, 8));
}

static long do_open(void)
{
    return of_fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

static long do_openat(void)
{
    return of_fd(openat(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC));
}

static long do_read(void)
{
    return read(file, bytes, 8);
}

static long do_write(void)
{
    return write(other, bytes, 8);
}

static long do_pread(void)
{
    return pread(file, bytes, 8, 0);
}

static long do_pwrite(void)
{
    return pwrite(other, bytes, 8, 0);
}

static long do_fsync(void)
{
    return fsync(file);
}

static long do_fdatasync(void)
{
    return fdatasync(file);
}

static long do_ftruncate(void)
{
    return ftruncate(file, 4096);
}

static long do_posix_fallocate(void)
{
    return posix_fallocate(file, 0, 4096);
}

static long do_fcntl(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(file, F_SETLK, &lock);
}

static long do_fcntl_getfd(void)
{
    return fcntl(file, F_GETFD) < 0 ? -1 : 0;
}

static long do_mmap(void)
{
    void *got = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return got == MAP_FAILED ? -1 : munmap(got, 4096);
}

static long do_getrandom(void)
{
    return getrandom(bytes, 8, 0);
}

static long do_socket(void)
{
    return of_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

/* There is nobody: ECONNREFUSED when it is let through. */
static long do_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0nobody.dlock"};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = connect(fd, (const struct sockaddr *)&address, sizeof address);
    int saved = errno;

    (void)close(fd);
    errno = saved;
    return rc;
}

static long do_send(void)
{
    return send(pair[0], bytes, 8, 0);
}

static long do_recv(void)
{
    (void)!write(pair[1], bytes, 8);
    return recv(pair[0], bytes, 8, 0);
}

static long do_sendmsg(void)
{
    struct iovec part[2] = {{bytes, 4}, {bytes + 4, 4}};
    struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};

    return sendmsg(pair[0], &message, 0);
}

static long do_recvmsg(void)
{
    struct iovec part[2] = {{bytes, 4}, {bytes + 4, 4}};
    struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};

    (void)!write(pair[1], bytes, 8);
    return recvmsg(pair[0], &message, 0);
}

static long do_poll(void)
{
    struct pollfd wait = {.fd = pair[0], .events = POLLOUT};

    return poll(&wait, 1, 0);
}

static long do_ppoll(void)
{
    struct pollfd wait = {.fd = pair[0], .events = POLLOUT};
    struct timespec none = {0, 0};

    return ppoll(&wait, 1, &none, NULL);
}

static long do_eventfd(void)
{
    return of_fd(eventfd(0, EFD_CLOEXEC));
}

static long do_timerfd_create(void)
{
    return of_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
}

static void *thread_run(void *arg)
{
    return arg;
}

static long do_pthread_create(void)
{
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, thread_run, NULL);

    if (rc == 0)
        (void)pthread_join(thread, NULL);
    return rc;
}

#define FUNCTION(name)   \
    {                    \
#name, do_##name \
    }

static const struct function {
    const char *name;
    long (*fn)(void);
} functions[] = {
    FUNCTION(malloc),         FUNCTION(calloc),
    FUNCTION(realloc),        FUNCTION(reallocarray),
    FUNCTION(open),           FUNCTION(openat),
    FUNCTION(read),           FUNCTION(write),
    FUNCTION(pread),          FUNCTION(pwrite),
    FUNCTION(fsync),          FUNCTION(fdatasync),
    FUNCTION(ftruncate),      FUNCTION(posix_fallocate),
    FUNCTION(fcntl),          FUNCTION(fcntl_getfd),
    FUNCTION(mmap),           FUNCTION(getrandom),
    FUNCTION(socket),         FUNCTION(connect),
    FUNCTION(send),           FUNCTION(recv),
    FUNCTION(sendmsg),        FUNCTION(recvmsg),
    FUNCTION(poll),           FUNCTION(ppoll),
    FUNCTION(eventfd),        FUNCTION(timerfd_create),
    FUNCTION(pthread_create),
};

/* Calls nothing that can fail between the line and its function. */
static long function_call(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(name, functions[i].name) == 0)
            return functions[i].fn();
    return -2;
}

int main(void)
{
    static char in[BUFSIZ], out[BUFSIZ]; /* so that reading a line allocates nothing */
    char line[64];

    (void)setvbuf(stdin, in, _IOFBF, sizeof in);
    (void)setvbuf(stdout, out, _IOFBF, sizeof out);
    file = open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    other = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (file < 0 || other < 0 || ftruncate(file, 4096) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return 1;
    (void)printf("%d\n", (int)getpid());
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        long result;

        line[strcspn(line, "\n")] = '\0';
        errno = 0;
        result = function_call(line);
        (void)printf("%ld %d\n", result, errno);
        (void)fflush(stdout);
    }
    return 0;
}
