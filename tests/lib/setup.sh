# Sourced by ./demo and ./test: installs what they need on Debian and Ubuntu. Needs nothing but bash and apt-get.
# shellcheck shell=bash

# say TEXT...: progress, on standard error, so that results can be read from standard output.
say() { printf '%s\n' "$*" >&2; }

# fail TEXT...: the end, with the reason.
fail() { say "$(basename "$0"): $*"; exit 1; }

# as_root COMMAND...: runs it as root, by sudo where we aren't.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; return; fi
  command -v sudo >/dev/null || fail "installing packages needs root or sudo; missing: ${missing:-$*}"
  sudo "$@"
}

# apt COMMAND...: apt-get without questions, patient with another apt-get that is running.
apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >&2; }

# installed PACKAGE: whether it is.
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# need_packages PACKAGE[:COMMAND]...: installs those that are missing (and whose command isn't there from elsewhere); services
# that come with them are not started.
need_packages() {
  local package missing=''
  command -v dpkg-query >/dev/null || fail "this is neither Debian nor Ubuntu; install by hand: $*"
  for package in "$@"; do
    case $package in *:*) ! command -v "${package#*:}" >/dev/null || continue ;; esac
    installed "${package%:*}" || missing+=" ${package%:*}"
  done
  [ -n "$missing" ] || return 0
  say "installing:$missing"
  apt_update
  local policy=/usr/sbin/policy-rc.d ours=''
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null && as_root chmod 755 $policy && ours=1
  fi
  # shellcheck disable=SC2086
  apt install -y --no-install-recommends $missing || { [ -z "$ours" ] || as_root rm -f $policy; fail "apt-get can't install:$missing"; }
  [ -z "$ours" ] || as_root rm -f $policy
}

# apt_update: fetches the package lists, once a run.
apt_update() {
  [ -z "${apt_updated:-}" ] || return 0
  apt update || fail "apt-get update doesn't work; is this machine online?"
  apt_updated=1
}

# php_version: the PHP to build with, such as 8.2: the one whose php-config is there, else the distribution's own.
php_version() {
  if command -v php-config >/dev/null; then php-config --version | cut -d. -f1,2; return; fi
  local version
  apt-cache show php-cli >/dev/null 2>&1 || apt_update
  version=$(apt-cache depends php-cli 2>/dev/null | sed -n 's/.*Depends: php\([0-9.]*\)-cli$/\1/p' | head -n 1)
  [ -n "$version" ] || fail "this distribution has no PHP package (php-cli)"
  echo "$version"
}

# build_packages VERSION: what it takes to build Millrace, and the PHP extensions that WordPress wants.
build_packages() {
  local extension
  echo ca-certificates curl build-essential pkg-config "php$1-dev" "libphp$1-embed"
  for extension in cli curl gd intl mbstring mysql opcache sqlite3 xml zip; do echo "php$1-$extension"; done
}

# need_rust: a cargo that is new enough for this workspace (rust-version in Cargo.toml), by rustup where there is none.
need_rust() {
  local wanted found
  wanted=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml)
  [ -d "${CARGO_HOME:-$HOME/.cargo}/bin" ] && PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
  found=$(cargo --version 2>/dev/null | cut -d' ' -f2 || true)
  newest_of "$found" "$wanted" && return 0
  say "installing Rust (this needs $wanted or later, found ${found:-none})"
  if ! command -v rustup >/dev/null; then
    local installer
    installer=$(mktemp)
    curl --proto '=https' --tlsv1.2 -fsS --retry 2 -o "$installer" https://static.rust-lang.org/rustup/rustup-init.sh &&
      sh "$installer" -y -q --profile minimal --default-toolchain none --no-modify-path >&2 ||
      fail "rustup can't be installed; install Rust $wanted or later by hand (https://rustup.rs) and try again"
    rm -f "$installer"
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
  fi
  rustup toolchain install stable --profile minimal >&2 || fail "rustup can't install Rust"
  export RUSTUP_TOOLCHAIN=stable
  found=$(cargo --version | cut -d' ' -f2)
  newest_of "$found" "$wanted" || fail "cargo is still $found, older than $wanted"
}

# need_go VERSION: a Go that is that new or newer. Where the distribution's is older, it fetches the toolchain: as a module, like
# any other.
need_go() {
  local wanted=$1 found fetched
  [ -d /usr/local/go/bin ] && PATH=$PATH:/usr/local/go/bin
  # A project's own wish for another version is of no interest here.
  export GOTOOLCHAIN=local GOFLAGS=-mod=mod
  found=$(go env GOVERSION 2>/dev/null || true)
  newest_of "${found#go}" "$wanted" && return 0
  need_packages golang-go:go
  found=$(go env GOVERSION)
  newest_of "${found#go}" "$wanted" && return 0
  say "fetching Go $wanted (found ${found#go})"
  fetched=$(cd "$(mktemp -d)" && go mod init fetch 2>/dev/null &&
    go mod download -json "golang.org/toolchain@v0.0.1-go$wanted.linux-$(go env GOARCH)" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
  [ -f "$fetched/bin/go" ] || fail "Go $wanted can't be fetched; install it by hand and try again"
  # Modules have no programs among them, as far as Go is concerned.
  chmod -R u+w "$fetched" && chmod +x "$fetched"/bin/* "$fetched"/pkg/tool/*/*
  export GOROOT=$fetched PATH="$fetched/bin:$PATH"
}

# newest_of A B: whether version A is at least B.
newest_of() { [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | tail -n 1)" = "$1" ]; }

# wordpress_source: makes sure that `millrace new wordpress` finds a source: wordpress.org, else npm.
wordpress_source() {
  local cache=${XDG_CACHE_HOME:-$HOME/.cache}/millrace
  compgen -G "$cache/w*gz" >/dev/null && return 0
  curl -fsI --connect-timeout 5 --max-time 10 https://wordpress.org/latest.tar.gz.sha1 >/dev/null 2>&1 && return 0
  command -v npm >/dev/null && return 0
  say "wordpress.org can't be reached; WordPress will come from an npm package"
  need_packages nodejs:node npm:npm
}
