/* SPDX-License-Identifier: MIT */
#include "fiber.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define STACK_SIZE (512 * 1024)
#else
#define STACK_SIZE (96 * 1024)
#endif
#define GUARD_SIZE 4096

/* A thread that is woken runs after this at most. */
#define WAKE_MOST_NS (40 * SIM_US)

struct sim_fiber {
    ucontext_t context;
    char *stack; /* with its guard */
    void *fake;  /* AddressSanitizer's */
    struct sim_host *host;
    sim_fn *fn;
    void *arg, *mark;
    uint32_t turn; /* rises with every block: what waits for an earlier one is void */
    bool blocked, woken, done, alone;
    struct sim_fiber *joiner, *next_free;
};

struct event {
    int64_t at_ns;
    uint64_t order;
    struct sim_fiber *fiber; /* NULL: fn */
    uint32_t turn;
    sim_fn *fn;
    void *arg;
};

static struct {
    int64_t now_ns;
    uint64_t random[2], order;
    const unsigned char *chosen; /* sim_set_chance */
    size_t chosen_left;
    struct event *heap;
    size_t count, room;
    struct sim_fiber *self, *free;
    unsigned alive;
    bool stop;
    ucontext_t main;
    void *main_fake;
    const void *main_stack;
    size_t main_size;
    unsigned yield_per_million;
    int64_t yield_most_ns;
    void (*watch)(struct sim_host *host);
} sim;

static void die(const char *what)
{
    (void)fprintf(stderr, "fiber.c: %s\n", what);
    abort();
}

/* ---- chance: xoroshiro128+ (Blackman and Vigna 2018), seeded by splitmix64 ---- */

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

uint64_t sim_random(void)
{
    uint64_t a = sim.random[0], b = sim.random[1], sum = a + b;

    b ^= a;
    sim.random[0] = rotate(a, 24) ^ b ^ b << 16;
    sim.random[1] = rotate(b, 37);
    return sum;
}

void sim_set_chance(const unsigned char *bytes, size_t size)
{
    sim.chosen = bytes;
    sim.chosen_left = size;
}

uint64_t sim_below(uint64_t n)
{
    if (sim.chosen_left >= 2 && n <= UINT32_MAX) {
        uint64_t chosen = (uint64_t)sim.chosen[0] << 8 | sim.chosen[1];

        sim.chosen += 2;
        sim.chosen_left -= 2;
        return chosen * n >> 16;
    }
    return (sim_random() >> 11) % n;
}

int64_t sim_between(int64_t least, int64_t most)
{
    return most <= least ? least : least + (int64_t)sim_below((uint64_t)(most - least + 1));
}

bool sim_chance(unsigned per_million)
{
    return per_million > 0 && sim_below(1000000) < per_million;
}

/* ---- what is due ---- */

static bool before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void push(struct event event)
{
    size_t at = sim.count;

    if (sim.count == sim.room) {
        size_t room = sim.room == 0 ? 256 : sim.room * 2;
        struct event *heap = realloc(sim.heap, room * sizeof *heap);

        if (heap == NULL)
            die("no memory");
        sim.heap = heap;
        sim.room = room;
    }
    sim.count++;
    event.order = sim.order++;
    while (at > 0 && before(&event, &sim.heap[(at - 1) / 2])) {
        sim.heap[at] = sim.heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim.heap[at] = event;
}

static struct event pop(void)
{
    struct event first = sim.heap[0], last = sim.heap[--sim.count];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < sim.count && before(&sim.heap[child + 1], &sim.heap[child]))
            child++;
        if (child >= sim.count || !before(&sim.heap[child], &last))
            break;
        sim.heap[at] = sim.heap[child];
        at = child;
    }
    if (sim.count > 0)
        sim.heap[at] = last;
    return first;
}

void sim_at(int64_t at_ns, sim_fn *fn, void *arg)
{
    push((struct event){.at_ns = at_ns < sim.now_ns ? sim.now_ns : at_ns, .fn = fn, .arg = arg});
}

static void due(struct sim_fiber *fiber, int64_t at_ns)
{
    push((struct event){.at_ns = at_ns, .fiber = fiber, .turn = fiber->turn});
}

/* ---- fibers ---- */

#if defined(__SANITIZE_ADDRESS__)
static void switching(void **fake, const void *stack, size_t size)
{
    __sanitizer_start_switch_fiber(fake, stack, size);
}

static void switched(void *fake, const void **stack, size_t *size)
{
    __sanitizer_finish_switch_fiber(fake, stack, size);
}
#else
static void switching(void **fake, const void *stack, size_t size)
{
    (void)fake, (void)stack, (void)size;
}

static void switched(void *fake, const void **stack, size_t *size)
{
    (void)fake, (void)stack, (void)size;
}
#endif

static void fiber_main(void)
{
    struct sim_fiber *self = sim.self;

    switched(NULL, &sim.main_stack, &sim.main_size);
    self->fn(self->arg);
    self->done = true;
    switching(NULL, sim.main_stack, sim.main_size);
    (void)setcontext(&sim.main);
}

static struct sim_fiber *fiber_get(void)
{
    struct sim_fiber *fiber = sim.free;
    uint32_t turn = 0;
    char *stack;

    if (fiber != NULL) {
        sim.free = fiber->next_free;
        stack = fiber->stack;
        turn = fiber->turn + 1; /* what is due for the former one is void */
    } else {
        fiber = malloc(sizeof *fiber);
        stack = mmap(NULL, GUARD_SIZE + STACK_SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (fiber == NULL || stack == MAP_FAILED || mprotect(stack, GUARD_SIZE, PROT_NONE) != 0)
            die("no memory");
    }
    *fiber = (struct sim_fiber){.stack = stack, .turn = turn};
    return fiber;
}

static void fiber_put(struct sim_fiber *fiber)
{
    fiber->next_free = sim.free;
    sim.free = fiber;
}

struct sim_fiber *sim_fiber_start(struct sim_host *host, bool alone, sim_fn *fn, void *arg)
{
    struct sim_fiber *fiber = fiber_get();

    fiber->host = host;
    fiber->fn = fn;
    fiber->arg = arg;
    fiber->alone = alone;
    fiber->blocked = true;
    (void)getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack + GUARD_SIZE;
    fiber->context.uc_stack.ss_size = STACK_SIZE;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, fiber_main, 0);
    sim.alive++;
    due(fiber, sim.now_ns + sim_between(1, WAKE_MOST_NS));
    return fiber;
}

void sim_fiber_join(struct sim_fiber *fiber)
{
    while (!fiber->done) {
        fiber->joiner = sim.self;
        (void)sim_block(SIM_NEVER);
    }
    fiber_put(fiber);
}

struct sim_fiber *sim_fiber_self(void)
{
    return sim.self;
}

struct sim_host *sim_fiber_host(const struct sim_fiber *fiber)
{
    return fiber->host;
}

unsigned sim_fibers(void)
{
    return sim.alive;
}

void *sim_fiber_mark(const struct sim_fiber *fiber)
{
    return fiber->mark;
}

void sim_fiber_set_mark(struct sim_fiber *fiber, void *mark)
{
    fiber->mark = mark;
}

bool sim_block(int64_t until_ns)
{
    struct sim_fiber *self = sim.self;

    self->turn++;
    self->blocked = true;
    self->woken = false;
    if (until_ns != SIM_NEVER)
        due(self, until_ns < sim.now_ns ? sim.now_ns : until_ns);
    switching(&self->fake, sim.main_stack, sim.main_size);
    (void)swapcontext(&self->context, &sim.main);
    switched(self->fake, &sim.main_stack, &sim.main_size);
    return self->woken;
}

void sim_wake(struct sim_fiber *fiber)
{
    if (!fiber->blocked || fiber->woken)
        return;
    fiber->woken = true;
    fiber->turn++; /* its time limit, if any, is void */
    due(fiber, sim.now_ns + sim_between(1, WAKE_MOST_NS));
}

void sim_pause(int64_t ns)
{
    (void)sim_block(sim.now_ns + ns);
}

void sim_yield(void)
{
    if (sim.self != NULL && sim_chance(sim.yield_per_million))
        sim_pause(sim_between(1, sim.yield_most_ns));
}

void sim_set_yield(unsigned per_million, int64_t most_ns)
{
    sim.yield_per_million = per_million;
    sim.yield_most_ns = most_ns;
}

void sim_set_watch(void (*watch)(struct sim_host *host))
{
    sim.watch = watch;
}

/* What it waited for is over. */
static bool is_void(const struct event *event)
{
    const struct sim_fiber *fiber = event->fiber;

    return fiber != NULL && (fiber->turn != event->turn || !fiber->blocked || fiber->done);
}

static void fiber_over(struct sim_fiber *fiber)
{
    sim.alive--;
    if (fiber->joiner != NULL)
        sim_wake(fiber->joiner);
    if (fiber->alone)
        fiber_put(fiber);
}

static void fiber_resume(struct event *event)
{
    struct sim_fiber *fiber = event->fiber;

    if (fiber->host != NULL && fiber->host->cont_ns > sim.now_ns) {
        event->at_ns = fiber->host->cont_ns + sim_between(0, WAKE_MOST_NS);
        push(*event);
        return;
    }
    fiber->blocked = false;
    sim.self = fiber;
    switching(&sim.main_fake, fiber->stack + GUARD_SIZE, STACK_SIZE);
    (void)swapcontext(&sim.main, &fiber->context);
    switched(sim.main_fake, NULL, NULL);
    sim.self = NULL;
    if (sim.watch != NULL && fiber->host != NULL)
        sim.watch(fiber->host);
    if (fiber->done)
        fiber_over(fiber);
}

/* ---- a run ---- */

void sim_begin(uint64_t seed, int64_t start_ns)
{
    sim.random[0] = splitmix(&seed);
    sim.random[1] = splitmix(&seed);
    sim.now_ns = start_ns;
    sim.order = 0;
    sim.count = 0;
    sim.alive = 0;
    sim.stop = false;
}

void sim_run(void)
{
    while (sim.count > 0 && !sim.stop) {
        struct event event = pop();

        if (is_void(&event))
            continue;
        if (event.at_ns > sim.now_ns)
            sim.now_ns = event.at_ns;
        if (event.fiber == NULL)
            event.fn(event.arg);
        else
            fiber_resume(&event);
    }
}

void sim_stop(void)
{
    sim.stop = true;
}

int64_t sim_now(void)
{
    return sim.now_ns;
}

void sim_end(void)
{
    while (sim.free != NULL) {
        struct sim_fiber *fiber = sim.free;

        sim.free = fiber->next_free;
        (void)munmap(fiber->stack, GUARD_SIZE + STACK_SIZE);
        free(fiber);
    }
    free(sim.heap);
    sim.heap = NULL;
    sim.count = sim.room = 0;
}
