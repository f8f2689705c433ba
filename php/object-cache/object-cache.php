<?php
/**
 * Plugin Name: Millrace object cache
 * Description: Keeps what WordPress reads from its database in the memory of the Millrace server. `millrace object-cache disable` removes this file.
 * Version: 1
 *
 * Millrace object cache drop-in. It was written by `millrace object-cache enable`, for this site only.
 *
 * Without its server - stopped, restarted, stuck - each lookup is a miss, and nothing else changes. No change is lost: see
 * Millrace_Objects::report(). What two processes change at the same time is read from the database again: the server compares the
 * tick as of which a process knows a key with that of its last change (crates/server/src/objects/store.rs).
 */

defined('ABSPATH') || exit;

/** The connection to the server: operations out, results in. */
final class Millrace_Objects
{
    private const SOCKET = '@SOCKET@';
    private const LOST = '@LOST@';
    /** Seconds to wait for an answer; for one that confirms a change. */
    private const WAIT = 0.25, WAIT_FOR_CHANGE = 1.0;
    /** No such file; connection refused: no server listens, so no server has data of this site. */
    private const NOBODY = [2, 111];
    /** Bytes and number of operations that may wait for the next frame. */
    private const WAITING_BYTES = 262144, WAITING = 500;

    /** Tick at which this process has begun to read. */
    public int $clock = 0;
    /** All changes of the site from `clock` to this tick were this process's own. */
    private int $own = 0;
    /** Largest object that the server takes, bytes. */
    public int $largest = 0;
    /** Frames sent. */
    public int $round_trips = 0;
    /** @var resource|null */
    private $stream;
    /** Process that has opened the stream: a forked one must not use it. */
    private int $process = 0;
    private bool $is_off = false;
    /** Whether the server lives, but does not answer. */
    private bool $is_stuck = false;
    /** Additions that wait for the next frame. */
    private string $waiting = '';
    /** Their places among the results, by group and id. */
    private array $places = [];
    private int $waiting_count = 0;
    /** Ticks of additions that were sent and taken, by group and id. */
    private array $ticks = [];

    public function is_off(): bool
    {
        return $this->is_off;
    }

    /** Connects, so that `clock` is known. */
    public function begin(): bool
    {
        return $this->stream !== null || (!$this->is_off && $this->exchange('', '') !== null);
    }

    /** An addition that may come later: a value that was missing. If it gets lost, it is missing again. */
    public function later(string $operation, string $group, $id): void
    {
        $this->waiting .= $operation;
        $this->places[$group][$id] = $this->waiting_count++;
        if (strlen($this->waiting) > self::WAITING_BYTES || $this->waiting_count >= self::WAITING) {
            $this->send_waiting();
        }
    }

    public function send_waiting(): void
    {
        if ($this->waiting_count > 0) {
            $this->exchange('', '');
        }
    }

    /** The tick of an earlier addition, which is sent if it waits; null: there was none, or it was not taken. */
    public function added(string $group, $id): ?int
    {
        if (isset($this->places[$group][$id])) {
            $this->send_waiting();
        }
        $tick = $this->ticks[$group][$id] ?? null;
        unset($this->ticks[$group][$id]);
        return $tick;
    }

    /**
     * Sends operations; returns their results, or null if there is no answer. Each kind is a letter: g(et), s(et), d(elete), a(dd), f(lush).
     * A result is [status, tick] and, of a hit, format and bytes, of an addition the sum.
     */
    public function exchange(string $operations, string $kinds, float $wait = self::WAIT): ?array
    {
        if ($this->is_off || ($this->stream !== null && $this->process !== getmypid())) {
            $this->is_off = true;
            return null;
        }
        set_error_handler(static fn (): bool => true);
        try {
            $results = $this->try_exchange($operations, $kinds, $wait);
        } catch (Throwable $error) {
            $results = null;
        } finally {
            restore_error_handler();
        }
        if ($results === null) {
            $this->turn_off();
        }
        return $results;
    }

    private function try_exchange(string $operations, string $kinds, float $wait): ?array
    {
        [$skip, $places] = [$this->waiting_count, $this->places];
        $operations = $this->waiting . $operations;
        $kinds = str_repeat('s', $skip) . $kinds;
        [$this->waiting, $this->places, $this->waiting_count] = ['', [], 0];
        if ($this->stream === null) {
            $errno = 0;
            $this->stream = self::connect($wait, $errno);
            if ($this->stream === null) {
                return null;
            }
            $this->process = getmypid();
            $operations = "\1\1" . $operations;
            $kinds = 'h' . $kinds;
        }
        $this->round_trips++;
        $results = self::converse($this->stream, $operations, $kinds, $wait);
        if ($results === null || ($kinds !== '' && $kinds[0] === 'h' && !$this->greet(array_shift($results)))) {
            return null;
        }
        $this->note_own($results, ltrim($kinds, 'h'));
        foreach ($places as $group => $ids) {
            foreach ($ids as $id => $place) {
                if ($results[$place][0] === 1) {
                    $this->ticks[$group][$id] = $results[$place][1];
                }
            }
        }
        return $skip ? array_slice($results, $skip) : $results;
    }

    private function greet(array $result): bool
    {
        [$status, $this->clock, $this->largest] = $result;
        $this->own = $this->clock;
        return $status === 1;
    }

    /** After a flush with this tick: if nobody else has changed anything since `clock`, all is known as of the flush. */
    public function begin_again(int $tick): bool
    {
        if ($tick !== $this->own) {
            return false;
        }
        $this->clock = $tick;
        return true;
    }

    private function note_own(array $results, string $kinds): void
    {
        foreach ($results as $at => [$status, $tick]) {
            $has_changed = strpos('df', $kinds[$at]) !== false || ($status === 1 && strpos('sa', $kinds[$at]) !== false);
            if ($has_changed && $tick === $this->own + 1) {
                $this->own = $tick;
            }
        }
    }

    private function turn_off(): void
    {
        $this->is_off = true;
        [$this->waiting, $this->places, $this->waiting_count] = ['', [], 0];
        if ($this->stream !== null) {
            fclose($this->stream);
            $this->stream = null;
        }
    }

    /** @return resource|null */
    private static function connect(float $wait, int &$errno)
    {
        $message = '';
        $stream = stream_socket_client('unix://' . self::SOCKET, $errno, $message, $wait);
        if ($stream === false) {
            return null;
        }
        stream_set_chunk_size($stream, 65536);
        return $stream;
    }

    /** One frame each way. */
    private static function converse($stream, string $operations, string $kinds, float $wait): ?array
    {
        stream_set_timeout($stream, (int) $wait, (int) (fmod($wait, 1) * 1e6));
        $frame = pack('V', strlen($operations)) . $operations;
        for ($sent = 0; $sent < strlen($frame); $sent += $wrote) {
            $wrote = fwrite($stream, $sent === 0 ? $frame : substr($frame, $sent));
            if ($wrote === false || $wrote === 0) {
                return null;
            }
        }
        $head = stream_get_contents($stream, 4);
        if ($head === false || strlen($head) !== 4) {
            return null;
        }
        $length = unpack('V', $head)[1];
        $answer = $length === 0 ? '' : stream_get_contents($stream, $length);
        return $answer === false || strlen($answer) !== $length ? null : self::read($answer, $kinds);
    }

    private static function read(string $answer, string $kinds): array
    {
        $results = [];
        $at = 0;
        for ($i = 0, $count = strlen($kinds); $i < $count; $i++) {
            ['s' => $status, 't' => $tick] = unpack('Cs/Pt', $answer, $at);
            $at += 9;
            $result = [$status, $tick];
            if ($kinds[$i] === 'g' && $status === 1) {
                ['f' => $format, 'l' => $length] = unpack('Cf/Vl', $answer, $at);
                array_push($result, $format, substr($answer, $at + 5, $length));
                $at += 5 + $length;
            } elseif ($kinds[$i] === 'a' && $status === 1) {
                $result[] = unpack('P', $answer, $at)[1];
                $at += 8;
            } elseif ($kinds[$i] === 'h') {
                $result[] = unpack('V', $answer, $at)[1];
                $at += 4;
            }
            $results[] = $result;
        }
        return $results;
    }

    /**
     * The connection is lost: tells the server that something has changed, `deletion`, before PHP goes on.
     *
     * - Nobody listens at the socket: the server's memory is gone, and with it all data.
     * - A server answers on a new connection: done.
     * - A server lives and does not answer in time, or refuses: a byte is appended to the file of lost reports. The server looks at
     *   it before it answers anybody, and forgets all objects of the site.
     */
    public function report(string $deletion, string $kind = 'd'): void
    {
        if ($this->is_stuck) {
            $this->note();
            return;
        }
        set_error_handler(static fn (): bool => true);
        try {
            $errno = 0;
            $stream = self::connect(self::WAIT_FOR_CHANGE, $errno);
            $is_known = $stream === null
                ? in_array($errno, self::NOBODY, true)
                : self::converse($stream, $deletion, $kind, self::WAIT_FOR_CHANGE) !== null;
            if ($stream !== null) {
                fclose($stream);
            }
        } catch (Throwable $error) {
            $is_known = false;
        } finally {
            restore_error_handler();
        }
        if (!$is_known) {
            $this->is_stuck = true;
            $this->note();
        }
    }

    private function note(): void
    {
        static $is_told = false;
        if (@file_put_contents(self::LOST, 'x', FILE_APPEND) !== 1 && !$is_told) {
            $is_told = true;
            error_log('Millrace object cache: a change could not be reported to ' . self::SOCKET . ', nor noted in ' . self::LOST
                . '; visitors may see old data until it changes again: run this as the user of PHP or the owner of the site, or set object_cache.user');
        }
    }

    /** Waits for the confirmation of a change: its result, or null if it was only reported. */
    public function change(string $operation, string $kind, string $deletion, string $deletion_kind = 'd'): ?array
    {
        $results = $this->exchange($operation, $kind, self::WAIT_FOR_CHANGE);
        if ($results === null) {
            $this->report($deletion, $deletion_kind);
            return null;
        }
        return $results[0];
    }
}

#[AllowDynamicProperties]
class WP_Object_Cache
{
    public $cache_hits = 0;
    public $cache_misses = 0;
    public $global_groups = [];
    public $non_persistent_groups = [];
    public $blog_prefix = '';
    public $multisite = false;

    private const INTEGER = 1, TEXT = 2, SERIALIZED = 3;
    private const SET = 0, ADD = 1, REPLACE = 2, COMPARE = 3;
    private const LAST_WINS = 1, FILL = 2;
    private const LATEST = PHP_INT_MAX;
    /** Keys of one frame. */
    private const AT_ONCE = 1000;
    /**
     * Groups into which WordPress adds what it has read from its database: the server takes no value that was read before a change. In
     * other groups an addition without a lookup may be a lock, which must be atomic, but not new.
     */
    private const FILLED = '/^(options|site-options|posts|post-queries|terms|term-queries|comment|comment-queries|users|user-queries|userlogins'
        . '|useremail|userslugs|blog-details|blog-lookup|blog-id-cache|site-details|site-queries|sites|networks|network-queries|global-posts'
        . '|bookmark|timeinfo|calendar|.+_meta|.+_relationships)$/D';
    /** Keys that are asked for together at the start of a page, at most; groups that are better asked when needed. */
    private const PREFETCHED = 600;
    /** Pages whose keys are remembered. */
    private const PAGES = 1024;
    private const NOT_PREFETCHED = '/transient|session|lock|^millrace$/';

    /** Values of this request by group and id. */
    private $cache = [];
    /** Tick as of which a key is known, by group and id. */
    private array $as_of = [];
    /** Objects that were fetched and not used yet: [format, bytes], by group and id. */
    private array $fetched = [];
    /** Keys that were asked for together and were missing, by group and id. */
    private array $missing = [];
    /** Keys that this request has asked for. */
    private array $used = [];
    /** What was remembered for this page. */
    private array $remembered = [];
    private string $page = '';
    private array $is_filled = [];
    /** Databases that share one directory of files share no objects. */
    private string $salt;
    private Millrace_Objects $server;

    public function __construct()
    {
        $this->multisite = is_multisite();
        $this->blog_prefix = $this->multisite ? get_current_blog_id() . ':' : '';
        $which = [DB_HOST, DB_NAME, $GLOBALS['table_prefix'] ?? '', defined('WP_CACHE_KEY_SALT') ? WP_CACHE_KEY_SALT : ''];
        $this->salt = substr(md5(implode("\0", $which)), 0, 8);
        $this->server = new Millrace_Objects();
        $this->add_non_persistent_groups(['counts', 'plugins', 'theme_json']);
        $this->prefetch();
    }

    public function __get($name)
    {
        return $name === 'cache' ? $this->cache : null;
    }

    public function __isset($name)
    {
        return $name === 'cache';
    }

    public function add($key, $data, $group = 'default', $expire = 0)
    {
        if (wp_suspend_cache_addition() || !$this->is_valid_key($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        if ($this->is_here($group, $id) || isset($this->fetched[$group][$id])) {
            return false;
        }
        if (!$this->is_shared($group) || !$this->server->begin()) {
            $this->keep($group, $id, $data);
            return true;
        }
        $is_fill = $this->is_filled[$group] ??= preg_match(self::FILLED, $group) === 1;
        $as_of = $this->as_of[$group][$id] ?? ($is_fill ? $this->server->clock : self::LATEST);
        $operation = $this->set_operation(self::ADD, $group, $id, $data, $expire, $as_of, $is_fill ? self::FILL : 0);
        // What contains many rows may correct what another process has read before a change: that must not come later.
        $is_now = !$is_fill || ($group === 'options' && !is_int($id) && preg_match('/^(\d+:)?(all|not)options$/D', $id));
        if ($operation !== null && !$is_now) {
            $this->server->later($operation, $group, $id);
        } elseif ($operation !== null) {
            $result = $this->server->exchange($operation, 's')[0] ?? null;
            if ($result !== null && $result[0] !== 1 && !$is_fill) {
                // The next attempt may be one for a lock that is free again.
                unset($this->as_of[$group][$id]);
                return false;
            }
            if ($result !== null && $result[0] === 1) {
                $this->as_of[$group][$id] = $result[1];
            }
        }
        $this->keep($group, $id, $data);
        return true;
    }

    public function add_multiple(array $data, $group = '', $expire = 0)
    {
        $added = [];
        foreach ($data as $key => $value) {
            $added[$key] = $this->add($key, $value, $group, $expire);
        }
        return $added;
    }

    public function replace($key, $data, $group = 'default', $expire = 0)
    {
        if (!$this->is_valid_key($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        if (!$this->is_shared($group) || $this->server->is_off()) {
            return $this->is_here($group, $id) && $this->set($key, $data, $group, $expire);
        }
        return $this->store(self::REPLACE, $group, $id, $data, $expire);
    }

    public function set($key, $data, $group = 'default', $expire = 0)
    {
        if (!$this->is_valid_key($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        if (!$this->is_shared($group)) {
            $this->keep($group, $id, $data);
            return true;
        }
        return $this->store(self::SET, $group, $id, $data, $expire);
    }

    public function set_multiple(array $data, $group = '', $expire = 0)
    {
        $set = [];
        foreach ($data as $key => $value) {
            $set[$key] = $this->set($key, $value, $group, $expire);
        }
        return $set;
    }

    /** Stores a value, which another process may see before this returns; the server's refusal is the result. */
    private function store(int $mode, string $group, $id, $data, $expire): bool
    {
        unset($this->fetched[$group][$id]);
        $deletion = $this->delete_operation($group, $id);
        if (!$this->server->begin()) {
            $this->server->report($deletion);
            $this->keep($group, $id, $data);
            return true;
        }
        $as_of = $this->as_of($group, $id);
        $operation = $this->set_operation($mode, $group, $id, $data, $expire, $as_of);
        $result = $operation === null
            ? $this->server->change($deletion, 'd', $deletion)
            : $this->server->change($operation, 's', $deletion);
        if ($result !== null && $mode === self::REPLACE && $result[0] === 2) {
            unset($this->cache[$group][$id]);
            return false;
        }
        $this->keep($group, $id, $data);
        if ($operation !== null && $result !== null && $result[0] === 1) {
            $this->as_of[$group][$id] = $result[1];
        }
        return $result === null || $operation === null || $result[0] === 1;
    }

    public function get($key, $group = 'default', $force = false, &$found = null)
    {
        if (!$this->is_valid_key($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        $is_here = $this->is_here($group, $id);
        if ((!$is_here || $force) && $this->is_shared($group)) {
            if ($force || !(isset($this->fetched[$group][$id]) || isset($this->missing[$group][$id]))) {
                $this->fetch($group, [$id], $force);
            }
            unset($this->missing[$group][$id]);
            $is_here = $this->unpack($group, $id) || $this->is_here($group, $id);
            if (!$is_here) {
                $this->note_use($group, $id);
            }
        }
        $found = $is_here;
        if (!$is_here) {
            $this->cache_misses++;
            return false;
        }
        $this->cache_hits++;
        $value = $this->cache[$group][$id];
        return is_object($value) ? clone $value : $value;
    }

    public function get_multiple($keys, $group = 'default', $force = false)
    {
        $real = $this->place('', $group)[0];
        $wanted = [];
        foreach ($this->is_shared($real) ? $keys : [] as $key) {
            if (!is_int($key) && (!is_string($key) || trim($key) === '')) {
                continue;
            }
            $id = $this->place($key, $group)[1];
            if ($force || !($this->is_here($real, $id) || isset($this->fetched[$real][$id]) || isset($this->missing[$real][$id]))) {
                $wanted[$id] = $id;
            }
        }
        if ($wanted) {
            $this->fetch($real, array_values($wanted), $force);
        }
        $values = [];
        foreach ($keys as $key) {
            $id = is_scalar($key) ? $this->place($key, $group)[1] : '';
            $is_missing = isset($wanted[$id]) && !$this->is_here($real, $id) && !isset($this->fetched[$real][$id]);
            if ($is_missing) {
                $this->cache_misses++;
                $this->note_use($real, $id);
            }
            $values[$key] = $is_missing ? false : $this->get($key, $group);
        }
        return $values;
    }

    public function delete($key, $group = 'default', $deprecated = false)
    {
        if (!$this->is_valid_key($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        $was_here = $this->is_here($group, $id) || isset($this->fetched[$group][$id]);
        unset($this->cache[$group][$id], $this->fetched[$group][$id], $this->used["$group\0$id"]);
        if (!$this->is_shared($group)) {
            return $was_here;
        }
        $operation = $this->delete_operation($group, $id);
        if (!$this->server->begin()) {
            $this->server->report($operation);
            return $was_here;
        }
        $result = $this->server->change($operation, 'd', $operation);
        if ($result === null) {
            return $was_here;
        }
        if ($result[0] & 2) {
            $this->as_of[$group][$id] = $result[1];
        }
        return (bool) ($result[0] & 1) || $was_here;
    }

    public function delete_multiple(array $keys, $group = '')
    {
        $deleted = [];
        [$operations, $places] = ['', []];
        foreach ($keys as $key) {
            if (count($keys) < 2 || $this->server->is_off() || !$this->is_valid_key($key)) {
                $deleted[$key] = $this->delete($key, $group);
                continue;
            }
            [$real, $id] = $this->place($key, $group);
            if (!$this->is_shared($real)) {
                $deleted[$key] = $this->delete($key, $group);
                continue;
            }
            $deleted[$key] = $this->is_here($real, $id) || isset($this->fetched[$real][$id]);
            unset($this->cache[$real][$id], $this->fetched[$real][$id], $this->used["$real\0$id"]);
            $operations .= $this->delete_operation($real, $id);
            $places[] = [$key, $real, $id];
            if (count($places) === self::AT_ONCE) {
                $this->delete_now($operations, $places, $deleted);
                [$operations, $places] = ['', []];
            }
        }
        if ($places) {
            $this->delete_now($operations, $places, $deleted);
        }
        return $deleted;
    }

    private function delete_now(string $operations, array $places, array &$deleted): void
    {
        $kinds = str_repeat('d', count($places));
        $results = $this->server->exchange($operations, $kinds, 1.0);
        if ($results === null) {
            $this->server->report($operations, $kinds);
            return;
        }
        foreach ($results as $at => [$status, $tick]) {
            [$key, $group, $id] = $places[$at];
            $deleted[$key] = $deleted[$key] || $status & 1;
            if ($status & 2) {
                $this->as_of[$group][$id] = $tick;
            }
        }
    }

    public function incr($key, $offset = 1, $group = 'default')
    {
        return $this->change_number($key, (int) $offset, $group);
    }

    public function decr($key, $offset = 1, $group = 'default')
    {
        return $this->change_number($key, -(int) $offset, $group);
    }

    private function change_number($key, int $by, $group)
    {
        if (!$this->is_valid_key($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        if (!$this->is_shared($group) || !$this->server->begin()) {
            if (!$this->is_here($group, $id)) {
                return false;
            }
            $this->cache[$group][$id] = self::sum($this->cache[$group][$id], $by);
            if ($this->is_shared($group)) {
                $this->server->report($this->delete_operation($group, $id));
            }
            return $this->cache[$group][$id];
        }
        unset($this->fetched[$group][$id]);
        $deletion = $this->delete_operation($group, $id);
        $result = $this->server->change("\5" . pack('P', $by) . $this->name($group, $id), 'a', $deletion);
        if ($result === null) {
            return $this->change_number_here($group, $id, $by);
        }
        if ($result[0] === 1) {
            $this->as_of[$group][$id] = $result[1];
            return $this->cache[$group][$id] = $result[2];
        }
        return $result[0] === 2 ? $this->change_other_number($group, $id, $by) : $this->forget($group, $id);
    }

    private function change_number_here(string $group, $id, int $by)
    {
        return $this->is_here($group, $id) ? $this->cache[$group][$id] = self::sum($this->cache[$group][$id], $by) : false;
    }

    /** A number that the server can't add to: a fraction, a text. Read, added and stored if nobody else has changed it meanwhile. */
    private function change_other_number(string $group, $id, int $by)
    {
        for ($try = 0; $try < 20; $try++) {
            $this->fetch($group, [$id], true);
            if (!$this->unpack($group, $id) && !$this->is_here($group, $id)) {
                return false;
            }
            $sum = self::sum($this->cache[$group][$id], $by);
            $operation = $this->set_operation(self::COMPARE, $group, $id, $sum, 0, $this->as_of($group, $id));
            $result = $this->server->change($operation, 's', $this->delete_operation($group, $id));
            if ($result === null || $result[0] === 1) {
                if ($result !== null) {
                    $this->as_of[$group][$id] = $result[1];
                }
                return $this->cache[$group][$id] = $sum;
            }
        }
        return $this->forget($group, $id);
    }

    private function forget(string $group, $id): bool
    {
        unset($this->cache[$group][$id]);
        return false;
    }

    /** As WordPress adds. */
    private static function sum($value, int $by)
    {
        $sum = (is_numeric($value) ? $value : 0) + $by;
        return $sum < 0 ? 0 : $sum;
    }

    public function flush()
    {
        // What was known before stays known as of then: a value that was read before another process's change is refused.
        $this->cache = $this->fetched = $this->missing = $this->used = $this->remembered = [];
        $this->page = '';
        $this->change_all("\6");
        return true;
    }

    public function flush_group($group)
    {
        $group = (string) $group;
        unset($this->cache[$group], $this->fetched[$group]);
        if ($this->is_shared($group)) {
            $this->change_all("\7" . $this->group_name($group));
        }
        return true;
    }

    private function change_all(string $operation): void
    {
        if ($this->server->begin()) {
            $result = $this->server->change($operation, 'f', $operation, 'f');
            if ($result !== null && $this->server->begin_again($result[1])) {
                $this->as_of = [];
            }
        } else {
            $this->server->report($operation, 'f');
        }
    }

    public function flush_runtime()
    {
        $this->cache = $this->fetched = $this->missing = [];
        return true;
    }

    public function add_global_groups($groups)
    {
        $this->global_groups = array_merge($this->global_groups, array_fill_keys((array) $groups, true));
    }

    public function add_non_persistent_groups($groups)
    {
        $this->non_persistent_groups = array_merge($this->non_persistent_groups, array_fill_keys((array) $groups, true));
    }

    public function switch_to_blog($blog_id)
    {
        $this->blog_prefix = $this->multisite ? (int) $blog_id . ':' : '';
    }

    public function reset()
    {
        _deprecated_function(__FUNCTION__, '3.5.0', 'WP_Object_Cache::switch_to_blog()');
        $this->cache = array_intersect_key($this->cache, $this->global_groups);
        $this->fetched = array_intersect_key($this->fetched, $this->global_groups);
    }

    public function stats()
    {
        $state = $this->server->is_off() ? 'no answer: every lookup is a miss' : $this->server->round_trips . ' round trips';
        echo "<p><strong>Cache Hits:</strong> {$this->cache_hits}<br /><strong>Cache Misses:</strong> {$this->cache_misses}<br />"
            . "<strong>Millrace:</strong> {$state}</p>";
    }

    /** The request ends: what may come later is sent now. */
    public function close(): bool
    {
        $this->remember();
        $this->server->send_waiting();
        return true;
    }

    // What is asked for together.

    /** Asks for all that this page has used the last time, in one go. */
    private function prefetch(): void
    {
        $path = $_SERVER['REQUEST_URI'] ?? null;
        if (PHP_SAPI === 'cli' || !is_string($path) || !in_array($_SERVER['REQUEST_METHOD'] ?? '', ['GET', 'HEAD', 'POST'], true)) {
            return;
        }
        $is_known = preg_grep('/^wordpress_logged_in_/', array_map('strval', array_keys($_COOKIE)));
        $path = strtok($path, '?');
        // Addresses without end, as robots ask for, share their lists.
        $page = crc32(($_SERVER['HTTP_HOST'] ?? '') . "\0$path\0" . $_SERVER['REQUEST_METHOD'] . ($is_known ? "\0member" : ''));
        $this->page = 'page ' . $page % self::PAGES;
        $list = $this->server->exchange($this->get_operation('millrace', $this->page), 'g')[0] ?? [0, 0];
        $this->remembered = $list[0] === 1 ? explode("\n", $list[3]) : [];
        $operations = $kinds = '';
        $names = [];
        foreach ($this->remembered as $name) {
            $parts = explode("\0", $name, 2);
            if (count($parts) === 2) {
                $names[] = $parts;
                $operations .= $this->get_operation($parts[0], $parts[1]);
                $kinds .= 'g';
            }
        }
        foreach ($names ? $this->server->exchange($operations, $kinds) ?? [] : [] as $at => $result) {
            [$group, $id] = $names[$at];
            $this->as_of[$group][$id] = $result[1];
            if ($result[0] === 1) {
                $this->fetched[$group][$id] = [$result[2], $result[3]];
            } elseif ($result[0] === 0) {
                $this->missing[$group][$id] = true;
            }
        }
    }

    private function note_use(string $group, $id): void
    {
        if ($this->page !== '' && strpos((string) $id, "\n") === false) {
            $this->used["$group\0$id"] = true;
        }
    }

    /** Remembers the keys of this page if they are others than the last time. */
    private function remember(): void
    {
        if ($this->page === '' || $this->server->is_off()) {
            return;
        }
        $wanted = preg_grep(self::NOT_PREFETCHED, array_keys($this->used), PREG_GREP_INVERT);
        $used = array_slice($wanted, 0, self::PREFETCHED);
        $same = count(array_intersect($used, $this->remembered));
        if (count($used) + count($this->remembered) - 2 * $same > max(4, count($used) / 10)) {
            $operation = $this->set_operation(self::SET, 'millrace', $this->page, implode("\n", $used), 86400, self::LATEST);
            $this->server->later((string) $operation, 'millrace', $this->page);
        }
        $this->page = '';
    }

    // Keys and values.

    private function is_valid_key($key): bool
    {
        if (is_int($key) || (is_string($key) && trim($key) !== '')) {
            return true;
        }
        $message = is_string($key) ? 'Cache key must not be an empty string.'
            : sprintf('Cache key must be integer or non-empty string, %s given.', gettype($key));
        _doing_it_wrong(__CLASS__ . '::' . debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 2)[1]['function'], $message, '6.1.0');
        return false;
    }

    private function place($key, $group): array
    {
        $group = empty($group) ? 'default' : (string) $group;
        return [$group, $this->multisite && !isset($this->global_groups[$group]) ? $this->blog_prefix . $key : $key];
    }

    private function is_shared(string $group): bool
    {
        return !isset($this->non_persistent_groups[$group]);
    }

    private function is_here(string $group, $id): bool
    {
        return isset($this->cache[$group]) && (isset($this->cache[$group][$id]) || array_key_exists($id, $this->cache[$group]));
    }

    private function keep(string $group, $id, $data): void
    {
        $this->cache[$group][$id] = is_object($data) ? clone $data : $data;
        unset($this->fetched[$group][$id]);
        $this->note_use($group, $id);
    }

    private function as_of(string $group, $id): int
    {
        $added = $this->server->added($group, $id);
        if ($added !== null) {
            $this->as_of[$group][$id] = max($added, $this->as_of[$group][$id] ?? $this->server->clock);
        }
        return $this->as_of[$group][$id] ?? ($this->last_wins($group, $id) ? self::LATEST : $this->server->clock);
    }

    /** Objects without a row in the database, of which the later one is right. */
    private function last_wins(string $group, $id): bool
    {
        return $group === 'transient' || $group === 'site-transient' || substr((string) $id, -12) === 'last_changed';
    }

    /** Fetches objects from the server. */
    private function fetch(string $group, array $ids, bool $force): void
    {
        foreach (array_chunk($ids, self::AT_ONCE) as $some) {
            $operations = '';
            foreach ($some as $id) {
                $operations .= $this->get_operation($group, $id);
            }
            $results = $this->server->exchange($operations, str_repeat('g', count($some)));
            foreach ($results ?? [] as $at => $result) {
                $id = $some[$at];
                $this->as_of[$group][$id] = $result[1];
                unset($this->fetched[$group][$id]);
                if ($force) {
                    unset($this->cache[$group][$id]);
                }
                if ($result[0] === 1) {
                    $this->fetched[$group][$id] = [$result[2], $result[3]];
                }
            }
        }
    }

    /** Makes a value of a fetched object; false if there is none, or one of another format. */
    private function unpack(string $group, $id): bool
    {
        if (!isset($this->fetched[$group][$id])) {
            return false;
        }
        [$format, $bytes] = $this->fetched[$group][$id];
        unset($this->fetched[$group][$id]);
        if ($format === self::SERIALIZED) {
            try {
                $value = @unserialize($bytes);
            } catch (Throwable $error) {
                return false;
            }
            if ($value === false && $bytes !== 'b:0;') {
                return false;
            }
        } elseif ($format === self::TEXT) {
            $value = $bytes;
        } elseif ($format === self::INTEGER) {
            $value = (int) $bytes;
        } else {
            return false;
        }
        $this->cache[$group][$id] = $value;
        $this->note_use($group, $id);
        return true;
    }

    private function get_operation(string $group, $id): string
    {
        return "\2" . $this->name($group, $id);
    }

    private function delete_operation(string $group, $id): string
    {
        return "\4" . pack('P', $this->as_of($group, $id)) . $this->name($group, $id);
    }

    /** Null: a value that no other process can have - too large, a closure. */
    private function set_operation(int $mode, string $group, $id, $data, $expire, int $as_of, int $flags = 0): ?string
    {
        if (is_int($data)) {
            [$format, $bytes] = [self::INTEGER, (string) $data];
        } elseif (is_string($data)) {
            [$format, $bytes] = [self::TEXT, $data];
        } else {
            try {
                [$format, $bytes] = [self::SERIALIZED, serialize($data)];
            } catch (Throwable $error) {
                return null;
            }
        }
        if (strlen($bytes) > $this->server->largest) {
            return null;
        }
        $flags |= $this->last_wins($group, $id) ? self::LAST_WINS : 0;
        $seconds = min(max(0, (int) $expire), 0xffffffff);
        return "\3" . pack('CCPVC', $mode, $flags, $as_of, $seconds, $format) . $this->name($group, $id) . pack('V', strlen($bytes)) . $bytes;
    }

    private function name(string $group, $id): string
    {
        $id = (string) $id;
        $id = strlen($id) > 500 ? 'sha:' . hash('sha256', $id) : $id;
        return $this->group_name($group) . pack('v', strlen($id)) . $id;
    }

    private function group_name(string $group): string
    {
        $group = $this->salt . (strlen($group) > 200 ? 'sha:' . hash('sha256', $group) : $group);
        return chr(strlen($group)) . $group;
    }
}

function wp_cache_init()
{
    $GLOBALS['wp_object_cache'] = new WP_Object_Cache();
    if (!has_action('deleted_option', 'millrace_option_deleted')) {
        add_action('deleted_option', 'millrace_option_deleted', -1000);
    }
}

/**
 * delete_option() deletes an option in one of its two places, by what it has read before. A process that changes the option at the same
 * time may have put it into the other.
 */
function millrace_option_deleted($option)
{
    wp_cache_delete($option, 'options');
    if (isset(wp_load_alloptions(true)[$option])) {
        wp_cache_delete('alloptions', 'options');
    }
}

function wp_cache_add($key, $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->add($key, $data, $group, (int) $expire);
}

function wp_cache_add_multiple(array $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->add_multiple($data, $group, (int) $expire);
}

function wp_cache_replace($key, $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->replace($key, $data, $group, (int) $expire);
}

function wp_cache_set($key, $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->set($key, $data, $group, (int) $expire);
}

function wp_cache_set_multiple(array $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->set_multiple($data, $group, (int) $expire);
}

function wp_cache_get($key, $group = '', $force = false, &$found = null)
{
    return $GLOBALS['wp_object_cache']->get($key, $group, $force, $found);
}

function wp_cache_get_multiple($keys, $group = '', $force = false)
{
    return $GLOBALS['wp_object_cache']->get_multiple($keys, $group, $force);
}

function wp_cache_delete($key, $group = '')
{
    return $GLOBALS['wp_object_cache']->delete($key, $group);
}

function wp_cache_delete_multiple(array $keys, $group = '')
{
    return $GLOBALS['wp_object_cache']->delete_multiple($keys, $group);
}

function wp_cache_incr($key, $offset = 1, $group = '')
{
    return $GLOBALS['wp_object_cache']->incr($key, $offset, $group);
}

function wp_cache_decr($key, $offset = 1, $group = '')
{
    return $GLOBALS['wp_object_cache']->decr($key, $offset, $group);
}

function wp_cache_flush()
{
    return $GLOBALS['wp_object_cache']->flush();
}

function wp_cache_flush_runtime()
{
    return $GLOBALS['wp_object_cache']->flush_runtime();
}

function wp_cache_flush_group($group)
{
    return $GLOBALS['wp_object_cache']->flush_group($group);
}

function wp_cache_supports($feature)
{
    return in_array($feature, ['add_multiple', 'set_multiple', 'get_multiple', 'delete_multiple', 'flush_runtime', 'flush_group'], true);
}

function wp_cache_close()
{
    return $GLOBALS['wp_object_cache']->close();
}

function wp_cache_add_global_groups($groups)
{
    $GLOBALS['wp_object_cache']->add_global_groups($groups);
}

function wp_cache_add_non_persistent_groups($groups)
{
    $GLOBALS['wp_object_cache']->add_non_persistent_groups($groups);
}

function wp_cache_switch_to_blog($blog_id)
{
    $GLOBALS['wp_object_cache']->switch_to_blog($blog_id);
}

function wp_cache_reset()
{
    $GLOBALS['wp_object_cache']->reset();
}
