# shellcheck shell=bash
# The node of a cluster: bridge, containerd, kubelet and the scheduler that fills it. Sourced after controlplane.sh.
#
# Pods have a route to the bridge and to the service network, none to anywhere else, and nothing is forwarded or masqueraded:
# what a pod sends stays on this machine.

# The network's name, the packet rule's comment and the control groups carry the cluster's id: see clean.sh.
make_bridge() {
  ip link add "$BRIDGE" type bridge
  # The alias comes first: a bridge without it would be nobody's.
  ip link set dev "$BRIDGE" alias "oncilla:$STATE"
  ip address add "$ADDRESS/24" dev "$BRIDGE"
  ip link set "$BRIDGE" up
  # There is no kube-proxy; this one rule is the service "kubernetes".
  iptables -w 10 -t nat -A PREROUTING -i "$BRIDGE" -d "$SERVICE_ADDRESS/32" -p tcp --dport 443 \
    -m comment --comment "oncilla-$(cluster_id)" -j DNAT --to-destination "$ADDRESS:$API_PORT"
}

# A root of our own keeps two kubelets on a machine from removing each other's groups, and tells ours from others'.
make_cgroups() {
  local mount root found=
  while read -r mount; do
    root=$mount/oncilla-$(cluster_id)
    if [ -f "$mount/cgroup.controllers" ]; then
      # Beside v1 hierarchies, which own the controllers that matter, the v2 tree is only a bystander.
      grep -qw memory "$mount/cgroup.controllers" || continue
      enable_controllers "$mount"
      mkdir -p "$root"
      enable_controllers "$root"
    else
      mkdir -p "$root" 2>/dev/null || continue
      # A v1 cpuset takes no process until it is told its processors and memory.
      if [ -f "$root/cpuset.cpus" ]; then
        cat "$mount/cpuset.cpus" >"$root/cpuset.cpus"
        cat "$mount/cpuset.mems" >"$root/cpuset.mems"
      fi
    fi
    found=1
  done < <(cgroup_mounts)
  [ -n "$found" ] || die "no control groups are mounted under /sys/fs/cgroup; the kubelet needs them"
}

enable_controllers() {
  local controller
  for controller in cpu cpuset memory pids io; do
    ! grep -qw "$controller" "$1/cgroup.controllers" || echo "+$controller" >"$1/cgroup.subtree_control" 2>/dev/null \
      || die "cannot delegate the controller $controller in $1: processes sit in that control group itself (inside a container, move them to a child group first)"
  done
}

write_node_config() {
  local kubelet_runtime="unix://$STATE/containerd.sock"
  write_file "$STATE/cni/10-oncilla.conflist" <<END
{"cniVersion": "1.0.0", "name": "oncilla-$(cluster_id)", "plugins": [{"type": "bridge", "bridge": "$BRIDGE", "isGateway": true, "ipMasq": false,
  "hairpinMode": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "$SUBNET"}]], "routes": [{"dst": "10.96.0.0/16"}],
  "dataDir": "$STATE/cni-addresses"}}]}
END
  # Its default places (network namespaces, runc's state) are shared by all containerds of a machine; ours are all below the state folder.
  write_file "$STATE/containerd.toml" <<END
version = 2
root = "$STATE/containerd/root"
state = "$STATE/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "$STATE/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE_IMAGE"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "$STATE/containerd/runc"
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$(cni_folder)"
    conf_dir = "$STATE/cni"
END
  # Nothing answers at the name server's address, and says so at once: there is no DNS in this cluster.
  echo "nameserver $ADDRESS" | write_file "$STATE/resolv.conf"
  write_file "$STATE/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $ADDRESS
port: $KUBELET_PORT
healthzPort: $KUBELET_HEALTH_PORT
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $STATE/pki/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /oncilla-$(cluster_id)
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
clusterDNS: [$ADDRESS]
clusterDomain: cluster.local
resolvConf: $STATE/resolv.conf
containerRuntimeEndpoint: $kubelet_runtime
podLogsDir: $STATE/pod-logs
volumePluginDir: $STATE/kubelet/volume-plugins
evictionHard: {imagefs.available: 0%, nodefs.available: 0%, memory.available: 100Mi}
imageGCHighThresholdPercent: 100
maxPods: 250
registryPullQPS: 0
serializeImagePulls: false
eventRecordQPS: 0
kubeAPIQPS: 200
kubeAPIBurst: 400
END
}

# The shims inherit the mark from containerd (process.sh).
start_containerd() { spawn containerd containerd --config "$STATE/containerd.toml"; }

start_scheduler() {
  spawn kube-scheduler "$(tool_path kube-scheduler)" --kubeconfig "$STATE/kube-scheduler.kubeconfig" --leader-elect=false \
    --bind-address=127.0.0.1 --secure-port="$SCHEDULER_PORT" --kube-api-qps=1000 --kube-api-burst=2000 --profiling=false
}

start_kubelet() {
  spawn kubelet "$(tool_path kubelet)" --config "$STATE/kubelet.yaml" --kubeconfig "$STATE/kubelet.kubeconfig" \
    --hostname-override "$NODE_NAME" --node-ip "$ADDRESS" --root-dir "$STATE/kubelet" --cert-dir "$STATE/kubelet/pki"
}

cluster_ctr() { ctr --address "$STATE/containerd.sock" --namespace k8s.io "$@"; }

containerd_ready() { cluster_ctr version && cluster_ctr plugins ls | grep -qE '^io.containerd.(grpc.v1|cri.v1)[[:space:]]+(cri|runtime)[[:space:]].*ok'; }

# containerd lists its CRI plugin before that answers, and a kubelet that asks too early ends itself.
revive() {
  [ "$1" = kubelet ] && [ "$KUBELET_STARTS" -lt 20 ] || return 1
  tail -n 5 "$STATE/log/kubelet.log" | grep -q "server is not initialized yet" || return 1
  KUBELET_STARTS=$((KUBELET_STARTS + 1))
  start_kubelet
}

node_ready() {
  [ "$(kube get node "$NODE_NAME" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]
}

node_components() { echo kubelet containerd kube-scheduler; }

# start_node: needs the control plane.
start_node() {
  KUBELET_STARTS=1
  write_node_config
  start_containerd
  start_scheduler
  wait_for "containerd answers" 60 containerd containerd_ready
  load_image "$PAUSE_IMAGE" >/dev/null
  start_kubelet
  wait_for "the node $NODE_NAME is ready" 180 "kubelet containerd kube-scheduler kube-apiserver" node_ready
}
