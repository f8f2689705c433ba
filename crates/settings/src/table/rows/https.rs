//! HTTPS and certificates.

use super::{DAY, Default, Kind, MIN, Page, ROW, S, SITE, Setting, TLS, count, duration};

pub(super) static PAGE: Page = Page {
    name: "https",
    title: "HTTPS and certificates",
    line: "Where to accept TLS connections, which certificates to present, and whether to ask clients for \
           theirs.",
    guide: "https.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "https.listen",
        kind: Kind::Addresses,
        default: Default::Unset("HTTPS is off"),
        line: "Addresses for TLS connections (TLS 1.2 and 1.3), written as in `server.listen`.",
        reason: "Plain and TLS connections never share an address, because clients start them differently.",
        example: "[\":443\"]",
        elsewhere: &["ssl", "listen_ssl", "ssl_listen"],
        ..ROW
    },
    Setting {
        key: "tls.cert",
        kind: Kind::Path { word: None },
        default: Default::Unset("required"),
        line: "Certificate file in PEM, followed by its chain (`fullchain.pem`).",
        reason: "Browsers know the root certificate of the authority, not the intermediate certificates.",
        example: "\"/etc/letsencrypt/live/example.com/fullchain.pem\"",
        elsewhere: &["ssl_certificate", "certificate", "certfile", "sslcertificatefile"],
        ..TLS
    },
    Setting {
        key: "tls.key",
        kind: Kind::Path { word: None },
        default: Default::Unset("required"),
        line: "Private key of the certificate, in PEM: ECDSA, RSA or Ed25519.",
        reason: "An ECDSA key takes a tenth of the time of an RSA key.",
        example: "\"/etc/letsencrypt/live/example.com/privkey.pem\"",
        elsewhere: &["ssl_certificate_key", "keyfile", "sslcertificatekeyfile", "private_key"],
        ..TLS
    },
    Setting {
        key: "https.self_signed",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether to create a self-signed certificate at start if there is no `[[tls]]`.",
        reason: "For development on the local machine: browsers warn about it, because no authority vouches \
                 for it. The server creates none by default, so that a missing certificate is noticed.",
        example: "true",
        ..ROW
    },
    Setting {
        key: "https.hsts",
        kind: Kind::Duration { min: S, max: 3650 * DAY, zero: Some("not sent") },
        default: Default::Fixed("0"),
        line: "How long browsers must use HTTPS only: `Strict-Transport-Security` (RFC 6797) on responses \
               over HTTPS.",
        reason: "It can't be revoked before it expires. Start with a short time, once HTTPS works for every \
                 name.",
        example: "\"365d\"",
        elsewhere: &["strict_transport_security"],
        ..ROW
    },
    Setting {
        key: "https.early_data",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether a returning client may send a request in its first packet (0-RTT, RFC 8446 section \
               2.3). Only a file or a cached page answers it; other requests get 425.",
        reason: "It saves a round trip. An attacker can replay such a packet, so it must not change \
                 anything. The process then remembers TLS sessions and accepts each only once.",
        example: "true",
        elsewhere: &["ssl_early_data", "zero_rtt"],
        ..ROW
    },
    Setting {
        key: "https.kernel_tls",
        kind: Kind::Choice(&[
            ("auto", "by the kernel, if it can and its module `tls` is loaded"),
            ("off", "by the event loop"),
        ]),
        default: Default::Fixed("auto"),
        line: "Where files of 256 KiB and more are encrypted over HTTP/1.1.",
        reason: "The kernel sends them without a copy (sendfile). A connection switches to kernel TLS with \
                 its first such file. Without kernel support, and over HTTP/2, the event loop reads and \
                 encrypts the file. `modprobe tls` loads the module.",
        example: "\"off\"",
        elsewhere: &["ktls", "ssl_ktls"],
        ..ROW
    },
    Setting {
        key: "https.handshakes",
        kind: count(1, 65_536),
        default: Default::Fixed("128"),
        line: "Maximum TLS handshakes that wait for their turn, per event loop; further connections wait in \
               the kernel's queue.",
        reason: "A handshake costs a hundred times as much as a request. In a rush the server completes \
                 started handshakes first and continues to answer other requests in between. Connections \
                 that send nothing don't count.",
        example: "32",
        ..ROW
    },
    Setting {
        key: "https.handshake_timeout",
        kind: duration(S, 10 * MIN),
        default: Default::Fixed("10s"),
        line: "Time limit for a TLS handshake.",
        reason: "A slow or silent client takes one of the `server.connections`.",
        example: "\"5s\"",
        elsewhere: &["ssl_handshake_timeout"],
        ..ROW
    },
    Setting {
        key: "site.client_verify",
        kind: Kind::Choice(&[
            ("off", "clients are not asked for a certificate"),
            (
                "optional",
                "a certificate is verified if the client has one; scripts find it in `SSL_CLIENT_VERIFY`, \
                 `SSL_CLIENT_S_DN` and so on",
            ),
            ("required", "clients without a valid certificate are rejected"),
        ]),
        default: Default::Fixed("off"),
        line: "Whether to ask clients for a certificate over HTTPS, issued by an authority in \
               `site.client_ca`.",
        reason: "An invalid certificate ends the handshake, with the reason as an alert. Clients of other \
                 sites are not asked, and their connections can't be used for this site (421).",
        example: "\"required\"",
        elsewhere: &["ssl_verify_client", "sslverifyclient", "client_auth", "mtls"],
        ..SITE
    },
    Setting {
        key: "site.client_ca",
        kind: Kind::Path { word: None },
        default: Default::Unset("required if `site.client_verify` is on"),
        line: "Certificates of the authorities whose client certificates are accepted, in PEM.",
        reason: "Usually your own authority, created for this purpose: a certificate of a public authority \
                 doesn't mean that its owner may enter.",
        example: "\"/etc/millrace/clients.pem\"",
        elsewhere: &["ssl_client_certificate", "sslcacertificatefile", "trusted_ca"],
        ..SITE
    },
];
