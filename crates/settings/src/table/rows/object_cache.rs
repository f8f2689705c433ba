//! The object cache of WordPress.

use std::path::PathBuf;

use super::{BOTH, Default, GB, KB, Kind, MB, Page, ROW, Setting, size};
use crate::resolve::View;
use crate::value::Value;

pub(super) static PAGE: Page = Page {
    name: "object-cache",
    title: "Object cache",
    line: "Memory of the server in which WordPress keeps what it has read from its database.",
    guide: "object-cache.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "object_cache.enabled",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether the server offers an object cache to sites with the profile `wordpress`.",
        reason: "A site uses it only after `millrace object-cache enable SITE_DIR`. Until then it is a socket to \
                 which no process connects.",
        example: "false",
        elsewhere: &["wp_cache", "wp_redis_disabled"],
        ..BOTH
    },
    Setting {
        key: "object_cache.memory",
        kind: size(MB, 1024 * GB),
        default: Default::Computed {
            says: "1/32 of memory, at least 16MB",
            from: |view| Value::Number((view.environment().memory / 32).max(16 * MB)),
        },
        line: "Maximum memory for the objects of all sites, with their keys.",
        reason: "Objects that are seldom used make room for others, first those of the site that uses the most \
                 memory. It is used only by sites with the drop-in. A reload applies a change at once.",
        example: "\"1GB\"",
        elsewhere: &["maxmemory", "apc.shm_size"],
        ..ROW
    },
    Setting {
        key: "object_cache.value_bytes",
        kind: size(KB, 64 * MB),
        default: Default::Computed {
            says: "8MB, or a quarter of object_cache.memory if that is less",
            from: |view| Value::Number((8 * MB).min(view.number("object_cache.memory") / 4)),
        },
        line: "Maximum size of an object. A larger one is not kept.",
        reason: "Most objects have less than 10 KB; the options that are loaded on every page can have more than \
                 1 MB. A few exports would evict thousands of others.",
        example: "\"1MB\"",
        elsewhere: &["item_size_max", "proto-max-bulk-len"],
        ..ROW
    },
    Setting {
        key: "object_cache.user",
        kind: Kind::Name,
        default: Default::Unset("none"),
        line: "Another user that may use the object cache of a site, besides its PHP user and the owner of its \
               root directory.",
        reason: "The user of php-fpm, or the one that runs WP-CLI: what it changes in the database must reach the \
                 object cache, or visitors see old data. Only a server started as root can admit another user.",
        example: "\"www-data\"",
        elsewhere: &["unixsocketperm", "unixsocket"],
        ..BOTH
    },
    Setting {
        key: "object_cache.redis",
        kind: Kind::Backend { word: "off" },
        default: Default::Unset("Millrace keeps the objects in its own memory"),
        line: "Address of a Redis or Valkey server that keeps the objects.",
        reason: "For a site on several machines, which must share its objects, and for objects that outlive a restart \
                 of Millrace. One machine needs no such server, and is slower with one. See docs/object-cache.md.",
        example: "\"unix:/run/redis/redis-server.sock\"",
        elsewhere: &["wp_redis_host", "wp_redis_path", "wp_redis_port"],
        ..BOTH
    },
    Setting {
        key: "object_cache.redis_password",
        kind: Kind::Secret { least: 1 },
        default: Default::Unset("none"),
        line: "Password of that server.",
        reason: "It is that of the default user, which Redis calls `requirepass`.",
        example: "\"f1d0c5a9e47b0a6c\"",
        elsewhere: &["wp_redis_password", "requirepass"],
        ..BOTH
    },
    Setting {
        key: "object_cache.memcached",
        kind: Kind::Backend { word: "off" },
        default: Default::Unset("Millrace keeps the objects in its own memory"),
        line: "Address of a memcached server (1.6.13 or later) that keeps the objects.",
        reason: "The same for memcached, instead of Redis. memcached asks for no password: everyone who reaches its \
                 address can read and change the objects. See docs/object-cache.md.",
        example: "\"unix:/run/memcached/memcached.sock\"",
        elsewhere: &["memcached_servers", "wp_memcached_host"],
        ..BOTH
    },
    Setting {
        key: "object_cache.label",
        kind: Kind::Label,
        default: Default::Unset("the root directory and the machine's name"),
        line: "Name of the site at that server. Machines that serve the same site give it the same one.",
        reason: "Sites with different names never see each other's objects. Two sites must not have the same name.",
        example: "\"shop\"",
        elsewhere: &["wp_redis_prefix", "wp_cache_key_salt"],
        ..BOTH
    },
    Setting {
        key: "object_cache.dir",
        kind: Kind::Path { word: None },
        default: Default::Computed {
            says: "/run/millrace-objects as root, else $XDG_RUNTIME_DIR/millrace-objects, else \
                   /tmp/millrace-UID/objects",
            from: dir,
        },
        line: "Directory of the sockets of the object cache, one for each site.",
        reason: "The drop-in of a site has the path of its socket. All users may search the directory; a socket \
                 admits only the users of its site.",
        example: "\"/run/shop\"",
        elsewhere: &["wp_redis_path", "unixsocket"],
        restart: Some(|old, new| old.object_cache.dir != new.object_cache.dir),
        ..ROW
    },
];

fn dir(view: &View<'_>) -> Value {
    let environment = view.environment();
    Value::Path(Some(match &environment.runtime_dir {
        _ if environment.is_root() => PathBuf::from("/run/millrace-objects"),
        Some(dir) => dir.join("millrace-objects"),
        None => PathBuf::from(format!("/tmp/millrace-{}/objects", environment.uid)),
    }))
}
