# shellcheck shell=bash
# Certificates, tokens and kubeconfigs of one cluster. Sourced after common.sh; STATE is the cluster's folder. They are made anew at
# each start of a cluster, so a half-written one cannot be met later.

# make_pki NAME...: the API server answers under these names and addresses (in openssl's notation, DNS:… and IP:…).
make_pki() {
  local pki=$STATE/pki names
  mkdir -p "$pki"
  chmod 700 "$pki"
  names=$(IFS=,; echo "$*")
  cat >"$pki/openssl.cnf" <<END
[req]
distinguished_name = name
prompt = no
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, digitalSignature
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = $names
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
END
  (
    umask 077
    cd "$pki"
    # P-256 takes milliseconds where RSA takes seconds on a busy machine.
    local key
    for key in ca apiserver kubelet-client sa; do openssl ecparam -genkey -name prime256v1 -noout -out $key.key; done
    openssl ec -in sa.key -pubout -out sa.pub
    openssl req -config openssl.cnf -x509 -new -key ca.key -subj /CN=oncilla-dev -days 365 -extensions ca -out ca.crt
    issue apiserver server /CN=kube-apiserver
    issue kubelet-client client /O=system:masters/CN=kube-apiserver
    openssl verify -CAfile ca.crt apiserver.crt kubelet-client.crt
  ) >"$STATE/log/pki.log" 2>&1 || die "openssl failed (log: $STATE/log/pki.log)"
  local user
  for user in admin kube-controller-manager kube-scheduler kubelet; do make_token >"$pki/$user.token"; done
  write_file "$pki/tokens.csv" 600 <<END
$(cat "$pki/admin.token"),admin,admin,system:masters
$(cat "$pki/kube-controller-manager.token"),system:kube-controller-manager,kube-controller-manager,
$(cat "$pki/kube-scheduler.token"),system:kube-scheduler,kube-scheduler,
$(cat "$pki/kubelet.token"),system:node:$NODE_NAME,kubelet,system:nodes
END
}

# issue NAME EXTENSIONS SUBJECT: a certificate for NAME.key, signed by the cluster's authority.
issue() {
  openssl req -config openssl.cnf -new -key "$1.key" -subj "$3" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile openssl.cnf -extensions "$2" -out "$1.crt"
}

make_token() { (umask 077; openssl rand -hex 24); }

# make_kubeconfig USER SERVER: everything is inside the file, so that it can be copied.
make_kubeconfig() {
  write_file "$STATE/$1.kubeconfig" 600 <<END
apiVersion: v1
kind: Config
clusters:
- name: $CLUSTER
  cluster:
    server: $2
    certificate-authority-data: $(base64 -w0 "$STATE/pki/ca.crt")
users:
- name: $1
  user:
    token: $(cat "$STATE/pki/$1.token")
contexts:
- name: $CLUSTER
  context: {cluster: $CLUSTER, user: $1}
current-context: $CLUSTER
END
}
