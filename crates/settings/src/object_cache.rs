//! The object cache of a plan: where the sockets of its sites are.

use std::path::Path;

use crate::plan::{ObjectCache, ObjectServer, ObjectServerKind, Secret, SiteObjects};
use crate::resolve::View;

/// The settings that all sites share.
pub(crate) fn shared(view: &View<'_>) -> ObjectCache {
    ObjectCache {
        memory: view.count("object_cache.memory"),
        value_bytes: view.count("object_cache.value_bytes"),
        dir: view.path("object_cache.dir").unwrap_or_default(),
    }
}

/// The object cache of the site of this view; only WordPress uses it.
pub(crate) fn of_site(view: &View<'_>) -> Option<SiteObjects> {
    let is_wanted = view.switch("object_cache.enabled") && view.has_php();
    let (dir, root) = (view.path("object_cache.dir")?, view.root()?);
    let name = name_of(&root);
    is_wanted.then(|| SiteObjects {
        socket: dir.join(format!("{name}.sock")),
        lost: dir.join(format!("{name}.lost")),
        user: view.text("object_cache.user"),
        server: server(view),
        redis_password: view.text("object_cache.redis_password").map(Secret),
        label: view.text("object_cache.label"),
    })
}

/// The server that keeps the objects of the site of this view. [`crate::check`] refuses two.
fn server(view: &View<'_>) -> Option<ObjectServer> {
    [ObjectServerKind::Redis, ObjectServerKind::Memcached]
        .into_iter()
        .find_map(|kind| Some(ObjectServer { kind, address: view.backends(kind.setting()).pop()? }))
}

/// `shop-90f1c3a2b4d5e6f7`: a readable part of the root directory's name, and a hash of its path. Two servers for one
/// directory come to the same name, so that they share one object cache.
fn name_of(root: &Path) -> String {
    let last = root.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let legal = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let last: String = last.chars().map(legal).take(16).collect();
    // FNV-1a: the same for every build and machine, which a standard hasher doesn't promise.
    let bytes = root.components().flat_map(|part| part.as_os_str().as_encoded_bytes().iter().chain(b"/"));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{last}-{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_by_directory_and_not_by_spelling() {
        let name = name_of(Path::new("/srv/a shop"));
        assert!(name.starts_with("a_shop-"), "{name}");
        assert_eq!(name, name_of(Path::new("/srv//a shop/.")));
        assert_ne!(name, name_of(Path::new("/var/a shop")));
        assert_ne!(name_of(Path::new("/srv/ab")), name_of(Path::new("/srv/a/b")));
        assert!(name_of(Path::new(&format!("/{}", "x".repeat(200)))).len() < 40, "a socket's path is short");
    }
}
