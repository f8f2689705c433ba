<?php
/** What the rogue's scripts do: ?do=NAME. Everything is bounded, so that the machine survives a server that has no walls. */
set_time_limit(10);
$host = (int) (file_exists('/proc/self/stat') ? explode(' ', preg_replace('/\(.*\)/', 'x', file_get_contents('/proc/self/stat')))[3] : 0);
switch ($_GET['do'] ?? '') {
    case 'prlimit': exec("prlimit --pid $host --nproc=0:0 --nofile=3:3 2>&1"); break;
    case 'kill': function_exists('posix_kill') && posix_kill($host, 9); exec("kill -9 $host; kill -9 -1 2>&1"); posix_kill(getmypid(), 9); break;
    case 'priority': exec("renice -n 19 -p $host; ionice -c 3 -p $host; chrt -i -p 0 $host 2>&1"); break;
    case 'affinity': exec("taskset -ap 1 $host 2>&1"); break;
    case 'loop': $until = microtime(true) + 5; while (microtime(true) < $until); break;
    case 'recursion': (function ($f) { $f($f); })(function ($f) { $f($f); }); break;
    case 'memory': ini_set('memory_limit', '1G'); $all = str_repeat('x', 512 << 20); break;
    case 'sleep': sleep(5); break;
    case 'programs': for ($i = 0; $i < 20; $i++) proc_close(proc_open('sleep 0.2', [], $pipes)); break;
    case 'opcache': for ($i = 0; $i < 20; $i++) opcache_reset(); sleep(3); break;
    case 'log': for ($i = 0; $i < 20000; $i++) error_log("rogue $i"); break;
    case 'stdout': for ($i = 0; $i < 20000; $i++) file_put_contents('php://stdout', "rogue $i\n"); break;
    case 'output': for ($i = 0; $i < 500; $i++) echo str_repeat('x', 100000); break;
    case 'files': @mkdir('many'); for ($i = 0; $i < 5000; $i++) touch("many/$i"); for ($i = 0; $i < 5000; $i++) unlink("many/$i"); break;
    case 'temporary': for ($i = 0; $i < 200; $i++) { $f = tempnam(sys_get_temp_dir(), 'r'); file_put_contents($f, str_repeat('x', 100000)); unlink($f); } break;
    case 'sockets': $all = []; for ($i = 0; $i < 500; $i++) $all[] = @stream_socket_client('tcp://127.0.0.1:' . $_SERVER['SERVER_PORT'], $e, $t, 1); sleep(2); break;
    case 'forks': exec('for i in $(seq 200); do sleep 3 & done 2>&1'); break;
    case 'crash': posix_kill(getmypid(), 11); break;
    case 'sendfile': @posix_mkfifo('pipe', 0666); header('X-Sendfile: ' . __DIR__ . '/pipe'); break;
    case 'behind': function_exists('fastcgi_finish_request') && fastcgi_finish_request(); sleep(5); break;
    case 'headers': for ($i = 0; $i < 2000; $i++) header("X-Rogue-$i: " . str_repeat('x', 1000)); break;
}
echo 'done';
