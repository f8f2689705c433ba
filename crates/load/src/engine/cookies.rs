//! Cookies of a user (RFC 6265), as far as one site needs them: name, value, path, and whether they are taken back.

use std::time::SystemTime;

/// Cookies that a site may set for a user.
const MOST: usize = 100;

/// A user's cookies.
#[derive(Clone, Debug, Default)]
pub struct Jar(Vec<Cookie>);

#[derive(Clone, Debug)]
struct Cookie {
    name: String,
    value: String,
    path: String,
    secure: bool,
}

impl Jar {
    /// Takes a `Set-Cookie` of the response to a request for `target`.
    pub fn take(&mut self, field: &str, target: &str) {
        let mut parts = field.split(';').map(str::trim);
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { return };
        let path = target.split(['?', '#']).next().unwrap_or("/");
        let folder = path.rfind('/').filter(|at| *at > 0).map_or("/", |at| &path[..at]);
        let mut cookie = Cookie {
            name: name.trim().to_owned(),
            value: value.trim().to_owned(),
            path: folder.to_owned(),
            secure: false,
        };
        let (mut by_age, mut by_date) = (None, false);
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match key.trim().to_ascii_lowercase().as_str() {
                "path" if value.starts_with('/') => value.trim().clone_into(&mut cookie.path),
                "secure" => cookie.secure = true,
                "max-age" => by_age = value.trim().parse::<i64>().ok().map(|seconds| seconds <= 0),
                "expires" => {
                    let date = httpdate::parse_http_date(&value.trim().replace('-', " "));
                    by_date = date.is_ok_and(|date| date <= SystemTime::now());
                }
                _ => {}
            }
        }
        self.0.retain(|known| known.name != cookie.name || known.path != cookie.path);
        if !by_age.unwrap_or(by_date) && self.0.len() < MOST {
            self.0.push(cookie);
        }
    }

    /// The value of `Cookie` for a request; empty: none.
    pub fn field(&self, target: &str, tls: bool) -> String {
        let path = target.split('?').next().unwrap_or("/");
        let mut fitting: Vec<&Cookie> =
            self.0.iter().filter(|cookie| (tls || !cookie.secure) && is_within(path, &cookie.path)).collect();
        fitting.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<_> =
            fitting.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        pairs.join("; ")
    }

    /// The value of the cookie of this name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|cookie| cookie.name == name).map(|cookie| cookie.value.as_str())
    }
}

fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || folder.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_go_where_their_path_says() {
        let mut jar = Jar::default();
        jar.take("a=1; Path=/; HttpOnly", "/shop/cart?x");
        jar.take("b=2", "/shop/cart?x");
        jar.take("s=3; path=/; Secure", "/");
        assert_eq!(jar.field("/shop/pay", false), "b=2; a=1");
        assert_eq!(jar.field("/shopping", false), "a=1");
        assert_eq!(jar.field("/", true), "a=1; s=3");
        assert_eq!(jar.value("b"), Some("2"));
    }

    #[test]
    fn cookies_are_replaced_and_taken_back() {
        let mut jar = Jar::default();
        jar.take("a=1; path=/", "/");
        jar.take("a=2; path=/", "/");
        assert_eq!(jar.field("/", false), "a=2");
        jar.take("a=; path=/; expires=Thu, 01-Jan-1970 00:00:01 GMT", "/");
        assert_eq!(jar.field("/", false), "");
        jar.take("a=3; path=/; Expires=Thu, 01 Jan 1970 00:00:01 GMT; Max-Age=60", "/");
        assert_eq!(jar.field("/", false), "a=3");
        jar.take("a=3; path=/; Max-Age=0", "/");
        assert_eq!(jar.field("/", false), "");
    }
}
