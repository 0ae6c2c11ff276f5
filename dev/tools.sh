#!/usr/bin/env bash
# Builds the Go programs that developing needs: Kubernetes' components, etcd, helm and the pause program.
#
#   dev/tools.sh path TOOL       prints where the binary is, building it first if need be
#   dev/tools.sh build TOOL...   builds what is missing, all packages of one module together
#   dev/tools.sh key TOOL        prints what the binary is keyed by
#
# Tools: kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl etcd helm pause
#
# Each module under dev/tools pins one set. A binary is kept in $ONCILLA_CACHE/bin/MODULE-KEY/TOOL, where KEY is a hash of all that
# it is made from (go.mod, go.sum, own sources, Go's version, flags), so a fresh clone on the same machine builds nothing.
set -euo pipefail
# shellcheck source=dev/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=dev/lib/tools.sh
. "$ONCILLA_ROOT/dev/lib/tools.sh"

usage() { sed -n '2,/^set /{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2; }

command=${1:-}
[ $# -ge 2 ] || usage
shift
case $command in
  path) [ $# -eq 1 ] || usage; build_tools "$1"; tool_path "$1" ;;
  build) build_tools "$@" ;;
  key) [ $# -eq 1 ] || usage; tool_key "$(tool_module "$1")"; echo ;;
  *) usage ;;
esac
