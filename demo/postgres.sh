#!/usr/bin/env bash
# The demo's PostgreSQL server: Debian's program, but a server of its own, with its own data, port and passwords. Debian's
# default cluster is neither started nor touched.
#
#   demo/postgres.sh start       starts the server unless it runs, and prints nothing but progress
#   demo/postgres.sh stop        stops it; the data stays
#   demo/postgres.sh destroy     stops it and removes its data
#   demo/postgres.sh psql ...    psql as the administrator, against the database "shop"
#   demo/postgres.sh env         prints PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE for the shop's steps, one a line
#
#   ONCILLA_POSTGRES_ADDRESS     the address to listen on, and the only one (default: 127.0.0.1)
#   ONCILLA_POSTGRES_DIR         where it keeps everything (default: $ONCILLA_CACHE/postgres/demo)
#   ONCILLA_POSTGRES_NETWORK     from where the role "shop" may connect, besides this machine itself: a CIDR (default: nowhere else)
#
# Needs root, as the dev cluster does; the server itself runs as the user "postgres".
set -euo pipefail
# shellcheck source=dev/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../dev/lib/common.sh"

DIR=${ONCILLA_POSTGRES_DIR:-$ONCILLA_CACHE/postgres/demo}
ADDRESS=${ONCILLA_POSTGRES_ADDRESS:-127.0.0.1}
NETWORK=${ONCILLA_POSTGRES_NETWORK:-samehost}
LOG=$DIR/log
ACCOUNT=postgres
# The server sees its folder here, in a mount namespace of its own: the real one usually lies below /root, where no other
# user may look. The mount ends with the server, so nothing has to be cleaned up after a kill.
INSIDE=/mnt
START_LIMIT=60 # seconds; recovery after a kill -9 included

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2; }

# The newest PostgreSQL that Debian has installed. Its programs are not on the PATH.
programs() {
  local newest
  newest=$(find /usr/lib/postgresql -mindepth 3 -maxdepth 3 -path '*/bin/initdb' 2>/dev/null | sort -V | tail -n 1)
  [ -n "$newest" ] || return 1
  dirname "$newest"
}

# Put before a command, this runs it as the server's user, with DIR mounted at INSIDE in a mount namespace of its own.
# shellcheck disable=SC2016 # the inner shell expands them
CONFINED=(unshare --mount --propagation private -- sh -euc '
  mount --bind "$1" "$2"; cd "$2"; account=$3; shift 3
  exec setpriv --reuid "$account" --regid "$account" --init-groups --inh-caps=-all --no-new-privs -- \
    env -i PATH="$PATH" LC_ALL=C.UTF-8 TZ=UTC HOME="$PWD" "$@"'
  - "$DIR" "$INSIDE" "$ACCOUNT")

# The server's process id, if it lives. The lock file survives a kill, so its word alone is not enough: the process must
# stand in our data folder.
server_pid() {
  local pid
  pid=$(head -n 1 "$DIR/data/postmaster.pid" 2>/dev/null) && [[ $pid =~ ^[1-9][0-9]*$ ]] || return 1
  [ "$(stat -Lc %d:%i "/proc/$pid/cwd" 2>/dev/null)" = "$(stat -Lc %d:%i "$DIR/data")" ] || return 1
  echo "$pid"
}

password_file() {
  [ -s "$DIR/$1-password" ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' | write_file "$DIR/$1-password" 600
  echo "$DIR/$1-password"
}

# Made under another name and moved when it is whole: a kill in the middle leaves no half of a database.
create_data() {
  [ ! -d "$DIR/data" ] || return 0
  say "creating the database"
  # --no-sync: what a power cut takes of a demo may be made again.
  rm -rf "$DIR/data.new"
  install -d -o "$ACCOUNT" -m 700 "$DIR/data.new"
  install -o "$ACCOUNT" -m 600 "$(password_file administrator)" "$DIR/initdb-password"
  "${CONFINED[@]}" "$1/initdb" --pgdata data.new --username postgres --pwfile initdb-password --auth scram-sha-256 \
    --encoding UTF8 --locale C.UTF-8 --no-sync --no-instructions >"$LOG/initdb.log" 2>&1 ||
    { tail -n 20 "$LOG/initdb.log" >&2; die "initdb failed (whole log: $LOG/initdb.log)"; }
  rm -f "$DIR/initdb-password"
  mv "$DIR/data.new" "$DIR/data"
}

# A port that nobody has at this moment, kept for the next start.
choose_port() {
  local port
  for port in $(cat "$DIR/port" 2>/dev/null) $(seq 15432 15532); do
    if [ -z "$(ss -Hltn "sport = :$port")" ]; then
      echo "$port" | write_file "$DIR/port"
      echo "$port"
      return
    fi
  done
  die "no port between 15432 and 15532 is free"
}

configure() {
  {
    echo "listen_addresses = '$ADDRESS'"
    echo "port = $1"
    # No unix socket: the administrator comes by the same way as the steps, with a password.
    echo "unix_socket_directories = ''"
    echo "password_encryption = 'scram-sha-256'"
    echo "shared_buffers = '32MB'"
    echo "max_connections = 40"
    echo "log_line_prefix = '%m [%p] %u@%d '"
    echo "log_statement = 'mod'"
  } | write_file "$DIR/data/postgresql.conf" 600
  {
    echo "# type  database  user  address  method"
    echo "host    all       all   samehost  scram-sha-256"
    echo "host    shop      shop  $NETWORK  scram-sha-256"
  } | write_file "$DIR/data/pg_hba.conf" 600
  chown "$ACCOUNT" "$DIR/data/postgresql.conf" "$DIR/data/pg_hba.conf"
}

admin_psql() {
  PGPASSWORD=$(cat "$DIR/administrator-password") PGCONNECT_TIMEOUT=5 PGAPPNAME=demo \
    "$(programs)/psql" --no-psqlrc -v ON_ERROR_STOP=1 -h "$ADDRESS" -p "$(cat "$DIR/port")" -U postgres "$@"
}

start() {
  [ "$(id -u)" = 0 ] || die "needs root: the server runs as the user $ACCOUNT, and the dev cluster needs root too"
  mkdir -p "$DIR" "$LOG"
  lock "$DIR/lock" "the demo's PostgreSQL"
  "$ONCILLA_ROOT/dev/packages" postgres
  local bin pid started
  bin=$(programs) || die "no PostgreSQL below /usr/lib/postgresql: install Debian's package postgresql"
  if pid=$(server_pid) && [ "$(cat "$DIR/address" 2>/dev/null)" = "$ADDRESS $NETWORK" ] && admin_psql -d postgres -qtAc 'SELECT 1' >/dev/null 2>&1; then
    prepare
    return
  fi
  stop
  create_data "$bin"
  echo "$ADDRESS $NETWORK" | write_file "$DIR/address"
  started=$(now_ms)
  launch "$bin"
  say "starting PostgreSQL on $ADDRESS:$(cat "$DIR/port") (log: $LOG/postgres.log)"
  until admin_psql -d postgres -qtAc 'SELECT 1' >/dev/null 2>"$LOG/ready.log"; do
    if [ $(($(now_ms) - started)) -gt $((START_LIMIT * 1000)) ]; then
      tail -n 20 "$LOG/postgres.log" >&2
      die "PostgreSQL did not answer within $START_LIMIT s: $(tail -n 1 "$LOG/ready.log") (log: $LOG/postgres.log)"
    fi
    # Backends of a killed server hold its memory for a moment, and a new server that meets them ends at once. So does one
    # whose port was taken between being chosen and being used.
    kill -0 "$launched" 2>/dev/null || launch "$bin"
    sleep 0.2
  done
  prepare
}

launch() {
  local port
  port=$(choose_port) || exit 1
  configure "$port"
  (
    # In a session of its own, without our lock and our terminal, so that it outlives the script.
    for fd in /proc/self/fd/*; do
      fd=${fd##*/}
      [ "$fd" -le 2 ] || eval "exec $fd>&-"
    done
    exec setsid "${CONFINED[@]}" "$1/postgres" -D "$INSIDE/data" </dev/null >>"$LOG/postgres.log" 2>&1
  ) &
  launched=$!
}

# The database, its role and its tables; repeating it changes nothing.
prepare() {
  password_file shop >/dev/null
  [ "$(admin_psql -d postgres -qtAc "SELECT count(*) FROM pg_database WHERE datname = 'shop'")" = 1 ] ||
    admin_psql -d postgres -qc 'CREATE DATABASE shop'
  # By way of a file, as arguments can be read by every user of the machine.
  admin_psql -d postgres -q <<SQL
\\set password \`cat '$DIR/shop-password'\`
SELECT 'CREATE ROLE shop LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'shop') \\gexec
ALTER ROLE shop PASSWORD :'password';
REVOKE ALL ON DATABASE shop FROM PUBLIC;
GRANT CONNECT ON DATABASE shop TO shop;
SQL
  admin_psql -d shop -q -f "$ONCILLA_ROOT/demo/schema.sql"
}

stop() {
  local pid tries
  pid=$(server_pid) || return 0
  say "stopping PostgreSQL (process $pid)"
  kill -INT "$pid" 2>/dev/null || true
  for ((tries = 0; tries < 300; tries++)); do
    server_pid >/dev/null || return 0
    # Ten seconds are plenty to end politely; what is left then is cut off, and recovered at the next start.
    [ $tries != 100 ] || kill -QUIT "$pid" 2>/dev/null || true
    [ $tries != 200 ] || kill -KILL "$pid" 2>/dev/null || true
    sleep 0.1
  done
  die "PostgreSQL (process $pid) does not end (log: $LOG/postgres.log)"
}

require_server() { server_pid >/dev/null || die "the demo's PostgreSQL does not run: demo/postgres.sh start"; }

command=${1:-}
[ $# -ge 1 ] || usage
shift
case $command in
  start) [ $# = 0 ] || usage; start ;;
  stop) [ $# = 0 ] || usage; mkdir -p "$DIR"; lock "$DIR/lock" "the demo's PostgreSQL"; stop ;;
  destroy) [ $# = 0 ] || usage; mkdir -p "$DIR"; lock "$DIR/lock" "the demo's PostgreSQL"; stop; rm -rf "$DIR" ;;
  psql) require_server; ADDRESS=$(cut -d' ' -f1 "$DIR/address"); admin_psql -d shop "$@" ;;
  env)
    require_server
    printf 'PGHOST=%s\nPGPORT=%s\nPGUSER=shop\nPGPASSWORD=%s\nPGDATABASE=shop\n' \
      "$(cut -d' ' -f1 "$DIR/address")" "$(cat "$DIR/port")" "$(cat "$DIR/shop-password")"
    ;;
  *) usage ;;
esac
