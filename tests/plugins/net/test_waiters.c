/* SPDX-License-Identifier: MIT */
/* Tests: plugins/net/waiters.c */
/* Of the threads that wait one reads, and another one takes its place when it ends. */
#include "net/waiters.h"
#include "ruler.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define S_NS  INT64_C(1000000000)
#define MS_NS INT64_C(1000000)

static int64_t now(void)
{
    return dlt_ruler_now_ns();
}

static struct waiters waiters;
static struct waiter first, second;
static const unsigned char tokens[2][DLOCK_TOKEN_SIZE] = {"first", "second"};

static void setup(void)
{
    cr_assert(waiters_init(&waiters));
    (void)pthread_mutex_lock(&waiters.mutex);
    waiters_add_locked(&waiters, &first, tokens[0]);
    waiters_add_locked(&waiters, &second, tokens[1]);
    first.watching = second.watching = true;
    (void)pthread_mutex_unlock(&waiters.mutex);
}

static void teardown(void)
{
    waiters_fini(&waiters);
}

TestSuite(waiters, .init = setup, .fini = teardown, .timeout = 60);

Test(waiters, are_found_by_their_tokens)
{
    static const unsigned char stranger[DLOCK_TOKEN_SIZE] = {"third"};

    (void)pthread_mutex_lock(&waiters.mutex);
    cr_assert_eq(waiters_find_locked(&waiters, tokens[0]), &first);
    cr_assert_eq(waiters_find_locked(&waiters, tokens[1]), &second);
    cr_assert_null(waiters_find_locked(&waiters, stranger));
    waiters_remove_locked(&first);
    cr_assert_null(waiters_find_locked(&waiters, tokens[0]));
    cr_assert_eq(waiters_find_locked(&waiters, tokens[1]), &second);
    (void)pthread_mutex_unlock(&waiters.mutex);
}

Test(waiters, that_are_left_at_the_end_belong_to_no_list)
{
    struct waiters other = {.wake_fd = -1};
    struct waiter left = {.leading = false};

    cr_assert(waiters_init(&other));
    (void)pthread_mutex_lock(&other.mutex);
    waiters_add_locked(&other, &left, tokens[0]);
    (void)pthread_mutex_unlock(&other.mutex);
    waiters_fini(&other);
    cr_assert_null(left.list);
}

/* Sleeps as the second waiter does, until it leads. */
static void *follow(void *arg)
{
    int64_t *led_ns = arg;

    (void)pthread_mutex_lock(&waiters.mutex);
    while (!waiters_lead_or_sleep_locked(&second, 20 * S_NS))
        ;
    *led_ns = now();
    waiters_led_locked(&second);
    (void)pthread_mutex_unlock(&waiters.mutex);
    return NULL;
}

/* A sleep lasts a second at most, so that a lost hand-over would show as a second. */
Test(waiters, one_leads_and_hands_over)
{
    pthread_t thread;
    int64_t led_ns = 0, start_ns = 0, best_ns = S_NS;

    for (int i = 0; i < 5; i++) {
        (void)pthread_mutex_lock(&waiters.mutex);
        cr_assert(waiters_lead_or_sleep_locked(&first, S_NS));
        cr_assert_not(waiters_lead_locked(&waiters), "two leaders");
        (void)pthread_mutex_unlock(&waiters.mutex);
        cr_assert_eq(pthread_create(&thread, NULL, follow, &led_ns), 0);
        (void)usleep(50000);
        (void)pthread_mutex_lock(&waiters.mutex);
        cr_assert_eq(led_ns, 0, "the second one leads beside the first one");
        waiters_led_locked(&first);
        first.watching = false;
        start_ns = now();
        waiters_hand_over_locked(&waiters);
        (void)pthread_mutex_unlock(&waiters.mutex);
        (void)pthread_join(thread, NULL);
        if (led_ns - start_ns < best_ns)
            best_ns = led_ns - start_ns;
        led_ns = 0;
        first.watching = true;
    }
    cr_assert_lt(best_ns, 500 * MS_NS, "the lead was not handed over");
}

Test(waiters, that_have_no_time_left_do_not_lead)
{
    (void)pthread_mutex_lock(&waiters.mutex);
    cr_assert_not(waiters_lead_or_sleep_locked(&first, 0));
    cr_assert(waiters_lead_locked(&waiters), "somebody leads");
    (void)pthread_mutex_unlock(&waiters.mutex);
}

static void *interrupt(void *arg)
{
    (void)arg;
    (void)usleep(20000);
    (void)pthread_mutex_lock(&waiters.mutex);
    waiters_wake_locked(&first, true);
    (void)pthread_mutex_unlock(&waiters.mutex);
    return NULL;
}

Test(waiters, the_leader_is_woken_for_an_interrupt_or_by_what_it_reads)
{
    const int64_t start_ns = now();
    pthread_t thread;
    int ends[2];

    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    (void)pthread_mutex_lock(&waiters.mutex);
    cr_assert(waiters_lead_or_sleep_locked(&first, 20 * S_NS));
    (void)pthread_mutex_unlock(&waiters.mutex);
    cr_assert_eq(pthread_create(&thread, NULL, interrupt, NULL), 0);
    cr_assert_not(waiters_await(&waiters, ends[0], 20 * S_NS), "nothing has arrived");
    (void)pthread_join(thread, NULL);
    cr_assert(dlt_took_within((now() - start_ns) / 1000000, 900), "it has slept to the end: %s",
              dlt_within_text());
    cr_assert_eq(write(ends[1], "x", 1), 1);
    cr_assert(waiters_await(&waiters, ends[0], 20 * S_NS), "what has arrived does not count");
    cr_assert_not(waiters_await(&waiters, -1, 1), "an old wake-up counts twice");
    (void)close(ends[0]);
    (void)close(ends[1]);
}

Test(waiters, a_child_of_a_fork_has_no_descriptor)
{
    const int fd = waiters.wake_fd;

    waiters_after_fork(&waiters);
    cr_assert_eq(waiters.wake_fd, -1);
    cr_assert_eq(fcntl(fd, F_GETFD), -1);
    cr_assert_eq(errno, EBADF);
}

/* Attempts without threads: what wakes them is told once, by their numbers (ANY-1, ANY-2). */
Test(waiters, with_numbers_are_news_until_they_ask_or_go)
{
    uint32_t numbers[2] = {0, 0};

    (void)pthread_mutex_lock(&waiters.mutex);
    first.watching = second.watching = false;
    first.number = 1;
    second.number = 2;
    waiters_wake_locked(&first, false);
    waiters_wake_locked(&first, false);
    cr_assert_eq(waiters_news_take_locked(&waiters, numbers, 2), 1, "once");
    cr_assert_eq(numbers[0], 1);
    cr_assert_eq(waiters_news_take_locked(&waiters, numbers, 2), 0);
    waiters_wake_locked(&first, false);
    waiters_wake_locked(&second, false);
    cr_assert_eq(waiters_news_take_locked(&waiters, numbers, 1), 1, "no more than there is room");
    cr_assert_eq(numbers[0], 2);
    waiters_news_clear_locked(&first);
    cr_assert_eq(waiters_news_take_locked(&waiters, numbers, 2), 0, "the next request left");
    waiters_wake_locked(&first, false);
    waiters_wake_locked(&second, false);
    waiters_remove_locked(&second);
    cr_assert_eq(waiters_news_take_locked(&waiters, numbers, 2), 1, "one has gone");
    cr_assert_eq(numbers[0], 1);
    (void)pthread_mutex_unlock(&waiters.mutex);
}

static void *any_main(void *arg)
{
    struct waiter *any = arg;

    (void)pthread_mutex_lock(&waiters.mutex);
    any->watching = true;
    (void)waiters_lead_or_sleep_locked(any, 30 * S_NS);
    any->watching = false;
    (void)pthread_mutex_unlock(&waiters.mutex);
    return NULL;
}

/* The thread of all of them sleeps while another one leads, and takes the lead over. */
Test(waiters, the_lead_is_handed_to_the_thread_of_all)
{
    pthread_t thread;
    bool asleep = false;
    int64_t begun = now();

    (void)pthread_mutex_lock(&waiters.mutex);
    first.watching = second.watching = false;
    cr_assert(waiters_lead_locked(&waiters));
    (void)pthread_mutex_unlock(&waiters.mutex);
    cr_assert_eq(pthread_create(&thread, NULL, any_main, &waiters.any), 0);
    while (!asleep && now() - begun < 10 * S_NS) {
        (void)pthread_mutex_lock(&waiters.mutex);
        asleep = waiters.any.watching;
        (void)pthread_mutex_unlock(&waiters.mutex);
        (void)nanosleep(&(struct timespec){.tv_nsec = MS_NS}, NULL);
    }
    (void)pthread_mutex_lock(&waiters.mutex);
    waiters.led = false;
    waiters_hand_over_locked(&waiters);
    (void)pthread_mutex_unlock(&waiters.mutex);
    (void)pthread_join(thread, NULL);
    cr_assert(dlt_took_within((now() - begun) / 1000000, 20000), "nobody was woken: %s",
              dlt_within_text());
}
