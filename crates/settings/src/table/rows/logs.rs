//! Logs, status and metrics.

use std::path::PathBuf;

use super::{Default, Kind, Page, ROW, Setting};
use crate::plan::Address;
use crate::resolve::View;
use crate::value::Value;

pub(super) static PAGE: Page = Page {
    name: "logs",
    title: "Logs, status and metrics",
    line: "Where to log, and where to serve status and metrics.",
    guide: "observe.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "log.access",
        kind: Kind::Path { word: Some("off") },
        default: Default::Fixed("off"),
        line: "Access log: a file, or `off`. SIGHUP reopens it.",
        reason: "A line costs little, but disks fill up. The writer never delays a request, and drops lines \
                 when the disk is full.",
        example: "\"access.log\"",
        elsewhere: &["access_log", "customlog", "transferlog"],
        ..ROW
    },
    Setting {
        key: "log.access_format",
        kind: Kind::Choice(&[
            ("combined", "the combined format of Apache and nginx, and the seconds that the request took"),
            ("json", "one JSON object per line"),
        ]),
        default: Default::Fixed("combined"),
        line: "Format of the access log.",
        reason: "Every log tool reads combined; JSON has a field for every figure.",
        example: "\"json\"",
        elsewhere: &["log_format", "logformat"],
        ..ROW
    },
    Setting {
        key: "log.error",
        kind: Kind::Path { word: Some("stderr") },
        default: Default::Fixed("stderr"),
        line: "Error log: a file, or `stderr`. SIGHUP reopens it.",
        reason: "systemd and containers collect standard error.",
        example: "\"error.log\"",
        elsewhere: &["error_log", "errorlog"],
        ..ROW
    },
    Setting {
        key: "log.level",
        kind: Kind::Choice(&[
            ("debug", "details for developers of Millrace"),
            ("info", "what the server does"),
            ("warn", "problems that the server has worked around"),
            ("error", "failures"),
        ]),
        default: Default::Fixed("info"),
        line: "Minimum severity to log.",
        reason: "Info is a few lines at start and reload, and none per request.",
        example: "\"warn\"",
        elsewhere: &["loglevel", "log_level", "verbosity"],
        ..ROW
    },
    Setting {
        key: "admin.listen",
        kind: Kind::Address { word: Some("off") },
        default: Default::Computed {
            says: "unix:/run/millrace/admin.sock as root, else unix:$XDG_RUNTIME_DIR/millrace/admin.sock, else \
                   unix:/tmp/millrace-UID/admin.sock",
            from: admin_socket,
        },
        line: "Address for metrics, status and reload: a Unix socket, a loopback address like \
               `127.0.0.1:9180`, or `off`.",
        reason: "Its clients can reload the server and see every URL, so the permissions of the directory \
                 protect it, and it is never open to a network.",
        example: "\"127.0.0.1:9180\"",
        elsewhere: &["stub_status", "pm.status_path", "server_status"],
        restart: Some(|old, new| old.admin.listen != new.admin.listen),
        ..ROW
    },
    Setting {
        key: "admin.token",
        kind: Kind::Secret { least: 16 },
        default: Default::Unset("none: the dashboard only reads"),
        line: "Secret with which the dashboard may purge pages; over TCP, whatever changes something needs it.",
        reason: "A web page that a browser shows must prove that its reader may purge, and on a loopback \
                 address any user of the machine could. Sent as `Authorization: Bearer SECRET`; you type it \
                 into the dashboard once. The commands read it from the configuration, or from the variable \
                 MILLRACE_ADMIN_TOKEN. They need none through a Unix socket, which only its owner can open.",
        example: "\"0d1f6c2be98a47d35b60\"",
        elsewhere: &["secret_file", "api_token"],
        ..ROW
    },
];

/// A socket in a directory that only the server's user can access.
fn admin_socket(view: &View<'_>) -> Value {
    let environment = view.environment();
    let path = match &environment.runtime_dir {
        _ if environment.is_root() => PathBuf::from("/run/millrace/admin.sock"),
        Some(dir) => dir.join("millrace/admin.sock"),
        None => PathBuf::from(format!("/tmp/millrace-{}/admin.sock", environment.uid)),
    };
    Value::Address(Some(Address::Unix(path)))
}
