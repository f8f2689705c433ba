//! Decisions and reasons of the page cache in plain words.

use millrace_pages::PeekEntry;

use crate::cache::{Decision, Preview};
use crate::serve::explain::ChosenRules;

/// What the next such request gets.
pub struct Prediction {
    /// In a word. Stable.
    pub word: &'static str,
    /// In a sentence.
    pub text: String,
    /// Why; empty if that goes without saying.
    pub why: String,
}

/// What the next such request gets, and why.
pub fn prediction(preview: &Preview) -> Prediction {
    if let Decision::Bypass { .. } = preview.decision {
        let text = "PHP makes the page for this request alone: it bypasses the cache".to_owned();
        return Prediction { word: "bypass", text, why: String::new() };
    }
    let visitor = match preview.decision {
        Decision::LookupAsAnonymous => {
            "PHP has found that the cookies mean nothing: the visitor counts as anonymous"
        }
        Decision::LookupAs(why) => why,
        _ => "",
    };
    let (word, text, why) = by_store(preview);
    let why = if visitor.is_empty() {
        why.to_owned()
    } else {
        [visitor, why].join("; ").trim_end_matches("; ").to_owned()
    };
    Prediction { word, text: text.to_owned(), why }
}

/// What follows from what is stored: a word, a sentence, and why.
fn by_store(preview: &Preview) -> (&'static str, &'static str, &'static str) {
    match &preview.peek.entry {
        PeekEntry::Page(found) => match found.grace {
            None => ("hit", "the page from the cache, without PHP", ""),
            Some(grace) if grace.purged => (
                "stale",
                "a new page, which PHP makes once for all that wait",
                "the stored one was purged softly",
            ),
            Some(grace) if grace.while_revalidating => {
                ("stale", "the stale page at once, while PHP makes a new one", "its lifetime is over")
            }
            Some(_) => {
                ("stale", "a new page, which PHP makes once for all that wait", "the stored one is stale")
            }
        },
        PeekEntry::Uncacheable(_) => {
            let why = preview.history.responses.iter().find(|response| !response.is_stored());
            let why = why.map_or("", |response| refusal(response.outcome));
            ("uncacheable", "a page that PHP makes for this request alone", why)
        }
        PeekEntry::Nothing if preview.peek.is_filling => {
            ("filling", "the page that PHP is making now, for all that wait", "")
        }
        PeekEntry::Nothing => {
            let refused = preview.history.responses.first().filter(|response| !response.is_stored());
            let why = refused.map_or("nothing is stored", |response| refusal(response.outcome));
            (
                "miss",
                "a page that PHP makes once for all that wait; it is stored unless its response forbids that",
                why,
            )
        }
    }
}

/// Why a request bypasses the cache.
pub fn bypass(word: &str, name: &str, pattern: &str, chosen: &ChosenRules) -> String {
    let rule = |list: &[String], setting: &str| match list.iter().any(|one| one == pattern) {
        true => format!("the setting {setting} names {pattern}"),
        false => format!("the site's profile names {pattern}"),
    };
    match word {
        "cookie" => {
            let rule = rule(&chosen.cookies, "cache.bypass_cookies");
            format!("the cookie {} may identify a visitor: {rule}", name.escape_debug())
        }
        "path" => format!("of its path: {}", rule(&chosen.paths, "cache.bypass_paths")),
        "argument" => {
            format!("of an argument of its query: {}", rule(&chosen.arguments, "cache.bypass_arguments"))
        }
        "field" => format!("the header field {name} may change the page, and is not part of the key"),
        "method" => "only GET and HEAD are served from the cache".to_owned(),
        "content" => "a GET with content may ask for anything".to_owned(),
        "host" => "the host is not one of the site's names, or not written as browsers write it".to_owned(),
        "authorization" => "the request has a field Authorization".to_owned(),
        "unknown-cookie" => format!(
            "the cache doesn't know what the cookie {} means, and the page's script looks for it, or may \
             (docs/sharing.md)",
            name.escape_debug()
        ),
        "country" => {
            "the prices on the page depend on the visitor's country, which is not known for this address"
                .to_owned()
        }
        "auth" => {
            "a password or a script has let the visitor in: the response is for this visitor alone".to_owned()
        }
        "htaccess" => "the site's .htaccess says so".to_owned(),
        "rule" => "a [[site.rule]] says so".to_owned(),
        "client-certificate" => "the visitor has shown a certificate".to_owned(),
        "key-too-long" => "its URL and cookies are too long for a key".to_owned(),
        member if member.starts_with("member-") => {
            format!("the visitor is logged in: {} ({member})", member_in_words(member))
        }
        cart => format!("the visitor has a cart: {} ({cart})", cart_in_words(cart)),
    }
}

fn member_in_words(word: &str) -> &'static str {
    match word {
        "member-unproven" => "too few pages of this kind, or this page for too few members, were compared",
        "member-differs" => "pages of this kind differ between members with the same rights",
        "member-page" => "no fresh page for these rights is in the cache; PHP may call it personal",
        "member-changing" => "a request may be changing the user",
        "member-changed" => "the user or the roles have changed",
        "member-expired" => "PHP has not looked at the user for a while",
        "member-bar" => "WordPress shows the admin bar",
        "member-rights" => "the user may edit something, or has written posts",
        "member-name" => {
            "the user's name has other characters than letters, digits, spaces, dots and hyphens"
        }
        "member-cookie" => "another cookie identifies the visitor, too",
        "member-range" => "the request asks for a part of the page",
        _ => "PHP has said nothing about the user lately",
    }
}

fn cart_in_words(word: &str) -> &'static str {
    match word {
        "cart-unproven" => {
            "too few pages of this kind were compared with and without a cart, or a difference on this page is being looked into"
        }
        "cart-reads" => "the page's script reads the cart, or the PHP worker can't tell",
        "cart-differs" => "this page, or its kind, differs with a cart",
        "cart-page" => "no fresh public page is in the cache",
        "cart-changing" => "a request may be changing the cart",
        "cart-changed" => "the cookies are from before the last change, or a product has changed",
        "cart-expired" => "PHP has not looked at the cart for a while",
        "cart-notice" => "a notice waits in the session",
        "cart-customer" => "country, taxes, currency or language are not everybody's",
        "cart-session" => "there is something else in the session",
        "cart-cookie" => "another cookie identifies the visitor, too",
        "cart-range" => "the request asks for a part of the page",
        _ => "PHP has said nothing about it lately",
    }
}

/// Why a response is not stored; empty for an unknown word.
pub fn refusal(word: &str) -> &'static str {
    match word {
        "set-cookie" => "the response sets a cookie",
        "private" => "the response is for one visitor only",
        "no-store" => "the response forbids storing",
        "no-cache" => "the response must be confirmed each time, and has nothing to confirm it by",
        "vary" => "the response varies by a field that is not allowed (cache.vary_fields)",
        "expired" => "the response has expired on arrival",
        "no-lifetime" => "nothing says how long the response is valid",
        "too-large" => "the response is too large",
        "too-many-tags" => "the response has too many tags",
        "too-many-variants" => "the page has too many variants (cache.variants)",
        "status" => "a response with this status is not stored",
        "authorization" => "the request was authorized, and the response does not say that it is public",
        "arguments" => "only ordinary pages are stored if the query differs from the key's",
        "failed" => "PHP failed, or the response is incomplete",
        "client" => "the client asked not to store it",
        "handed-over" => "the script handed over a file",
        "token" => "the response names a cart for its client (Cart-Token)",
        "country" => "the prices on the page depend on the visitor's country, which is not known",
        "cookie" => {
            "the script has looked for a cookie of its visitor that the cache doesn't know (docs/sharing.md)"
        }
        "fields" => {
            "the script reads of the request what only this client sends, or all fields (docs/sharing.md)"
        }
        "purged" => "the page was purged while PHP was making it",
        "superseded" => "a newer page came first",
        _ => "",
    }
}

/// An extra part of a key with its name.
pub fn part_of_key(part: &str) -> (String, String) {
    let Some(kind) = part.chars().next() else { return (String::new(), String::new()) };
    let value = &part[kind.len_utf8()..];
    let name = match kind {
        'p' => "path as sent",
        'c' => "cookie",
        'a' => "accepts",
        't' => "type of content",
        'd' => "device",
        'm' => "role",
        's' => {
            return (
                "scheme behind a proxy".to_owned(),
                if value.is_empty() { "http" } else { "https" }.to_owned(),
            );
        }
        _ => "other",
    };
    (name.to_owned(), value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_pages::{Bypass, Refusal};

    #[test]
    fn every_reason_has_its_words() {
        let chosen = ChosenRules { cookies: vec!["member_*".to_owned()], ..ChosenRules::default() };
        for word in Bypass::WORDS.iter().filter(|word| !matches!(**word, "off" | "cart" | "member")) {
            let text = bypass(word, "x", "y", &chosen);
            assert!(!text.contains("cart"), "{word}: {text}");
        }
        assert!(
            bypass("cookie", "member_1", "member_*", &chosen).contains("the setting cache.bypass_cookies")
        );
        assert!(bypass("cookie", "a", "a*", &chosen).contains("the site's profile names a*"));
        use Refusal::*;
        for why in [
            Failed,
            Status,
            NoStore,
            Private,
            NoCache,
            SetCookie,
            Authorization,
            Vary,
            Expired,
            NoLifetime,
            TooLarge,
            TooManyTags,
            Client,
            Arguments,
            HandedOver,
            Token,
            Country,
            Cookie,
        ] {
            assert!(!refusal(why.word()).is_empty(), "{why:?}");
        }
        assert_eq!(part_of_key("c_lscache_vary=5"), ("cookie".to_owned(), "_lscache_vary=5".to_owned()));
        assert_eq!(part_of_key("atext/csv"), ("accepts".to_owned(), "text/csv".to_owned()));
    }
}
