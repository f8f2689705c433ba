<?php
/**
 * What the test has WordPress do: at the command line with orders as lines of JSON on standard input, and as a page of the site with one
 * order as its content. An order is [what, argument...]; so is its answer, a line of JSON.
 */
namespace Driver;

if (getenv('DRIVER_WITHOUT')) {
    $GLOBALS['wp_filter'] = ['enable_loading_object_cache_dropin' => [10 => [['function' => fn () => false, 'accepted_args' => 1]]]];
}
define('WP_USE_THEMES', false);
require getenv('DRIVER_ROOT') ? getenv('DRIVER_ROOT') . '/wp-load.php' : __DIR__ . '/wp-load.php';

/** What WordPress says that is not what the database says; and what is for others to compare. */
function compare(): array
{
    global $wpdb;
    $wrong = $seen = [];
    $same = function (string $name, $found, $stored) use (&$wrong, &$seen): void {
        $seen[$name] = $found;
        if ($found !== $stored) {
            $wrong[] = "$name: " . var_export($found, true) . ' instead of ' . var_export($stored, true);
        }
    };
    for ($i = 0; $i < OPTIONS; $i++) {
        $stored = $wpdb->get_var("SELECT option_value FROM $wpdb->options WHERE option_name = 'driver_$i'");
        $same("driver_$i", get_option("driver_$i", null), $stored);
    }
    for ($i = 0; $i < METAS; $i++) {
        $stored = $wpdb->get_var("SELECT meta_value FROM $wpdb->postmeta WHERE post_id = 1 AND meta_key = 'meta_$i' ORDER BY meta_id LIMIT 1");
        $same("meta_$i", get_post_meta(1, "meta_$i", true), $stored ?? '');
    }
    $same('title', get_post(1)->post_title, $wpdb->get_var("SELECT post_title FROM $wpdb->posts WHERE ID = 1"));
    $terms = wp_list_pluck(get_the_terms(1, 'post_tag') ?: [], 'name');
    sort($terms);
    $same('terms', $terms, $wpdb->get_col("SELECT t.name FROM $wpdb->terms t JOIN $wpdb->term_taxonomy x USING (term_id)
        JOIN $wpdb->term_relationships USING (term_taxonomy_id) WHERE object_id = 1 AND taxonomy = 'post_tag' ORDER BY t.name"));
    for ($i = 0; $i < TRANSIENTS; $i++) {
        $seen["transient_$i"] = get_transient("driver_$i");
    }
    return ['compared', $wrong, $seen];
}

/**
 * Core trac 31245: this process's option among those of others, all in one object. Returns what was lost, and how often the database has
 * refused a change: of two processes that change neighbouring rows it may choose one as the victim of a deadlock.
 */
function race(int $number, int $count): array
{
    global $wpdb;
    $lost = [];
    $refused = 0;
    for ($i = 1; $i <= $count; $i++) {
        $value = $i % 7 === 0 ? null : "$number:$i";
        while (!($value === null ? delete_option("race_$number") : update_option("race_$number", $value, true))) {
            if (strpos($wpdb->last_error, 'try restarting transaction') === false) {
                $lost[] = "$number:$i was not written: $wpdb->last_error";
                break;
            }
            $refused++;
        }
        wp_cache_flush_runtime();
        $found = get_option("race_$number", null);
        if ($found !== $value) {
            $stored = $wpdb->get_var("SELECT option_value FROM $wpdb->options WHERE option_name = 'race_$number'");
            $lost[] = var_export($found, true) . ' instead of ' . var_export($value, true) . ', in the database ' . var_export($stored, true);
        }
    }
    return ['raced', $lost, $refused];
}

/** The tags of a post, as a page shows them. */
function tags(): array
{
    return ['tags', wp_list_pluck(get_the_terms(1, 'post_tag') ?: [], 'name')];
}

/** What wp_set_object_terms() does, up to where another process can still have the query for the old tags; `retag_rest` does the rest. */
function retag_first(string $tag): array
{
    global $wpdb;
    $term = get_term_by('name', $tag, 'post_tag');
    $wpdb->update($wpdb->term_relationships, ['term_taxonomy_id' => $term->term_taxonomy_id], ['object_id' => 1, 'term_taxonomy_id' => get_the_terms(1, 'post_tag')[0]->term_taxonomy_id]);
    return ['unlinked', wp_cache_delete(1, 'post_tag_relationships')];
}

/** Random calls of the object cache's functions; all that they return. WordPress's own cache must return the same. */
function api(int $seed, bool $is_network): array
{
    mt_srand($seed);
    if ($is_network) {
        $GLOBALS['wp_object_cache']->multisite = true;
        wp_cache_switch_to_blog(1);
        wp_cache_add_global_groups(['posts']);
    }
    $groups = ['', 'default', 'posts', 'options', 'other group', 'counts', 'transient', str_repeat('long ', 60)];
    $keys = [1, 'a', 'b ', '7', str_repeat('key ', 200)];
    $object = (object) ['n' => 1, 'inner' => (object) ['n' => 2]];
    $values = [0, 5, -3, '5', '', 'text', 1.5, '2.5', true, false, null, [], [1, 'a' => [2]], $object, "\0\xff", [false]];
    $log = [];
    for ($i = 0; $i < 1500; $i++) {
        $group = $groups[mt_rand(0, 7)];
        $key = $keys[mt_rand(0, 4)];
        $value = $values[mt_rand(0, 15)];
        $some = array_slice([1 => $value, 'a' => 'x', '7' => 9], 0, mt_rand(1, 3), true);
        $found = null;
        $calls = [
            fn () => wp_cache_add($key, $value, $group), fn () => wp_cache_set($key, $value, $group), fn () => wp_cache_replace($key, $value, $group),
            fn () => wp_cache_delete($key, $group), fn () => wp_cache_incr($key, 2, $group), fn () => wp_cache_decr($key, 3, $group),
            fn () => wp_cache_add_multiple($some, $group), fn () => wp_cache_set_multiple($some, $group),
            fn () => wp_cache_get_multiple($keys, $group), fn () => wp_cache_delete_multiple(array_keys($some), $group),
            fn () => mt_rand(0, 9) ? 0 : wp_cache_flush_group($group), fn () => mt_rand(0, 30) ? 0 : wp_cache_flush(),
            function () use ($key, $group, &$found) {
                $value = wp_cache_get($key, $group, false, $found);
                if (is_object($value)) {
                    $value->n = 'changed by the caller';
                }
                return $value;
            },
            fn () => wp_cache_get($key, $group, (bool) mt_rand(0, 1), $found),
        ];
        $which = mt_rand(0, 13);
        if ($is_network && mt_rand(0, 4) === 0) {
            wp_cache_switch_to_blog(mt_rand(1, 2));
        }
        $result = $calls[$which]();
        $log[] = json_encode([$which, substr($key, 0, 9), $group, $value, $result, $found], JSON_PARTIAL_OUTPUT_ON_ERROR);
    }
    return ['called', $log];
}

/** A connection to the database that stops before or after a query until the test sends a line. */
final class Stopping extends \wpdb
{
    public array $at = ['', ''];

    public function query($query)
    {
        [$when, $what] = $this->at;
        $is_it = $when !== '' && preg_match($what, $query);
        $this->at = $is_it ? ['', ''] : $this->at;
        if ($is_it && $when === 'before') {
            $this->stop($query);
        }
        $result = parent::query($query);
        if ($is_it && $when === 'after') {
            $this->stop($query);
        }
        return $result;
    }

    private function stop(string $query): void
    {
        echo json_encode(['stopped', $query]), "\n";
        fgets(STDIN);
    }
}

/** From now on the next query that matches is stopped at. */
function stop_at(string $when, string $what): array
{
    if (!$GLOBALS['wpdb'] instanceof Stopping) {
        $GLOBALS['wpdb'] = new Stopping(DB_USER, DB_PASSWORD, DB_NAME, DB_HOST);
        $GLOBALS['wpdb']->set_prefix($GLOBALS['table_prefix']);
    }
    $GLOBALS['wpdb']->at = [$when, $what];
    return ['waits'];
}

function obey(array $order): array
{
    [$what, $a, $b, $c] = $order + [null, null, null, null];
    return match ($what) {
        'write' => write($a, $b),
        'compare' => compare(),
        'race' => race($a, $b),
        'api' => api($a, $b),
        'get' => ['got', wp_cache_get($a, $b, true)],
        'set' => ['set', wp_cache_set($a, $c, $b)],
        'add' => ['added', wp_cache_add($a, $c, $b)],
        'delete' => ['deleted', wp_cache_delete($a, $b)],
        'incr' => ['sums', array_map(fn () => wp_cache_incr($a, 1, $b), range(1, $c))],
        'locks' => ['locks', count(array_filter(array_map(fn ($n) => wp_cache_add("lock $n", getmypid(), 'driver locks'), range(1, $a))))],
        'large' => ['large', wp_cache_set('large', str_repeat($a, $b), 'driver')],
        'is_large' => ['is_large', wp_cache_get('large', 'driver', true) === str_repeat($a, $b)],
        'flush' => ['flushed', wp_cache_flush()],
        'flush_runtime' => ['flushed', wp_cache_flush_runtime()],
        'option' => ['option', get_option($a, null)],
        'update' => ['updated', update_option($a, $b, $c)],
        'remove' => ['removed', delete_option($a)],
        'tags' => tags(),
        'retag' => ['retagged', count(wp_set_object_terms(1, [$a], 'post_tag'))],
        'retag_first' => retag_first($a),
        'retag_rest' => ['retagged', wp_cache_set('last_changed', microtime(), 'terms')],
        'terms_changed' => ['changed', wp_cache_get_last_changed('terms') !== ''],
        'stop_at' => stop_at($a, $b),
        'transient' => ['transient', set_transient($a, $b, $c)],
        'schedule' => ['scheduled', wp_schedule_single_event(time() - 1, 'driver_cron', [$a, $b]), wp_next_scheduled('driver_cron', [$a, $b]) !== false],
        'ext' => ['ext', wp_using_ext_object_cache()],
        'queries' => ['queries', $GLOBALS['wpdb']->num_queries],
    };
}

if (PHP_SAPI !== 'cli') {
    header('Content-Type: application/json');
    header('Cache-Control: no-store');
    echo json_encode(obey(json_decode(file_get_contents('php://input'), true)), JSON_PARTIAL_OUTPUT_ON_ERROR);
    return;
}
echo '["ready"]', "\n";
while (($line = fgets(STDIN)) !== false) {
    echo json_encode(obey(json_decode($line, true)), JSON_PARTIAL_OUTPUT_ON_ERROR), "\n";
}
