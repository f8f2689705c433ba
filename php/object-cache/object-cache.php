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
 * tick as of which a process knows a key with that of its last change (crates/objects/src/store). Of the objects that have
 * all options the server gets the options that this process has changed (Millrace_Options).
 */

defined('ABSPATH') || exit;

/** The connection to the server: operations out, results in. */
final class Millrace_Objects
{
    private const SOCKET = '@SOCKET@';
    private const LOST = '@LOST@';
    /** Seconds to wait for an answer; for one that confirms a change. */
    public const WAIT = 0.25, WAIT_FOR_CHANGE = 1.0;
    /** No such file; connection refused: no server listens, so no server has data of this site. */
    private const NOBODY = [2, 111];
    /** Bytes and number of operations that may wait for the next frame. */
    private const WAITING_BYTES = 262144, WAITING = 500;

    /** Tick at which this process has begun to read. */
    public int $clock = 0;
    /** All changes of the site from `clock` to this tick were this process's own. */
    private int $own = 0;
    /** The highest tick that the server has told. */
    public int $seen = 0;
    /** Largest object that the server takes, bytes. */
    public int $largest = 0;
    /** Frames sent. */
    public int $round_trips = 0;
    /** Whether this process has changed objects, other than by adding what it has read from its database. */
    public bool $has_changed = false;
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
     * Sends operations; returns their results, or null if there is no answer. Each kind is a letter: g(et), s(et, or fill), d(elete), a(dd), f(lush),
     * c(hange of fields).
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
            $operations = "\1\3" . $operations;
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

    /** A process that connects once more (reconnect()) knows what it knows as of its first connection. */
    private function greet(array $result): bool
    {
        [$status, $clock, $this->largest] = $result;
        $this->clock = $this->clock ?: $clock;
        $this->own = $this->own ?: $clock;
        $this->seen = max($this->seen, $clock);
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
            $this->seen = max($this->seen, $tick);
            $has_changed = strpos('cdf', $kinds[$at]) !== false || ($status === 1 && strpos('sa', $kinds[$at]) !== false);
            if ($has_changed && $tick === $this->own + 1) {
                $this->own = $tick;
            }
        }
    }

    /** Closes the connection; reconnect() lets the next operation open another one. */
    public function disconnect(): void
    {
        $this->turn_off();
    }

    public function reconnect(): void
    {
        $this->is_off = $this->is_stuck = false;
    }

    /** An object is about to be changed: not for a request that is run again to be compared (php.rewind). */
    public function act(): void
    {
        $this->has_changed = true;
        if (function_exists('millrace_rewind_acted')) {
            millrace_rewind_acted();
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
     * - Nobody listens at the socket: the server's memory is gone, and with it all data. Another server may still have the data: a byte is
     *   appended, if the file is there, and Millrace looks at it when it starts.
     * - A server answers on a new connection: done.
     * - A server lives and does not answer in time, or refuses: a byte is appended to the file of lost reports. The server looks at
     *   it before it answers anybody, and forgets all objects of the site.
     */
    public function report(string $deletion, string $kind = 'd'): void
    {
        $this->act();
        if ($this->is_stuck) {
            $this->note();
            return;
        }
        set_error_handler(static fn (): bool => true);
        try {
            $errno = 0;
            $stream = self::connect(self::WAIT_FOR_CHANGE, $errno);
            $is_gone = $stream === null && in_array($errno, self::NOBODY, true);
            if ($is_gone && is_file(self::LOST)) {
                $this->note();
            }
            $is_known = $stream === null ? $is_gone : self::converse($stream, $deletion, $kind, self::WAIT_FOR_CHANGE) !== null;
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
        $this->act();
        $results = $this->exchange($operation, $kind, self::WAIT_FOR_CHANGE);
        if ($results === null) {
            $this->report($deletion, $deletion_kind);
            return null;
        }
        return $results[0];
    }
}
