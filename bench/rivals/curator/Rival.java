// SPDX-License-Identifier: MIT

// InterProcessMutex of Curator in the loops of bench/loops.c: see ../README.md for arguments and result.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.locks.LockSupport;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Rival {
    static boolean oneName, handoff;
    static long held, pause, span, began;
    static volatile int last = -1;
    static volatile long released;

    static boolean goesOn() {
        return System.nanoTime() - began < span;
    }

    static void sleep(long ns) {
        long until = System.nanoTime() + ns;
        for (long left = ns; left > 0; left = until - System.nanoTime())
            LockSupport.parkNanos(left);
    }

    static CuratorFramework connect() throws Exception {
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(System.getenv("BENCH_NODES"), new ExponentialBackoffRetry(1000, 3));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    static void pair(InterProcessMutex lock, List<Long> times) throws Exception {
        long asked = System.nanoTime(), kept = 0;
        lock.acquire();
        if (held > 0) {
            long before = System.nanoTime();
            sleep(held);
            kept = System.nanoTime() - before;
        }
        lock.release();
        times.add(System.nanoTime() - asked - kept);
        sleep(pause);
    }

    static void pass(InterProcessMutex lock, int index, List<Long> times) throws Exception {
        lock.acquire();
        long at = System.nanoTime();
        if (last >= 0 && last != index)
            times.add(at - released);
        last = index;
        sleep(held);
        released = System.nanoTime();
        lock.release();
        while (goesOn() && last == index)
            sleep(50_000);
    }

    static void work(CuratorFramework shared, int index, CyclicBarrier start, List<Long> times) {
        try {
            // Contenders for one name have a session each, as programs of their own have.
            InterProcessMutex lock =
                new InterProcessMutex(oneName ? connect() : shared, "/rivals/curator-" + (oneName ? 0 : index));
            lock.acquire();
            lock.release();
            start.await();
            while (goesOn()) {
                if (handoff)
                    pass(lock, index, times);
                else
                    pair(lock, times);
            }
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1);
        }
    }

    static double quantile(long[] all, double share) {
        return all[(int) Math.min(all.length - 1, (long) (share * all.length))] / 1e3;
    }

    static void result(List<List<Long>> times, double seconds) {
        long[] all = times.stream().flatMap(List::stream).mapToLong(Long::longValue).sorted().toArray();
        double[] counts = times.stream().mapToDouble(List::size).toArray();
        double squares = Arrays.stream(counts).map(n -> n * n).sum();
        System.out.printf("{\"pairs\": %d, \"pairs_per_s\": %f, \"least_over_most\": %f, \"jain\": %f, "
            + "\"p50_us\": %f, \"p90_us\": %f, \"p99_us\": %f, \"p99_9_us\": %f, \"worst_ms\": %f}%n",
            all.length, all.length / seconds,
            Arrays.stream(counts).min().getAsDouble() / Arrays.stream(counts).max().getAsDouble(),
            (double) all.length * all.length / (counts.length * squares), quantile(all, .5), quantile(all, .9),
            quantile(all, .99), quantile(all, .999), all[all.length - 1] / 1e6);
    }

    public static void main(String[] words) throws Exception {
        int workers = Integer.parseInt(words[0]);
        oneName = words[1].equals("one");
        held = Long.parseLong(words[2]) * 1000;
        pause = Long.parseLong(words[3]) * 1000;
        span = Long.parseLong(words[4]) * 1_000_000;
        handoff = words[5].equals("handoff");
        CuratorFramework shared = connect();
        CyclicBarrier start = new CyclicBarrier(workers, () -> began = System.nanoTime());
        List<List<Long>> times = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < workers; i++) {
            int index = i;
            times.add(new ArrayList<>());
            threads.add(new Thread(() -> work(shared, index, start, times.get(index))));
        }
        for (Thread thread : threads)
            thread.start();
        for (Thread thread : threads)
            thread.join();
        result(times, (System.nanoTime() - began) / 1e9);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
