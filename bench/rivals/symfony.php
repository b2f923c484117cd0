<?php
// SPDX-License-Identifier: MIT
// symfony/lock (Debian: php-cli php-redis php-mysql php-pgsql php-symfony-lock): redis, combined, pdo,
// postgresql or flock.
// The loops of bench/loops.c, a process a worker: see README.md for arguments and result.
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\{CombinedStore, FlockStore, PdoStore, PostgreSqlStore, RedisStore};
use Symfony\Component\Lock\Strategy\ConsensusStrategy;

function absent(string $what): never
{
    fwrite(STDERR, "$what is not installed\n");
    exit(69);
}

if (!@include_once 'Symfony/Component/Lock/autoload.php') {
    absent('php-symfony-lock');
}
$driver = $argv[1];
[$workers, $names, $held, $pause, $run_ms, $loop] = array_slice($argv, -6);

function redis_store(string $node): RedisStore
{
    extension_loaded('redis') || absent('php-redis');
    $redis = new Redis();
    $redis->connect(substr($node, 0, strrpos($node, ':')), (int) substr($node, strrpos($node, ':') + 1));
    return new RedisStore($redis);
}

function pdo_store(): PdoStore
{
    extension_loaded('pdo_mysql') || absent('php-mysql');
    $source = sprintf('mysql:host=%s;port=%s;dbname=%s', getenv('BENCH_HOST'), getenv('BENCH_PORT'), getenv('BENCH_DATABASE'));
    $pdo = new PDO($source, getenv('BENCH_USER'), getenv('BENCH_PASSWORD'), [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
    return new PdoStore($pdo);
}

function postgresql_store(): PostgreSqlStore
{
    extension_loaded('pdo_pgsql') || absent('php-pgsql');
    $source = sprintf('pgsql:host=%s;port=%s;dbname=%s', getenv('BENCH_HOST'), getenv('BENCH_PORT'), getenv('BENCH_DATABASE'));
    return new PostgreSqlStore($source, ['db_username' => getenv('BENCH_USER'), 'db_password' => getenv('BENCH_PASSWORD')]);
}

function flock_store(): FlockStore
{
    $directory = getenv('BENCH_FILE') . '-symfony';
    is_dir($directory) || mkdir($directory);
    return new FlockStore($directory);
}

function factory(string $driver): LockFactory
{
    $nodes = explode(',', getenv('BENCH_NODES'));
    return new LockFactory(match ($driver) {
        'redis' => redis_store($nodes[0]),
        'combined' => new CombinedStore(array_map('redis_store', $nodes), new ConsensusStrategy()),
        'pdo' => pdo_store(),
        'postgresql' => postgresql_store(),
        'flock' => flock_store(),
    });
}

function quantile(array $sorted, float $share): float
{
    return $sorted ? $sorted[min(count($sorted) - 1, (int) ($share * count($sorted)))] / 1e3 : -1;
}

// Lines of when it was locked, when unlocking began, and how long locking and unlocking took.
function work(string $driver, int $index): string
{
    global $names, $held, $pause, $began, $ends, $loop;
    $factory = factory($driver);
    $name = 'rival-' . ($names === 'one' ? 0 : $index);
    $factory->createLock($name, 30)->acquire(true);
    $lines = [];
    while (hrtime(true) < $began) {
        usleep(100);
    }
    while (($asked = hrtime(true)) < $ends) {
        $lock = $factory->createLock($name, 30);
        $lock->acquire(true);
        $locked = hrtime(true);
        $held && usleep($held);
        $unlocking = hrtime(true);
        $lock->release();
        $lines[] = "$locked $unlocking " . (hrtime(true) - $asked - ($unlocking - $locked)) . " $index $asked";
        $loop === 'handoff' ? usleep(2 * $held) : ($pause && usleep($pause));
    }
    return implode("\n", $lines);
}

function hand_offs(array $all): array
{
    usort($all, fn ($one, $other) => $one[0] <=> $other[0]);
    $times = [];
    for ($i = 1; $i < count($all); $i++) {
        if ($all[$i][3] !== $all[$i - 1][3] && $all[$i][4] <= $all[$i - 1][1]) {
            $times[] = $all[$i][0] - $all[$i - 1][1];
        }
    }
    return $times;
}

if ($driver === 'pdo') {
    try {
        pdo_store()->createTable();
    } catch (Throwable $there_already) {
    }
}
factory($driver)->createLock('rival-first', 30)->acquire();
$began = hrtime(true) + 200000000;
$ends = $began + $run_ms * 1000000;
$files = [];
for ($i = 0; $i < $workers; $i++) {
    $files[$i] = tempnam(sys_get_temp_dir(), 'rival');
    if (pcntl_fork() === 0) {
        file_put_contents($files[$i], work($driver, $i));
        posix_kill(getmypid(), SIGKILL); // no destructors
    }
}
while (pcntl_wait($status) > 0) {
}
$seconds = (hrtime(true) - $began) / 1e9;
$all = [];
$counts = [];
foreach ($files as $file) {
    $lines = array_filter(explode("\n", file_get_contents($file)));
    $counts[] = count($lines);
    foreach ($lines as $line) {
        $all[] = array_map('intval', explode(' ', $line));
    }
    unlink($file);
}
$times = $loop === 'handoff' ? hand_offs($all) : array_column($all, 2);
sort($times);
$total = array_sum($counts);
$squares = array_sum(array_map(fn ($count) => $count * $count, $counts));
echo json_encode([
    'pairs' => $total,
    'pairs_per_s' => $total / $seconds,
    'least_over_most' => $total ? min($counts) / max($counts) : -1,
    'jain' => $total ? $total * $total / (count($counts) * $squares) : -1,
    'p50_us' => quantile($times, .5),
    'p90_us' => quantile($times, .9),
    'p99_us' => quantile($times, .99),
    'p99_9_us' => quantile($times, .999),
    'worst_ms' => $times ? end($times) / 1e6 : -1,
]), "\n";
