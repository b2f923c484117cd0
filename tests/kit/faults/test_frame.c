/* SPDX-License-Identifier: MIT */
/* Does a frame end where its protocol says, wherever the stream was torn apart? */
#include "frame.h"

#include <criterion/criterion.h>
#include <string.h>

#define FRAMES_MAX 32

struct ends {
    size_t count;
    size_t at[FRAMES_MAX]; /* offset after the frame's last byte */
    bool broken;
};

/* The frames of a stream that comes in pieces of `first` bytes, then `then` bytes each. */
static struct ends ends_of(enum dlt_framing framing, const void *stream, size_t len, size_t first,
                           size_t then)
{
    const unsigned char *bytes = stream;
    struct dlt_framer framer;
    struct ends ends = {.count = 0};
    size_t at = 0, piece = first;

    dlt_framer_init(&framer, framing);
    while (at < len) {
        size_t stop = piece > len - at ? len : at + piece;

        while (at < stop) {
            bool ended = false;
            size_t taken = dlt_framer_feed(&framer, bytes + at, stop - at, &ended);

            cr_assert(taken > 0 && taken <= stop - at);
            at += taken;
            if (ended && ends.count < FRAMES_MAX)
                ends.at[ends.count++] = at;
        }
        piece = then;
    }
    ends.broken = framer.broken;
    return ends;
}

static void check_ends(enum dlt_framing framing, const void *stream, size_t len,
                       const size_t *wanted, size_t count)
{
    for (size_t first = 1; first <= len; first++) {
        for (size_t then = 1; then <= len; then += then < 4 ? 1 : len) {
            struct ends ends = ends_of(framing, stream, len, first, then);

            cr_assert_not(ends.broken, "first %zu then %zu", first, then);
            cr_assert_eq(ends.count, count, "%zu frames, first %zu then %zu", ends.count, first,
                         then);
            for (size_t i = 0; i < count; i++)
                cr_assert_eq(ends.at[i], wanted[i], "frame %zu ends at %zu", i, ends.at[i]);
        }
    }
}

/* A stream made of these parts, a frame each, found again in it. */
static void check_resp(const char *const *parts, size_t count)
{
    char stream[1024];
    size_t ends[FRAMES_MAX], len = 0;

    for (size_t i = 0; i < count; i++) {
        size_t part = strlen(parts[i]);

        cr_assert_lt(len + part, sizeof stream);
        memcpy(stream + len, parts[i], part);
        len += part;
        ends[i] = len;
    }
    check_ends(DLT_FRAMING_RESP, stream, len, ends, count);
}

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

Test(frame, resp_commands)
{
    static const char *const parts[] = {
        "*1\r\n$4\r\nPING\r\n",
        "PING\r\n",
        "SET a b\n",
        "\r\n",
        "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$6\r\n\r\n*1\r\n\r\n",
        "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    };
    check_resp(parts, COUNT(parts));
}

Test(frame, resp_replies_with_what_is_nested_in_them)
{
    static const char *const parts[] = {
        "+OK\r\n",
        "-ERR no such thing\r\n",
        ":-12\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*3\r\n*2\r\n:1\r\n*0\r\n$-1\r\n*1\r\n*1\r\n+x\r\n",
        "$3\r\na\nb\r\n",
    };
    check_resp(parts, COUNT(parts));
}

Test(frame, resp3_types)
{
    static const char *const parts[] = {
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "(123456789012345678901234567890\r\n",
        "=7\r\ntxt:abc\r\n",
        "!5\r\nERR x\r\n",
        "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
        "~2\r\n:1\r\n:2\r\n",
        ">3\r\n+message\r\n+c\r\n$2\r\nhi\r\n",
        "|1\r\n+ttl\r\n:5\r\n$1\r\nx\r\n", /* the attribute and its reply are one */
    };
    check_resp(parts, COUNT(parts));
}

Test(frame, resp_that_is_none_is_raw_from_there)
{
    static const char *const bad[] = {
        "$x\r\n+OK\r\n", "*1\r\nPING\r\n", "$1\r\nabc+OK\r\n",
        "$3\rx+OK\r\n",  "$--1\r\n",       "$99999999999999999999\r\n",
    };

    for (size_t i = 0; i < COUNT(bad); i++) {
        struct ends whole = ends_of(DLT_FRAMING_RESP, bad[i], strlen(bad[i]), 99, 99);
        struct ends bytes = ends_of(DLT_FRAMING_RESP, bad[i], strlen(bad[i]), 1, 1);

        cr_assert(whole.broken, "%s", bad[i]);
        cr_assert(bytes.broken, "%s", bad[i]);
        /* Nothing is kept back: the last frame ends with the stream. */
        cr_assert_eq(whole.at[whole.count - 1], strlen(bad[i]));
        cr_assert_eq(bytes.at[bytes.count - 1], strlen(bad[i]));
    }
}

Test(frame, resp_has_a_deepest_level)
{
    struct dlt_framer framer;
    bool ended = false;

    dlt_framer_init(&framer, DLT_FRAMING_RESP);
    for (int i = 0; i < DLT_FRAME_DEPTH; i++)
        (void)dlt_framer_feed(&framer, (const unsigned char *)"*1\r\n", 4, &ended);
    cr_assert_not(framer.broken);
    (void)dlt_framer_feed(&framer, (const unsigned char *)"*1\r\n", 4, &ended);
    cr_assert(framer.broken);
    cr_assert(ended);
}

Test(frame, mysql_packets)
{
    static const unsigned char stream[] = {
        5, 0, 0, 0, 'h', 'e', 'l', 'l', 'o', /* five bytes */
        0, 0, 0, 1,                          /* none */
        1, 0, 0, 2, 0,                       /* a byte that is zero */
        2, 0, 0, 3, 5,   0,                  /* looks like a header */
    };
    static const size_t ends[] = {9, 13, 18, 24};

    check_ends(DLT_FRAMING_MYSQL, stream, sizeof stream, ends, COUNT(ends));
}

Test(frame, mysql_payload_in_several_packets_is_one_frame)
{
    static unsigned char stream[4 + 0xffffff + 4 + 3 + 4];
    const size_t whole = 4 + 0xffffff + 4 + 3;
    struct ends ends;

    memset(stream, 'x', sizeof stream);
    memcpy(stream, "\xff\xff\xff\x00", 4);
    memcpy(stream + 4 + 0xffffff, "\x03\x00\x00\x01", 4);
    memcpy(stream + whole, "\x00\x00\x00\x02", 4);
    for (size_t first = 1; first < 12; first++) {
        ends = ends_of(DLT_FRAMING_MYSQL, stream, sizeof stream, first, 65536);
        cr_assert_eq(ends.count, 2);
        cr_assert_eq(ends.at[0], whole);
        cr_assert_eq(ends.at[1], sizeof stream);
    }
}

Test(frame, postgresql_messages_of_a_client)
{
    static const unsigned char stream[] = {
        0,   0, 0, 8, 4,   210, 22, 47,    /* a request for TLS */
        0,   0, 0, 9, 0,   3,   0,  0,  0, /* the start */
        'Q', 0, 0, 0, 6,   'x', 0,         /* a statement */
        'S', 0, 0, 0, 4,                   /* nothing but a type */
        'P', 0, 0, 0, 7,   'Q', 0,  0,     /* looks like a header */
        0,   0, 0, 8, 'Q', 0,   0,  0,     /* a request to cancel */
    };
    static const size_t ends[] = {8, 17, 24, 29, 37, 45};

    check_ends(DLT_FRAMING_POSTGRESQL, stream, sizeof stream, ends, COUNT(ends));
}

Test(frame, postgresql_messages_of_a_server)
{
    static const unsigned char stream[] = {
        'N',                           /* no encryption by Kerberos */
        'N',                           /* no TLS */
        'R', 0, 0, 0, 8, 0,   0, 0, 0, /* logged in */
        'N', 0, 0, 0, 5, 0,            /* a notice */
        '1', 0, 0, 0, 4,               /* parsed */
        'S', 0, 0, 0, 6, 'a', 0,       /* a parameter */
    };
    static const size_t ends[] = {1, 2, 11, 17, 22, 29};

    check_ends(DLT_FRAMING_POSTGRESQL, stream, sizeof stream, ends, COUNT(ends));
}

Test(frame, postgresql_that_is_none_is_raw_from_there)
{
    static const struct {
        const char *text;
        size_t len;
    } bad[] = {
        {"S\x16\x03\x01", 4},           /* a server that begins TLS */
        {"\x16\x03\x01", 3},            /* a client that does */
        {"R\0\0\0\x04?\0\0\0\x04", 10}, /* no letter */
        {"R\0\0\0\x03", 5},             /* shorter than its length */
    };

    for (size_t i = 0; i < COUNT(bad); i++) {
        struct ends whole = ends_of(DLT_FRAMING_POSTGRESQL, bad[i].text, bad[i].len, 99, 99);
        struct ends bytes = ends_of(DLT_FRAMING_POSTGRESQL, bad[i].text, bad[i].len, 1, 1);

        cr_assert(whole.broken && bytes.broken, "%zu", i);
        cr_assert_eq(whole.at[whole.count - 1], bad[i].len);
        cr_assert_eq(bytes.at[bytes.count - 1], bad[i].len);
    }
}

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

Test(frame, http2_frames_of_a_client)
{
    static const char stream[] = PREFACE "\0\0\6\4\0\0\0\0\0\0\2\0\0\0\0" /* settings */
                                         "\0\0\0\4\1\0\0\0\0"             /* an empty frame */
                                         "\0\0\3\1\4\0\0\0\1PRI"          /* headers */
                                         "\0\0\11\0\1\0\0\0\1\0\0\0\4\1\0\0\0\0"; /* data */
    static const size_t ends[] = {24, 39, 48, 60, 78};

    check_ends(DLT_FRAMING_HTTP2, stream, sizeof stream - 1, ends, COUNT(ends));
}

Test(frame, http2_frames_of_a_server)
{
    static const char stream[] = "\0\0\0\4\0\0\0\0\0"          /* settings */
                                 "\0\0\4\10\0\0\0\0\0\0\0\0\1" /* a window */
                                 "\0\0\2\7\0\0\0\0\0PR";       /* the end is near */
    static const size_t ends[] = {9, 22, 33};

    check_ends(DLT_FRAMING_HTTP2, stream, sizeof stream - 1, ends, COUNT(ends));
}

Test(frame, http2_that_is_none_is_raw_from_there)
{
    static const struct {
        const char *text;
        size_t len;
    } bad[] = {
        {"\x16\x03\x01\x00\xa5\x01", 6}, /* TLS */
        {"HTTP/1.1 400 Bad\r\n", 18},
        {PREFACE "\0\0\0\1\0\0", 30}, /* no settings */
    };

    for (size_t i = 0; i < COUNT(bad); i++) {
        struct ends whole = ends_of(DLT_FRAMING_HTTP2, bad[i].text, bad[i].len, 99, 99);
        struct ends bytes = ends_of(DLT_FRAMING_HTTP2, bad[i].text, bad[i].len, 1, 1);

        cr_assert(whole.broken && bytes.broken, "%zu", i);
        cr_assert_eq(whole.at[whole.count - 1], bad[i].len);
        cr_assert_eq(bytes.at[bytes.count - 1], bad[i].len);
    }
}

Test(frame, zookeeper_packets)
{
    static const unsigned char stream[] = {
        0, 0, 0, 8, 0,   0, 0, 7, 0, 0, 0, 11, /* a ping */
        0, 0, 0, 1, 'x',                       /* the shortest */
        0, 0, 0, 0,                            /* shorter than that */
        0, 0, 0, 2, 0,   0,
    };
    static const size_t ends[] = {12, 17, 21, 27};

    check_ends(DLT_FRAMING_ZOOKEEPER, stream, sizeof stream, ends, COUNT(ends));
}

Test(frame, zookeeper_that_is_none_is_raw_from_there)
{
    static const char *const bad[] = {"ruok", "\x16\x03\x01\x02\x01", "imok\n"};

    for (size_t i = 0; i < COUNT(bad); i++) {
        size_t len = strlen(bad[i]);
        struct ends whole = ends_of(DLT_FRAMING_ZOOKEEPER, bad[i], len, 99, 99);
        struct ends bytes = ends_of(DLT_FRAMING_ZOOKEEPER, bad[i], len, 1, 1);

        cr_assert(whole.broken && bytes.broken, "%zu", i);
        cr_assert_eq(whole.at[whole.count - 1], len);
        cr_assert_eq(bytes.at[bytes.count - 1], len);
    }
}

Test(frame, raw_is_what_one_read_returned)
{
    struct ends ends = ends_of(DLT_FRAMING_RAW, "abcdefgh", 8, 3, 4);

    cr_assert_eq(ends.count, 3);
    cr_assert_eq(ends.at[0], 3);
    cr_assert_eq(ends.at[1], 7);
    cr_assert_eq(ends.at[2], 8);
}

Test(frame, framings_by_name)
{
    enum dlt_framing framing = DLT_FRAMING_RAW;

    cr_assert(dlt_framing_parse("mysql", &framing) && framing == DLT_FRAMING_MYSQL);
    cr_assert(dlt_framing_parse("postgresql", &framing) && framing == DLT_FRAMING_POSTGRESQL);
    cr_assert(dlt_framing_parse("http2", &framing) && framing == DLT_FRAMING_HTTP2);
    cr_assert(dlt_framing_parse("zookeeper", &framing) && framing == DLT_FRAMING_ZOOKEEPER);
    cr_assert(dlt_framing_parse("resp", &framing) && framing == DLT_FRAMING_RESP);
    cr_assert(dlt_framing_parse("raw", &framing) && framing == DLT_FRAMING_RAW);
    cr_assert_not(dlt_framing_parse("RESP", &framing));
}
