//! Automatic certificates (ACME).

use std::path::PathBuf;

use super::{BOTH, Default, Kind, Page, ROW, Setting};
use crate::resolve::View;
use crate::value::Value;

/// Names of well-known directories.
const DIRECTORIES: &[(&str, &str)] = &[
    ("production", "https://acme-v02.api.letsencrypt.org/directory"),
    ("staging", "https://acme-staging-v02.api.letsencrypt.org/directory"),
];

pub(super) static PAGE: Page = Page {
    name: "certificates",
    title: "Automatic certificates (ACME)",
    line: "How to obtain and renew certificates from Let's Encrypt or another authority (RFC 8555).",
    guide: "https.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "https.acme",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether to obtain and renew certificates for the names of the sites automatically, from the \
               authority in `[acme]`.",
        reason: "Each site gets one certificate for all its names. Turn it off for a site whose certificate \
                 is in a `[[tls]]`.",
        example: "true",
        elsewhere: &["auto_https", "automatic_https", "letsencrypt", "acme_enabled"],
        ..BOTH
    },
    Setting {
        key: "acme.terms_agreed",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether you agree to the terms of the certificate authority; without that the server does not \
               contact it.",
        reason: "Only you can agree. The terms of Let's Encrypt are at https://letsencrypt.org/repository/.",
        example: "true",
        elsewhere: &["agree_tos", "agree", "accept_terms", "terms_of_service_agreed"],
        ..ROW
    },
    Setting {
        key: "acme.email",
        kind: Kind::Email,
        default: Default::Unset("no address"),
        line: "Mail address for messages from the authority, for example when it has to revoke a \
               certificate.",
        reason: "Let's Encrypt doesn't need it, some other authorities do. `millrace status` shows whether \
                 certificates are renewed.",
        example: "\"me@example.com\"",
        elsewhere: &["contact", "mail", "contacts"],
        ..ROW
    },
    Setting {
        key: "acme.directory",
        kind: Kind::Url { words: DIRECTORIES },
        default: Default::Fixed("production"),
        line: "Certificate authority: `production` and `staging` of Let's Encrypt, or the URL of another \
               authority's directory.",
        reason: "`staging` issues certificates that browsers don't trust, as often as you like: for testing. \
                 Failed attempts quickly reach the rate limits of `production`. Each authority has its own \
                 account and certificates.",
        example: "\"staging\"",
        elsewhere: &["ca", "acme_ca", "server", "ca_server", "caserver", "url"],
        ..ROW
    },
    Setting {
        key: "acme.ca_file",
        kind: Kind::Path { word: None },
        default: Default::Unset("the certificates that the system trusts"),
        line: "Root certificates, in PEM, that verify the authority's own server, instead of the system's.",
        reason: "For a private authority with a server certificate that only the company trusts.",
        example: "\"/etc/millrace/ca.pem\"",
        elsewhere: &["acme_ca_root", "ca_root", "cacertificates"],
        ..ROW
    },
    Setting {
        key: "acme.dir",
        kind: Kind::Path { word: None },
        default: Default::Computed {
            says: "/var/lib/millrace/acme as root, else $XDG_DATA_HOME/millrace/acme, else ~/.local/share/millrace/acme",
            from: dir,
        },
        line: "Directory for the account and the certificates with their keys, readable by the server only.",
        reason: "A restart must not request certificates again: authorities issue only a few per week. \
                 Include the directory in your backup.",
        example: "\"/srv/acme\"",
        elsewhere: &["storage", "config_dir", "certdir"],
        ..ROW
    },
    Setting {
        key: "acme.challenge",
        kind: Kind::Choice(&[
            ("any", "either one; after a failure the other"),
            ("http-01", "a file that the authority fetches from port 80"),
            ("tls-alpn-01", "a certificate that the server presents on port 443"),
        ]),
        default: Default::Fixed("any"),
        line: "How to prove to the authority that the names lead to this machine.",
        reason: "If a firewall or proxy in front passes only one of the two ports, the server need not try \
                 the other.",
        example: "\"tls-alpn-01\"",
        elsewhere: &["challenges", "preferred_challenges", "challenge_type"],
        ..ROW
    },
];

/// A directory for program data (XDG Base Directory Specification).
fn dir(view: &View<'_>) -> Value {
    let environment = view.environment();
    let base = match &environment.data_dir {
        _ if environment.is_root() => Some(PathBuf::from("/var/lib")),
        dir => dir.clone(),
    };
    Value::Path(base.map(|base| base.join("millrace/acme")))
}
