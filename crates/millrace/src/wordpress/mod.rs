//! `millrace new wordpress`: from an empty folder to a WordPress that is ready for a login.
//!
//! ```text
//! place    check what was asked for, and that the database answers      address, database, place
//! source   WordPress's files: given, wordpress.org or npm -> staging    source (fetch, unpack, playground)
//! database the SQLite drop-in, wp-config.php with fresh keys            sqlite, config, random
//! install  serve the staging folder on a private socket, fill in        install
//!          WordPress's own forms: user, title, permalinks
//! finish   the staging folder becomes DIR                               place
//! ```
//! Until the last step everything happens in a staging folder, which is removed on failure: DIR is either complete or
//! missing.

mod address;
mod config;
mod database;
mod fetch;
mod install;
mod place;
mod playground;
mod random;
mod source;
mod sqlite;
mod unpack;

use crate::args::WordPressArgs;
use crate::failure::{Explain, Failure};
use address::SiteAddress;
use database::Database;
use install::FirstUser;
use place::Place;
use std::io::{BufRead, Write};
use std::path::Path;

/// Creates the site and prints how to reach it. Progress goes to standard error, the result to standard output.
///
/// # Errors
/// A [`Failure`] that says what to do next; nothing is left behind then.
pub fn create(args: &WordPressArgs) -> Result<(), Failure> {
    let address = SiteAddress::parse(args.url.as_deref())?;
    let database = Database::parse(&args.db)?;
    config::check_prefix(&args.table_prefix)?;
    let password = Password::choose(args.password.as_deref())?;
    let user = FirstUser::new(args, &address, &password.text)?;
    let place = Place::prepare(&args.dir)?;
    database.probe()?;

    let obtained = source::obtain(place.staging(), args.from.as_deref(), args.version.as_deref())?;
    step(&format!("WordPress {} from {}", obtained.version, obtained.origin));
    if let Database::Sqlite = database {
        sqlite::put_drop_in(place.staging(), obtained.sqlite_plugin)?;
    }
    config::write(place.staging(), &database, &args.table_prefix, &address)?;
    if !args.no_install {
        step("Installing: database, first user, permalinks");
        install::run(place.staging(), &address, &database, &user)?;
    }
    let dir = place.finish()?;
    announce(args, &address, &password, &obtained.version, &dir);
    Ok(())
}

/// Prints the current step.
fn step(what: &str) {
    eprintln!("  {what}");
}

/// The first user's password, and whether the user has seen it.
struct Password {
    text: String,
    made_up: bool,
}

impl Password {
    fn choose(given: Option<&str>) -> Result<Password, Failure> {
        let text = match given {
            None => return Ok(Password { text: random::password()?, made_up: true }),
            Some("-") => {
                let mut line = String::new();
                std::io::stdin().lock().read_line(&mut line).or_fail(|| "cannot read the password".into())?;
                line.trim_end_matches(['\r', '\n']).to_owned()
            }
            Some(text) => text.to_owned(),
        };
        if text.chars().count() < 8 {
            return Err(Failure::new("the password has fewer than 8 characters")
                .next("give a longer one, or omit --password to have one generated"));
        }
        Ok(Password { text, made_up: false })
    }
}

fn announce(args: &WordPressArgs, address: &SiteAddress, password: &Password, version: &str, dir: &Path) {
    let url = address.base();
    let mut text = format!("Installed WordPress {version} in {}\n\n  address   {url}/\n", dir.display());
    if args.no_install {
        text.push_str(&format!(
            "  install   {url}/wp-admin/install.php (asks for title, user and password)\n"
        ));
    } else {
        text.push_str(&format!("  log in    {url}/wp-login.php\n  user      {}\n", args.admin));
        if password.made_up {
            text.push_str(&format!("  password  {}   (not shown again)\n", password.text));
        }
    }
    text.push_str(&format!("\nnext: millrace serve {}", dir.display()));
    if let Some(listen) = address.listen_hint() {
        text.push_str(&format!(" --listen {listen}"));
    }
    // A closed standard output is the reader's wish; the site is made all the same.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
