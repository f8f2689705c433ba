//! Users, sandbox and directories of PHP.

use super::{BOTH, Default, Kind, Page, Setting, Word};

pub(super) static PAGE: Page = Page {
    name: "php-isolation",
    title: "Users, sandbox and directories of PHP",
    line: "Which user runs a site's scripts, and which files and functions they may use.",
    guide: "php.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "php.user",
        kind: Kind::Name,
        default: Default::Unset("the user that runs the server"),
        line: "User that PHP runs as. Only a server started as root can change it.",
        reason: "Sites of different users can't read each other's files, so a hole in one site stays there.",
        example: "\"www-data\"",
        elsewhere: &["username", "suexecusergroup", "listen.owner"],
        ..BOTH
    },
    Setting {
        key: "php.group",
        kind: Kind::Name,
        default: Default::Unset("the first group of `php.user`"),
        line: "Group that PHP runs as.",
        reason: "For files that a group shares.",
        example: "\"www-data\"",
        elsewhere: &["listen.group"],
        ..BOTH
    },
    Setting {
        key: "php.sandbox",
        kind: Kind::Choice(&[
            ("on", "no privileges, no other files, only the system calls that programs need"),
            ("privileges", "no privileges"),
            ("off", "only the limits of the user"),
        ]),
        default: Default::Fixed("on"),
        line: "What to deny to scripts, and to programs that they start, beyond the limits of their user.",
        reason: "A hole in a plugin should not open the machine. `on` uses no_new_privs, Landlock (Linux \
                 5.19) and seccomp: scripts use their sites' directories, `php.folders` and a temporary \
                 directory, and read the system's programs, libraries and /etc. They can neither run \
                 set-user-ID programs nor signal processes of others. It costs 0.1% of a WordPress page.",
        example: "\"privileges\"",
        elsewhere: &["nonewprivileges", "protectsystem", "chroot", "suexec"],
        ..BOTH
    },
    Setting {
        key: "php.folders",
        kind: Kind::Folders,
        default: Default::Unset("none"),
        line: "Directories that scripts may use besides the site's root, with `php.sandbox` and \
               `php.open_basedir`.",
        reason: "Already included: directories of `site.sendfile_roots` and `site.internal`; the directory \
                 above the root if it has a composer.json, or - to read - WordPress' wp-config.php; \
                 directories that PHP's ini values name for sessions and logs.",
        example: "[\"/srv/shared/media\"]",
        elsewhere: &["readwritepaths", "open_basedir_extra"],
        ..BOTH
    },
    Setting {
        key: "php.open_basedir",
        kind: Kind::Choice(&[
            ("auto", "if the sandbox is on and the kernel can't restrict directories"),
            ("site", "always"),
            ("off", "never"),
        ]),
        default: Default::Fixed("auto"),
        line: "Whether to set PHP's open_basedir to the site's directories and the temporary one.",
        reason: "With open_basedir PHP checks every part of every path each time: 12% more instructions for \
                 a WordPress page. Landlock does the same in the kernel, for programs that scripts start, \
                 too, at less than 0.1%.",
        example: "\"site\"",
        elsewhere: &["php_admin_value[open_basedir]"],
        ..BOTH
    },
    Setting {
        key: "php.disable_functions",
        kind: Kind::Words(Word::Function),
        default: Default::Unset("only the functions in PHP's ini files"),
        line: "PHP functions to disable, in addition to the ini files.",
        reason: "Few sites need exec(), and most break-ins use it.",
        example: "[\"exec\", \"shell_exec\", \"system\", \"passthru\", \"proc_open\", \"popen\"]",
        elsewhere: &["php_admin_value[disable_functions]"],
        ..BOTH
    },
    Setting {
        key: "php.temp_dir",
        kind: Kind::Path { word: Some("off") },
        default: Default::Fixed("/tmp"),
        line: "Directory for PHP's temporary directories, one for each set of workers; or `off` for PHP's \
               own choice.",
        reason: "Uploads of one site are not visible to scripts of another. The directory is closed to other \
                 users, is the value of sys_get_temp_dir() and TMPDIR, and is removed with its workers.",
        example: "\"/var/tmp\"",
        elsewhere: &["upload_tmp_dir", "sys_temp_dir", "privatetmp", "client_body_temp_path"],
        ..BOTH
    },
];
