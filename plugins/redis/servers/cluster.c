/* SPDX-License-Identifier: MIT */
#include "redis/servers/cluster.h"
#include "lib/time.h"
#include "redis/link/connection.h"
#include "resp/error.h"
#include "resp/reply.h"

#include <stdlib.h>
#include <string.h>

/* ---- which server has which slots, as one of them says ---- */

#define ANSWER_MAX_BYTES ((size_t)16 * 1024 * 1024) /* each slot by itself, with two replicas */

/* ---- the answer ---- */

/* A server: [host, port, id, ...]. No host: that of the server that was asked. */
static bool server_read(struct address *out, const redisReply *reply, const struct address *asked)
{
    const char *host = NULL;
    int64_t port = 0;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        !resp_reply_int(reply, 1, 1, UINT16_MAX, &port))
        return false;
    host = reply->element[0]->type == REDIS_REPLY_STRING ? reply->element[0]->str : "";
    if (*host == '\0')
        host = asked->host;
    if (strlen(host) > ADDRESS_HOST_MAX)
        return false;
    (void)snprintf(out->host, sizeof out->host, "%s", host);
    out->port = (uint16_t)port;
    return true;
}

/* The index of a master, which is added. REDIS_NOBODY: too many. */
static unsigned master_add(struct redis_topology *topology, const struct address *master)
{
    for (unsigned i = 0; i < topology->count; i++)
        if (topology->masters[i].port == master->port &&
            strcmp(topology->masters[i].host, master->host) == 0)
            return i;
    if (topology->count == REDIS_MASTERS_MOST)
        return REDIS_NOBODY;
    topology->masters[topology->count] = *master;
    return topology->count++;
}

/* [first, last, master, replicas...] */
static bool range_read(struct redis_topology *topology, const redisReply *range,
                       const struct address *asked)
{
    struct address master;
    int64_t first = 0, last = 0;
    unsigned index = REDIS_NOBODY;

    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
        !resp_reply_int(range, 0, 0, REDIS_SLOTS - 1, &first) ||
        !resp_reply_int(range, 1, first, REDIS_SLOTS - 1, &last) ||
        !server_read(&master, range->element[2], asked))
        return false;
    index = master_add(topology, &master);
    memset(topology->owners + first, (int)index, (size_t)(last - first) + 1);
    return index != REDIS_NOBODY;
}

bool redis_cluster_topology_read(struct redis_topology *topology, const redisReply *reply,
                                 const struct address *asked)
{
    topology->count = 0;
    memset(topology->owners, (int)REDIS_NOBODY, sizeof topology->owners);
    if (reply->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->elements; i++)
        if (!range_read(topology, reply->element[i], asked))
            return false;
    return true;
}

/* ---- asking ---- */

static enum dlock_status no_cluster(const struct resp_config *config, const redisReply *reply,
                                    struct dlock_error *err)
{
    enum dlock_status status = resp_error_take(config, reply, err);

    return status == DLOCK_UNKNOWN ? (err->status = DLOCK_CONFIG) : status;
}

static enum dlock_status topology_ask(struct redis_topology *topology,
                                      const struct redis_connect_args *args, int64_t deadline_ns,
                                      struct dlock_error *err)
{
    static const char command[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
    struct redis_connection connection = {.config = NULL};
    redisReply *reply = NULL;
    enum dlock_status status = redis_connection_open(&connection, args, deadline_ns, NULL, err);

    connection.reader.reply_max = ANSWER_MAX_BYTES;
    connection.reader.elements_max = REDIS_SLOTS;
    if (status == DLOCK_OK)
        status = redis_connection_send(&connection, command, sizeof command - 1, deadline_ns, err);
    if (status == DLOCK_OK)
        status = redis_connection_read(&connection, deadline_ns, &reply, err);
    if (status == DLOCK_UNKNOWN) /* the question changes nothing */
        status = err->status = DLOCK_UNAVAILABLE;
    if (status == DLOCK_OK && reply->type == REDIS_REPLY_ERROR)
        status = no_cluster(args->config, reply, err);
    else if (status == DLOCK_OK &&
             !redis_cluster_topology_read(topology, reply, &args->config->address))
        status = resp_error_fail(args->config, err, DLOCK_PROTOCOL,
                                 "the answer to CLUSTER SLOTS makes no sense");
    freeReplyObject(reply);
    redis_connection_close(&connection);
    return status;
}

/* ---- the masters, and their pools ---- */

#define PAUSE_NS (100 * DL_NS_PER_MS) /* between two readings of the map, at least */

struct redis_cluster {
    void *session;
    const struct dlock_host *host;
    const struct resp_config *config;
    const struct tls *tls;
    const struct address *hosts; /* of the URI */
    unsigned host_count;
    int64_t sockets;

    pthread_mutex_t mutex; /* guards the rest; a leaf, as long as nothing is asked */
    struct redis_shard *shards[REDIS_MASTERS_MOST];
    unsigned count;
    unsigned char owners[REDIS_SLOTS]; /* an index of shards, or REDIS_NOBODY */
    bool has_slots[REDIS_MASTERS_MOST];
    uint64_t caps; /* announced; 0: nothing yet */
    bool suspect, reading;
    int64_t next_ns;    /* the next reading, not before */
    unsigned next_host; /* where the next reading begins */
};

struct redis_cluster *redis_cluster_new(void *session, const struct dlock_host *host,
                                        const struct resp_config *config, const struct tls *tls,
                                        const struct address *hosts, unsigned host_count,
                                        int64_t sockets)
{
    struct redis_cluster *cluster = calloc(1, sizeof *cluster);

    if (cluster == NULL)
        return NULL;
    cluster->session = session;
    cluster->host = host;
    cluster->config = config;
    cluster->tls = tls;
    cluster->hosts = hosts;
    cluster->host_count = host_count;
    cluster->sockets = sockets;
    memset(cluster->owners, (int)REDIS_NOBODY, sizeof cluster->owners);
    (void)pthread_mutex_init(&cluster->mutex, NULL);
    return cluster;
}

void redis_cluster_free(struct redis_cluster *cluster)
{
    if (cluster == NULL)
        return;
    for (unsigned i = 0; i < cluster->count; i++) {
        redis_pool_fini(&cluster->shards[i]->pool);
        free(cluster->shards[i]);
    }
    (void)pthread_mutex_destroy(&cluster->mutex);
    free(cluster);
}

void redis_cluster_after_fork(struct redis_cluster *cluster)
{
    for (unsigned i = 0; cluster != NULL && i < cluster->count; i++)
        redis_pool_after_fork(&cluster->shards[i]->pool);
}

static int64_t now(const struct redis_cluster *cluster)
{
    return cluster->host->now_ns(cluster->host->ctx);
}

/* ---- servers; with the mutex ---- */

static void config_at(struct resp_config *out, const struct redis_cluster *cluster,
                      const struct address *address)
{
    *out = *cluster->config;
    out->address = *address;
    address_format(address, out->endpoint, sizeof out->endpoint);
}

/* Room for one more server: new, or that of one without slots and users. The index; REDIS_NOBODY.
 */
static unsigned room_find_locked(struct redis_cluster *cluster)
{
    if (cluster->count < REDIS_MASTERS_MOST) {
        cluster->shards[cluster->count] = calloc(1, sizeof *cluster->shards[0]);
        return cluster->shards[cluster->count] != NULL ? cluster->count++ : REDIS_NOBODY;
    }
    for (unsigned i = 0; i < cluster->count; i++) {
        struct redis_shard *shard = cluster->shards[i];

        if (cluster->has_slots[i] || shard->users > 0)
            continue;
        redis_pool_fini(&shard->pool);
        memset(shard, 0, sizeof *shard);
        return i;
    }
    return REDIS_NOBODY;
}

/* The index of the server at this address, which is added; REDIS_NOBODY: no memory, or too many. */
static unsigned shard_add_locked(struct redis_cluster *cluster, const struct address *address)
{
    struct redis_shard *shard = NULL;
    unsigned index = REDIS_NOBODY;

    for (unsigned i = 0; i < cluster->count; i++)
        if (cluster->shards[i]->config.address.port == address->port &&
            strcmp(cluster->shards[i]->config.address.host, address->host) == 0)
            return i;
    index = room_find_locked(cluster);
    if (index == REDIS_NOBODY)
        return REDIS_NOBODY;
    shard = cluster->shards[index];
    config_at(&shard->config, cluster, address);
    redis_pool_init(&shard->pool, cluster->session, cluster->host, &shard->config, cluster->tls,
                    cluster->sockets);
    if (cluster->caps != 0)
        atomic_store(&shard->pool.caps, cluster->caps);
    return index;
}

void redis_cluster_announce(struct redis_cluster *cluster, uint64_t caps)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    cluster->caps = caps;
    for (unsigned i = 0; i < cluster->count; i++)
        atomic_store(&cluster->shards[i]->pool.caps, caps);
    (void)pthread_mutex_unlock(&cluster->mutex);
}

static struct redis_shard *shard_use_locked(struct redis_cluster *cluster, unsigned index)
{
    if (index == REDIS_NOBODY)
        return NULL;
    cluster->shards[index]->users++;
    return cluster->shards[index];
}

struct redis_shard *redis_cluster_shard_at(struct redis_cluster *cluster,
                                           const struct address *address)
{
    struct redis_shard *shard = NULL;

    (void)pthread_mutex_lock(&cluster->mutex);
    shard = shard_use_locked(cluster, shard_add_locked(cluster, address));
    (void)pthread_mutex_unlock(&cluster->mutex);
    return shard;
}

void redis_cluster_put(struct redis_cluster *cluster, struct redis_shard *shard)
{
    if (shard == NULL)
        return;
    (void)pthread_mutex_lock(&cluster->mutex);
    shard->users--;
    (void)pthread_mutex_unlock(&cluster->mutex);
}

/* ---- the map ---- */

static void topology_take_locked(struct redis_cluster *cluster,
                                 const struct redis_topology *topology)
{
    unsigned char index_of[REDIS_MASTERS_MOST + 6];

    memset(index_of, (int)REDIS_NOBODY, sizeof index_of);
    memset(cluster->has_slots, 0, sizeof cluster->has_slots);
    for (unsigned i = 0; i < topology->count; i++) {
        index_of[i] = (unsigned char)shard_add_locked(cluster, &topology->masters[i]);
        if (index_of[i] != REDIS_NOBODY)
            cluster->has_slots[index_of[i]] = true;
    }
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        cluster->owners[slot] = index_of[topology->owners[slot]];
}

/* The i-th server that may be asked for the map: those that have slots, then those of the URI. */
static bool candidate(struct redis_cluster *cluster, unsigned i, struct address *out)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    for (unsigned k = 0; k < cluster->count; k++) {
        if (cluster->has_slots[k] && i-- == 0) {
            *out = cluster->shards[k]->config.address;
            (void)pthread_mutex_unlock(&cluster->mutex);
            return true;
        }
    }
    (void)pthread_mutex_unlock(&cluster->mutex);
    if (i < cluster->host_count)
        *out = cluster->hosts[i];
    return i < cluster->host_count;
}

/* Each server has an equal share of the time. */
static enum dlock_status ask_all(struct redis_cluster *cluster, struct redis_topology *topology,
                                 int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_UNAVAILABLE;
    struct address address;
    unsigned count = 0, first = 0;

    while (candidate(cluster, count, &address))
        count++;
    first = cluster->next_host++;
    for (unsigned i = 0; i < count && status != DLOCK_OK; i++) {
        int64_t now_ns = now(cluster);
        struct resp_config config;
        const struct redis_connect_args args = {
            .config = &config, .tls = cluster->tls, .host = cluster->host};

        if (!candidate(cluster, (first + i) % count, &address))
            continue;
        config_at(&config, cluster, &address);
        status = topology_ask(topology, &args,
                              now_ns + (deadline_ns - now_ns) / (int64_t)(count - i), err);
    }
    return status;
}

/* True: this thread reads the map now. */
static bool reading_begin(struct redis_cluster *cluster, bool wanted)
{
    bool begins = false;

    (void)pthread_mutex_lock(&cluster->mutex);
    begins =
        !cluster->reading && (wanted || (cluster->suspect && now(cluster) >= cluster->next_ns));
    if (begins) {
        cluster->reading = true;
        cluster->suspect = false;
    }
    (void)pthread_mutex_unlock(&cluster->mutex);
    return begins;
}

static void reading_end(struct redis_cluster *cluster, const struct redis_topology *topology)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    if (topology != NULL)
        topology_take_locked(cluster, topology);
    else
        cluster->suspect = true;
    cluster->next_ns = now(cluster) + PAUSE_NS;
    cluster->reading = false;
    (void)pthread_mutex_unlock(&cluster->mutex);
}

static enum dlock_status read_map(struct redis_cluster *cluster, int64_t deadline_ns,
                                  struct dlock_error *err)
{
    struct redis_topology *topology = calloc(1, sizeof *topology);
    enum dlock_status status = DLOCK_NOMEM;

    if (topology == NULL)
        (void)resp_error_fail(cluster->config, err, status, "no memory for the map of slots");
    else
        status = ask_all(cluster, topology, deadline_ns, err);
    if (status == DLOCK_OK && topology->count == 0)
        status = resp_error_fail(cluster->config, err, DLOCK_CONFIG,
                                 "no server of the cluster has slots");
    reading_end(cluster, status == DLOCK_OK ? topology : NULL);
    free(topology);
    return status;
}

enum dlock_status redis_cluster_read(struct redis_cluster *cluster, int64_t deadline_ns,
                                     struct dlock_error *err)
{
    return reading_begin(cluster, true) ? read_map(cluster, deadline_ns, err) : DLOCK_OK;
}

void redis_cluster_refresh(struct redis_cluster *cluster, int64_t deadline_ns)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    if (reading_begin(cluster, false))
        (void)read_map(cluster, deadline_ns, &ignored);
}

void redis_cluster_suspect(struct redis_cluster *cluster)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    cluster->suspect = true;
    (void)pthread_mutex_unlock(&cluster->mutex);
}

/* ---- who has what ---- */

unsigned redis_cluster_owner(struct redis_cluster *cluster, unsigned slot)
{
    unsigned index = REDIS_NOBODY;

    (void)pthread_mutex_lock(&cluster->mutex);
    index = cluster->owners[slot];
    (void)pthread_mutex_unlock(&cluster->mutex);
    return index;
}

bool redis_cluster_answers(struct redis_cluster *cluster, unsigned owner)
{
    bool answers = false;

    (void)pthread_mutex_lock(&cluster->mutex);
    answers = owner < cluster->count && !atomic_load(&cluster->shards[owner]->failed);
    (void)pthread_mutex_unlock(&cluster->mutex);
    return answers;
}

struct redis_shard *redis_cluster_shard(struct redis_cluster *cluster, unsigned slot)
{
    struct redis_shard *shard = NULL;

    (void)pthread_mutex_lock(&cluster->mutex);
    shard = shard_use_locked(cluster, cluster->owners[slot]);
    (void)pthread_mutex_unlock(&cluster->mutex);
    return shard;
}

void redis_cluster_moved(struct redis_cluster *cluster, unsigned slot,
                         const struct redis_shard *shard)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    for (unsigned i = 0; i < cluster->count; i++) {
        if (cluster->shards[i] == shard) {
            cluster->owners[slot] = (unsigned char)i;
            cluster->has_slots[i] = true;
        }
    }
    cluster->suspect = true; /* other slots may have moved with it */
    (void)pthread_mutex_unlock(&cluster->mutex);
}

struct redis_shard *redis_cluster_master(struct redis_cluster *cluster, unsigned i)
{
    struct redis_shard *found = NULL;

    (void)pthread_mutex_lock(&cluster->mutex);
    for (unsigned k = 0; k < cluster->count && found == NULL; k++)
        if (cluster->has_slots[k] && i-- == 0)
            found = shard_use_locked(cluster, k);
    (void)pthread_mutex_unlock(&cluster->mutex);
    return found;
}

unsigned redis_cluster_covered(struct redis_cluster *cluster)
{
    unsigned covered = 0;

    (void)pthread_mutex_lock(&cluster->mutex);
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        covered += cluster->owners[slot] != REDIS_NOBODY;
    (void)pthread_mutex_unlock(&cluster->mutex);
    return covered;
}
