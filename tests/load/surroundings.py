"""The tester and what is around it: addresses, descriptors, certificates, the server's own figures."""

import resource
import signal
import subprocess
import threading

from harness import MILLRACE, PATIENCE, SCRATCH, load, place, story, until
from liar import Liar
from ports import free_port


@story
def addresses_to_come_from_are_taken_in_turn():
    server = Liar()
    load(f"http://127.0.0.1:{server.port}/ok", "-n", "8", "-u", "2", "--threads", "1", "--no-keep-alive", "--source", "127.0.0.5", "--source", "127.0.0.6")
    assert {"127.0.0.5", "127.0.0.6"} <= server.peers <= {"127.0.0.1", "127.0.0.5", "127.0.0.6"}, server.peers


@story
def names_with_several_addresses_lead_to_the_one_that_listens():
    # Often ::1 first, and the server has 127.0.0.1 only.
    assert load(f"http://localhost:{Liar().port}/ok", "-n", "4", "-u", "2")["total"]["ok"] == 4


@story
def the_testers_own_limits_are_told():
    run = load(f"http://127.0.0.1:{Liar().port}/ok", "-n", "4", "-u", "2", "--source", "192.0.2.7")
    assert run["total"]["failures"] == {"tester": 4}, run["total"]
    assert any("--source" in line for line in run["tester"]["bottlenecks"]), run["tester"]


@story
def few_descriptors_are_enough():
    few = (80, 80)
    run = load(f"http://127.0.0.1:{Liar().port}/ok", "-n", "400", "-u", "100", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, few))
    assert run["total"]["ok"] == 400 and run["tester"]["descriptors"] == 80, (run["total"], run["tester"])


@story
def certificates_are_checked_if_that_is_asked_for():
    authority, key, own = certificates()
    folder = SCRATCH / "tls"
    folder.mkdir()
    (folder / "index.html").write_text("hello")
    port = free_port()
    config = place(".toml", f'''
[server]
listen = ["127.0.0.1:0"]
[https]
listen = ["127.0.0.1:{port}"]
[[tls]]
cert = "{own}"
key = "{key}"
[admin]
listen = "unix:{folder / 'admin.sock'}"
[[site]]
root = "{folder}"
''')
    server = serve("--config", config)
    try:
        url = f"https://127.0.0.1:{port}/"
        assert load(url, "-n", "4", "-u", "2")["total"]["ok"] == 4
        assert load(url, "-n", "4", "-u", "2", f"--verify-certificate={authority}")["total"]["ok"] == 4
        run = load(url, "-n", "4", "-u", "2", "--verify-certificate")
        assert run["total"]["failures"] == {"tls": 4}, run["total"]
        assert any("UnknownIssuer" in note and "--verify-certificate" in note for note in run["notes"]), run["notes"]
    finally:
        stop(server)


@story
def the_server_tells_its_own_figures():
    folder = SCRATCH / "site"
    folder.mkdir()
    (folder / "index.php").write_text("<?php usleep(20000); echo 'hello';")
    admin = f"unix:{folder / 'admin.sock'}"
    port = free_port()
    server = serve(folder, "--listen", f"127.0.0.1:{port}", "--profile", "generic", "--set", f"admin.listen={admin}")
    try:
        # Found by the port that it listens on, or named.
        for options in ((), ("--metrics", admin)):
            run = load(f"http://127.0.0.1:{port}/", "-u", "3", "--time", "2s", *options)
            seen = run["total"]["server"]
            assert run["total"]["ok"] > 0 and seen["memory_bytes"] > 1 << 20, run["total"]
            own = seen["own"]
            # The second that is under way at the end may not be in it.
            assert own["connections"] == 3 and own["php_limit"] > 0 and own["php_requests"] > 0, own
    finally:
        stop(server)


def serve(*options):
    """A Millrace that listens."""
    words = [MILLRACE, "serve", *map(str, options)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    said = []
    threading.Thread(target=lambda: said.extend(server.stderr), daemon=True).start()
    until(lambda: server.poll() is not None or any("listening" in line for line in list(said)), "a server that listens")
    assert server.poll() is None, said
    return server


def stop(server):
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(PATIENCE)
    finally:
        server.kill()


def certificates():
    """An authority, and a key with a certificate of it for 127.0.0.1."""
    def make(name, *more):
        key, own = place(f"-{name}.key"), place(f"-{name}.crt")
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9", "-subj", f"/CN={name}"]
        subprocess.run([*words, *map(str, more), "-keyout", str(key), "-out", str(own)], check=True, capture_output=True)
        return key, own

    key, authority = make("authority")
    own_key, own = make("own", "-CA", authority, "-CAkey", key, "-addext", "basicConstraints=CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1")
    return authority, own_key, own
