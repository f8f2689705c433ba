//! HTTPS and its certificates.

use super::{DAY, Default, Kind, MIN, Place, ROW, S, Setting, count, duration};

pub(super) static HTTPS: &[Setting] = &[
    Setting {
        key: "https.listen",
        kind: Kind::Addresses,
        default: Default::Unset("there is no HTTPS"),
        line: "Addresses where connections are encrypted (TLS 1.2 and 1.3), written as for `server.listen`.",
        reason: "Plain and encrypted connections never share an address: what a client may send first differs.",
        example: "[\":443\"]",
        elsewhere: &["ssl", "listen_ssl", "ssl_listen"],
        ..ROW
    },
    Setting {
        key: "https.self_signed",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether a certificate that is made at the start serves where no `[[tls]]` is written.",
        reason: "For work on one's own machine: browsers warn of it, because nobody vouches for it. Never made without \
                 being asked for, so that a missing certificate is noticed.",
        example: "true",
        ..ROW
    },
    Setting {
        key: "https.acme",
        place: Place::Both,
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether certificates for the names of the sites come and renew themselves; from whom is said under `[acme]`.",
        reason: "A site has one for all its names. Off for a site whose certificate a `[[tls]]` names.",
        example: "true",
        elsewhere: &["auto_https", "automatic_https", "letsencrypt", "acme_enabled"],
        ..ROW
    },
    Setting {
        key: "https.handshakes",
        kind: count(1, 65_536),
        default: Default::Fixed("128"),
        line: "Handshakes that wait for their turn on an event loop; further connections wait in the kernel's queue.",
        reason: "A handshake costs a hundred times what a request does. In a rush those who have begun are served \
                 first, and requests of all others go on in between. Who says nothing is not counted.",
        example: "32",
        ..ROW
    },
    Setting {
        key: "https.handshake_timeout",
        kind: duration(S, 10 * MIN),
        default: Default::Fixed("10s"),
        line: "How long a handshake may take.",
        reason: "Who is slow, or says nothing, holds one of the places of `server.connections`.",
        example: "\"5s\"",
        elsewhere: &["ssl_handshake_timeout"],
        ..ROW
    },
    Setting {
        key: "https.http2",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether HTTP/2 is offered (ALPN `h2`) beside HTTP/1.1.",
        reason: "One connection carries all requests of a page, with compressed fields; every browser takes it.",
        example: "false",
        elsewhere: &["protocols"],
        ..ROW
    },
    Setting {
        key: "https.early_data",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether who comes again may send a request with the first packet (0-RTT, RFC 8446 section 2.3); it is answered only \
               by a file or a page of the cache, else with 425.",
        reason: "It saves a journey. A copy of such a packet can be sent by somebody else, so nothing may happen by it; \
                 sessions are then remembered in this process, and none is used twice.",
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
        line: "Who enciphers files of 256 KiB and more over HTTP/1.1.",
        reason: "The kernel then sends them without a copy (sendfile). A connection goes over to it with its first such file; where it can't, and for HTTP/2, the event loop reads and enciphers. `modprobe tls` loads the module.",
        example: "\"off\"",
        elsewhere: &["ktls", "ssl_ktls"],
        ..ROW
    },
    Setting {
        key: "https.hsts",
        kind: Kind::Duration { min: S, max: 3650 * DAY, zero: Some("not sent") },
        default: Default::Fixed("0"),
        line: "`Strict-Transport-Security` (RFC 6797) on answers over HTTPS: so long browsers come by HTTPS only.",
        reason: "It can't be taken back before its time: begin with a short one, when HTTPS works for every name.",
        example: "\"365d\"",
        elsewhere: &["strict_transport_security"],
        ..ROW
    },
];

pub(super) static TLS: &[Setting] = &[
    Setting {
        key: "tls.cert",
        place: Place::Tls,
        kind: Kind::Path { word: None },
        default: Default::Unset("has to be written"),
        line: "The certificate, with those of its chain behind it (`fullchain.pem`).",
        reason: "Browsers know the certificate of the authority, not those between.",
        example: "\"/etc/letsencrypt/live/example.com/fullchain.pem\"",
        elsewhere: &["ssl_certificate", "certificate", "certfile", "sslcertificatefile"],
        ..ROW
    },
    Setting {
        key: "tls.key",
        place: Place::Tls,
        kind: Kind::Path { word: None },
        default: Default::Unset("has to be written"),
        line: "Its private key: ECDSA, RSA or Ed25519.",
        reason: "An ECDSA key costs a tenth of an RSA key's time.",
        example: "\"/etc/letsencrypt/live/example.com/privkey.pem\"",
        elsewhere: &["ssl_certificate_key", "keyfile", "sslcertificatekeyfile", "private_key"],
        ..ROW
    },
    Setting {
        key: "tls.ocsp",
        place: Place::Tls,
        kind: Kind::Path { word: None },
        default: Default::Unset("none is sent"),
        line: "The authority's answer about the certificate (OCSP, RFC 6960), in DER: it is sent along while it is valid.",
        reason: "A client need not ask the authority itself. The file is read again when it changes; one that has expired or \
                 speaks of another certificate is not sent, and the log says so.",
        example: "\"/var/lib/ocsp/example.com.der\"",
        elsewhere: &["ssl_stapling_file"],
        ..ROW
    },
];
