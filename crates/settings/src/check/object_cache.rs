//! The object cache: one server keeps the objects of a site, and only those see memcached who may.

use std::net::IpAddr;

use crate::environment::Environment;
use crate::plan::{Backend, ObjectServerKind};
use crate::problem::{Problem, What};
use crate::resolve::View;
use crate::written::Written;

const REDIS: &str = ObjectServerKind::Redis.setting();
const MEMCACHED: &str = ObjectServerKind::Memcached.setting();

/// Adds every problem of the object cache's settings; one that several sites share once.
pub(super) fn all(written: &Written, environment: &Environment<'_>, problems: &mut Vec<Problem>) {
    for site in &written.sites {
        let view = View::new(written, Some(site), environment);
        for problem in one_server(&view).into_iter().chain(is_open(&view)) {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
}

/// Objects are on one server.
fn one_server(view: &View<'_>) -> Option<Problem> {
    if view.backends(REDIS).is_empty() || view.backends(MEMCACHED).is_empty() {
        return None;
    }
    let title = format!("`{REDIS}` and `{MEMCACHED}` are both set: one server keeps the objects of a site");
    let cure = format!(
        "remove one of the two; where a site differs from the others, switch the other one off there, with `{REDIS} = \"off\"` or `{MEMCACHED} = \"off\"`"
    );
    let problem = Problem::error(What::Conflict, title, cure);
    Some(problem.at(view.at(REDIS), "Redis").at(view.at(MEMCACHED), "memcached"))
}

/// memcached has no password: its network is the only protection.
fn is_open(view: &View<'_>) -> Option<Problem> {
    let Some(Backend::Tcp(address)) = view.backends(MEMCACHED).pop() else { return None };
    let host = address.rsplit_once(':').map_or(&*address, |(host, _)| host);
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    // What a name stands for is not known here.
    if host == "localhost" || !ip.is_ok_and(|ip| !is_private(ip)) {
        return None;
    }
    let title =
        format!("`{MEMCACHED}`: {address} is not a private address, and memcached asks for no password");
    let cure = "use a Unix socket, or an address of a private network or tunnel; everyone who reaches it can read and change the objects of the site, such as sessions";
    Some(Problem::warning(What::Risky, title, cure).at(view.at(MEMCACHED), "open to all that reach it"))
}

fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        // 100.64.0.0/10 is that of carriers, and of tunnels such as Tailscale's.
        IpAddr::V4(ip) => {
            ip.is_loopback()
                || ip.is_private()
                || ip.is_link_local()
                || (ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64)
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.9",
            "172.31.0.1",
            "100.100.0.1",
            "::1",
            "fd00::1",
            "fe80::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for public in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2001:db8::1", "::ffff:8.8.8.8", "0.0.0.0"] {
            assert!(!is_private(public.parse().unwrap()), "{public}");
        }
    }
}
