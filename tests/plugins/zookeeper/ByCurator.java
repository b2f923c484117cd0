// SPDX-License-Identifier: MIT

// ByCurator SERVER PATH TURNS mutex|write|read COMMAND...: runs COMMAND so many times, each time under a
// lock of Curator, in one session. With GATE=FILE in the environment, its first turn waits for FILE, and
// FILE.PID says that it does.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class ByCurator {
    static InterProcessMutex lockOf(CuratorFramework client, String path, String kind) {
        if (kind.equals("mutex"))
            return new InterProcessMutex(client, path);
        InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
        return kind.equals("write") ? both.writeLock() : both.readLock();
    }

    static void awaitGate() throws Exception {
        String gate = System.getenv("GATE");
        if (gate == null || gate.isEmpty())
            return;
        Files.createFile(Path.of(gate + "." + ProcessHandle.current().pid()));
        while (!Files.exists(Path.of(gate)))
            Thread.sleep(2);
    }

    public static void main(String[] words) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(words[0], new ExponentialBackoffRetry(1000, 3));
        ProcessBuilder command = new ProcessBuilder(Arrays.asList(words).subList(4, words.length)).inheritIO();
        client.start();
        client.blockUntilConnected();
        InterProcessMutex lock = lockOf(client, words[1], words[3]);
        awaitGate();
        for (int turns = Integer.parseInt(words[2]); turns > 0; turns--) {
            lock.acquire();
            int status = command.start().waitFor();
            lock.release();
            if (status != 0)
                System.exit(status);
        }
        client.close();
    }
}
