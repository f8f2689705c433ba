//! Rewound workers serve the pages that ordinary ones do, for less.

use std::collections::BTreeMap;

use crate::driver::{Answer, Ask, Host, Worker};
use crate::site::{INI, PAGES, Site};

/// Says which boot a page has come from.
const PLUGIN: &str = "function time_of_boot() { return hrtime(true); } $GLOBALS['boot'] = time_of_boot();
    add_action('parse_request', fn () => header('X-Boot: ' . $GLOBALS['boot']), 0);";

/// A site, and another host for it whose workers are rewound.
struct Both {
    site: Site,
    worker: Worker,
    boots: BTreeMap<String, u32>,
    log: Vec<String>,
    _host: Host,
}

impl Both {
    fn start(plugin: &str) -> Both {
        let site = Site::start(&format!("{PLUGIN} {plugin}"));
        let mut host = Host::start(
            INI,
            &["--rewind-methods", "--rewind-except", "time_of_boot,WC_Cache_Helper::generate_cache_prefix"],
        );
        let worker = host.worker(0);
        Both { site, worker, boots: BTreeMap::new(), log: Vec::new(), _host: host }
    }

    /// Runs a request in the rewound worker.
    fn rewound(&mut self, ask: &Ask) -> Answer {
        let answer = self.worker.run(ask);
        for boot in answer.values("X-Boot") {
            *self.boots.entry(boot.to_owned()).or_default() += 1;
        }
        self.log.extend(answer.log.iter().filter(|line| line.contains("php.rewind")).cloned());
        answer
    }

    /// Runs it in both ways.
    fn compare(&mut self, what: &str, ask: &Ask) {
        let ordinary = self.site.worker.run(ask);
        let rewound = self.rewound(ask);
        assert_eq!(plain(&rewound), plain(&ordinary), "{what} {}", uri(ask));
    }

    /// Runs a page's request in both ways, with a variable that tells the client; without a name it is a plain visitor's.
    fn compare_as(&mut self, (name, value): (&str, &str), uri: &str) {
        let ask = self.site.ask_page(uri);
        let ask = if name.is_empty() { ask } else { ask.set(name, value) };
        self.compare(value, &ask);
    }

    /// The same with several variables.
    fn compare_with(&mut self, variables: &[(&str, &str)], uri: &str) {
        let ask = variables.iter().fold(self.site.ask_page(uri), |ask, (name, value)| ask.set(name, value));
        self.compare(&format!("{variables:?}"), &ask);
    }

    /// Prints how many requests had no boot of their own.
    fn report(&self) {
        let requests = self.boots.values().sum::<u32>();
        println!("{} of {requests} requests had no boot; {:?}", self.without_boot(), self.log);
    }

    /// Sends it until two answers have come from one boot.
    fn until_rewound(&mut self, ask: &Ask) {
        let before = self.without_boot();
        for _ in 0..200 {
            self.rewound(ask);
            if self.without_boot() > before {
                return;
            }
        }
        panic!("no request begins at the point: {:?}", self.log);
    }

    /// Requests that had no boot of their own.
    fn without_boot(&self) -> u32 {
        self.boots.values().map(|requests| requests - 1).sum()
    }
}

fn uri(ask: &Ask) -> String {
    let (_, value) = ask.variables.iter().find(|(name, _)| name == "REQUEST_URI").unwrap();
    String::from_utf8_lossy(value).into_owned()
}

/// What has to be the same: status, fields, content, what is said to the cache. Without what is random in WordPress (the server of an
/// avatar without an address), without which boot it was, and without that nobody watches which cookies a rewound worker reads.
fn plain(answer: &Answer) -> (u16, Vec<(String, String)>, String, Vec<String>) {
    let text = answer.text().replace("1.gravatar", "0.gravatar").replace("2.gravatar", "0.gravatar");
    let fields = answer.fields.iter().filter(|(name, _)| name != "X-Boot").cloned().collect();
    (
        answer.status,
        fields,
        text,
        answer
            .notes
            .iter()
            .map(|(kind, text)| format!("{kind:?} {}", text.replace("end elsewhere", "end")))
            .collect(),
    )
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn rewound_pages_are_the_same() {
    let mut both = Both::start("");
    let member = both.site.cookie(1);
    let commenter = "comment_author_x=Jane; comment_author_email_x=jane%40example.org";
    let phone = "Mozilla/5.0 (iPhone) AppleWebKit/605 Version/17.4 Mobile/15E148 Safari/604.1";
    // One kind of client after the other, and then all at once.
    let clients = [
        ("", ""),
        ("HTTP_COOKIE", &member),
        ("HTTP_COOKIE", commenter),
        ("HTTP_USER_AGENT", phone),
        ("HTTP_ACCEPT", "application/json"),
    ];
    for client in clients {
        // An image lives for a second: a slow machine needs more requests.
        let enough = both.without_boot() + 8;
        for (n, uri) in PAGES.iter().cycle().enumerate() {
            both.compare_as(client, uri);
            if n >= 30 && both.without_boot() >= enough {
                break;
            }
            assert!(n < 2_000, "{:?} {:?}", both.boots, both.log);
        }
    }
    both.report();
    for n in 0..60 {
        both.compare_as(clients[n * 7 % clients.len()], PAGES[n * 5 % PAGES.len()]);
    }
    both.report();
}

/// What wp-config.php and plugins change in superglobals before the point, as behind a proxy, and what WordPress does to the cookies of commenters.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn changes_of_superglobals_are_kept() {
    let plugin = "if (($_SERVER['HTTP_X_FORWARDED_PROTO'] ?? '') === 'https') { $_SERVER['HTTPS'] = 'on'; unset($_SERVER['HTTP_X_GONE']); }
        add_action('init', function () { $_GET['added'] = 'by init'; });
        add_action('parse_request', fn () => header('X-Seen: ' . json_encode([is_ssl(), $_SERVER['HTTP_X_GONE'] ?? null, $_GET['added'] ?? null,
            $_COOKIE['comment_author_email_' . COOKIEHASH] ?? null])), 1);";
    let mut both = Both::start(plugin);
    let hash = both.site.value("COOKIEHASH");
    let commenter = format!(
        "comment_author_{hash}=\u{17b}\u{f3}\u{142}w; comment_author_email_{hash}=\u{17b}\u{f3}\u{142}w%40example.org; quoted=it's"
    );
    for fields in [
        vec![("HTTP_X_FORWARDED_PROTO", "https"), ("HTTP_X_GONE", "1")],
        vec![("HTTP_COOKIE", commenter.as_str())],
        vec![],
    ] {
        let enough = both.without_boot() + 8;
        for n in 0.. {
            both.compare_with(&fields, ["/", "/?p=1"][n % 2]);
            if both.without_boot() >= enough {
                break;
            }
            assert!(n < 2_000, "{:?} {:?}", both.boots, both.log);
        }
    }
    both.report();
}

/// What WooCommerce does with its request in a boot: it asks whether the address is one of its REST API, and loads the session of its
/// visitor, or draws an ID for one without a session.
const SHOP: &str = r#"
    define('WC_SESSION_CACHE_GROUP', 'wc_session_id');
    abstract class WC_Session {
        protected $_customer_id = '';
        protected $_data = [];
        public function get($key) { return $this->_data[$key] ?? null; }
    }
    class WC_Session_Handler extends WC_Session {
        protected string $_cookie = 'wp_woocommerce_session_test';
        protected $_has_cookie = false;
        public function init() {
            $this->init_session_cookie();
            add_filter('the_title', [$this, 'add_name']);
        }
        public function init_session_cookie() {
            $cookie = $this->get_session_cookie();
            if ($cookie) {
                $this->_has_cookie = true;
                $this->_customer_id = $cookie;
                $this->_data = $this->load();
            } else {
                $this->_customer_id = 't_' . $this->random(16);
            }
        }
        private function load() {
            $data = wp_cache_get($this->_customer_id, WC_SESSION_CACHE_GROUP);
            if ($data === false) {
                $data = get_option('session_' . $this->_customer_id) ?: [];
                wp_cache_set($this->_customer_id, $data, WC_SESSION_CACHE_GROUP);
            }
            return $data;
        }
        public function get_session_cookie() { return $_COOKIE[$this->_cookie] ?? ''; }
        private function random($count) { $file = fopen('/dev/urandom', 'rb'); return bin2hex(fread($file, $count)); }
        public function get_customer_id() { return $this->_customer_id; }
        public function add_name($title) { return $title . ' for ' . $this->get('name'); }
    }
    abstract class WC_Data { protected $data = []; }
    class WC_Customer extends WC_Data {
        public function __construct($id = 0, $session = false) { $this->data['name'] = $session ? WC()->session->get('name') : null; }
        public function get_name() { return $this->data['name']; }
    }
    class WooCommerce {
        public $session;
        public $customer;
        public $rest;
        public function __construct() { $this->rest = $this->is_rest_api_request(); }
        public function is_rest_api_request() { return str_contains($this->address(), 'rest_route=/wc/'); }
        private function address() { return $_SERVER['REQUEST_URI']; }
        public function initialize_session() { $this->session = new WC_Session_Handler(); $this->session->init(); }
        public function initialize_cart() { $this->customer = new WC_Customer(0, true); }
    }
    trait TestPrefixes {
        public static function get_cache_prefix($group) {
            $prefix = wp_cache_get("wc_{$group}_cache_prefix", $group) ?: self::generate_cache_prefix();
            wp_cache_set("wc_{$group}_cache_prefix", $prefix, $group);
            return $prefix;
        }
        private static function generate_cache_prefix() { return microtime() . '_' . bin2hex(random_bytes(8)); }
    }
    class WC_Cache_Helper { use TestPrefixes; }
    function WC() { static $shop; return $shop ??= new WooCommerce(); }
    WC();
    WC_Cache_Helper::get_cache_prefix('orders');
    add_action('init', function () {
        WC()->initialize_session();
        WC()->initialize_cart();
        if (get_option('looks')) { $GLOBALS['looked'] = WC()->customer->get_name(); }
    });
    add_action('parse_request', fn () => header('X-Shop: ' . json_encode(
        [WC()->rest, WC()->session->get_customer_id(), WC()->customer->get_name(), $GLOBALS['looked'] ?? null])), 1);
"#;

fn shop(answer: &Answer) -> String {
    answer.values("X-Shop").join("")
}

/// All pages of a shop begin in one image, for visitors with and without a session: each has its own. The shop's REST API does not.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn visitors_of_a_shop_have_their_own_session() {
    let mut both = Both::start(SHOP);
    both.site.change("update_option('session_mine', ['name' => 'Jane']); update_option('session_yours', ['name' => 'Joe']);");
    let mut ids = std::collections::BTreeSet::new();
    let cookies = [("", ""), ("mine", "Jane"), ("yours", "Joe")];
    let mut rewound = 0;
    for n in 0.. {
        let (id, name) = cookies[n % 3];
        let ask = both.site.ask_page(["/", "/a/", "/about/"][n / 3 % 3]);
        let before = both.without_boot();
        if id.is_empty() {
            let said = shop(&both.rewound(&ask));
            assert!(
                said.starts_with("[false,\"t_")
                    && said.ends_with("\",null,null]")
                    && ids.insert(said.clone()),
                "{said}"
            );
        } else {
            let answer = both.rewound(&ask.set("HTTP_COOKIE", &format!("wp_woocommerce_session_test={id}")));
            assert_eq!(shop(&answer), format!("[false,\"{id}\",\"{name}\",null]"));
            assert!(answer.text().contains(&format!(" for {name}")));
        }
        rewound += u32::from(both.without_boot() > before && !id.is_empty());
        if rewound >= 8 {
            break;
        }
        assert!(n < 2_000, "{:?} {:?}", both.boots, both.log);
    }
    both.site.change("update_option('session_mine', ['name' => 'Ann']);");
    let mine = both.site.ask_page("/").set("HTTP_COOKIE", "wp_woocommerce_session_test=mine");
    assert_eq!(shop(&both.rewound(&mine)), "[false,\"mine\",\"Ann\",null]");
    both.until_rewound(&both.site.ask_page("/"));
    let api = both.rewound(&both.site.ask_page("/index.php?rest_route=/wc/v3/products"));
    assert!(shop(&api).starts_with("[true,"), "{}", shop(&api));
    both.report();
}

/// Where a plugin looks at the visitor's session in the boot, its cookie is in the image's key.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn a_session_that_is_looked_at_is_in_the_key() {
    let mut both = Both::start(SHOP);
    both.site.change("update_option('looks', '1'); update_option('session_mine', ['name' => 'Jane']); update_option('session_yours', ['name' => 'Joe']);");
    let with = |site: &Site, id: &str| {
        site.ask_page("/").set("HTTP_COOKIE", &format!("wp_woocommerce_session_test={id}"))
    };
    let [mine, yours] = ["mine", "yours"].map(|id| with(&both.site, id));
    for _ in 0..4 {
        both.until_rewound(&mine);
        assert_eq!(shop(&both.rewound(&mine)), "[false,\"mine\",\"Jane\",\"Jane\"]");
        assert_eq!(shop(&both.rewound(&yours)), "[false,\"yours\",\"Joe\",\"Joe\"]");
        assert!(shop(&both.rewound(&both.site.ask_page("/"))).ends_with(",null,null]"));
    }
}

/// Rows of the boot that are compared: the timeout of a transient may be another one, as long as neither is over.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn timeouts_of_transients_are_no_change() {
    let plugin = r#"add_action('parse_request', function () {
        $one = "SELECT option_value FROM wp_options WHERE option_name = '_transient_timeout_a' LIMIT 1";
        $two = "SELECT option_name, option_value FROM wp_options WHERE option_name IN ('_transient_a', '_transient_timeout_a')";
        $other = "SELECT option_value FROM wp_options WHERE option_name = 'a' LIMIT 1";
        [$soon, $later, $over] = [(string) (time() + 100), (string) (time() + 200), (string) (time() - 100)];
        $name = '_transient_timeout_a';
        $cases = [
            [$one, [[$soon]], [[$later]]], [$two, [['_transient_a', 'x'], [$name, $soon]], [['_transient_a', 'x'], [$name, $later]]],
            [$one, [[$soon]], [[$over]]], [$one, [[$soon]], []], [$other, [[$soon]], [[$later]]],
            [$two, [['_transient_a', $soon], [$name, $soon]], [['_transient_a', $later], [$name, $soon]]],
            [$two, [[$name, $soon]], [['_transient_timeout_b', $later]]], [$two, [[$name, $soon]], [[$name, $over]]],
        ];
        if (!class_exists('Millrace\WordPress\Rewind', false)) { return; }
        $agree = new ReflectionMethod('Millrace\WordPress\Rewind', 'agree');
        header('X-Agree: ' . implode(' ', array_map(fn ($case) => (int) $agree->invoke(null, ...$case), $cases)));
    }, 1);"#;
    let mut both = Both::start(plugin);
    let answer = both.rewound(&both.site.ask_page("/"));
    assert_eq!(answer.values("X-Agree"), ["1 1 0 0 0 0 0 0"]);
}

/// Other processes change the site: the very next request is right.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn rewound_pages_are_not_old() {
    let mut both = Both::start("");
    let ask = both.site.ask_page("/");
    let changes = [
        ("Named a", "update_option('blogname', 'Named a')"),
        (
            "Named b",
            "$GLOBALS['wpdb']->query(\"UPDATE wp_options SET option_value = 'Named b' WHERE option_name = 'blogname'\")",
        ),
        (
            "Named c",
            "wp_update_post(['ID' => get_page_by_path('a', OBJECT, 'post')->ID, 'post_title' => 'Named c'])",
        ),
    ];
    for (name, code) in changes {
        both.until_rewound(&ask);
        both.site.change(code);
        assert!(both.rewound(&ask).text().contains(name), "{code}");
    }
}
