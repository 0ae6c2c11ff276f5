# shellcheck shell=bash
# The Debian packages that developing needs. Sourced after common.sh; dev/packages is the command.
#
# What is there already is used as it is, whatever it came from. What is missing is installed by root with apt, without starting
# any daemon and without upgrading or removing a package; everybody else gets the names.

# One line a thing: group, what proves that it is there (a command, or paths of a file, patterns allowed), the package.
PACKAGE_TABLE='
base        flock                           util-linux
base        git                             git
base        gcc                             gcc
base        ld                              binutils
base        /usr/lib/*/libc.a,/usr/lib64/libc.a,/usr/lib/libc.a  libc6-dev
base        /etc/ssl/certs/ca-certificates.crt,/etc/pki/tls/certs/ca-bundle.crt  ca-certificates
lint        shellcheck                      shellcheck
cluster     openssl                         openssl
cluster     base64                          coreutils
node        containerd                      containerd
node        ctr                             containerd
node        containerd-shim-runc-v2         containerd
node        runc                            runc
node        /usr/lib/cni/bridge             containernetworking-plugins
node        /usr/lib/cni/host-local         containernetworking-plugins
node        /usr/lib/cni/loopback           containernetworking-plugins
node        ip                              iproute2
node        iptables                        iptables
node        mount                           mount
postgres    /usr/lib/postgresql/*/bin/postgres  postgresql
postgres    psql                            postgresql-client
postgres    setpriv                         util-linux
image       buildah                         buildah
'

# Debian's containernetworking-plugins, or what other distributions and hand-made installs use.
cni_folder() {
  local dir
  for dir in /usr/lib/cni /opt/cni/bin /usr/libexec/cni; do
    [ -x "$dir/bridge" ] && [ -x "$dir/host-local" ] && [ -x "$dir/loopback" ] && { echo "$dir"; return; }
  done
  echo /usr/lib/cni
}

# missing_packages GROUP...: prints the packages to install, each once.
missing_packages() {
  local group proof package wanted path found
  while read -r group proof package; do
    [ -n "$group" ] || continue
    for wanted; do
      [ "$wanted" = "$group" ] || continue
      case $proof in
        /usr/lib/cni/*) [ -x "$(cni_folder)/${proof##*/}" ] || echo "$package" ;;
        /*)
          found=
          for path in ${proof//,/ }; do [ ! -e "$path" ] || found=1; done
          [ -n "$found" ] || echo "$package"
          ;;
        *) have "$proof" || echo "$package" ;;
      esac
    done
  done <<<"$PACKAGE_TABLE" | LC_ALL=C sort -u
}

# need_packages GROUP...: returns when everything of the groups is there, and ends the script otherwise.
need_packages() {
  local missing
  # Tools for administrators live in sbin, which is not on everybody's PATH.
  PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
  missing=$(missing_packages "$@" | tr '\n' ' ')
  missing=${missing% }
  [ -n "$missing" ] || return 0
  have apt-get || die "missing programs. On Debian they are the packages: $missing. Install their like and run this again"
  [ "$EUID" -eq 0 ] || die "missing Debian packages: $missing. Run: sudo apt-get install --no-install-recommends $missing"
  # shellcheck disable=SC2086 # a list of package names
  with_lock "$ONCILLA_CACHE/.packages.lock" "installing packages" install_packages $missing
  missing=$(missing_packages "$@" | tr '\n' ' ')
  [ -z "$missing" ] || die "apt installed everything it was asked for, but still missing: $missing"
}

# Runs under the lock, in a subshell of its own, so that the traps below are its own too.
install_packages() {
  local log=$ONCILLA_CACHE/logs/apt.log started
  mkdir -p "$ONCILLA_CACHE/logs"
  started=$(now_ms)
  say "installing Debian packages: $* (log: $log)"
  trap forbid_daemons_undo EXIT
  trap 'exit 130' INT TERM HUP
  forbid_daemons
  export DEBIAN_FRONTEND=noninteractive
  local options=(-y --no-install-recommends --no-upgrade --no-remove -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  {
    # Package lists may be absent (a fresh container) or older than what the archive still serves.
    apt-get -o Acquire::Retries=3 update && apt-get install "${options[@]}" "$@"
  } >"$log" 2>&1 </dev/null || {
    tail -n 20 "$log" >&2
    die "apt-get could not install: $* (whole log: $log)"
  }
  say "installed them in $(seconds_since "$started") s"
}

# Debian's packages start their daemons as they are installed, unless this policy says no. A policy that is there is put aside and
# comes back; one that a killed run left behind is known by its second line.
POLICY=/usr/sbin/policy-rc.d
POLICY_MARK='# Written by Oncilla while it installs packages; safe to remove.'
POSTGRES_CONF=/etc/postgresql-common/createcluster.d/oncilla.conf

forbid_daemons() {
  forbid_daemons_undo
  [ ! -e $POLICY ] || mv $POLICY $POLICY.before-oncilla
  printf '#!/bin/sh\n%s\nexit 101\n' "$POLICY_MARK" | write_file $POLICY 755
  # The server package would also make a database that starts with the machine.
  printf 'create_main_cluster = false\n' | write_file $POSTGRES_CONF
}

forbid_daemons_undo() {
  rm -f $POSTGRES_CONF
  if [ -e $POLICY ] && grep -qxF "$POLICY_MARK" $POLICY; then rm -f $POLICY; fi
  if [ -e $POLICY.before-oncilla ]; then
    if [ -e $POLICY ]; then rm -f $POLICY.before-oncilla; else mv $POLICY.before-oncilla $POLICY; fi
  fi
}

# static_busybox: prints the path of a statically linked busybox. The package busybox-static would push out busybox, which may be in
# use, so it is only unpacked into the cache.
static_busybox() {
  local path=$ONCILLA_CACHE/bin/busybox-static/busybox
  [ -x "$path" ] || with_lock "$ONCILLA_CACHE/.packages.lock" "installing packages" fetch_busybox "$path" >&2
  echo "$path"
}

fetch_busybox() {
  local path=$1 tmp=$ONCILLA_CACHE/bin/.busybox.tmp log=$ONCILLA_CACHE/logs/busybox.log
  [ ! -x "$path" ] || return 0
  rm -rf "$tmp"
  mkdir -p "$tmp" "$ONCILLA_CACHE/logs" "$(dirname "$path")"
  if have busybox && is_static "$(command -v busybox)"; then
    cp "$(command -v busybox)" "$tmp/busybox"
  else
    have apt-get || die "a statically linked busybox is missing (Debian's package busybox-static)"
    say "fetching the package busybox-static"
    # apt drops its privileges for downloads and cannot do so in a folder of root's; root is fine for a package it verifies.
    (cd "$tmp" && apt-get -o APT::Sandbox::User=root download busybox-static) >"$log" 2>&1 \
      || { apt-get update && (cd "$tmp" && apt-get -o APT::Sandbox::User=root download busybox-static); } >>"$log" 2>&1 \
      || die "apt-get could not download busybox-static (log: $log)"
    dpkg-deb -x "$tmp"/busybox-static_*.deb "$tmp/unpacked"
    cp "$tmp/unpacked/bin/busybox" "$tmp/busybox"
  fi
  chmod 755 "$tmp/busybox"
  mv -f "$tmp/busybox" "$path"
  rm -rf "$tmp"
}

# A static program has no interpreter; ldd of such a file fails or says so.
is_static() { ! ldd "$1" 2>/dev/null | grep -q '=>'; }
