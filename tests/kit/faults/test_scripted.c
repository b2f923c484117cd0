/* SPDX-License-Identifier: MIT */
/* Does the scripted server say its part, and does it notice what was not in the script? */
#include "net_kit.h"
#include "scripted_client.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#define SOON 10000

static struct dlt_scripted server;

static void play(const char *script)
{
    cr_assert(dlt_scripted_start(&server, script), "%s", server.report);
}

static int client(void)
{
    int fd = net_connect(server.address, SOON);

    cr_assert_geq(fd, 0);
    return fd;
}

static void done(void)
{
    cr_assert(dlt_scripted_finish(&server, SOON), "%s", server.report);
    cr_assert_str_eq(server.report, "");
}

static void complains(const char *text)
{
    cr_assert_not(dlt_scripted_finish(&server, SOON));
    cr_assert_not_null(strstr(server.report, text), "%s", server.report);
}

TestSuite(scripted, .timeout = 20);

Test(scripted, redis)
{
    int fd;

    play("conn\n"
         "command auth * \"*\"\n"
         "send \"+OK\\r\\n\"\n"
         "command SET \"a b\" ** # any options\n"
         "send \"$-1\\r\\n\" \":1\\r\\n\"\n"
         "end\n");
    fd = client();
    cr_assert(net_send(fd, "*3\r\n$4\r\nAUTH\r\n$1\r\nx\r\n$1\r\n*\r\n*5\r\n$3\r\nSET\r\n$3\r\na b"
                           "\r\n$1\r\n1\r\n$2\r\nPX\r\n$1\r\n9\r\n"));
    cr_assert(net_expect(fd, "+OK\r\n$-1\r\n:1\r\n", SOON));
    (void)close(fd);
    done();
}

Test(scripted, mysql)
{
    int fd;

    play("framing mysql\n"
         "conn\n"
         "send-packet 0 \"hello\"\n"
         "packet 1 \"user\" **\n"
         "send-packet 2 \"ok\"\n"
         "any 2\n"
         "packet * \"\\x03select 1\"\n"
         "close\n");
    fd = client();
    cr_assert_eq(net_next(fd, SOON), 'd');
    cr_assert_eq(write(fd, "\x08\0\0\x01user\0pwd", 12), 12);
    cr_assert_eq(write(fd, "\x01\0\0\x01x\0\0\0\x01\x09\0\0\x07\x03select 1", 22), 22);
    {
        char got[15];
        size_t len = 0;

        while (len < sizeof got) {
            ssize_t n = read(fd, got + len, sizeof got - len);

            cr_assert_gt(n, 0);
            len += (size_t)n;
        }
        cr_assert_arr_eq(got, "\x05\0\0\0hello\x02\0\0\x02ok", sizeof got);
    }
    cr_assert_eq(net_next(fd, SOON), 'e');
    done();
}

Test(scripted, several_connections_at_once)
{
    int a, b, c;

    play("conn\n expect \"a\"\n send \"A\"\n"
         "conn\n expect \"b\"\n send \"B\"\n"
         "conn *\n expect \"c\"\n send \"C\"\n again\n");
    a = client();
    b = client();
    c = client();
    cr_assert(net_send(c, "cc"));
    cr_assert(net_expect(c, "CC", SOON));
    cr_assert(net_send(b, "b"));
    cr_assert(net_expect(b, "B", SOON));
    cr_assert_eq(net_next(b, SOON), 'e'); /* now it is played to the end */
    cr_assert(net_send(a, "a"));
    cr_assert(net_expect(a, "A", SOON));
    cr_assert_eq(net_next(a, SOON), 'e');
    (void)close(c);
    cr_assert(dlt_scripted_finish(&server, 0), "%s", server.report);
}

Test(scripted, ways_to_end)
{
    int fd;
    int64_t began = net_now_ms();

    play("conn\n any\n delay 60\n reset\n"
         "conn\n send \"x\"\n halfclose\n expect \"y\"\n"
         "conn\n any\n close\n");
    fd = client();
    cr_assert(net_send(fd, "x"));
    cr_assert_eq(net_next(fd, SOON), 'r');
    cr_assert_geq(net_now_ms() - began, 60);
    fd = client();
    cr_assert(net_expect(fd, "x", SOON));
    cr_assert_eq(net_next(fd, SOON), 'e');
    cr_assert(net_send(fd, "y"));
    fd = client();
    cr_assert(net_send(fd, "x"));
    cr_assert_eq(net_next(fd, SOON), 'e');
    done();
}

Test(scripted, other_bytes_are_told)
{
    int fd;

    play("conn\nexpect \"abc\"\nsend \"x\"\n");
    fd = client();
    cr_assert(net_send(fd, "abd\n"));
    cr_assert_neq(net_next(fd, SOON), 'd');
    complains("mismatch line 2, connection 1: other bytes expected, got \"abd\\n\"");
}

Test(scripted, another_command_is_told)
{
    play("conn\n\ncommand GET a\n");
    cr_assert(net_send(client(), "*3\r\n$3\r\nGET\r\n$1\r\na\r\n$1\r\nb\r\n"));
    complains("mismatch line 3, connection 1: another command expected, got \"*3\\r\\n");
}

Test(scripted, longer_word_is_another)
{
    play("conn\ncommand GET a\n");
    cr_assert(net_send(client(), "*2\r\n$3\r\nGET\r\n$2\r\nab\r\n"));
    complains("another command expected");
}

Test(scripted, another_packet_is_told)
{
    int fd;

    play("conn\npacket 1 \"a\"\n");
    fd = client();
    cr_assert_eq(write(fd,
                       "\x01\0\0\x02"
                       "a",
                       5),
                 5);
    complains("another packet expected, got \"\\x01\\x00\\x00\\x02a\"");
}

Test(scripted, silence_is_told)
{
    play("timeout 50\nconn\nany\n");
    (void)client();
    complains("mismatch line 3, connection 1: another frame expected, got \"\" (time out)");
}

Test(scripted, client_that_stays_is_told)
{
    play("timeout 50\nconn\nend\n");
    (void)client();
    complains("line 3, connection 1: the end of the stream expected, got \"\" (time out)");
}

Test(scripted, early_end_is_told)
{
    int fd;

    play("conn\nexpect \"ab\"\n");
    fd = client();
    (void)close(fd);
    complains("got \"\" (connection ended)");
}

Test(scripted, more_than_expected_is_told)
{
    int fd;

    play("conn\nexpect \"a\"\nend\n");
    fd = client();
    cr_assert(net_send(fd, "ab"));
    (void)close(fd);
    complains("line 3, connection 1: the end of the stream expected, got \"b\"");
}

Test(scripted, who_does_not_come_is_told)
{
    play("conn\nsend \"x\"\nconn\nany\n");
    cr_assert(net_expect(client(), "x", SOON));
    cr_assert_not(dlt_scripted_finish(&server, 50));
    cr_assert_str_eq(server.report, "mismatch line 3, connection 2: nobody came\n");
}

Test(scripted, what_is_not_played_is_told)
{
    play("conn\nsend \"x\"\nexpect \"y\"\n");
    cr_assert(net_expect(client(), "x", SOON));
    cr_assert_not(dlt_scripted_finish(&server, 50));
    cr_assert_str_eq(server.report, "mismatch line 3, connection 1: not played to the end\n");
}

Test(scripted, one_too_many_is_told)
{
    play("conn\nany\n");
    (void)client();
    cr_assert(net_is_reset(server.address, SOON));
    complains("connection 2: nobody was expected");
}

Test(scripted, wrong_scripts_are_refused_with_the_line)
{
    static const struct {
        const char *script, *complaint;
    } bad[] = {
        {"send \"x\"\n", "error line 1: a step before the first conn"},
        {"conn\n\nnonsense\n", "error line 3: unknown step"},
        {"conn\nsend\n", "error line 2: data is missing"},
        {"conn\nsend \"x\n", "error line 2: a quote is open"},
        {"conn\ndelay x\n", "error line 2: that is no number, or too great a one"},
        {"conn\nsend-packet 256 x\n", "error line 2: that is no number, or too great a one"},
        {"conn\npacket\n", "error line 2: a number is missing"},
        {"conn\nclose now\n", "error line 2: too many words"},
        {"conn 3\n", "error line 1: want conn or conn *"},
        {"framing tls\n", "error line 1: want raw, resp or mysql"},
        {"timeout soon\n", "error line 1: want milliseconds"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not(dlt_scripted_start(&server, bad[i].script));
        cr_assert_str_eq(server.report, bad[i].complaint);
    }
}
