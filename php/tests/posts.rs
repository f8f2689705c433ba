//! Posts of which a page shows more than a link: the worker sees it, in whatever way they are read.

mod driver;

use driver::{Ask, Host};

const CORE: &str = r#"<?php
final class WP_Post {
    public $ID;
    public $post_title = 'Title';
    public $post_content = '';
    public $post_excerpt = '';
    public $comment_count = '0';
    public function __construct($post) { foreach (get_object_vars($post) as $key => $value) { $this->$key = $value; } }
    public function to_array() { return get_object_vars($this); }
    public function filter() { return sanitize_post($this); }
}
function a_post($id) { return new WP_Post((object) ['ID' => $id, 'post_content' => "text $id"]); }
function sanitize_post($post) { foreach (array_keys(get_object_vars($post)) as $field) { $post->$field = trim($post->$field); } return $post; }
function get_post_field($field, $post) { return $post->$field; }
function wp_list_pluck($posts, $field) { return array_map(fn ($post) => $post->$field, $posts); }
function link_to($post) { return "<a href='?p=$post->ID'>$post->post_title</a>"; }
function wp_cache_set($key, $post) { return keep($post); }
function shows_count($post) { return $post->comment_count; }
"#;

#[test]
fn what_is_more_than_a_link() {
    let mut host = Host::start("zend_extension=opcache\n", &[]);
    let mut worker = host.worker(0);
    let core = host.script("wp-includes/all.php", CORE);
    for (at, (code, read)) in [
        ("echo link_to($post), $post->ID, $post->post_title, isset($post->post_title);", "[]"),
        ("echo $post->post_content;", "[7]"),
        ("foreach ([a_post(1), a_post(2), a_post(3)] as $one) { echo $one->post_content; }", "[1,2,3]"),
        ("foreach ([1, 2, 3] as $id) { $one = a_post($id); echo $one->post_title; }", "[]"),
        ("$field = 'post_' . 'content'; echo $post->$field;", "[7]"),
        ("echo $post?->post_excerpt ?? '';", "[7]"),
        ("if (!empty($post->post_excerpt)) { echo 1; }", "[7]"),
        ("echo $post->comment_count;", "[7]"),
        ("echo shows_count($post);", "[]"),
        ("echo get_post_field('post_content', $post);", "[7]"),
        ("echo get_post_field('post_title', $post);", "[]"),
        ("echo implode(wp_list_pluck([$post, a_post(8)], 'post_content'));", "[7,8]"),
        ("echo ((array) $post)['post_content'];", "[7]"),
        ("echo json_encode($post);", "[7]"),
        ("foreach ($post as $value) { echo $value; }", "[7]"),
        ("echo count(get_object_vars($post));", "[7]"),
        ("echo $post->to_array()['post_content'];", "[7]"),
        ("echo serialize($post);", "[7]"),
        ("wp_cache_set(1, $post);", "[]"),
        ("echo $post->filter()->post_title;", "[]"),
        ("echo (clone $post)->post_content;", "[7]"),
        ("echo (new WP_Post($post))->post_title;", "[]"),
        ("echo (new ReflectionProperty($post, 'post_content'))->getValue($post);", "[7]"),
        ("$text = &$post->post_content; echo $text;", "[7]"),
        ("['a' => $text] = ['a' => &$post->post_content];", "[7]"),
        ("echo (fn () => $this->post_content)->call($post);", "[7]"),
        ("$post->post_content = 'x'; echo 1;", "[]"),
        ("gc_collect_cycles(); echo 1;", "[]"),
    ]
    .into_iter()
    .enumerate()
    {
        let page = format!(
            "<?php require '{}'; function keep($post) {{ return serialize($post); }}\n\
             function run($post) {{ {code} }} ob_start(); run(a_post(7)); ob_end_clean(); echo json_encode(millrace_posts_read());",
            core.display()
        );
        let script = host.script(&format!("page{at}.php"), &page);
        for _ in 0..2 {
            let answer = worker.run(&Ask::get(&script).set("MILLRACE_COOKIES", ""));
            assert_eq!((answer.text().as_str(), answer.log.len()), (read, 0), "{code}: {:?}", answer.log);
        }
        // Nothing is noted where the page is for nobody else.
        assert_eq!(worker.run(&Ask::get(&script)).text(), "[]", "{code}");
    }
}
