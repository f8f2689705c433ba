<?php
/** A classic theme that prints a little of everything that a page of WordPress can show. */
$shown = ['woocommerce_currency', 'woocommerce_price_num_decimals', 'woocommerce_price_display_suffix', 'woocommerce_demo_store_notice', 'test_plugin', 'test_quiet', 'test_count_last_run'];
?><!DOCTYPE html><html <?php language_attributes(); ?>><head><meta charset="utf-8"><?php wp_head(); ?></head><body>
<h1><?php bloginfo('name'); ?></h1><p><?php bloginfo('description'); ?> <?php echo esc_html(get_theme_mod('motto', 'no motto')); ?></p>
<?php
wp_nav_menu(['theme_location' => 'main', 'fallback_cb' => false]);
foreach ($shown as $name) {
    echo "<i>$name=" . esc_html(get_option($name, 'none')) . '</i> ';
}
echo '<b>tax ', esc_html(get_option('woocommerce_calc_taxes', 'none')), ' plugins ', count((array) get_option('active_plugins')), '</b>';
while (have_posts()) {
    the_post();
    echo is_sticky() ? '<article>STICKY<h2>' : '<article><h2>', esc_html(get_the_title()), '</h2>', is_singular() ? '' : '<a href="' . esc_url(get_permalink()) . '">more</a>';
    echo get_the_date(), ' ', get_the_time(), ' by ', get_the_author(), ' (', esc_html(get_the_author_meta('description') . get_the_author_meta('avatar_file')), ') ';
    the_post_thumbnail();
    the_terms(get_the_ID(), 'category', 'in ');
    the_terms(get_the_ID(), 'product_cat', 'of ');
    echo '<p>comments: ', get_comments_number(), '</p><p>color: ', esc_html(get_post_meta(get_the_ID(), 'color', true)), ' stock: ',
        esc_html(get_post_meta(get_the_ID(), '_stock', true)), ' price: ', esc_html(get_post_meta(get_the_ID(), '_price', true)), '</p>';
    is_singular() ? the_content() : the_excerpt();
    if (is_singular()) {
        comments_open() && comments_template();
        the_post_navigation();
    }
    echo '</article>';
}
if (is_singular('post')) {
    foreach (get_comments(['post_id' => get_queried_object_id(), 'status' => 'approve']) as $comment) {
        echo '<blockquote>', esc_html($comment->comment_content . get_comment_meta($comment->comment_ID, 'rating', true)), '</blockquote>';
    }
}
is_category() && print term_description() . esc_html(get_term_meta(get_queried_object_id(), 'color', true));
is_front_page() && wp_list_categories(['title_li' => '']) . wp_get_archives();
is_page('about') && wp_list_pages(['title_li' => '']);
dynamic_sidebar('side');
wp_footer();
?></body></html>
