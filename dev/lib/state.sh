# shellcheck shell=bash
# What is recorded of a cluster, in STATE/cluster.env, and how its ports and addresses are chosen. Sourced after common.sh.

CLUSTERS=$ONCILLA_CACHE/clusters

# use_cluster NAME: sets CLUSTER, STATE and NODE_NAME.
use_cluster() {
  [[ $1 =~ ^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$ ]] || die "a cluster's name is at most 20 lower-case letters, digits and dashes: $1"
  CLUSTER=$1
  STATE=$CLUSTERS/$1
  NODE_NAME=$1-node
  # The longest socket below it is kubelet/pod-resources/kubelet.sock, and a socket's path has at most 107 bytes.
  [ ${#STATE} -le 70 ] || die "the path $STATE is too long for Unix sockets: point ONCILLA_CACHE at a shorter one"
}

# The recorded facts. Only whole files count: the last line says so.
STATE_KEYS='KIND CONFIG ADDRESS SUBNET BRIDGE API_PORT ETCD_PORT ETCD_PEER_PORT KCM_PORT SCHEDULER_PORT KUBELET_PORT KUBELET_HEALTH_PORT'

save_state() {
  local key
  {
    for key in $STATE_KEYS; do echo "$key=${!key:-}"; done
    echo COMPLETE=1
  } | write_file "$STATE/cluster.env"
}

load_state() {
  local key value
  # shellcheck disable=SC2086 # a list of names
  unset $STATE_KEYS
  grep -qxF COMPLETE=1 "$STATE/cluster.env" 2>/dev/null || return 1
  while IFS='=' read -r key value; do
    case " $STATE_KEYS " in *" $key "*) printf -v "$key" '%s' "$value" ;; esac
  done <"$STATE/cluster.env"
}

# A port counts as in use when anything listens on it at any address: a server on all addresses would get in our way too.
port_in_use() {
  local hex
  printf -v hex '%04X' "$1"
  awk -v port=":$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 } END { exit !found }' /proc/net/tcp /proc/net/tcp6 2>/dev/null \
    || grep -qsE "^[A-Z_]*PORT=$1\$" "$CLUSTERS"/*/cluster.env
}

# pick_port VARIABLE START: the first port from START on that nobody uses.
pick_port() {
  local port=$2
  while port_in_use "$port" || [[ " $PICKED " == *" $port "* ]]; do
    port=$((port + 1))
    [ "$port" -lt $(($2 + 1000)) ] || die "no free port between $2 and $port"
  done
  PICKED+=" $port"
  printf -v "$1" '%s' "$port"
}

# Two clusters that start at the same moment must not pick the same, so this runs under one lock for all of them, and what was
# picked is recorded before the lock is released.
pick_addresses() {
  local n
  PICKED=
  # An ephemeral port is taken by any outgoing connection at any time, so all of these lie below that range (from 32768).
  pick_port API_PORT 26443
  pick_port ETCD_PORT 22379
  pick_port ETCD_PEER_PORT 23380
  pick_port KCM_PORT 20257
  ADDRESS=127.0.0.1 SUBNET='' BRIDGE='' SCHEDULER_PORT='' KUBELET_PORT='' KUBELET_HEALTH_PORT=''
  [ "$KIND" = node ] || { save_state; return; }
  pick_port SCHEDULER_PORT 21259
  pick_port KUBELET_PORT 24250
  pick_port KUBELET_HEALTH_PORT 25248
  for n in $(seq 0 63); do
    ! ip -o address show | grep -qF " 10.244.$n." || continue
    ! ip route show | grep -qF "10.244.$n." || continue
    ! grep -qsxF "BRIDGE=onc$n" "$CLUSTERS"/*/cluster.env || continue
    [ ! -e "/sys/class/net/onc$n" ] || continue
    ADDRESS=10.244.$n.1 SUBNET=10.244.$n.0/24 BRIDGE=onc$n
    save_state
    return
  done
  die "no free network: 10.244.0.0/24 to 10.244.63.0/24 are all in use"
}
