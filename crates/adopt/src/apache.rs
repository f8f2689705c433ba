//! Apache: `httpd.conf`, `apache2.conf`, or a file with virtual hosts. `.htaccess` files are obeyed by Millrace itself, and stay.

mod host;
mod read;
mod rewrite;
mod section;
mod table;

use std::path::Path;

use crate::files::Files;
use crate::value::{Adopted, Options, Site};
use crate::{listen, value::Source};
use read::Item;

/// What the server says for all virtual hosts.
#[derive(Default)]
struct MainServer {
    /// Sections and directives that virtual hosts inherit.
    inherited: Vec<Item>,
    keep_fpm: bool,
}

/// Converts a file.
pub fn adopt(path: &Path, files: &dyn Files, options: &Options) -> Result<Adopted, String> {
    let mut adopted = Adopted::default();
    let items = read::read(path, files, &mut adopted.notes)?;
    let mut server = MainServer { keep_fpm: options.keep_fpm, ..MainServer::default() };
    let mut hosts: Vec<&Item> = Vec::new();
    for item in &items {
        match (item.name.as_str(), item.is_section()) {
            ("virtualhost", true) => hosts.push(item),
            ("listen", _) => listens(item, &mut adopted),
            ("user", _) => {
                if server.keep_fpm {
                    adopted
                        .notes
                        .needless(&item.source, "the service manager says as which user Millrace runs");
                } else {
                    adopted.settings.set("php.user", item.arg(0));
                    adopted.notes.carried(&item.source);
                }
            }
            (name, _) if table::is_of_server(name) => table::tell(item, &mut adopted.notes),
            _ => server.inherited.push(item.clone()),
        }
    }
    for host in &hosts {
        host::convert(host, &server, &mut adopted);
    }
    main_server(path, &server, hosts.is_empty(), &mut adopted)?;
    if !adopted.sites.iter().any(|site| site.secure) {
        // Debian listens on 443 as soon as mod_ssl is loaded; no client could connect without a certificate.
        adopted.settings.0.retain(|(key, _)| key != "https.listen");
    }
    listen::widest(&mut adopted);
    Ok(adopted)
}

/// `Listen 443`, `Listen 10.0.0.1:80`, `Listen 8443 https`.
fn listens(item: &Item, adopted: &mut Adopted) {
    let Some(address) = listen::address(item.arg(0), 80) else {
        return adopted.notes.lost(&item.source, "`server.listen` takes an address and a port");
    };
    let secure = item.arg(1).eq_ignore_ascii_case("https")
        || listen::port(&address).is_some_and(|port| port % 1000 == 443);
    adopted.settings.add(if secure { "https.listen" } else { "server.listen" }, &address);
    adopted.notes.carried(&item.source);
}

/// The site outside of virtual hosts: only if there is no other.
fn main_server(
    path: &Path,
    server: &MainServer,
    is_alone: bool,
    adopted: &mut Adopted,
) -> Result<(), String> {
    let root = server.inherited.iter().find(|item| item.name == "documentroot");
    if !is_alone {
        if let Some(root) = root {
            adopted.notes.needless(&root.source, "virtual hosts have roots of their own");
        }
        return Ok(());
    }
    let Some(root) = root else {
        return Err(format!(
            "{} has no virtual host and no DocumentRoot: name the file that has them",
            path.display()
        ));
    };
    let source = Source { text: "the main server".to_owned(), ..root.source.clone() };
    let mut site = Site::new(source);
    site.default = true;
    site.plain = true;
    host::of_items(site, &server.inherited, server, adopted);
    Ok(())
}
