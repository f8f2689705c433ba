<?php

/**
 * The origin that http-cache-tests talks to through the cache under test: front controller of every URL.
 *
 *   PUT /config/ID    keeps what shall be answered to the requests of one test: a JSON list, an entry a request
 *   ANY /test/ID...   answers as the entry of this request says, and notes what was asked and answered
 *   GET /state/ID     those notes, which the client compares with what it sent and got
 *
 * What is kept lies in files beside the document root, so that any PHP process can answer.
 */

declare(strict_types=1);

const DATES = ['date', 'expires', 'last-modified', 'if-modified-since', 'if-unmodified-since'];
const LOCATIONS = ['location', 'content-location'];

define('NOW', microtime(true)); // one moment for all fields of a response: a second may end between two
ini_set('default_charset', ''); // no charset added to a Content-Type
header_remove('X-Powered-By');

$segments = explode('/', ltrim(explode('?', $_SERVER['REQUEST_URI'], 2)[0], '/'));
$id = $segments[1] ?? '';
if (!preg_match('/^[0-9a-f-]{36}$/', $id)) {
    say(404, 'no such test');
} else {
    match ($segments[0]) {
        'config' => configure($id),
        'state' => tell($id),
        'test' => play($id),
        default => say(404, 'no such thing'),
    };
}

/** Keeps the answers of a test. */
function configure(string $id): void
{
    if ($_SERVER['REQUEST_METHOD'] !== 'PUT') {
        say(405, 'PUT a configuration');
    } elseif (is_file(place($id, 'answers'))) {
        say(409, 'this test has its answers already');
    } else {
        file_put_contents(place($id, 'answers'), file_get_contents('php://input'));
        say(201, 'OK');
    }
}

/** Gives the notes of a test. */
function tell(string $id): void
{
    $notes = notes($id);
    $notes ? say(200, json_encode(array_column($notes, 'seen'))) : say(404, 'nothing was asked');
}

/** Answers one request of a test. */
function play(string $id): void
{
    $answers = is_file(place($id, 'answers')) ? json_decode(file_get_contents(place($id, 'answers')), true) : [];
    $notes = notes($id);
    $asked = asked();
    $count = count($notes) + 1;             // how many requests came through to here
    $client = (int) ($asked['req-num'] ?? 0); // how many the client has sent
    $number = $client ?: $count;
    $answer = $answers[$number - 1] ?? null;
    if ($answer === null) {
        say(409, 'no answer is known for this request');
        return;
    }
    $sent = fields($answer);
    $notes[] = [
        'number' => $number,
        'sent' => $sent,
        'seen' => [
            'request_num' => $client,
            'request_method' => $_SERVER['REQUEST_METHOD'],
            'request_headers' => (object) $asked,
            'response_headers' => compared($sent),
        ],
    ];
    file_put_contents(place($id, 'notes'), json_encode($notes), LOCK_EX);
    if (!empty($answer['disconnect'])) {
        posix_kill(getmypid(), SIGKILL); // the only way that a script can end without an answer
    }
    interim($answer);
    head($sent, $count, $client, implode(' ', array_map(fn ($note) => $note['seen']['request_num'], $notes)));
    body($answer, status($answer, $answers[$number - 2] ?? [], $notes, $asked), $id);
}

/** Interim responses, which the suite's newer versions ask for: those that PHP can send. */
function interim(array $answer): void
{
    foreach (function_exists('headers_send') ? $answer['interim_responses'] ?? [] : [] as $response) {
        foreach ($response[1] ?? [] as [$name, $value]) {
            header("$name: $value", false);
        }
        headers_send($response[0]);
        array_map(static fn ($field) => header_remove($field[0]), $response[1] ?? []);
    }
}

/** The fields of the request, names in lower case. */
function asked(): array
{
    $asked = [];
    foreach ($_SERVER as $name => $value) {
        if (str_starts_with($name, 'HTTP_')) {
            $asked[strtolower(strtr(substr($name, 5), '_', '-'))] = $value;
        }
    }
    foreach (['CONTENT_TYPE' => 'content-type', 'CONTENT_LENGTH' => 'content-length'] as $name => $field) {
        if (($_SERVER[$name] ?? '') !== '') {
            $asked[$field] = $_SERVER[$name];
        }
    }
    return $asked;
}

/** The fields of an answer as [name, value, compared by the client]: dates are seconds from now, locations may be relative. */
function fields(array $answer): array
{
    $fields = [];
    foreach ($answer['response_headers'] ?? [] as $field) {
        [$name, $value] = $field;
        $lower = strtolower($name);
        if (is_int($value) && in_array($lower, DATES, true)) {
            $format = in_array($lower, $answer['rfc850date'] ?? [], true) ? 'l, d-M-y H:i:s' : 'D, d M Y H:i:s';
            $value = gmdate($format, (int) NOW + $value) . ' GMT';
        } elseif (in_array($lower, LOCATIONS, true) && !empty($answer['magic_locations'])) {
            $value = $_SERVER['REQUEST_URI'] . ($value ? "/$value" : '');
        } elseif ($lower === 'surrogate-control' && isset($_SERVER['HTTP_SURROGATE_CAPABILITY'])) {
            $value = str_replace('CAPABILITY_TARGET', explode('=', $_SERVER['HTTP_SURROGATE_CAPABILITY'])[0], $value);
        }
        $fields[] = [$name, (string) $value, ($field[2] ?? true) === true];
    }
    return $fields;
}

/** Those fields that the client compares with what it gets; several of one name as a list. */
function compared(array $fields): array
{
    $values = $wanted = [];
    foreach ($fields as [$name, $value, $compare]) {
        $values[$name][] = $value;
        if ($compare) {
            $wanted[$name] = count($values[$name]) > 1 ? $values[$name] : $value;
        }
    }
    return array_map(fn ($name) => [(string) $name, $wanted[$name]], array_keys($wanted));
}

/** Status and reason: 304 where a validating request was expected and came, 999 where it didn't. */
function status(array $answer, array $before, array $notes, array $asked): array
{
    if (!str_ends_with($answer['expected_type'] ?? '', 'validated')) {
        return $answer['response_status'] ?? [200, 'OK'];
    }
    // As they were sent with the answer before; as they were written down, if that one was never asked for.
    $validators = array_column($before['response_headers'] ?? [], 1, 0);
    foreach ($notes as $note) {
        if ($note['number'] === end($notes)['number'] - 1) {
            $validators = array_column($note['sent'], 1, 0);
        }
    }
    $validators = array_change_key_case($validators);
    $same = fn ($field, $validator) => isset($validators[$validator]) && ($asked[$field] ?? null) === $validators[$validator];
    $valid = $same('if-modified-since', 'last-modified') || $same('if-none-match', 'etag');
    return $valid ? [304, 'Not Modified'] : [999, '304 Not Generated'];
}

/** Sends the fields of an answer. */
function head(array $fields, int $count, int $client, string $numbers): void
{
    header('Content-Type: text/plain');
    header('Server-Base-Url: ' . $_SERVER['REQUEST_URI']);
    header("Server-Request-Count: $count");
    header("Client-Request-Count: $client");
    header('Server-Now: ' . (int) (NOW * 1000));
    header('Capability-Seen: ' . ($_SERVER['HTTP_SURROGATE_CAPABILITY'] ?? ''));
    header("Request-Numbers: $numbers");
    $seen = [];
    foreach ($fields as [$name, $value]) {
        header("$name: $value", !isset($seen[strtolower($name)]));
        $seen[strtolower($name)] = true;
    }
}

/** Sends status and content. The status line comes last: PHP changes the status for some fields. */
function body(array $answer, array $status, string $id): void
{
    header("HTTP/1.1 $status[0] $status[1]", true, $status[0]);
    if ($status[0] === 200) {
        header('Status: 200 OK'); // unsaid, a 200 with a Location is a 302 (RFC 3875 section 6.2.3)
    }
    if ($status[0] !== 204 && $status[0] !== 304 && $_SERVER['REQUEST_METHOD'] !== 'HEAD') {
        $content = $answer['response_body'] ?? $id;
        if (!preg_grep('/^content-length:/i', headers_list())) {
            header('Content-Length: ' . strlen($content));
        }
        echo $content;
    }
}

/** What was noted of a test, in order. */
function notes(string $id): array
{
    return is_file(place($id, 'notes')) ? json_decode(file_get_contents(place($id, 'notes')), true) : [];
}

/** The file of a test. */
function place(string $id, string $what): string
{
    return dirname(__DIR__) . "/state/$id.$what";
}

/** An answer that isn't a test's, and that no cache may keep. */
function say(int $status, string $content): void
{
    header('Content-Type: text/plain');
    header('Cache-Control: no-store');
    http_response_code($status);
    echo $content;
}
