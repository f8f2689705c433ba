<?php
// Answers with everything that a script can see of its request and of the server that runs it, as JSON.
// Every byte that is not printable ASCII, and the backslash, is written as \xNN, so that the JSON is always valid.

function visible(mixed $value): mixed
{
    if (is_string($value)) {
        return preg_replace_callback('/[^\x20-\x7e]|\\\\/', fn($m) => sprintf('\\x%02x', ord($m[0])), $value);
    }
    if (is_array($value)) {
        $seen = [];
        foreach ($value as $key => $item) {
            $seen[visible((string) $key)] = visible($item);
        }
        return (object) $seen;
    }
    return is_scalar($value) || $value === null ? get_debug_type($value) . ':' . var_export($value, true) : get_debug_type($value);
}

function digest_of_input(): string
{
    $input = file_get_contents('php://input');
    return strlen($input) . ':' . sha1($input);
}

function uploads(): array
{
    $seen = [];
    array_walk_recursive($_FILES, function ($value, $key) use (&$seen) {
        if ($key === 'tmp_name' || (is_string($value) && str_starts_with($value, sys_get_temp_dir()))) {
            $seen[] = is_uploaded_file($value) ? filesize($value) . ':' . sha1_file($value) : 'no upload';
        }
    });
    return $seen;
}

$names = array_keys($_SERVER);
$answer = [
    'server' => $_SERVER,
    'get' => $_GET,
    'post' => $_POST,
    'files' => $_FILES,
    'uploads' => uploads(),
    'cookie' => $_COOKIE,
    'request' => $_REQUEST,
    'env' => $_ENV,
    'input' => digest_of_input(),
    'input again' => digest_of_input(),
    'getenv' => array_combine($names, array_map(getenv(...), $names)),
    'getallheaders' => function_exists('getallheaders') ? getallheaders() : 'missing',
    'apache_request_headers' => function_exists('apache_request_headers') ? apache_request_headers() : 'missing',
    'filter_input' => [filter_input(INPUT_GET, 'a'), filter_input(INPUT_SERVER, 'REQUEST_METHOD'), filter_input(INPUT_POST, 'a')],
    'facts' => [
        'sapi' => php_sapi_name(),
        'PHP_SAPI' => PHP_SAPI,
        'cwd' => getcwd(),
        'file' => __FILE__,
        'included' => array_map(fn($f) => substr($f, strlen(dirname(__DIR__))), get_included_files()),
        'argc' => $argc ?? null,
        'argv' => $argv ?? null,
        'status' => http_response_code(),
        'headers' => headers_list(),
        'headers_sent' => headers_sent(),
        'response headers' => function_exists('apache_response_headers') ? apache_response_headers() : 'missing',
        'ob_level' => ob_get_level(),
        'connection' => [connection_status(), connection_aborted(), ignore_user_abort()],
        'user' => [get_current_user(), function_exists('posix_geteuid') ? posix_geteuid() : null],
        'umask' => umask(),
        'locale' => [setlocale(LC_ALL, 0), date_default_timezone_get()],
        'STDIN' => defined('STDIN'),
        'opcache' => function_exists('opcache_get_status') && is_array(opcache_get_status(false)),
        'ini file' => php_ini_loaded_file() !== false,
        'ini scanned' => php_ini_scanned_files(),
        'binary' => basename(PHP_BINARY),
    ],
    'functions' => array_fill_keys(array_filter([
        'fastcgi_finish_request', 'litespeed_finish_request', 'getallheaders', 'apache_request_headers', 'apache_response_headers',
        'fpm_get_status', 'dl', 'cli_set_process_title', 'apache_get_modules', 'virtual', 'http_response_code', 'opcache_reset',
    ], function_exists(...)), true),
    'extensions' => array_fill_keys(array_map(strtolower(...), get_loaded_extensions()), true),
    'ini' => array_combine(
        $list = ['display_errors', 'html_errors', 'implicit_flush', 'output_buffering', 'max_execution_time', 'max_input_time',
            'memory_limit', 'post_max_size', 'upload_max_filesize', 'variables_order', 'request_order', 'register_argc_argv',
            'cgi.fix_pathinfo', 'fastcgi.logging', 'short_open_tag', 'default_charset', 'default_mimetype', 'expose_php', 'doc_root',
            'user_dir', 'enable_post_data_reading', 'user_ini.filename', 'auto_globals_jit', 'error_log', 'log_errors',
            'session.save_path', 'upload_tmp_dir', 'opcache.enable', 'opcache.enable_cli'],
        array_map(ini_get(...), $list)
    ),
];
echo json_encode(array_map(visible(...), $answer), JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES | JSON_THROW_ON_ERROR), "\n";
