<?php
namespace Millrace\WordPress;

/**
 * What a page is composed of: template, shortcodes, blocks, widgets, theme, plugins. Pages for visitors with a cart (Cart) and for members
 * (Member) are compared with others of the same kind.
 */
final class Kind
{
    public const HOOKS = [
        'template_include' => ['template', 1, \PHP_INT_MAX],
        'pre_do_shortcode_tag' => ['shortcode', 2, \PHP_INT_MAX],
        'pre_render_block' => ['block', 2, \PHP_INT_MAX],
        'dynamic_sidebar' => ['widget', 1, \PHP_INT_MAX],
    ];

    /** As keys; null: it is no page that is watched. */
    private static ?array $parts = null;
    private static bool $templated = false;
    /** The template's path. */
    public static string $template = '';

    /** From now on parts are noted. */
    public static function begin(): void
    {
        self::$parts ??= [];
    }

    public static function is_watched(): bool
    {
        return self::$parts !== null;
    }

    /** Whether WordPress has chosen a template. */
    public static function is_templated(): bool
    {
        return self::$templated;
    }

    public static function template($template)
    {
        [self::$templated, self::$template] = [true, is_string($template) ? $template : ''];
        self::part('template', self::$template);
        return $template;
    }

    public static function shortcode($output, $tag = '')
    {
        self::part('shortcode', (string) $tag);
        return $output;
    }

    /** Blocks of plugins; WordPress's own know no cart. */
    public static function block($output, $block = [])
    {
        $name = is_array($block) ? (string) ($block['blockName'] ?? '') : '';
        if ($name !== '' && strncmp($name, 'core/', 5) !== 0) {
            self::part('block', $name);
        }
        return $output;
    }

    public static function widget($widget): void
    {
        self::part('widget', preg_replace('/-\d+$/D', '', is_array($widget) ? (string) ($widget['id'] ?? '') : ''));
    }

    /** A digest, when the page is complete; null: it is none that WordPress's templates have made. `$more`: what else distinguishes it. */
    public static function digest(array $more): ?string
    {
        if (self::$parts === null || !self::$templated) {
            return null;
        }
        $post = is_singular() ? (int) get_queried_object_id() : 0;
        $parts = array_keys(self::$parts);
        sort($parts);
        $all = [
            $parts, get_stylesheet(), get_template(), wp_get_theme()->get('Version'), get_option('active_plugins'), get_bloginfo('version'),
            get_locale(), $GLOBALS['_wp_current_template_id'] ?? '', $post ? get_post_type($post) : '', is_front_page(), $more,
        ];
        return substr(hash('sha256', serialize($all)), 0, 16);
    }

    private static function part(string $kind, string $name): void
    {
        if (self::$parts !== null) {
            self::$parts["$kind $name"] = true;
        }
    }
}
