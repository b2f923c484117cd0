/* SPDX-License-Identifier: MIT */
/* zk_word.c - what servers of ZooKeeper say of themselves, to words of four letters. */
#include "zk_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_S       1 /* of a server that runs */
#define LEADER_WAIT_MS 10000
#define LOOK_MS        10
#define STABLE_MS      200 /* what ended just now is noticed */
#define ANSWER_MAX     ((size_t)256 << 10)

static int member_connect(const struct dlt_zk_member *member)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)member->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = ANSWER_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

const char *dlt_zk_word(const struct dlt_zk_member *member, const char *word)
{
    static _Thread_local char answer[ANSWER_MAX + 1];
    int fd = member_connect(member);
    size_t len = 0;
    ssize_t got = fd >= 0 ? send(fd, word, strlen(word), MSG_NOSIGNAL) : 0;

    while (got > 0 && len < ANSWER_MAX) {
        do /* a stop ends a recv that has a time limit */
            got = recv(fd, answer + len, ANSWER_MAX - len, 0);
        while (got < 0 && errno == EINTR);
        len += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    answer[len] = '\0';
    return answer;
}

int64_t dlt_zk_number(const struct dlt_zk_member *member, const char *name)
{
    const char *line = dlt_zk_word(member, "mntr");
    size_t len = strlen(name);

    while (line != NULL && *line != '\0') {
        if (strncmp(line, name, len) == 0 && line[len] == '\t')
            return strtoll(line + len, NULL, 10);
        line = strchr(line, '\n');
        line += line != NULL;
    }
    return -1;
}

/* What a server says of itself. */
struct mode {
    bool serves, leads;
    uint64_t zxid; /* begins with the number of its leader's election */
};

static struct mode mode_read(const struct dlt_zk_member *member)
{
    const char *answer = dlt_zk_word(member, "srvr"), *at = strstr(answer, "Mode: ");
    struct mode mode = {.serves = at != NULL};

    mode.leads = at != NULL && (strncmp(at, "Mode: leader", strlen("Mode: leader")) == 0 ||
                                strncmp(at, "Mode: standalone", strlen("Mode: standalone")) == 0);
    at = strstr(answer, "Zxid: ");
    if (at != NULL)
        mode.zxid = strtoull(at + strlen("Zxid: "), NULL, 16);
    return mode;
}

bool dlt_zk_serves(const struct dlt_zk_member *member)
{
    return mode_read(member).serves;
}

static bool runs(const struct dlt_zk *server, unsigned member)
{
    return (server->members[member].pid > 0 || server->borrowed) && !server->members[member].paused;
}

/* One that was paused does not know at once that another was elected. */
int dlt_zk_leader(const struct dlt_zk *server)
{
    uint64_t newest = 0;
    int leader = -1;

    for (unsigned i = 0; i < server->count; i++) {
        struct mode mode = runs(server, i) ? mode_read(&server->members[i]) : (struct mode){0};

        if (mode.leads && (leader < 0 || mode.zxid > newest)) {
            leader = (int)i;
            newest = mode.zxid;
        }
    }
    return leader;
}

static bool has_leader(const struct dlt_zk *server)
{
    return dlt_zk_leader(server) >= 0;
}

static bool all_serve(const struct dlt_zk *server)
{
    unsigned leaders = 0;
    bool serve = true;

    for (unsigned i = 0; serve && i < server->count; i++) {
        struct mode mode =
            runs(server, i) ? mode_read(&server->members[i]) : (struct mode){.serves = true};

        serve = mode.serves;
        leaders += mode.leads;
    }
    return serve && leaders == 1;
}

bool dlt_zk_has_quorum(const struct dlt_zk *server)
{
    unsigned serving = 0, leaders = 0;

    for (unsigned i = 0; i < server->count; i++) {
        struct mode mode = runs(server, i) ? mode_read(&server->members[i]) : (struct mode){0};

        serving += mode.serves;
        leaders += mode.leads;
    }
    return leaders > 0 && serving > server->count / 2;
}

/* The state lasts for so long. */
static bool wait_for(const struct dlt_zk *server, bool (*state)(const struct dlt_zk *server),
                     int stable_ms)
{
    int since_ms = 0;

    for (int ms = 0; ms < LEADER_WAIT_MS; ms += LOOK_MS) {
        if (!state(server))
            since_ms = ms + LOOK_MS;
        else if (ms - since_ms >= stable_ms)
            return true;
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
    }
    return false;
}

int dlt_zk_leader_wait(const struct dlt_zk *server)
{
    return wait_for(server, has_leader, 0) ? dlt_zk_leader(server) : -1;
}

bool dlt_zk_settled(const struct dlt_zk *server)
{
    return wait_for(server, all_serve, STABLE_MS);
}
