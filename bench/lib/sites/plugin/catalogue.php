<?php
/**
 * Plugin Name: Bench catalogue
 *
 * Products with prices in a table of their own, shown by [bench_products]: the page of the heavy site.
 */

namespace Bench\Catalogue;

defined('ABSPATH') || exit;

add_action('init', function (): void {
    register_post_type('product', ['public' => true, 'label' => __('Products', 'bench'), 'has_archive' => false, 'supports' => ['title', 'editor', 'thumbnail']]);
    foreach (['product_cat' => true, 'product_tag' => false, 'product_brand' => false] as $name => $nested) {
        register_taxonomy($name, 'product', ['public' => true, 'hierarchical' => $nested, 'label' => $name]);
    }
    foreach (['_price', '_color', '_sku', '_stock_status', '_weight'] as $key) {
        register_post_meta('product', $key, ['type' => 'string', 'single' => true, 'show_in_rest' => true]);
    }
    add_shortcode('bench_products', __NAMESPACE__ . '\products');
}, 5);

/** The visitor's cart. */
add_action('init', function (): void {
    if (isset($_COOKIE['bench_cart'])) {
        global $wpdb;
        $GLOBALS['bench_cart'] = $wpdb->get_var($wpdb->prepare("SELECT value FROM {$wpdb->prefix}bench_carts WHERE name = %s", $_COOKIE['bench_cart']));
    }
});

function products(): string
{
    $query = new \WP_Query(['post_type' => 'product', 'posts_per_page' => 10, 'orderby' => 'meta_value_num', 'meta_key' => '_price', 'order' => 'ASC']);
    $text = '<ul class="products">';
    while ($query->have_posts()) {
        $query->the_post();
        $text .= product(get_post());
    }
    wp_reset_postdata();
    $text .= '</ul>' . paginate_links(['total' => $query->max_num_pages, 'current' => 1]);
    return $text . categories() . best();
}

/** One product of the list. Its stock is asked for by itself, as such lists do. */
function product(\WP_Post $post): string
{
    global $wpdb;
    $stock = $wpdb->get_row($wpdb->prepare("SELECT quantity, reserved FROM {$wpdb->prefix}bench_stock WHERE product = %d", $post->ID));
    $terms = get_the_terms($post->ID, 'product_cat');
    $kinds = implode(', ', array_map(fn ($term) => '<a href="' . esc_url(get_term_link($term)) . '">' . esc_html($term->name) . '</a>', $terms ?: []));
    $price = number_format_i18n((float) get_post_meta($post->ID, '_price', true) / 100, 2);
    $url = wp_nonce_url(add_query_arg('add-to-cart', $post->ID, get_permalink($post)), 'add-' . $post->ID);
    $data = array_map(fn ($name) => get_post_meta($post->ID, "_$name", true), ['sku' => 'sku', 'color' => 'color', 'weight' => 'weight', 'stock' => 'stock_status']);
    $data = apply_filters('bench_product', $data, $post);
    $data = implode(' ', array_map(fn ($name, $value) => sprintf('data-%s="%s"', $name, esc_attr($value)), array_keys($data), $data));
    return sprintf('<li class="%s" %s><a href="%s"><h2>%s</h2></a><p>%s</p><p>%s</p><span class="price">%s</span><span>%d</span><a href="%s" rel="nofollow">%s</a></li>',
        esc_attr(implode(' ', get_post_class('', $post))), $data, esc_url(get_permalink($post)), esc_html(get_the_title($post)),
        wp_kses_post(apply_filters('the_content', $post->post_content)), $kinds, esc_html($price), $stock->quantity - $stock->reserved, esc_url($url), esc_html__('Add to cart', 'bench'));
}

function categories(): string
{
    $text = '<ul class="categories">';
    foreach (get_terms(['taxonomy' => 'product_cat', 'hide_empty' => true]) as $term) {
        $text .= sprintf('<li style="color: %s"><a href="%s">%s</a> (%d)</li>', esc_attr(get_term_meta($term->term_id, 'color', true)), esc_url(get_term_link($term)), esc_html($term->name), $term->count);
    }
    return $text . '</ul>';
}

/** Products that sell best. */
function best(): string
{
    $found = get_posts(['post_type' => 'product', 'numberposts' => 4, 'tax_query' => [['taxonomy' => 'product_tag', 'field' => 'slug', 'terms' => 'corn']]]);
    $links = array_map(fn ($post) => '<a href="' . esc_url(get_permalink($post)) . '">' . esc_html(get_the_title($post)) . '</a>', $found);
    return '<p>' . implode(', ', $links) . '</p>';
}
