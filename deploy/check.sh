#!/usr/bin/env bash
# Checks the chart without a cluster: it lints strictly with the default values and with every value set, its schema refuses what
# it should, and deploy/install.yaml is what it renders.
#
#   deploy/check.sh
set -euo pipefail
# shellcheck source=dev/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../dev/lib/common.sh"
[ $# -eq 0 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2; }

HELM=$("$ONCILLA_ROOT/dev/tools.sh" path helm)
CHART=$ONCILLA_ROOT/charts/oncilla
EVERY=$CHART/ci/every-value-values.yaml

# quietly COMMAND...: shows what it says only when it fails.
quietly() {
  local text
  text=$("$@" 2>&1) || { printf '%s\n' "$text" >&2; die "failed: $*"; }
}

# refused WORDS SETTING: the chart's schema must refuse the setting, in these words.
refused() {
  local text
  if text=$("$HELM" template oncilla "$CHART" --set "$2" 2>&1); then die "the chart accepts --set $2"; fi
  grep -qF -- "$1" <<<"$text" || die "the chart refuses --set $2, but does not say \"$1\": $text"
}

for values in "$CHART/values.yaml" "$EVERY"; do
  quietly "$HELM" lint --strict "$CHART" --values "$values"
  quietly "$HELM" template oncilla "$CHART" --namespace oncilla-system --values "$values"
done
quietly "$HELM" template oncilla "$CHART" --set serviceAccount.create=false,rbac.create=false,crds.install=false,policies.install=false
# Of the values that are set, none may be without effect.
rendered=$("$HELM" template oncilla "$CHART" --namespace oncilla-system --values "$EVERY")
for text in 'image: "registry.example/oncilla:1.2.3"' 'imagePullPolicy: Always' '- name: registry' 'name: workflows' 'replicas: 2' \
  '--log-format=pretty' '--namespace=shop' '--concurrency=8' '--request-timeout=20' 'value: "info,kube=debug"' '--health-address=0.0.0.0:9090' 'memory: 512Mi' 'terminationGracePeriodSeconds: 60' \
  'name: workflows-controller' 'example.com/role: workflows' 'example.com/scrape: "false"' 'team: platform' \
  'priorityClassName: system-cluster-critical' 'kubernetes.io/os: linux' 'node-role.kubernetes.io/control-plane' \
  'topologyKey: kubernetes.io/hostname' '- --help' 'RUST_BACKTRACE'; do
  grep -qF -- "$text" <<<"$rendered" || die "a value has no effect: nothing says \"$text\""
done
refused "additional properties 'replica' not allowed" replica=1
refused "additional properties 'tagg' not allowed" image.tagg=x
refused "maximum: got 3, want 2" replicas=3
refused "log/format" log.format=text
refused "health/port" health.port=80
"$ONCILLA_ROOT/deploy/render.sh" --check
say "the chart is sound, and deploy/install.yaml is what it renders"
