//! WordPress's own installation: Millrace serves the folder on a private socket, and this module fills in the forms
//! like a person.
//!
//! ```text
//! GET  wp-admin/install.php?step=1       the form is there: PHP, its extensions and the database work
//! POST wp-admin/install.php?step=2       tables, first user, first post
//! POST wp-login.php                      the user can log in
//! POST wp-admin/options-permalink.php    /%postname%/
//! GET  /wp-json/                         a permalink answers
//! ```

mod served;

use super::address::SiteAddress;
use super::database::Database;
use crate::args::WordPressArgs;
use crate::failure::{Explain, Failure};
use crate::http::{HttpRequest, exchange, form};
use millrace_wire::response::{self, Response};
use served::Served;
use std::path::Path;
use std::time::Duration;

/// Maximum time for one page: the installation sends an e-mail, and waits for a mail server that doesn't respond.
const PATIENCE: Duration = Duration::from_secs(120);

/// The site's title and its first user.
pub struct FirstUser {
    title: String,
    name: String,
    password: String,
    email: String,
}

impl FirstUser {
    /// Checks the entries for the form.
    ///
    /// # Errors
    /// When WordPress would reject them.
    pub fn new(args: &WordPressArgs, address: &SiteAddress, password: &str) -> Result<FirstUser, Failure> {
        let name_ok = |c: char| c.is_ascii_alphanumeric() || " _-.@".contains(c);
        if args.admin.trim() != args.admin
            || !(1..=60).contains(&args.admin.len())
            || !args.admin.chars().all(name_ok)
        {
            return Err(Failure::new(format!("--admin {}: WordPress rejects this user name", args.admin))
                .next("use 1 to 60 letters, digits, spaces, or any of _ - . @"));
        }
        if args.title.trim().is_empty() {
            return Err(Failure::new("--title is empty").next("give the site a title, or omit --title"));
        }
        let email = match &args.email {
            Some(email) => check_email(email)?.to_owned(),
            None => no_mail(address),
        };
        Ok(FirstUser {
            title: args.title.clone(),
            name: args.admin.clone(),
            password: password.to_owned(),
            email,
        })
    }
}

fn check_email(email: &str) -> Result<&str, Failure> {
    let good = email.split_once('@').is_some_and(|(local, domain)| {
        !local.is_empty()
            && email.is_ascii()
            && !email.contains(|c: char| c.is_whitespace() || c.is_control())
            && domain.split('.').count() >= 2
            && domain
                .split('.')
                .all(|l| !l.is_empty() && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
    });
    let refuse = || {
        Failure::new(format!("--email {email}: not an e-mail address"))
            .next("example: --email me@example.com")
    };
    good.then_some(email).ok_or_else(refuse)
}

/// An address at the site's own name, or one that can't exist (RFC 2606) where it has none.
fn no_mail(address: &SiteAddress) -> String {
    let host = address.host();
    let named = host.contains('.') && host.bytes().any(|b| b.is_ascii_alphabetic()) && !host.contains(':');
    format!("admin@{}", if named { host } else { "example.invalid" })
}

/// Installs the WordPress in `site`.
///
/// # Errors
/// When the server doesn't start, or with WordPress's message.
pub fn run(site: &Path, address: &SiteAddress, database: &Database, user: &FirstUser) -> Result<(), Failure> {
    let served = Served::start(site, address)?;
    let mut visitor = Visitor { served: &served, address, cookies: Vec::new(), began: false };
    let result =
        visitor.install(user).and_then(|()| visitor.log_in(user)).and_then(|()| visitor.set_permalinks());
    let began = visitor.began;
    let log = served.stop();
    result.map_err(|mut failure| {
        if !log.is_empty() {
            failure = failure.detail(format!("the server said:\n{log}"));
        }
        if began && matches!(database, Database::Mysql(_)) {
            failure =
                failure.detail("WordPress may have created tables in the database; they are still there");
        }
        failure
    })
}

/// A visitor with a browser that stores cookies.
struct Visitor<'a> {
    served: &'a Served,
    address: &'a SiteAddress,
    cookies: Vec<(String, String)>,
    /// The installation's form was sent.
    began: bool,
}

impl Visitor<'_> {
    fn install(&mut self, user: &FirstUser) -> Result<(), Failure> {
        let page = self.get("/wp-admin/install.php?step=1")?;
        if page.status != 200 || !page.text().contains("name=\"weblog_title\"") {
            return Err(cannot_install(&page));
        }
        self.began = true;
        let page = self.post(
            "/wp-admin/install.php?step=2",
            &[
                ("weblog_title", &user.title),
                ("user_name", &user.name),
                ("admin_password", &user.password),
                ("admin_password2", &user.password),
                // The browser asks to confirm a password that it finds weak.
                ("pw_weak", "on"),
                ("admin_email", &user.email),
                ("Submit", "Install WordPress"),
                ("language", ""),
            ],
        )?;
        if page.status != 200 || !page.text().contains("install-success") {
            return Err(cannot_install(&page));
        }
        Ok(())
    }

    fn log_in(&mut self, user: &FirstUser) -> Result<(), Failure> {
        let page = self.post(
            "/wp-login.php",
            &[("log", &user.name), ("pwd", &user.password), ("wp-submit", "Log In")],
        )?;
        if page.status == 302 && self.cookies.iter().any(|(name, _)| name.starts_with("wordpress_logged_in_"))
        {
            return Ok(());
        }
        Err(unexpected("cannot log in as the new user", &page))
    }

    fn set_permalinks(&mut self) -> Result<(), Failure> {
        const PAGE: &str = "/wp-admin/options-permalink.php";
        let page = self.get(PAGE)?;
        let nonce =
            nonce(&page.text()).ok_or_else(|| unexpected("cannot open the permalink settings", &page))?;
        let answer = self.post(
            PAGE,
            &[
                ("_wpnonce", &nonce),
                ("_wp_http_referer", PAGE),
                ("selection", "custom"),
                ("permalink_structure", "/%postname%/"),
                ("category_base", ""),
                ("tag_base", ""),
                ("submit", "Save Changes"),
            ],
        )?;
        let check = self.get("/wp-json/")?;
        if check.status != 200
            || !check.field("Content-Type").is_some_and(|kind| kind.starts_with("application/json"))
        {
            return Err(unexpected("cannot set the permalinks", &answer));
        }
        Ok(())
    }

    fn get(&mut self, target: &str) -> Result<Response, Failure> {
        self.ask("GET", target, &[])
    }

    fn post(&mut self, target: &str, pairs: &[(&str, &str)]) -> Result<Response, Failure> {
        self.ask("POST", target, &form(pairs))
    }

    fn ask(&mut self, method: &str, target: &str, body: &[u8]) -> Result<Response, Failure> {
        let mut fields = vec![("User-Agent", "Millrace".to_owned())];
        if self.address.is_https() {
            fields.push(("X-Forwarded-Proto", "https".into()));
        }
        if !self.cookies.is_empty() {
            let pairs: Vec<String> =
                self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            fields.push(("Cookie", pairs.join("; ")));
        }
        if method == "POST" {
            fields.push(("Content-Type", "application/x-www-form-urlencoded".into()));
        }
        let ask = HttpRequest { method, target, fields: &fields, body };
        let answer = exchange(self.served.address(), self.address.authority(), &ask, PATIENCE)
            .or_fail(|| format!("no response to {method} {target}"))?;
        self.take_cookies(&answer);
        Ok(answer)
    }

    fn take_cookies(&mut self, answer: &Response) {
        for value in response::values(&answer.head, "Set-Cookie") {
            let value = String::from_utf8_lossy(value);
            let pair = value.split(';').next().unwrap_or_default();
            if let Some((name, value)) = pair.split_once('=') {
                self.cookies.retain(|(known, _)| known != name);
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
    }
}

/// The hidden field that WordPress puts in its forms.
fn nonce(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("name=\"_wpnonce\" value=\"")?;
    rest.split_once('"').map(|(value, _)| value.to_owned())
}

fn cannot_install(page: &Response) -> Failure {
    let failure = unexpected("cannot install WordPress", page);
    let text = page.text();
    if text.contains("already installed") {
        return failure.next(
            "the database already contains a WordPress: use another database, or another --table-prefix",
        );
    }
    if text.contains("mysqli") || text.contains("MySQL extension") {
        return failure.next("install PHP's MySQL extension (Debian: apt-get install php-mysql)");
    }
    if text.contains("PDO") {
        return failure.next("install PHP's SQLite extension (Debian: apt-get install php-sqlite3)");
    }
    if text.contains("database connection") || text.contains("select database") {
        return failure.next("check the user, password and database name of --db; the database must exist");
    }
    failure
}

/// The failure, with WordPress's message.
fn unexpected(what: &str, page: &Response) -> Failure {
    let words = words(&page.text());
    let said = if words.is_empty() { format!("empty response with status {}", page.status) } else { words };
    Failure::new(format!("{what}: {said}"))
}

/// The text of a page without head, scripts and tags; its beginning.
fn words(page: &str) -> String {
    let mut body = page.find("<body").map_or(page, |at| &page[at..]).to_owned();
    for element in ["script", "style"] {
        while let Some(start) = body.find(&format!("<{element}")) {
            let close = format!("</{element}>");
            let end = body[start..].find(&close).map_or(body.len(), |at| start + at + close.len());
            body.replace_range(start..end, " ");
        }
    }
    let mut text = String::new();
    let mut rest = body.as_str();
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        text.push(' ');
        rest = tag.split_once('>').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let text =
        text.replace("&#8217;", "'").replace("&nbsp;", " ").replace("&rsaquo;", ">").replace("&amp;", "&");
    let mut short: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = short.char_indices().nth(500) {
        short.truncate(at);
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(status: u16, body: &str) -> Response {
        Response { status, head: Vec::new(), content: body.as_bytes().to_vec() }
    }

    #[test]
    fn what_wordpress_says_is_passed_on_in_words() {
        let html = "<html><head><title>t</title></head><body class='x'><script>if (a<b) {}</script>\
                    <h1>Error establishing a database connection</h1>\n<p>This&nbsp;means&#8230;</p></body></html>";
        let failure = cannot_install(&page(500, html)).to_string();
        assert!(failure.contains(": Error establishing a database connection This means"), "{failure}");
        assert!(failure.contains("next: check the user, password"), "{failure}");
        assert!(!failure.contains('<'), "{failure}");
        assert!(cannot_install(&page(502, "")).to_string().contains("empty response with status 502"));
        assert!(words(&"long ".repeat(1000)).len() < 520);
    }

    #[test]
    fn the_nonce_of_a_form() {
        let html = r#"<input type="hidden" id="_wpnonce" name="_wpnonce" value="e10f4" /><input name="x">"#;
        assert_eq!(nonce(html).as_deref(), Some("e10f4"));
        assert_eq!(nonce("<form>"), None);
    }

    #[test]
    fn mail_goes_to_the_site_or_nowhere() {
        let to = |url| no_mail(&SiteAddress::parse(url).expect("a good address"));
        assert_eq!(to(Some("https://example.com")), "admin@example.com");
        assert_eq!(to(None), "admin@example.invalid");
        assert_eq!(to(Some("http://localhost")), "admin@example.invalid");
        assert_eq!(to(Some("http://[::1]:80")), "admin@example.invalid");
    }

    #[test]
    fn mail_addresses() {
        assert!(check_email("me@example.com").is_ok());
        for bad in
            ["", "me", "@example.com", "me@host", "me@ex ample.com", "me@example..com", "a\r\nb@example.com"]
        {
            assert!(check_email(bad).is_err(), "{bad} was taken");
        }
    }
}
