/* SPDX-License-Identifier: MIT */
/* The words of the control channel; README.md lists them. */
#include "proxy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DELIVER_MS 5000 /* bound on the wait of `deliver` for its frames to be written */

/* A line, taken apart. */
struct request {
    struct proxy *proxy;
    struct proxy_control *control;
    size_t count;
    const char *word[8]; /* the positional ones, from behind the verb */
    uint64_t link;       /* conn=; 0: all */
    const char *match;   /* match= */
    size_t match_len;
    const char *until; /* until=DIR:N */
};

/* NULL: done; "": the answer follows later; else what is wrong. */
typedef const char *verb_fn(struct request *request);

static const char later[] = "";

static bool dir_parse(const char *text, enum proxy_dir *out)
{
    *out = strcmp(text, "s2c") == 0 ? PROXY_S2C : PROXY_C2S;
    return *out == PROXY_S2C || strcmp(text, "c2s") == 0;
}

/* Gives the order to one direction, or to both. */
static const char *order_give(struct request *request, const char *dir, struct proxy_order order)
{
    bool both = strcmp(dir, "both") == 0;

    order.link = request->link;
    if (!both && !dir_parse(dir, &order.dir))
        return "want c2s, s2c or both";
    if (both)
        order.dir = PROXY_C2S;
    if (!proxy_order_give(request->proxy, &order))
        return "too many orders: pass ends them";
    order.dir = PROXY_S2C;
    return !both || proxy_order_give(request->proxy, &order) ? NULL
                                                             : "too many orders: pass ends them";
}

static bool ms_parse(const char *text, int64_t *ns)
{
    uint64_t ms = 0;

    if (!dlt_number_parse(text, 3600000, &ms))
        return false;
    *ns = (int64_t)ms * PROXY_NS_PER_MS;
    return true;
}

static const char *verb_pass(struct request *request)
{
    const char *text = request->count > 0 ? request->word[0] : "both";
    enum proxy_dir dir = PROXY_C2S;

    if (strcmp(text, "both") == 0) {
        proxy_orders_end(request->proxy, request->link, PROXY_C2S);
        proxy_orders_end(request->proxy, request->link, PROXY_S2C);
        return NULL;
    }
    if (!dir_parse(text, &dir))
        return "want c2s, s2c or both";
    proxy_orders_end(request->proxy, request->link, dir);
    return NULL;
}

static const char *verb_blackhole(struct request *request)
{
    return order_give(request, request->word[0],
                      (struct proxy_order){.kind = PROXY_ORDER_BLACKHOLE});
}

static const char *verb_delay(struct request *request)
{
    struct proxy_order order = {.kind = PROXY_ORDER_DELAY};

    if (!ms_parse(request->word[1], &order.ns))
        return "want milliseconds";
    return order_give(request, request->word[0], order);
}

static const char *verb_slice(struct request *request)
{
    struct proxy_order order = {.kind = PROXY_ORDER_SLICE};

    if (!dlt_number_parse(request->word[1], UINT32_MAX, &order.bytes) || order.bytes == 0 ||
        !ms_parse(request->word[2], &order.ns))
        return "want bytes and milliseconds";
    return order_give(request, request->word[0], order);
}

static bool cut_parse(const char *text, enum proxy_cut *out)
{
    static const char *const names[] = {"fin", "rst", "hang"};

    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum proxy_cut)i;
            return true;
        }
    }
    return false;
}

static const char *verb_cut(struct request *request)
{
    struct proxy_order order = {.kind = PROXY_ORDER_CUT};

    if (!dlt_number_parse(request->word[1], UINT64_MAX, &order.bytes) ||
        !cut_parse(request->word[2], &order.how))
        return "want bytes and fin, rst or hang";
    return order_give(request, request->word[0], order);
}

/* "+N", "N" or "*" */
static bool frame_parse(const char *text, struct proxy_rule *rule)
{
    if (strcmp(text, "*") == 0) {
        rule->every = true;
        return true;
    }
    rule->relative = text[0] == '+';
    return dlt_number_parse(text + rule->relative, UINT64_MAX, &rule->n) && rule->n > 0;
}

static bool until_parse(const char *text, struct proxy_rule *rule)
{
    char dir[4] = "";

    if (strlen(text) < 5 || text[3] != ':')
        return false;
    memcpy(dir, text, 3);
    return dir_parse(dir, &rule->until_dir) &&
           dlt_number_parse(text + 4, UINT64_MAX, &rule->until) && rule->until > 0;
}

static const char *rule_give(struct request *request, enum proxy_rule_kind kind)
{
    struct proxy_rule rule = {.kind = kind, .link = request->link};

    if (!dir_parse(request->word[0], &rule.dir) || !frame_parse(request->word[1], &rule))
        return "want c2s or s2c, and a frame: N, +N or *";
    if (request->until != NULL && (kind != PROXY_HOLD || !until_parse(request->until, &rule)))
        return "until= of hold wants DIR:N";
    if (request->match_len > sizeof rule.match)
        return "match= is too long";
    if (request->match_len > 0 && !rule.relative && !rule.every)
        return "match= wants +N or *";
    rule.match_len = request->match_len;
    if (rule.match_len > 0)
        memcpy(rule.match, request->match, rule.match_len);
    return proxy_rule_add(request->proxy, &rule) ? NULL : "no memory";
}

static const char *verb_hold(struct request *request)
{
    return rule_give(request, PROXY_HOLD);
}

static const char *verb_drop(struct request *request)
{
    return rule_give(request, PROXY_DROP);
}

static const char *verb_deliver(struct request *request)
{
    for (struct proxy_link *link = request->proxy->links; link != NULL; link = link->next) {
        if (request->link != 0 && request->link != link->number)
            continue;
        for (int dir = 0; dir < 2; dir++)
            for (struct proxy_frame *f = link->pipe[dir].first; f != NULL; f = f->next)
                if (f->held)
                    proxy_frame_release(request->proxy, &link->pipe[dir], f, true);
    }
    request->control->pending = PROXY_DELIVERS;
    request->control->deadline_ns = proxy_now() + DELIVER_MS * PROXY_NS_PER_MS;
    return later;
}

static const char *verb_kill(struct request *request)
{
    enum proxy_cut how = PROXY_CUT_FIN;

    if (!cut_parse(request->word[0], &how) || how == PROXY_CUT_HANG)
        return "want fin or rst";
    for (struct proxy_link *link = request->proxy->links; link != NULL; link = link->next) {
        if (request->link != 0 && request->link != link->number)
            continue;
        request->proxy->killed += !link->closed;
        proxy_link_close(request->proxy, link, how == PROXY_CUT_RST);
    }
    return NULL;
}

static const char *verb_accept(struct request *request)
{
    static const char *const names[] = {"on", "pause", "hang", "refuse"};

    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(request->word[0], names[i]) != 0)
            continue;
        return proxy_door_set(&request->proxy->door, (enum proxy_door_mode)i) ? NULL
                                                                              : strerror(errno);
    }
    return "want on, pause, hang or refuse";
}

/* await NAME>=N MS, await NAME=N MS */
static const char *verb_await(struct request *request)
{
    struct proxy_control *control = request->control;
    const char *text = request->word[0], *relation = strpbrk(text, ">=");
    uint64_t value = 0;
    int64_t wait_ns = 0;
    size_t len;

    if (relation == NULL || (size_t)(relation - text) >= sizeof control->counter)
        return "want NAME>=N or NAME=N";
    len = (size_t)(relation - text);
    memcpy(control->counter, text, len);
    control->counter[len] = '\0';
    control->relation = relation[0];
    if (relation[0] == '>' && relation[1] != '=')
        return "want NAME>=N or NAME=N";
    if (!dlt_number_parse(relation + 1 + (relation[0] == '>'), UINT64_MAX, &control->count) ||
        !ms_parse(request->word[1], &wait_ns))
        return "want a number, and milliseconds";
    if (!proxy_count(request->proxy, request->link, control->counter, &value))
        return "no such counter";
    control->link = request->link;
    control->pending = PROXY_AWAITS;
    control->deadline_ns = proxy_now() + wait_ns;
    return later;
}

static const char *verb_quit(struct request *request)
{
    request->proxy->quit = true;
    return NULL;
}

/* Options are left in place, positional words gathered. NULL: fine. */
static const char *request_read(struct request *request, const struct dlt_words *words)
{
    for (size_t i = 1; i < words->count; i++) {
        const char *word = words->at[i];

        if (strncmp(word, "conn=", 5) == 0) {
            if (!dlt_number_parse(word + 5, UINT64_MAX, &request->link) || request->link == 0)
                return "conn= wants a number from 1";
        } else if (strncmp(word, "match=", 6) == 0) {
            request->match = word + 6;
            request->match_len = words->len[i] - 6;
        } else if (strncmp(word, "until=", 6) == 0) {
            request->until = word + 6;
        } else if (request->count < sizeof request->word / sizeof request->word[0]) {
            request->word[request->count++] = word;
        }
    }
    return NULL;
}

bool proxy_verb(struct proxy *proxy, struct proxy_control *control, struct dlt_words *words,
                char *answer, size_t size)
{
    static const struct {
        const char *name;
        verb_fn *fn;
        size_t least, most; /* words behind it */
    } verbs[] = {
        {"pass", verb_pass, 0, 1},   {"blackhole", verb_blackhole, 1, 1},
        {"delay", verb_delay, 2, 2}, {"slice", verb_slice, 3, 3},
        {"cut", verb_cut, 3, 3},     {"hold", verb_hold, 2, 2},
        {"drop", verb_drop, 2, 2},   {"deliver", verb_deliver, 0, 0},
        {"kill", verb_kill, 1, 1},   {"accept", verb_accept, 1, 1},
        {"await", verb_await, 2, 2}, {"quit", verb_quit, 0, 0},
    };
    struct request request = {.proxy = proxy, .control = control};
    const char *wrong = request_read(&request, words);

    if (wrong == NULL && strcmp(words->at[0], "stats") == 0 && request.count == 0) {
        memcpy(answer, "ok ", 4);
        proxy_count_print(proxy, request.link, answer + 3, size - 3);
        return true;
    }
    for (size_t i = 0; wrong == NULL; i++) {
        if (i == sizeof verbs / sizeof verbs[0]) {
            wrong = "unknown verb";
        } else if (strcmp(words->at[0], verbs[i].name) == 0) {
            wrong = "wrong number of words";
            if (request.count >= verbs[i].least && request.count <= verbs[i].most)
                wrong = verbs[i].fn(&request);
            break;
        }
    }
    (void)snprintf(answer, size, wrong == NULL ? "ok" : "error %s", wrong);
    return wrong != later;
}
