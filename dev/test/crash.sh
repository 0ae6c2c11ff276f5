#!/usr/bin/env bash
# Shows that whatever a killed run leaves behind, the next start works: a cluster is ended with SIGKILL in five states, its files are
# spoiled, its ports are taken, and each time it is started again and runs a pod.
#
#   dev/test/crash.sh
#
# It uses a cluster of its own, named "crash" (ONCILLA_CRASH_CLUSTER for another name), and needs root.
set -euo pipefail
# shellcheck source=dev/lib/all.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/all.sh"
# The cluster of this test is always one of our own.
unset ONCILLA_KUBECONFIG

use_cluster "${ONCILLA_CRASH_CLUSTER:-crash}"
CLI=$ONCILLA_ROOT/dev/cluster
LOG=$ONCILLA_CACHE/logs/crash
mkdir -p "$LOG"
rm -f "$LOG"/*
RUNNER=
BYSTANDER=
LISTENERS=()
STEP=setup
passed=0

cleanup() {
  local status=$? pid
  [ -z "$RUNNER" ] || kill -KILL -- "-$RUNNER" 2>/dev/null || true
  for pid in "${LISTENERS[@]}" $BYSTANDER; do kill "$pid" 2>/dev/null || true; done
  if [ $status -eq 0 ]; then "$CLI" down "$CLUSTER" 2>/dev/null || true; return; fi
  say "the crash test failed in: $STEP. What the commands said: $LOG; the cluster's own logs: $STATE/log"
  tail -n 20 "$LOG/${STEP// /-}.log" >&2 2>/dev/null || true
}
trap cleanup EXIT
trap 'exit 130' INT TERM

step() {
  [ -z "${STEP_BEGAN:-}" ] || say "    $(seconds_since "$STEP_BEGAN") s"
  STEP=$1
  STEP_BEGAN=$(now_ms)
  say "- $STEP"
}

fail() { die "$STEP: $*"; }

run() { "$@" >>"$LOG/${STEP// /-}.log" 2>&1; }

# begin COMMAND...: runs it in the background in a process group of its own, whose id is RUNNER.
begin() {
  setsid "$@" >>"$LOG/${STEP// /-}.log" 2>&1 </dev/null &
  RUNNER=$!
}

# until_true WHAT COMMAND...: waits for a state of the run in the background, which must not have ended before.
until_true() {
  local what=$1
  shift
  until "$@" >/dev/null 2>&1; do
    kill -0 "$RUNNER" 2>/dev/null || fail "the command ended before $what"
    sleep 0.02
  done
}

# Without warning, as when memory runs out: first the script, then the components. What they started (shims, pods) runs on.
kill_all() {
  if [ -n "$RUNNER" ]; then
    kill -KILL -- "-$RUNNER" 2>/dev/null || true
    wait "$RUNNER" 2>/dev/null || true
    RUNNER=
  fi
  "$CLI" kill "$CLUSTER"
  ! component_alive etcd || fail "etcd outlived SIGKILL"
}

up() { run "$CLI" up "$CLUSTER" || fail "the cluster did not start"; }

# The node is ready, and a pod runs on it to its end and has its log read.
works() {
  load_state || fail "no recorded state"
  node_ready || fail "the node is not ready"
  run "$ONCILLA_ROOT/dev/image" load busybox "$CLUSTER"
  run kube run probe --image=oncilla.dev/busybox:dev --restart=Never --command -- echo alive
  run kube wait pod/probe '--for=jsonpath={.status.phase}=Succeeded' --timeout=60s --request-timeout=0 || fail "a pod does not run to its end"
  [ "$(kube logs probe)" = alive ] || fail "the pod's log cannot be read"
  [ "$(our_bridges | wc -l)" -eq 1 ] || fail "there are bridges of earlier starts: $(our_bridges)"
  passed=$((passed + 1))
}

long_pod() {
  run "$ONCILLA_ROOT/dev/image" load busybox "$CLUSTER"
  run kube run long --image=oncilla.dev/busybox:dev --restart=Never --command -- sleep 3600
  run kube wait pod/long --for=condition=Ready --timeout=60s --request-timeout=0 || fail "the pod does not start"
}

nothing_left() {
  [ -z "$(our_processes)" ] || fail "processes are left"
  [ -z "$(our_mounts)" ] || fail "mounts are left"
  [ -z "$(our_bridges)" ] || fail "a bridge is left"
  [ -z "$(our_cgroup_roots)" ] || fail "control groups are left"
  ! iptables -w 10 -t nat -S PREROUTING | grep -qF "oncilla-$(cluster_id)" || fail "a packet rule is left"
  ! compgen -G "/var/lib/cni/results/oncilla-$(cluster_id)-*" >/dev/null || fail "network results are left"
}

# hold_port PORT: keeps a port busy, as a program that has nothing to do with us would, and waits until it does or has failed.
hold_port() {
  "$BUSYBOX" httpd -f -p "127.0.0.1:$1" -h "$LOG" >/dev/null 2>&1 &
  LISTENERS+=($!)
  until port_in_use "$1"; do
    kill -0 "${LISTENERS[-1]}" 2>/dev/null || return 0
    sleep 0.02
  done
}

component_recorded() { [ -s "$STATE/run/$1.pid" ]; }
recorded() { load_state; }
api_is_up() { load_state && [ -s "$STATE/admin.kubeconfig" ] && api_ready && ! component_recorded kubelet; }
going_down() { ! component_alive kube-apiserver; }

BUSYBOX=$(static_busybox)
KIND=node
run "$CLI" down "$CLUSTER" || fail "cannot stop what an earlier test left"

step "killed while etcd starts"
begin "$CLI" up "$CLUSTER"
until_true "etcd was started" component_recorded etcd
kill_all
up
works

step "killed with the API server up and no node"
run "$CLI" down "$CLUSTER"
begin "$CLI" up "$CLUSTER"
until_true "the API server was up" api_is_up
kill_all
up
works

step "killed with the node ready and idle"
kill_all
up
works

step "killed with pods running"
long_pod
kill_all
[ -n "$(our_mounts)" ] && [ -n "$(our_processes)" ] || fail "no mount and no process was left, so this shows nothing"
left=$(our_processes)
up
for pid in $left; do ! kill -0 "$pid" 2>/dev/null || is_zombie "$pid" || fail "the process $pid of the pods that ran outlived the new start"; done
works

step "killed during teardown"
long_pod
begin "$CLI" down "$CLUSTER"
until_true "the API server was stopped" going_down
kill_all
up
works

step "spoiled files"
kill_all
# Certificates, tokens and the record of the cluster cut short, damaged databases, and a recorded process id that belongs to somebody else by now.
: >"$STATE/pki/admin.token"
truncate -s 100 "$STATE/pki/apiserver.crt" "$STATE/pki/ca.crt" "$STATE/admin.kubeconfig"
for file in "$STATE"/etcd/member/snap/db "$STATE"/etcd/member/wal/*.wal "$STATE"/containerd/root/io.containerd.metadata.v1.bolt/meta.db; do
  head -c 4096 /dev/urandom | dd of="$file" conv=notrunc status=none
done
sleep 600 &
BYSTANDER=$!
echo "$BYSTANDER 1" >"$STATE/run/etcd.pid"
truncate -s 40 "$STATE/cluster.env"
up
works
kill -0 "$BYSTANDER" 2>/dev/null || fail "it ended a process that is not its own"

step "one component gone"
kill -KILL "$(cut -d' ' -f1 "$STATE/run/kube-controller-manager.pid")"
until ! component_alive kube-controller-manager; do sleep 0.02; done
up
works

step "ports in use"
load_state
taken="$API_PORT $ETCD_PORT $KUBELET_HEALTH_PORT"
run "$CLI" down "$CLUSTER"
for port in $taken; do
  hold_port "$port"
  kill -0 "${LISTENERS[-1]}" 2>/dev/null || fail "cannot listen on port $port"
done
up
load_state
for port in $taken; do
  case " $API_PORT $ETCD_PORT $KUBELET_HEALTH_PORT " in *" $port "*) fail "it uses the port $port of another program" ;; esac
done
works

step "a port taken after it was chosen"
run "$CLI" down "$CLUSTER"
begin "$CLI" up "$CLUSTER"
until_true "the ports were chosen" recorded
chosen=$ETCD_PORT
hold_port "$chosen"
holder=${LISTENERS[-1]}
wait "$RUNNER" || fail "the cluster did not start"
RUNNER=
load_state
# Whoever bound the port first has it; both cannot.
if kill -0 "$holder" 2>/dev/null; then [ "$ETCD_PORT" != "$chosen" ] || fail "two programs have the port $chosen"; fi
works

step "a healthy cluster is used as it is"
before=$(cat "$STATE/run"/*.pid)
up
[ "$before" = "$(cat "$STATE/run"/*.pid)" ] || fail "it was started anew"

step "nothing is left after it was stopped"
long_pod
run "$CLI" down "$CLUSTER" || fail "it does not stop"
nothing_left
say "crash test: the cluster came back in all of $passed cases"
