//! The command line of `millrace adopt`.

use std::path::PathBuf;

use clap::Args;
use millrace_adopt::Format;

/// `millrace adopt`
#[derive(Args, Clone, Debug, Default)]
pub struct AdoptArgs {
    /// Configuration: nginx.conf, apache2.conf or a virtual host, a Caddyfile, httpd_config.conf, or a JSON file of NGINX Unit
    #[arg(value_name = "FILE", required_unless_present = "replay", conflicts_with = "replay")]
    pub file: Option<PathBuf>,
    /// File to write; - is standard output
    #[arg(short = 'o', long, value_name = "FILE", default_value = "-")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// Which server the file is for: nginx, apache, caddy, openlitespeed or unit; default: tell it by its name and content
    #[arg(long, value_name = "SERVER", value_parser = super::format)]
    pub from: Option<Format>,
    /// Keep php-fpm: pass PHP to the addresses that the configuration names
    #[arg(long)]
    pub keep_fpm: bool,
    /// Instead, send the GET and HEAD requests of an access log to two servers, and show what differs; exit status 1 if
    /// anything does
    #[arg(long, value_name = "ACCESS_LOG", requires_all = ["against", "with"])]
    pub replay: Option<PathBuf>,
    /// The server as it was, such as http://127.0.0.1:8080
    #[arg(long, value_name = "URL", requires = "replay")]
    pub against: Option<String>,
    /// The server that replaces it, such as http://127.0.0.1:8081
    #[arg(long, value_name = "URL", requires = "replay")]
    pub with: Option<String>,
    /// Host to ask for, if the log doesn't name it; default: the host of --against
    #[arg(long, value_name = "NAME", requires = "replay")]
    pub host: Option<String>,
    /// Maximum number of different requests to send
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "replay")]
    pub limit: usize,
    /// Maximum number of requests per second, to each server
    #[arg(long, value_name = "N", default_value_t = 50, requires = "replay", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
    /// Confirm that servers outside of this machine and private networks are yours
    #[arg(long, requires = "replay")]
    pub i_own_this_target: bool,
}
