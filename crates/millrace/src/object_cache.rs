//! `object-cache`: puts the drop-in of the object cache into a WordPress, removes it, and tells how it does.
//!
//! The drop-in has the paths of the server's socket and of its file of lost reports. The running server tells them; where none
//! runs, they are those of the configuration.

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use millrace_settings::plan::Profile;
use millrace_sys::Rights;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::admin;
use crate::args::{AdminArgs, ConfigArgs, ObjectCacheArgs};
use crate::failure::{Explain, Failure};
use crate::rights::{self, read_file};
use crate::serve::{load, say, source};

/// The drop-in in parts; each begins with `<?php`.
const PARTS: [&str; 5] = [
    include_str!("../../../php/object-cache/object-cache.php"),
    include_str!("../../../php/object-cache/options.php"),
    include_str!("../../../php/object-cache/rewound.php"),
    include_str!("../../../php/object-cache/cache.php"),
    include_str!("../../../php/object-cache/functions.php"),
];
/// In every version of our drop-in, and in no other.
const MARK: &str = "Millrace object cache drop-in.";
const NAME: &str = "object-cache.php";
/// A frame with the operation HELLO, and the length of its answer (crates/objects/src/protocol.rs).
const HELLO: &[u8] = &[2, 0, 0, 0, 1, 3];
const HELLO_ANSWER: usize = 17;
/// Time for that answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes the drop-in.
///
/// # Errors
/// Another drop-in is there, the folder is no WordPress, or the server does not serve it.
pub fn enable(args: &ObjectCacheArgs) -> Result<(), Failure> {
    let (file, rights) = drop_in(args)?;
    match as_owner(rights.as_ref(), || look(&file))? {
        Found::Nothing | Found::Ours { is_changed: false } => {}
        Found::Ours { is_changed: true } => return Err(changed(&file, "enable")),
        Found::Foreign(name) => return Err(foreign(&file, &name)),
    }
    let place = place(args)?;
    let text = text_for(&place)?;
    if as_owner(rights.as_ref(), || Ok(read_file(&file).is_ok_and(|old| old == text.as_bytes())))? {
        return say(&format!("{} is there already; {}", file.display(), state(&place)));
    }
    // What is in the server may be older than the database: nothing has reported changes without the drop-in.
    forget(&place);
    as_owner(rights.as_ref(), || write(&file, &text))?;
    forget(&place);
    say(&format!(
        "wrote {}; {}\nRestart programs that were started before and still run, such as WP-CLI daemons: they don't report changes.",
        file.display(),
        state(&place)
    ))
}

/// Removes the drop-in, if it is ours.
///
/// # Errors
/// It is another one, or ours with changes.
pub fn disable(args: &ObjectCacheArgs) -> Result<(), Failure> {
    let (file, rights) = drop_in(args)?;
    let found = as_owner(rights.as_ref(), || look(&file))?;
    match found {
        Found::Nothing => say(&format!("{} is not there: nothing to remove", file.display())),
        Found::Ours { is_changed: true } => Err(changed(&file, "disable")),
        Found::Foreign(name) => Err(foreign(&file, &name)),
        Found::Ours { is_changed: false } => {
            let cannot = || format!("cannot remove {}", file.display());
            as_owner(rights.as_ref(), || fs::remove_file(&file).or_fail(cannot))?;
            say(&format!("removed {}", file.display()))
        }
    }
}

/// Tells whether the drop-in is there, and whether a server answers it.
///
/// # Errors
/// The object cache does not work although it is enabled.
pub fn status(args: &ObjectCacheArgs) -> Result<(), Failure> {
    let (file, rights) = drop_in(args)?;
    let shown = file.display();
    match as_owner(rights.as_ref(), || look(&file))? {
        Found::Nothing => {
            say(&format!("off: {shown} is not there; `millrace object-cache enable` writes it"))
        }
        Found::Foreign(name) => say(&format!("off: {shown} is another drop-in ({name})")),
        Found::Ours { is_changed } => {
            let text =
                as_owner(rights.as_ref(), || read_file(&file).or_fail(|| format!("cannot read {shown}")))?;
            let place = place(args)?;
            if constant(&String::from_utf8_lossy(&text), "SOCKET").as_deref() != place.socket.to_str() {
                return Err(Failure::new(format!(
                    "{shown} names another socket than {}",
                    place.socket.display()
                ))
                .next(
                    "run `millrace object-cache disable` and `enable` with the configuration of the server",
                ));
            }
            let note = if is_changed { " (changed by hand)" } else { "" };
            let place = explained(place, args);
            say(&format!("on{note}: {shown}; {}{}", state(&place), figures(&place)))?;
            place.greet().map_err(|_| silent(&place))
        }
    }
}

/// Where the server of a site is.
struct DropInPlace {
    socket: PathBuf,
    lost: PathBuf,
    /// The server that has the objects, if it is another one.
    server: Option<ObjectServerPlace>,
    figures: Option<Value>,
}

/// The server that has the objects, as people are told of it.
struct ObjectServerPlace {
    kind: String,
    address: String,
    /// The setting with its address.
    setting: String,
    /// Why it does not answer.
    problem: Option<String>,
}

impl ObjectServerPlace {
    fn shown(&self) -> String {
        format!("the {} server {}", self.kind, self.address)
    }

    fn why(&self) -> String {
        self.problem.as_ref().map_or_else(String::new, |problem| format!(": {problem}"))
    }
}

impl DropInPlace {
    /// Says hello, as the drop-in does. Another server that has the objects has to answer, too.
    fn greet(&self) -> std::io::Result<()> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(HELLO)?;
        stream.read_exact(&mut [0; HELLO_ANSWER])
    }
}

fn state(place: &DropInPlace) -> String {
    let socket = place.socket.display();
    match (place.greet(), &place.server) {
        (Ok(()), None) => format!("the server answers at {socket}"),
        (Ok(()), Some(other)) => {
            format!("the server answers at {socket}; {} has the objects", other.shown())
        }
        (Err(_), Some(other)) if UnixStream::connect(&place.socket).is_ok() => format!(
            "the server answers at {socket}, but {} does not answer{}; until it does every lookup is a miss",
            other.shown(),
            other.why()
        ),
        (Err(error), _) => {
            format!("no server answers at {socket} ({error}): until then every lookup is a miss")
        }
    }
}

fn silent(place: &DropInPlace) -> Failure {
    if let Some(other) = place.server.as_ref().filter(|_| UnixStream::connect(&place.socket).is_ok()) {
        let settings = match &*other.setting {
            "object_cache.redis" => "object_cache.redis and object_cache.redis_password",
            setting => setting,
        };
        return Failure::new(format!("{} does not answer{}", other.shown(), other.why())).next(format!(
            "start it, or correct {settings}; the site works without it, as if it had no object cache"
        ));
    }
    Failure::new(format!("no server answers at {}", place.socket.display())).next(
        "start `millrace serve` with this site and object_cache.enabled; the site works without it, as if it had no object cache",
    )
}

fn figures(place: &DropInPlace) -> String {
    let Some(figures) = &place.figures else { return String::new() };
    let of = |name: &str| figures[name].as_u64().unwrap_or(0);
    if place.server.is_some() {
        return format!(
            "\n{}, with those of others; {} of {} lookups found; {} refused because they had changed; {} lost reports",
            elsewhere(&figures["server"]),
            of("hits"),
            of("lookups"),
            of("refused"),
            of("lost")
        );
    }
    format!(
        "\n{} objects, {} bytes; {} of {} lookups found; {} refused because they had changed; {} evicted; {} lost reports",
        of("objects"),
        of("bytes"),
        of("hits"),
        of("lookups"),
        of("refused"),
        of("evicted"),
        of("lost")
    )
}

/// What another server has.
fn elsewhere(server: &Value) -> String {
    let of = |value: &Value| value.as_u64().unwrap_or(0);
    let (keys, memcached) = (of(&server["keys"]), &server["memcached"]);
    if memcached.is_null() {
        return format!("{keys} keys in its database");
    }
    format!(
        "{keys} keys, {} of {} bytes, {} evicted, {} of {} lookups found",
        of(&memcached["bytes"]),
        of(&memcached["limit_bytes"]),
        of(&memcached["evicted"]),
        of(&memcached["hits"]),
        of(&memcached["lookups"])
    )
}

/// Asks the running server, else reads the configuration.
fn place(args: &ObjectCacheArgs) -> Result<DropInPlace, Failure> {
    let root =
        fs::canonicalize(&args.site_dir).or_fail(|| format!("cannot find {}", args.site_dir.display()))?;
    match admin::ask(&args.admin, "GET", "/status.json", b"") {
        Ok(answer) if answer.status == 200 => told(&root, &answer.text()),
        _ => planned(&root, &args.admin),
    }
}

/// If another server that has the objects does not answer: the place with the reason, which the status has a moment after it was asked.
fn explained(mut place: DropInPlace, args: &ObjectCacheArgs) -> DropInPlace {
    for _ in 0..10 {
        let has_reason = place.server.as_ref().is_none_or(|server| server.problem.is_some());
        if has_reason || place.figures.is_none() || place.greet().is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        match self::place(args) {
            Ok(new) => place = new,
            Err(_) => break,
        }
    }
    place
}

/// The place as the status of the server tells it.
fn told(root: &Path, status: &str) -> Result<DropInPlace, Failure> {
    let status: Value =
        serde_json::from_str(status).or_fail(|| "the server's status is not understood".to_owned())?;
    let sites = status["object_cache"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_it = |site: &&Value| {
        site["root"].as_str().and_then(|path| fs::canonicalize(path).ok()).is_some_and(|path| path == root)
    };
    let site = sites.iter().find(is_it).ok_or_else(|| not_served(root, "the running server"))?;
    let path = |name: &str| PathBuf::from(site[name].as_str().unwrap_or_default());
    let figures = Some(site["figures"].clone()).filter(|figures| !figures.is_null());
    let server = Some(&site["server"]).filter(|server| server.is_object()).map(|server| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        ObjectServerPlace {
            kind: text(&server["kind"]),
            address: text(&server["address"]),
            setting: text(&server["setting"]),
            problem: site["figures"]["server"]["problem"].as_str().map(str::to_owned),
        }
    });
    Ok(DropInPlace { socket: path("socket"), lost: path("lost"), server, figures })
}

/// The place in the configuration; without a file, that of `millrace serve SITE_DIR`.
fn planned(root: &Path, admin: &AdminArgs) -> Result<DropInPlace, Failure> {
    let config = ConfigArgs {
        site_dir: admin.config.is_none().then(|| root.to_owned()),
        config: admin.config.clone(),
        set: admin.set.clone(),
        ..ConfigArgs::default()
    };
    let (plan, _) = load(&source(&config))?;
    let site = plan.sites.iter().find(|site| fs::canonicalize(&site.root).is_ok_and(|path| path == root));
    let objects = site
        .and_then(|site| site.objects.as_ref().filter(|_| site.profile == Profile::WordPress))
        .ok_or_else(|| not_served(root, "this configuration"))?;
    let server = objects.server.as_ref().map(|server| ObjectServerPlace {
        kind: server.kind.name().to_owned(),
        address: server.address.to_string(),
        setting: server.kind.setting().to_owned(),
        problem: None,
    });
    Ok(DropInPlace { socket: objects.socket.clone(), lost: objects.lost.clone(), server, figures: None })
}

fn not_served(root: &Path, by: &str) -> Failure {
    Failure::new(format!("{by} has no object cache for {}", root.display())).next(
        "name the root directory of a site with the profile wordpress, with object_cache.enabled, and the server's \
         configuration (--config) or admin address (--admin)",
    )
}

/// The path of the drop-in, and the rights of the directory's owner, if root has to take them on there.
fn drop_in(args: &ObjectCacheArgs) -> Result<(PathBuf, Option<Rights>), Failure> {
    let content = args.content_dir.clone().unwrap_or_else(|| args.site_dir.join("wp-content"));
    if !content.is_dir() {
        return Err(Failure::new(format!("{} is not a directory", content.display()))
            .next("name the directory of a WordPress; if its WP_CONTENT_DIR is elsewhere, name that with --content-dir"));
    }
    let (content, rights) = rights::of(&content)?;
    Ok((content.join(NAME), rights))
}

/// Works on the drop-in with the rights of its directory's owner. All else - configuration, admin address, the server's own
/// files - needs the rights of the caller.
fn as_owner<T>(rights: Option<&Rights>, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let entered = rights.map(Rights::enter).transpose();
    let _entered = entered.or_fail(|| "cannot act as the owner of the directory".to_owned())?;
    work()
}

/// What is at the drop-in's path.
enum Found {
    Nothing,
    Ours {
        is_changed: bool,
    },
    /// The name in its head.
    Foreign(String),
}

fn look(file: &Path) -> Result<Found, Failure> {
    let text = match read_file(file) {
        Ok(text) => text,
        // A link to nowhere is somebody's, too.
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(file).is_err() => {
            return Ok(Found::Nothing);
        }
        Err(error) => return Err(Failure::new(format!("cannot read {}: {error}", file.display()))),
    };
    let text = String::from_utf8_lossy(&text);
    if !text.contains(MARK) {
        return Ok(Found::Foreign(name_of(&text)));
    }
    let seal = text.rsplit_once(SEAL).map(|(body, seal)| seal.trim() == fingerprint(body));
    Ok(Found::Ours { is_changed: seal != Some(true) })
}

/// The plugin's name in the head of a drop-in.
fn name_of(text: &str) -> String {
    let named = text.lines().find_map(|line| line.split_once("Plugin Name:"));
    named
        .map_or("it has no name", |(_, name)| name.trim())
        .chars()
        .filter(|c| !c.is_control())
        .take(80)
        .collect()
}

fn foreign(file: &Path, name: &str) -> Failure {
    Failure::new(format!("{} is another drop-in: {name}", file.display())).next(
        "turn off the object cache of that plugin in its settings, or move the file away; then run this command again",
    )
}

fn changed(file: &Path, command: &str) -> Failure {
    Failure::new(format!("{} was changed by hand", file.display())).next(format!(
        "move it away, so that your changes are not lost; then run `millrace object-cache {command}` again"
    ))
}

/// In front of the fingerprint of all that stands before it.
const SEAL: &str = "\n// Unchanged: ";

fn fingerprint(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn text_for(place: &DropInPlace) -> Result<String, Failure> {
    let quoted = |path: &Path| {
        let text = path.to_str().filter(|text| !text.contains(['\0', '\n']));
        text.map(|text| text.replace('\\', "\\\\").replace('\'', "\\'")).ok_or_else(|| {
            Failure::new(format!("{} cannot be written into PHP", path.display()))
                .next("set object_cache.dir to a directory with a plain name")
        })
    };
    let parts = PARTS.map(|part| part.trim_start_matches("<?php").trim());
    let text = format!("<?php\n{}\n", parts.join("\n\n"));
    let body = text.replace("@SOCKET@", &quoted(&place.socket)?).replace("@LOST@", &quoted(&place.lost)?);
    let seal = fingerprint(&body);
    Ok(format!("{body}{SEAL}{seal}\n"))
}

/// A constant of a drop-in.
fn constant(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("const {name} = '"))?;
    Some(rest.split_once("';")?.0.replace("\\'", "'").replace("\\\\", "\\"))
}

/// Makes the server forget the objects of the site: as if a report had been lost.
fn forget(place: &DropInPlace) {
    // Whoever answers at the admin address has named it: nothing but such a file is written to.
    if place.lost.extension() != Some(OsStr::new("lost")) {
        return;
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    // Without the file no server has data of the site.
    if let Ok(mut file) = fs::OpenOptions::new().append(true).custom_flags(flags).open(&place.lost) {
        let _ = file.write_all(b"e");
    }
}

/// A new file takes the place at once: no request sees half of it.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let new = file.with_extension("php.new");
    let create = || {
        // Left by a command that was killed. It is not followed: the directory may be another user's.
        let _ = fs::remove_file(&new);
        fs::OpenOptions::new().write(true).create_new(true).open(&new)?.write_all(text.as_bytes())
    };
    let written = create().and_then(|()| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644))?;
        fs::rename(&new, file)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&new);
        Failure::new(format!("cannot write {}: {error}", file.display()))
            .next("run this command as the owner of the site, or as root")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> DropInPlace {
        DropInPlace {
            socket: "/run/it's/a.sock".into(),
            lost: "/run/a.lost".into(),
            server: None,
            figures: None,
        }
    }

    #[test]
    fn a_drop_in_knows_itself() {
        let folder = std::env::temp_dir().join(format!("millrace-object-cache-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(NAME);
        let text = text_for(&place()).unwrap();
        assert!(!text.contains('@') || !text.contains("@SOCKET@"));
        assert_eq!(constant(&text, "SOCKET").unwrap(), "/run/it's/a.sock");
        assert!(matches!(look(&file).unwrap(), Found::Nothing));
        write(&file, &text).unwrap();
        assert!(matches!(look(&file).unwrap(), Found::Ours { is_changed: false }));
        fs::write(&file, text.replace("0.25", "0.5")).unwrap();
        assert!(matches!(look(&file).unwrap(), Found::Ours { is_changed: true }));
        fs::write(&file, "<?php\n/*\n * Plugin Name: Redis Object Cache Drop-In\n */").unwrap();
        assert!(matches!(look(&file).unwrap(), Found::Foreign(name) if name == "Redis Object Cache Drop-In"));
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", &file).unwrap();
        assert!(look(&file).is_err(), "a link to nowhere is not overwritten");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_servers_word() {
        let root = fs::canonicalize(std::env::temp_dir()).unwrap();
        let status = format!(
            r#"{{"object_cache": [{{"root": "/proc", "socket": "/a"}}, {{"root": "{}", "socket": "/s", "lost": "/l", "figures": {{"hits": 3}}}}]}}"#,
            root.display()
        );
        let place = told(&root, &status).unwrap();
        assert_eq!((place.socket.as_path(), place.lost.as_path()), (Path::new("/s"), Path::new("/l")));
        assert!(figures(&place).contains("3 of 0 lookups"));
        assert!(told(Path::new("/sys"), &status).err().unwrap().to_string().contains("object_cache.enabled"));
    }
}
