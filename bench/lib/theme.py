"""A WordPress theme in the shape of R2's page: the PHP page, 4 scripts, 7 style sheets, 8 pictures, about 215 KB in all."""

import random
import struct
import zlib

SCRIPTS, SHEETS, PICTURES = 4, 7, 8
OBJECTS = SCRIPTS + SHEETS + PICTURES
INDEX = """<!DOCTYPE html>
<html <?php language_attributes(); ?>><head><meta charset="utf-8"><title><?php bloginfo('name'); ?></title>
<link rel="icon" href="data:,">
<?php wp_head(); ?></head><body <?php body_class(); ?>><h1><?php bloginfo('name'); ?></h1>
<?php for ($n = 1; $n <= PICTURES; $n++) echo '<img src="', get_template_directory_uri(), "/picture-$n.png\\" alt=\\"\\">\\n"; ?>
<?php while (have_posts()) { the_post(); the_title('<h2>', '</h2>'); the_content(); } ?>
<?php foreach (get_categories() as $category) echo '<p>', esc_html($category->name), '</p>'; ?>
<?php wp_footer(); ?></body></html>
"""
# What WordPress adds of itself is not the theme's.
FUNCTIONS = """<?php
remove_action('wp_head', 'print_emoji_detection_script', 7);
remove_action('wp_print_styles', 'print_emoji_styles');
add_action('wp_enqueue_scripts', function () {
    foreach (['wp-block-library', 'global-styles', 'classic-theme-styles'] as $own) wp_dequeue_style($own);
    for ($n = 1; $n <= SHEETS; $n++) wp_enqueue_style("sheet-$n", get_template_directory_uri() . "/sheet-$n.css", [], null);
    for ($n = 1; $n <= SCRIPTS; $n++) wp_enqueue_script("script-$n", get_template_directory_uri() . "/script-$n.js", [], null, true);
}, 100);
"""


def make(site):
    """Puts the theme into a WordPress and makes it the one that is shown."""
    folder = site.root / "wp-content" / "themes" / "race"
    folder.mkdir()
    chance = random.Random(2)
    (folder / "style.css").write_text("/*\nTheme Name: Race\n*/\n")
    for name, text in {"index.php": INDEX, "functions.php": FUNCTIONS}.items():
        for word, number in {"PICTURES": PICTURES, "SHEETS": SHEETS, "SCRIPTS": SCRIPTS}.items():
            text = text.replace(word, str(number))
        (folder / name).write_text(text)
    for number in range(1, SHEETS + 1):
        (folder / f"sheet-{number}.css").write_text(sheet(chance, 6_000))
    for number in range(1, SCRIPTS + 1):
        (folder / f"script-{number}.js").write_text(script(chance, 14_000))
    for number in range(1, PICTURES + 1):
        (folder / f"picture-{number}.png").write_bytes(picture(chance, 62))
    site.database.sql("USE wordpress; UPDATE wp_options SET option_value = 'race' WHERE option_name IN ('template', 'stylesheet')")


def sheet(chance, size):
    """Style rules that shrink like real ones."""
    text = ""
    while len(text) < size:
        text += f".block-{chance.randrange(999)} .part-{chance.randrange(99)} {{ margin: {chance.randrange(40)}px; color: #{chance.randrange(1 << 24):06x}; }}\n"
    return text


def script(chance, size):
    """A script that shrinks like a real one."""
    text = ""
    while len(text) < size:
        text += f"function step{chance.randrange(9999)}(value) {{ if (value > {chance.randrange(999)}) {{ return value * {chance.random():.6f}; }} return null; }}\n"
    return text


def picture(chance, side):
    """A PNG of noise, which doesn't shrink: about 12 KB."""
    rows = b"".join(b"\0" + chance.randbytes(side * 3) for _ in range(side))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))  # noqa: E731
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
