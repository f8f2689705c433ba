//! The seconds of a run as comma-separated values (RFC 4180), a line each, for spreadsheets. Columns are only ever added, at the end.

use std::fmt::Write;

use super::document::{Document, JsonSecond, Latency};
use crate::record::Failure;

/// The seconds of `document`.
pub fn csv(document: &Document) -> String {
    let mut text =
        "second,stage,users,connections,wanted,begun,ok,failed,pages,bytes_in,bytes_out,connects".to_owned();
    for name in ["connect", "tls", "first_byte", "last_byte", "page"] {
        // Writing to memory can't fail.
        let _ = write!(text, ",{name}_p50_us,{name}_p99_us,{name}_max_us");
    }
    text.push_str(",server_cpu,server_memory_bytes,machine_cpu,machine_memory_bytes,tester_cpu");
    for kind in Failure::ALL {
        let _ = write!(text, ",failed_{}", kind.name());
    }
    text.push_str("\r\n");
    for second in &document.seconds {
        line(document, second, &mut text);
    }
    text
}

fn line(document: &Document, second: &JsonSecond, text: &mut String) {
    let JsonSecond {
        at,
        users,
        connections,
        wanted,
        begun,
        ok,
        failed,
        pages,
        bytes_in,
        bytes_out,
        connects,
        ..
    } = second;
    let stage = document.stages.get(second.stage).map_or("", |stage| &stage.name);
    let _ = write!(
        text,
        "{at},{},{users},{connections},{wanted},{begun},{ok},{failed},{pages},{bytes_in},{bytes_out},{connects}",
        quoted(stage)
    );
    for latency in [&second.connect, &second.tls, &second.first_byte, &second.last_byte, &second.page] {
        let Latency { p50_us, p99_us, max_us, .. } = latency;
        let _ = if latency.count == 0 {
            write!(text, ",,,")
        } else {
            write!(text, ",{p50_us},{p99_us},{max_us}")
        };
    }
    let server = second.server.unwrap_or_default();
    let shown = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let memory = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let _ = write!(
        text,
        ",{},{},{},{},{}",
        shown(server.cpu),
        memory(server.memory_bytes),
        shown(server.machine_cpu),
        memory(server.machine_memory_bytes),
        second.tester_cpu
    );
    for kind in Failure::ALL {
        let _ = write!(text, ",{}", second.failures.get(kind.name()).copied().unwrap_or(0));
    }
    text.push_str("\r\n");
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::samples;

    #[test]
    fn a_line_a_second_and_as_many_columns_in_each() {
        let mut document = samples::breaking(1000, 0.6);
        let text = csv(&document);
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), document.seconds.len() + 1);
        let columns = lines[0].split(',').count();
        assert!(lines.iter().all(|line| line.split(',').count() == columns));
        let place = lines[0].split(',').position(|name| name == "failed_reset").unwrap();
        let resets: u64 =
            lines[1..].iter().map(|line| line.split(',').nth(place).unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(resets, document.total.failures["reset"]);
        document.stages[0].name = "0 to 10, \"warm\"".to_owned();
        assert!(csv(&document).contains("\r\n0,\"0 to 10, \"\"warm\"\"\","));
    }
}
