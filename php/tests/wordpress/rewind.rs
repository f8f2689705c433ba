//! Rewound workers serve the pages that ordinary ones do, for less.

use std::collections::BTreeMap;

use crate::driver::{Answer, Ask, Host, Worker};
use crate::site::{INI, PAGES, Site};

/// Says which boot a page has come from.
const PLUGIN: &str = "$GLOBALS['boot'] = hrtime(true);
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
        let mut host = Host::start(INI, &["--rewind"]);
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
/// avatar without an address), and without which boot it was.
fn plain(answer: &Answer) -> (u16, Vec<(String, String)>, String, Vec<String>) {
    let text = answer.text().replace("1.gravatar", "0.gravatar").replace("2.gravatar", "0.gravatar");
    let fields = answer.fields.iter().filter(|(name, _)| name != "X-Boot").cloned().collect();
    (
        answer.status,
        fields,
        text,
        answer.notes.iter().map(|(kind, text)| format!("{kind:?} {text}")).collect(),
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

/// What WooCommerce does with its request in a boot: it asks whether the address is one of its REST API, and draws a session ID for a visitor
/// without one.
const SHOP: &str = r#"
    class WC_Session_Handler {
        private string $_customer_id = '';
        private string $_cookie = 'wp_woocommerce_session_test';
        public int $expires = 0;
        public function init() {
            $this->_customer_id = $_COOKIE[$this->_cookie] ?? '';
            if ($this->_customer_id === '') {
                $this->set_session_expiration();
                $this->_customer_id = $this->generate_customer_id();
            }
        }
        public function has_session() { return isset($_COOKIE[$this->_cookie]); }
        public function set_session_expiration() { $this->expires = time() + 172800; }
        public function generate_customer_id() { return 't_' . $this->random(16); }
        private function random($count) { $file = fopen('/dev/urandom', 'rb'); return bin2hex(fread($file, $count)); }
        public function get_customer_id() { return $this->_customer_id; }
    }
    class WooCommerce {
        public $session;
        public $rest;
        public function __construct() { $this->rest = $this->is_rest_api_request(); }
        public function is_rest_api_request() { return str_contains($this->address(), 'rest_route=/wc/'); }
        private function address() { return $_SERVER['REQUEST_URI']; }
    }
    function WC() { static $shop; return $shop ??= new WooCommerce(); }
    WC();
    add_action('init', function () { WC()->session = new WC_Session_Handler(); WC()->session->init(); });
    add_action('parse_request', fn () => header('X-Shop: ' . json_encode([WC()->rest, WC()->session->get_customer_id()])), 1);
"#;

/// All pages of a shop begin in one image, each visitor with a session ID of its own; the shop's REST API and visitors with a session do not.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn visitors_of_a_shop_have_their_own_session() {
    let mut both = Both::start(SHOP);
    let mut ids = std::collections::BTreeSet::new();
    let shop = |answer: &Answer| answer.values("X-Shop").join("");
    for n in 0.. {
        let id = shop(&both.rewound(&both.site.ask_page(["/", "/a/", "/about/"][n % 3])));
        assert!(id.starts_with("[false,\"t_") && ids.insert(id.clone()), "{id} once more");
        if both.without_boot() >= 8 {
            break;
        }
        assert!(n < 2_000, "{:?} {:?}", both.boots, both.log);
    }
    let api = both.rewound(&both.site.ask_page("/index.php?rest_route=/wc/v3/products"));
    assert!(shop(&api).starts_with("[true,"), "{}", shop(&api));
    both.until_rewound(&both.site.ask_page("/"));
    let known = both.site.ask_page("/").set("HTTP_COOKIE", "wp_woocommerce_session_test=t_mine");
    assert_eq!(shop(&both.rewound(&known)), "[false,\"t_mine\"]");
    both.report();
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
