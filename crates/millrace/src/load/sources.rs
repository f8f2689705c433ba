//! Where `millrace load` gets its scenario from: the URLs of the command line, or a file.

use std::path::Path;

use millrace_load::engine;
use millrace_load::plan::Plan;
use millrace_load::scenario::{Origin, Scenario};
use millrace_load::source::sitemap::{self, MOST_URLS, Sitemap};
use millrace_load::source::{Problem, access_log, har, scenario_file, url_list};
use millrace_load::url::Url;

use super::args::{LoadArgs, ScenarioFileArgs};
use crate::failure::{Explain, Failure};

/// The scenario, before the command line's options are put into it.
pub fn scenario(args: &LoadArgs, plan: &Plan) -> Result<Scenario, Failure> {
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
    if let Some(place) = &source.sitemap {
        return of_sitemap(place, origin, args, plan);
    }
    if let Some(path) = &source.from_har {
        return of_recording(path);
    }
    let Some(origin) = origin else {
        return Err(Failure::new("no server is named").next("name one: millrace load http://HOST/"));
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
        urls.push(Url::parse(&with_scheme).or_fail(|| format!("cannot test {text}"))?);
    }
    if let Some(first) = urls.first().map(|url: &Url| &url.origin)
        && let Some(other) = urls.iter().map(|url| &url.origin).find(|other| *other != first)
    {
        return Err(Failure::new(format!("{other} is not the same server as {first}"))
            .next("a load test has one target server: run one test for each"));
    }
    Ok(urls)
}

/// Sitemaps that are read of an index.
const MOST_SITEMAPS: usize = 200;

/// The pages of a sitemap in a file or at a URL; for an index, the pages of its sitemaps.
fn of_sitemap(
    place: &str,
    origin: Option<&Origin>,
    args: &LoadArgs,
    plan: &Plan,
) -> Result<Scenario, Failure> {
    let text = match Url::parse(place) {
        Ok(url) => fetch(&at(&url, origin), args, plan)?,
        Err(_) => read(Path::new(place))?,
    };
    let mut pages = Vec::new();
    match sitemap::read(&text) {
        Some(Sitemap::Pages(urls)) => pages = urls,
        Some(Sitemap::Index(listed)) => {
            for url in listed.iter().take(MOST_SITEMAPS).filter_map(|url| Url::parse(url).ok()) {
                if let Some(Sitemap::Pages(urls)) = sitemap::read(&fetch(&at(&url, origin), args, plan)?) {
                    pages.extend(urls);
                }
                if pages.len() >= MOST_URLS {
                    break;
                }
            }
        }
        None => {}
    }
    let pages: Vec<Url> = pages.iter().take(MOST_URLS).filter_map(|url| Url::parse(url).ok()).collect();
    // A sitemap names the public host; the server under test is the one of the command line.
    let Some(origin) = origin.or(pages.first().map(|url| &url.origin)).cloned() else {
        return Err(Failure::new(format!("{place} is not a sitemap with pages"))
            .next("give the site's sitemap.xml as a file or URL, or a list of URLs with --urls-from"));
    };
    if pages.is_empty() {
        return Err(Failure::new(format!("{place} lists no pages"))
            .next("give the site's sitemap.xml as a file or URL, or a list of URLs with --urls-from"));
    }
    Ok(Scenario::weighted(origin, pages.into_iter().map(|url| (1, url.target)).collect()))
}

/// The same place on the server under test.
fn at(url: &Url, origin: Option<&Origin>) -> Url {
    Url { origin: origin.unwrap_or(&url.origin).clone(), target: url.target.clone() }
}

fn fetch(url: &Url, args: &LoadArgs, plan: &Plan) -> Result<String, Failure> {
    let address = super::check_target(args, &url.origin)?;
    let content = engine::fetch(plan, url, address).or_fail(|| format!("cannot fetch {url}"))?;
    Ok(String::from_utf8_lossy(&content).into_owned())
}

fn of_recording(path: &Path) -> Result<Scenario, Failure> {
    let recording = har::read(&read(path)?).map_err(|problem| wrong(path, &[problem]))?;
    if recording.foreign > 0 {
        eprintln!("millrace: skipped {} requests to other servers", recording.foreign);
    }
    Ok(recording.scenario)
}

fn of_log(path: &Path, origin: &Origin, source: &ScenarioFileArgs) -> Result<Scenario, Failure> {
    let replay =
        access_log::read(&read(path)?, origin, source.speed).map_err(|problem| wrong(path, &[problem]))?;
    if replay.other_methods > 0 {
        eprintln!("millrace: skipped {} requests that are neither GET nor HEAD", replay.other_methods);
    }
    if let Some(problem) = &replay.first_unreadable {
        eprintln!("millrace: skipped {} lines of {}; {problem}", replay.unreadable, path.display());
    }
    Ok(replay.scenario)
}

/// The text of a file; bytes that are no UTF-8 are replaced, as they occur in logs.
pub fn read(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path).or_fail(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn wrong(path: &Path, problems: &[Problem]) -> Failure {
    let failure = Failure::new(format!("cannot use {}", path.display()));
    problems.iter().fold(failure, |failure, problem| failure.detail(problem.to_string()))
}
