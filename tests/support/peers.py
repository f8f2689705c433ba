"""Varnish and Apache as the comparisons start them: in the foreground, on a free port, ended by their process id.

nginx and php-fpm are in `rig`. `needed()` says what is missing; the packages stand in tests/packages.
"""

import os
import shutil
from pathlib import Path

import rig

MODULES = Path("/usr/lib/apache2/modules")


def path_of(name):
    """The path of a program, also of one that only root has in its PATH."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Varnish(rig.Process):
    """varnishd on a free port before a backend on 127.0.0.1. `vcl` is added to the declaration of the backend."""

    def __init__(self, folder, backend, vcl="", storage="malloc,256m", parameters=(), prefix=()):
        folder = Path(folder)
        self.port = rig.free_port()
        self.vcl = folder / "varnish.vcl"
        self.vcl.write_text(f'vcl 4.1;\nbackend default {{ .host = "127.0.0.1"; .port = "{backend}"; }}\n{vcl}')
        work = folder / "varnish"
        # No jail: it would need users that a machine may not have. -F: in the foreground.
        words = [*prefix, path_of("varnishd"), "-F", "-j", "none", "-n", work, "-a", f"127.0.0.1:{self.port}", "-f", self.vcl, "-s", storage]
        for parameter in parameters:
            words += ["-p", parameter]
        self.configuration = " ".join(str(w) for w in words) + "\n\n" + self.vcl.read_text()
        super().__init__(words, folder / "varnish.log")
        self.await_up(lambda: rig.answers(("127.0.0.1", self.port)), 30)


class Apache(rig.Process):
    """Apache with mpm_event on a free port; `modules` beside those that every server needs, `text` is its configuration."""

    def __init__(self, folder, root, modules=(), text="", prefix=()):
        folder = Path(folder)
        self.port = rig.free_port()
        loaded = ["mpm_event", "authz_core", "mime", "dir", *modules]
        lines = [f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in loaded]
        # httpd's children refuse to be root; www-data is there wherever the package is.
        user = ["User www-data", "Group www-data"] if os.getuid() == 0 else []
        lines += [*user, f"PidFile {folder}/apache.pid", f"DefaultRuntimeDir {folder}", "Mutex posixsem", f"ErrorLog {folder}/apache-error.log",
                  f"Listen 127.0.0.1:{self.port}", "ServerName localhost", f'DocumentRoot "{root}"', "TypesConfig /etc/mime.types",
                  "<Directory />", "AllowOverride None", "</Directory>", f'<Directory "{root}">', "Require all granted", "</Directory>", text]  # fmt: skip
        self.conf = folder / "apache.conf"
        self.conf.write_text("\n".join(lines) + "\n")
        self.configuration = self.conf.read_text()
        super().__init__([*prefix, path_of("apache2"), "-D", "FOREGROUND", "-d", folder, "-f", self.conf], folder / "apache.log")
        self.await_up(lambda: rig.answers(("127.0.0.1", self.port)), 30)
