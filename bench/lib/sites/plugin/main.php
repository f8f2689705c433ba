<?php
/**
 * Plugin Name: Bench NUMBER
 */

namespace Bench\PluginNUMBER;

defined('ABSPATH') || exit;

/** One of the plugins of the heavy site: loads its parts, reads its options and adds its hooks, as plugins do it. */
final class Plugin
{
    private static ?self $instance = null;
    public array $services = [];
    public array $settings = [];

    public static function instance(): self
    {
        return self::$instance ??= new self;
    }

    private function __construct()
    {
        require __DIR__ . '/includes/service.php';
        for ($n = 0; $n < PARTS; $n++) {
            require __DIR__ . "/includes/part-$n.php";
        }
        add_action('plugins_loaded', [$this, 'load'], 10 + NUMBER);
        add_action('init', [$this, 'init'], NUMBER);
        add_action('widgets_init', [$this, 'widgets']);
        add_action('rest_api_init', [$this, 'routes']);
        add_action('admin_menu', [$this, 'menu']);
        add_filter('query_vars', [$this, 'variables']);
        add_filter('the_content', [$this, 'content'], 20 + NUMBER);
        add_filter('body_class', [$this, 'classes']);
        add_action('wp_enqueue_scripts', [$this, 'scripts']);
    }

    public function load(): void
    {
        load_plugin_textdomain('bench-NUMBER', false, 'bench-NUMBER/languages');
        $this->settings = wp_parse_args((array) get_option('bench_NUMBER_settings', []), ['enabled' => 'yes', 'mode' => 'standard', 'limit' => 10]);
        // Not loaded with the options of every page.
        if (NUMBER % 2 && get_option('bench_NUMBER_version') !== '1.0') {
            wp_die('bench-NUMBER is not installed');
        }
        foreach (Service::$all as $class) {
            $this->services[$class] = new $class($this->settings);
        }
        do_action('bench_NUMBER_loaded', $this);
    }

    public function init(): void
    {
        if (!is_admin() && isset($_GET['bench-preview-NUMBER'])) {
            $this->settings['mode'] = sanitize_key($_GET['bench-preview-NUMBER']);
        }
        register_post_type('bench_NUMBER_entry', ['public' => false, 'label' => __('Entries', 'bench-NUMBER'), 'supports' => ['title', 'custom-fields']]);
        register_taxonomy('bench_NUMBER_kind', 'bench_NUMBER_entry', ['public' => false, 'label' => __('Kinds', 'bench-NUMBER')]);
        add_rewrite_endpoint('bench-NUMBER', EP_PAGES);
        add_shortcode('bench_NUMBER', fn ($attributes) => wp_json_encode(shortcode_atts($this->settings, $attributes)));
        $this->settings['rules'] = NUMBER % 3 === 0 ? $this->rules() : (NUMBER % 3 === 1 ? get_transient('bench_NUMBER_rules') : []);
        foreach ($this->services as $service) {
            $service->init();
        }
    }

    private function rules(): array
    {
        global $wpdb;
        $rows = $wpdb->get_results("SELECT name, value FROM {$wpdb->prefix}bench_rules WHERE plugin = NUMBER ORDER BY priority", ARRAY_A);
        return array_column($rows, 'value', 'name');
    }

    public function widgets(): void
    {
        register_sidebar(['id' => 'bench-NUMBER', 'name' => __('Bench', 'bench-NUMBER')]);
    }

    public function routes(): void
    {
        foreach (range(1, 8) as $n) {
            register_rest_route('bench-NUMBER/v1', "/entries-$n", ['methods' => 'GET', 'callback' => fn () => [], 'permission_callback' => '__return_true']);
        }
    }

    public function menu(): void
    {
        add_options_page('Bench', 'Bench', 'manage_options', 'bench-NUMBER', '__return_null');
    }

    public function variables(array $names): array
    {
        $names[] = 'bench_NUMBER';
        return $names;
    }

    public function content($text)
    {
        return apply_filters('bench_NUMBER_content', $text, $this->settings);
    }

    public function classes(array $names): array
    {
        $names[] = sanitize_html_class('bench-NUMBER-' . $this->settings['mode']);
        return $names;
    }

    public function scripts(): void
    {
        wp_register_style('bench-NUMBER', plugins_url('style.css', __FILE__), [], '1.0');
        wp_register_script('bench-NUMBER', plugins_url('script.js', __FILE__), ['jquery'], '1.0', true);
        wp_localize_script('bench-NUMBER', 'benchNUMBER', ['url' => admin_url('admin-ajax.php'), 'mode' => $this->settings['mode']]);
    }
}

Plugin::instance();
