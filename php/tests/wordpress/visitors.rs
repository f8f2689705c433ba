//! Who asks: what is said of a visitor by the cookies that come, real ones and made-up ones.

use millrace_wire::frames::NoteKind;

use crate::driver::{Answer, Ask};
use crate::site::Site;

/// What was said of the visitor, but for the digest of the keys and the worker's own word.
fn said(answer: &Answer) -> Vec<String> {
    let notes =
        answer.notes.iter().filter(|(kind, text)| *kind == NoteKind::Visitor && !text.starts_with("end"));
    let words = notes.map(|(_, text)| text.split(' ').filter(|part| !part.starts_with("site=")));
    words.map(|words| words.collect::<Vec<_>>().join(" ")).collect()
}

fn ask(site: &mut Site, script: &str, uri: &str, cookie: &str) -> Vec<String> {
    let script = site.root.join(script);
    let ask: Ask = site.ask(&script, uri).set("HTTP_COOKIE", cookie);
    said(&site.worker.run(&ask))
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn a_log_in_is_known_wherever_it_comes() {
    let mut site = Site::start("");
    let cookie = site.cookie(1);
    let (logged_in, auth) = cookie.split_once("; ").unwrap();
    let name = |cookie: &str| cookie.split('=').next().unwrap().to_owned();
    let known = |cookie: &str| vec![format!("login by={} user=1 rights=edit profile", name(cookie))];
    for (script, uri) in [
        ("index.php", "/"),
        ("index.php", "/index.php?rest_route=/wp/v2/posts"),
        ("wp-admin/profile.php", "/wp-admin/profile.php"),
    ] {
        assert_eq!(ask(&mut site, script, uri, &cookie), known(logged_in), "{uri}");
    }
    let again = ask(&mut site, "wp-login.php", "/wp-login.php", &cookie).pop().unwrap();
    let issued = format!("login by={} issued=admin%7C", name(logged_in));
    assert!(again.starts_with(&issued) && again.ends_with(" user=1 rights=edit profile"), "{again}");
    // The page of the site's front knows nobody by that one; it is genuine all the same.
    assert_eq!(ask(&mut site, "index.php", "/", auth), known(auth));
    let torn = logged_in.replace(char::is_numeric, "1");
    for cookie in ["wordpress_logged_in_x=1", &torn, "wordpress_logged_in_x[]=1"] {
        assert_eq!(ask(&mut site, "index.php", "/", cookie), ["none profile"], "{cookie}");
    }
    assert_eq!(said(&site.worker.run(&site.ask_page("/"))), [""; 0], "without cookies nothing is said");
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn what_ends_a_log_in_is_told() {
    let mut site = Site::start("");
    let mut cookie = String::new();
    for (code, told) in [
        ("WP_Session_Tokens::get_instance(1)->destroy_all();", "forget user=1"),
        ("WP_Session_Tokens::destroy_all_for_all_users();", "forget user=*"),
        ("wp_set_password('other', 1);", "forget user=1"),
        ("wp_update_user(['ID' => 1, 'user_pass' => 'another']);", "forget user=1"),
    ] {
        cookie = site.cookie(1);
        let script = format!("<?php require '{}/wp-load.php'; {code}", site.root.display());
        let script = site.host.script(&format!("end{}.php", code.len()), &script);
        let ask = site.ask(&script, "/end").set("REQUEST_METHOD", "POST");
        let said = said(&site.worker.run(&ask));
        assert!(said.contains(&told.to_owned()), "{code}: {said:?}");
    }
    assert_eq!(ask(&mut site, "index.php", "/", &cookie), ["none profile"]);
}

/// The author of a comment sees it while it waits, whatever its type is, and whatever a plugin takes out of lists of comments.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn who_has_written_something_sees_it() {
    let mut site = Site::start(
        "add_filter('comments_clauses', function ($clauses) {
            $clauses['where'] .= \" AND comment_type NOT IN ('review', 'note')\"; return $clauses;
        });
        add_filter('comments_pre_query', fn ($found, $query) => $query->query_vars['count'] ? 0 : $found, 10, 2);",
    );
    let end = site.value("COOKIEHASH");
    for (at, kind) in ["comment", "review", "note", "pingback", "an_own_type"].into_iter().enumerate() {
        for state in ["0", "1", "held"] {
            let mail = format!("author-{at}-{state}@a.test");
            let commenter = format!("comment_author_email_{end}={mail}");
            assert_eq!(ask(&mut site, "index.php", "/", &commenter), ["none profile"], "{mail}");
            site.anonymous(&format!(
                "wp_insert_comment(['comment_post_ID' => 1, 'comment_type' => '{kind}', 'comment_approved' => '{state}',
                    'comment_author_email' => '{mail}', 'comment_content' => 'x']);"
            ));
            assert_eq!(ask(&mut site, "index.php", "/", &commenter), ["own profile"], "{kind} {state}");
        }
    }
}

/// WordPress itself looks for no other cookies than its own, of which the hooks say what they mean (three more by $_REQUEST, unless
/// request_order is GP); so a page is for all who have others.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn a_page_depends_on_the_cookies_that_its_plugins_look_for() {
    let looked = |site: &mut Site, uri: &str| {
        let answer = site.worker.run(&site.ask_page(uri).set("MILLRACE_COOKIES", "theme=dark; cur=USD"));
        let note = answer.notes.iter().find(|(kind, _)| *kind == NoteKind::Cookies);
        (note.map(|(_, text)| text.clone()).unwrap_or_default(), answer.text())
    };
    let mut plain = Site::start("");
    for uri in ["/", "/?p=1", "/?feed=rss2", "/?s=x", "/?p=99999"] {
        let (note, _) = looked(&mut plain, uri);
        let names: Vec<_> = note.split([' ', '?']).skip(1).filter(|name| !name.is_empty()).collect();
        let is_known = |name: &&str| {
            ["wordpress_", "comment_author_", "wp-postpass_", "wp_scrape_key", "wp_customize", "language"]
                .iter()
                .any(|known| name.starts_with(known))
        };
        assert!(note.starts_with('-') && names.iter().all(is_known), "{uri}: {note}");
    }
    // The REST server gives callbacks all fields of the request.
    assert_eq!(looked(&mut plain, "/?rest_route=/wp/v2/posts").0, "+ *");
    let hooks = "plugins_loaded after_setup_theme init wp template_redirect wp_head wp_footer";
    let mut site = Site::start(&format!(
        "foreach (explode(' ', '{hooks}') as $hook) {{
            add_action($hook, function () use ($hook) {{
                if (($_GET['at'] ?? '') === $hook) {{ $GLOBALS['shown'] = $_COOKIE['cur'] ?? 'EUR'; }}
            }});
        }}
        add_action('wp_footer', fn () => print('in ' . ($GLOBALS['shown'] ?? 'none')), 99);"
    ));
    for hook in hooks.split(' ') {
        let (note, text) = looked(&mut site, &format!("/?at={hook}"));
        assert!(text.contains("in USD") && note.starts_with('+') && note.contains("cur"), "{hook}: {note}");
    }
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn what_can_not_be_judged_is_left_out() {
    let mut site = Site::start("");
    let end = site.value("COOKIEHASH");
    let password = format!("wp-postpass_{end}=%24P%24Babcdefgh");
    let word = ask(&mut site, "index.php", "/", &password);
    assert_eq!(word, [format!("none except=wp-postpass_{end} profile")]);
    let commenter = |mail: &str| format!("comment_author_{end}=a; comment_author_email_{end}={mail}");
    let mail = site.value("get_comments(['number' => 1])[0]->comment_author_email ?: 'none'");
    let known = ask(&mut site, "index.php", "/", &commenter(&mail));
    assert_eq!(known, [if mail == "none" { "none profile" } else { "own profile" }], "{mail}");
    assert_eq!(ask(&mut site, "index.php", "/", &commenter("made@up.test")), ["none profile"]);
    // A shop that has put no session of its own there can't be asked.
    let mut shop = Site::start("function WC() { return (object) ['session' => null]; }");
    let word = ask(&mut shop, "index.php", "/", "woocommerce_items_in_cart=1").concat();
    assert_eq!(word, "none except=woocommerce_items_in_cart profile");
    // Products that somebody has looked at, for a widget: it is never known whether one shows them.
    let word = ask(&mut shop, "index.php", "/", "woocommerce_recently_viewed=17").concat();
    assert_eq!(word, "none except=woocommerce_recently_viewed profile");
    // Without one, the flag means nothing; a session may be another shop's.
    let session = format!("wp_woocommerce_session_{end}=1");
    assert_eq!(ask(&mut site, "index.php", "/", "woocommerce_items_in_cart=1"), ["none profile"]);
    assert_eq!(
        ask(&mut site, "index.php", "/", &session),
        [format!("none except=wp_woocommerce_session_{end} profile")]
    );
}
