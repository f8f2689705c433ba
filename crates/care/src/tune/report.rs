//! What the tuner says: text, JSON, a unified diff, and the reference page.

use std::fmt::Write;

use serde_json::{Value, json};
use similar::TextDiff;

use super::Server;
use super::budget::MB;
use super::journal::{Done, KernelValue};
use super::proposal::{NextValue, OwnFile, Place, Proposal, Proposed};
use super::retired::RETIRED;
use super::root::Root;
use super::table::{Layer, rows};

/// The machine, the budget and the rows, as text; `verbose` adds evidence and sources, and what stays as it is.
pub fn text(proposal: &Proposal, verbose: bool) -> String {
    let mut out = String::new();
    // Writing to memory can't fail.
    let _ =
        write_machine(&mut out, proposal).and_then(|()| write_budget(&mut out, proposal)).and_then(|()| {
            let mut title = String::new();
            for proposed in &proposal.rows {
                write_row(&mut out, &mut title, proposed, verbose)?;
            }
            write_host(&mut out, proposal)?;
            let kept =
                proposal.rows.iter().filter(|proposed| matches!(proposed.next, NextValue::Keep(_))).count();
            if kept > 0 && !verbose {
                writeln!(
                    out,
                    "\nAs they are: {kept} settings; --verbose names them and why, and the sources of all."
                )?;
            }
            Ok(())
        });
    out
}

fn write_machine(out: &mut String, proposal: &Proposal) -> std::fmt::Result {
    let machine = &proposal.machine;
    let kernel =
        if machine.kernel.is_empty() { String::new() } else { format!(", Linux {}", machine.kernel) };
    let plural = if machine.cores == 1 { "" } else { "s" };
    writeln!(
        out,
        "machine   {} MB of memory ({}), {} core{plural}{kernel}",
        machine.memory / MB,
        machine.memory_from,
        machine.cores
    )?;
    match &machine.database {
        Ok(database) => writeln!(out, "database  {}", database.name())?,
        Err(why) => writeln!(out, "database  {why}")?,
    }
    if proposal.server == Server::Nginx {
        let nginx = machine.nginx.as_ref().map_or("another server", |_| "nginx");
        writeln!(out, "server    {nginx}; --server millrace computes for Millrace")?;
    }
    if let (true, Ok(fpm)) = (proposal.fpm, &machine.fpm) {
        let (count, plural) = (fpm.pools.len(), if fpm.pools.len() == 1 { "" } else { "s" });
        writeln!(out, "php-fpm   PHP {} with {count} pool{plural}", fpm.version)?;
    }
    if let Some(sign) = &machine.container {
        writeln!(
            out,
            "container yes ({sign}): it has its host's kernel, so kernel and limits are for the host to set"
        )?;
    }
    Ok(())
}

fn write_budget(out: &mut String, proposal: &Proposal) -> std::fmt::Result {
    let budget = &proposal.budget;
    writeln!(out, "\nbudget    {} % of {} MB", proposal.percent, budget.memory / MB)?;
    for (name, bytes) in budget.parts().into_iter().filter(|(_, bytes)| *bytes > 0) {
        writeln!(out, "  {name:<15} {:>8.1} MB", bytes as f64 / MB as f64)?;
    }
    writeln!(out, "  {:<15} {:>8.1} MB", "sum", budget.total as f64 / MB as f64)?;
    writeln!(
        out,
        "  {:<15} {:>8.1} MB: the system, and peaks of single scripts",
        "head-room",
        budget.headroom() as f64 / MB as f64
    )
}

fn write_row(out: &mut String, title: &mut String, proposed: &Proposed, verbose: bool) -> std::fmt::Result {
    let row = proposed.row;
    let now = proposed.now.as_deref().unwrap_or("unknown");
    let (line, place, evidence) = match &proposed.next {
        NextValue::Keep(_) if !verbose => return Ok(()),
        NextValue::Keep(why) => (format!("{}: as it is ({why})", row.name), None, None),
        NextValue::Set { value, evidence, place } if now == value => {
            (format!("{} = {value} (as now)", row.name), Some(place), Some(evidence))
        }
        NextValue::Set { value, evidence, place } => {
            (format!("{} = {value} (now {now})", row.name), Some(place), Some(evidence))
        }
    };
    if let Some(place) = place {
        let new = match place {
            Place::File(path) => format!("{}: /{path}", row.layer.name()),
            Place::Host(how) => format!("{}: on the host; {how}", row.layer.name()),
            Place::Hand(how) => format!("{}: {how}", row.layer.name()),
        };
        if new != *title {
            writeln!(out, "\n{new}")?;
            *title = new;
        }
    }
    writeln!(out, "  {line}")?;
    writeln!(out, "      {}", row.reason)?;
    if verbose {
        if let Some(evidence) = evidence {
            writeln!(out, "      from: {evidence}")?;
        }
        writeln!(out, "      source: {}", row.source.join("; "))?;
    }
    Ok(())
}

/// The command with which the host would start this container.
fn write_host(out: &mut String, proposal: &Proposal) -> std::fmt::Result {
    let mut options = Vec::new();
    for proposed in &proposal.rows {
        let (NextValue::Set { value, place: Place::Host(_), .. }, row) = (&proposed.next, proposed.row)
        else {
            continue;
        };
        match row.layer {
            Layer::Limits => options.push(format!("--ulimit nofile={value}")),
            _ if row.is_of_namespace() && value.contains(' ') => {
                options.push(format!("--sysctl '{}={value}'", row.name))
            }
            _ if row.is_of_namespace() => options.push(format!("--sysctl {}={value}", row.name)),
            _ => {}
        }
    }
    match options.is_empty() {
        true => Ok(()),
        false => writeln!(out, "\nFor this container, with Docker: docker run {}", options.join(" ")),
    }
}

/// The same for programs. Members are only ever added.
pub fn json(proposal: &Proposal) -> Value {
    let row = |proposed: &Proposed| {
        let (then, evidence, place, keep) = match &proposed.next {
            NextValue::Keep(why) => (None, None, None, Some(why)),
            NextValue::Set { value, evidence, place } => (Some(value), Some(evidence), Some(place), None),
        };
        let place = place.map(|place| match place {
            Place::File(path) => json!({"file": format!("/{path}")}),
            Place::Host(how) => json!({"host": how}),
            Place::Hand(how) => json!({"by_hand": how}),
        });
        json!({
            "layer": proposed.row.layer.name(), "name": proposed.row.name, "now": proposed.now, "then": then,
            "place": place, "kept": keep, "reason": proposed.row.reason, "evidence": evidence,
            "rule": proposed.row.how, "source": proposed.row.source,
        })
    };
    let budget = &proposal.budget;
    let machine = &proposal.machine;
    let parts: serde_json::Map<String, Value> =
        budget.parts().iter().map(|(name, bytes)| (name.replace(' ', "_"), json!(bytes))).collect();
    json!({
        "machine": {
            "memory": machine.memory, "memory_from": machine.memory_from, "cores": machine.cores, "kernel": machine.kernel,
            "container": machine.container, "systemd": machine.has_systemd,
            "server": match proposal.server { Server::Millrace => "millrace", Server::Nginx => "nginx" },
            "php_fpm": machine.fpm.as_ref().ok().filter(|_| proposal.fpm).map(|fpm| &fpm.version),
            "database": machine.database.as_ref().ok().map(super::machine::Database::name),
        },
        "budget": {
            "percent": proposal.percent, "total": budget.total, "parts": parts, "head_room": budget.headroom(),
        },
        "rows": proposal.rows.iter().map(row).collect::<Value>(),
        "files": proposal.files.iter().map(|file| json!({"path": format!("/{}", file.path), "text": file.text})).collect::<Value>(),
        "configuration": proposal.configuration(), "by_hand": proposal.by_hand(),
    })
}

/// What applying or taking back has done, for programs.
pub fn done(done: &Done) -> Value {
    let value =
        |value: &KernelValue| json!({"name": value.name, "wanted": value.wanted, "problem": value.problem});
    json!({
        "files": done.files.iter().map(|path| format!("/{path}")).collect::<Value>(),
        "kernel": done.kernel.iter().map(value).collect::<Value>(),
    })
}

/// What applying has done, and what is still to do before the rest is in force.
pub fn applied(proposal: &Proposal, done: &Done) -> String {
    let mut out = written("wrote", &done.files);
    out.push_str(&in_force("in force", &done.kernel));
    let machine = &proposal.machine;
    let has = |layer| proposal.files.iter().any(|file: &OwnFile| file.layer == layer);
    let mut todo = Vec::new();
    if !machine.root.is_live() {
        todo.push("the values come into force when this system is started".to_owned());
    } else {
        if has(Layer::Limits) {
            let places = ["etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];
            let has_unit =
                places.iter().any(|folder| machine.root.has(&format!("{folder}/millrace.service")));
            todo.push(match has_unit {
                true => "LimitNOFILE: systemctl daemon-reload && systemctl restart millrace".to_owned(),
                false => "LimitNOFILE: there is no unit millrace.service; it counts as soon as there is one"
                    .to_owned(),
            });
        }
        if let (true, Ok(database)) = (has(Layer::Database), &machine.database) {
            let unit = database.unit();
            todo.push(restart(machine.has_systemd, &database.name(), unit));
        }
        if let (true, Ok(fpm)) = (has(Layer::Fpm) || has(Layer::Php), &machine.fpm) {
            todo.push(restart(machine.has_systemd, "php-fpm", &fpm.unit()));
        }
        if has(Layer::Nginx) {
            todo.push("nginx: nginx -s reload".to_owned());
        }
    }
    if let Err(why) = &machine.database {
        todo.push(format!("the database is left out: {why}"));
    }
    todo.extend(proposal.by_hand());
    let lines = proposal.configuration();
    if !lines.is_empty() {
        todo.push(
            "PHP and Millrace: put these lines into the configuration, then `millrace reload`:".to_owned(),
        );
    }
    for (at, line) in todo.iter().enumerate() {
        let _ = writeln!(out, "{:<10} {line}", if at == 0 { "to do" } else { "" });
    }
    let indent = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") };
    if !lines.is_empty() {
        out.push('\n');
    }
    out.extend(lines.lines().map(indent));
    out
}

fn restart(has_systemd: bool, name: &str, unit: &str) -> String {
    if has_systemd { format!("{name}: systemctl restart {unit}") } else { format!("{name}: restart it") }
}

/// What taking back has done.
pub fn undone(done: &Done) -> String {
    let mut out = written("deleted", &done.files);
    out.push_str(&in_force("put back", &done.kernel));
    out.push_str("to do      restart what runs with these settings: the database, php-fpm, nginx, Millrace; take your lines out of Millrace's configuration\n");
    out
}

fn written(what: &str, files: &[String]) -> String {
    files.iter().map(|file| format!("{what:<10} /{file}\n")).collect()
}

fn in_force(what: &str, values: &[KernelValue]) -> String {
    let good = values.iter().filter(|value| value.problem.is_none()).count();
    let mut out = String::new();
    if good > 0 {
        let _ = writeln!(out, "{what:<10} {good} settings of the kernel, each read again");
    }
    for value in values {
        if let Some(problem) = &value.problem {
            let _ = writeln!(out, "not so     {} = {}: {problem}", value.name, value.wanted);
        }
    }
    out
}

/// Lines around a change in a diff: our files have few, and all of them are shown.
const CONTEXT: usize = 10_000;

/// A unified diff of the files now and then; `patch -p1` would make the same change.
pub fn diff(root: &Root, files: &[OwnFile]) -> String {
    files.iter().map(|file| diff_of(&file.path, root.read(&file.path).ok().as_deref(), &file.text)).collect()
}

fn diff_of(path: &str, old: Option<&str>, new: &str) -> String {
    if old == Some(new) {
        return String::new();
    }
    let name = if old.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() };
    let diff = TextDiff::from_lines(old.unwrap_or(""), new);
    diff.unified_diff().context_radius(CONTEXT).header(&name, &format!("b/{path}")).to_string()
}

/// The table of settings for `docs/tune-settings.md`.
pub fn page() -> String {
    let mut out = String::from(
        "| layer | setting | value | what it does | source |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in rows() {
        let least = if row.is_least { "; a higher value stays" } else { "" };
        let source = row.source.join("; ");
        let _ = writeln!(
            out,
            "| {} | `{}` | {}{least} | {} | {source} |",
            row.layer.name(),
            row.name,
            row.how,
            row.reason
        );
    }
    out.push_str("\n## What needs no setting\n\nThe sources set these, too; Millrace, or the software of today, needs no setting for them.\n\n| source's setting | why it is not set |\n| --- | --- |\n");
    for (what, why) in RETIRED {
        let _ = writeln!(out, "| {what} | {why} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::proposal::tests::{tree, web_tree, wish};
    use super::*;

    #[test]
    fn what_people_read() {
        let tree = tree();
        let proposal = Proposal::of(&wish(&tree)).expect("computed");
        let short = text(&proposal, false);
        for line in [
            "machine   2048 MB of memory (/proc/meminfo), 2 cores\n",
            "database  MariaDB 10.11.19\n",
            "\nbudget    75 % of 2048 MB\n  database ",
            "\nkernel: /etc/sysctl.d/60-millrace.conf\n  net.core.somaxconn = ",
            "  vm.swappiness = 10 (now 60)\n",
            "\nphp: in Millrace's configuration\n",
            "\nAs they are: ",
        ] {
            assert!(short.contains(line), "{line:?} is not in {short}");
        }
        let tree = web_tree(&[]);
        let nginx = Proposal::of(&wish(&tree)).expect("computed");
        let all = text(&nginx, false);
        for line in [
            "server    nginx; --server millrace computes for Millrace\nphp-fpm   PHP 8.2 with 1 pool\n",
            "\nphp-fpm: /etc/php/8.2/fpm/pool.d/zz-millrace.conf\n  pm = dynamic (as now)\n",
            "  pm.max_children = 10 (now 5)\n",
            "\nnginx: by hand: /etc/nginx/nginx.conf, line 3: `worker_connections 6848;` instead of `worker_connections 768;`",
            "\nnginx: /etc/nginx/conf.d/60-millrace.conf\n  open_file_cache = max=10000 inactive=30s (now off)\n",
        ] {
            assert!(all.contains(line), "{line:?} is not in {all}");
        }
        assert!(!all.contains("page cache ") && !all.contains("millrace: in"), "{all}");
        let done = applied(&nginx, &Done::default());
        assert!(done.contains("worker_connections = 6848, by hand: ") && !done.contains("[php"), "{done}");
        let long = text(&proposal, true);
        assert!(long.contains("  fs.file-max: as it is (9223372036854775807 is there already"), "{long}");
        assert!(long.contains("      source: WordPress for 10,000 clients/s on 2 GB (64); LAMP"), "{long}");
    }

    #[test]
    fn what_programs_read() {
        let tree = tree();
        let json = json(&Proposal::of(&wish(&tree)).expect("computed"));
        let parts = json["budget"]["parts"].as_object().expect("parts");
        let sum: u64 = parts.values().filter_map(Value::as_u64).sum();
        assert_eq!(Some(sum), json["budget"]["total"].as_u64());
        assert_eq!(json["files"][0]["path"], "/etc/sysctl.d/60-millrace.conf");
        assert!(json["rows"].as_array().is_some_and(|rows| rows.len() > 35));
    }

    #[test]
    fn a_diff() {
        assert_eq!(diff_of("etc/x", Some("a\n"), "a\n"), "");
        assert_eq!(diff_of("etc/x", None, "a\nb\n"), "--- /dev/null\n+++ b/etc/x\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(
            diff_of("etc/x", Some("a\nb\nc\n"), "a\nd\nc\ne\n"),
            "--- a/etc/x\n+++ b/etc/x\n@@ -1,3 +1,4 @@\n a\n-b\n+d\n c\n+e\n"
        );
    }

    #[test]
    fn the_page_is_up_to_date() {
        let committed = include_str!("../../../../docs/tune-settings.md");
        assert!(committed.ends_with(&page()), "run `cargo run -p millrace-care --example reference`");
    }
}
