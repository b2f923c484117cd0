/* SPDX-License-Identifier: MIT */
/*
 * What a plugin says of itself is refused, with a reason, or is whole: the slots that its
 * capabilities need are there, and no others. Bytes choose what each member points to.
 */
#include "fuzz.h"
#include "load/abi.h"

#include <stdbool.h>
#include <string.h>

enum { PLAIN, WAITS, WATCHES, QUEUES, STRATEGIES, REFUSED };

struct fuzz_goal fuzz_goals[] = {[PLAIN] = {"a plugin without a way to wait", 0},
                                 [WAITS] = {"one that waits", 0},
                                 [WATCHES] = {"one that watches", 0},
                                 [QUEUES] = {"one with a queue", 0},
                                 [STRATEGIES] = {"one with strategies", 0},
                                 [REFUSED] = {"one that is refused", 0},
                                 {NULL, 0}};

struct stock {
    char text[6][12]; /* names that the input writes */
    const char *schemes[4];
    struct dlock_option_spec options[3];
    struct dlock_backend_ops ops;
    struct dlock_strategy strategies[3];
    struct dlock_plugin plugin;
};

static void nothing(void)
{
}

/* NULL, one of the texts, or one that is right. */
static const char *text_choose(struct fuzz_input *input, struct stock *stock)
{
    static const char *const right[] = {"x",   "fuzz",     "1.0",  "on",   "0..9", "",
                                        "int", "duration", "bool", "enum", "a|b",  "text"};
    uint8_t which = fuzz_byte(input) % 19;

    if (which == 0)
        return NULL;
    return which < 7 ? stock->text[which - 1] : right[which - 7];
}

static void texts_fill(struct fuzz_input *input, struct stock *stock)
{
    for (size_t i = 0; i < sizeof stock->text / sizeof stock->text[0]; i++) {
        size_t len = fuzz_byte(input) % sizeof stock->text[0];

        for (size_t k = 0; k < len; k++)
            stock->text[i][k] = (char)fuzz_byte(input);
        stock->text[i][sizeof stock->text[0] - 1] = '\0';
    }
}

/* The slots are pointers to functions, of one size, from `open` to the end. The input has a byte
 * for each slot that there may ever be, so that a new slot leaves the corpus valid. */
static void slots_fill(struct fuzz_input *input, struct dlock_backend_ops *ops)
{
    enum { SLOTS_MOST = 32 };
    unsigned char *slots = (unsigned char *)ops + offsetof(struct dlock_backend_ops, open);
    void (*fn)(void) = nothing;
    size_t n = (sizeof *ops - offsetof(struct dlock_backend_ops, open)) / sizeof fn;

    _Static_assert(sizeof *ops <= offsetof(struct dlock_backend_ops, open) + SLOTS_MOST * sizeof fn,
                   "more slots than the input has bytes for");
    for (size_t i = 0; i < SLOTS_MOST; i++)
        if (fuzz_byte(input) % 4 != 0 && i < n)
            memcpy(slots + i * sizeof fn, &fn, sizeof fn);
}

static uint32_t near(struct fuzz_input *input, size_t right)
{
    static const int shifts[] = {0, 0, 0, 0, 0, 0, -8, 8, -1, 1, -64, 64};
    uint8_t which = fuzz_byte(input);

    if (which > 250)
        return UINT32_MAX - which;
    return (uint32_t)((int64_t)right + shifts[which % (sizeof shifts / sizeof shifts[0])]);
}

static void stock_fill(struct fuzz_input *input, struct stock *stock)
{
    texts_fill(input, stock);
    for (size_t i = 0; i < 3; i++)
        stock->schemes[i] = text_choose(input, stock);
    for (size_t i = 0; i < 2; i++) {
        stock->options[i].name = text_choose(input, stock);
        stock->options[i].type = text_choose(input, stock);
        stock->options[i].range = text_choose(input, stock);
        stock->options[i].fallback = text_choose(input, stock);
        stock->options[i].help = text_choose(input, stock);
    }
    slots_fill(input, &stock->ops);
    stock->ops.struct_size = near(input, sizeof stock->ops);
    stock->ops.session_size = near(input, 64);
    stock->ops.attempt_size = near(input, 64);
    stock->plugin = (struct dlock_plugin){
        .magic = near(input, DLOCK_PLUGIN_MAGIC),
        .abi_major = near(input, DLOCK_PLUGIN_ABI_MAJOR),
        .abi_minor = fuzz_byte(input),
        .struct_size = near(input, sizeof stock->plugin),
        .caps = (uint32_t)fuzz_byte(input) | (uint32_t)fuzz_byte(input) << 8,
        .name = text_choose(input, stock),
        .version = text_choose(input, stock),
        .schemes = fuzz_byte(input) % 8 != 0 ? stock->schemes : NULL,
        .options = fuzz_byte(input) % 2 != 0 ? stock->options : NULL,
        .ops = fuzz_byte(input) % 16 != 0 ? &stock->ops : NULL,
    };
}

/* Inputs of before there were strategies end before this: they have none. */
static void strategies_fill(struct fuzz_input *input, struct stock *stock)
{
    if (fuzz_byte(input) % 2 == 0)
        return;
    for (size_t i = 0; i < 2; i++) {
        stock->strategies[i].name = text_choose(input, stock);
        stock->strategies[i].caps = stock->plugin.caps;
        stock->strategies[i].ops = stock->plugin.ops;
    }
    stock->plugin.strategies = stock->strategies;
    if (fuzz_byte(input) % 8 != 0)
        stock->plugin.caps = 0;
    if (fuzz_byte(input) % 8 != 0)
        stock->plugin.ops = NULL;
}

static bool has(const struct dl_plugin *plugin, uint64_t cap)
{
    return (plugin->caps & cap) != 0;
}

static void whole(const struct dl_plugin *plugin)
{
    const struct dlock_backend_ops *ops = &plugin->ops;

    FUZZ_CHECK(ops->open != NULL && ops->close != NULL && ops->trylock != NULL &&
                   ops->renew != NULL && ops->unlock != NULL,
               "a slot is missing");
    FUZZ_CHECK(has(plugin, DLOCK_CAP_NATIVE_WAIT) == (ops->lock != NULL), "lock");
    FUZZ_CHECK(has(plugin, DLOCK_CAP_WATCH) == (ops->watch != NULL), "watch");
    FUZZ_CHECK(has(plugin, DLOCK_CAP_QUEUE) == (ops->dequeue != NULL), "dequeue");
    FUZZ_CHECK(!has(plugin, DLOCK_CAP_QUEUE) || has(plugin, DLOCK_CAP_WATCH), "a queue unwatched");
    FUZZ_CHECK(!has(plugin, DLOCK_CAP_TETHERED) || !has(plugin, DLOCK_CAP_SESSION), "tethered");
    FUZZ_CHECK((ops->lock == NULL && ops->watch == NULL) || ops->interrupt != NULL, "interrupt");
    fuzz_goals[PLAIN].reached += ops->interrupt == NULL;
    fuzz_goals[WAITS].reached += ops->lock != NULL;
    fuzz_goals[WATCHES].reached += ops->watch != NULL;
    fuzz_goals[QUEUES].reached += ops->dequeue != NULL;
    FUZZ_CHECK(plugin->options != NULL && plugin->schemes[0] != NULL && plugin->name != NULL,
               "no options, schemes or name");
}

static void each_whole(const struct dl_plugin *plugin)
{
    for (const struct dlock_strategy *s = plugin->strategies; s->name != NULL; s++) {
        struct dl_plugin chosen;

        dl_abi_choose(plugin, s->name, &chosen);
        whole(&chosen);
        fuzz_goals[STRATEGIES].reached++;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct stock stock;
    struct dl_plugin plugin;
    enum dlock_status status;

    memset(&stock, 0, sizeof stock);
    memset(&plugin, 0x55, sizeof plugin);
    stock_fill(&input, &stock);
    strategies_fill(&input, &stock);
    status = dl_abi_check(&stock.plugin, "fuzz", &plugin, &err);
    FUZZ_CHECK(status == DLOCK_OK || status == DLOCK_PLUGIN_ABI, "%d", (int)status);
    fuzz_goals[REFUSED].reached += status != DLOCK_OK;
    if (status == DLOCK_OK && plugin.strategies != NULL)
        each_whole(&plugin);
    else if (status == DLOCK_OK)
        whole(&plugin);
    else
        FUZZ_CHECK(strncmp(err.message, "fuzz: ", 6) == 0, "\"%s\"", err.message);
    return 0;
}
