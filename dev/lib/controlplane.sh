# shellcheck shell=bash
# etcd, kube-apiserver and kube-controller-manager of one cluster. Sourced after process.sh, pki.sh, state.sh and tools.sh.

SERVICE_ADDRESS=10.96.0.1

kube() {
  "$(tool_path kubectl)" --kubeconfig "$STATE/admin.kubeconfig" --cache-dir "$STATE/kubectl-cache" --request-timeout=10s "$@"
}

# --unsafe-no-fsync: a cluster is made anew after a crash, so its data need not outlive one.
start_etcd() {
  spawn etcd "$(tool_path etcd)" --name "$CLUSTER" --data-dir "$STATE/etcd" --unsafe-no-fsync --log-level=warn \
    --listen-client-urls "http://127.0.0.1:$ETCD_PORT" --advertise-client-urls "http://127.0.0.1:$ETCD_PORT" \
    --listen-peer-urls "http://127.0.0.1:$ETCD_PEER_PORT" --initial-advertise-peer-urls "http://127.0.0.1:$ETCD_PEER_PORT" \
    --initial-cluster "$CLUSTER=http://127.0.0.1:$ETCD_PEER_PORT"
}

# The API server listens on loopback, or on the bridge when there is a node: its pods and its kubelet come from there.
# No endpoint of the service "kubernetes" is written: a rule on the bridge takes pods there (node.sh).
start_apiserver() {
  local audit=()
  if [ -n "${ONCILLA_AUDIT:-}" ]; then
    printf 'apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: %s}]\n' "$ONCILLA_AUDIT" \
      | write_file "$STATE/audit-policy.yaml"
    audit=(--audit-policy-file="$STATE/audit-policy.yaml" --audit-log-path="$STATE/log/audit.log")
  fi
  spawn kube-apiserver "$(tool_path kube-apiserver)" --etcd-servers="http://127.0.0.1:$ETCD_PORT" \
    --bind-address="$ADDRESS" --secure-port="$API_PORT" --advertise-address="$ADDRESS" --endpoint-reconciler-type=none \
    --tls-cert-file="$STATE/pki/apiserver.crt" --tls-private-key-file="$STATE/pki/apiserver.key" --client-ca-file="$STATE/pki/ca.crt" \
    --token-auth-file="$STATE/pki/tokens.csv" --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$STATE/pki/sa.pub" \
    --service-account-signing-key-file="$STATE/pki/sa.key" --service-cluster-ip-range=10.96.0.0/16 --allow-privileged=true \
    --kubelet-client-certificate="$STATE/pki/kubelet-client.crt" --kubelet-client-key="$STATE/pki/kubelet-client.key" \
    --kubelet-preferred-address-types=InternalIP --max-requests-inflight=800 --max-mutating-requests-inflight=400 \
    --profiling=false "${audit[@]}"
}

# By default it makes 20 requests a second, which would set the pace of every run; here Oncilla is to be seen, not that limit.
start_controller_manager() {
  spawn kube-controller-manager "$(tool_path kube-controller-manager)" --kubeconfig "$STATE/kube-controller-manager.kubeconfig" \
    --service-account-private-key-file="$STATE/pki/sa.key" --root-ca-file="$STATE/pki/ca.crt" --use-service-account-credentials \
    --leader-elect=false --bind-address=127.0.0.1 --secure-port="$KCM_PORT" --allocate-node-cidrs=false \
    --kube-api-qps=1000 --kube-api-burst=2000 --concurrent-job-syncs=50 --concurrent-gc-syncs=50 --profiling=false
}

# api_ready [FLAG...]: while it starts it may leave a request unanswered, so who waits for that asks again soon.
api_ready() { kube "$@" get --raw /readyz; }

# Namespaces get what pods need from the controllers, so a first pod would be refused before that.
namespace_ready() { kube -n default get serviceaccount/default configmap/kube-root-ca.crt; }

control_plane_components() { echo kube-apiserver kube-controller-manager etcd; }

start_control_plane() {
  local user
  make_pki DNS:localhost DNS:kubernetes DNS:kubernetes.default DNS:kubernetes.default.svc DNS:kubernetes.default.svc.cluster.local \
    "IP:$SERVICE_ADDRESS" IP:127.0.0.1 "IP:$ADDRESS"
  for user in admin kube-controller-manager kube-scheduler kubelet; do make_kubeconfig "$user" "https://$ADDRESS:$API_PORT"; done
  start_etcd
  start_apiserver
  wait_for "the API server answers at https://$ADDRESS:$API_PORT" 180 "kube-apiserver etcd" api_ready --request-timeout=3s
  start_controller_manager
  wait_for "the controllers serve namespaces" 120 "kube-controller-manager kube-apiserver etcd" namespace_ready
}
