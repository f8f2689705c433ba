<?php
/** Random changes, made by the test's orders and by cron. */
namespace Driver;

const OPTIONS = 8, METAS = 4, TRANSIENTS = 3;

// WordPress keeps all events in one option and loses one if two processes change it at the same time: only the test has any.
remove_action('publish_post', '_publish_post_hook', 5);
// wp-cron.php ends its response before it begins.
add_action('driver_cron', fn ($seed, $count) => write($seed, $count) && update_option('driver_done', $seed, false), 10, 2);

/** Random changes of options, of a post, its meta and its terms, and of transients. */
function write(int $seed, int $count): array
{
    mt_srand($seed);
    for ($i = 0; $i < $count; $i++) {
        $value = $seed . '.' . $i . str_repeat(' x', mt_rand(0, 30));
        // Those with an odd number are not loaded on every page. WordPress itself can't stand that this changes at the same time.
        $number = mt_rand(0, OPTIONS - 1);
        $option = "driver_$number";
        switch (mt_rand(0, 9)) {
            case 0:
                delete_option($option);
                break;
            case 1:
                add_option($option, $value, '', $number % 2 === 0);
                break;
            case 2: case 3: case 4:
                update_option($option, $value, $number % 2 ? false : null);
                break;
            case 5: case 6:
                update_post_meta(1, 'meta_' . mt_rand(0, METAS - 1), $value);
                break;
            case 7:
                wp_update_post(['ID' => 1, 'post_title' => $value]);
                break;
            case 8:
                wp_set_object_terms(1, ['term ' . mt_rand(0, 3)], 'post_tag');
                break;
            default:
                set_transient('driver_' . mt_rand(0, TRANSIENTS - 1), $value);
        }
        if (mt_rand(0, 3) === 0) {
            wp_cache_flush_runtime();
        }
        get_option('driver_' . mt_rand(0, OPTIONS - 1));
        get_post_meta(1, 'meta_0', true);
    }
    return ['written'];
}

/** What a page shows whose boot looks at what others change; `boot`: what it has found there. */
function known(): array
{
    $known = ['title' => get_post(1)->post_title, 'meta_0' => get_post_meta(1, 'meta_0', true), 'transient' => get_transient('driver_brief')];
    foreach (range(0, OPTIONS - 1) as $number) {
        $known["driver_$number"] = get_option("driver_$number", null);
    }
    return $known;
}

if (isset($_SERVER['HTTP_X_LOOK'])) {
    add_action('init', fn () => $GLOBALS['driver_boot'] = known());
    add_action('template_redirect', function () {
        wp_send_json(['boot' => $GLOBALS['driver_boot'], 'cached' => known(), 'read' => wp_cache_flush_runtime() ? known() : null]);
    });
}
