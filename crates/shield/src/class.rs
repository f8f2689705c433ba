//! Which limit a request falls under, by its method, path and query.

use memchr::memmem;

/// A class of requests with a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Attempts to log in: POST to `wp-login.php`.
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
        let Target { method, path, query, form } = *target;
        let is_post = method == "POST";
        if path.ends_with(b"/wp-login.php") {
            return if is_post { Class::Login } else { Class::Php };
        }
        if path.ends_with(b"/xmlrpc.php") {
            return Class::Xmlrpc;
        }
        if has_segments(path, b"/wp-json/wp/v2/users") {
            return Class::Users;
        }
        if is_post && memmem::find(form, b"add-to-cart").is_some() {
            return Class::Cart;
        }
        let arguments = query.split(|byte| *byte == b'&');
        let by_query = arguments.filter_map(of_argument).min_by_key(|class| *class as u8);
        match by_query {
            Some(class) => class,
            None if has_segments(path, b"/search") => Class::Search,
            None => Class::Php,
        }
    }
}

/// What of a request tells its class.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its path.
    pub path: &'a [u8],
    /// Its query; empty if there is none.
    pub query: &'a [u8],
    /// Its content, if that is a form in memory.
    pub form: &'a [u8],
}

/// The class of a request with this argument. WooCommerce's names are those of `WC_Query` and its layered navigation
/// (`filter_ATTRIBUTE`, `query_type_ATTRIBUTE`).
fn of_argument(argument: &[u8]) -> Option<Class> {
    let end = argument.iter().position(|byte| matches!(byte, b'=' | b'[' | b'%')).unwrap_or(argument.len());
    let (name, value) = argument.split_at(end);
    match name {
        b"s" => Some(Class::Search),
        b"add-to-cart" => Some(Class::Cart),
        b"wc-ajax" if value == b"=add_to_cart" => Some(Class::Cart),
        b"min_price" | b"max_price" | b"orderby" | b"rating_filter" => Some(Class::Filter),
        b"author" if value[1.min(value.len())..].first().is_some_and(u8::is_ascii_digit) => {
            Some(Class::Users)
        }
        b"rest_route" if value.starts_with(b"=/wp/v2/users") => Some(Class::Users),
        _ if name.starts_with(b"filter_") || name.starts_with(b"query_type_") => Some(Class::Filter),
        _ => None,
    }
}

/// Whether a path has these segments, whole.
fn has_segments(path: &[u8], segments: &[u8]) -> bool {
    memmem::find_iter(path, segments).any(|at| matches!(path.get(at + segments.len()), None | Some(b'/')))
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
        Class::of(&Target { method, path: path.as_bytes(), query: query.as_bytes(), form: b"" })
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
            ("/shop/?orderby=price&add-to-cart=7", Class::Filter),
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
        let form =
            Target { method: "POST", path: b"/product/a/", query: b"", form: b"quantity=1&add-to-cart=7" };
        assert_eq!(Class::of(&form), Class::Cart);
    }

    #[test]
    fn any_bytes_have_a_class() {
        for query in [&b"&&="[..], b"=", b"[]", b"%", b"author=\xff", b"s", b"rest_route"] {
            let _ = Class::of(&Target { method: "", path: b"", query, form: b"" });
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
