# shellcheck shell=bash
# Takes away everything that a cluster left on the machine, whatever killed it. Sourced after process.sh.
#
# Only what is provably ours is touched: processes by their mark, mounts below the state folder, bridges by their alias, packet rules
# by their comment, control groups and network results by the cluster's id (a hash of the state folder's path).

# cluster_id: short enough for every name it goes into, and different for each state folder of the machine.
cluster_id() { printf '%s-%s' "$(basename "$STATE")" "$(printf '%s' "$STATE" | sha256sum | cut -c1-8)"; }

# The cluster's control groups in every mounted hierarchy: one folder each with cgroup v1, one in all with v2.
our_cgroup_roots() {
  local mount id
  id=$(cluster_id)
  while read -r mount; do
    [ ! -d "$mount/oncilla-$id" ] || echo "$mount/oncilla-$id"
  done < <(cgroup_mounts)
}

cgroup_mounts() { awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/self/mounts; }

our_cgroups() {
  local root
  for root in $(our_cgroup_roots); do find "$root" -type d 2>/dev/null || true; done
}

# Mount points below the state folder, deepest first. The kernel writes blanks and backslashes as octal escapes.
our_mounts() {
  local point
  while read -r _ _ _ _ point _; do
    printf -v point '%b' "${point//\\/\\0}"
    case $point in "$STATE"/*) echo "$point" ;; esac
  done </proc/self/mountinfo | LC_ALL=C sort -r
}

our_bridges() {
  local alias
  for alias in /sys/class/net/*/ifalias; do
    [ "$(cat "$alias" 2>/dev/null)" != "oncilla:$STATE" ] || basename "$(dirname "$alias")"
  done
}

remove_mounts() {
  local point tries
  for tries in 1 2 3; do
    while read -r point; do
      [ -z "$point" ] || umount "$point" 2>/dev/null || [ "$tries" -lt 3 ] || umount -l "$point" 2>/dev/null || true
    done < <(our_mounts)
    [ -n "$(our_mounts)" ] || return 0
    sleep 0.2
  done
  point=$(our_mounts)
  [ -z "$point" ] || die "cannot unmount: ${point//$'\n'/ }"
}

remove_network() {
  local bridge port rule
  for bridge in $(our_bridges); do
    for port in "/sys/class/net/$bridge/brif"/*; do
      [ ! -e "$port" ] || ip link delete "$(basename "$port")" 2>/dev/null || true
    done
    ip link delete "$bridge" 2>/dev/null || true
  done
  have iptables || return 0
  while read -r rule; do
    # shellcheck disable=SC2086 # a rule is a list of words; ours has no blanks inside one
    [ -z "$rule" ] || iptables -w 10 -t nat ${rule/#-A/-D} 2>/dev/null || true
  done < <(iptables -w 10 -t nat -S PREROUTING 2>/dev/null | grep -F -- "--comment oncilla-$(cluster_id) ")
}

remove_cgroups() {
  local root tries
  for tries in 1 2 3 4 5; do
    for root in $(our_cgroup_roots); do
      find "$root" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
    [ -n "$(our_cgroup_roots)" ] || return 0
    # A group stays busy for a moment after its last process was killed.
    sleep 0.1
  done
  warn "some control groups are still busy: $(our_cgroup_roots | tr '\n' ' ')"
}

# What containerd, CNI and the kubelet write outside the folders that they are given.
remove_strays() {
  local file socket link pod
  for file in "$STATE"/containerd/state/io.containerd.runtime.v2.task/*/*/address; do
    [ -f "$file" ] || continue
    socket=$(cat "$file")
    case $socket in unix:///run/containerd/s/*) rm -f "${socket#unix://}" ;; esac
  done
  # A pod's second result, for its loopback, carries the pod's id only; the first one tells which pods are ours.
  for file in /var/lib/cni/results/"oncilla-$(cluster_id)"-*-eth0; do
    [ -f "$file" ] || continue
    pod=${file%-eth0}
    rm -f "$file" "/var/lib/cni/results/cni-loopback-${pod##*-}-lo"
  done
  for link in /var/log/containers/*.log; do
    [ -L "$link" ] || continue
    case $(readlink "$link") in "$STATE"/*) rm -f "$link" ;; esac
  done
}

# clean_cluster: afterwards nothing of the cluster is left but its logs, in log.previous.
clean_cluster() {
  [ -d "$STATE" ] || [ "$EUID" -eq 0 ] || return 0
  kill_our_processes
  if [ "$EUID" -eq 0 ]; then
    remove_mounts
    remove_network
    remove_cgroups
    remove_strays
  fi
  [ -d "$STATE" ] || return 0
  # Deleting through a mount would delete what is mounted there.
  [ -z "$(our_mounts)" ] || die "there are mounts below $STATE still; not deleting anything there"
  if [ -d "$STATE/log" ]; then
    rm -rf "$STATE/log.previous"
    mv "$STATE/log" "$STATE/log.previous"
  fi
  find "$STATE" -mindepth 1 -maxdepth 1 ! -name log.previous -exec rm -rf --one-file-system {} +
}
