<?php
namespace Millrace\WordPress;

/** What the page shows, as tags: noted while it is made. */
final class Shown
{
    /** There before plugins load: some read posts at once. Page takes them out where no page may be kept. */
    public const HOOKS = [
        'pre_get_posts' => ['query', 1, \PHP_INT_MAX],
        'get_pages_query_args' => ['pages', 1, \PHP_INT_MAX],
        'get_terms' => ['list_of_terms', 3, \PHP_INT_MAX],
        'pre_get_comments' => ['comments', 1, \PHP_INT_MAX],
        'get_comments_number' => ['number', 2, \PHP_INT_MAX],
        'pre_get_users' => ['users', 0, \PHP_INT_MAX],
        'wp_get_attachment_image_attributes' => ['image', 2, \PHP_INT_MAX],
        'wp_nav_menu_objects' => ['menu', 1, \PHP_INT_MAX],
        'get_previous_post_where' => ['neighbours', 5, \PHP_INT_MAX],
        'get_next_post_where' => ['neighbours', 5, \PHP_INT_MAX],
        'dynamic_sidebar_before' => ['widgets', 0, \PHP_INT_MAX],
        'is_active_sidebar' => ['area', 1, \PHP_INT_MAX],
        'getarchives_where' => ['archives', 1, \PHP_INT_MAX],
        'get_calendar' => ['archives', 1, \PHP_INT_MAX],
        'pre_get_sites' => ['sites', 0, \PHP_INT_MAX],
        'switch_blog' => ['switched', 2, \PHP_INT_MIN],
        'query' => ['sql', 1, \PHP_INT_MAX],
        // Posts that no query of this request has found: WooCommerce keeps the results of its shortcodes, and shows related products and
        // up-sells by their numbers.
        'the_post' => ['post_in_loop', 1, \PHP_INT_MAX],
        'woocommerce_shortcode_products_query_results' => ['kept_products', 1, \PHP_INT_MAX],
        'woocommerce_blocks_product_grid_item_html' => ['product_in_grid', 3, \PHP_INT_MAX],
        'woocommerce_get_price_html' => ['price', 2, \PHP_INT_MAX],
        // What is shown of a post beside its title.
        'get_post_metadata' => ['field', 2, \PHP_INT_MIN],
        'the_content' => ['content', 1, \PHP_INT_MIN],
        'get_the_excerpt' => ['excerpt', 2, \PHP_INT_MIN],
    ];

    /** Of these types all pages are made, or none: a change purges all (Site). */
    public const BUILDING = ['wp_template' => 1, 'wp_template_part' => 1, 'wp_global_styles' => 1, 'wp_navigation' => 1,
        'wp_block' => 1, 'nav_menu_item' => 1, 'custom_css' => 1, 'wp_font_family' => 1, 'wp_font_face' => 1];
    /** Of these nothing is shown by itself. */
    private const INNER = ['revision' => 1, 'customize_changeset' => 1, 'oembed_cache' => 1, 'user_request' => 1];
    /** Queries whose results are read early, so that they are not held in memory. */
    private const HELD = 20;

    /** Tags as keys: those of the current site, if there is a network. */
    private static array $tags = [];
    /** Of other sites of the network that the page shows something of: number => [$tags, $read]. */
    private static array $sites = [];
    /** Queries whose results are still to be read: number of the object => [query, whether only titles are shown, site]. */
    private static array $queries = [];
    private static bool $links = false;
    /** Posts whose author and terms are noted. */
    private static array $read = [];
    /** Numbers of posts of which a field, an excerpt or the text was read, by whatever way (php/c/posts.c), and texts that were shown; as keys. In a network those of all sites. */
    private static array $fields = [];
    private static array $texts = [];
    /** Taxonomies of types of posts. */
    private static array $taxonomies = [];

    /** All of them, not more than a page may have. */
    public static function tags(): array
    {
        self::read(0);
        self::objects();
        if (is_multisite()) {
            self::$tags['all'] = true;
        }
        // A number is an integer as a key.
        $names = static fn (array $tags) => array_map('strval', array_keys($tags));
        $own = Tags::bound($names(self::$tags));
        $others = array_diff_key(self::$sites, [get_current_blog_id() => true]);
        if (!$own || !$others) {
            return $own;
        }
        $rest = Tags::bound_others(array_map(static fn ($site) => $names($site[0]), $others), count($own));
        return $rest === null ? [] : array_merge($own, $rest);
    }

    /** Nothing is noted any more: no page can be kept. */
    public static function stop(): void
    {
        Hooks::remove(self::class, self::HOOKS);
        self::$tags = self::$sites = self::$queries = self::$read = self::$fields = self::$texts = [];
    }

    /** What the page has read, by whatever way: a theme fetches a post by its number, path or field. */
    private static function objects(): void
    {
        $here = get_current_blog_id();
        foreach (millrace_posts_read() as $id) {
            self::$fields[$id] = true;
        }
        foreach (Objects::tags() as $site => $tags) {
            $noted = $site === $here ? self::$tags : self::$sites[$site][0] ?? ['all' => true];
            $links = $noted + $tags;
            $is_shown = static fn ($post) => !is_object($post) || !isset($links["link-$post->ID"]) || self::is_more_than_a_link($post);
            $noted += array_map(static fn () => true, array_filter($tags, $is_shown));
            if ($site === $here) {
                self::$tags = $noted;
            } else {
                self::$sites[$site] = [$noted, self::$sites[$site][1] ?? []];
            }
        }
    }

    /** WordPress reads a whole post for a link to it, in a menu, in a list of pages, or to a neighbour; a theme may show more of it. */
    private static function is_more_than_a_link(object $post): bool
    {
        return isset(self::$fields[$post->ID]) || (($post->post_content ?? '') !== '' && isset(self::$texts[$post->post_content]));
    }

    public static function field($value, $id = 0)
    {
        self::$fields[(int) $id] = true;
        return $value;
    }

    /** Many products have the same text: that of the post in the loop is no other's. */
    public static function content($text)
    {
        $post = $GLOBALS['post'] ?? null;
        if ($text === ($post->post_content ?? null)) {
            self::$fields[(int) $post->ID] = true;
        } elseif (is_string($text)) {
            self::$texts[$text] = true;
        }
        return $text;
    }

    public static function excerpt($text, $post = null)
    {
        self::$fields[(int) ($post->ID ?? 0)] = true;
        return $text;
    }

    /** A query that WordPress's own functions have not made: which rows it shows is unknown. */
    public static function sql($query)
    {
        foreach (is_string($query) ? Tables::read($query) : [] as $tag) {
            self::$tags[$tag] = true;
        }
        return $query;
    }

    /** What is shown from now on is of another site of the network: switch_to_blog(), restore_current_blog(). */
    public static function switched($new, $old): void
    {
        self::$sites[$old] = [self::$tags, self::$read];
        [self::$tags, self::$read] = self::$sites[$new] ?? [['all' => true], []];
    }

    public static function sites(): void
    {
        self::$tags['sites'] = true;
    }

    /** What the main query asked for. */
    public static function main(): void
    {
        global $wp_query;
        $tags = [];
        $object = $wp_query->get_queried_object();
        if (is_robots() || $wp_query->get('sitemap') || $wp_query->get('sitemap-stylesheet')) {
            self::$tags['sitemap'] = true;
            return;
        }
        if (is_404()) {
            $tags[] = '404';
        } elseif (is_search()) {
            $tags[] = 'search';
        } elseif (is_category() || is_tag() || is_tax()) {
            $tags[] = 'term-' . get_queried_object_id();
        } elseif (is_post_type_archive()) {
            foreach ((array) $wp_query->get('post_type') as $type) {
                $tags[] = "type-$type";
            }
        } elseif (is_author()) {
            $tags[] = 'author-' . get_queried_object_id();
            $tags[] = 'by-' . get_queried_object_id();
        } elseif (is_date()) {
            $tags[] = self::date($wp_query);
        } elseif (is_home()) {
            $tags[] = 'home';
            if ($object instanceof \WP_Post) {
                $tags[] = "post-$object->ID";
            }
        } elseif ($object instanceof \WP_Post) {
            $tags = self::singular($object);
        } elseif (is_feed() && !is_comment_feed()) {
            $tags[] = 'feed';
        }
        if (is_front_page()) {
            $tags[] = 'front';
        }
        if (is_comment_feed() && !is_singular()) {
            $tags[] = 'comments';
        }
        if (!is_singular() && !is_post_type_archive()) {
            self::types($wp_query);
        }
        self::add($tags);
    }

    private static function singular(\WP_Post $post): array
    {
        $tags = ["post-$post->ID", "comments-$post->ID", "by-$post->post_author"];
        foreach ($post->post_parent ? get_post_ancestors($post) : [] as $id) {
            $tags[] = "link-$id";
        }
        return $tags;
    }

    /** The archive of a year, a month or a day; of anything shorter, of its day. */
    private static function date(\WP_Query $query): string
    {
        $m = preg_replace('/\D/', '', (string) $query->get('m'));
        if ($m === '') {
            $m = sprintf('%04d', $query->get('year'));
            $m .= $query->get('monthnum') ? sprintf('%02d', $query->get('monthnum')) : '';
            $m .= $query->get('day') ? sprintf('%02d', $query->get('day')) : '';
        }
        return 'date-' . substr($m, 0, 8);
    }

    /** A main query for other types than posts: a plugin shows them on an archive. */
    private static function types(\WP_Query $query): void
    {
        foreach ((array) $query->get('post_type') as $type) {
            if ($type !== '' && $type !== 'post') {
                self::$tags["list-$type"] = true;
            }
        }
    }

    /** A query begins; its results are read when it has them. */
    public static function query($query): void
    {
        $type = $query->query_vars['post_type'] ?? '';
        if (is_string($type) && (isset(self::BUILDING[$type]) || isset(self::INNER[$type]))) {
            return;
        }
        $number = spl_object_id($query);
        if (isset(self::$queries[$number]) || count(self::$queries) >= self::HELD) {
            self::read(isset(self::$queries[$number]) ? 0 : 3);
        }
        self::$queries[$number] = [$query, self::$links, get_current_blog_id()];
        self::$links = false;
    }

    /** The next query is get_pages(): titles and addresses. */
    public static function pages($arguments)
    {
        self::$links = true;
        return $arguments;
    }

    /** Reads the results of all queries but the last ones, which may still run. */
    private static function read(int $keep): void
    {
        $done = array_slice(self::$queries, 0, max(0, count(self::$queries) - $keep), true);
        self::$queries = array_diff_key(self::$queries, $done);
        foreach ($done as [$query, $links, $site]) {
            self::as_of($site, static fn () => self::results($query, $links));
        }
    }

    /** Does something for another site of the network; without what switch_to_blog() means to plugins. */
    private static function as_of(int $site, callable $do): void
    {
        $here = get_current_blog_id();
        if ($site === $here) {
            $do();
            return;
        }
        // An object cache of a plugin need not have it; then terms are looked up as those of the page's own site.
        $switch = function_exists('wp_cache_switch_to_blog') ? 'wp_cache_switch_to_blog' : static fn () => null;
        self::switched($site, $here);
        $switch($site);
        $do();
        $switch($here);
        self::switched($here, $site);
    }

    private static function results(\WP_Query $query, bool $links): void
    {
        $types = array_flip((array) ($query->get('post_type') ?: ($query->is_tax ? 'any' : 'post')));
        $types = array_diff_key($types, self::BUILDING, self::INNER);
        if (!$types) {
            return;
        }
        $named = $query->is_singular || $query->get('post__in');
        foreach ($query->is_main_query() ? [] : $types as $type => $_) {
            // WooCommerce names all products on sale for a list of them: another one may join.
            if (!$named || !$query->posts || ($type === 'product' && !$query->is_singular)) {
                self::$tags["list-$type"] = true;
            }
        }
        $terms = (bool) $query->get('update_post_term_cache');
        foreach ($query->posts ?: [] as $post) {
            self::post($post, $links, $terms);
        }
    }

    /** One result: a post, its number, or number and parent. With `$terms` the query has loaded its terms. */
    private static function post($post, bool $link, bool $terms): void
    {
        $id = (int) (is_object($post) ? ($post->ID ?? 0) : (is_scalar($post) ? $post : 0));
        self::$tags[$link ? "link-$id" : "post-$id"] = true;
        if ($link || isset(self::$read[$id]) || !$post instanceof \WP_Post) {
            return;
        }
        self::$read[$id] = true;
        self::$tags["by-$post->post_author"] = true;
        self::$taxonomies[$post->post_type] ??= get_object_taxonomies($post->post_type);
        foreach ($terms ? self::$taxonomies[$post->post_type] : [] as $taxonomy) {
            foreach (wp_cache_get($id, "{$taxonomy}_relationships") ?: [] as $term) {
                self::$tags['termlink-' . (is_object($term) ? $term->term_id : $term)] = true;
            }
        }
    }

    /** A loop comes to a post, whoever has found it. */
    public static function post_in_loop($post): void
    {
        if ($post instanceof \WP_Post && !isset(self::BUILDING[$post->post_type]) && !isset(self::INNER[$post->post_type])) {
            // Its query, if it has one, reads more of it (post()).
            self::$tags["post-$post->ID"] = self::$tags["by-$post->post_author"] = true;
        }
    }

    /** The products of a shortcode: from a query, or from an earlier one. */
    public static function kept_products($results)
    {
        self::$tags['list-product'] = true;
        foreach (is_object($results) && is_array($results->ids ?? null) ? $results->ids : [] as $id) {
            self::$tags['post-' . (int) $id] = true;
        }
        return $results;
    }

    public static function product_in_grid($html, $data = null, $product = null)
    {
        self::$tags['list-product'] = true;
        return self::price($html, $product);
    }

    /** The price of a product, wherever it is shown. */
    public static function price($html, $product = null)
    {
        foreach (['get_id', 'get_parent_id'] as $which) {
            $id = is_object($product) && is_callable([$product, $which]) ? (int) $product->$which() : 0;
            if ($id) {
                self::$tags["post-$id"] = true;
            }
        }
        return $html;
    }

    /** What a REST answer shows beside posts. */
    public static function rest(\WP_REST_Request $request): void
    {
        self::$tags['rest'] = true;
        $id = (int) ($request['id'] ?? 0);
        if ($id) {
            self::add(["post-$id", "termlink-$id", "by-$id"]);
        }
    }

    /** A list of terms, unless it is that of a post, or certain ones are asked for. */
    public static function list_of_terms($terms, $taxonomies = [], $arguments = [])
    {
        $asked = array_filter(array_intersect_key((array) $arguments,
            array_flip(['object_ids', 'include', 'slug', 'name', 'term_taxonomy_id'])));
        foreach ($asked ? [] : (array) $taxonomies as $taxonomy) {
            if (is_string($taxonomy) && !in_array($taxonomy, ['nav_menu', 'wp_theme', 'wp_template_part_area'], true)) {
                self::$tags["terms-$taxonomy"] = true;
            }
        }
        return $terms;
    }

    /** Comments of one post are on its page; all others are a list of the latest. */
    public static function comments($query): void
    {
        $post = (int) ($query->query_vars['post_id'] ?? 0);
        self::$tags[$post ? "comments-$post" : 'comments'] = true;
    }

    public static function number($count, $post = 0)
    {
        self::$tags['comments-' . (is_object($post) ? $post->ID ?? 0 : (int) $post)] = true;
        return $count;
    }

    public static function users(): void
    {
        self::$tags['users'] = true;
    }

    public static function image($attributes, $attachment = null)
    {
        self::$tags['post-' . ($attachment->ID ?? 0)] = true;
        return $attributes;
    }

    public static function menu($items)
    {
        foreach (is_array($items) ? $items : [] as $item) {
            $family = ['post_type' => 'link', 'taxonomy' => 'termlink'][$item->type ?? ''] ?? null;
            if ($family) {
                self::$tags[$family . '-' . ($item->object_id ?? 0)] = true;
            }
        }
        return $items;
    }

    public static function neighbours($where, $same_term = false, $excluded = '', $taxonomy = '', $post = null)
    {
        self::$tags[($same_term ? 'navterm-' : 'nav-') . ($post->ID ?? 0)] = true;
        return $where;
    }

    public static function widgets(): void
    {
        self::$tags['widgets'] = true;
    }

    /** A theme asks whether it is worth to show an area: the first widget that it gets shows on this page, too. */
    public static function area($active)
    {
        self::$tags['widgets'] = true;
        return $active;
    }

    public static function archives($text)
    {
        self::$tags['archives'] = true;
        return $text;
    }

    public static function add(array $tags): void
    {
        foreach ($tags as $tag) {
            self::$tags[$tag] = true;
        }
    }
}
