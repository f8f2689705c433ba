//! Where `millrace load` gets its scenario from: the URLs of the command line, or a file.

use std::path::Path;

use millrace_load::scenario::{Origin, Scenario};
use millrace_load::source::{Problem, access_log, har, scenario_file, url_list};
use millrace_load::url::Url;

use super::args::{LoadArgs, SourceArgs};
use crate::failure::{Explain, Failure};
use crate::warm::sitemap::{self, Sitemap};

/// The scenario, before the command line's options are put into it.
pub fn scenario(args: &LoadArgs) -> Result<Scenario, Failure> {
    let urls = urls(&args.urls)?;
    let source = &args.source;
    let origin = urls.first().map(|url| &url.origin);
    if let Some(path) = &source.scenario {
        let text = read(path)?;
        return scenario_file::read(&text, origin).map_err(|problems| wrong(path, &problems));
    }
    if let Some(path) = &source.urls_from {
        return url_list::read(&read(path)?, origin).map_err(|problems| wrong(path, &problems));
    }
    if let Some(path) = &source.sitemap {
        return of_sitemap(path, origin);
    }
    if let Some(path) = &source.from_har {
        return of_recording(path);
    }
    let Some(origin) = origin else {
        return Err(
            Failure::new("nothing says which server is meant").next("name it: millrace load http://HOST/")
        );
    };
    if let Some(path) = &source.replay {
        return of_log(path, origin, source);
    }
    let targets = urls.iter().map(|url| (1, url.target.clone())).collect();
    Ok(Scenario::weighted(origin.clone(), targets))
}

/// The URLs as typed; all of one server.
fn urls(texts: &[String]) -> Result<Vec<Url>, Failure> {
    let mut urls = Vec::new();
    for text in texts {
        let with_scheme = if text.contains("://") { text.clone() } else { format!("http://{text}") };
        urls.push(Url::parse(&with_scheme).or_fail(|| format!("{text} can't be loaded"))?);
    }
    if let Some(first) = urls.first().map(|url: &Url| &url.origin)
        && let Some(other) = urls.iter().map(|url| &url.origin).find(|other| *other != first)
    {
        return Err(Failure::new(format!("{other} is another server than {first}"))
            .next("a load test is of one server: run one for each"));
    }
    Ok(urls)
}

fn of_sitemap(path: &Path, origin: Option<&Origin>) -> Result<Scenario, Failure> {
    let list = match sitemap::read(&read(path)?) {
        Some(Sitemap::Pages(urls)) if !urls.is_empty() => urls,
        Some(Sitemap::Index(_)) => {
            return Err(Failure::new(format!("{} is an index of sitemaps", path.display()))
                .next("take one of the sitemaps that it lists"));
        }
        _ => {
            return Err(Failure::new(format!("{} is no sitemap with pages in it", path.display()))
                .next("fetch the site's sitemap.xml into a file, or give a list of URLs with --urls-from"));
        }
    };
    // A sitemap names the public host; the server under test is the one of the command line.
    let targets: Vec<(u32, String)> =
        list.iter().filter_map(|url| Url::parse(url).ok()).map(|url| (1, url.target)).collect();
    let own = list.iter().find_map(|url| Url::parse(url).ok()).map(|url| url.origin);
    match origin.cloned().or(own) {
        Some(origin) => Ok(Scenario::weighted(origin, targets)),
        None => Err(Failure::new(format!("there is no URL in {}", path.display()))),
    }
}

fn of_recording(path: &Path) -> Result<Scenario, Failure> {
    let recording = har::read(&read(path)?).map_err(|problem| wrong(path, &[problem]))?;
    if recording.foreign > 0 {
        eprintln!("millrace: {} requests to other servers are left out", recording.foreign);
    }
    Ok(recording.scenario)
}

fn of_log(path: &Path, origin: &Origin, source: &SourceArgs) -> Result<Scenario, Failure> {
    let replay =
        access_log::read(&read(path)?, origin, source.speed).map_err(|problem| wrong(path, &[problem]))?;
    if replay.other_methods > 0 {
        eprintln!("millrace: {} requests that were neither GET nor HEAD are left out", replay.other_methods);
    }
    if let Some(problem) = &replay.first_unreadable {
        eprintln!("millrace: {} lines of {} are left out; {problem}", replay.unreadable, path.display());
    }
    Ok(replay.scenario)
}

/// The text of a file; bytes that are no UTF-8 are replaced, as they occur in logs.
pub fn read(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path).or_fail(|| format!("{} can't be read", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn wrong(path: &Path, problems: &[Problem]) -> Failure {
    let failure = Failure::new(format!("{} can't be used", path.display()));
    problems.iter().fold(failure, |failure, problem| failure.detail(problem.to_string()))
}
