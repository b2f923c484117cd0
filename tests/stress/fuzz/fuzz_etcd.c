/* SPDX-License-Identifier: MIT */
/*
 * What a member of an etcd cluster says, to a Txn and a watch that are open: each call ends, and
 * what the plugin reads of the messages does not depend on how the bytes were cut. The first byte
 * chooses the cuts.
 */
#include "fuzz.h"
#include "rpc.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SEEN_MAX   4096
#define WATCH_MOST 64

enum { ANSWERED, EVENT, UNSENT, CUT, FOREIGN, NO_HTTP_2 };

struct fuzz_goal fuzz_goals[] = {[ANSWERED] = {"an answer", 0},
                                 [EVENT] = {"an event", 0},
                                 [UNSENT] = {"a call that was not processed", 0},
                                 [CUT] = {"a call in doubt", 0},
                                 [FOREIGN] = {"no answer to it", 0},
                                 [NO_HTTP_2] = {"no HTTP/2", 0},
                                 {NULL, 0}};

static int64_t now_ns(void *ctx)
{
    struct timespec now;

    (void)ctx;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static const struct dlock_host host = {.struct_size = sizeof host, .now_ns = now_ns};

struct scene {
    int server;
    struct etcd_channel *channel;
    struct etcd_wait wait;
    struct etcd_rpc txn, watch;
};

static void scene_open(struct scene *scene)
{
    Pb__TxnRequest txn = PB__TXN_REQUEST__INIT;
    Pb__WatchRequest watch = PB__WATCH_REQUEST__INIT;
    struct stream stream;
    int ends[2];

    memset(scene, 0, sizeof *scene);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no sockets");
    FUZZ_CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0, "no flags");
    stream_init(&stream, &host);
    stream.fd = ends[0];
    scene->server = ends[1];
    scene->channel = etcd_channel_new(&stream, "127.0.0.1:2379");
    FUZZ_CHECK(scene->channel != NULL, "no channel");
    etcd_rpc_init(&scene->txn, ETCD_TXN, 1);
    etcd_rpc_init(&scene->watch, ETCD_WATCH, WATCH_MOST);
    FUZZ_CHECK(etcd_rpc_add(&scene->txn, &txn.base) && etcd_rpc_add(&scene->watch, &watch.base),
               "no memory");
    etcd_channel_join(scene->channel, &scene->wait);
    FUZZ_CHECK(etcd_channel_begin(&scene->wait, &scene->txn.call) &&
                   etcd_channel_begin(&scene->wait, &scene->watch.call),
               "not begun");
    etcd_channel_flush(&scene->wait);
}

static void scene_close(struct scene *scene)
{
    etcd_channel_leave(&scene->wait);
    etcd_channel_free(scene->channel);
    (void)close(scene->server);
    etcd_rpc_fini(&scene->txn);
    etcd_rpc_fini(&scene->watch);
}

/* What arrived, as a text. */
static void see(const struct etcd_rpc *rpc, char *seen)
{
    size_t used = strlen(seen);

    (void)snprintf(seen + used, SEEN_MAX - used, "[%d %d %zu %lld]", (int)rpc->call.end,
                   rpc->call.grpc_status, atomic_load(&rpc->count),
                   (long long)etcd_rpc_revision(rpc));
    fuzz_goals[ANSWERED].reached += rpc->call.end == ETCD_ANSWERED && rpc->call.grpc_status == 0;
    fuzz_goals[UNSENT].reached += rpc->call.end == ETCD_UNSENT;
    fuzz_goals[CUT].reached += rpc->call.end == ETCD_CUT;
    fuzz_goals[FOREIGN].reached += rpc->call.end == ETCD_FOREIGN;
    FUZZ_CHECK(rpc->call.end != ETCD_OPEN, "a call did not end");
    FUZZ_CHECK(rpc->call.end == ETCD_ANSWERED || rpc->call.text[0] != '\0', "no reason given");
}

static void see_events(const struct etcd_rpc *watch, char *seen)
{
    for (size_t i = 0; i < atomic_load(&watch->count); i++) {
        const Pb__WatchResponse *answer = (const Pb__WatchResponse *)etcd_rpc_answer(watch, i);
        size_t used = strlen(seen);

        fuzz_goals[EVENT].reached += answer->n_events;
        (void)snprintf(seen + used, SEEN_MAX - used, "(%d %zu)", answer->created, answer->n_events);
    }
}

static void feed(const uint8_t *bytes, size_t size, unsigned cut, char *seen)
{
    struct scene scene;

    seen[0] = '\0';
    scene_open(&scene);
    for (size_t at = 0; at < size;) {
        size_t len = cut == 0 || size - at < cut ? size - at : cut;

        if (send(scene.server, bytes + at, len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)len)
            break;
        at += len;
        if (cut != 0)
            (void)etcd_channel_await(&scene.wait, now_ns(NULL) + 200000);
    }
    (void)shutdown(scene.server, SHUT_WR);
    while (etcd_channel_await(&scene.wait, now_ns(NULL) + INT64_C(5000000000)))
        continue;
    fuzz_goals[NO_HTTP_2].reached += etcd_channel_failed(scene.channel) == STREAM_FOREIGN;
    see(&scene.txn, seen);
    see(&scene.watch, seen);
    see_events(&scene.watch, seen);
    scene_close(&scene);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static char whole[SEEN_MAX], parts[SEEN_MAX];
    struct fuzz_input input = {bytes, size};
    unsigned cut = fuzz_byte(&input) % 40;

    if (input.left > 1 << 15)
        return 0;
    feed(input.at, input.left, 0, whole);
    if (cut != 0 && input.left / cut < 200) {
        feed(input.at, input.left, cut, parts);
        FUZZ_CHECK(strcmp(whole, parts) == 0, "%s, and in parts %s", whole, parts);
    }
    return 0;
}
