# shellcheck shell=bash
# The stages of the Makefile's targets. Sourced by dev/stages, which runs each in a subshell at the top of the clone.
#
#   ONCILLA_TEST_KUBECONFIG   what tests/control_plane.rs and the benchmarks get: a cluster without a node
#   ONCILLA_E2E_KUBECONFIG    what tests/e2e.rs gets: a whole cluster, with the images oncilla.dev/oncilla:dev, shop:dev and busybox:dev
#                             on its node, and with it ONCILLA_E2E_ADDRESS (of this machine, as pods see it; empty for a cluster of the
#                             user's own), ONCILLA_E2E_HELM and ONCILLA_E2E_KUBECTL (programs)

WHOLE=${ONCILLA_CLUSTER:-dev}
CONTROL_PLANE=${ONCILLA_CONTROL_PLANE:-control-plane}

# Everything is built with the lock file as it is committed, so that a test is of what others will build.
export CARGO_TERM_PROGRESS_WHEN=never

stage_packages_check() { need_packages base lint cluster; }
stage_packages() { need_packages base lint cluster node postgres image; }

stage_tools_check() { build_tools etcd kube-apiserver kube-controller-manager kubectl; }
stage_tools() { build_tools etcd kube-apiserver kube-controller-manager kubectl kube-scheduler kubelet pause helm; }

stage_fmt() { cargo fmt --all -- --check --color never; }

stage_clippy() { cargo clippy --locked --workspace --all-targets --all-features -- -D warnings; }

# The shell scripts are part of what must hold on other machines.
stage_scripts() { git ls-files -z --cached --others --exclude-standard -- dev demo deploy .ci | scripts_only | xargs -0r shellcheck -x --severity=warning; }

# Executables only: what they source is checked with them, where it makes sense.
scripts_only() {
  local file
  while IFS= read -r -d '' file; do
    [ -f "$file" ] && [ -x "$file" ] && head -c 40 "$file" | grep -aq '^#!.*\(ba\)\{0,1\}sh' && printf '%s\0' "$file"
  done
  return 0
}

# Test targets that need a control plane, and get one by ONCILLA_TEST_KUBECONFIG.
CONTROL_PLANE_TESTS='control_plane'

# Every test target that needs no cluster.
stage_unit() {
  local targets=() file name
  for file in tests/*.rs tests/*/main.rs; do
    [ -f "$file" ] || continue
    name=${file#tests/} name=${name%.rs} name=${name%/main}
    case " e2e $CONTROL_PLANE_TESTS " in *" $name "*) ;; *) targets+=(--test "$name") ;; esac
  done
  cargo test --locked --workspace --no-fail-fast --lib --bins "${targets[@]}"
}

stage_doc() { cargo test --locked --workspace --doc; }

# The programs of the demo's steps and its database server, against a server of their own, which is stopped afterwards.
stage_shop() {
  local status=0
  cargo test --locked --package shop --features database-tests --no-fail-fast || status=$?
  ONCILLA_POSTGRES_DIR=$ONCILLA_CACHE/postgres/test "$ONCILLA_ROOT/demo/postgres.sh" stop || true
  return $status
}

require_test() { [ -f "tests/$1.rs" ] || [ -f "tests/$1/main.rs" ] || die "tests/$1.rs is missing: this stage has nothing to run"; }

stage_control_plane() {
  local name targets=()
  for name in $CONTROL_PLANE_TESTS; do
    require_test "$name"
    targets+=(--test "$name")
  done
  # Built first: a cluster need not wait for a compiler.
  cargo test --locked "${targets[@]}" --no-run
  "$ONCILLA_ROOT/dev/cluster" up "$CONTROL_PLANE" --control-plane
  use_cluster "$CONTROL_PLANE"
  ONCILLA_TEST_KUBECONFIG=$STATE/admin.kubeconfig cargo test --locked --no-fail-fast "${targets[@]}"
}

stage_bench() {
  "$ONCILLA_ROOT/dev/cluster" up "$CONTROL_PLANE" --control-plane
  use_cluster "$CONTROL_PLANE"
  ONCILLA_TEST_KUBECONFIG=$STATE/admin.kubeconfig cargo bench --locked
}

# The chart lints strictly and renders, and deploy/install.yaml is what it renders. That the other generated files are what the code
# says is a unit test (tests/drift.rs).
stage_chart() {
  build_tools helm
  "$ONCILLA_ROOT/deploy/check.sh"
}

# The tests run what was built with debug assertions and overflow checks; it shares what it is compiled from with them.
stage_image() {
  export ONCILLA_PROFILE=${ONCILLA_PROFILE:-dev}
  "$ONCILLA_ROOT/dev/image" build oncilla
  "$ONCILLA_ROOT/dev/image" build shop
  "$ONCILLA_ROOT/dev/image" build busybox
}

# The Dockerfile, for those who build with Docker, gives the same image.
stage_dockerfile() {
  ONCILLA_PROFILE=${ONCILLA_PROFILE:-dev} "$ONCILLA_ROOT/dev/images/check.sh"
}

stage_cluster() {
  "$ONCILLA_ROOT/dev/cluster" up "$WHOLE"
  "$ONCILLA_ROOT/dev/image" load oncilla "$WHOLE"
  "$ONCILLA_ROOT/dev/image" load shop "$WHOLE"
  "$ONCILLA_ROOT/dev/image" load busybox "$WHOLE"
}

# The tests wait for the cluster most of the time, so more of them run at once than there are processors.
stage_e2e() {
  local address=
  require_test e2e
  build_tools helm kubectl
  [ -n "${ONCILLA_KUBECONFIG:-}" ] || address=$("$ONCILLA_ROOT/dev/cluster" address "$WHOLE")
  ONCILLA_E2E_KUBECONFIG=$("$ONCILLA_ROOT/dev/cluster" kubeconfig "$WHOLE") ONCILLA_E2E_ADDRESS=$address \
    ONCILLA_E2E_HELM=$(tool_path helm) ONCILLA_E2E_KUBECTL=$(tool_path kubectl) cargo test --locked --test e2e -- --test-threads=8
}

# Clusters of its own; it leaves the one above alone.
stage_crash() { "$ONCILLA_ROOT/dev/test/crash.sh"; }
