/* SPDX-License-Identifier: MIT */
#include "net/address.h"

#include <stdio.h>
#include <string.h>

static bool port_parse(const char *text, uint16_t *out)
{
    unsigned value = 0;

    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (unsigned)(*text - '0');
        if (value > UINT16_MAX)
            return false;
    }
    *out = (uint16_t)value;
    return value != 0;
}

bool address_parse(struct address *out, const char *text, uint16_t port)
{
    bool bracket = text[0] == '[';
    const char *begin = text + (bracket ? 1 : 0);
    size_t len = strcspn(begin, bracket ? "]" : ":");
    const char *rest = begin + len;

    if (len == 0 || len > ADDRESS_HOST_MAX)
        return false;
    if (bracket) {
        if (*rest != ']')
            return false;
        rest++;
    }
    memcpy(out->host, begin, len);
    out->host[len] = '\0';
    out->port = port;
    if (*rest == '\0')
        return true;
    return *rest == ':' && port_parse(rest + 1, &out->port);
}

void address_format(const struct address *address, char *out, unsigned size)
{
    bool bracket = strchr(address->host, ':') != NULL;

    (void)snprintf(out, size, bracket ? "[%s]:%u" : "%s:%u", address->host,
                   (unsigned)address->port);
}
