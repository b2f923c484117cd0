/* SPDX-License-Identifier: MIT */
#include "life.h"
#include "lib/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK       '\x1f' /* no label of an application has it */
#define MARK_SIZE  18     /* with 16 hex digits and a NUL */
#define FIRST_BYTE (INT64_C(1) << 62)
#define BYTE_MASK  ((UINT64_C(1) << 61) - 1)
#define LEAST_FD   10 /* scripts use the numbers below */

struct sqlite_life_file {
    struct sqlite_life_file *next; /* of the shared ones */
    uint64_t device, inode;
    int fd; /* -1: in a forked child */
    unsigned refs;
    bool inherited; /* by programs, and so of one attempt */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sqlite_life_file *shared; /* guarded by mutex, and so is the next line */
static unsigned lives;
static bool is_ready;

static void before_fork(void)
{
    (void)pthread_mutex_lock(&mutex);
}

static void after_fork(void)
{
    (void)pthread_mutex_unlock(&mutex);
}

/* The parent's locks must not last until the child ends. */
static void after_fork_in_child(void)
{
    for (struct sqlite_life_file *life = shared; life != NULL; life = life->next) {
        (void)close(life->fd);
        life->fd = -1;
    }
    shared = NULL;
    lives = 0;
    (void)pthread_mutex_unlock(&mutex);
}

static void prepare(void)
{
    is_ready = pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0;
}

static bool byte_lock(int fd, int command, short type, const unsigned char *token,
                      struct flock *lock)
{
    uint64_t byte = 0;

    memcpy(&byte, token, sizeof byte);
    *lock = (struct flock){
        .l_type = type,
        .l_whence = SEEK_SET,
        .l_start = (off_t)(FIRST_BYTE + (int64_t)(byte & BYTE_MASK)),
        .l_len = 1,
    };
    return fcntl(fd, command, lock) == 0;
}

/* A description of its own of the wake file that the session has mapped; -1: not possible. */
static int descriptor_open(const struct sqlite_wake_file *file, const struct sqlite_config *config,
                           bool inherited)
{
    char *path = sqlite_config_sibling(config, SQ_WAKE_SUFFIX);
    int first = path != NULL ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    int fd = first;
    struct stat st;

    free(path);
    if (first < 0)
        return -1;
    if (fstat(first, &st) != 0 || st.st_ino != file->inode || st.st_dev != file->device)
        fd = -1;
    else if (inherited)
        fd = fcntl(first, F_DUPFD, LEAST_FD);
    if (fd != first)
        (void)close(first);
    return fd;
}

static bool is_of(const struct sqlite_life_file *life, const struct sqlite_wake_file *file)
{
    return life->inode == file->inode && life->device == file->device;
}

static struct sqlite_life_file *shared_find(const struct sqlite_wake_file *file)
{
    struct sqlite_life_file *life = shared;

    while (life != NULL && !is_of(life, file))
        life = life->next;
    return life;
}

/* A life with a reference. NULL: not possible. */
static struct sqlite_life_file *life_ref(const struct sqlite_wake_file *file,
                                         const struct sqlite_config *config, bool inherited)
{
    struct sqlite_life_file *life = inherited ? NULL : shared_find(file);

    if (life == NULL) {
        life = calloc(1, sizeof *life);
        if (life == NULL)
            return NULL;
        life->fd = descriptor_open(file, config, inherited);
        if (life->fd < 0) {
            free(life);
            return NULL;
        }
        life->device = file->device;
        life->inode = file->inode;
        life->inherited = inherited;
        if (!inherited) {
            life->next = shared;
            shared = life;
        }
    }
    life->refs++;
    return life;
}

static void life_unref(struct sqlite_life_file *life)
{
    struct sqlite_life_file **at = &shared;

    if (--life->refs > 0)
        return;
    while (*at != NULL && *at != life)
        at = &(*at)->next;
    if (*at != NULL)
        *at = life->next;
    (void)close(life->fd);
    free(life);
}

static void keep(struct sqlite_life_file **kept, struct sqlite_life_file *life)
{
    if (life->inherited || *kept == life)
        return;
    if (*kept != NULL)
        life_unref(*kept);
    life->refs++;
    *kept = life;
}

struct sqlite_life_file *sqlite_life_begin(const struct sqlite_wake_file *file,
                                           const struct sqlite_config *config,
                                           const struct dlock_request *req,
                                           struct sqlite_life_file **kept)
{
    struct sqlite_life_file *life = NULL;
    struct flock lock;

    if (file->map == NULL || req->end == DLOCK_END_TTL)
        return NULL;
    (void)pthread_once(&once, prepare);
    (void)pthread_mutex_lock(&mutex);
    if (is_ready && lives < SQ_LIVES_MOST)
        life = life_ref(file, config, req->end == DLOCK_END_PROGRAMS);
    if (life != NULL && !byte_lock(life->fd, F_OFD_SETLK, F_WRLCK, req->token, &lock)) {
        life_unref(life);
        life = NULL;
    }
    if (life != NULL) {
        lives++;
        keep(kept, life);
    }
    (void)pthread_mutex_unlock(&mutex);
    return life;
}

void sqlite_life_end(struct sqlite_life_file *life, const unsigned char *token)
{
    struct flock lock;

    if (life == NULL)
        return;
    (void)pthread_mutex_lock(&mutex);
    if (life->fd >= 0) {
        (void)byte_lock(life->fd, F_OFD_SETLK, F_UNLCK, token, &lock);
        lives--;
        life_unref(life);
    }
    (void)pthread_mutex_unlock(&mutex);
}

void sqlite_life_keep_no_longer(struct sqlite_life_file *kept)
{
    if (kept == NULL)
        return;
    (void)pthread_mutex_lock(&mutex);
    life_unref(kept);
    (void)pthread_mutex_unlock(&mutex);
}

/* Adds a mark to the text, which leaves room for it, unless life is NULL. */
static void mark_add(char text[SQ_LABEL_SIZE], const struct sqlite_life_file *life)
{
    if (life != NULL)
        (void)snprintf(text + strlen(text), MARK_SIZE, "%c%016" PRIx64, MARK, life->inode);
}

bool sqlite_life_is_over(const struct sqlite_wake_file *file, const char *label,
                         const unsigned char *token)
{
    const char *mark = label != NULL ? strchr(label, MARK) : NULL;
    char wanted[MARK_SIZE];
    struct flock lock;

    if (mark == NULL || file->map == NULL)
        return false;
    (void)snprintf(wanted, sizeof wanted, "%c%016" PRIx64, MARK, file->inode);
    return strcmp(mark, wanted) == 0 && byte_lock(file->fd, F_OFD_GETLK, F_WRLCK, token, &lock) &&
           lock.l_type == F_UNLCK;
}

#define DATA_EDGE '\x1e'     /* before the data and behind them */
#define ENDS      "\x1e\x1f" /* no label of an application has them */

void sqlite_life_label(char text[SQ_LABEL_SIZE], const struct dlock_request *req,
                       const struct sqlite_life_file *life)
{
    size_t len = req->label != NULL ? strnlen(req->label, SQ_LABEL_MAX) : 0;
    uint32_t data_len = req->data_len;

    if (len > 0)
        memcpy(text, req->label, len);
    text[len] = '\0';
    if (data_len > 0 && data_len <= DLOCK_DATA_MAX) {
        text[len++] = DATA_EDGE;
        dl_hex_encode(text + len, req->data, data_len);
        len += 2 * (size_t)data_len;
        text[len++] = DATA_EDGE;
        text[len] = '\0';
    }
    mark_add(text, life);
}

size_t sqlite_life_label_len(const char *text)
{
    return strcspn(text, ENDS);
}

uint32_t sqlite_life_label_data(unsigned char data[DLOCK_DATA_MAX], const char *text)
{
    const char *hex = text + sqlite_life_label_len(text);
    size_t len;

    if (*hex++ != DATA_EDGE)
        return 0;
    len = strcspn(hex, ENDS);
    if (hex[len] != DATA_EDGE || len % 2 != 0 || len > 2 * (size_t)DLOCK_DATA_MAX)
        return 0;
    for (size_t i = 0; i < len; i += 2) {
        int byte = dl_hex_byte(hex + i);

        if (byte < 0)
            return 0;
        data[i / 2] = (unsigned char)byte;
    }
    return (uint32_t)(len / 2);
}
