#!/usr/bin/env bash
# Renders the chart, with its default values, into deploy/install.yaml: Oncilla for those who do not use Helm.
#
#   deploy/render.sh           writes deploy/install.yaml
#   deploy/render.sh --check   fails, and shows the difference, when it is not what the chart gives
#   deploy/render.sh --print [CHART]   prints what the chart (or a copy of it) gives
set -euo pipefail
# shellcheck source=dev/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../dev/lib/common.sh"

NAMESPACE=oncilla-system
FILE=$ONCILLA_ROOT/deploy/install.yaml

render() {
  local helm
  helm=$("$ONCILLA_ROOT/dev/tools.sh" path helm)
  cat <<END
# Generated from charts/oncilla by deploy/render.sh; do not edit.
#
#   kubectl apply -f deploy/install.yaml
apiVersion: v1
kind: Namespace
metadata:
  name: $NAMESPACE
  labels:
    pod-security.kubernetes.io/enforce: restricted
END
  # Nothing of this is managed by Helm, and kubectl must not say that it is.
  "$helm" template oncilla "${1:-$ONCILLA_ROOT/charts/oncilla}" --namespace $NAMESPACE |
    grep -Ev '^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): '
}

case ${1:-} in
  "")
    # In two steps: a chart that does not render must not cost the file.
    text=$(render)
    printf '%s\n' "$text" | write_file "$FILE"
    ;;
  --check)
    # Without --label the difference would name a pipe of this process.
    render | diff -u --label "deploy/install.yaml (committed)" --label "charts/oncilla (rendered)" "$FILE" - >&2 ||
      die "deploy/install.yaml is not what the chart gives: run deploy/render.sh and commit the result"
    ;;
  --print) render "${2:-}" ;;
  *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
