/* SPDX-License-Identifier: MIT */
/*
 * Do the classes of dlock.hpp do what the mutexes of the standard library do, with the standard
 * library's locks? Prints TAP.
 *
 *     use_cpp URI
 */
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlock/dlock.hpp>
#include <fcntl.h>
#include <shared_mutex>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;

static int count;
static int failures;

static void check(bool passed, const char *text)
{
    failures += !passed;
    std::printf("%sok %d - %s\n", passed ? "" : "not ", ++count, text);
}

/* The status with which call throws; DLOCK_OK: it does not. */
template <class Call> static dlock_status thrown_by(Call call)
{
    try {
        call();
    } catch (const dlock::error &error) {
        return error.status();
    }
    return DLOCK_OK;
}

static void locks_of_the_standard_library(const dlock::client &client)
{
    dlock::mutex a(client, "a");
    dlock::mutex b(client, "b");
    dlock::mutex other(client, "a");
    uint64_t first = 0;

    {
        std::unique_lock lock(a);
        first = a.fence();
        check(a.state() == DLOCK_STATE_HELD && a.remaining() > 0ms, "unique_lock holds");
        check(!other.try_lock(), "try_lock of another mutex with the name is false");
        check(!other.try_lock_for(20ms), "try_lock_for ends with false");
        check(!other.try_lock_until(std::chrono::system_clock::now() + 20ms),
              "try_lock_until ends with false");
        check(thrown_by([&] { a.lock(); }) == DLOCK_ALREADY, "a second lock of a thread throws");
        check(a.state() == DLOCK_STATE_HELD, "the second lock changes nothing");
    }
    check(a.state() == DLOCK_STATE_FREE, "the destructor of unique_lock unlocks");
    {
        std::scoped_lock both(a, b);
        check(a.fence() > first && b.fence() > 0, "scoped_lock holds two");
    }
    check(other.try_lock_for(std::chrono::hours::max()), "the longest timeout overflows nothing");
    other.unlock();
    {
        std::unique_lock lock(a, 5s);
        check(lock.owns_lock() && dlock::unlock(lock).status() == DLOCK_OK && !lock.owns_lock(),
              "dlock::unlock returns the outcome");
        check(dlock::unlock(lock).status() == DLOCK_NOT_HELD, "and NOT_HELD the second time");
    }
}

static void readers_and_writers(const dlock::client &client)
{
    dlock::shared_mutex table(client, "table");
    dlock::shared_mutex reader(client, "table");

    {
        std::shared_lock one(table);
        std::shared_lock two(reader, 5s);
        dlock::shared_mutex writer(client, "table");
        check(two.owns_lock(), "two shared_locks hold together");
        check(!writer.try_lock(), "a writer is kept out");
    }
    {
        std::unique_lock lock(table, 5s);
        check(lock.owns_lock() && !reader.try_lock_shared_for(10ms), "a writer keeps readers out");
        check(static_cast<bool>(table.downgrade()), "downgrade works");
        check(reader.try_lock_shared_for(5s), "after the downgrade a reader gets in");
        reader.unlock_shared();
    }
    check(table.state() == DLOCK_STATE_FREE, "a downgraded unique_lock unlocks");
}

static void permits(const dlock::client &client)
{
    dlock::semaphore one(client, "permits", 2);
    dlock::semaphore two(client, "permits", 2);
    dlock::semaphore three(client, "permits", 2);
    std::unique_lock first(one, 5s);
    std::unique_lock second(two, 5s);

    check(first.owns_lock() && second.owns_lock(), "two hold a semaphore of two");
    check(one.permit() != two.permit(), "each has a permit of its own");
    check(!three.try_lock(), "a third is kept out");
    first.unlock();
    check(three.try_lock_for(5s), "until a permit comes back");
    three.unlock();
}

/* All threads use one object. The counter is not atomic: ThreadSanitizer sees two at once. */
static void threads_of_one_mutex(const dlock::client &client)
{
    dlock::mutex shared(client, "threads");
    std::vector<std::thread> threads;
    std::atomic<int> inside{0};
    std::atomic<int> together{0};
    int counter = 0;

    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            for (int round = 0; round < 25; round++) {
                std::lock_guard lock(shared);
                together += ++inside != 1;
                counter++;
                inside--;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    check(together == 0 && counter == 100, "threads of one mutex exclude each other");
}

static void losses(const dlock::client &client)
{
    dlock::mutex lost(client, "lost");
    dlock_error err = DLOCK_ERROR_INIT;

    check(thrown_by([&] { lost.check(); }) == DLOCK_NOT_HELD, "check throws NOT_HELD when free");
    {
        std::unique_lock lock(lost);
        check(thrown_by([&] { lost.check(); }) == DLOCK_OK, "check does not throw when held");
        check(dlock_client_break(client.native_handle(), "lost", 4, nullptr, &err) == DLOCK_OK &&
                  lost.renew().status() == DLOCK_LOST,
              "renew of a broken lock is LOST");
        check(thrown_by([&] { lost.check(); }) == DLOCK_LOST, "check throws LOST");
        check(dlock::unlock(lock).status() == DLOCK_LOST, "unlock says LOST");
    }
    {
        std::unique_lock lock(lost);
        (void)dlock_client_break(client.native_handle(), "lost", 4, nullptr, &err);
        check(lost.renew().status() == DLOCK_LOST, "it is lost again");
    }
    check(lost.try_lock(), "after the loss and a silent unlock it can be locked");
    lost.unlock();
}

static void errors_are_system_errors(const dlock::client &client)
{
    dlock::mutex mutex(client, "errors");

    mutex.lock();
    try {
        mutex.lock();
        check(false, "lock throws");
    } catch (const std::system_error &error) {
        check(error.code() == std::errc::resource_deadlock_would_occur,
              "ALREADY is resource_deadlock_would_occur, as std::mutex throws it");
        check(error.code().category() == dlock::category(), "the category is dlock");
    }
    mutex.unlock();
    check(thrown_by([] { dlock::client bad("nothing://x"); }) == DLOCK_INVALID,
          "a client of an unknown scheme throws INVALID");
    check(thrown_by([&] { dlock::mutex nameless(client, ""); }) == DLOCK_INVALID,
          "a mutex without a name throws INVALID");
    check(mutex.release().status() == DLOCK_NOT_HELD, "release of a free mutex is NOT_HELD");
    check(client.stats().acquisitions[DLOCK_OK] > 0, "the client has counted acquisitions");
    check(client.metrics().find("\ndlock_held{class=\"\"} 0\n") != std::string::npos,
          "and writes them as text");
}

static void options_reach_the_lock(const dlock::client &client)
{
    dlock_options options = dlock::options();

    options.ttl_ms = 60000;
    options.recursive = DLOCK_ON;
    dlock::mutex mutex(client, "options", options);
    std::unique_lock lock(mutex);
    check(mutex.remaining() > 40s, "the ttl is that of the options");
    {
        std::unique_lock inner(mutex);
        check(inner.owns_lock(), "a recursive mutex is locked twice");
    }
    check(mutex.state() == DLOCK_STATE_HELD, "and held until it is unlocked twice");
}

static bool data_take(void *seen, const dlock_holder *holder)
{
    static_cast<std::string *>(seen)->assign(static_cast<const char *>(holder->data),
                                             holder->data_len);
    return false;
}

static void data_reach_the_store(const dlock::client &client)
{
    dlock_options options = dlock::options();
    std::string text = "http://h", seen;

    options.data = text.data();
    options.data_len = text.size();
    dlock::mutex mutex(client, "data", options);
    text.assign(text.size(), '-');
    std::unique_lock lock(mutex);
    check(dlock_client_inspect(client.native_handle(), "data", 4, data_take, &seen, nullptr) ==
                  DLOCK_OK &&
              seen == "http://h",
          "a mutex publishes a copy of its data");
}

/* A std::thread::id is used again as soon as its thread has ended. */
static void a_thread_that_ends_with_the_mutex(const dlock::client &client)
{
    dlock::mutex mutex(client, "ended");
    dlock_status unlocked = DLOCK_OK;
    dlock_status tried = DLOCK_OK;

    std::thread([&] { mutex.lock(); }).join();
    std::thread([&] {
        tried = mutex.acquire(0).status();
        unlocked = mutex.release().status();
    }).join();
    check(tried == DLOCK_BUSY && unlocked == DLOCK_NOT_HELD,
          "a thread that ends with the mutex leaves it to no other thread");
}

/* A process that keeps SQLite's lock for writers, until it is killed. */
static pid_t writer_start(const char *path)
{
    int ready[2];
    char byte = 0;

    if (pipe(ready) != 0)
        abort();
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {};
        int fd = open((std::string(path) + "-shm").c_str(), O_RDWR | O_CLOEXEC);

        lock.l_type = F_WRLCK;
        lock.l_whence = SEEK_SET;
        lock.l_start = 120; /* WAL_WRITE_LOCK */
        lock.l_len = 1;
        if (fcntl(fd, F_SETLKW, &lock) != 0 || write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    if (read(ready[0], &byte, 1) != 1)
        abort();
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void release_is_repeated(const dlock::client &client, const char *uri)
{
    dlock_options options = dlock::options();
    const char *path = uri + std::strlen("sqlite://");

    if (std::strncmp(uri, "sqlite://", 9) != 0)
        return;
    options.op_timeout_ms = 200;
    dlock::mutex mutex(client, "repeated", options);
    mutex.lock();
    pid_t writer = writer_start(path);
    dlock_status first = mutex.release().status();
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    check(first == DLOCK_UNAVAILABLE || first == DLOCK_UNKNOWN, "a release without an answer says so");
    check(mutex.release().status() == DLOCK_OK, "it can be repeated");
    check(mutex.release().status() == DLOCK_NOT_HELD, "until it is answered");
    check(mutex.try_lock(), "and the name is free");
    writer = writer_start(path);
    mutex.unlock();
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    check(mutex.native_handle() == nullptr, "unlock leaves the thread no handle to repeat it with");
}

/* In a child of fork: FORKED, and the destructors send nothing. */
static void forked_child(const char *uri)
{
    auto client = std::make_unique<dlock::client>(uri);
    auto mutex = std::make_unique<dlock::mutex>(*client, "fork");

    mutex->lock();
    pid_t child = fork();
    if (child == 0) {
        bool forked = mutex->release().status() == DLOCK_FORKED;
        mutex.reset();
        client.reset();
        _exit(forked ? 0 : 1);
    }
    int status = -1;
    check(waitpid(child, &status, 0) == child && status == 0, "a forked child is told so");
    check(mutex->renew().status() == DLOCK_OK, "the parent holds the lock");
    client.reset();
    check(mutex->acquire(0).status() == DLOCK_CLOSED, "a mutex may outlive its client");
}

int main(int argc, char **argv)
{
    const char *uri = argc > 1 ? argv[1] : "memory://cpp";
    dlock::client client(uri);

    locks_of_the_standard_library(client);
    readers_and_writers(client);
    permits(client);
    threads_of_one_mutex(client);
    losses(client);
    errors_are_system_errors(client);
    options_reach_the_lock(client);
    data_reach_the_store(client);
    a_thread_that_ends_with_the_mutex(client);
    release_is_repeated(client, uri);
    forked_child(uri);
    std::printf("1..%d\n", count);
    return failures != 0;
}
