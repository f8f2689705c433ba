//! The command line as typed. Scripts rely on it: options are added, never renamed.

use crate::adopt::AdoptArgs;
use crate::load::LoadArgs;
use clap::{Args, Parser, Subcommand};
use millrace_load::source::time::duration;
use std::path::PathBuf;
use std::time::Duration;

/// Web server, PHP process manager, page cache and load tester for PHP sites: WordPress, Drupal, plain PHP
#[derive(Debug, Parser)]
#[command(name = "millrace", version, max_term_width = 100)]
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
    /// Without a configuration file, Millrace serves SITE_DIR (or the current folder) on 127.0.0.1:8080 and detects the
    /// application. SIGTERM shuts down gracefully, SIGHUP reloads the configuration.
    Serve(ConfigArgs),
    /// Check a configuration: list every problem with its line and how to fix it; exit status 1 if there is an error
    Check {
        /// Instead, list the lines of .htaccess files that are not applied, below FOLDER or the sites' roots; exit status 1
        /// if one of them closes what it covers
        #[arg(long, value_name = "FOLDER", num_args = 0..=1)]
        htaccess: Option<Option<std::path::PathBuf>>,
        /// The configuration.
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Create a new site
    #[command(subcommand)]
    New(New),
    /// Reload the configuration of the running server, without dropping a connection
    Reload(AdminArgs),
    /// Show the status of the running server: sites, connections, requests, PHP workers, memory
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Which server to ask.
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Watch the running server in the terminal: sites, PHP pools, hit ratio, response times, slowest scripts
    ///
    /// Keys: q quits, s sorts, r reverses, / filters, j and k select a site, p purges its pages after a question.
    Top(TopArgs),
    /// Purge cached pages
    ///
    /// By default, purged pages become stale: the next visitor gets a new page, and the stale one only if PHP fails.
    /// --hard deletes them.
    Purge(PurgeArgs),
    /// Look into the page cache of the running server
    #[command(subcommand)]
    Cache(Cache),
    /// Show, order and end bans of the running server
    #[command(subcommand)]
    Shield(Shield),
    /// Let WP-CLI, the system's cron and other PHP processes purge the pages of a WordPress, too
    ///
    /// PHP that Millrace runs needs none of this.
    #[command(subcommand)]
    Hooks(Hooks),
    /// Warm up the page cache: fetch pages before visitors request them
    ///
    /// The server itself fetches the pages, only while PHP workers are idle. Ctrl-C stops the warm-up; pages cached so
    /// far stay cached.
    Warm(WarmArgs),
    /// Turn the object cache of a WordPress on or off: the server keeps what WordPress has read from its database
    #[command(subcommand)]
    ObjectCache(ObjectCache),
    /// Load-test a server: constant or rising load, in concurrent users or arrivals per second, up to its breaking
    /// point
    Load(Box<LoadArgs>),
    /// Name what holds the machine, the server or a site back, with evidence and cure; exit status 1 if there is an error
    ///
    /// Looks twice, a few seconds apart, at the kernel, Millrace, PHP, the database and the sites, and changes nothing. Best
    /// run as root, while there is load.
    Doctor(DoctorArgs),
    /// Compute settings for kernel, limits, database, PHP and Millrace within one memory budget, each with its reason; apply
    /// them to files of its own, and take them back
    ///
    /// Without --apply or --undo it changes nothing.
    Tune(TuneArgs),
    /// Convert the configuration of nginx, Apache, OpenLiteSpeed, Caddy or NGINX Unit; exit status 1 if the result has problems
    ///
    /// Nothing is dropped silently: comments in the result name each directive that is not carried over, why, and what to
    /// do instead. With --replay it compares two servers instead.
    Adopt(AdoptArgs),
    /// Explain a setting: what it does, its range, its default on this machine, and why
    Explain {
        /// Name of a setting, such as http.keep_alive, or of a section, such as http; default: list all settings
        setting: Option<String>,
    },
}

/// Where the configuration comes from.
#[derive(Args, Clone, Debug, Default)]
pub struct ConfigArgs {
    /// Folder to serve: the document root of a single site
    pub site_dir: Option<PathBuf>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on: 127.0.0.1:8080, [::1]:8080, :8080 or unix:/PATH; may be repeated
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Vec<String>,
    /// Serve HTTPS with a self-signed certificate, generated for this run: on the addresses of --listen, or on
    /// 127.0.0.1:8443 in addition to HTTP
    #[arg(long)]
    pub tls_self_signed: bool,
    /// Application profile: wordpress, joomla, generic and others (docs/applications.md); default: detect it
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// php.ini file for PHP
    #[arg(long, value_name = "FILE")]
    pub php_ini: Option<PathBuf>,
    /// Override a setting for this run, such as http.keep_alive=5s; may be repeated
    #[arg(long, value_name = "SETTING=VALUE")]
    pub set: Vec<String>,
}

/// Which running server to ask.
#[derive(Args, Clone, Debug, Default)]
pub struct AdminArgs {
    /// Admin address of the server: unix:/PATH or 127.0.0.1:PORT; default: as in the configuration
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// Configuration file of the server
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Override a setting, such as admin.listen=127.0.0.1:9100; may be repeated
    #[arg(long, value_name = "SETTING=VALUE")]
    pub set: Vec<String>,
}

/// `millrace top`
#[derive(Args, Clone, Debug, Default)]
pub struct TopArgs {
    /// Print one frame of 80 columns and 24 lines, and exit
    #[arg(long)]
    pub once: bool,
    /// Which server to ask.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `millrace purge`
#[derive(Args, Clone, Debug, Default)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["urls", "tag", "all"])))]
pub struct PurgeArgs {
    /// Pages to purge: https://HOST/PATH, or /PATH if there is only one site or --site names it. A trailing * matches
    /// every URL with that prefix; a URL without a query string matches any query string
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// Purge pages with this tag; may be repeated
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// Purge all pages: of --site, or of all sites
    #[arg(long)]
    pub all: bool,
    /// Site to purge, by any of its names
    #[arg(long, value_name = "NAME")]
    pub site: Option<String>,
    /// Delete pages at once instead of marking them stale, so that they are never served again, even if PHP fails
    #[arg(long)]
    pub hard: bool,
    /// Which server to ask.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `millrace cache`
#[derive(Debug, Subcommand)]
pub enum Cache {
    /// Explain why a page is or isn't cached
    ///
    /// Shows what the server would do with a request for this page: its key, what is stored, what purges it, what PHP
    /// said lately, and what bypassed the cache. No script runs, and nothing is counted.
    Explain(CacheExplainArgs),
}

/// `millrace cache explain`
#[derive(Args, Clone, Debug, Default)]
pub struct CacheExplainArgs {
    /// The page: https://HOST/PATH, or /PATH if there is only one site
    #[arg(value_name = "URL")]
    pub url: String,
    /// A cookie of the visitor; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub cookie: Vec<String>,
    /// A header field of the request; may be repeated
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// The visitor's address, for bans and limits; default: this machine
    #[arg(long, value_name = "ADDRESS")]
    pub client: Option<std::net::IpAddr>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Which server to ask.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `millrace shield`
#[derive(Debug, Subcommand)]
pub enum Shield {
    /// List the bans in force; those that end first come first
    List(ShieldArgs),
    /// Ban an address or a network, on all event loops with their next request
    Ban {
        /// 192.0.2.1, 192.0.2.0/24, 2001:db8::/48
        #[arg(value_name = "NETWORK")]
        network: String,
        /// Length of the ban, such as 90s, 2h; default: shield.ban_time
        #[arg(long, value_name = "TIME", value_parser = ban_time)]
        time: Option<Duration>,
        /// Shown by `list` and `explain`
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// The rest.
        #[command(flatten)]
        args: ShieldArgs,
    },
    /// End the ban of exactly this address or network
    Unban {
        /// As `list` shows it
        #[arg(value_name = "NETWORK")]
        network: String,
        /// The rest.
        #[command(flatten)]
        args: ShieldArgs,
    },
    /// Show what is known of an address: ban, lists, crawler, and what it may still send
    Explain {
        /// 192.0.2.1 or 2001:db8::1
        #[arg(value_name = "ADDRESS")]
        address: String,
        /// The rest.
        #[command(flatten)]
        args: ShieldArgs,
    },
}

/// What all commands of the shield take.
#[derive(Args, Clone, Debug, Default)]
pub struct ShieldArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Which server to ask.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `90s`, `2h`.
fn ban_time(text: &str) -> Result<Duration, String> {
    let time = duration(text).map_err(|error| error.to_string())?;
    let bounds = Duration::from_secs(1)..=Duration::from_secs(365 * 24 * 3_600);
    Some(time).filter(|time| bounds.contains(time)).ok_or_else(|| "write 1s to 8760h".to_owned())
}

/// `millrace warm`
#[derive(Args, Clone, Debug)]
pub struct WarmArgs {
    /// Pages, sitemaps or sitemap indexes: https://HOST/PATH, or /PATH if there is only one site
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// Maximum number of pages
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub most: usize,
    /// Pages to fetch in parallel
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=16))]
    pub jobs: usize,
    /// Which server to ask.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `millrace doctor`
#[derive(Args, Clone, Debug, Default)]
pub struct DoctorArgs {
    /// Folder of a site, or its URL; default: all sites of the server
    #[arg(value_name = "SITE_DIR|URL")]
    pub site: Option<String>,
    /// Print JSON (docs/doctor-schema.json)
    #[arg(long)]
    pub json: bool,
    /// Look again and again until Ctrl-C; one report per look
    #[arg(long)]
    pub watch: bool,
    /// Time between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
    /// Name also the checks that found nothing, and why others could not look
    #[arg(long, short)]
    pub verbose: bool,
    /// Explain a check instead: what it looks at, from when on it is a finding, and where that comes from
    #[arg(long, value_name = "CHECK")]
    pub explain: Option<String>,
    /// Which server to ask.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `millrace tune`
#[derive(Args, Clone, Debug, Default)]
#[command(group(clap::ArgGroup::new("action").args(["dry_run", "diff", "apply", "undo", "confirm_now", "guard"])))]
pub struct TuneArgs {
    /// How much of the memory may be planned; the rest is head-room for the system and peaks of scripts
    #[arg(long, value_name = "PERCENT", default_value = "75%", value_parser = percent)]
    pub memory: u64,
    /// What the machine is for
    #[arg(long = "for", value_name = "WHAT", default_value = "wordpress", value_parser = ["wordpress", "shop"])]
    pub purpose: String,
    /// What serves the sites: millrace, or nginx or another server with php-fpm [default: millrace if it has a configuration here
    /// or runs, else nginx if php-fpm is installed]
    #[arg(long, value_name = "SERVER", value_parser = ["millrace", "nginx"])]
    pub server: Option<String>,
    /// Leave a setting as it is, such as net.core.somaxconn; may be repeated
    #[arg(long, value_name = "SETTING")]
    pub without: Vec<String>,
    /// Show the settings only; the default
    #[arg(long)]
    pub dry_run: bool,
    /// Show what would change in files, as a unified diff
    #[arg(long)]
    pub diff: bool,
    /// Write the files and set the kernel's values
    #[arg(long)]
    pub apply: bool,
    /// Take all of it back unless `millrace tune --confirm-now` is run within this time, such as 2m
    #[arg(long, value_name = "TIME", requires = "apply", value_parser = time)]
    pub confirm: Option<Duration>,
    /// Keep what `--apply --confirm` has applied
    #[arg(long)]
    pub confirm_now: bool,
    /// Take everything back that was applied
    #[arg(long)]
    pub undo: bool,
    /// Folder of another file system, such as an image: files are read and written below it, and no kernel is touched
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Name also what stays as it is, the figures behind each value, and the sources
    #[arg(long, short)]
    pub verbose: bool,
    /// The guardian of --confirm: when it is due, in seconds since 1970.
    #[arg(long, hide = true)]
    pub guard: Option<u64>,
    /// Which server to ask.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `75%` or `75`.
fn percent(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|percent| (10..=95).contains(percent)).ok_or_else(|| "write 10% to 95%".to_owned())
}

/// `90s`, `2m`, `1h`.
fn time(text: &str) -> Result<Duration, String> {
    let time = duration(text).map_err(|error| error.to_string())?;
    let bounds = Duration::from_secs(1)..=Duration::from_secs(3_600);
    Some(time).filter(|time| bounds.contains(time)).ok_or_else(|| "write 1s to 1h".to_owned())
}

/// `millrace hooks`
#[derive(Debug, Subcommand)]
pub enum Hooks {
    /// Write wp-content/mu-plugins/millrace.php, which purges pages from PHP processes that Millrace does not run
    ///
    /// The plugin leaves its purges in the folder wp-content/.millrace, where the server finds them. No other file is
    /// touched. Run it again after an update of Millrace.
    Enable(SiteArgs),
    /// Remove what `enable` has written
    Disable(SiteArgs),
    /// Show whether the plugin is there, and whether a server reads its purges
    Status(SiteArgs),
}

/// A site on this machine.
#[derive(Args, Clone, Debug)]
pub struct SiteArgs {
    /// Folder of the WordPress: the site's document root
    pub site_dir: PathBuf,
}

/// `millrace object-cache`
#[derive(Debug, Subcommand)]
pub enum ObjectCache {
    /// Write the drop-in wp-content/object-cache.php, through which WordPress, WP-CLI and cron use the server's memory
    ///
    /// Another drop-in is never overwritten.
    Enable(ObjectCacheArgs),
    /// Remove the drop-in, if it is Millrace's
    Disable(ObjectCacheArgs),
    /// Show whether the drop-in is there, and whether the server answers it; exit status 1 if it doesn't
    Status(ObjectCacheArgs),
}

/// Which WordPress, and which server.
#[derive(Args, Clone, Debug, Default)]
pub struct ObjectCacheArgs {
    /// Root directory of the site
    pub site_dir: PathBuf,
    /// Content directory of the site, if it is not SITE_DIR/wp-content
    #[arg(long, value_name = "DIR")]
    pub content_dir: Option<PathBuf>,
    /// Which server to ask.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Applications that `millrace new` installs.
#[derive(Debug, Subcommand)]
pub enum New {
    /// Install WordPress, ready to serve: files, configuration with fresh keys, database and first user
    ///
    /// WordPress is downloaded from wordpress.org or, if that is unreachable, from an npm package. Downloads are cached
    /// in $XDG_CACHE_HOME/millrace (or ~/.cache/millrace).
    #[command(name = "wordpress")]
    WordPress(WordPressArgs),
}

/// `millrace new wordpress`
#[derive(Args, Clone, Debug)]
pub struct WordPressArgs {
    /// Folder to create; it must not exist, or must be empty
    pub dir: PathBuf,
    /// Database: sqlite, or mysql://USER:PASSWORD@HOST[:PORT]/NAME (mysql://USER:PASSWORD@localhost/NAME?socket=/PATH for a
    /// Unix socket)
    #[arg(long, value_name = "DATABASE", default_value = "sqlite")]
    pub db: String,
    /// Prefix of the database tables
    #[arg(long, value_name = "PREFIX", default_value = "wp_")]
    pub table_prefix: String,
    /// URL that visitors use; default: http://127.0.0.1:8080 and any other loopback address that the site is served on
    #[arg(long)]
    pub url: Option<String>,
    /// Title of the site
    #[arg(long, default_value = "New site")]
    pub title: String,
    /// Name of the first user, an administrator
    #[arg(long, value_name = "USER", default_value = "admin")]
    pub admin: String,
    /// Password of the first user; `-` reads it from standard input; default: a generated one, printed once
    #[arg(long)]
    pub password: Option<String>,
    /// E-mail address of the first user; default: an address that receives no mail
    #[arg(long)]
    pub email: Option<String>,
    /// Use WordPress from this .zip, .tar.gz or folder instead of downloading it
    #[arg(long, value_name = "ZIP|DIR")]
    pub from: Option<PathBuf>,
    /// Version of WordPress; default: the latest
    #[arg(long, value_name = "V", conflicts_with = "from")]
    pub version: Option<String>,
    /// Only put the files in place; finish the installation in the browser
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
    fn one_thing_to_tune_at_a_time() {
        let parse = |arguments: &[&str]| {
            Arguments::try_parse_from([&["millrace", "tune"], arguments].concat())
                .map(|parsed| parsed.command)
        };
        let Ok(Command::Tune(args)) =
            parse(&["--apply", "--confirm", "2m", "--memory", "60", "--for", "shop"])
        else {
            panic!()
        };
        assert_eq!((args.memory, &*args.purpose, args.confirm), (60, "shop", Some(Duration::from_secs(120))));
        for bad in [
            &["--apply", "--undo"][..],
            &["--confirm", "2m"],
            &["--apply", "--confirm", "0s"],
            &["--apply", "--confirm", "é"],
            &["--apply", "--confirm", "99999999999999999999h"],
            &["--memory", "100%"],
            &["--for", "x"],
            &["--server", "apache"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
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
        let Ok(Command::Cache(Cache::Explain(args))) = parse(&[
            "cache",
            "explain",
            "/a",
            "--cookie",
            "x=1",
            "--cookie",
            "y=2",
            "-H",
            "Accept: a",
            "--json",
        ]) else {
            panic!()
        };
        assert_eq!(
            (&*args.url, args.cookie.len(), &*args.header[0], args.json),
            ("/a", 2, "Accept: a", true)
        );
        assert!(parse(&["cache", "explain"]).is_err() && parse(&["cache"]).is_err());
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
