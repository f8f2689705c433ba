//! Reads the target of a redirect or rewrite.

use crate::plan::{RuleTarget, TargetPart};

/// Reads `/new/$1`, `https://$host/`; `$$` is a dollar.
///
/// # Errors
/// What is wrong, for a label.
pub(super) fn parse(text: &str) -> Result<RuleTarget, String> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        plain.push_str(before);
        let (part, length) = match after.as_bytes().first() {
            Some(b'$') => {
                plain.push('$');
                rest = &after[1..];
                continue;
            }
            Some(digit @ b'0'..=b'9') => (TargetPart::Group(usize::from(digit - b'0')), 1),
            _ if after.starts_with("host") => (TargetPart::Host, 4),
            _ => return Err("an unknown reference".to_owned()),
        };
        if !plain.is_empty() {
            parts.push(TargetPart::Text(std::mem::take(&mut plain)));
        }
        parts.push(part);
        rest = &after[length..];
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(TargetPart::Text(plain));
    }
    Ok(RuleTarget(parts))
}

/// The highest number of a group in it.
pub(super) fn highest(target: &RuleTarget) -> usize {
    let groups = target.0.iter().map(|part| if let TargetPart::Group(group) = part { *group } else { 0 });
    groups.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        let parts = parse("https://$host/a$$/$1").unwrap();
        assert_eq!(
            parts.0,
            [
                TargetPart::Text("https://".into()),
                TargetPart::Host,
                TargetPart::Text("/a$/".into()),
                TargetPart::Group(1)
            ]
        );
        assert_eq!(highest(&parts), 1);
        assert_eq!(parse("/plain").unwrap().plain(), Some("/plain"));
        assert!(parse("/$uri").is_err() && parse("/a$").is_err());
    }
}
