/* SPDX-License-Identifier: MIT */
#include "many.h"
#include "session/slot.h"
#include "sys/error.h"

bool dlt_many_applies(const struct dlt_side *side)
{
    return side->plugin->ops.trylock_batch != NULL && side->plugin->ops.unlock_batch != NULL &&
           !dlt_side_has(side, DLOCK_CAP_SESSION);
}

void dlt_many_begin(struct dlt_many *many, const struct dlt_run *run, const struct dlt_side *side,
                    size_t n, const char *suffix, bool only_one)
{
    DLT_CHECK(n <= DLT_MANY_MOST, "%zu elements, and there is room for %d", n, DLT_MANY_MOST);
    many->n = n;
    for (size_t i = 0; i < n; i++) {
        char text[64];

        (void)snprintf(text, sizeof text, only_one ? "%s" : "%s%zu", suffix, i);
        dlt_attempt_begin(&many->attempts[i], run, side, text, 60000);
        many->ops[i] = &many->elements[i];
    }
}

void dlt_many_end(struct dlt_many *many, struct dlt_side *side)
{
    for (size_t i = 0; i < many->n; i++)
        dlt_attempt_end(&many->attempts[i], side, true);
}

static void elements_fill(struct dlt_many *many, const struct dlt_side *side)
{
    for (size_t i = 0; i < many->n; i++) {
        struct dlock_request *req = &many->attempts[i].req;

        req->deadline_ns = dlt_now_ns() + side->call_ms * DLT_NS_PER_MS;
        req->op_timeout_ms = side->call_ms;
        many->errors[i] = (struct dlock_error)DLOCK_ERROR_INIT;
        many->elements[i] = (struct dlock_batch_op){.struct_size = sizeof many->elements[i],
                                                    .status = DLOCK_INTERNAL,
                                                    .req = req,
                                                    .err = &many->errors[i]};
        many->elements[i].grant = (struct dlock_grant){
            .struct_size = sizeof(struct dlock_grant), .waiters = UINT32_MAX, .holder_ms = -1};
    }
}

static void call(struct dlt_many *many, struct dlt_side *side, bool unlocks)
{
    enum dlock_status status;

    dl_error_reset(&side->err);
    elements_fill(many, side);
    status = unlocks
                 ? dl_slot_unlock_batch(side->plugin, side->self, many->ops, many->n, &side->err)
                 : dl_slot_trylock_batch(side->plugin, side->self, many->ops, many->n, &side->err);
    for (size_t i = 0; i < many->n; i++) {
        struct dlock_batch_op *element = &many->elements[i];

        if (status != DLOCK_OK)
            element->status = status;
        DLT_CHECK(element->status == DLOCK_OK || element->status == DLOCK_BUSY ||
                      element->status == DLOCK_LOST || status != DLOCK_OK ||
                      many->errors[i].message[0] != '\0',
                  "an element is %s, without a text", dlock_status_name((int)element->status));
    }
}

void dlt_many_try(struct dlt_many *many, struct dlt_side *side)
{
    call(many, side, false);
}

void dlt_many_unlock(struct dlt_many *many, struct dlt_side *side)
{
    call(many, side, true);
}

void dlt_many_is(const struct dlt_many *many, size_t i, enum dlock_status want, const char *when)
{
    DLT_CHECK(many->elements[i].status == want,
              "element %zu of %zu, %s, is %s%s%s, want %s [BAT-1]", i, many->n, when,
              dlock_status_name((int)many->elements[i].status),
              many->errors[i].message[0] != '\0' ? ": " : "", many->errors[i].message,
              dlock_status_name((int)want));
}

void dlt_many_are(const struct dlt_many *many, enum dlock_status want, const char *when)
{
    for (size_t i = 0; i < many->n; i++)
        dlt_many_is(many, i, want, when);
}

size_t dlt_many_count(const struct dlt_many *many, enum dlock_status status)
{
    size_t count = 0;

    for (size_t i = 0; i < many->n; i++)
        count += many->elements[i].status == status;
    return count;
}
