"""`millrace load --rounds auto --tune` on a live kernel in namespaces of its own: a server that one setting of the tuner makes faster. The setting is
found, kept for the rounds and put back; after a kill, `--undo` puts it back. And with Debian's nginx and php-fpm."""

import json
import subprocess

import live
import rig

# Ten times as fast with the tuner's value of tcp_fin_timeout, which stands for anything that a setting can do. Its processor is a lock.
SERVER = r"""
import http.server, socketserver, threading, time
one = threading.Lock()
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        with one:
            time.sleep(0.004 if open("/proc/sys/net/ipv4/tcp_fin_timeout").read().strip() == "15" else 0.04)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128
server = Server(("127.0.0.1", 8080), Page)
open("/ready", "w").close()
server.serve_forever()
"""

STEPS = r"""
set -e
python3 /server.py 2>/server.log & server=$!
trap 'kill $server' EXIT
until [ -e /ready ]; do readlink /proc/$server/exe >/dev/null || { cat /server.log >&2; exit 3; }; sleep 0.05; done
value() { cat /proc/sys/net/ipv4/tcp_fin_timeout; }
# The folder of the journal goes with its last file.
left() { find /var/lib /etc -path '*/millrace/*journal.json' -o -name '60-millrace*'; }
load() { "$1" load http://127.0.0.1:8080/ --rounds auto -u 8 --time 2s --tune --quiet --json "$2"; }
value
load "$1" /first.json
value
left
echo ==
"$1" load http://127.0.0.1:8080/ --rounds auto -u 8 --time 2s --tune >/said 2>&1 & run=$!
until [ "$(value)" = 15 ]; do readlink /proc/$run/exe >/dev/null || { cat /said; exit 3; }; sleep 0.02; done
kill -9 $run
"$1" load http://127.0.0.1:8080/ --rounds auto --time 2s --tune --quiet 2>&1 || true
"$1" tune --undo >/dev/null
value
left
echo ==
cat /first.json
"""


def rounds(folder):
    """The kernel's step helps and is kept in the rounds; nothing is left of it afterwards, nor after a kill."""
    script = live.SCRIPT.replace("exec chroot", f"cat >root/server.py <<'PY'\n{SERVER}\nPY\nexec chroot")
    command = ["unshare", "--mount", "--net", "sh", "-c", script, "sh", folder, rig.program("millrace"), STEPS]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        return f"{done.returncode}: {done.stderr[-800:]}{done.stdout[-300:]}"
    first, killed, written = (part.strip() for part in done.stdout.split("==\n"))
    if first != "60\n60":
        return f"after the rounds: {first}"
    if "in force already" not in killed or not killed.endswith("\n60"):
        return f"after a kill: {killed}"
    run = json.loads(written)
    # Others on this machine may give the doctor something to find, which is tried first.
    tried = [stage for stage in run["stages"] if stage["change"] and "net.ipv4.tcp_fin_timeout" in [one["name"] for one in stage["change"]["settings"]]]
    if len(tried) != 2 or not tried[-1]["conclusion"].startswith("kept: "):
        return f"rounds: {[(stage['name'], stage['change'], stage['conclusion']) for stage in run['stages']]}"
    if not any("put back at the end" in note for note in run["notes"]):
        return f"notes: {run['notes']}"
    return ""


# Debian's nginx and php-fpm, and a page that waits for something else, as for another server.
WEB = r"""
set -e
mount -t tmpfs none /run; mkdir -p /run/php /srv/site /var/log/nginx
rm -f /etc/millrace/millrace.toml /etc/nginx/sites-enabled/*
echo '<?php usleep(100000); echo "ok";' >/srv/site/index.php
cat >/etc/nginx/sites-enabled/site <<EOF
server { listen 127.0.0.1:8080; root /srv/site; location / { include fastcgi_params; fastcgi_param SCRIPT_FILENAME /srv/site/index.php;
  fastcgi_pass unix:/run/php/phpFPM-fpm.sock; } }
EOF
cat >/restart <<'EOF'
set -e
for pid in /run/nginx.pid /run/php/phpFPM-fpm.pid; do
  if [ -e $pid ]; then kill $(cat $pid); while [ -e $pid ]; do sleep 0.05; done; fi
done
php-fpmFPM; nginx
EOF
cp -a /etc /before
sh /restart
"$1" load http://127.0.0.1:8080/ --rounds auto -u 16 --time 2s --tune --restart 'sh /restart' --quiet --json /web.json
php-fpmFPM -tt 2>&1 | grep -o 'pm.max_children = .*'
diff -r --no-dereference /before /etc
echo ==
cat /web.json
"""


def web_rounds(folder):
    """With Debian's five processes, a page that waits is served 50 times a second; the doctor names php-fpm's processes, the rounds find their step, and put it back."""
    version = rig.fpm_program().name.removeprefix("php-fpm")
    script = live.SCRIPT.replace("mount --bind /proc root/proc", "mount -t proc proc root/proc")
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh", folder, rig.program("millrace"), WEB.replace("FPM", version)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        return f"{done.returncode}: {done.stderr[-800:]}{done.stdout[-300:]}"
    said, written = (part.strip() for part in done.stdout.split("==\n"))
    if said != "pm.max_children = 5":
        return f"after the rounds: {said}"
    run = json.loads(written)
    tried = [stage for stage in run["stages"] if stage["change"] and stage["change"]["why"] == "fpm-children"]
    values = {one["name"]: (one["before"], one["after"]) for one in tried[0]["change"]["settings"]} if tried else {}
    if len(tried) != 2 or not tried[-1]["conclusion"].startswith("kept: ") or values["pm.max_children"][0] != "5" or int(values["pm.max_children"][1]) < 10:
        return f"rounds: {[(stage['name'], stage['change'], stage['conclusion']) for stage in run['stages']]}"
    rates = [stage["summary"]["ok_per_second"] for stage in (run["stages"][0], tried[-1])]
    print(f"# web-rounds: from {rates[0]:.0f} to {rates[1]:.0f} responses per second with {values['pm.max_children'][1]} processes")
    if rates[1] < 1.5 * rates[0]:
        return f"responses per second: {rates}"
    if not any(note.startswith("not tried: worker_connections = ") for note in run["notes"]):
        return f"notes: {run['notes']}"
    return ""


STORIES = {"rounds": rounds, "web-rounds": web_rounds}
