//! Tags of an application's pages in plain words: what purges a page that carries them.

/// Tags, and what purges pages with them.
#[derive(Clone, Copy, Debug)]
pub struct TagWords {
    /// A name, or its start with a `*` behind it.
    pub tag: &'static str,
    /// What purges such a page; `{}` is the rest of the name.
    pub words: &'static str,
}

/// What purges a page with this tag, by an application's table; `None`: only that tag's name. In a network of sites,
/// names begin with the number of a site and a dot.
pub(super) fn in_words(table: &[TagWords], tag: &str) -> Option<String> {
    let (site, name) = match tag.split_once('.') {
        Some((site, name)) if !site.is_empty() && site.bytes().all(|b| b.is_ascii_digit()) => (site, name),
        _ => ("", tag),
    };
    let words = table.iter().find_map(|row| match row.tag.strip_suffix('*') {
        Some(start) => name.strip_prefix(start).map(|rest| row.words.replace("{}", rest)),
        None => (row.tag == name).then(|| row.words.to_owned()),
    })?;
    Some(match site {
        "" | "0" => words,
        site => format!("{words}, in site {site} of the network"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::profile::Profile;
    use millrace_settings::plan;

    #[test]
    fn names_of_wordpress_and_drupal() {
        let of = |profile, tag: &str| in_words(Profile::of(profile).tags, tag).unwrap_or_default();
        let wordpress = |tag: &str| of(plan::Profile::WordPress, tag);
        assert_eq!(wordpress("post-17"), "a change of the post, page, product or attachment 17");
        assert_eq!(
            wordpress("2.list-post"),
            "a new, changed or removed post in a list, in site 2 of the network"
        );
        assert_eq!(wordpress("0.users"), "a change of any user's name, or a new or removed user");
        assert_eq!(wordpress("404"), "anything new that may be found at an address that does not exist");
        assert_eq!(wordpress("post17"), "");
        assert_eq!(of(plan::Profile::Drupal, "node:5"), "a change of node 5");
        assert_eq!(of(plan::Profile::Generic, "post-17"), "");
    }

    /// The head of tags.php documents each name.
    #[test]
    fn every_tag_of_the_hooks_has_its_words() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../php/inject/wordpress/tags.php");
        let text = std::fs::read_to_string(path).unwrap();
        let rows = text.lines().filter_map(|line| line.strip_prefix(" * | ")?.split(" | ").next());
        let names: Vec<&str> =
            rows.flat_map(|names| names.split(", ")).filter(|name| *name != "tag").collect();
        assert!(names.len() > 25, "{names:?}");
        for name in names.iter().filter(|name| !name.starts_with("---")) {
            let name = name.replace("ID", "7").replace("TYPE", "post").replace("TAXONOMY", "category");
            let name = name.replace("FAMILY", "link");
            assert!(in_words(Profile::of(plan::Profile::WordPress).tags, &name).is_some(), "{name}");
        }
    }
}
