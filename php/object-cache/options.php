<?php
/**
 * WordPress has all options that are loaded on every page in one object, `alloptions`, and the names of options that don't exist in
 * another one, `notoptions`. It reads such an object, changes it, and writes it back: two processes that do so at the same time
 * would undo each other's changes (core trac 31245). So the server gets the fields that this process has changed, each with a
 * tick from before the change of its row; crates/objects/src/store/fields.rs has the rules.
 *
 * An option is in one of three places: in `alloptions`, under its own name, or in `notoptions`. WordPress corrects the place in which it
 * has found it. Another process may be about to put it into one of the others, from what it has read before; so all three are
 * reported, in one frame.
 */
trait Millrace_Options
{
    /** Ticks before the changes of rows that are in progress, by id of the option. */
    private array $before = [];
    /** Options in `before` that are reported. */
    private array $reported = [];
    /** Options in `before` of which WordPress has written `alloptions` since. */
    private array $written = [];
    /** Ticks of this process's reports, by group and id of the option: no other process had changed it until then. */
    private array $own = [];

    private static function has_fields(string $group, $id): bool
    {
        return ($group === 'options' || $group === 'site-options') && preg_match('/^(\d+:)*(all|not)options$/D', (string) $id) === 1;
    }

    /** Whether this process knows that an option does not exist. Some versions of WordPress look for its own object before they look there. */
    private function is_no_option(string $group, $id): bool
    {
        if ($group !== 'options') {
            return false;
        }
        $prefix = $this->multisite ? $this->blog_prefix : '';
        $not = $prefix . 'notoptions';
        $this->unpack($group, $not);
        return isset($this->cache[$group][$not][substr((string) $id, strlen($prefix))]);
    }

    private function is_being_changed(string $group, $id): bool
    {
        return $group === 'options' && isset($this->before[$id]);
    }

    /** WordPress is about to change the row of an option. */
    public function before_option($option): void
    {
        $id = $this->place($option, 'options')[1];
        unset($this->before[$id], $this->reported[$id], $this->written[$id]);
        if ($this->server->begin()) {
            $this->before[$id] = $this->server->seen;
        }
    }

    /** WordPress has changed the row of an option, and the objects that it has found it in. */
    public function after_option($option, bool $is_deleted): void
    {
        $id = $this->place($option, 'options')[1];
        if (!isset($this->reported[$id])) {
            $all = $this->place('alloptions', 'options')[1];
            $is_there = isset($this->cache['options'][$all][$option]);
            $change = $is_deleted || (isset($this->written[$id]) && !$is_there) ? self::GONE : self::UNKNOWN;
            $this->report_option('options', $id, isset($this->written[$id]) && $is_there ? self::WITH_ALL : $change);
        }
        unset($this->before[$id], $this->reported[$id], $this->written[$id]);
    }

    /** A network has an option that it did not have: other processes may just have noted that it does not exist. */
    public function after_network_option($option, $network): void
    {
        if ($this->multisite) {
            $id = "$network:$option";
            $change = $this->field_operation('site-options', "$network:notoptions", [$this->change_of('site-options', $id, $option, self::FIELD_REMOVED)]);
            $this->send_report('site-options', $id, $change, 'c', $this->delete_operation('site-options', "$network:notoptions"), 'd');
        }
    }

    /** All of an object that was missing, as it was read from the database. */
    private function fill(string $group, $id, array $data): bool
    {
        $operation = "\x8" . pack('P', $this->as_of[$group][$id] ?? $this->server->clock) . $this->name($group, $id) . pack('V', count($data));
        foreach ($data as $name => $value) {
            $operation .= self::text(serialize($name)) . self::value(serialize($value));
        }
        if (strlen($operation) <= $this->server->largest) {
            $this->server->exchange($operation, 's');
        }
        $this->keep($group, $id, $data);
        return true;
    }

    /** WordPress writes an object of which it has changed some fields. */
    private function set_fields(string $group, $id, array $data): bool
    {
        $this->unpack($group, $id);
        $old = $this->is_here($group, $id) ? $this->cache[$group][$id] : null;
        if (!$this->server->begin()) {
            $this->server->report($this->delete_operation($group, $id));
            $this->keep($group, $id, $data);
            return true;
        }
        $is_all = substr($id, -10) === 'alloptions';
        if (!is_array($old) && !$is_all) {
            return $this->fill($group, $id, $data);
        }
        $this->keep($group, $id, $data);
        if (!is_array($old)) {
            $operation = $this->delete_operation($group, $id);
            return $this->server->change($operation, 'd', $operation) !== null;
        }
        $this->written += $is_all ? $this->before : [];
        return $this->report_fields($group, $id, self::difference($old, $data), $data, $is_all);
    }

    /** The names of the fields in which two versions of an object differ. */
    private static function difference(array $old, array $new): array
    {
        $names = array_keys(array_diff_key($old, $new));
        foreach ($new as $name => $value) {
            if (!array_key_exists($name, $old) || $old[$name] !== $value) {
                $names[] = $name;
            }
        }
        return $names;
    }

    private function report_fields(string $group, $id, array $names, array $data, bool $is_all): bool
    {
        $prefix = substr($id, 0, -10);
        $is_done = true;
        $changes = [];
        foreach (array_filter($names, [self::class, 'is_short']) as $name) {
            $option = $prefix . $name;
            $is_there = array_key_exists($name, $data);
            if ($is_all && $this->is_being_changed($group, $option)) {
                $is_done = $this->report_option($group, $option, $is_there ? self::WITH_ALL : self::GONE) && $is_done;
            } elseif ($is_all) {
                $changes[] = $this->change_of($group, $option, $name, $is_there ? self::FIELD_SET : self::FIELD_REMOVED, $data[$name] ?? null);
            } elseif ($is_there) {
                $changes[] = [self::FIELD_READ, $this->known_since($group, $option), $name, $data[$name]];
            } elseif (!$this->is_being_changed($group, $option)) {
                $changes[] = $this->change_of($group, $option, $name, self::FIELD_REMOVED);
            }
        }
        if ($changes) {
            $deletion = $this->delete_operation($group, $id);
            $result = $this->server->change($this->field_operation($group, $id, $changes), 'c', $deletion);
            $is_done = ($result === null || $result[0] === 1) && $is_done;
        }
        return $is_done;
    }

    /** A tick before this process has read that an option does not exist. */
    private function known_since(string $group, string $option): int
    {
        return max($this->as_of[$group][$option] ?? $this->server->clock, $this->own[$group][$option] ?? 0);
    }

    /** A tick from before this process has changed the row of an option. */
    private function tick_before(string $group, string $id): int
    {
        $before = $this->is_being_changed($group, $id) ? $this->before[$id] : $this->server->clock;
        return max($before, $this->own[$group][$id] ?? 0);
    }

    private function change_of(string $group, string $id, $name, int $kind, $value = null): array
    {
        return [$kind, $this->tick_before($group, $id), $name, $value];
    }

    /**
     * Reports the change of an option to all three places. WITH_ALL: it is in `alloptions` now. ELSEWHERE: it has an object of its own.
     * GONE: it is deleted. UNKNOWN: WordPress has not written it anywhere.
     */
    private function report_option(string $group, string $id, int $where): bool
    {
        $prefix = $this->multisite ? $this->blog_prefix : '';
        // As PHP has it as a key.
        $name = array_key_first([substr($id, strlen($prefix)) => true]);
        [$all, $not] = [$prefix . 'alloptions', $prefix . 'notoptions'];
        $this->reported[$id] = true;
        if ($where !== self::ELSEWHERE) {
            unset($this->cache[$group][$id], $this->fetched[$group][$id]);
        }
        $this->unpack($group, $not);
        unset($this->cache[$group][$not][$name]);
        $deletions = $this->delete_operation($group, $all) . $this->delete_operation($group, $id) . $this->delete_operation($group, $not);
        if ($where === self::UNKNOWN || !self::is_short($name)) {
            return $this->send_report($group, $id, $deletions, 'ddd', $deletions, 'ddd');
        }
        $removed = $this->change_of($group, $id, $name, self::FIELD_REMOVED);
        $in_all = $where === self::WITH_ALL ? $this->change_of($group, $id, $name, self::FIELD_SET, $this->cache[$group][$all][$name]) : $removed;
        $own = $where === self::ELSEWHERE
            ? $this->set_operation(self::SET, $group, $id, $this->cache[$group][$id], 0, $this->tick_before($group, $id)) : null;
        $operations = $this->field_operation($group, $all, [$in_all]) . ($own ?? $this->delete_operation($group, $id))
            . $this->field_operation($group, $not, [$removed]);
        return $this->send_report($group, $id, $operations, $own === null ? 'cdc' : 'csc', $deletions, 'ddd');
    }

    /** Sends the operations of one change; without an answer, the deletions instead. */
    private function send_report(string $group, string $id, string $operations, string $kinds, string $deletions, string $deletion_kinds): bool
    {
        $this->server->act();
        $results = $this->server->begin() ? $this->server->exchange($operations, $kinds, Millrace_Objects::WAIT_FOR_CHANGE) : null;
        if ($results === null) {
            $this->server->report($deletions, $deletion_kinds);
            return true;
        }
        foreach ($results as $at => [$status]) {
            if ($kinds[$at] !== 'd' && $status !== 1) {
                // Another process has changed the option at the same time.
                unset($this->own[$group][$id]);
                return false;
            }
        }
        $this->own[$group][$id] = $this->as_of[$group][$id] = end($results)[1];
        return true;
    }

    private static function is_short($name): bool
    {
        return strlen((string) $name) < 1000;
    }

    private function field_operation(string $group, string $id, array $changes): string
    {
        $operation = "\x9" . $this->name($group, $id) . pack('V', count($changes));
        foreach ($changes as [$kind, $as_of, $name, $value]) {
            $operation .= chr($kind) . pack('P', $as_of) . self::text(serialize($name)) . ($kind === self::FIELD_REMOVED ? '' : self::value(serialize($value)));
        }
        return $operation;
    }

    private static function text(string $bytes): string
    {
        return pack('v', strlen($bytes)) . $bytes;
    }

    private static function value(string $bytes): string
    {
        return pack('V', strlen($bytes)) . $bytes;
    }
}

/** Tells the object cache when WordPress changes options. */
final class Millrace_Option_Hooks
{
    public static function add(): void
    {
        if (has_action('updated_option', [self::class, 'after'])) {
            return;
        }
        foreach (['add_option', 'update_option', 'delete_option'] as $hook) {
            add_action($hook, [self::class, 'before'], PHP_INT_MAX);
        }
        add_action('added_option', [self::class, 'after'], -1000);
        add_action('updated_option', [self::class, 'after'], -1000);
        add_action('deleted_option', [self::class, 'after_deletion'], -1000);
        add_action('add_site_option', [self::class, 'after_network_option'], -1000, 3);
    }

    public static function before($option): void
    {
        $GLOBALS['wp_object_cache']->before_option($option);
    }

    public static function after($option): void
    {
        $GLOBALS['wp_object_cache']->after_option($option, false);
    }

    public static function after_deletion($option): void
    {
        $GLOBALS['wp_object_cache']->after_option($option, true);
    }

    public static function after_network_option($option, $value, $network): void
    {
        $GLOBALS['wp_object_cache']->after_network_option($option, $network);
    }
}
