# shellcheck shell=bash
# What every script under dev/ shares: where things are kept, how it speaks, how it locks and waits. Sourced, never run.
#
#   ONCILLA_CACHE   everything that is built or run is kept here, outside the clone (default: ~/.cache/oncilla)

# Without this, "set -e" would not hold inside $(...).
shopt -s inherit_errexit

ONCILLA_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
ONCILLA_CACHE=${ONCILLA_CACHE:-${HOME:-/root}/.cache/oncilla}
# File modes end up in images and in folders that other users read, so the caller's umask must not decide them.
umask 022
mkdir -p "$ONCILLA_CACHE"
ONCILLA_CACHE=$(cd "$ONCILLA_CACHE" && pwd)
export ONCILLA_ROOT ONCILLA_CACHE

# Cargo's and Go's build caches live beside the rest. CARGO_HOME (downloads, credentials) stays the user's.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$ONCILLA_CACHE/target}
export GOCACHE=$ONCILLA_CACHE/go-build GOMODCACHE=$ONCILLA_CACHE/go-mod

# Cargo names what it builds of a workspace after its place in the workspace, so two clones with one target folder write the same
# files, and it tells what is stale by time alone: the sources of the clone that comes second are made the newer ones.
claim_target() {
  local owner=$CARGO_TARGET_DIR/.clone
  [ "$(cat "$owner" 2>/dev/null)" != "$ONCILLA_ROOT" ] || return 0
  mkdir -p "$CARGO_TARGET_DIR"
  (cd "$ONCILLA_ROOT" && find src tests benches demo -name '*.rs' -exec touch {} + 2>/dev/null) || true
  printf '%s\n' "$ONCILLA_ROOT" >"$owner"
}
claim_target

# A proxy for the internet must not see requests for the cluster.
NO_PROXY="localhost,127.0.0.1,10.96.0.0/16,10.244.0.0/16${NO_PROXY:+,$NO_PROXY}"
export NO_PROXY no_proxy=$NO_PROXY

say() { printf '%s\n' "$*" >&2; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Milliseconds since the epoch.
now_ms() { local t=${EPOCHREALTIME/[.,]/}; echo $((t / 1000)); }
# seconds_since MS: the time since then as seconds with one digit.
seconds_since() { local d=$(($(now_ms) - $1)); printf '%d.%d' $((d / 1000)) $((d % 1000 / 100)); }

# lock FILE WHAT: holds an exclusive lock until this process ends. Whoever comes second waits and says so.
lock() {
  local fd
  mkdir -p "$(dirname "$1")"
  exec {fd}>>"$1"
  flock --nonblock "$fd" && return
  say "waiting for another process that holds the lock for $2 ($1)"
  flock "$fd"
}

# with_lock FILE WHAT COMMAND...: runs the command under the lock and releases it afterwards.
with_lock() {
  (
    lock "$1" "$2"
    shift 2
    "$@"
  )
}

# Replaces a file in one step, so that a reader (or a run after a kill) sees the old or the new text, never half of it.
write_file() {
  local path=$1 mode=${2:-644} tmp
  mkdir -p "$(dirname "$path")"
  tmp=$(mktemp "$path.XXXXXX")
  cat >"$tmp"
  chmod "$mode" "$tmp"
  mv -f "$tmp" "$path"
}

# The hash of standard input, short enough for a folder's name.
short_hash() { sha256sum | cut -c1-16; }
