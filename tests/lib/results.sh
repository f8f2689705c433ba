# Sourced by tests in bash: result lines, a folder of their own, free ports, servers that never outlive the test.
# shellcheck shell=bash

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
millrace=${MILLRACE:-$repository/target/release/millrace}
scratch=$(mktemp -d)
failures=0
servers=()

# ok NAME, not_ok NAME WHY: one result line.
ok() { printf 'ok %s\n' "$1"; }
not_ok() { printf 'not ok %s: %s\n' "$1" "$(tr '\n' ' ' <<<"$2")"; failures=$((failures + 1)); }

# check NAME COMMAND...: ok if the command succeeds; what it prints is the reason otherwise.
check() {
  local name=$1 why=$scratch/.why
  shift
  # In this shell, not a subshell: what a check starts and finds out is there for the next one.
  if "$@" >"$why" 2>&1; then ok "$name"; else not_ok "$name" "$(cat "$why") ($*)"; fi
}

# has TEXT PART: whether PART is in TEXT.
has() { case $1 in *"$2"*) ;; *) printf '%q is not in: %s\n' "$2" "${1:0:600}"; return 1 ;; esac; }

# free_port: a port of 127.0.0.1 that nobody listens on now.
free_port() { python3 "$repository/tests/support/ports.py"; }

# serve LOG ARGUMENT...: starts `millrace serve ARGUMENT...`; $server is its process. SETTINGS="php.rewind=on ..." adds settings.
serve() {
  local log=$1 setting settings=()
  shift
  for setting in ${SETTINGS:-}; do settings+=(--set "$setting"); done
  "$millrace" serve "$@" ${settings[@]+"${settings[@]}"} >"$log" 2>&1 &
  server=$!
  servers+=("$server")
}

# stop PROCESS: ends a server, and fails if it doesn't end well.
stop() {
  local status=0
  kill -TERM "$1" 2>/dev/null
  timeout 40 tail --pid="$1" -f /dev/null
  wait "$1" || status=$?
  [ $status = 0 ] || { echo "the server ended with status $status"; return 1; }
}

# until_answers URL [CURL ARGUMENT...]: waits until a server answers, 30 s at most.
until_answers() {
  for _ in $(seq 300); do
    ! curl -s -o /dev/null --max-time 10 "$@" || return 0
    sleep 0.1
  done
  echo "nothing answers at $1"
  return 1
}

# settle SOCKET: waits until the server with this admin socket has done all that it had begun; see tests/support/rig.py.
settle() { curl -sSf --max-time 90 --unix-socket "$1" -d seconds=60 http://localhost/debug/settle >/dev/null; }

finish() {
  local process
  for process in ${servers[@]+"${servers[@]}"}; do kill -KILL "$process" 2>/dev/null; done
  chmod -R u+rwx "$scratch" 2>/dev/null
  rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 143' INT TERM HUP

[ -x "$millrace" ] || { not_ok "$(basename "$PWD")" "$millrace is not there: cargo build --release, or set MILLRACE"; exit 1; }
