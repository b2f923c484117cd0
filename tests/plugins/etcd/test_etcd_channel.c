/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/channel.c plugins/etcd/http2.c plugins/etcd/call.c */
/* What becomes of a call, whatever the server says and when: the test is the server, frame by
 * frame. */
#include "rpc.h"
#include "scripted_fixture.h"

TestSuite(etcd_channel, .init = open_channel, .fini = close_channel, .timeout = 30);

static void answer(uint32_t id, const char *text)
{
    cr_assert(dlt_frame_headers(server, 0, id, good));
    cr_assert(dlt_frame_message(server, id, text, 0));
    cr_assert(dlt_frame_headers(server, FLAG_END_STREAM, id, ok));
}

/* ---- answers ---- */

Test(etcd_channel, an_answer_has_messages_and_a_status)
{
    struct asked one;

    begin(&one, NULL);
    answer(1, "yes");
    ENDS(&one, ETCD_ANSWERED, "");
    cr_assert_eq(one.call.grpc_status, 0);
    cr_assert_str_eq(one.heard, "yes|");
    cr_assert_not(etcd_channel_dead(channel));
}

Test(etcd_channel, C9_answers_belong_to_their_calls_in_any_order)
{
    struct asked one, two;

    begin(&one, &two);
    answer(3, "second");
    answer(1, "first");
    ENDS(&one, ETCD_ANSWERED, "");
    ENDS(&two, ETCD_ANSWERED, "");
    cr_assert_str_eq(one.heard, "first|");
    cr_assert_str_eq(two.heard, "second|");
}

Test(etcd_channel, a_message_comes_in_pieces)
{
    static const unsigned char bytes[] = {0, 0, 0, 0, 5, 'h', 'e', 'l', 'l', 'o', 0, 0, 0, 0, 0};
    struct asked one;

    begin(&one, NULL);
    cr_assert(dlt_frame_headers(server, 0, 1, good));
    for (size_t i = 0; i < sizeof bytes; i++)
        cr_assert(dlt_frame_say(server, FRAME_DATA, 0, 1, bytes + i, 1));
    cr_assert(dlt_frame_headers(server, FLAG_END_STREAM, 1, ok));
    ENDS(&one, ETCD_ANSWERED, "");
    cr_assert_str_eq(one.heard, "hello||"); /* the second message is empty */
}

Test(etcd_channel, a_trailer_alone_is_an_answer)
{
    static const char *const failed[] = {":status: 200", "content-type: application/grpc",
                                         "grpc-status: 14", "grpc-message: no%20leader%0a%zz%",
                                         NULL};
    struct asked one;

    begin(&one, NULL);
    cr_assert(dlt_frame_headers(server, FLAG_END_STREAM, 1, failed));
    ENDS(&one, ETCD_ANSWERED, "no leader?%zz%");
    cr_assert_eq(one.call.grpc_status, 14);
}

Test(etcd_channel, a_status_comes_in_mid_stream)
{
    static const char *const failed[] = {"grpc-status: 14", "grpc-message: no leader", NULL};
    struct asked one;

    begin(&one, NULL);
    cr_assert(dlt_frame_headers(server, 0, 1, good));
    cr_assert(dlt_frame_message(server, 1, "created", 0));
    cr_assert(etcd_channel_await(&wait, dlt_host_in(&host, 500)));
    cr_assert_str_eq(one.heard, "created|");
    cr_assert_eq(one.call.end, ETCD_OPEN);
    cr_assert(dlt_frame_headers(server, FLAG_END_STREAM, 1, failed));
    ENDS(&one, ETCD_ANSWERED, "no leader");
    cr_assert_eq(one.call.grpc_status, 14);
}

Test(etcd_channel, a_status_that_nobody_defined_is_an_unknown_one)
{
    static const char *const odd[] = {":status: 200", "content-type: application/grpc+proto",
                                      "grpc-status: 99", NULL};
    struct asked one;

    begin(&one, NULL);
    cr_assert(dlt_frame_headers(server, FLAG_END_STREAM, 1, odd));
    ENDS(&one, ETCD_ANSWERED, "");
    cr_assert_eq(one.call.grpc_status, 2);
}

/* ---- what is no answer ---- */

struct nonsense {
    const char *headers[4], *message, *trailer[3];
};

Test(etcd_channel, what_is_no_answer_of_gRPC_ends_its_call_alone)
{
    static const struct nonsense table[] = {
        {{":status: 500", "content-type: text/html", NULL}, NULL, {NULL}},
        {{":status: 404", "content-type: text/html", NULL}, NULL, {NULL}},
        {{":status: 200", "content-type: text/html", NULL}, NULL, {NULL}},
        {{":status: 200", NULL}, NULL, {NULL}},
        {{":status: 200", "content-type: application/grpc", NULL}, "JUNK", {NULL}},
        {{":status: 200", "content-type: application/grpc", NULL}, NULL, {"grpc-status: x", NULL}},
        {{":status: 200", "content-type: application/grpc", NULL}, NULL, {"other: 1", NULL}},
    };
    uint32_t id = 1;

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++, id += 4) {
        struct asked one, two;

        begin(&one, &two);
        cr_assert(dlt_frame_headers(server, 0, id, table[i].headers));
        if (table[i].message != NULL)
            cr_assert(dlt_frame_message(server, id, table[i].message, 0));
        if (table[i].trailer[0] != NULL)
            cr_assert(dlt_frame_headers(server, FLAG_END_STREAM, id, table[i].trailer));
        cr_expect_eq(end_of(&one), ETCD_FOREIGN, "%zu: %d %s", i, (int)one.call.end, one.call.text);
        answer(id + 2, "well");
        cr_expect_eq(end_of(&two), ETCD_ANSWERED, "%zu: %d %s", i, (int)two.call.end,
                     two.call.text);
    }
}

static void foreign_bytes(const unsigned char *bytes, size_t len, bool ends, const char *said)
{
    struct asked one, two;

    begin(&one, &two);
    cr_assert(dlt_frame_headers(server, 0, 1, good));
    cr_assert(dlt_frame_say(server, FRAME_DATA, 0, 1, bytes, len));
    if (ends)
        cr_assert(dlt_frame_headers(server, FLAG_END_STREAM, 1, ok));
    ENDS(&one, ETCD_FOREIGN, said);
    answer(3, "well");
    ENDS(&two, ETCD_ANSWERED, "");
}

Test(etcd_channel, a_message_that_is_too_long)
{
    foreign_bytes((const unsigned char[]){0, 0, 0x40, 0, 1}, 5, false,
                  "a message of 4194305 bytes");
}

Test(etcd_channel, a_message_that_is_compressed)
{
    foreign_bytes((const unsigned char[]){1, 0, 0, 0, 1, 'x'}, 6, false, "compressed");
}

Test(etcd_channel, an_answer_that_ends_inside_a_message)
{
    foreign_bytes((const unsigned char[]){0, 0, 0, 0, 2, 'x'}, 6, true, "inside a message");
}

Test(etcd_channel, a_list_of_headers_that_is_too_long)
{
    char value[8000] = "filler: ";
    const char *headers[3] = {":status: 200", value, NULL};
    unsigned char packed[16384];
    struct asked one;
    size_t len = 0;

    memset(value + 8, 'x', sizeof value - 9);
    begin(&one, NULL);
    len = dlt_frame_pack(packed, sizeof packed, headers);
    cr_assert(dlt_frame_say(server, FRAME_HEADERS, 0, 1, packed, len));
    for (int i = 0; i < 20; i++) {
        len = dlt_frame_pack(packed, sizeof packed, headers + 1);
        if (!dlt_frame_say(server, FRAME_CONTINUATION, 0, 1, packed, len))
            break;
    }
    ENDS(&one, ETCD_FOREIGN, "too many headers");
}

/* Some versions of nghttp2 bound these frames themselves. */
Test(etcd_channel, a_list_of_headers_that_never_ends)
{
    static const char *const headers[] = {":status: 200", NULL};
    unsigned char packed[64];
    struct asked one;

    begin(&one, NULL);
    cr_assert(dlt_frame_say(server, FRAME_HEADERS, 0, 1, packed,
                            dlt_frame_pack(packed, sizeof packed, headers)));
    for (int i = 0; i < 100 && one.call.end == ETCD_OPEN; i++) {
        for (int k = 0; k < 100; k++)
            (void)dlt_frame_say(server, FRAME_CONTINUATION, 0, 1, NULL, 0);
        (void)etcd_channel_await(&wait, dlt_host_in(&host, 5));
    }
    cr_assert_eq(one.call.end, ETCD_CUT, "%d: %s", (int)one.call.end, one.call.text);
    cr_assert(etcd_channel_dead(channel));
}

/* gRPC: UNAVAILABLE. The balancer may have passed the request on. */
Test(etcd_channel, TRY_4_a_balancer_that_has_nobody_who_serves)
{
    static const char *const statuses[] = {":status: 429", ":status: 502", ":status: 503",
                                           ":status: 504"};

    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        const char *const headers[] = {statuses[i], "content-type: text/html", NULL};
        struct asked one;

        begin(&one, NULL);
        cr_assert(dlt_frame_headers(server, FLAG_END_STREAM, (uint32_t)(1 + 2 * i), headers));
        ENDS(&one, ETCD_CUT, "HTTP status");
        cr_assert_eq(etcd_rpc_judge(&one.call).status, DLOCK_UNKNOWN);
    }
}

Test(etcd_channel, a_server_that_does_not_speak_HTTP_2)
{
    static const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    struct asked one;

    asked_init(&one, "/first", "one");
    cr_assert(etcd_channel_begin(&wait, &one.call));
    etcd_channel_flush(&wait);
    cr_assert(dlt_frame_bytes(server, text, sizeof text - 1));
    ENDS(&one, ETCD_FOREIGN, "");
    cr_assert_eq(etcd_channel_failed(channel), STREAM_FOREIGN);
    cr_assert(etcd_channel_dead(channel));
}

Test(etcd_channel, a_push_breaks_the_rules)
{
    static const unsigned char promise[] = {0, 0, 0, 2};
    struct asked one;

    begin(&one, NULL);
    cr_assert(dlt_frame_say(server, FRAME_SETTINGS, FLAG_ACK, 0, NULL, 0));
    cr_assert(dlt_frame_say(server, FRAME_PUSH, FLAG_END_HEADERS, 1, promise, sizeof promise));
    ENDS(&one, ETCD_FOREIGN, "");
    cr_assert(etcd_channel_dead(channel));
}

/* Each kind alone; the memory of the answers to them has a bound. */
static void flood(uint8_t type, uint32_t id, size_t len)
{
    static const unsigned char zeroes[8];
    struct asked one;
    struct dlt_frame frame;

    begin(&one, NULL);
    for (int i = 0; i < 60 && one.call.end == ETCD_OPEN; i++) {
        for (int k = 0; k < 100; k++)
            (void)dlt_frame_say(server, type, 0, id, zeroes, len);
        (void)etcd_channel_await(&wait, dlt_host_in(&host, 5));
        while (recv(server, frame.payload, sizeof frame.payload, MSG_DONTWAIT) > 0)
            continue;
    }
    cr_assert_eq(one.call.end, ETCD_CUT, "%d: %s", (int)one.call.end, one.call.text);
    cr_assert(etcd_channel_dead(channel));
}

Test(etcd_channel, a_flood_of_pings)
{
    flood(FRAME_PING, 0, 8);
}

Test(etcd_channel, a_flood_of_settings)
{
    flood(FRAME_SETTINGS, 0, 0);
}

Test(etcd_channel, a_flood_of_data_without_bytes)
{
    flood(FRAME_DATA, 1, 0);
}

/* ---- the end of calls and connections ---- */

Test(etcd_channel, TRY_4_a_refused_call_was_not_processed)
{
    struct asked one, two;

    begin(&one, &two);
    cr_assert(dlt_frame_numbers(server, FRAME_RST_STREAM, 1, 7, -1)); /* REFUSED_STREAM */
    cr_assert(dlt_frame_numbers(server, FRAME_RST_STREAM, 3, 2, -1)); /* INTERNAL_ERROR */
    ENDS(&one, ETCD_UNSENT, "refused");
    ENDS(&two, ETCD_CUT, "ended the call");
    cr_assert_not(etcd_channel_dead(channel));
}

/* A server that has begun to answer has processed the call, whatever it says later. */
Test(etcd_channel, TRY_4_a_call_that_is_refused_after_its_headers_is_in_doubt)
{
    struct asked one;

    begin(&one, NULL);
    cr_assert(dlt_frame_headers(server, 0, 1, good));
    cr_assert(dlt_frame_numbers(server, FRAME_RST_STREAM, 1, 7, -1));
    ENDS(&one, ETCD_CUT, "");
}

Test(etcd_channel, TRY_4_GOAWAY_says_what_was_not_processed)
{
    struct asked one, two, three;

    begin(&one, &two);
    cr_assert(dlt_frame_numbers(server, FRAME_GOAWAY, 0, 1, 0)); /* the last was stream 1 */
    ENDS(&two, ETCD_UNSENT, "");
    cr_assert(etcd_channel_dead(channel));
    asked_init(&three, "/third", "three");
    cr_assert_not(etcd_channel_begin(&wait, &three.call));
    cr_assert_eq(three.call.end, ETCD_UNSENT);
    answer(1, "still");
    ENDS(&one, ETCD_ANSWERED, "");
    cr_assert_str_eq(one.heard, "still|");
}

Test(etcd_channel, C9_half_a_frame_and_then_silence)
{
    static const unsigned char half[] = {0, 0, 8, FRAME_DATA, 0, 0, 0};
    struct asked one;
    struct etcd_call *calls[] = {&one.call};

    asked_init(&one, "/first", "one");
    cr_assert(dlt_frame_say(server, FRAME_SETTINGS, 0, 0, NULL, 0));
    cr_assert(dlt_frame_bytes(server, half, sizeof half));
    etcd_channel_run(channel, calls, 1, dlt_host_in(&host, 30));
    cr_assert_eq(one.call.end, ETCD_CUT, "%s", one.call.text);
    cr_assert(etcd_channel_dead(channel), "C9: what did not answer in time is not used again");
}

Test(etcd_channel, TRY_4_half_a_frame_and_then_the_end)
{
    static const unsigned char half[] = {0, 0, 8, FRAME_DATA, 0, 0, 0, 0, 1, 0, 0};
    struct asked one;

    begin(&one, NULL);
    cr_assert(dlt_frame_headers(server, 0, 1, good));
    cr_assert(dlt_frame_bytes(server, half, sizeof half));
    (void)shutdown(server, SHUT_RDWR);
    ENDS(&one, ETCD_CUT, "");
    cr_assert_neq(etcd_channel_failed(channel), STREAM_OK);
}

Test(etcd_channel, TRY_4_an_idle_connection_that_was_closed_takes_no_call)
{
    struct asked one;

    (void)shutdown(server, SHUT_RDWR);
    asked_init(&one, "/first", "one");
    cr_assert_not(etcd_channel_begin(&wait, &one.call));
    cr_assert_eq(one.call.end, ETCD_UNSENT);
    cr_assert_not_null(strstr(one.call.text, "closed the connection"), "%s", one.call.text);
    cr_assert(etcd_channel_dead(channel));
}

Test(etcd_channel, a_call_that_is_given_up_is_reset_and_disturbs_no_other)
{
    struct dlt_frame frame;
    struct asked one, two;

    begin(&one, &two);
    etcd_channel_reset(&wait, &one.call);
    cr_assert_eq(one.call.end, ETCD_CUT);
    cr_assert(dlt_frame_read_type(server, FRAME_RST_STREAM, &frame));
    cr_assert_eq(frame.id, 1);
    cr_assert_eq(dlt_frame_number(&frame, 0), 8); /* CANCEL */
    answer(1, "late");
    answer(3, "second");
    ENDS(&two, ETCD_ANSWERED, "");
    cr_assert_eq(one.messages, 0);
    cr_assert_not(etcd_channel_dead(channel));
}

Test(etcd_channel, INT_2_an_interrupt_ends_one_await_also_if_it_comes_first)
{
    struct asked one;

    begin(&one, NULL);
    etcd_channel_interrupt(&wait);
    cr_assert_not(etcd_channel_await(&wait, dlt_host_in(&host, 20000)));
    cr_assert_eq(one.call.end, ETCD_OPEN);
    answer(1, "yes");
    ENDS(&one, ETCD_ANSWERED, "");
}

Test(etcd_channel, C10_a_forked_child_closes_its_descriptors_and_sends_nothing)
{
    static struct asked one; /* open until the teardown */
    unsigned char byte = 0;

    begin(&one, NULL);
    while (recv(server, &byte, 1, MSG_DONTWAIT) == 1)
        continue;
    etcd_channel_after_fork(channel);
    cr_assert_eq(recv(server, &byte, 1, 0), 0, "the only other end is closed, without a byte");
}
