/* SPDX-License-Identifier: MIT */
#include "frame.h"

#include <string.h>

bool dlt_framing_parse(const char *name, enum dlt_framing *out)
{
    static const char *const names[] = {"raw", "resp", "mysql", "postgresql", "http2", "zookeeper"};

    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum dlt_framing)i;
            return true;
        }
    }
    return false;
}

void dlt_framer_init(struct dlt_framer *framer, enum dlt_framing framing)
{
    memset(framer, 0, sizeof *framer);
    framer->framing = framing;
}

static bool parse(struct dlt_framer *framer, unsigned char byte)
{
    switch (framer->framing) {
    case DLT_FRAMING_RESP:
        return dlt_framer_resp(framer, byte);
    case DLT_FRAMING_MYSQL:
        return dlt_framer_mysql(framer, byte);
    case DLT_FRAMING_HTTP2:
        return dlt_framer_http2(framer, byte);
    case DLT_FRAMING_ZOOKEEPER:
        return dlt_framer_zookeeper(framer, byte);
    default:
        return dlt_framer_postgresql(framer, byte);
    }
}

size_t dlt_framer_feed(struct dlt_framer *framer, const unsigned char *bytes, size_t len,
                       bool *ended)
{
    size_t taken = 0;

    *ended = false;
    while (taken < len && !*ended) {
        if (framer->broken || framer->framing == DLT_FRAMING_RAW) {
            *ended = true;
            return len;
        }
        if (framer->skip > 0) {
            size_t part = len - taken;

            if (part >= framer->skip)
                part = (size_t)framer->skip - 1; /* its last byte goes to the parser */
            framer->skip -= part;
            taken += part;
            if (taken == len)
                break;
        }
        *ended = parse(framer, bytes[taken++]);
    }
    return taken;
}
