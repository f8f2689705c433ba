<?php
register_nav_menus(['main' => 'Main']);
add_theme_support('post-thumbnails');
add_theme_support('automatic-feed-links');
add_theme_support('title-tag');
add_action('widgets_init', fn () => register_sidebar(['id' => 'side', 'name' => 'Side']));
