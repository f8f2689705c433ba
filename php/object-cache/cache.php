<?php
#[AllowDynamicProperties]
class WP_Object_Cache
{
    use Millrace_Options;
    use Millrace_Rewound;

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
    /** What a process has done with a field. */
    private const FIELD_SET = 1, FIELD_REMOVED = 2, FIELD_READ = 3;
    /** Where an option is after its change: in `alloptions`; it has an object of its own; nowhere; WordPress has put it nowhere. */
    private const WITH_ALL = 1, ELSEWHERE = 2, GONE = 3, UNKNOWN = 4;
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
    private const NOT_PREFETCHED = '/transient|session|lock|^millrace$|\n/';

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
        if (is_array($data) && self::has_fields($group, $id)) {
            $this->fill($group, $id, $data);
            return true;
        }
        $is_fill = $this->is_filled[$group] ??= preg_match(self::FILLED, $group) === 1;
        $as_of = $this->as_of[$group][$id] ?? ($is_fill ? $this->server->clock : self::LATEST);
        if (substr($group, -14) === '_relationships') {
            // A list of terms that WordPress makes of a query, which it may have from the object cache: the list is as old as the query.
            $as_of = min($as_of, $this->as_of['terms'][$this->place('last_changed', 'terms')[1]] ?? $as_of);
        }
        $operation = $this->set_operation(self::ADD, $group, $id, $data, $expire, $as_of, $is_fill ? self::FILL : 0);
        if ($operation !== null && $is_fill) {
            $this->server->later($operation, $group, $id);
        } elseif ($operation !== null) {
            $this->server->act();
            $result = $this->server->exchange($operation, 's')[0] ?? null;
            if ($result !== null && $result[0] !== 1) {
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
        if (self::has_fields($group, $id)) {
            $found = null;
            $this->get($key, $group, false, $found);
            return $found && $this->set($key, $data, $group, $expire);
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
        if (is_array($data) && self::has_fields($group, $id)) {
            return $this->set_fields($group, $id, $data);
        }
        if ($this->is_being_changed($group, $id)) {
            $this->keep($group, $id, $data);
            return $this->report_option($group, $id, self::ELSEWHERE);
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
        // Most lookups are for what is here: a page makes a thousand.
        if (!$force && !$this->multisite && (is_string($key) || is_int($key)) && is_string($group) && isset($this->cache[$group][$key])) {
            $found = true;
            $this->cache_hits++;
            $value = $this->cache[$group][$key];
            return is_object($value) ? clone $value : $value;
        }
        if (!$this->is_valid_key($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        $is_here = $this->is_here($group, $id);
        if ((!$is_here || $force) && $this->is_shared($group)) {
            $is_known = isset($this->fetched[$group][$id]) || isset($this->missing[$group][$id]) || $this->is_no_option($group, $id);
            if ($force || !$is_known) {
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
        if ($this->is_being_changed($group, $id)) {
            $this->report_option($group, $id, self::GONE);
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
        $this->server->act();
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
            if (count($parts) === 2 && !$this->is_here($parts[0], $parts[1])) {
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
        if ($this->page !== '') {
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
