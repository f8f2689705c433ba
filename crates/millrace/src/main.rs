//! The command line of Millrace: reads arguments, calls the crates that do the work, prints the results.
//!
//! Exit status: 0 success, 1 failure (the reason and the next step are on standard error), 2 wrong use.

mod admin;
mod args;
mod failure;
mod hooks;
mod http;
mod load;
mod object_cache;
mod purge;
mod serve;
#[cfg(test)]
mod testing;
mod warm;
mod wordpress;

use args::{Arguments, Command, Hooks, New, ObjectCache};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(args) => serve::serve(&args),
        Command::Check(args) => serve::check(&args),
        Command::Explain { setting } => serve::explain(setting.as_deref()),
        Command::New(New::WordPress(args)) => wordpress::create(&args),
        Command::Reload(args) => admin::reload(&args),
        Command::Purge(args) => purge::purge(&args),
        Command::Hooks(Hooks::Enable(args)) => hooks::enable(&args),
        Command::Hooks(Hooks::Disable(args)) => hooks::disable(&args),
        Command::Hooks(Hooks::Status(args)) => hooks::status(&args),
        Command::Warm(args) => warm::warm(&args),
        Command::Load(args) => load::load(&args),
        Command::ObjectCache(ObjectCache::Enable(args)) => object_cache::enable(&args),
        Command::ObjectCache(ObjectCache::Disable(args)) => object_cache::disable(&args),
        Command::ObjectCache(ObjectCache::Status(args)) => object_cache::status(&args),
        Command::Status { json, admin } => admin::status(&admin, json),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
