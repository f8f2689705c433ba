//! The conditions that hold for the server as a whole: `<IfModule>`, `<IfVersion>`, `<IfDefine>`, `<IfDirective>`,
//! `<IfSection>`.

use crate::directives;
use crate::pattern::Pattern;

/// The version that `<IfVersion>` compares with.
const VERSION: [u32; 3] = [2, 4, 62];

/// Modules of Apache whose directives are applied, without `mod_` and `.c`.
const MODULES: [&str; 24] = [
    "access_compat",
    "alias",
    "auth_basic",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_groupfile",
    "authz_host",
    "authz_user",
    "autoindex",
    "core",
    "deflate",
    "dir",
    "env",
    "expires",
    "filter",
    "headers",
    "mime",
    "negotiation",
    "php",
    "php8",
    "rewrite",
    "setenvif",
    "version",
];

/// Sections of `<IfSection>`.
const SECTIONS: [&str; 9] = [
    "files",
    "filesmatch",
    "if",
    "ifmodule",
    "ifversion",
    "limit",
    "limitexcept",
    "requireall",
    "requireany",
];

/// Whether a section is a condition of this module.
pub fn is_condition(section: &str) -> bool {
    matches!(section, "ifmodule" | "ifversion" | "ifdefine" | "ifdirective" | "ifsection")
}

/// Whether the condition holds.
///
/// # Errors
/// It lacks an argument, or its version is malformed.
pub fn holds(section: &str, words: &[String]) -> Result<bool, String> {
    let [first, rest @ ..] = words else { return Err(format!("<{section}> lacks its argument")) };
    let (name, negated) = match first.strip_prefix('!') {
        Some(name) => (name, true),
        None => (first.as_str(), false),
    };
    let is_so = match section {
        "ifmodule" => has_module(name),
        "ifdirective" => directives::find(&name.to_ascii_lowercase()).is_some(),
        "ifsection" => SECTIONS.contains(&name.trim_matches(['<', '>']).to_ascii_lowercase().as_str()),
        // Nothing is defined.
        "ifdefine" => false,
        _ => {
            let (operator, version) = match rest {
                [version, ..] => (name, version.as_str()),
                [] => ("=", name),
            };
            version_holds(operator, version)?
        }
    };
    Ok(is_so != negated)
}

/// Whether the directives of a module are applied: `mod_rewrite.c`, `rewrite_module`, `LiteSpeed`.
fn has_module(name: &str) -> bool {
    if matches!(name, "LiteSpeed" | "Litespeed" | "litespeed") {
        return true;
    }
    let short = name.strip_prefix("mod_").and_then(|name| name.strip_suffix(".c"));
    short.or_else(|| name.strip_suffix("_module")).is_some_and(|short| MODULES.contains(&short))
}

fn version_holds(operator: &str, version: &str) -> Result<bool, String> {
    let error = || format!("<IfVersion {operator} {version}>: this is no version");
    let text = VERSION.map(|part| part.to_string()).join(".");
    let regex = version.strip_prefix('/').and_then(|text| text.strip_suffix('/'));
    if operator == "~" || regex.is_some() {
        let pattern = Pattern::new(regex.unwrap_or(version), false)?;
        return pattern.matches(text.as_bytes()).map_err(|_| error());
    }
    let mut parts = [0; VERSION.len()];
    for (at, text) in version.split('.').enumerate() {
        let part = parts.get_mut(at).ok_or_else(error)?;
        *part = text.parse::<u32>().map_err(|_| error())?;
    }
    let order = VERSION.cmp(&parts);
    Ok(match operator {
        "=" | "==" => order.is_eq(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        _ => return Err(error()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(section: &str, text: &str) -> bool {
        holds(section, &crate::lines::words(text)).unwrap()
    }

    #[test]
    fn conditions() {
        for (section, text, expected) in [
            ("ifmodule", "mod_rewrite.c", true),
            ("ifmodule", "rewrite_module", true),
            ("ifmodule", "!mod_authz_core.c", false),
            ("ifmodule", "LiteSpeed", true),
            ("ifmodule", "mod_security.c", false),
            ("ifversion", ">= 2.4", true),
            ("ifversion", "< 2.4", false),
            ("ifversion", "2.4", false),
            ("ifversion", "!2.2", true),
            ("ifversion", "~ ^2\\.4\\.", true),
            ("ifdefine", "!X", true),
            ("ifdirective", "Header", true),
            ("ifsection", "<Files>", true),
        ] {
            assert_eq!(test(section, text), expected, "{section} {text}");
        }
        assert!(holds("ifversion", &[">".to_owned(), "x".to_owned()]).is_err());
        assert!(holds("ifmodule", &[]).is_err());
    }
}
