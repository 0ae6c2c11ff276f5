# shellcheck shell=bash
# The Go programs that developing needs, and how each is built. Sourced after common.sh; dev/tools.sh is the command.

# tool_module TOOL: the module under dev/tools that pins it.
tool_module() {
  case $1 in
    kube-apiserver | kube-controller-manager | kube-scheduler | kubelet | kubectl) echo kube ;;
    etcd | helm | pause) echo "$1" ;;
    *) die "there is no tool $1: dev/tools.sh lists them" ;;
  esac
}

tool_package() {
  case $1 in
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    helm) echo helm.sh/helm/v4/cmd/helm ;;
    pause) echo . ;;
    *) echo "k8s.io/kubernetes/cmd/$1" ;;
  esac
}

# module_ldflags MODULE: Kubernetes takes its version from the linker; without it every component calls itself v0.0.0.
module_ldflags() {
  local version
  case $1 in
    kube)
      version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$ONCILLA_ROOT/dev/tools/kube/go.mod")
      [[ $version == v[0-9]* ]] || die "dev/tools/kube/go.mod does not name a version of k8s.io/kubernetes"
      echo "-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/client-go/pkg/version.gitVersion=$version"
      ;;
    etcd) ;;
    *) echo "-s -w" ;;
  esac
}

# How long the first build of a module takes on two cores, for people who wait for it.
module_time() {
  case $1 in
    kube) echo "about 11 minutes" ;;
    helm) echo "about 4 minutes" ;;
    *) echo "about a minute" ;;
  esac
}

# A binary is made from its module's files, the compiler and the flags.
tool_key() {
  local module=$1
  have go || die "Go is missing: the cluster's programs are built from source. Install Go 1.26 or newer and put it on the PATH"
  (
    cd "$ONCILLA_ROOT/dev/tools/$module" || exit
    go version
    module_ldflags "$module"
    find . -name '*.go' -o -name 'go.*' | LC_ALL=C sort | xargs sha256sum
  ) | short_hash
}

# tool_path TOOL: where the binary is once it is built.
tool_path() {
  local module
  module=$(tool_module "$1")
  echo "$ONCILLA_CACHE/bin/$module-$(tool_key "$module")/$1"
}

# build_tools TOOL...: builds those that are missing, one go build a module (the packages share most of what they compile).
build_tools() {
  local tool module path
  local -A missing=()
  for tool; do
    module=$(tool_module "$tool")
    path=$(tool_path "$tool")
    [ -x "$path" ] || missing[$module]+=" $tool"
  done
  for module in "${!missing[@]}"; do
    # shellcheck disable=SC2086 # the names are ours and carry no spaces
    with_lock "$ONCILLA_CACHE/bin/.$module.lock" "building $module" build_module "$module" ${missing[$module]}
  done
}

# build_module MODULE TOOL...: runs under the module's lock. Binaries appear by rename, so one that is there is whole.
build_module() {
  local module=$1 tool dir tmp log started packages=() names=()
  shift
  dir=$ONCILLA_CACHE/bin/$module-$(tool_key "$module")
  for tool; do
    [ -x "$dir/$tool" ] && continue # built while this process waited for the lock
    packages+=("$(tool_package "$tool")")
    names+=("$tool")
  done
  [ ${#names[@]} -gt 0 ] || return 0
  mkdir -p "$dir" "$ONCILLA_CACHE/logs"
  rm -rf "$ONCILLA_CACHE/bin/.$module.tmp"
  tmp=$ONCILLA_CACHE/bin/.$module.tmp
  mkdir -p "$tmp"
  log=$ONCILLA_CACHE/logs/build-$module.log
  started=$(now_ms)
  say "building ${names[*]} (first time: $(module_time "$module"); log: $log)"
  local status=0 target=$tmp/ build seconds=0
  # A single package is named by its folder (etcd's is "v3" or "server"), so it is told the file's name instead.
  [ ${#names[@]} -gt 1 ] || target=$tmp/${names[0]}
  (
    cd "$ONCILLA_ROOT/dev/tools/$module" || exit
    CGO_ENABLED=0 GOFLAGS='-buildvcs=false' go build -trimpath -ldflags "$(module_ldflags "$module")" -o "$target" "${packages[@]}"
  ) >"$log" 2>&1 &
  build=$!
  # go build prints nothing while it works, and a silent quarter of an hour looks like a hang.
  while kill -0 "$build" 2>/dev/null; do
    sleep 1
    seconds=$((seconds + 1))
    [ $((seconds % 30)) -ne 0 ] || say "  still building ${names[*]}: $seconds s"
  done
  wait "$build" || status=$?
  if [ $status -ne 0 ]; then
    tail -n 20 "$log" >&2
    die "go build failed in dev/tools/$module (whole log: $log)"
  fi
  for tool in "${names[@]}"; do mv -f "$tmp/$tool" "$dir/$tool"; done
  rm -rf "$tmp"
  say "built ${names[*]} in $(seconds_since "$started") s"
}
