#!/usr/bin/env bash
# What a chain costs on a real cluster: ten steps that each add one to what the step before gave, once as a WorkflowRun, and once as
# bare Jobs that this script makes one after the other, each when the one before is complete and its pod's message has been read.
# Both make the same pods. They take turns, so that a machine that gets busier does so for both.
#
#   dev/bench-chain.sh [TIMES]     how often each is run (default 3)
#
# It installs Oncilla with its chart on the development cluster, as the demo does. dev/cluster explains ONCILLA_CLUSTER and
# ONCILLA_KUBECONFIG; ONCILLA_PROFILE is how the controller is compiled: release (default) or dev. With an audit log, the controller's
# requests are counted too; on a cluster of its own:
#
#   ONCILLA_CLUSTER=bench ONCILLA_AUDIT=Metadata dev/bench-chain.sh; dev/cluster down bench
set -euo pipefail
# shellcheck source=dev/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
TIMES=${1:-3}
[[ $# -le 1 && $TIMES =~ ^[1-9][0-9]*$ ]] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2; }
cd "$ONCILLA_ROOT"

CLUSTER=${ONCILLA_CLUSTER:-dev}
STEPS=10
LIMIT=300 # seconds that the cluster has for one step, or for one chain
SYSTEM=oncilla-system
NAMESPACE=bench-chain-$(now_ms)
LOG=$ONCILLA_CACHE/logs/bench-chain.log
AUDIT=$ONCILLA_CACHE/clusters/$CLUSTER/log/audit.log

# ---- what it needs

prepare() {
  mkdir -p "$(dirname "$LOG")"
  dev/cluster up "$CLUSTER"
  dev/image build oncilla >"$LOG" 2>&1 || { tail -n 30 "$LOG" >&2; die "the image oncilla cannot be built (log: $LOG)"; }
  dev/image load oncilla "$CLUSTER"
  dev/image load busybox "$CLUSTER"
  KUBECONFIG=$(dev/cluster kubeconfig "$CLUSTER")
  export KUBECONFIG
  # Directly, not by way of dev/cluster: what a script around it takes would count as the Jobs' time.
  KUBECTL=$(dev/tools.sh path kubectl)
  local build
  build=$(sha256sum <"$(dev/image file oncilla)" | cut -c1-16)
  "$(dev/tools.sh path helm)" upgrade --install oncilla charts/oncilla --namespace $SYSTEM --create-namespace --force-conflicts --take-ownership \
    --set image.repository=oncilla.dev/oncilla,image.tag=dev,image.pullPolicy=IfNotPresent \
    --set-string "podAnnotations.oncilla\.dev/build=$build" >"$LOG" 2>&1 || die "the chart cannot be installed (log: $LOG)"
  kubectl -n $SYSTEM rollout status deployment/oncilla --timeout=${LIMIT}s >"$LOG" 2>&1 \
    || die "the controller is not ready after $LIMIT s (log: $LOG)"
  kubectl create namespace "$NAMESPACE" >"$LOG"
  trap 'kubectl delete namespace "$NAMESPACE" --wait=false >>"$LOG" 2>&1' EXIT
  # Without it the first pod would come late.
  kubectl -n "$NAMESPACE" wait --for=create serviceaccount/default --timeout=${LIMIT}s >"$LOG"
}

kubectl() { "$KUBECTL" "$@"; }
in_namespace() { kubectl -n "$NAMESPACE" "$@"; }

# ---- the two ways

# container PREVIOUS FILE: what a step runs, indented for a Job's template; JSON is YAML too.
container() {
  printf '{"name": "main", "image": "oncilla.dev/busybox:dev", "command": ["sh", "-c", "echo $((PREVIOUS + 1)) >%s"], "env": [{"name": "PREVIOUS", "value": "%s"}]}' "$2" "$1"
}

# The chain as bare Jobs; prints the last value.
bare() {
  local name=$1 value=0 n
  for ((n = 1; n <= STEPS; n++)); do
    in_namespace create -f - >>"$LOG" <<END
apiVersion: batch/v1
kind: Job
metadata: {name: $name-$n}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      enableServiceLinks: false
      containers: [$(container "$value" /dev/termination-log)]
END
    in_namespace wait --for=condition=Complete "job/$name-$n" --timeout=${LIMIT}s >>"$LOG"
    value=$(in_namespace get pods -l "batch.kubernetes.io/job-name=$name-$n" \
      -o 'jsonpath={.items[0].status.containerStatuses[0].state.terminated.message}')
  done
  echo "$value"
}

# The chain as a WorkflowRun; prints the last step's output.
ours() {
  local name=$1 n previous=0
  {
    printf 'apiVersion: oncilla.dev/v1alpha1\nkind: WorkflowRun\nmetadata: {name: %s}\nspec:\n  steps:\n' "$name"
    for ((n = 1; n <= STEPS; n++)); do
      # shellcheck disable=SC2016 # for the shell in the container
      printf '  - {name: s%d, container: %s}\n' "$n" "$(container "$previous" '$ONCILLA_OUTPUT' | sed 's/"name": "main", //')"
      previous="\$[[ steps.s$n.output ]]"
    done
  } | in_namespace create -f - >>"$LOG"
  in_namespace wait --for=condition=Finished "workflowrun/$name" --timeout=${LIMIT}s >>"$LOG"
  in_namespace get workflowrun "$name" -o "jsonpath={.status.steps.s$STEPS.output}"
}

# timed WAY NAME: milliseconds that it took, if it gave what it should.
timed() {
  local started value
  started=$(now_ms)
  value=$("$1" "$2")
  echo $(($(now_ms) - started))
  [ "$value" = $STEPS ] || { in_namespace get jobs,pods,workflowruns >&2; die "$1 gave '$value', not $STEPS (log: $LOG)"; }
}

# ---- what the controller took

# Its process, if the node is this machine.
controller_pid() {
  local id
  [ -z "${ONCILLA_KUBECONFIG:-}" ] || return 0
  id=$(kubectl -n $SYSTEM get pods -l app.kubernetes.io/name=oncilla -o 'jsonpath={.items[0].status.containerStatuses[0].containerID}')
  dev/cluster ctr "$CLUSTER" tasks ls | awk -v id="${id#containerd://}" '$1 == id { print $2 }'
}

# Waits until the controller has let go of every pod: its last requests come after the run's end.
released() { while in_namespace get pods -o 'jsonpath={.items[*].metadata.finalizers}' | grep -q 'oncilla\.dev/'; do sleep 0.2; done; }

# Milliseconds of processor time so far.
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print int(($12 + $13) * 1000 / hz) }' "/proc/$1/stat"; }

# audit_lines: of the controller's requests so far, "verb resource/subresource" each.
audit_lines() {
  grep -F "\"username\":\"system:serviceaccount:$SYSTEM:oncilla\"" "$AUDIT" | grep -F '"stage":"ResponseComplete"' |
    sed -nE 's/.*"verb":"([a-z]+)".*"objectRef":\{"resource":"([a-z]+)"(.*)/\1 \2 \3/p' |
    sed -E 's/^([a-z]+) ([a-z]+) [^}]*"subresource":"([a-z]+)".*/\1 \2\/\3/; s/^([a-z]+) ([a-z\/]+) .*/\1 \2/'
}

# ---- the figures

median() { sort -n | awk '{ all[NR] = $1 } END { print NR % 2 ? all[(NR + 1) / 2] : int((all[NR / 2] + all[NR / 2 + 1]) / 2) }'; }
seconds() { awk -v ms="$1" 'BEGIN { printf "%.1f", ms / 1000 }'; }
load() { cut -d' ' -f1 /proc/loadavg; }

prepare
say "one bare chain first, so that both find a warm node"
timed bare warm >/dev/null
PID=$(controller_pid)
BARE=() OURS=() CPU=0 SEEN=0 REQUESTS=''
for ((i = 1; i <= TIMES; i++)); do
  load=$(load)
  BARE+=("$(timed bare "bare-$i")")
  before=${PID:+$(cpu_ms "$PID")}
  [ ! -f "$AUDIT" ] || SEEN=$(audit_lines | wc -l)
  OURS+=("$(timed ours "ours-$i")")
  released
  [ -z "$PID" ] || CPU=$((CPU + $(cpu_ms "$PID") - before))
  [ ! -f "$AUDIT" ] || REQUESTS+=$(audit_lines | tail -n +$((SEEN + 1)))$'\n'
  say "$i of $TIMES: bare Jobs $(seconds "${BARE[-1]}") s, WorkflowRun $(seconds "${OURS[-1]}") s (load before and after: $load, $(load))"
done
bare=$(printf '%s\n' "${BARE[@]}" | median) ours=$(printf '%s\n' "${OURS[@]}" | median)
echo
echo "chain of $STEPS steps, each way $TIMES times, $(nproc) cores:"
printf '  %-44s %6s s\n' "bare Jobs one after the other, median" "$(seconds "$bare")" "WorkflowRun, median" "$(seconds "$ours")"
awk -v ours="$ours" -v bare="$bare" 'BEGIN { printf "  %-44s %6.2f\n", "WorkflowRun / bare Jobs", ours / bare }'
if [ -n "$PID" ]; then
  printf '  %-44s %6s ms\n' "processor time of the controller, a step" "$(awk -v cpu="$CPU" -v steps="$((TIMES * STEPS))" 'BEGIN { printf "%.1f", cpu / steps }')"
  printf '  %-44s %6s MB\n' "most memory it had" "$(awk '/^VmHWM/ { printf "%.1f", $2 / 1024 }' "/proc/$PID/status")"
fi
if [ -n "${REQUESTS//[[:space:]]/}" ]; then
  echo "  its requests, a chain:"
  grep . <<<"$REQUESTS" | sort | uniq -c | awk -v times="$TIMES" '{ printf "    %-42s %6.1f\n", $2 " " $3, $1 / times }'
else
  echo "  its requests are not known: this cluster has no audit log (see the top of this script)"
fi
