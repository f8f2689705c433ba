//! The programs that serve sites, by their names in the process table.

/// Web servers, which have the requests themselves; PHP on the command line runs jobs of sites.
const SERVERS: [&str; 9] =
    ["millrace", "nginx", "apache", "httpd", "openlitespeed", "litespeed", "caddy", "frankenphp", "php"];

/// What works for a web server without being its child: PHP, databases, caches. Whole names of daemons: the client `mysql` is no part of a site.
const BACKENDS: [&str; 10] = [
    "php-fpm",
    "php-cgi",
    "lsphp",
    "mariadbd",
    "mysqld",
    "postgres",
    "redis-server",
    "valkey-server",
    "memcached",
    "varnishd",
];

/// Whether a program works for web servers that are other processes. `name` is what /proc/PID/comm has.
#[must_use]
pub fn is_backend(name: &str) -> bool {
    is_one_of(&BACKENDS, name)
}

/// Whether a program serves sites: a web server, or what works for one.
#[must_use]
pub fn serves_sites(name: &str) -> bool {
    is_backend(name) || is_one_of(&SERVERS, name)
}

/// Whether a name is one of these, perhaps with a version or a part behind it: `php-fpm8.2`, `apache2`, `millrace-php`, but not `mysqldump`.
fn is_one_of(known: &[&str], name: &str) -> bool {
    let mut rests = known.iter().filter_map(|known| name.strip_prefix(known));
    rests.any(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel has the names: at most 15 bytes.
    #[test]
    fn names_of_processes() {
        for name in ["php-fpm8.2", "lsphp", "mariadbd", "mysqld", "postgres", "redis-server", "memcached"] {
            assert!(is_backend(name) && serves_sites(name), "{name}");
        }
        for name in [
            "millrace",
            "millrace-php",
            "nginx",
            "apache2",
            "httpd",
            "openlitespeed",
            "litespeed",
            "caddy",
            "php8.2",
        ] {
            assert!(!is_backend(name) && serves_sites(name), "{name}");
        }
        for name in ["cc1", "cron", "sshd", "mysqldump", "mariadb-dump", "redis-cli", ""] {
            assert!(!serves_sites(name), "{name}");
        }
    }
}
