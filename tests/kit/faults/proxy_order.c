/* SPDX-License-Identifier: MIT */
/* What was ordered, for pipes as a whole (orders) and for single frames (rules). */
#include "proxy.h"

#include <stdlib.h>
#include <string.h>

static bool meets(uint64_t wanted, uint64_t link)
{
    return wanted == 0 || wanted == link;
}

static void order_apply(struct proxy *proxy, const struct proxy_order *order,
                        struct proxy_link *link)
{
    struct proxy_pipe *pipe = &link->pipe[order->dir];
    struct proxy_shape *shape = &pipe->shape;

    proxy->again = true;
    switch (order->kind) {
    case PROXY_ORDER_PASS:
        memset(shape, 0, sizeof *shape);
        for (struct proxy_frame *frame = pipe->first; frame != NULL; frame = frame->next)
            frame->due_ns = 0;
        pipe->next_write_ns = 0;
        break;
    case PROXY_ORDER_BLACKHOLE:
        shape->blackhole = true;
        break;
    case PROXY_ORDER_DELAY:
        shape->delay_ns = order->ns;
        break;
    case PROXY_ORDER_SLICE:
        shape->slice = order->bytes;
        shape->slice_gap_ns = order->ns;
        break;
    case PROXY_ORDER_CUT:
        shape->cuts = true;
        shape->cut_left = order->bytes;
        shape->cut_how = order->how;
        break;
    }
}

static void order_apply_all(struct proxy *proxy, const struct proxy_order *order)
{
    for (struct proxy_link *link = proxy->links; link != NULL; link = link->next)
        if (!link->closed && meets(order->link, link->number))
            order_apply(proxy, order, link);
}

bool proxy_order_give(struct proxy *proxy, const struct proxy_order *order)
{
    if (proxy->orders == PROXY_ORDERS_MAX)
        return false;
    proxy->order[proxy->orders++] = *order;
    order_apply_all(proxy, order);
    return true;
}

void proxy_orders_apply(struct proxy *proxy, struct proxy_link *link)
{
    for (size_t i = 0; i < proxy->orders; i++)
        if (meets(proxy->order[i].link, link->number))
            order_apply(proxy, &proxy->order[i], link);
}

static void held_release(struct proxy *proxy, uint64_t number, enum proxy_dir dir)
{
    for (struct proxy_link *link = proxy->links; link != NULL; link = link->next) {
        if (!meets(number, link->number))
            continue;
        for (struct proxy_frame *f = link->pipe[dir].first; f != NULL; f = f->next)
            if (f->held)
                proxy_frame_release(proxy, &link->pipe[dir], f, false);
    }
}

void proxy_orders_end(struct proxy *proxy, uint64_t link, enum proxy_dir dir)
{
    struct proxy_order pass = {.link = link, .dir = dir, .kind = PROXY_ORDER_PASS};
    struct proxy_rule **at = &proxy->rules;
    size_t kept = 0;

    for (size_t i = 0; i < proxy->orders; i++)
        if (proxy->order[i].dir != dir || !meets(link, proxy->order[i].link))
            proxy->order[kept++] = proxy->order[i];
    proxy->orders = kept;
    while (*at != NULL) {
        struct proxy_rule *rule = *at;

        if (rule->dir != dir || !meets(link, rule->link)) {
            at = &rule->next;
            continue;
        }
        *at = rule->next;
        free(rule);
    }
    held_release(proxy, link, dir);
    order_apply_all(proxy, &pass);
    /* An order to every link would come back for this one, were it yet to come. */
    if (link > proxy->accepted && proxy->orders < PROXY_ORDERS_MAX)
        proxy->order[proxy->orders++] = pass;
}

bool proxy_rule_add(struct proxy *proxy, const struct proxy_rule *rule)
{
    struct proxy_rule *copy = malloc(sizeof *copy), **at = &proxy->rules;

    if (copy == NULL)
        return false;
    *copy = *rule;
    copy->next = NULL;
    while (*at != NULL)
        at = &(*at)->next;
    *at = copy;
    return true;
}

static bool rule_matches(struct proxy_rule *rule, uint64_t seen, const struct proxy_frame *frame)
{
    if (rule->match_len > 0 &&
        memmem(frame->bytes, frame->len, rule->match, rule->match_len) == NULL)
        return false;
    if (rule->every)
        return true;
    return rule->relative ? --rule->n == 0 : rule->n == seen;
}

bool proxy_rule_take(struct proxy *proxy, uint64_t link, enum proxy_dir dir, uint64_t seen,
                     const struct proxy_frame *frame, struct proxy_rule *out)
{
    struct proxy_rule **at = &proxy->rules;

    while (*at != NULL) {
        struct proxy_rule *rule = *at;

        if (rule->dir != dir || !meets(rule->link, link) || !rule_matches(rule, seen, frame)) {
            at = &rule->next;
            continue;
        }
        *out = *rule;
        if (!rule->every && (rule->relative || rule->link != 0)) {
            *at = rule->next;
            free(rule);
        }
        return true;
    }
    return false;
}

void proxy_rules_free(struct proxy *proxy)
{
    while (proxy->rules != NULL) {
        struct proxy_rule *rule = proxy->rules;

        proxy->rules = rule->next;
        free(rule);
    }
}

void proxy_until(struct proxy *proxy, const struct proxy_link *link, enum proxy_dir dir)
{
    for (struct proxy_link *other = proxy->links; other != NULL; other = other->next) {
        if (other == link || other->closed)
            continue;
        for (int i = 0; i < 2; i++)
            for (struct proxy_frame *f = other->pipe[i].first; f != NULL; f = f->next)
                if (f->held && f->until_dir == dir && f->until_left > 0 && --f->until_left == 0)
                    proxy_frame_release(proxy, &other->pipe[i], f, false);
    }
}
