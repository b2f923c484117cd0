/* SPDX-License-Identifier: MIT */
#include "names.h"
#include "net/resolve.h"

#include <stdio.h>
#include <string.h>

#define NUMBER_MOST 64

void zk_names_begin(struct zk_names *names, const struct zk_config *config)
{
    *names = (struct zk_names){.config = config};
    for (size_t i = 0; i < config->count; i++) {
        const struct address *server = &config->servers[i];
        struct zk_lookup *lookup = &names->lookups[i];

        lookup->result = resolve_number(server->host, server->port, &lookup->list);
        if (lookup->result == 0)
            continue;
        lookup->result = EAI_AGAIN;
        lookup->job = resolve_begin(server->host, server->port);
    }
}

bool zk_names_done(struct zk_names *names, size_t server)
{
    struct zk_lookup *lookup = &names->lookups[server];

    if (lookup->job != NULL && resolve_poll(lookup->job, &lookup->result, &lookup->list))
        lookup->job = NULL;
    return lookup->job == NULL;
}

void zk_names_end(struct zk_names *names)
{
    for (size_t i = 0; i < ZK_SERVERS_MAX; i++) {
        resolve_abandon(names->lookups[i].job);
        if (names->lookups[i].list != NULL)
            freeaddrinfo(names->lookups[i].list);
    }
    *names = (struct zk_names){.config = names->config};
}

/* ---- the list for the library ---- */

static bool hosts_have(const char *hosts, const char *text, size_t len)
{
    for (const char *at = hosts; *at != '\0'; at += at[0] == ',') {
        const size_t size = strcspn(at, ",");

        if (size == len && memcmp(at, text, len) == 0)
            return true;
        at += size;
    }
    return false;
}

static void text_add(char *hosts, const char *text, size_t len)
{
    const size_t used = strlen(hosts);

    if (len == 0 || hosts_have(hosts, text, len) || used + 1 + len >= ZK_HOSTS_SIZE)
        return;
    (void)snprintf(hosts + used, ZK_HOSTS_SIZE - used, "%s%.*s", used > 0 ? "," : "", (int)len,
                   text);
}

static void address_add(char *hosts, const struct addrinfo *to)
{
    char host[NUMBER_MOST], service[8], text[NUMBER_MOST + 16];

    if (getnameinfo(to->ai_addr, to->ai_addrlen, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    (void)snprintf(text, sizeof text, "%s:%s", host, service);
    text_add(hosts, text, strlen(text));
}

/* The library goes on by two addresses after each failure. Of an even number it would try half. */
static void number_make_odd(char *hosts)
{
    const size_t used = strlen(hosts), first = strcspn(hosts, ",");
    bool odd = true;

    for (const char *at = strchr(hosts, ','); at != NULL; at = strchr(at + 1, ','))
        odd = !odd;
    if (odd || used + 1 + first >= ZK_HOSTS_SIZE)
        return;
    hosts[used] = ',';
    memmove(hosts + used + 1, hosts, first);
    hosts[used + 1 + first] = '\0';
}

void zk_names_write(const struct zk_names *names, const char *before, char out[ZK_HOSTS_SIZE])
{
    bool all = true;

    out[0] = '\0';
    for (size_t i = 0; i < names->config->count; i++) {
        all = all && names->lookups[i].list != NULL;
        for (const struct addrinfo *at = names->lookups[i].list; at != NULL; at = at->ai_next)
            address_add(out, at);
    }
    for (const char *at = before; !all && *at != '\0'; at += at[0] == ',') {
        const size_t len = strcspn(at, ",");

        text_add(out, at, len);
        at += len;
    }
    number_make_odd(out);
}
