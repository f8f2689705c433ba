<?php
// Does one thing with the response, chosen by ?do=NAME, as scripts of the wild do.

function act(string $name): void
{
    switch ($name) {
        case 'redirect': header('Location: /elsewhere?x=1'); break;
        case 'redirect-301': header('Location: http://other.test/', true, 301); echo 'moved'; break;
        case 'redirect-307': header('Location: /again', true, 307); break;
        case 'location-201': http_response_code(201); header('Location: /made/1'); echo 'made'; break;
        case 'local-location': header('Location: /dump.php'); http_response_code(200); echo 'stays'; break;
        case 'status-line': header('HTTP/1.1 404 Not Here'); echo 'nothing'; break;
        case 'status-line-10': header('HTTP/1.0 410 Gone'); echo 'gone'; break;
        case 'status-line-protocol': header($_SERVER['SERVER_PROTOCOL'] . ' 403 Forbidden', true, 403); echo 'no'; break;
        case 'status-header': header('Status: 503 Try Later'); echo 'later'; break;
        case 'status-bare': header('Status: 404'); echo 'none'; break;
        case 'code-418': http_response_code(418); echo 'teapot'; break;
        case 'code-599': http_response_code(599); echo 'odd'; break;
        case 'code-404-empty': http_response_code(404); break;
        case 'code-204': http_response_code(204); break;
        case 'code-204-body': http_response_code(204); echo 'must not be sent'; break;
        case 'code-304': http_response_code(304); header('ETag: "x"'); break;
        case 'code-304-body': http_response_code(304); echo 'must not be sent'; break;
        case 'code-500': http_response_code(500); echo 'broken page'; break;
        case 'empty': break;
        case 'type-json': header('Content-Type: application/json'); echo '{}'; break;
        case 'type-text': header('Content-Type: text/plain'); echo 'plain'; break;
        case 'type-charset': header('Content-Type: text/html; charset=ISO-8859-1'); echo "\xe9"; break;
        case 'type-odd-case': header('CONTENT-TYPE: text/css'); echo 'a{}'; break;
        case 'type-none': ini_set('default_mimetype', ''); echo 'untyped'; break;
        case 'type-removed': header_remove('Content-Type'); echo 'removed'; break;
        case 'header-twice': header('X-Same: 1'); header('X-Same: 2'); echo 'one'; break;
        case 'header-both': header('X-Same: 1'); header('X-Same: 2', false); echo 'two'; break;
        case 'header-case': header('x-lOwEr: V'); echo 'case'; break;
        case 'header-empty': header('X-Empty:'); header('X-Space:   '); echo 'empty'; break;
        case 'header-newline': @header("X-Bad: a\r\nX-Injected: b"); echo 'refused'; break;
        case 'header-no-colon': header('NoColonAtAll'); echo 'odd'; break;
        case 'header-latin1': header("X-Latin: caf\xe9"); echo 'bytes'; break;
        case 'header-utf8': header("X-Utf8: caf\u{e9}"); echo 'bytes'; break;
        case 'header-long': header('X-Long: ' . str_repeat('v', 3000)); echo 'long'; break;
        case 'header-many': for ($i = 0; $i < 60; $i++) header("X-Many-$i: $i"); echo 'many'; break;
        case 'header-removed': header('X-Gone: 1'); header_remove('X-Gone'); header_remove('X-Powered-By'); echo 'removed'; break;
        case 'header-callback': header_register_callback(fn() => header('X-Callback: yes')); echo 'called'; break;
        case 'link': header('Link: </a.css>; rel=preload'); header('Link: </b.js>; rel=preload', false); echo 'links'; break;
        case 'cookies':
            setcookie('a', '1'); setcookie('b', 'x y;', 2000000000, '/p', 'example.test', true, true);
            setcookie('c', '', 1); setcookie('d', '1', ['samesite' => 'Lax', 'path' => '/']); setrawcookie('e', 'raw');
            echo 'cookies'; break;
        case 'session': session_id('fixedsessionidentifier0000'); session_start(); $_SESSION['n'] = 1; echo session_id(); break;
        case 'cache-headers': header('Cache-Control: max-age=60'); header('Expires: Thu, 01 Jan 2037 00:00:00 GMT');
            header('Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT'); header('ETag: "v1"'); echo 'cached'; break;
        case 'length': header('Content-Length: 5'); echo '12345'; break;
        case 'length-flush': header('Content-Length: 10'); echo '12345'; flush(); echo '67890'; break;
        case 'flush': echo 'one '; flush(); echo 'two '; flush(); echo 'three'; break;
        case 'headers-after-output': echo 'early'; flush(); @header('X-Late: 1'); echo headers_sent() ? ' sent' : ' not sent'; break;
        case 'big': for ($i = 0; $i < 3000; $i++) echo str_repeat(chr(65 + $i % 26), 1024); break;
        case 'readfile': header('Content-Type: text/plain'); readfile(__DIR__ . '/static.txt'); break;
        case 'binary': header('Content-Type: application/octet-stream'); for ($i = 0; $i < 256; $i++) echo chr($i); break;
        case 'exit': echo 'before'; exit; echo 'after'; break;
        case 'exit-text': exit('with a text'); break;
        case 'exit-code': echo 'code'; exit(3); break;
        case 'shutdown': register_shutdown_function(function () { echo ' shutdown'; }); echo 'body'; break;
        case 'shutdown-header': register_shutdown_function(function () { header('X-Shutdown: 1'); echo ' end'; }); ob_start(); echo 'body'; break;
        case 'fatal': echo 'before'; no_such_function(); break;
        case 'fatal-buffered': ob_start(); echo 'before'; no_such_function(); break;
        case 'fatal-at-once': no_such_function(); break;
        case 'fatal-shown': ini_set('display_errors', '1'); ini_set('html_errors', '0'); no_such_function(); break;
        case 'fatal-after-flush': echo 'partial'; flush(); no_such_function(); break;
        case 'exception': throw new RuntimeException('uncaught'); break;
        case 'warning': echo $undefined; echo 'goes on'; break;
        case 'memory': ini_set('memory_limit', '8M'); $x = str_repeat('x', 16 << 20); break;
        case 'time-limit': set_time_limit(1); while (true) { } break;
        case 'error-log': error_log('a line for the log'); echo 'logged'; break;
        case 'stderr': file_put_contents('php://stderr', "to stderr\n"); echo 'written'; break;
        case 'unauthorized': header('WWW-Authenticate: Basic realm="x"'); http_response_code(401); echo 'who'; break;
        case 'auth-header-only': header('WWW-Authenticate: Basic realm="x"'); echo 'implied'; break;
        case 'finish': echo 'answer'; $ok = fastcgi_finish_request(); echo 'discarded'; file_put_contents(dirname(__DIR__) . '/finished', var_export($ok, true)); break;
        case 'zlib': ini_set('zlib.output_compression', '1'); echo str_repeat('compress me ', 200); break;
        case 'gzhandler': ob_start('ob_gzhandler'); echo str_repeat('compress me ', 200); break;
        case 'content-encoding': header('Content-Encoding: identity'); echo 'as it is'; break;
        case 'connection-close': header('Connection: close'); echo 'closing'; break;
        case 'connection-upgrade': header('Connection: upgrade'); header('Upgrade: x'); echo 'not really'; break;
        case 'transfer-encoding': header('Transfer-Encoding: chunked'); echo "5\r\nhello\r\n0\r\n\r\n"; break;
        case 'keep-alive': header('Keep-Alive: timeout=99'); echo 'hop by hop'; break;
        case 'date': header('Date: Sat, 01 Jan 2000 00:00:00 GMT'); echo 'dated'; break;
        case 'server': header('Server: mine'); echo 'named'; break;
        case 'accept-ranges': header('Accept-Ranges: bytes'); header('Content-Length: 10'); echo '0123456789'; break;
        case 'partial': http_response_code(206); header('Content-Range: bytes 0-4/10'); header('Content-Length: 5'); echo '01234'; break;
        case 'refresh': header('Refresh: 5; url=/next'); echo 'wait'; break;
        case 'x-accel': header('X-Accel-Redirect: /static.txt'); echo 'replaced'; break;
        case 'x-accel-buffering': header('X-Accel-Buffering: no'); echo 'streamed'; break;
        case 'x-sendfile': header('X-Sendfile: /etc/hostname'); echo 'kept'; break;
        case 'input-stream': $in = fopen('php://input', 'r'); $n = 0; while (!feof($in)) $n += strlen(fread($in, 1000)); echo $n; break;
        case 'output-stream': $out = fopen('php://output', 'w'); fwrite($out, 'through a stream'); break;
        case 'putenv': putenv('LEFT_BEHIND=1'); $_SERVER['LEFT'] = 1; ini_set('precision', '3'); setlocale(LC_ALL, 'C'); chdir('/tmp'); umask(0777); echo 'changed'; break;
        case 'left-behind': var_dump(getenv('LEFT_BEHIND'), $_SERVER['LEFT'] ?? null, ini_get('precision'), basename(getcwd()), umask()); break;
        case 'implicit': ob_implicit_flush(true); while (ob_get_level()) ob_end_flush(); echo 'a'; echo 'b'; break;
        case 'early-hints': header('Link: </style.css>; rel=preload'); echo 'hints'; break;
        default: http_response_code(400); echo 'no such act'; break;
    }
}

act($_GET['do'] ?? '');
