<?php
/** WordPress for a script of the command line; its folder is the script's first argument. */

$_SERVER = ['HTTP_HOST' => 'bench.test', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1'] + $_SERVER;
require $argv[1] . '/wp-load.php';
