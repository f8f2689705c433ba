//! Files, and responses of applications, that a script hands over by `X-Accel-Redirect` or `X-Sendfile`: the script decides which clients may have a file, and
//! the server sends it like any other, with ranges, conditions and so on. Meanwhile the script's worker serves other
//! requests.
//!
//! ```text
//!   X-Accel-Redirect: /protected/a.zip ── the longest prefix in [site.internal] ──> its folder
//!                     /app/a           ── the path of a [[site.proxy]] ────────────> the application
//!                     /files/a.zip     ── none ──────────────────────────────────> the site's root
//!   X-Sendfile: /srv/private/a.zip ────── the deepest of site.sendfile_roots ─────> itself
//!               /srv/www/files/a.zip ──── below the root, no deeper one ──────────> the site's root
//! ```
//!
//! The server may read files that a script may not, and a script may be tricked into naming a file that its author
//! did not intend. So nothing outside of these folders is ever sent, symbolic links out of them are not followed
//! (`files.symlinks`), and below the root, neither scripts' sources nor files hidden from all visitors are sent.
//!
//! The script's fields are sent with the file, except fields that describe the script's own content. A `Content-Type`
//! that PHP adds by itself is replaced by the type of the file's name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use millrace_wire::path;

use super::ServeThread;
use crate::files::{self, FileResponse, Node};
use crate::proxy;
use crate::route::segment_ends;
use millrace_base::message::Request;
use millrace_base::message::reply::{Fields, Handed, Reply, plain};
use millrace_base::site::{Script, Site};

/// Fields of a script's response that describe its own content.
const OF_THE_CONTENT: [&str; 9] = [
    "accept-ranges",
    "content-encoding",
    "content-length",
    "content-md5",
    "content-range",
    "digest",
    "etag",
    "last-modified",
    "location",
];

/// Fields that are sent only with a file, not with an error instead.
const OF_THE_FILE: [&str; 6] =
    ["cache-control", "content-disposition", "content-language", "content-type", "expires", "pragma"];

/// The response with the file that a script handed over in `reply`; `reply` itself if it handed over none.
pub async fn hand_over(
    thread: &ServeThread,
    site: &Site,
    request: &Request,
    script: &Script,
    mut reply: Reply,
) -> Reply {
    let Some(aside) = reply.aside.take_if(|aside| aside.handed().is_some()) else { return reply };
    let Some((handed, field, name)) = aside.handed() else { return reply };
    if let Some(sent) = from_application(thread, site, request, handed, name).await {
        return merge(&reply.fields, without_those_of(sent, &reply.fields));
    }
    let found = Search { thread, site }.find(handed, name, &script.filename);
    let sent = match found {
        Ok(entry) => {
            let refuses_ranges = |(name, value): (&str, &[u8])| {
                name.eq_ignore_ascii_case("accept-ranges") && value.eq_ignore_ascii_case(b"none")
            };
            let ranges = !reply.fields.iter().any(refuses_ranges);
            let media_type = media_type(&reply.fields).map(|(_, value)| value);
            match files::hand_out(&thread.context, request, &entry, ranges, media_type) {
                FileResponse::Ready(sent) => sent,
                FileResponse::Later(sent) => sent.await,
            }
        }
        Err((status, why)) => {
            thread.context.process.log.warn(format_args!(
                "{} sent {field}: {}, answered with {status}: {why}",
                String::from_utf8_lossy(&script.filename),
                String::from_utf8_lossy(name)
            ));
            plain(status)
        }
    };
    merge(&reply.fields, sent)
}

/// The response of the application to which a location leads; `None`: it leads to no application.
async fn from_application(
    thread: &ServeThread,
    site: &Site,
    request: &Request,
    handed: Handed,
    name: &[u8],
) -> Option<Reply> {
    if handed != Handed::Location || site.plan.proxies.is_empty() {
        return None;
    }
    let (raw, query) = name.split_at(memchr::memchr(b'?', name).unwrap_or(name.len()));
    let mut path = Vec::new();
    path::normalise(raw, &mut path).ok()?;
    let number = proxy::find(&site.plan.proxies, &path)?;
    // A script may not have encoded it; a space or a control character would end the request line.
    let mut target = Vec::new();
    proxy::escape(&path, &mut target);
    target.extend(query.iter().filter(|byte| byte.is_ascii_graphic()));
    let keeps = |name: &str| !["connection", "upgrade"].iter().any(|other| name.eq_ignore_ascii_case(other));
    let mut derived = request.derived(&target, keeps, &[]);
    Some(proxy::run(&thread.proxy, &site.plan.proxies[number], &mut derived).await)
}

/// A response without the fields that the script sets itself: it knows for whom the response is.
fn without_those_of(mut sent: Reply, script: &Fields) -> Reply {
    let is_set = |name: &str| {
        let is = |other: &str| other.eq_ignore_ascii_case(name);
        OF_THE_FILE.iter().any(|known| is(known) && !is("content-type"))
            && script.iter().any(|(other, _)| is(other))
    };
    let fields = std::mem::take(&mut sent.fields);
    fields.iter().filter(|(name, _)| !is_set(name)).for_each(|(name, value)| sent.fields.push(name, value));
    sent
}

/// Why a file is not sent: status and advice.
type HandoverRefusal = (u16, String);

type SharedEntry = std::rc::Rc<files::FileEntry>;

struct Search<'a> {
    thread: &'a ServeThread,
    site: &'a Site,
}

/// A folder from which files are handed over: the first is the root, then come `sendfile_roots` and `internal`.
#[derive(Clone, Copy)]
struct HandoverFolder<'a> {
    number: usize,
    path: &'a Path,
}

impl<'a> Search<'a> {
    fn find(&self, handed: Handed, name: &[u8], script: &[u8]) -> Result<SharedEntry, HandoverRefusal> {
        match handed {
            Handed::Location => self.location(name),
            Handed::Path => self.machine_path(name, script),
        }
    }

    fn root(&self) -> HandoverFolder<'a> {
        HandoverFolder { number: 0, path: &self.site.plan.root }
    }

    fn sendfile_roots(&self) -> impl Iterator<Item = HandoverFolder<'a>> {
        let roots = self.site.plan.sendfile_roots.iter().enumerate();
        roots.map(|(at, path)| HandoverFolder { number: 1 + at, path })
    }

    fn internal(&self) -> impl Iterator<Item = (&'a str, HandoverFolder<'a>)> {
        let before = 1 + self.site.plan.sendfile_roots.len();
        let places = self.site.plan.internal.iter().enumerate();
        places
            .map(move |(at, (prefix, path))| (prefix.as_str(), HandoverFolder { number: before + at, path }))
    }

    /// A URL path: decoded as in nginx, or unchanged, for scripts that don't encode it.
    fn location(&self, name: &[u8]) -> Result<SharedEntry, HandoverRefusal> {
        let raw = &name[..memchr::memchr(b'?', name).unwrap_or(name.len())];
        let mut path = Vec::with_capacity(raw.len());
        let decoded = path::normalise(raw, &mut path).map(|()| self.at_location(&path));
        if let Ok(Ok(entry)) = &decoded {
            return Ok(entry.clone());
        }
        if memchr::memchr(b'%', name).is_some()
            && let Some(literal) = lexical(Path::new(OsStr::from_bytes(name)))
            && let Ok(entry) = self.at_location(literal.as_os_str().as_bytes())
        {
            return Ok(entry);
        }
        decoded.unwrap_or_else(|_| {
            Err((404, "it is not a path that begins with / and stays below the root".to_owned()))
        })
    }

    fn at_location(&self, path: &[u8]) -> Result<SharedEntry, HandoverRefusal> {
        let places = self.internal().filter(|(prefix, _)| path.starts_with(prefix.as_bytes()));
        let Some((prefix, folder)) = places.max_by_key(|(prefix, _)| prefix.len()) else {
            let first = path.split(|b| *b == b'/').nth(1).unwrap_or_default();
            let first = String::from_utf8_lossy(first);
            return self.below_root(path, || {
                format!(
                    "no such file below {}; to map the path to a folder elsewhere, add it to [site.internal]: \
                     \"/{first}/\" = \"/srv/{first}\"",
                    self.site.plan.root.display()
                )
            });
        };
        self.below(folder, &path[prefix.len() - 1..])
    }

    /// A file system path: unchanged, or decoded, as in mod_xsendfile and lighttpd.
    fn machine_path(&self, name: &[u8], script: &[u8]) -> Result<SharedEntry, HandoverRefusal> {
        let beside = Path::new(OsStr::from_bytes(script)).parent().unwrap_or(Path::new("/"));
        let read = |name: &[u8]| lexical(&beside.join(OsStr::from_bytes(name)));
        let result = match read(name) {
            Some(path) => self.at_path(&path),
            None => {
                Err((403, "a path with .. in it is not allowed: send the real path (realpath())".to_owned()))
            }
        };
        match (result, memchr::memchr(b'%', name).and_then(|_| decoded(name))) {
            (Err(refused), Some(name)) => {
                read(&name).and_then(|path| self.at_path(&path).ok()).ok_or(refused)
            }
            (result, _) => result,
        }
    }

    fn at_path(&self, path: &Path) -> Result<SharedEntry, HandoverRefusal> {
        let by_name =
            |folder: HandoverFolder<'a>| Some((folder, path.strip_prefix(folder.path).ok()?.to_owned()));
        // PHP's __DIR__ and realpath() resolve the links on the way to a folder.
        let by_place = |folder: HandoverFolder<'a>| {
            let real = std::fs::canonicalize(folder.path).ok()?;
            Some((folder, path.strip_prefix(real).ok()?.to_owned()))
        };
        let folders = || [self.root()].into_iter().chain(self.sendfile_roots());
        // The shorter the rest, the deeper the folder; the root precedes an equal one.
        let deepest = |found: Vec<(HandoverFolder<'a>, PathBuf)>| {
            found.into_iter().min_by_key(|(_, rest)| rest.as_os_str().len())
        };
        let found = deepest(folders().filter_map(by_name).collect())
            .or_else(|| deepest(folders().filter_map(by_place).collect()));
        let Some((folder, rest)) = found else {
            let parent = path.parent().unwrap_or(path).display();
            let why = format!(
                "it is neither below {} nor below site.sendfile_roots; to allow it, set sendfile_roots = \
                 [\"{parent}\"] in the site",
                self.site.plan.root.display()
            );
            return Err((403, why));
        };
        let below = [b"/", rest.as_os_str().as_bytes()].concat();
        if folder.number == 0 {
            return self.below_root(&below, || "no such file".to_owned());
        }
        self.below(folder, &below)
    }

    /// Below the site's root: a file that is hidden from visitors is not handed over either. `missing`: advice if
    /// there is no such file.
    fn below_root(
        &self,
        path: &[u8],
        missing: impl FnOnce() -> String,
    ) -> Result<SharedEntry, HandoverRefusal> {
        let is_source = segment_ends(path).any(|end| path[..end].ends_with(b".php"));
        let never = || {
            let why = "scripts, hidden files and databases below the site's root are never sent; put files that only \
                       scripts hand out in a folder of site.sendfile_roots or [site.internal]";
            (403, why.to_owned())
        };
        if is_source || self.site.never_serves(path) {
            return Err(never());
        }
        match self.below(self.root(), path) {
            Ok(entry) if entry.linked_name().is_some_and(|name| self.site.never_serves(name)) => Err(never()),
            Err((404, _)) => Err((404, missing())),
            result => result,
        }
    }

    fn below(&self, folder: HandoverFolder<'a>, path: &[u8]) -> Result<SharedEntry, HandoverRefusal> {
        let HandoverFolder { number, path: root } = folder;
        match self.thread.files.find_handed(&self.thread.context, self.site, number, root, path) {
            Node::File(entry) if !path.ends_with(b"/") => Ok(entry),
            Node::Unavailable => Err((503, "the file cannot be opened at the moment".to_owned())),
            Node::Directory => Err((403, format!("it is a folder below {}", root.display()))),
            _ => {
                let path = String::from_utf8_lossy(path);
                Err((
                    404,
                    format!(
                        "{}{path} does not exist, is not readable by the server's user, or is a symbolic link to a \
                         place outside (files.symlinks)",
                        root.display()
                    ),
                ))
            }
        }
    }
}

/// An absolute path without `.` and empty segments; `None` if it contains `..` or NUL.
fn lexical(path: &Path) -> Option<PathBuf> {
    let is_plain = |part: Component<'_>| !matches!(part, Component::ParentDir | Component::Prefix(_));
    let fits =
        path.is_absolute() && path.components().all(is_plain) && !path.as_os_str().as_bytes().contains(&0);
    fits.then(|| path.components().collect())
}

/// `name` without percent-encoding; `None` if it has none, or an invalid one.
fn decoded(name: &[u8]) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    // Only an absolute one, whose encoding is known.
    path::normalise(name, &mut path).ok()?;
    Some(path)
}

/// The response with a file, and the script's fields that are sent with it.
fn merge(script: &Fields, mut sent: Reply) -> Reply {
    let is_in = |list: &[&str], name: &str| list.iter().any(|known| known.eq_ignore_ascii_case(name));
    let is_file = matches!(sent.status, 200 | 206 | 304);
    let media_type = media_type(script);
    // Each part of a multipart response has its own.
    let is_multipart = |value: &[u8]| value.starts_with(b"multipart/byteranges");
    let types_it = matches!(sent.status, 200 | 206)
        && media_type.is_some()
        && !sent.fields.iter().any(|(name, value)| is_in(&["content-type"], name) && is_multipart(value));
    let mut fields = Fields::default();
    fields.reserve(512);
    if let (true, Some((name, value))) = (types_it, media_type) {
        fields.push(name, value);
    }
    for (name, value) in sent.fields.iter().filter(|(name, _)| !(types_it && is_in(&["content-type"], name)))
    {
        fields.push(name, value);
    }
    let goes_on = |name: &str| {
        !is_in(&["content-type"], name)
            && !is_in(&OF_THE_CONTENT, name)
            && (is_file || !is_in(&OF_THE_FILE, name))
    };
    for (name, value) in script.iter().filter(|(name, _)| goes_on(name)) {
        fields.push(name, value);
    }
    sent.fields = fields;
    sent
}

/// The script's media type for the file, and its field.
fn media_type(script: &Fields) -> Option<(&str, &[u8])> {
    script.iter().find(|(name, value)| name.eq_ignore_ascii_case("content-type") && !is_by_php(name, value))
}

/// Whether this is the type that PHP adds to a response without one: PHP writes the name in its own way
/// (sapi_send_headers in main/SAPI.c).
fn is_by_php(name: &str, value: &[u8]) -> bool {
    name == "Content-type" && value.starts_with(b"text/html")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        lines.iter().for_each(|(name, value)| fields.push(name, value.as_bytes()));
        fields
    }

    fn text(reply: &Reply) -> String {
        String::from_utf8(reply.fields.blocks().concat()).unwrap()
    }

    #[test]
    fn what_goes_with_a_file() {
        let script = fields(&[
            ("Content-type", "text/html; charset=UTF-8"),
            ("Content-Disposition", "attachment"),
            ("ETag", "\"script\""),
            ("Set-Cookie", "a=1"),
            ("Set-Cookie", "b=2"),
            ("Cache-Control", "private"),
            ("Content-Encoding", "gzip"),
            ("Vary", "Cookie"),
        ]);
        let sent = || Reply {
            fields: fields(&[("Content-Type", "image/png"), ("ETag", "\"file\"")]),
            ..Reply::new(200)
        };
        let rest = "Content-Disposition: attachment\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nCache-Control: private\r\nVary: Cookie\r\n";
        assert_eq!(
            text(&merge(&script, sent())),
            format!("Content-Type: image/png\r\nETag: \"file\"\r\n{rest}")
        );
        let script = fields(&[("Content-Type", "application/x-thing")]);
        assert_eq!(text(&merge(&script, sent())), "Content-Type: application/x-thing\r\nETag: \"file\"\r\n");
        let parts = Reply {
            fields: fields(&[("Content-Type", "multipart/byteranges; boundary=x")]),
            ..Reply::new(206)
        };
        assert_eq!(text(&merge(&script, parts)), "Content-Type: multipart/byteranges; boundary=x\r\n");
    }

    #[test]
    fn an_error_is_no_file() {
        let script = fields(&[
            ("Content-Disposition", "attachment"),
            ("Cache-Control", "max-age=9"),
            ("Set-Cookie", "a=1"),
        ]);
        let sent =
            merge(&script, Reply { fields: fields(&[("Content-Type", "text/plain")]), ..Reply::new(404) });
        assert_eq!(text(&sent), "Content-Type: text/plain\r\nSet-Cookie: a=1\r\n");
    }

    #[test]
    fn paths_of_the_machine() {
        let of = |path: &str| lexical(Path::new(path)).map(|path| path.to_string_lossy().into_owned());
        assert_eq!(of("/srv//a/./b").as_deref(), Some("/srv/a/b"));
        for bad in ["srv/a", "/srv/../etc/passwd", "/srv/a\0b", ""] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
        assert_eq!(decoded(b"/a%20b").as_deref(), Some(&b"/a b"[..]));
        assert_eq!(decoded(b"/a%2"), None);
    }
}
