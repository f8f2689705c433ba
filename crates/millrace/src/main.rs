//! The command line of Millrace: reads arguments, calls the crates that do the work, prints the results.
//!
//! Exit status: 0 success, 1 failure (the reason and the next step are on standard error; of `doctor`: it has found an error), 2 wrong use.

mod admin;
mod adopt;
mod args;
mod cache;
mod doctor;
mod failure;
mod hooks;
mod htaccess;
mod http;
mod load;
mod object_cache;
mod purge;
mod rights;
mod serve;
mod shield;
#[cfg(test)]
mod testing;
mod top;
mod tune;
mod warm;
mod wordpress;

use args::{Arguments, Cache, Command, Hooks, New, ObjectCache};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(args) => serve::serve(&args),
        Command::Check { htaccess: Some(folder), config } => htaccess::check(folder.as_deref(), &config),
        Command::Check { htaccess: None, config } => serve::check(&config),
        Command::Explain { setting } => serve::explain(setting.as_deref()),
        Command::New(New::WordPress(args)) => wordpress::create(&args),
        Command::Reload(args) => admin::reload(&args),
        Command::Top(args) => top::top(&args),
        Command::Purge(args) => purge::purge(&args),
        Command::Cache(Cache::Explain(args)) => cache::explain(&args),
        Command::Shield(command) => shield::shield(&command),
        Command::Hooks(Hooks::Enable(args)) => hooks::enable(&args),
        Command::Hooks(Hooks::Disable(args)) => hooks::disable(&args),
        Command::Hooks(Hooks::Status(args)) => hooks::status(&args),
        Command::Warm(args) => warm::warm(&args),
        Command::Load(args) => load::load(&args),
        Command::Doctor(args) => match doctor::doctor(&args) {
            Ok(has_errors) => return if has_errors { ExitCode::FAILURE } else { ExitCode::SUCCESS },
            Err(failure) => Err(failure),
        },
        Command::Adopt(args) => adopt::adopt(&args),
        Command::Tune(args) => tune::tune(&args),
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
