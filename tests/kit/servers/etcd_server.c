/* SPDX-License-Identifier: MIT */
#include "etcd_server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AGAIN_US    300000
#define START_TRIES 5

static bool fail(struct dlt_etcd *server, const char *directory, const char *what)
{
    dlt_process_why(server->why, sizeof server->why, directory, what);
    return false;
}

void dlt_etcd_url(char url[DLT_ETCD_URL_SIZE], const struct dlt_etcd *server, unsigned port)
{
    (void)snprintf(url, DLT_ETCD_URL_SIZE, "http%s://127.0.0.1:%u",
                   server->certificate != NULL ? "s" : "", port);
}

struct words {
    const char *argv[DLT_ETCD_ARGS_MAX + 24];
    char text[2048];
    size_t count, used;
};

__attribute__((format(printf, 2, 3))) static void word_add(struct words *words, const char *format,
                                                           ...)
{
    char *word = words->text + words->used;
    va_list args;

    va_start(args, format);
    words->used +=
        (size_t)vsnprintf(word, sizeof words->text - words->used, format, args) + sizeof "";
    va_end(args);
    if (words->used >= sizeof words->text)
        abort();
    words->argv[words->count++] = word;
}

/* Members talk to each other without TLS. */
static void urls_add(struct words *words, const struct dlt_etcd *server, unsigned i)
{
    const struct dlt_etcd_member *member = &server->members[i];
    char url[DLT_ETCD_URL_SIZE], cluster[256];
    size_t used = 0;

    dlt_etcd_url(url, server, member->port);
    word_add(words, "--listen-client-urls=%s", url);
    word_add(words, "--advertise-client-urls=%s", url);
    word_add(words, "--listen-peer-urls=http://127.0.0.1:%u", member->peer_port);
    word_add(words, "--initial-advertise-peer-urls=http://127.0.0.1:%u", member->peer_port);
    word_add(words, "--listen-metrics-urls=http://127.0.0.1:%u", member->metrics_port);
    for (unsigned m = 0; m < server->count; m++)
        used += (size_t)snprintf(cluster + used, sizeof cluster - used, "%sm%u=http://127.0.0.1:%u",
                                 m > 0 ? "," : "", m + 1, server->members[m].peer_port);
    word_add(words, "--initial-cluster=%s", cluster);
    word_add(words, "--initial-cluster-token=%s", server->directory);
}

static void tls_add(struct words *words, const struct dlt_etcd *server)
{
    if (server->certificate == NULL)
        return;
    word_add(words, "--cert-file=%s/%s.pem", server->directory, server->certificate);
    word_add(words, "--key-file=%s/%s.key", server->directory, server->certificate);
    if (!server->certified)
        return;
    word_add(words, "--client-cert-auth");
    word_add(words, "--trusted-ca-file=%s/ca.pem", server->directory);
}

static bool run(struct dlt_etcd *server, unsigned i)
{
    struct dlt_etcd_member *member = &server->members[i];
    struct words words = {.count = 0};

    word_add(&words, "etcd");
    word_add(&words, "--name=m%u", i + 1);
    word_add(&words, "--data-dir=%s/data", member->directory);
    urls_add(&words, server, i);
    word_add(&words, "--heartbeat-interval=%d", server->count > 1 ? 50 : 10);
    word_add(&words, "--election-timeout=%d", server->count > 1 ? 500 : 100);
    word_add(&words, "--unsafe-no-fsync");
    word_add(&words, "--bcrypt-cost=4");
    word_add(&words, "--logger=zap");
    word_add(&words, "--log-outputs=stderr");
    word_add(&words, "--log-level=error");
    tls_add(&words, server);
    for (size_t n = 0; server->args[n] != NULL; n++)
        words.argv[words.count++] = server->args[n];
    member->paused = false;
    member->pid = dlt_process_spawn(member->directory, words.argv, NULL);
    return member->pid > 0 || fail(server, member->directory, "fork");
}

static bool answers(void *arg)
{
    return dlt_etcd_healthy(arg);
}

static bool wait(struct dlt_etcd *server, unsigned i)
{
    struct dlt_etcd_member *member = &server->members[i];

    return dlt_process_wait(&member->pid, answers, member) ||
           fail(server, member->directory, "etcd");
}

static void ports_choose(struct dlt_etcd *server)
{
    size_t used = 0;

    for (unsigned i = 0; i < server->count; i++) {
        struct dlt_etcd_member *member = &server->members[i];

        member->port = dlt_port_free();
        member->peer_port = dlt_port_free();
        member->metrics_port = dlt_port_free();
        (void)snprintf(member->address, sizeof member->address, "127.0.0.1:%u", member->port);
        used += (size_t)snprintf(server->hosts + used, sizeof server->hosts - used, "%s%s",
                                 i > 0 ? "," : "", member->address);
    }
}

void dlt_etcd_kill(struct dlt_etcd *server, unsigned member)
{
    dlt_process_kill(&server->members[member].pid);
    server->members[member].paused = false;
}

void dlt_etcd_pause(struct dlt_etcd *server, unsigned member, bool pause)
{
    dlt_process_pause(server->members[member].pid, pause);
    server->members[member].paused = pause;
}

void dlt_etcd_forget(struct dlt_etcd *server, unsigned member)
{
    char data[DLT_DIRECTORY_SIZE];

    (void)snprintf(data, sizeof data, "%.58s/data", server->members[member].directory);
    dlt_directory_remove(data);
}

static bool run_all(struct dlt_etcd *server)
{
    bool good = true;

    for (unsigned i = 0; good && i < server->count; i++)
        good = run(server, i);
    for (unsigned i = 0; good && i < server->count; i++)
        good = wait(server, i);
    for (unsigned i = 0; !good && i < server->count; i++)
        dlt_etcd_kill(server, i);
    return good;
}

static bool directories_make(struct dlt_etcd *server)
{
    if (!dlt_directory_make(server->directory, "etcd"))
        return fail(server, "", "a directory");
    for (unsigned i = 0; i < server->count; i++) {
        struct dlt_etcd_member *member = &server->members[i];

        (void)snprintf(member->directory, sizeof member->directory, "%.50s/m%u", server->directory,
                       i + 1);
        if (mkdir(member->directory, 0700) != 0)
            return fail(server, server->directory, member->directory);
    }
    return true;
}

static bool start(struct dlt_etcd *server, const char *const *args)
{
    size_t count = 0;

    for (; args != NULL && args[count] != NULL; count++) {
        if (count + 1 >= DLT_ETCD_ARGS_MAX)
            abort();
        server->args[count] = args[count];
    }
    if (!directories_make(server))
        return false;
    if (server->certificate != NULL && !dlt_certificates_make(server->directory))
        return fail(server, server->directory, "certificates");
    for (int i = 0; i < START_TRIES; i++) {
        ports_choose(server);
        if (run_all(server))
            return true;
        for (unsigned m = 0; m < server->count; m++)
            dlt_etcd_forget(server, m);
    }
    return false;
}

bool dlt_etcd_start_cluster(struct dlt_etcd *server, unsigned count, const char *const *args)
{
    if (count > DLT_ETCD_MEMBERS_MAX)
        abort();
    *server = (struct dlt_etcd){.count = count};
    return start(server, args);
}

bool dlt_etcd_start(struct dlt_etcd *server, const char *const *args)
{
    return dlt_etcd_start_cluster(server, 1, args);
}

bool dlt_etcd_start_tls(struct dlt_etcd *server, const char *certificate, bool certified,
                        const char *const *args)
{
    *server = (struct dlt_etcd){.count = 1, .certificate = certificate, .certified = certified};
    return start(server, args);
}

bool dlt_etcd_borrow(struct dlt_etcd *server)
{
    const char *port = getenv("DLT_ETCD_PORT"), *metrics = getenv("DLT_ETCD_METRICS");
    struct dlt_etcd_member *member = &server->members[0];

    if (port == NULL || metrics == NULL)
        return dlt_etcd_start(server, NULL);
    *server = (struct dlt_etcd){.count = 1, .borrowed = true};
    member->port = (unsigned)strtoul(port, NULL, 10);
    member->metrics_port = (unsigned)strtoul(metrics, NULL, 10);
    (void)snprintf(member->address, sizeof member->address, "127.0.0.1:%u", member->port);
    (void)snprintf(server->hosts, sizeof server->hosts, "%s", member->address);
    return true;
}

bool dlt_etcd_again(struct dlt_etcd *server, unsigned member)
{
    for (int i = 0; i < START_TRIES; i++) {
        if (run(server, member) && wait(server, member))
            return true;
        dlt_etcd_kill(server, member);
        (void)usleep(AGAIN_US); /* a connection of another program may have the port for a moment */
    }
    return false;
}

bool dlt_etcd_again_all(struct dlt_etcd *server)
{
    return run_all(server);
}

void dlt_etcd_stop(struct dlt_etcd *server)
{
    if (server->borrowed)
        return;
    for (unsigned i = 0; i < server->count; i++)
        dlt_etcd_kill(server, i);
    dlt_directory_remove(server->directory);
}
