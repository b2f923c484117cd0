/* SPDX-License-Identifier: MIT */
/* Is the password told to nobody? (C17) */
#include "conformance.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define WRONG "swordfish-7"

/* The part of a URI between ':' and '@' of its authority; len 0: it has none. */
struct secret {
    const char *text;
    size_t len;
};

static struct secret secret_of(const char *uri)
{
    const char *start = strstr(uri, "://");
    const char *end, *colon, *at;

    if (start == NULL)
        return (struct secret){NULL, 0};
    start += 3;
    end = start + strcspn(start, "/?");
    at = memchr(start, '@', (size_t)(end - start));
    colon = at == NULL ? NULL : memchr(start, ':', (size_t)(at - start));
    if (colon == NULL)
        return (struct secret){NULL, 0};
    return (struct secret){colon + 1, (size_t)(at - colon - 1)};
}

/* A password that is the user's name as well would be seen everywhere. */
static bool is_users_name(struct secret secret)
{
    return secret.text[-1 - (ptrdiff_t)secret.len - 1] == '/' &&
           memcmp(secret.text - 1 - secret.len, secret.text, secret.len) == 0;
}

/* In the log, whatever its level. */
static void log_look(void *arg, enum dlock_log_level level, const char *message)
{
    const struct secret *secret = arg;

    DLT_CHECK(memmem(message, strlen(message), secret->text, secret->len) == NULL,
              "a log line of level %d tells it: %s", level, message);
}

static void text_look(const struct secret *secret, const char *what, const char *text)
{
    DLT_CHECK(memmem(text, strlen(text), secret->text, secret->len) == NULL, "%s tells it: %s",
              what, text);
}

/* Room for what each node says. */
static void error_with_nodes(void)
{
    static _Thread_local struct dlock_node_error nodes[DLOCK_NODE_ERRORS_MAX];

    dlt_err.nodes = nodes;
    dlt_err.node_room = DLOCK_NODE_ERRORS_MAX;
}

static void error_look(const struct secret *secret, const struct dlock_error *err)
{
    text_look(secret, "an error", err->message);
    text_look(secret, "an error's origin", err->origin);
    for (uint32_t i = 0; i < err->node_count; i++) {
        text_look(secret, "a node", err->nodes[i].node);
        text_look(secret, "a node's error", err->nodes[i].message);
    }
}

static void used_looks(struct dlt_run *run, struct secret *secret)
{
    const struct dlock_client_options options = {
        .struct_size = sizeof options, .log = log_look, .log_arg = secret};
    struct dlock_client *client = NULL;
    struct dlock_handle *lock;

    DLT_OK(dlock_client_open(run->uri, &options, &client, &dlt_err));
    text_look(secret, "the client's URI", dlock_client_uri(client));
    text_look(secret, "the server's name", dlock_client_server(client));
    lock = dlt_lock(run, client, "x", 0);
    DLT_TAKE(lock);
    DLT_OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}

/* head, then the text, then what follows it in the URI. Refused or not: nobody is told. */
static void other_looks(const char *uri, const char *rest, const char *text, struct secret *secret)
{
    const struct dlock_client_options options = {
        .struct_size = sizeof options, .log = log_look, .log_arg = secret};
    struct dlock_client *client = NULL;
    struct dlock_error err = DLOCK_ERROR_INIT;
    char other[4096];

    (void)snprintf(other, sizeof other, "%.*s%s%s", (int)(rest - uri), uri, text, rest);
    if (dlock_client_open(other, &options, &client, &err) == DLOCK_OK)
        text_look(secret, "the client's URI", dlock_client_uri(client));
    error_look(secret, &err);
    dlock_client_close(client);
}

void dlt_case_passwords_are_told_nobody(struct dlt_run *run)
{
    struct secret own = secret_of(run->uri), wrong = {WRONG, strlen(WRONG)};
    const char *end = run->uri + strlen(run->uri);
    const char *more = strchr(run->uri, '?') == NULL ? "?nonsense=1" : "&nonsense=1";
    const char *start = strstr(run->uri, "://");
    char wrong_uri[4096];

    error_with_nodes();
    if (own.len > 0) {
        if (!is_users_name(own)) {
            used_looks(run, &own);
            other_looks(run->uri, end, more, &own);
        }
        (void)snprintf(wrong_uri, sizeof wrong_uri, "%.*s%s%s", (int)(own.text - run->uri),
                       run->uri, WRONG, own.text + own.len);
        other_looks(wrong_uri, wrong_uri + strlen(wrong_uri), "", &wrong);
        other_looks(wrong_uri, wrong_uri + strlen(wrong_uri), more, &wrong);
    } else {
        if (start == NULL)
            dlt_skip("nowhere to put a password in %s", run->uri);
        other_looks(run->uri, start + 3, "user:" WRONG "@", &wrong);
        (void)snprintf(wrong_uri, sizeof wrong_uri, "%.*suser:%s@%s", (int)(start + 3 - run->uri),
                       run->uri, WRONG, start + 3);
        other_looks(wrong_uri, wrong_uri + strlen(wrong_uri), more, &wrong);
    }
}
