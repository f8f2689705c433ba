//! Proxies and client addresses.

use super::{Default, Kind, Page, ROW, Setting, count_or_zero};

pub(super) static PAGE: Page = Page {
    name: "proxies",
    title: "Proxies and client addresses",
    line: "Which proxies may report the client's address, and how many connections one address may open.",
    guide: "security.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "server.trusted_proxies",
        kind: Kind::Networks,
        default: Default::Unset("no proxy is trusted"),
        line: "Proxies to trust for `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`, and for `Forwarded` where there is \
               no `X-Forwarded-For`: addresses, blocks like `10.0.0.0/8`, or `unix` for every client of a Unix socket.",
        reason: "Any client can send these fields. Trusted from everywhere, they would let a client forge \
                 its address and claim HTTPS, so the server trusts only the peers in this list. With \
                 WooCommerce's Geolocate, the page cache also takes the visitor's country from \
                 `CF-IPCountry` and `X-Country-Code` of these proxies only.",
        example: "[\"10.0.0.0/8\", \"::1\", \"unix\"]",
        elsewhere: &["set_real_ip_from", "real_ip_header", "remoteipinternalproxy"],
        ..ROW
    },
    Setting {
        key: "server.trusted_proxy_files",
        kind: Kind::Files,
        default: Default::Unset("no files"),
        line: "Files with more of them, an address or a block per line; what follows `#` is a comment.",
        reason: "CDNs publish their networks as such lists, and change them. The files are read at the start and on \
                 a reload; `millrace check` warns of one that is older than 90 days, and an empty one is an error. \
                 For Cloudflare: `curl https://www.cloudflare.com/ips-v4 https://www.cloudflare.com/ips-v6`.",
        example: "[\"/etc/millrace/cdn.txt\"]",
        elsewhere: &["set_real_ip_from", "remoteiptrustedproxylist"],
        ..ROW
    },
    Setting {
        key: "server.forwarded_host",
        kind: Kind::Choice(&[
            (
                "same-site",
                "only other names of the site that the proxy asks for, with no port, the scheme's own, or one that the server listens at",
            ),
            ("any-port", "such names, with any port"),
            ("any", "whatever the proxy says; it chooses the site"),
        ]),
        default: Default::Fixed("same-site"),
        line: "Which hosts of `X-Forwarded-Host` and `Forwarded` to believe of trusted proxies.",
        reason: "Many proxies and CDNs pass these fields on as a client has sent them. The host would choose the site, and be in its \
                 redirects and pages, which the CDN then stores for everybody; a port alone would break them. With `any-port`, for a \
                 proxy that listens at another port than Millrace, and `any`, the proxy must set or remove them.",
        example: "\"any\"",
        elsewhere: &["usecanonicalname"],
        ..ROW
    },
    Setting {
        key: "server.connections_per_address",
        kind: count_or_zero("no limit", 1, 1_000_000),
        default: Default::Fixed("0"),
        line: "Maximum connections from one client address.",
        reason: "It prevents one address from taking every connection. Off by default, because many people \
                 share one address behind a proxy or a mobile network's address translation.",
        example: "200",
        elsewhere: &["limit_conn"],
        ..ROW
    },
];
