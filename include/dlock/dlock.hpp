/* SPDX-License-Identifier: MIT */
/*
 * dlock.hpp - distributed locks for C++17, on top of dlock.h.
 *
 * EXAMPLE. docs/bindings.md has a whole program:
 *
 *     dlock::client client("sqlite:///var/lib/app/locks.db");
 *     dlock::mutex nightly(client, "nightly-report");
 *     std::unique_lock lock(nightly, std::chrono::seconds(10));
 *     if (lock)
 *         for (int page = 1; page <= 3; page++) {
 *             nightly.check(); // throws dlock::error if the lock is lost
 *             write(page, nightly.fence());
 *         }
 *
 * MUTEXES. dlock::mutex meets TimedLockable, and dlock::shared_mutex meets SharedTimedLockable, so
 * that std::unique_lock, std::shared_lock and std::scoped_lock work with them.
 *   - The thread that locks is the owner, as with std::mutex, and must be the thread that unlocks.
 *     Threads may share one object: each thread gets a handle of its own.
 *   - lock() of a thread that holds the mutex throws (DLOCK_ALREADY), unless options.recursive is
 * on.
 *   - A mutex is a lease. check() throws if it is lost; the other functions do not notice it.
 *
 * OUTCOMES. acquire() and release() return a value and do not throw for it. The functions of a
 * mutex (lock, try_lock, try_lock_for ...) return what std::timed_mutex returns: true for DLOCK_OK,
 * false for DLOCK_BUSY and DLOCK_TIMEOUT. All other statuses are thrown as dlock::error, which is a
 * std::system_error. lock() throws for DLOCK_TIMEOUT, too: the option `wait` can limit it.
 *
 * DESTRUCTORS never throw, and unlock() does not, because destructors call it. unlock() drops its
 * outcome: dlock::unlock(lock) and release() return it.
 *
 * FORK. In a forked child each call is DLOCK_FORKED. Destroying the objects there sends nothing.
 */
#ifndef DLOCK_HPP
#define DLOCK_HPP

#include <dlock/dlock.h>
#include <dlock/metrics.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

namespace dlock
{
class outcome;
class error;
class client;
class mutex;
class shared_mutex;
class semaphore;

/* Statuses as values of std::error_code. Some compare equal to a std::errc: ALREADY to
 * resource_deadlock_would_occur, TIMEOUT to timed_out, BUSY to device_or_resource_busy ... */
const std::error_category &category() noexcept;

/* Structures as their initialisers set them. */
dlock_options options() noexcept;
dlock_client_options client_options() noexcept;

/* Unlocks, and returns what unlock() drops: DLOCK_LOST if the lock was lost before. */
template <class Mutex> outcome unlock(std::unique_lock<Mutex> &lock) noexcept;

/* What a call did: a status, and a line of text. */
class outcome
{
public:
    explicit outcome(dlock_status status, const dlock_error &err) noexcept
        : status_(status), err_(err)
    {
        err_.nodes = nullptr;
        err_.node_room = err_.node_count = 0;
    }

    explicit operator bool() const noexcept { return status_ == DLOCK_OK; }
    dlock_status status() const noexcept { return status_; }
    const char *name() const noexcept { return dlock_status_name(status_); }
    const char *message() const noexcept
    {
        return err_.message[0] ? err_.message : dlock_status_text(status_);
    }
    bool retryable() const noexcept { return err_.retryable; }

    /* Throws dlock::error unless the status is DLOCK_OK. */
    void check() const;

private:
    dlock_status status_;
    dlock_error err_;
};

class error : public std::system_error
{
public:
    explicit error(const dlock::outcome &outcome)
        : std::system_error(outcome.status(), dlock::category(), outcome.message()),
          outcome_(outcome)
    {
    }

    const dlock::outcome &outcome() const noexcept { return outcome_; }
    dlock_status status() const noexcept { return outcome_.status(); }

private:
    class dlock::outcome outcome_;
};

/* A store. May be destroyed before its mutexes: they are DLOCK_CLOSED then. */
class client
{
public:
    /* uri: NULL is the environment's DLOCK_URI, then the embedded default. Throws dlock::error. */
    explicit client(const char *uri = nullptr, const dlock_client_options &options = client_options())
    {
        dlock_error err = DLOCK_ERROR_INIT;
        dlock_client *opened = nullptr;

        outcome(dlock_client_open(uri, &options, &opened, &err), err).check();
        client_.reset(opened);
    }
    explicit client(const std::string &uri, const dlock_client_options &options = client_options())
        : client(uri.c_str(), options)
    {
    }

    dlock_client *native_handle() const noexcept { return client_.get(); }

    /* What the client has counted. Throws dlock::error in a forked child. */
    dlock_stats stats() const
    {
        dlock_error err = DLOCK_ERROR_INIT;
        dlock_stats counted = DLOCK_STATS_INIT;

        outcome(dlock_client_stats(client_.get(), &counted, &err), err).check();
        return counted;
    }

    /* The same for each class of names, as OpenMetrics text. */
    std::string metrics() const
    {
        dlock_error err = DLOCK_ERROR_INIT;
        std::string text;

        outcome(dlock_client_metrics(client_.get(), nullptr, append, &text, &err), err).check();
        return text;
    }

private:
    static bool append(void *text, const char *line, size_t len) noexcept
    try {
        static_cast<std::string *>(text)->append(line, len);
        return false;
    } catch (const std::bad_alloc &) {
        return true;
    }

    struct close {
        void operator()(dlock_client *client) const noexcept { dlock_client_close(client); }
    };
    std::unique_ptr<dlock_client, close> client_;
};

class mutex
{
public:
    /* name: 1 to DLOCK_NAME_MAX bytes of any value. options: label and data are copied. Throws
     * dlock::error. */
    mutex(const dlock::client &client, std::string_view name,
          const dlock_options &options = dlock::options())
        : client_(client.native_handle()), name_(name), options_(options),
          label_(options.label ? options.label : ""),
          data_(static_cast<const char *>(options.data), options.data ? options.data_len : 0)
    {
        if (options_.label)
            options_.label = label_.c_str();
        if (options_.data)
            options_.data = data_.data();
        add_handle().check();
    }
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;
    ~mutex()
    {
        for (entry &each : entries_)
            dlock_free(each.handle);
    }

    /* Lockable and TimedLockable. */
    void lock() { acquire(DLOCK_AS_OPTIONS).check(); }
    bool try_lock() { return decided(acquire(0)); }
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &limit)
    {
        return decided(acquire(timeout_ms(limit)));
    }
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &limit)
    {
        return try_lock_for(limit - Clock::now());
    }
    void unlock() noexcept { (void)release_as(false); }

    /* dlock_acquire and dlock_unlock, for the calling thread. A release that the store did not
     * answer may be repeated by the same thread. */
    dlock::outcome acquire(int64_t timeout_ms = DLOCK_AS_OPTIONS)
    {
        return acquire_as(DLOCK_EXCLUSIVE, timeout_ms);
    }
    dlock::outcome release() noexcept;

    /* dlock_renew, for the calling thread. */
    dlock::outcome renew(std::chrono::milliseconds ttl = std::chrono::milliseconds(0)) noexcept
    {
        return on_handle([ttl](dlock_handle *handle, dlock_error *err) {
            return dlock_renew(handle, ttl.count(), err);
        });
    }

    /* About the calling thread's claim. */
    enum dlock_state state() const noexcept
    {
        dlock_handle *handle = native_handle();

        return handle ? dlock_state(handle) : DLOCK_STATE_FREE;
    }
    uint64_t fence() const noexcept
    {
        dlock_handle *handle = native_handle();

        return handle ? dlock_fence(handle) : 0;
    }
    std::chrono::milliseconds remaining() const noexcept
    {
        dlock_handle *handle = native_handle();

        return std::chrono::milliseconds(handle ? dlock_remaining_ms(handle) : 0);
    }

    /* Throws dlock::error unless the calling thread holds the mutex: DLOCK_LOST or DLOCK_NOT_HELD.
     * Call it before each step that needs the lock. */
    void check() const;

    /* The calling thread's handle, valid until its unlock; NULL: it has none. */
    dlock_handle *native_handle() const noexcept
    {
        std::lock_guard guard(guard_);
        const entry *mine = find(this_thread());

        return mine ? mine->handle : nullptr;
    }

protected:
    /* A handle, and the thread that acquires or holds it, or may repeat its release; 0: none. */
    struct entry {
        dlock_handle *handle;
        uint64_t owner;
    };

    dlock::outcome acquire_as(dlock_mode mode, int64_t timeout_ms);
    dlock::outcome release_as(bool repeats) noexcept;
    template <class Call> dlock::outcome on_handle(Call call) noexcept;
    static bool decided(const dlock::outcome &outcome);
    template <class Rep, class Period>
    static int64_t timeout_ms(const std::chrono::duration<Rep, Period> &limit);

private:
    /* The number of the calling thread, which no thread gets again: a std::thread::id is given to
     * another thread as soon as its thread has ended. One counter for all libraries. */
    __attribute__((visibility("default"))) static uint64_t this_thread() noexcept
    {
        static std::atomic<uint64_t> last{0};
        static thread_local const uint64_t mine = ++last;

        return mine;
    }
    entry *find(uint64_t owner) const noexcept
    {
        for (entry &each : entries_)
            if (each.owner == owner)
                return &each;
        return nullptr;
    }
    dlock::outcome add_handle();
    dlock::outcome reserve(dlock_handle *&handle, bool &fresh);
    void give_back(const dlock_handle *handle) noexcept;

    dlock_client *client_;
    std::string name_;
    dlock_options options_;
    std::string label_;
    std::string data_;
    mutable std::mutex guard_; /* of entries_; never held in a call that waits */
    mutable std::deque<entry> entries_;
};

/* Needs DLOCK_CAP_RWLOCK for the shared mode. */
class shared_mutex : public mutex
{
public:
    using mutex::mutex;

    void lock_shared() { acquire_shared(DLOCK_AS_OPTIONS).check(); }
    bool try_lock_shared() { return decided(acquire_shared(0)); }
    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &limit)
    {
        return decided(acquire_shared(timeout_ms(limit)));
    }
    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &limit)
    {
        return try_lock_shared_for(limit - Clock::now());
    }
    void unlock_shared() noexcept { (void)release_as(false); }

    dlock::outcome acquire_shared(int64_t timeout_ms = DLOCK_AS_OPTIONS)
    {
        return acquire_as(DLOCK_SHARED, timeout_ms);
    }

    /* dlock_downgrade, for the calling thread. */
    dlock::outcome downgrade() noexcept
    {
        return on_handle(
            [](dlock_handle *handle, dlock_error *err) { return dlock_downgrade(handle, err); });
    }
};

/* A mutex that `permits` threads hold at once (C21). Needs DLOCK_CAP_LIMIT. It is Lockable too, and
 * the thread that locks is the owner of a permit. */
class semaphore : public mutex
{
public:
    /* permits: 2 to DLOCK_LIMIT_MAX; all users of the name say the same number. */
    semaphore(const dlock::client &client, std::string_view name, int64_t permits,
              const dlock_options &options = dlock::options())
        : mutex(client, name, with_limit(options, permits))
    {
    }

    /* The permit of the calling thread, 0 to permits - 1. */
    uint32_t permit() const noexcept
    {
        dlock_handle *handle = native_handle();

        return handle ? dlock_permit(handle) : 0;
    }

private:
    static dlock_options with_limit(dlock_options options, int64_t permits) noexcept
    {
        options.limit = permits;
        return options;
    }
};

inline const std::error_category &category() noexcept
{
    class statuses : public std::error_category
    {
        const char *name() const noexcept override { return "dlock"; }
        std::string message(int status) const override { return dlock_status_text(status); }
        std::error_condition default_error_condition(int status) const noexcept override
        {
            switch (status) {
            case DLOCK_BUSY: return std::errc::device_or_resource_busy;
            case DLOCK_TIMEOUT: return std::errc::timed_out;
            case DLOCK_CANCELED: return std::errc::operation_canceled;
            case DLOCK_NOT_HELD: return std::errc::operation_not_permitted;
            case DLOCK_AUTH: return std::errc::permission_denied;
            case DLOCK_UNSUPPORTED: return std::errc::not_supported;
            case DLOCK_INVALID: return std::errc::invalid_argument;
            case DLOCK_ALREADY: return std::errc::resource_deadlock_would_occur;
            case DLOCK_NOMEM: return std::errc::not_enough_memory;
            default: return std::error_condition(status, *this);
            }
        }
    };
    static const statuses the_category;

    return the_category;
}

inline dlock_options options() noexcept
{
    return DLOCK_OPTIONS_INIT;
}

inline dlock_client_options client_options() noexcept
{
    return DLOCK_CLIENT_OPTIONS_INIT;
}

template <class Mutex> dlock::outcome unlock(std::unique_lock<Mutex> &lock) noexcept
{
    if (lock.owns_lock())
        return lock.release()->release();
    return outcome(DLOCK_NOT_HELD, dlock_error DLOCK_ERROR_INIT);
}

inline void outcome::check() const
{
    if (status_ != DLOCK_OK)
        throw dlock::error(*this);
}

/* A handle that no thread has. */
inline dlock::outcome mutex::add_handle()
{
    dlock_error err = DLOCK_ERROR_INIT;
    dlock_handle *handle = nullptr;
    entry &added = entries_.emplace_back();
    dlock_status status = dlock_new(client_, name_.data(), name_.size(), &options_, &handle, &err);

    if (status == DLOCK_OK)
        added.handle = handle;
    else
        entries_.pop_back();
    return dlock::outcome(status, err);
}

/* The handle of the calling thread. fresh: the thread had none. */
inline dlock::outcome mutex::reserve(dlock_handle *&handle, bool &fresh)
{
    std::lock_guard guard(guard_);
    uint64_t me = this_thread();
    dlock::outcome added(DLOCK_OK, dlock_error DLOCK_ERROR_INIT);
    entry *mine = find(me);

    fresh = mine == nullptr;
    if (fresh && !find(0))
        added = add_handle();
    if (!added)
        return added;
    if (fresh)
        mine = find(0);
    mine->owner = me;
    handle = mine->handle;
    return added;
}

inline void mutex::give_back(const dlock_handle *handle) noexcept
{
    std::lock_guard guard(guard_);

    for (entry &each : entries_)
        if (each.handle == handle)
            each.owner = 0;
}

inline dlock::outcome mutex::acquire_as(dlock_mode mode, int64_t timeout_ms)
{
    dlock_handle *handle = nullptr;
    bool fresh = false;
    dlock::outcome reserved = reserve(handle, fresh);
    dlock_error err = DLOCK_ERROR_INIT;

    if (!reserved)
        return reserved;
    dlock_status status = dlock_acquire(handle, mode, timeout_ms, &err);
    if (status != DLOCK_OK && fresh)
        give_back(handle);
    return dlock::outcome(status, err);
}

template <class Call> dlock::outcome mutex::on_handle(Call call) noexcept
{
    dlock_handle *handle = native_handle();
    dlock_error err = DLOCK_ERROR_INIT;

    if (handle) {
        dlock_status status = call(handle, &err);

        return dlock::outcome(status, err);
    }
    return dlock::outcome(DLOCK_NOT_HELD, err);
}

inline dlock::outcome mutex::release() noexcept
{
    return release_as(true);
}

/* repeats: the thread keeps its handle if the store does not answer. */
inline dlock::outcome mutex::release_as(bool repeats) noexcept
{
    dlock_handle *handle = native_handle();
    dlock::outcome outcome =
        on_handle([](dlock_handle *held, dlock_error *err) { return dlock_unlock(held, err); });

    bool ended = !repeats || outcome.status() == DLOCK_OK || outcome.status() == DLOCK_LOST ||
                 outcome.status() == DLOCK_NOT_HELD; /* else: it may be repeated */

    if (handle && ended && dlock_state(handle) == DLOCK_STATE_FREE) /* else: acquired again */
        give_back(handle);
    return outcome;
}

inline void mutex::check() const
{
    dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_state now = state();

    if (now == DLOCK_STATE_LOST)
        throw dlock::error(dlock::outcome(DLOCK_LOST, err));
    if (now == DLOCK_STATE_FREE)
        throw dlock::error(dlock::outcome(DLOCK_NOT_HELD, err));
}

inline bool mutex::decided(const dlock::outcome &outcome)
{
    if (outcome.status() == DLOCK_BUSY || outcome.status() == DLOCK_TIMEOUT)
        return false;
    outcome.check();
    return true;
}

template <class Rep, class Period>
int64_t mutex::timeout_ms(const std::chrono::duration<Rep, Period> &limit)
{
    using years = std::chrono::duration<double, std::ratio<31557600>>;

    if (!(limit > limit.zero()))
        return 0;
    if (std::chrono::duration_cast<years>(limit) > years(200))
        return DLOCK_FOREVER;
    return std::chrono::ceil<std::chrono::milliseconds>(limit).count();
}

} // namespace dlock

#endif
