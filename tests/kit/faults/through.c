/* SPDX-License-Identifier: MIT */
#include "through.h"

#include <libgen.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *dlt_through_address(const char *where, char *out, size_t size)
{
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    const char *colon = strrchr(where, ':');
    struct addrinfo *found = NULL;
    char host[256], numeric[64];
    int rc;

    if (colon == NULL || (size_t)(colon - where) >= sizeof host)
        return "--proxy wants HOST:PORT";
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - where), where);
    rc = getaddrinfo(host, colon + 1, &hints, &found);
    if (rc == 0)
        rc = getnameinfo(found->ai_addr, found->ai_addrlen, numeric, sizeof numeric, NULL, 0,
                         NI_NUMERICHOST);
    if (found != NULL)
        freeaddrinfo(found);
    if (rc != 0)
        return gai_strerror(rc);
    (void)snprintf(out, size, "%s%s", numeric, colon);
    return NULL;
}

void dlt_through_uri(const char *uri, const char *where, unsigned port, char *out, size_t size)
{
    bool local = strncmp(where, "localhost:", 10) == 0;
    const char *at = strstr(uri, where);

    (void)snprintf(out, size, "%.*s%s:%u%s", (int)(at - uri), uri,
                   local ? "localhost" : "127.0.0.1", port, at + strlen(where));
}

const char *dlt_through_program(char *out, size_t size)
{
    char own[4096] = "";

    if (readlink("/proc/self/exe", own, sizeof own - 1) <= 0)
        return NULL;
    (void)snprintf(out, size, "%s/dlock-faultproxy", dirname(own));
    return out;
}
