//! Which limit a request falls under: by the script that will run, its arguments and its path.

use std::borrow::Cow;

use memchr::memmem;
use millrace_wire::percent::decode_form;

use crate::arguments::{self, Argument};

/// A class of requests with a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Attempts to log in: POST to `wp-login.php`, and forms with a password.
    Login,
    /// `xmlrpc.php`.
    Xmlrpc,
    /// Searches: `?s=`, `/search/`.
    Search,
    /// Filters and orders of a shop's catalogue.
    Filter,
    /// What puts a product into a cart.
    Cart,
    /// Lists of users: the REST interface, `?author=`.
    Users,
    /// Requests for what is not there.
    NotFound,
    /// Any other request that needs PHP.
    Php,
}

impl Class {
    /// Every class, in the order of their numbers.
    pub const ALL: [Class; 8] = [
        Class::Login,
        Class::Xmlrpc,
        Class::Search,
        Class::Filter,
        Class::Cart,
        Class::Users,
        Class::NotFound,
        Class::Php,
    ];

    /// Its name: the last part of its setting.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["login", "xmlrpc", "search", "filter", "cart", "users", "not_found", "php"][self as usize]
    }

    /// Whether all anonymous requests of the class together have a share of PHP.
    #[must_use]
    pub fn has_share(self) -> bool {
        !matches!(self, Class::NotFound | Class::Php)
    }

    /// The class of a request that needs PHP.
    #[must_use]
    pub fn of(target: &Target<'_>) -> Class {
        // PHP reads a form whatever the case of the method.
        let is_post = target.method.eq_ignore_ascii_case("POST");
        let runs = |name: &[u8]| target.scripts.iter().any(|script| script.ends_with(name));
        if runs(b"/wp-login.php") {
            return if is_post { Class::Login } else { Class::Php };
        }
        if runs(b"/xmlrpc.php") {
            return Class::Xmlrpc;
        }
        // WordPress's front controller takes its query from forms, too; what else gets one has fields of its own.
        let is_front = runs(b"/index.php");
        let by_query = arguments::encoded(target.query).filter_map(|argument| of_argument(&argument));
        let by_form = is_post.then(|| target.form.class(is_front)).flatten();
        let classes = by_query.chain(by_form).chain(of_path(target.path));
        classes.min_by_key(|class| class.strictness()).unwrap_or(Class::Php)
    }

    /// Whether requests of the class try passwords, or look for names to try them with: a visitor's cart proves nothing there.
    #[must_use]
    pub fn is_guessing(self) -> bool {
        matches!(self, Class::Login | Class::Xmlrpc | Class::Users)
    }

    /// Of the classes that a request has, the first counts.
    fn strictness(self) -> usize {
        use Class::{Cart, Filter, Login, NotFound, Php, Search, Users, Xmlrpc};
        let order = [Login, Xmlrpc, Users, Cart, Search, Filter, NotFound, Php];
        order.iter().position(|class| *class == self).unwrap_or(order.len())
    }
}

/// What of a request tells its class: what PHP sees, however the client has written it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its method.
    pub method: &'a str,
    /// The script that will run: by the path of its URL, and by that of its file.
    pub scripts: [&'a [u8]; 2],
    /// The path that the client asked for, decoded.
    pub path: &'a [u8],
    /// The query that PHP gets; empty if there is none.
    pub query: &'a [u8],
    /// Its content.
    pub form: Form<'a>,
}

/// Content with named values.
#[derive(Clone, Copy, Debug, Default)]
pub enum Form<'a> {
    /// None, or of another type.
    #[default]
    None,
    /// `application/x-www-form-urlencoded`
    Encoded(&'a [u8]),
    /// `multipart/form-data`
    Parts(&'a [u8]),
    /// JSON.
    Json(&'a [u8]),
    /// It is too long to be searched.
    Unread,
}

impl Form<'_> {
    fn class(self, is_front: bool) -> Option<Class> {
        let in_form = |name: &[u8]| match name {
            _ if is_password(name) => Some(Class::Login),
            b"add-to-cart" => Some(Class::Cart),
            _ => None,
        };
        let strictest = |class: &Class| class.strictness();
        match self {
            Form::None => None,
            // Perhaps it hides a password.
            Form::Unread => Some(Class::Login),
            Form::Encoded(text) => {
                let of = |argument: Argument<'_>| match in_form(&argument.0) {
                    None if is_front || *argument.0 == *b"action" => of_argument(&argument),
                    class => class,
                };
                arguments::encoded(text).filter_map(of).min_by_key(strictest)
            }
            Form::Parts(text) => {
                let of = |name: Cow<'_, [u8]>| match (in_form(&name), &*name) {
                    // Their values are not looked for.
                    (None, b"rest_route" | b"author") if is_front => Some(Class::Users),
                    (None, b"s") if is_front => Some(Class::Search),
                    (class, _) => class,
                };
                arguments::in_parts(text).filter_map(of).min_by_key(strictest)
            }
            Form::Json(text) => {
                arguments::in_json(text).any(|name| is_password(&name)).then_some(Class::Login)
            }
        }
    }
}

/// Whether a field has a password by its name: WordPress (`pwd`), WooCommerce and plugins (`password`, `user_pass`), Drupal (`pass`), Joomla
/// (`passwd`), phpMyAdmin (`pma_password`), MediaWiki (`wpPassword`), TYPO3 (`userident`) ... A shop's order with a new account has a password, too,
/// which is no guess.
fn is_password(name: &[u8]) -> bool {
    const PARTS: [&[u8]; 3] = [b"password", b"passwd", b"pwd"];
    let name = name.to_ascii_lowercase();
    let has = |part: &[u8]| memmem::find(&name, part).is_some();
    !name.starts_with(b"account_password")
        && (PARTS.into_iter().any(has) || name == b"pass" || name == b"userident" || name.ends_with(b"_pass"))
}

/// The class of a request with this argument. WooCommerce's names are those of `WC_Query` and its layered navigation
/// (`filter_ATTRIBUTE`, `query_type_ATTRIBUTE`).
fn of_argument((name, value): &Argument<'_>) -> Option<Class> {
    let value = || decode_form(value);
    match &**name {
        b"s" => Some(Class::Search),
        b"add-to-cart" => Some(Class::Cart),
        b"wc-ajax" if value().trim_ascii() == b"add_to_cart" => Some(Class::Cart),
        b"action" if value().trim_ascii() == b"woocommerce_add_to_cart" => Some(Class::Cart),
        b"min_price" | b"max_price" | b"orderby" | b"rating_filter" => Some(Class::Filter),
        // WordPress removes what is no digit.
        b"author" if value().iter().any(u8::is_ascii_digit) => Some(Class::Users),
        b"rest_route" => of_route(&value()),
        name if name.starts_with(b"filter_") || name.starts_with(b"query_type_") => Some(Class::Filter),
        name if is_password(name) => Some(Class::Login),
        _ => None,
    }
}

/// The class of a request for this path.
fn of_path(path: &[u8]) -> Option<Class> {
    of_route(path).or_else(|| has_segments(path, b"/search").then_some(Class::Search))
}

/// The class of a request of WordPress's REST interface, whose routes have no case.
fn of_route(route: &[u8]) -> Option<Class> {
    let route = route.to_ascii_lowercase();
    let puts_into_cart = memmem::find(&route, b"/wc/store/").is_some()
        && (has_segments(&route, b"/cart/add-item") || has_segments(&route, b"/batch"));
    match has_segments(&route, b"/wp/v2/users") {
        true => Some(Class::Users),
        false => puts_into_cart.then_some(Class::Cart),
    }
}

/// Whether a path has these segments, whole. A route may end in a line feed: PCRE's `$` does not mind.
fn has_segments(path: &[u8], segments: &[u8]) -> bool {
    let is_end = |byte: &u8| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'_');
    memmem::find_iter(path, segments).any(|at| path.get(at + segments.len()).is_none_or(is_end))
}

/// How often a probe counts as a request for what is not there.
const PROBE: u64 = 10;

/// Ends of paths that only scanners request, and which no page links to. They count only if the site has no such page.
const PROBES: [&[u8]; 18] = [
    b"/.env",
    b"/.git/config",
    b"/.git/HEAD",
    b"/.aws/credentials",
    b"/.ssh/id_rsa",
    b"/.DS_Store",
    b"/.htpasswd",
    b"/wp-config.php.bak",
    b"/wp-config.php~",
    b"/wp-config.php.old",
    b"/wp-config.php.save",
    b"/wp-config.txt",
    b"/eval-stdin.php",
    b"/phpinfo.php",
    b"/backup.sql",
    b"/dump.sql",
    b"/database.sql",
    b"/shell.php",
];

/// How often a request for a path that is not there counts.
#[must_use]
pub fn weight(path: &[u8]) -> u64 {
    if PROBES.iter().any(|probe| path.ends_with(probe)) { PROBE } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(method: &str, target: &str) -> Class {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        of(method, path, query, Form::None)
    }

    /// The class, if the script with this path runs, or else the front controller.
    fn of(method: &str, path: &str, query: &str, form: Form<'_>) -> Class {
        let end = path.find(".php").map_or(0, |at| at + 4);
        let script = if end > 0 { &path[..end] } else { "/index.php" };
        let (script, path, query) = (script.as_bytes(), path.as_bytes(), query.as_bytes());
        Class::of(&Target { method, scripts: [script, script], path, query, form })
    }

    #[test]
    fn classes() {
        for (target, expected) in [
            ("/?s=shoes", Class::Search),
            ("/search/shoes/", Class::Search),
            ("/search", Class::Search),
            ("/research/", Class::Php),
            ("/searching", Class::Php),
            ("/shop/?filter_color=red", Class::Filter),
            ("/shop/?page=2&query_type_color=or", Class::Filter),
            ("/shop/?min_price=1&max_price=2", Class::Filter),
            ("/shop/?orderby=price", Class::Filter),
            ("/shop/?rating_filter[]=5", Class::Filter),
            ("/shop/?orderby=price&add-to-cart=7", Class::Cart),
            ("/?s=a&author=1", Class::Users),
            ("/?add-to-cart=7", Class::Cart),
            ("/?wc-ajax=add_to_cart", Class::Cart),
            ("/?wc-ajax=get_refreshed_fragments", Class::Php),
            ("/?author=1", Class::Users),
            ("/?author=", Class::Php),
            ("/?author", Class::Php),
            ("/?author=ann", Class::Php),
            ("/blog/wp-json/wp/v2/users/1", Class::Users),
            ("/wp-json/wp/v2/usersearch", Class::Php),
            ("/?rest_route=/wp/v2/users", Class::Users),
            ("/xmlrpc.php", Class::Xmlrpc),
            ("/blog/xmlrpc.php", Class::Xmlrpc),
            ("/wp-login.php", Class::Php),
            ("/?utm_source=s&style=1", Class::Php),
            ("/", Class::Php),
            ("/checkout/", Class::Php),
        ] {
            assert_eq!(class("GET", target), expected, "{target}");
        }
        assert_eq!(class("POST", "/wp-login.php?action=x"), Class::Login);
        assert_eq!(class("post", "/wp-login.php/x"), Class::Login, "PHP reads its form");
        assert_eq!(class("GET", "/wp-login.php?pwd=x"), Class::Php);
    }

    #[test]
    fn spellings_of_arguments_that_php_reads_alike() {
        for (target, expected) in [
            ("/?%73=shoes", Class::Search),
            ("/?+s=shoes", Class::Search),
            ("/?s%00x=shoes", Class::Search),
            ("/?min.price=1", Class::Filter),
            ("/?filter%5Bcolor=1", Class::Filter),
            ("/?author=%31", Class::Users),
            ("/?author[]=1", Class::Users),
            ("/?a%75thor=+1", Class::Users),
            ("/?rest_route=%2Fwp%2Fv2%2Fusers", Class::Users),
            ("/?rest.route=/WP/v2/Users%0a", Class::Users),
            ("/?rest_route=/wp/v2/users/1&rest_route=/", Class::Users),
            ("/wp-json/WP/V2/users/", Class::Users),
            ("/index.php/wp-json/wp/v2/users", Class::Users),
            ("/?wc%2Dajax=add%5fto_cart", Class::Cart),
            ("/wp-admin/admin-ajax.php?action=woocommerce_add_to_cart", Class::Cart),
            ("/wp-json/wc/store/v1/cart/add-item", Class::Cart),
            ("/?rest_route=/wc/store/v1/batch", Class::Cart),
            ("/wp-json/wc/store/v1/products", Class::Php),
            ("/?%2573=shoes", Class::Php),
            ("/?s%3d=shoes", Class::Php),
            ("/?S=shoes", Class::Php),
            ("/?rest_route=/wp/v2/users-of", Class::Php),
        ] {
            assert_eq!(class("GET", target), expected, "{target}");
        }
    }

    #[test]
    fn forms_with_a_password_are_attempts_to_log_in() {
        let encoded = |form: &'static str| Form::Encoded(form.as_bytes());
        let parts = b"--x\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nx\r\n--x--";
        for (path, form, expected) in [
            // WooCommerce's own form, wherever a theme shows it.
            (
                "/my-account/",
                encoded("username=a&password=b&woocommerce-login-nonce=c&login=Log+in"),
                Class::Login,
            ),
            ("/", encoded("login=1&username=a&p%61ssword=b"), Class::Login),
            ("/my-account/", Form::Parts(parts), Class::Login),
            ("/wp-admin/admin-ajax.php", encoded("action=ajaxlogin&user[pwd]=b&pwd=x"), Class::Login),
            (
                "/wp-json/jwt-auth/v1/token",
                Form::Json(br#"{"username":"a","pass\u0077ord":"b"}"#),
                Class::Login,
            ),
            ("/user/login", encoded("name=a&pass=b&form_id=user_login_form"), Class::Login),
            ("/administrator/index.php", encoded("username=a&passwd=b&option=com_login"), Class::Login),
            ("/index.php", encoded("pma_username=a&pma_password=b"), Class::Login),
            ("/my-account/", Form::Unread, Class::Login),
            // No guesses.
            ("/checkout/", encoded("billing_email=a&createaccount=1&account_password=b"), Class::Php),
            ("/wp-comments-post.php", encoded("author=Ann+2&email=a&comment=s&s=1"), Class::Php),
            ("/contact/", encoded("compass=n&message=my+password"), Class::Php),
            ("/wp-json/x", Form::Json(br#"{"text":"the password"}"#), Class::Php),
            ("/product/a/", encoded("quantity=1&add-to-cart=7"), Class::Cart),
            ("/product/a/", encoded("quantity=1&add%2Dto-cart=7"), Class::Cart),
            ("/", encoded("rest_route=/wp/v2/users&_method=GET"), Class::Users),
            ("/", encoded("s=shoes"), Class::Search),
            ("/wp-admin/admin-ajax.php", encoded("action=woocommerce_add_to_cart&product_id=7"), Class::Cart),
        ] {
            assert_eq!(of("POST", path, "", form), expected, "{path} {form:?}");
            assert_eq!(of("GET", path, "", form), class("GET", path), "{path}: only POST has a form");
        }
    }

    #[test]
    fn any_bytes_have_a_class() {
        for query in [&b"&&="[..], b"=", b"[]", b"%", b"author=\xff", b"s", b"rest_route"] {
            for form in [Form::Encoded(query), Form::Parts(query), Form::Json(query)] {
                let _ = Class::of(&Target { method: "POST", scripts: [b"", b""], path: b"", query, form });
            }
        }
        for class in Class::ALL {
            assert_eq!(Class::ALL[class as usize], class);
        }
    }

    #[test]
    fn probes_count_more() {
        assert_eq!([&b"/.env"[..], b"/a/.env", b"/env", b"/", b""].map(weight), [10, 10, 1, 1, 1]);
    }
}
