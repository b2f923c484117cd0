/* SPDX-License-Identifier: MIT */
#include "route.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUTES_MOST 16

static struct {
    in_port_t from, to;
} routes[ROUTES_MOST];
static size_t count;

static bool port_read(const char **text, char end, in_port_t *port)
{
    char *rest = NULL;
    unsigned long number = strtoul(*text, &rest, 10);
    bool right = rest != *text && number > 0 && number <= UINT16_MAX &&
                 (*rest == end || (end == ',' && *rest == '\0'));

    *port = htons((uint16_t)number);
    *text = right && *rest != '\0' ? rest + 1 : rest;
    return right;
}

bool route_read(const char *text)
{
    count = 0;
    while (text != NULL && *text != '\0') {
        if (count == ROUTES_MOST || !port_read(&text, '=', &routes[count].from) ||
            !port_read(&text, ',', &routes[count].to))
            return false;
        count++;
    }
    return true;
}

static void lead(struct sockaddr_in *address)
{
    for (size_t i = 0; i < count; i++)
        if (routes[i].from == address->sin_port) {
            address->sin_port = routes[i].to;
            return;
        }
}

__attribute__((visibility("default"))) int connect(int fd, __CONST_SOCKADDR_ARG address,
                                                   socklen_t len)
{
    const struct sockaddr *given = address.__sockaddr__;
    struct sockaddr_in led;

    if (given->sa_family != AF_INET || len != sizeof led)
        return (int)syscall(SYS_connect, fd, given, len);
    memcpy(&led, given, sizeof led);
    lead(&led);
    return (int)syscall(SYS_connect, fd, &led, sizeof led);
}
