/* SPDX-License-Identifier: MIT */
/* The line protocol of the control channel: a line is answered by one line, "ok ..." or "error
 * ...", once what it asks for is in force. */
#include "proxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool proxy_control_add(struct proxy *proxy, int in, int out)
{
    struct proxy_control *control = calloc(1, sizeof *control);

    if (control == NULL)
        return false;
    control->in = in;
    control->out = out;
    control->next = proxy->controls;
    proxy->controls = control;
    return true;
}

static void control_drop(struct proxy *proxy, struct proxy_control *control)
{
    struct proxy_control **at = &proxy->controls;

    while (*at != control)
        at = &(*at)->next;
    *at = control->next;
    (void)close(control->in);
    if (control->out != control->in)
        (void)close(control->out);
    proxy->quit |= control->in == STDIN_FILENO;
    free(control);
}

void proxy_controls_free(struct proxy *proxy)
{
    while (proxy->controls != NULL)
        control_drop(proxy, proxy->controls);
}

/* A reader that is gone is seen at the next read from it. */
static void answer_send(const struct proxy_control *control, const char *text)
{
    char line[PROXY_LINE_MAX + 1];
    int len = snprintf(line, sizeof line, "%s\n", text);
    size_t size = len < (int)sizeof line ? (size_t)len : sizeof line - 1;

    line[size - 1] = '\n';
    for (size_t at = 0; at < size;) {
        ssize_t wrote = write(control->out, line + at, size - at);

        if (wrote < 0 && errno != EINTR)
            return;
        at += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* Does the first line that is there. False: there is none, or an answer is due first. */
static bool line_do(struct proxy *proxy, struct proxy_control *control)
{
    char *end = memchr(control->line, '\n', control->used);
    char answer[PROXY_LINE_MAX];
    struct dlt_words words;
    const char *wrong;
    size_t len;

    if (end == NULL || control->pending != PROXY_IDLE)
        return false;
    *end = '\0';
    len = (size_t)(end + 1 - control->line);
    wrong = dlt_words_split(control->line, &words);
    if (wrong != NULL) {
        (void)snprintf(answer, sizeof answer, "error %s", wrong);
        answer_send(control, answer);
    } else if (words.count > 0 && proxy_verb(proxy, control, &words, answer, sizeof answer)) {
        answer_send(control, answer);
    }
    control->used -= len;
    memmove(control->line, control->line + len, control->used);
    return true;
}

void proxy_control_ready(struct proxy *proxy, struct proxy_control *control)
{
    ssize_t got =
        read(control->in, control->line + control->used, sizeof control->line - control->used);

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        control_drop(proxy, control);
        return;
    }
    control->used += (size_t)got;
    while (line_do(proxy, control))
        continue;
    if (control->used == sizeof control->line) {
        answer_send(control, "error line too long");
        control_drop(proxy, control);
    }
}

static bool awaited_is_there(const struct proxy *proxy, const struct proxy_control *control)
{
    uint64_t value = 0;

    if (control->pending == PROXY_DELIVERS)
        return proxy->delivering == 0;
    (void)proxy_count(proxy, control->link, control->counter, &value);
    return control->relation == '=' ? value == control->count : value >= control->count;
}

void proxy_control_serve(struct proxy *proxy, int64_t now_ns)
{
    for (struct proxy_control *control = proxy->controls; control != NULL;
         control = control->next) {
        char answer[PROXY_LINE_MAX] = "ok";

        if (control->pending == PROXY_IDLE)
            continue;
        if (!awaited_is_there(proxy, control)) {
            if (now_ns < control->deadline_ns)
                continue;
            memcpy(answer, "error timeout ", sizeof "error timeout ");
            proxy_count_print(proxy, control->link, answer + strlen(answer),
                              sizeof answer - strlen(answer));
        }
        control->pending = PROXY_IDLE;
        answer_send(control, answer);
        while (line_do(proxy, control))
            continue;
    }
}

int64_t proxy_control_due(const struct proxy *proxy)
{
    int64_t due = PROXY_NEVER;

    for (const struct proxy_control *control = proxy->controls; control != NULL;
         control = control->next)
        if (control->pending != PROXY_IDLE && control->deadline_ns < due)
            due = control->deadline_ns;
    return due;
}
