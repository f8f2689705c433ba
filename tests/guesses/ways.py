"""What generated plugins are made of: sources, in which two visitors differ; ways to get at them; what the ways are wrapped in; hooks; places."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Source:
    """Something in which visitors differ. `letter` is in its secrets. `array` and `key`: where PHP has it. `ways`: more than those of all arrays."""

    name: str
    letter: str
    array: str = ""
    key: str = ""
    ways: tuple = ()


# ---- ways by an array: {A} is it, {N} its name, {K} the key, {R} the key reversed ----

OF_ARRAYS = (
    "({A}['{K}'] ?? '')",
    "(isset({A}['{K}']) ? {A}['{K}'] : '')",
    "(empty({A}['{K}']) ? '' : {A}['{K}'])",
    "@{A}[strrev('{R}')]",
    "(function ($k) {{ return {A}[$k] ?? ''; }})('{K}')",
    "@$GLOBALS['{N}']['{K}']",
    "@$GLOBALS['_' . substr('{N}', 1)]['{K}']",
    "(function () {{ $all = $GLOBALS; return $all['{N}']['{K}'] ?? ''; }})()",
    "(function () {{ foreach ($GLOBALS as $k => $v) {{ if ($k === '{N}') {{ return $v['{K}'] ?? ''; }} }} }})()",
    "(function () {{ extract($GLOBALS, EXTR_PREFIX_ALL, 'p'); return $p_{N}['{K}'] ?? ''; }})()",
    "(function () {{ extract({A}, EXTR_PREFIX_ALL, 'p'); return ${{'p_{K}'}} ?? ''; }})()",
    "(function () {{ $r = &{A}; return $r['{K}'] ?? ''; }})()",
    "(function () {{ $r = &{A}['{K}']; return $r; }})()",
    "(function () {{ {A}['{K}'] ??= ''; return {A}['{K}']; }})()",
    "(function () {{ ['{K}' => $v] = {A} + ['{K}' => '']; return $v; }})()",
    "(function () {{ foreach ({A} as $k => $v) {{ if ($k === '{K}') {{ return $v; }} }} return ''; }})()",
    "(function () {{ foreach ({A} as &$v) {{ $w[] = $v; }} return $w ?? ''; }})()",
    "(function () {{ array_walk({A}, function ($v, $k) use (&$w) {{ $k === '{K}' and $w = $v; }}); return $w ?? ''; }})()",
    "((object) {A})->{{'{K}'}}",
    "json_encode({A})",
    "serialize({A})",
    "http_build_query({A})",
    "print_r({A}, true)",
    "implode(array_filter({A}, 'is_string'))",
    "array_map(fn ($v) => $v, {A})",
    "array_intersect_key({A}, ['{K}' => 1])",
    "(new ArrayObject({A}))['{K}']",
    "iterator_to_array(new ArrayIterator({A}))['{K}']",
    "(function () {{ yield from {A}; }})()",
    "(fn (array $all) => $all['{K}'] ?? '')({A})",
    "array_column([{A}], '{K}')",
    "(array_key_exists('{K}', {A}) ? {A}['{K}'] : '')",
    "wp_unslash({A})['{K}']",
    "map_deep({A}, 'strval')['{K}']",
    "wp_list_pluck([{A}], '{K}')",
    "_wp_array_get({A}, ['{K}'])",
    "wp_parse_args({A})['{K}']",
)
# Only in the global scope.
GLOBAL = (
    "@compact('{N}')['{N}']['{K}']",
    "@compact(['{N}', ['_GET']])['{N}']['{K}']",
    "@get_defined_vars()['{N}']['{K}']",
    "@${{'{N}'}}['{K}']",
    "@${{'_' . substr('{N}', 1)}}['{K}']",
)

OF_COOKIES = (
    "filter_input(INPUT_COOKIE, '{K}')",
    "filter_input(var_name: '{K}', type: INPUT_COOKIE)",
    "filter_input_array(INPUT_COOKIE)",
    "filter_input_array(INPUT_COOKIE, ['{K}' => FILTER_DEFAULT])",
    "filter_input(INPUT_SERVER, 'HTTP_COOKIE')",
    "call_user_func_array('filter_input', [INPUT_COOKIE, '{K}'])",
    "(filter_input(...))(INPUT_COOKIE, '{K}')",
    "(function () {{ parse_str(strtr($_SERVER['HTTP_COOKIE'] ?? '', ['; ' => '&']), $all); return $all['{K}'] ?? ''; }})()",
    "(string) getenv('HTTP_COOKIE')",
    "getenv()",
    "getallheaders()['Cookie']",
    "array_change_key_case(apache_request_headers())['cookie']",
    "@$_SERVER['HTTP_COOKIE']",
    "preg_match('/{K}=([^;]*)/', $_SERVER['HTTP_COOKIE'] ?? '', $m) ? $m[1] : ''",
    "rest_get_server()->get_headers(wp_unslash($_SERVER))",
    "(function () {{ phpinfo(INFO_VARIABLES); }})()",
    "filter_var($_COOKIE['{K}'] ?? '', FILTER_UNSAFE_RAW)",
    "sanitize_text_field($_COOKIE['{K}'] ?? '')",
)
OF_FIELDS = (
    "getenv('{K}')",
    "getenv()['{K}']",
    "getallheaders()",
    "apache_request_headers()",
    "filter_input(INPUT_SERVER, '{K}')",
    "filter_input_array(INPUT_SERVER)",
    "rest_get_server()->get_headers(wp_unslash($_SERVER))",
    "(function () {{ phpinfo(INFO_VARIABLES); }})()",
    "@$_ENV['{K}'] . ($_SERVER['{K}'] ?? '')",
    "(function () {{ $copy = array_merge([], $_SERVER); return $copy['{K}'] ?? ''; }})()",
    "wp_fix_server_vars() . ($_SERVER['{K}'] ?? '')",
)
ADDRESS = (
    "wp_privacy_anonymize_data('text', $_SERVER['REMOTE_ADDR']) . $_SERVER['REMOTE_ADDR']",
    "inet_ntop(inet_pton($_SERVER['REMOTE_ADDR']))",
    "long2ip(ip2long($_SERVER['REMOTE_ADDR']))",
    "apply_filters('pre_comment_user_ip', $_SERVER['REMOTE_ADDR'])",
)
REFERER = ("wp_get_raw_referer()", "esc_url_raw(wp_get_raw_referer())")
AGENT = ("wp_is_mobile() . ($_SERVER['HTTP_USER_AGENT'] ?? '')", "substr($_SERVER['HTTP_USER_AGENT'] ?? '', 0, 254)")
ARGUMENT = (
    "filter_input(INPUT_GET, '{K}')",
    "$_REQUEST['{K}'] ?? ''",
    "$_SERVER['QUERY_STRING'] ?? ''",
    "$_SERVER['REQUEST_URI']",
    "wp_get_referer() . add_query_arg([])",
    "(function () {{ parse_str((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_QUERY), $q); return $q['{K}'] ?? ''; }})()",
)
# A session is only started for who has one.
WITH = "(isset($_COOKIE['PHPSESSID']) && session_status() !== PHP_SESSION_ACTIVE && @session_start({options}) ? "
SESSION = (
    WITH.format(options="") + "[$_SESSION['who'] ?? '', session_write_close()] : '')",
    WITH.format(options="['read_and_close' => true]") + "$_SESSION['who'] ?? '' : '')",
    WITH.format(options="['read_and_close' => true]") + "json_encode($_SESSION) : '')",
    WITH.format(options="['read_and_close' => true]") + "@$GLOBALS['_SESSION']['who'] : '')",
    WITH.format(options="") + "[session_encode(), session_write_close()] : '')",
    WITH.format(options="['read_and_close' => true, 'name' => 'PHPSESSID']") + "array_values($_SESSION) : '')",
    "@file_get_contents((session_save_path() ?: sys_get_temp_dir()) . '/sess_' . basename($_COOKIE['PHPSESSID'] ?? ''))",
    "(function () {{ session_id($_COOKIE['PHPSESSID'] ?? 'none'); @session_start(['read_and_close' => true]); return $_SESSION; }})()",
)
SESSION_NAME = (
    WITH.format(options="['read_and_close' => true]") + "session_id() : '')",
    "$_COOKIE[session_name()] ?? ''",
    "@constant('SID') . ($_COOKIE[ini_get('session.name')] ?? '')",
)

# Who is logged in: by WordPress's functions, which its hooks see, and around them.
MEMBER_LOGIN = (
    "wp_get_current_user()->user_login",
    "get_userdata(get_current_user_id())->user_login ?? ''",
    "$GLOBALS['current_user']->user_login ?? ''",
    "@$GLOBALS['user_login']",
    "(function () {{ global $current_user; return $current_user->data->user_login ?? ''; }})()",
    "(function () {{ wp_get_current_user(); return get_user_by('id', get_current_user_id())->data; }})()",
    "$GLOBALS['wpdb']->get_var('SELECT user_login FROM ' . $GLOBALS['wpdb']->users . ' WHERE ID = ' . get_current_user_id())",
    "(function () {{ return (array) wp_get_current_user(); }})()",
    "(fn () => clone wp_get_current_user())()->user_login",
    "json_encode(wp_get_current_user())",
    "wp_get_current_user()->to_array()",
    "wp_get_current_user()->get('user_login')",
    "(function () {{ foreach ((array) wp_get_current_user()->data as $v) {{ $w[] = $v; }} return $w ?? ''; }})()",
    "(new ReflectionProperty('WP_User', 'data'))->getValue(wp_get_current_user())",
    "Closure::bind(fn () => $this->data, wp_get_current_user(), 'WP_User')()",
    "get_author_posts_url(get_current_user_id())",
)
MEMBER_AROUND = (
    "explode('|', $_COOKIE[LOGGED_IN_COOKIE] ?? '')[0]",
    "wp_parse_auth_cookie($_COOKIE[LOGGED_IN_COOKIE] ?? '', 'logged_in')['username'] ?? ''",
    "get_userdata((int) wp_validate_auth_cookie('', 'logged_in'))->user_login ?? ''",
    "get_userdata((int) apply_filters('determine_current_user', false))->user_login ?? ''",
    "filter_input(INPUT_COOKIE, LOGGED_IN_COOKIE)",
    "@getallheaders()['Cookie']",
    "@$_SERVER['HTTP_COOKIE']",
    "implode(' ', $_COOKIE)",
    "getenv('HTTP_COOKIE')",
    "$GLOBALS['wpdb']->get_col('SELECT user_login FROM ' . $GLOBALS['wpdb']->users . \" WHERE user_login = '\" . esc_sql(explode('|', $_COOKIE[LOGGED_IN_COOKIE] ?? '')[0]) . \"'\")",
)
MEMBER_MAIL = ("wp_get_current_user()->user_email", "get_the_author_meta('user_email', get_current_user_id())", "wp_get_current_commenter() + (array) wp_get_current_user()->data")
MEMBER_META = (
    "get_user_meta(get_current_user_id(), 'secret', true)",
    "get_user_meta(get_current_user_id())",
    "wp_get_current_user()->secret",
    "get_user_option('secret')",
    "get_metadata('user', get_current_user_id(), 'secret', true)",
    "$GLOBALS['wpdb']->get_var('SELECT meta_value FROM ' . $GLOBALS['wpdb']->usermeta . \" WHERE meta_key = 'secret' AND user_id = \" . get_current_user_id())",
    "get_the_author_meta('secret', get_current_user_id())",
    "get_users(['include' => [get_current_user_id()], 'meta_key' => 'secret'])",
)
MEMBER_NUMBER = ("get_current_user_id()", "wp_get_current_user()->ID", "@$GLOBALS['user_ID']", "wp_get_current_user()->id", "get_edit_profile_url()")
MEMBER_NAME = ("wp_get_current_user()->display_name", "wp_get_current_user()->first_name", "get_the_author_meta('display_name', get_current_user_id())", "md5(wp_get_current_user()->display_name) . wp_get_current_user()->display_name")

# What is in a cart: by the shop's functions, and around them.
CART = (
    "WC()->cart->get_cart_contents_count()",
    "array_sum(array_column(WC()->cart->get_cart(), 'quantity'))",
    "count(WC()->cart->get_cart())",
    "WC()->cart->is_empty()",
    "WC()->cart->get_cart_hash()",
    "(function () {{ foreach (WC()->cart->get_cart() as $item) {{ @$sum += $item['quantity']; }} return $sum ?? 0; }})()",
    "(WC()->cart->get_cart_contents_count(...))()",
    "call_user_func([WC()->cart, 'get_cart_contents_count'])",
    "(new ReflectionMethod(WC()->cart, 'get_cart_contents_count'))->invoke(WC()->cart)",
    "Closure::bind(fn () => $this->contents(), WC()->cart, WC()->cart)()",
    "json_encode(WC()->cart->get_cart())",
    "array_sum(array_column((array) WC()->session->get('cart'), 'quantity'))",
    "WC()->session->get_session_data()",
    "(function () {{ return (array) WC()->session; }})()",
    "(function () {{ return print_r(WC()->cart, true); }})()",
    "(function () {{ return serialize(WC()->session->get('cart')); }})()",
    "$_COOKIE['woocommerce_items_in_cart'] ?? 0",
    "$_COOKIE['woocommerce_cart_hash'] ?? ''",
    "strlen($_COOKIE['wp_woocommerce_session_' . COOKIEHASH] ?? '')",
    "filter_input(INPUT_COOKIE, 'woocommerce_cart_hash')",
    "$GLOBALS['wpdb']->get_var($GLOBALS['wpdb']->prepare('SELECT session_value FROM ' . $GLOBALS['wpdb']->prefix . 'woocommerce_sessions WHERE session_key = %s', WC()->session->get_customer_id()))",
    "wc_notice_count() + WC()->cart->get_cart_contents_count()",
    "apply_filters('woocommerce_cart_contents_count', WC()->cart->get_cart_contents_count())",
)

# ---- sources ----

COOKIES = [
    Source("an unknown cookie", "u", "$_COOKIE", "cur", OF_COOKIES),
    Source("an unknown cookie by $_REQUEST", "u", "$_REQUEST", "cur", OF_COOKIES),
    Source("another unknown cookie", "v", "$_COOKIE", "site-lang", OF_COOKIES),
    Source("a cookie whose name PHP changes", "y", "$_COOKIE", "my_lang", OF_COOKIES),
    Source("a cookie that is an array", "o", "$_COOKIE", "pref", OF_COOKIES),
    Source("a harmless cookie", "h", "$_COOKIE", "_ga", OF_COOKIES),
]
FIELDS = [
    Source("User-Agent", "b", "$_SERVER", "HTTP_USER_AGENT", OF_FIELDS + AGENT),
    Source("Accept", "t", "$_SERVER", "HTTP_ACCEPT", OF_FIELDS),
    Source("Accept-Language", "l", "$_SERVER", "HTTP_ACCEPT_LANGUAGE", OF_FIELDS),
    Source("Referer", "r", "$_SERVER", "HTTP_REFERER", OF_FIELDS + REFERER),
    Source("X-Custom", "c", "$_SERVER", "HTTP_X_CUSTOM", OF_FIELDS),
    Source("DNT", "n", "$_SERVER", "HTTP_DNT", OF_FIELDS),
    Source("the client's address", "a", "$_SERVER", "REMOTE_ADDR", OF_FIELDS + ADDRESS),
]
OTHERS = [
    Source("X-Forwarded-For", "f", "$_SERVER", "HTTP_X_FORWARDED_FOR", OF_FIELDS),
    Source("Authorization", "p", "$_SERVER", "HTTP_AUTHORIZATION", OF_FIELDS),
    Source("an argument outside of the key", "q", "$_GET", "utm_source", ARGUMENT),
    Source("a log-in", "w", "$_COOKIE", "{LOGIN}", OF_COOKIES),
]
SESSIONS = [
    Source("a session", "s", "", "PHPSESSID", SESSION),
    Source("a session's name", "z", "$_COOKIE", "PHPSESSID", SESSION_NAME + OF_COOKIES),
]
MEMBERS = [
    Source("the user's log-in", "w", ways=MEMBER_LOGIN + MEMBER_AROUND),
    Source("the user's address", "e", ways=MEMBER_MAIL),
    Source("the user's field", "m", ways=MEMBER_META),
    Source("the user's number", "d", ways=MEMBER_NUMBER),
    Source("the user's name", "g", ways=MEMBER_NAME),
]

CARTS = [Source("the cart", "k", ways=CART)]
ALL = CARTS + COOKIES + FIELDS + OTHERS + SESSIONS + MEMBERS

# Values made in the run, which a Set-Cookie makes somebody's.
MADE = ("md5(microtime())", "uniqid()", "bin2hex(random_bytes(8))", "hrtime(true)", "wp_generate_password(12, false)", "wp_generate_uuid4()", "lcg_value()", "mt_rand()", "md5(serialize(gettimeofday()))",
        "(string) $_SERVER['REQUEST_TIME_FLOAT'] . random_int(0, 1 << 40)", "wp_unique_id(wp_rand())", "wp_hash(microtime())")  # fmt: skip

# ---- wraps: @@ is the way ----

WRAPS = (
    "(@@)",
    "(function () { return @@; })()",
    "(fn () => @@)()",
    "(static fn () => @@)()",
    "call_user_func(function () { return @@; })",
    "call_user_func_array([new class { function get() { return @@; } }, 'get'], [])",
    "array_map(fn ($n) => @@, [1])",
    "(new class { function __get($n) { return @@; } })->cur",
    "(new class { function __call($n, $a) { return @@; } })->cur()",
    "(new class { static function __callStatic($n, $a) { return @@; } })::cur()",
    "(new class implements ArrayAccess { function offsetExists($o): bool { return true; } function offsetGet($o): mixed { return @@; } function offsetSet($o, $v): void {} function offsetUnset($o): void {} })['x']",
    "(string) new class { function __toString(): string { return Guess::flat(@@); } }",
    "(function () { yield @@; })()->current()",
    "iterator_to_array(new class implements IteratorAggregate { function getIterator(): Iterator { yield @@; } })",
    "(new ReflectionFunction(function () { return @@; }))->invoke()",
    "(function () { $o = new class { private function get() { return @@; } }; return (new ReflectionMethod($o, 'get'))->getClosure($o)(); })()",
    "Closure::fromCallable(fn () => @@)()",
    "(function () { try { throw new Exception(Guess::flat(@@)); } catch (Exception $e) { return $e->getMessage(); } })()",
    "preg_replace_callback('/x/', fn () => Guess::flat(@@), 'x')",
    "unserialize(serialize(Guess::flat(@@)))",
    "(function () { static $all = []; return $all[] = @@; })()",
    "(function () { $f = new Fiber(function () { Fiber::suspend(@@); }); return $f->start(); })()",
    "apply_filters('guess_way', (function () { add_filter('guess_way', fn () => @@); return ''; })())",
    "(function () { usort($GLOBALS['guess_two'], function ($a, $b) use (&$w) { $w = @@; return 0; }); return $w; })()",
    "(function () { wp_cache_set('guess', @@); return wp_cache_get('guess'); })()",
    "(function () { $o = new class { public $w; function __destruct() { $GLOBALS['guess_left'] = @@; } }; unset($o); return $GLOBALS['guess_left']; })()",
    "(function () { spl_autoload_register($f = function ($c) { $GLOBALS['guess_left'] = @@; }); class_exists('Guess_None'); spl_autoload_unregister($f); return $GLOBALS['guess_left']; })()",
    "(function () { set_error_handler(function () use (&$w) { $w = @@; return true; }); trigger_error('x'); restore_error_handler(); return $w; })()",
    "(function () { return include __DIR__ . '/{PART}'; })()",
)
# Once at most in a way, because they hold text.
EVAL = "eval(<<<'CODE'\nreturn @@;\nCODE)"

# ---- when: a hook, or what PHP calls at the end ----

HOOKS = ("muplugins_loaded", "plugins_loaded", "setup_theme", "after_setup_theme", "init", "widgets_init", "wp_loaded", "parse_request", "send_headers", "wp", "template_redirect", "wp_head", "the_content", "wp_footer", "shutdown",
         "request", "query_vars", "pre_get_posts", "posts_request", "determine_current_user", "locale", "option_blogname", "template_include", "body_class", "the_title", "user_has_cap", "wp_robots", "gettext")  # fmt: skip
ENDS = (
    "ob_start(function ($text) { Guess::take(fn () => @@, false); return $text . Guess::shown(); });",
    "register_shutdown_function(function () { Guess::take(fn () => @@); echo Guess::shown(); });",
    "$GLOBALS['guess_object'] = new class { function __destruct() { Guess::take(fn () => @@); echo Guess::shown(); } };",
    "header_register_callback(function () { Guess::take(fn () => @@, false); header('X-Guess: ' . Guess::shown(true)); });",
)

# What has been made is sent, and more comes later than the cache waits for: others may be waiting for the same page.
STREAM = "add_action('wp_head', function () { while (ob_get_level()) { ob_end_flush(); } flush(); usleep(150000); }, 1);"

# ---- places, by what they need to know before: nothing (the end of the page), that the page begins, that nothing was sent ----

LATE, MIDDLE, EARLY = ("end", "buffer"), ("foot", "content"), ("head", "attribute", "class", "title", "name", "field", "callback", "status", "template", "redirect", "cookie")
FORMS = ("raw", "raw", "secret", "upper", "reversed", "length", "hash", "choice")
CART_FORMS = ("threshold", "threshold", "hash", "length", "choice")
CART_PATHS = ("/shop/", "/product/thing-3/", "/sample-page/", "/hello-world/")
BLURRED_FORMS = ("length", "hash", "choice")

# ---- what code does with a member's name by itself: printing may be shared, choosing not ----

NAMES = ("$user->display_name", "$user->first_name", "wp_get_current_user()->display_name", "$user->get('display_name')", "$GLOBALS['current_user']->display_name", "($user->display_name ?? '')")
# @@ is the name, or what was made of it. These keep it as it is.
KEEPING = (
    "esc_html(@@)",
    "esc_attr(@@)",
    "'Hello ' . @@",
    "\"Hello {$user->display_name} and \" . @@",
    "sprintf('%s!', @@)",
    "sprintf('%2$s %1$s', esc_html(@@), 'Dear')",
    "sprintf(__('Dear %s'), @@)",
    "(@@ ?: 'nobody')",
    "(string) (@@)",
    "($name = @@)",
    "wp_kses_post(@@)",
    "json_encode(@@)",
)
# These make something else of it, or decide by it. VIP: the secret of the member that some are about.
CHOOSING = (
    "strlen(@@)",
    "substr(@@, 0, 1)",
    "(@@)[0]",
    "sprintf('%.1s', @@)",
    "sprintf('%5.2s', @@)",
    "strtoupper(@@)",
    "strrev(@@)",
    "md5(@@)",
    "ucwords(strrev(@@))",
    "str_word_count(@@)",
    "(str_contains(@@, 'VIP') ? 'welcome' : 'join')",
    "(@@ === 'NAME VIP' ? 'welcome' : 'join')",
    "(@@ == 'NAME VIP' ? 'welcome' : 'join')",
    "(@@ > 'M' ? 'late' : 'early')",
    "(@@ <=> 'Cora')",
    "match (true) { @@ < 'C' => 'first', default => 'second' }",
    "(in_array(@@, ['NAME VIP', 'VIP'], true) ? 'welcome' : 'join')",
    "(['NAME VIP' => 'welcome'][@@] ?? 'join')",
    "(preg_match('/VIP/', @@) ? 'welcome' : 'join')",
    "(function () use ($user) { switch (@@) { case 'NAME VIP': return 'welcome'; } return 'join'; })()",
    "(function () use ($user) { foreach (str_split(@@) as $c) { @$n += ord($c); } return $n; })()",
    "(function () use ($user) { $n = @@; return $n === 'NAME VIP' ? 'welcome' : 'join'; })()",
    "(function () use ($user) { $n = @@; $f = 'n'; return strlen($$f); })()",
    "(function () use ($user) { $n = @@; return strlen(implode(compact('n'))); })()",
    "(function () use ($user) { $n = ''; $n .= @@; return crc32($n); })()",
    "(function () use ($user) { ob_start(); echo @@; return strlen(ob_get_clean()); })()",
    "(function () use ($user) { ob_start(); echo @@; $n = ob_get_length(); ob_end_clean(); return $n; })()",
    "(function () use ($user) { ob_start(fn ($t) => strlen($t)); echo @@; ob_end_flush(); return ''; })()",
    "(function () use ($user) { add_filter('esc_html', $f = function ($t) { $GLOBALS['guess_left'] = strlen($t); return $t; }); esc_html(@@); remove_filter('esc_html', $f); return $GLOBALS['guess_left']; })()",
    "(function () use ($user) { return printf('%s', @@); })()",
    "(function () use ($user) { ob_start(); comment_form([], 1); return str_contains(ob_get_clean(), 'VIP') ? 'welcome' : 'join'; })()",
    "(function () use ($user) { add_filter('comment_form_logged_in', $f = function ($h, $c, $n) { $GLOBALS['guess_left'] = $n === 'NAME VIP'; return $h; }, 10, 3); ob_start(); comment_form([], 1); ob_end_clean(); remove_filter('comment_form_logged_in', $f); return var_export($GLOBALS['guess_left'] ?? '', true); })()",
    "(function () use ($user) { global $user_identity; return $user_identity === 'NAME VIP' ? 'welcome' : 'join'; })()",
    "(function () { return strlen($GLOBALS['user_' . 'identity']); })()",
    "(function () { return crc32(serialize(wp_get_current_user()->session_tokens)); })()",
    "(wp_create_nonce('wp_rest') > '8' ? 'late' : 'early')",
    "hexdec(substr(wp_logout_url(), -4))",
    "(wp_loginout('', false) > 'M') . crc32(wp_loginout('', false))",
    "guess_kept(@@)",
    "strlen(guess_kept(@@))",
)
