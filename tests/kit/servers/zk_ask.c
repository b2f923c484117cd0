/* SPDX-License-Identifier: MIT */
/* zk_ask.c - the words of zk_client.h. */
#include "zk_request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_SIZE  65536
#define CHILDREN_MAX 1024
#define DEPTH_MAX    64
#define XID_AUTH     (-4)

#define CREATE_EPHEMERAL 1
#define CREATE_SEQUENCE  2
#define CREATE_CONTAINER 4

static const char *error_text(int32_t error)
{
    static _Thread_local char number[24];

    switch (error) {
    case 0:
        return "";
    case ZK_CONNECTION_LOSS:
        return "connection loss";
    case -101:
        return "no node";
    case -102:
        return "no auth";
    case -110:
        return "node exists";
    case -111:
        return "not empty";
    case -112:
        return "session expired";
    case -115:
        return "auth failed";
    default:
        (void)snprintf(number, sizeof number, "error %d", error);
        return number;
    }
}

struct answer {
    char text[ANSWER_SIZE];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void say(struct answer *answer, const char *format,
                                                      ...)
{
    size_t room = sizeof answer->text - answer->len;
    va_list args;
    int len = 0;

    va_start(args, format);
    len = vsnprintf(answer->text + answer->len, room, format, args);
    va_end(args);
    answer->len += (size_t)len < room ? (size_t)len : room - 1;
}

/* The next word of *text, which it ends, or NULL. */
static char *word_take(char **text)
{
    char *word = *text + strspn(*text, " ");

    if (*word == '\0')
        return NULL;
    *text = word + strcspn(word, " ");
    if (**text != '\0')
        *(*text)++ = '\0';
    return word;
}

static const char letters[] = "rwcda"; /* of permissions, from the lowest bit on */

/* "SCHEME:ID:PERMISSIONS", of which ID may have colons. */
static void acl_put(struct zk_packet *packet, char *text)
{
    char *id = strchr(text, ':'), *last = strrchr(text, ':');
    int32_t permissions = 0;

    if (id == NULL || last == id)
        abort();
    *id++ = *last++ = '\0';
    for (; *last != '\0'; last++)
        permissions |= 1 << (strchr(letters, *last) - letters);
    zk_packet_put_int(packet, 1);
    zk_packet_put_int(packet, permissions);
    zk_packet_put_text(packet, text);
    zk_packet_put_text(packet, id);
}

static int32_t create(struct dlt_zk_client *client, char *rest, struct answer *answer)
{
    char open[] = "world:anyone:cdrwa";
    struct zk_packet packet;
    int32_t flags = 0, error = 0;
    char *word = word_take(&rest);

    for (; word != NULL && word[0] == '-'; word = word_take(&rest))
        flags |= strcmp(word, "-e") == 0   ? CREATE_EPHEMERAL
                 : strcmp(word, "-s") == 0 ? CREATE_SEQUENCE
                                           : CREATE_CONTAINER;
    if (word == NULL)
        abort();
    zk_request_begin(client, &packet,
                     flags == CREATE_CONTAINER ? ZK_OP_CREATE_CONTAINER : ZK_OP_CREATE, word);
    zk_packet_put_bytes(&packet, rest, strlen(rest));
    acl_put(&packet, open);
    zk_packet_put_int(&packet, flags);
    error = zk_request(client, &packet);
    if (error == 0)
        say(answer, "%s", zk_packet_take_text(&packet));
    return error;
}

static int32_t set(struct dlt_zk_client *client, char *rest, struct answer *answer)
{
    struct zk_packet packet;
    const char *path = word_take(&rest);

    (void)answer;
    zk_request_begin(client, &packet, ZK_OP_SET, path);
    zk_packet_put_bytes(&packet, rest, strlen(rest));
    zk_packet_put_int(&packet, -1);
    return zk_request(client, &packet);
}

static int32_t get(struct dlt_zk_client *client, char *rest, struct answer *answer)
{
    struct zk_packet packet;
    int32_t error = 0;

    zk_request_begin(client, &packet, ZK_OP_GET, word_take(&rest));
    zk_packet_put_byte(&packet, 0);
    error = zk_request(client, &packet);
    if (error == 0)
        say(answer, "%s", zk_packet_take_text(&packet));
    return error;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct children {
    struct zk_packet packet;
    const char *names[CHILDREN_MAX]; /* in the packet */
    size_t count;
};

static int32_t children_read(struct dlt_zk_client *client, const char *path,
                             struct children *children)
{
    int32_t error = 0, count = 0;

    zk_request_begin(client, &children->packet, ZK_OP_CHILDREN, path);
    zk_packet_put_byte(&children->packet, 0);
    error = zk_request(client, &children->packet);
    children->count = 0;
    if (error == 0)
        count = zk_packet_take_int(&children->packet);
    for (int32_t i = 0; i < count && children->count < CHILDREN_MAX; i++)
        children->names[children->count++] = zk_packet_take_text(&children->packet);
    qsort(children->names, children->count, sizeof *children->names, by_name);
    return error;
}

static int32_t ls(struct dlt_zk_client *client, char *rest, struct answer *answer)
{
    struct children *children = malloc(sizeof *children);
    int32_t error = 0;

    if (children == NULL)
        abort();
    error = children_read(client, word_take(&rest), children);
    for (size_t i = 0; i < children->count; i++)
        say(answer, "%s%s", i > 0 ? "\n" : "", children->names[i]);
    free(children);
    return error;
}

static int32_t node_stat(struct dlt_zk_client *client, char *rest, struct answer *answer)
{
    struct zk_packet packet;
    int64_t czxid = 0, owner = 0;
    int32_t error = 0, version = 0, length = 0, count = 0;

    zk_request_begin(client, &packet, ZK_OP_EXISTS, word_take(&rest));
    zk_packet_put_byte(&packet, 0);
    error = zk_request(client, &packet);
    if (error != 0)
        return error;
    czxid = zk_packet_take_long(&packet);
    for (int i = 0; i < 3; i++) /* mzxid, ctime, mtime */
        (void)zk_packet_take_long(&packet);
    version = zk_packet_take_int(&packet);
    (void)zk_packet_take_int(&packet); /* of the children */
    (void)zk_packet_take_int(&packet); /* of the ACL */
    owner = zk_packet_take_long(&packet);
    length = zk_packet_take_int(&packet);
    count = zk_packet_take_int(&packet);
    say(answer, "czxid=%lld ephemeralOwner=0x%llx children=%d version=%d length=%d",
        (long long)czxid, (unsigned long long)owner, count, version, length);
    return 0;
}

static int32_t node_delete(struct dlt_zk_client *client, const char *path)
{
    struct zk_packet packet;

    zk_request_begin(client, &packet, ZK_OP_DELETE, path);
    zk_packet_put_int(&packet, -1);
    return zk_request(client, &packet);
}

static int32_t delete_one(struct dlt_zk_client *client, char *rest, struct answer *answer)
{
    (void)answer;
    return node_delete(client, word_take(&rest));
}

/* How many. Others may add nodes meanwhile: their parents stay. */
static unsigned tree_delete(struct dlt_zk_client *client, const char *path, unsigned depth)
{
    struct children *children = malloc(sizeof *children);
    unsigned count = 0;

    if (children == NULL || depth > DEPTH_MAX)
        abort();
    (void)children_read(client, path, children);
    for (size_t i = 0; i < children->count; i++) {
        char child[1024];

        int len = snprintf(child, sizeof child, "%s/%s", strcmp(path, "/") == 0 ? "" : path,
                           children->names[i]);

        if (len < (int)sizeof child && strcmp(child, "/zookeeper") != 0)
            count += tree_delete(client, child, depth + 1);
    }
    free(children);
    return count + (strcmp(path, "/") != 0 && node_delete(client, path) == 0);
}

static int32_t deleteall(struct dlt_zk_client *client, char *rest, struct answer *answer)
{
    say(answer, "%u", tree_delete(client, word_take(&rest), 0));
    return 0;
}

static int32_t addauth(struct dlt_zk_client *client, char *rest, struct answer *answer)
{
    struct zk_packet packet;
    const char *scheme = word_take(&rest);

    (void)answer;
    zk_packet_begin(&packet);
    zk_packet_put_int(&packet, XID_AUTH);
    zk_packet_put_int(&packet, ZK_OP_AUTH);
    zk_packet_put_int(&packet, 0);
    zk_packet_put_text(&packet, scheme);
    zk_packet_put_bytes(&packet, rest, strlen(rest));
    return zk_request_call(client, XID_AUTH, &packet);
}

static int32_t get_acl(struct dlt_zk_client *client, char *rest, struct answer *answer)
{
    struct zk_packet packet;
    int32_t error = 0, count = 0;

    zk_request_begin(client, &packet, ZK_OP_GET_ACL, word_take(&rest));
    error = zk_request(client, &packet);
    if (error == 0)
        count = zk_packet_take_int(&packet);
    for (int32_t i = 0; i < count; i++) {
        int32_t permissions = zk_packet_take_int(&packet);
        const char *scheme = zk_packet_take_text(&packet), *id = zk_packet_take_text(&packet);

        say(answer, "%s%s:%s:", i > 0 ? "\n" : "", scheme, id);
        for (const char *letter = "cdrwa"; *letter != '\0'; letter++)
            if ((permissions >> (strchr(letters, *letter) - letters) & 1) != 0)
                say(answer, "%c", *letter);
    }
    return error;
}

static int32_t set_acl(struct dlt_zk_client *client, char *rest, struct answer *answer)
{
    struct zk_packet packet;
    const char *path = word_take(&rest);

    (void)answer;
    zk_request_begin(client, &packet, ZK_OP_SET_ACL, path);
    acl_put(&packet, rest);
    zk_packet_put_int(&packet, -1);
    return zk_request(client, &packet);
}

static int32_t sync_with_leader(struct dlt_zk_client *client, char *rest, struct answer *answer)
{
    struct zk_packet packet;

    (void)answer;
    zk_request_begin(client, &packet, ZK_OP_SYNC, word_take(&rest));
    return zk_request(client, &packet);
}

static const struct verb {
    const char *name;
    int32_t (*ask)(struct dlt_zk_client *client, char *rest, struct answer *answer);
} verbs[] = {
    {"create", create},
    {"set", set},
    {"get", get},
    {"ls", ls},
    {"stat", node_stat},
    {"delete", delete_one},
    {"deleteall", deleteall},
    {"addauth", addauth},
    {"getAcl", get_acl},
    {"setAcl", set_acl},
    {"sync", sync_with_leader},
};

static const char *ask(struct dlt_zk_client *client, char *words)
{
    static _Thread_local struct answer answer;
    const char *name = word_take(&words);
    int32_t error = 0;

    answer.len = 0;
    answer.text[0] = '\0';
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verbs[i].name, name) != 0)
            continue;
        error = verbs[i].ask(client, words, &answer);
        return error == 0 ? answer.text : error_text(error);
    }
    abort();
}

const char *dlt_zk_client_ask(struct dlt_zk_client *client, const char *format, ...)
{
    char words[4096];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return ask(client, words);
}

/* ---- without a client ---- */

static bool super_open(const struct dlt_zk *server, struct dlt_zk_client *client)
{
    for (unsigned i = 0; i < server->count; i++) {
        const struct dlt_zk_member *member = &server->members[i];

        if ((member->pid <= 0 && !server->borrowed) || member->paused ||
            !dlt_zk_client_open(client, member, 60000))
            continue;
        (void)dlt_zk_client_ask(client, "addauth digest " DLT_ZK_SUPER);
        (void)dlt_zk_client_ask(client, "sync /");
        return true;
    }
    return false;
}

const char *dlt_zk_ask(const struct dlt_zk *server, const char *format, ...)
{
    struct dlt_zk_client client;
    const char *answer = NULL;
    char words[4096];
    va_list args;

    if (!super_open(server, &client))
        return error_text(ZK_CONNECTION_LOSS);
    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args);
    va_end(args);
    answer = ask(&client, words);
    dlt_zk_client_close(&client);
    return answer;
}
