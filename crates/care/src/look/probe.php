<?php
// Asks a site's database; run by `php -r`, credentials as JSON on standard input, the answer as JSON on standard output.
// Only SELECT, SHOW and EXPLAIN. A question that fails leaves its part of the answer out.
$ask = json_decode(stream_get_contents(STDIN), true);
$answer = [];

function finish(array $answer): void
{
    echo json_encode($answer, JSON_INVALID_UTF8_SUBSTITUTE | JSON_PARTIAL_OUTPUT_ON_ERROR);
    exit(0);
}

// What the options table says of WordPress. $rows runs a query and returns its rows as arrays.
function wordpress(callable $rows, string $prefix): array
{
    $options = "{$prefix}options";
    $auto = "autoload IN ('yes', 'on', 'auto', 'auto-on')";
    $found = [];
    $sum = $rows("SELECT COUNT(*) AS n, COALESCE(SUM(LENGTH(option_value)), 0) AS b FROM $options WHERE $auto");
    if (!$sum) {
        return $found;
    }
    $found['autoload_options'] = (int)$sum[0]['n'];
    $found['autoload_bytes'] = (int)$sum[0]['b'];
    $found['autoload_largest'] = array_map(
        fn($row) => ['name' => $row['option_name'], 'bytes' => (int)$row['b']],
        $rows("SELECT option_name, LENGTH(option_value) AS b FROM $options WHERE $auto ORDER BY b DESC LIMIT 5") ?: [],
    );
    $like = "option_name LIKE '\\_transient\\_timeout\\_%'";
    $escape = $GLOBALS['ask']['kind'] === 'sqlite' ? " ESCAPE '\\'" : '';
    $old = $rows("SELECT COUNT(*) AS n FROM $options WHERE $like$escape AND option_value + 0 < " . time());
    $found['transients_expired'] = (int)($old[0]['n'] ?? 0);
    $cron = $rows("SELECT option_value AS v FROM $options WHERE option_name = 'cron'");
    $jobs = @unserialize($cron[0]['v'] ?? '', ['allowed_classes' => false]);
    if (is_array($jobs)) {
        $due = array_filter(array_keys($jobs), fn($at) => is_int($at));
        $late = array_filter($due, fn($at) => $at < time());
        $found['cron_late_seconds'] = $late ? time() - min($late) : 0;
        $found['cron_late'] = count($late);
        $found['cron_jobs'] = count($due);
        $found['cron_first'] = $late ? (string)array_key_first($jobs[min($late)]) : '';
    }
    $updates = $rows("SELECT option_name AS k, option_value AS v FROM $options WHERE option_name IN "
        . "('_site_transient_update_core', '_site_transient_update_plugins', '_site_transient_update_themes')") ?: [];
    foreach ($updates as $row) {
        // Objects of classes that this script does not know stay incomplete; as arrays they can be read.
        $value = @unserialize($row['v'], ['allowed_classes' => false]);
        $value = is_object($value) ? (array)$value : [];
        $name = str_replace('_site_transient_update_', '', $row['k']);
        $list = $name === 'core'
            ? array_filter((array)($value['updates'] ?? []), fn($one) => (((array)$one)['response'] ?? '') === 'upgrade')
            : (array)($value['response'] ?? []);
        $found["updates_$name"] = count($list);
    }
    $plugins = $rows("SELECT option_value AS v FROM $options WHERE option_name = 'active_plugins'");
    $found['plugins'] = is_array($list = @unserialize($plugins[0]['v'] ?? '', ['allowed_classes' => false])) ? count($list) : 0;
    return $found;
}

// A statement without its values: what visitors and owners have typed stays in the database.
function shape(string $sql): string
{
    $sql = preg_replace(["/'(?:[^'\\\\]|\\\\.|'')*'/s", '/"(?:[^"\\\\]|\\\\.|"")*"/s', '/\b\d+(\.\d+)?\b/', '/\s+/'], ['?', '?', '?', ' '], $sql);
    return substr(trim((string)$sql), 0, 300);
}

if (($ask['kind'] ?? '') === 'sqlite') {
    if (!class_exists('SQLite3')) {
        fwrite(STDERR, "this PHP has no extension sqlite3: install php-sqlite3\n");
        exit(1);
    }
    try {
        $base = new SQLite3($ask['file'], SQLITE3_OPEN_READONLY);
        $base->enableExceptions(true);
        $base->busyTimeout(2000);
        $rows = function (string $sql) use ($base): ?array {
            try {
                $result = $base->query($sql);
                for ($all = []; $row = $result->fetchArray(SQLITE3_ASSOC);) {
                    $all[] = $row;
                }
                return $all;
            } catch (Throwable) {
                return null;
            }
        };
        $answer['sqlite'] = [
            'journal_mode' => $base->querySingle('PRAGMA journal_mode'),
            'file' => $ask['file'],
            'bytes' => filesize($ask['file']),
            'changed_seconds' => max(filemtime($ask['file']), (int)@filemtime($ask['file'] . '-wal')),
            'wal_bytes' => (int)@filesize($ask['file'] . '-wal'),
            'free_pages' => $base->querySingle('PRAGMA freelist_count'),
            'pages' => $base->querySingle('PRAGMA page_count'),
        ];
        $answer['wordpress'] = wordpress($rows, $ask['prefix']);
    } catch (Throwable $error) {
        $answer['sqlite'] = ['error' => $error->getMessage()];
    }
    finish($answer);
}

if (!function_exists('mysqli_init')) {
    fwrite(STDERR, "this PHP has no extension mysqli: install php-mysql\n");
    exit(1);
}
mysqli_report(MYSQLI_REPORT_OFF);
$base = mysqli_init();
$base->options(MYSQLI_OPT_CONNECT_TIMEOUT, 5);
$base->options(MYSQLI_OPT_READ_TIMEOUT, 5);
// host, host:port, host:/socket, [::1]:port: as WordPress reads DB_HOST.
$host = $ask['host'] === '' ? 'localhost' : $ask['host'];
$port = 0;
$socket = null;
if (preg_match('~^(.*?):(/.*)$~', $host, $part)) {
    [, $host, $socket] = $part;
} elseif (preg_match('~^\[(.+)\](?::(\d+))?$~', $host, $part) || preg_match('~^([^:]+):(\d+)$~', $host, $part)) {
    [$host, $port] = [$part[1], (int)($part[2] ?? 0)];
}
if (!$base->real_connect($host ?: 'localhost', $ask['user'], $ask['password'], $ask['name'], $port, $socket)) {
    finish(['db' => ['error' => ['code' => $base->connect_errno, 'text' => $base->connect_error], 'host' => $ask['host']]]);
}
// Whatever a plan makes the server evaluate can change nothing.
$base->query('SET SESSION TRANSACTION READ ONLY');
$rows = function (string $sql) use ($base): ?array {
    $result = $base->query($sql);
    return $result instanceof mysqli_result ? $result->fetch_all(MYSQLI_ASSOC) : null;
};
$pairs = fn(?array $all) => array_column(array_map('array_values', $all ?? []), 1, 0);

// Statements that run now, in several samples.
$seen = [];
for ($sample = 0; $sample < 10; $sample++) {
    foreach ($rows('SHOW FULL PROCESSLIST') ?? [] as $row) {
        if (!in_array($row['Command'], ['Query', 'Execute'], true) || $row['Id'] == $base->thread_id || !$row['Info']) {
            continue;
        }
        $key = shape($row['Info']);
        $seen[$key] ??= ['statement' => $key, 'count' => 0, 'last' => -1, 'seconds' => 0, 'state' => '', 'sql' => $row['Info']];
        $seen[$key]['count'] += $seen[$key]['last'] !== $sample;
        $seen[$key]['last'] = $sample;
        $seen[$key]['seconds'] = max($seen[$key]['seconds'], (int)$row['Time']);
        $seen[$key]['state'] = (string)$row['State'];
    }
    usleep(40000);
}
usort($seen, fn($a, $b) => [$b['count'], $b['seconds']] <=> [$a['count'], $a['seconds']]);
$seen = array_slice($seen, 0, 3);
foreach ($seen as &$one) {
    $is_plain = preg_match('/^\s*SELECT\b/i', $one['sql']) && !preg_match('/\b(INTO|FOR UPDATE|LOCK|GET_LOCK|SLEEP|BENCHMARK)\b/i', $one['sql']);
    $plan = $is_plain ? $rows('EXPLAIN ' . $one['sql']) : null;
    foreach ($plan ?? [] as $step) {
        $is_scan = strtolower((string)($step['type'] ?? '')) === 'all' && !($step['key'] ?? null);
        if ($is_scan && (int)$step['rows'] > ($one['scan_rows'] ?? 0)) {
            $one['scan_table'] = (string)$step['table'];
            $one['scan_rows'] = (int)$step['rows'];
        }
    }
    unset($one['sql'], $one['last']);
}
unset($one);

$variables = ['max_connections', 'innodb_buffer_pool_size', 'innodb_log_file_size', 'innodb_log_files_in_group',
    'innodb_redo_log_capacity', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'table_open_cache', 'thread_cache_size',
    'query_cache_type', 'query_cache_size', 'tmp_table_size', 'max_heap_table_size', 'open_files_limit', 'long_query_time',
    'version', 'innodb_flush_method', 'max_allowed_packet', 'wait_timeout', 'slow_query_log', 'datadir', 'hostname'];
$list = "'" . implode("', '", $variables) . "'";
$sizes = $rows('SELECT ENGINE AS engine, COUNT(*) AS n, COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0) AS b '
    . 'FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND ENGINE IS NOT NULL GROUP BY ENGINE') ?? [];
$answer['db'] = [
    'host' => $ask['host'],
    'socket' => $socket !== null || in_array($host, ['localhost', ''], true),
    'status' => $pairs($rows('SHOW GLOBAL STATUS')),
    'variables' => $pairs($rows("SHOW GLOBAL VARIABLES WHERE Variable_name IN ($list)")),
    'running' => $seen,
    'engines' => array_map(fn($row) => ['name' => $row['engine'], 'tables' => (int)$row['n'], 'bytes' => (int)$row['b']], $sizes),
    'data_bytes' => array_sum(array_column($sizes, 'b')),
];
$answer['wordpress'] = wordpress($rows, $ask['prefix']);
finish($answer);
