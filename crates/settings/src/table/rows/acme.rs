//! Certificates that come by themselves.

use std::path::PathBuf;

use super::{Default, Kind, ROW, Setting};
use crate::resolve::View;
use crate::value::Value;

/// Directories that words stand for.
const DIRECTORIES: &[(&str, &str)] = &[
    ("production", "https://acme-v02.api.letsencrypt.org/directory"),
    ("staging", "https://acme-staging-v02.api.letsencrypt.org/directory"),
];

pub(super) static ACME: &[Setting] = &[
    Setting {
        key: "acme.terms_agreed",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "That you agree to the terms of the certificate authority; without that it is not asked.",
        reason: "Nobody can agree in your place; https://letsencrypt.org/repository/ has those of Let's Encrypt.",
        example: "true",
        elsewhere: &["agree_tos", "agree", "accept_terms", "terms_of_service_agreed"],
        ..ROW
    },
    Setting {
        key: "acme.email",
        kind: Kind::Email,
        default: Default::Unset("no address is given"),
        line: "Where the authority may write to, for example when it has to revoke a certificate.",
        reason: "Not needed by Let's Encrypt, but by some others. Whether certificates are renewed is seen in `millrace status`.",
        example: "\"me@example.com\"",
        elsewhere: &["contact", "mail", "contacts"],
        ..ROW
    },
    Setting {
        key: "acme.directory",
        kind: Kind::Url { words: DIRECTORIES },
        default: Default::Fixed("production"),
        line: "The authority: `production` and `staging` are those of Let's Encrypt, any other is written as the URL of its directory.",
        reason: "`staging` gives certificates that browsers don't believe, as often as one likes: for trying out. The limits of \
                 `production` are soon reached by tries that fail. Account and certificates of each are kept apart.",
        example: "\"staging\"",
        elsewhere: &["ca", "acme_ca", "server", "ca_server", "caserver", "url"],
        ..ROW
    },
    Setting {
        key: "acme.ca_file",
        kind: Kind::Path { word: None },
        default: Default::Unset("the certificates that the system trusts"),
        line: "Certificates, in PEM, by which the authority's own server is known, in the place of those of the system.",
        reason: "For a private authority, whose server has a certificate that only the company trusts.",
        example: "\"/srv/app/index.php\"",
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
        line: "Folder where the account and the certificates with their keys are kept, readable by the server alone.",
        reason: "A restart must not ask for them again: authorities allow few a week. Keep it in your backup.",
        example: "\"/srv/acme\"",
        elsewhere: &["storage", "config_dir", "certdir"],
        ..ROW
    },
    Setting {
        key: "acme.challenge",
        kind: Kind::Choice(&[
            ("any", "one of both; after a failure the other"),
            ("http-01", "by a file that the authority fetches at port 80"),
            ("tls-alpn-01", "by a certificate that it is shown at port 443"),
        ]),
        default: Default::Fixed("any"),
        line: "How the authority is shown that the names lead to this machine.",
        reason: "Where a firewall or a proxy in front lets only one of the two ports through, the other need not be tried.",
        example: "\"tls-alpn-01\"",
        elsewhere: &["challenges", "preferred_challenges", "challenge_type"],
        ..ROW
    },
];

/// Data of a program, after the XDG Base Directory Specification.
fn dir(view: &View<'_>) -> Value {
    let environment = view.environment();
    let base = match &environment.data_dir {
        _ if environment.is_root() => Some(PathBuf::from("/var/lib")),
        dir => dir.clone(),
    };
    Value::Path(base.map(|base| base.join("millrace/acme")))
}
