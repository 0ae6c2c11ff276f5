#!/usr/bin/env bash
# The demo: an order workflow on a real Kubernetes, against a real database, through the accident that charges customers twice
# elsewhere.
#
# It builds what is missing, starts the dev cluster, installs Oncilla with its Helm chart, submits examples/order.yaml, waits
# until the charge is committed, and kills the charge's pod before that can answer. Then it shows what Oncilla made of it.
# Run it as often as you like: each time takes a new order.
#
#   demo/run.sh
#
#   ONCILLA_PROFILE             release (default) or dev: how the images' programs are compiled
#   ONCILLA_KUBECONFIG          use this cluster in place of the dev cluster. Its nodes must have the images, and its pods must
#                               be able to reach the database:
#   ONCILLA_POSTGRES_ADDRESS    an address of this machine that pods reach (default: the dev cluster's bridge)
#   ONCILLA_POSTGRES_NETWORK    where the pods come from, a CIDR (default: the /24 network of that address)
set -euo pipefail
# shellcheck source=dev/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../dev/lib/common.sh"
[ $# -eq 0 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2; }
cd "$ONCILLA_ROOT"

CLUSTER=${ONCILLA_CLUSTER:-dev}
SYSTEM=oncilla-system # Oncilla's namespace
SHOP=shop             # the order's namespace
LOGS=$ONCILLA_CACHE/logs/demo
# How long the charge would wait between commit and answer if nobody killed it, in seconds. Far more than it takes to see the
# row and delete the pod, and less than the step's timeout.
PAUSE=240
LIMIT=180 # seconds that the cluster has for each thing that the demo waits for
mkdir -p "$LOGS"

kubectl() { dev/cluster kubectl "$CLUSTER" "$@"; }
psql() { demo/postgres.sh psql "$@"; }
sql() { psql -qtA -c "$1"; }

# ---- stages: what is being done, how long it took, and where to look when it fails

TIMES=() TICKER='' STAGE='' STAGE_START=0 STARTED=$(now_ms)

stage() {
  stage_end
  STAGE=$1 STAGE_START=$(now_ms)
  printf '\n==> %s\n' "$1" >&2
}

stage_end() {
  [ -z "$STAGE" ] || TIMES+=("$(printf '%8s s  %s' "$(seconds_since "$STAGE_START")" "$STAGE")")
  STAGE=''
}

finish() {
  local code=$?
  stop_ticker
  [ $code -ne 0 ] || return 0
  printf '\nThe demo failed with code %s while: %s\n' "$code" "${STAGE:-starting}" >&2
  printf 'Logs: %s; the cluster'\''s: %s\n' "$LOGS" "$ONCILLA_CACHE/clusters/$CLUSTER/log" >&2
}
trap finish EXIT
trap 'exit 130' INT TERM

# logged NAME COMMAND...: runs it with its output in a log, which is shown only when it fails. Every half minute it says where the
# command is, because silence looks like a hang.
logged() {
  local log=$LOGS/$1.log started status=0
  shift
  started=$(now_ms)
  : >"$log"
  # The sleep keeps no pipe of ours open when it outlives the loop.
  (while sleep 30 >/dev/null 2>&1; do say "  $(seconds_since "$started") s: $(tail -n 1 "$log" | cut -c1-100)"; done) &
  TICKER=$!
  "$@" >"$log" 2>&1 || status=$?
  stop_ticker
  [ $status = 0 ] || { tail -n 30 "$log" | sed 's/^/  | /' >&2; die "failed: $* (whole log: $log)"; }
}

stop_ticker() {
  [ -n "$TICKER" ] || return 0
  kill "$TICKER" 2>/dev/null || true
  wait "$TICKER" 2>/dev/null || true
  TICKER=''
}

# until_true WHAT PROBE...: repeats the probe, and gives up after LIMIT seconds or when the run has ended without it.
until_true() {
  local what=$1 started shown='' now phase
  shift
  started=$(now_ms)
  until "$@"; do
    now=$(run_line)
    [ "$now" = "$shown" ] || { say "    $now"; shown=$now; }
    read -r _ phase _ <<<"$now"
    case $phase in
      Succeeded | Failed | Cancelled)
        # Asked again, because it may have come true since.
        if "$@"; then return; fi
        explain_run
        die "the run is $phase, and this will not be so any more: $what"
        ;;
    esac
    [ $(($(now_ms) - started)) -lt $((LIMIT * 1000)) ] || { explain_run; die "not so after $LIMIT s: $what"; }
    sleep 0.5
  done
}

# The run in one line: phase, steps, message.
run_line() {
  kubectl -n $SHOP get wfr "$RUN" -o 'jsonpath={.metadata.name} {.status.phase} {.status.progress} {.status.message}'
}

# Everything that may tell why a run does not get on.
explain_run() {
  local log=$LOGS/$RUN.log
  {
    kubectl -n $SHOP get wfr "$RUN" -o yaml
    kubectl -n $SHOP get jobs,pods -o wide
    kubectl -n $SHOP get events --sort-by=.metadata.creationTimestamp
    kubectl -n $SYSTEM logs deployment/oncilla --tail=200
  } >"$log" 2>&1 || true
  say "the run, its pods, events and the controller's log are in $log"
  kubectl -n $SHOP get wfr "$RUN" -o 'jsonpath={.status.message}{"\n"}' >&2 || true
}

# table: lines of tab-separated cells, the first one being the heads, with the columns aligned.
table() {
  awk -F '\t' '
    { for (i = 1; i <= NF; i++) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } if (NF > columns) columns = NF }
    END { for (r = 1; r <= NR; r++) { line = "  "; for (i = 1; i < columns; i++) line = line sprintf("%-" width[i] + 2 "s", cell[r, i]); print line cell[r, columns] } }'
}

# ---- what the demo needs

build_images() {
  local image
  for image in oncilla shop; do
    say "building the image $image (the first time takes minutes; log: $LOGS/image-$image.log)"
    logged "image-$image" dev/image build $image
    dev/image load $image "$CLUSTER"
  done
}

install_oncilla() {
  local helm build
  helm=$(dev/tools.sh path helm)
  # What somebody has tried with kubectl in the meantime (a scale, a set env) gives way: the demo is of the chart.
  # The tag stays the same from build to build, so the pod would too; the image's digest makes the difference.
  build=$(sha256sum <"$(dev/image file oncilla)" | cut -c1-16)
  logged helm env KUBECONFIG="$(dev/cluster kubeconfig "$CLUSTER")" "$helm" upgrade --install oncilla charts/oncilla \
    --namespace $SYSTEM --create-namespace --force-conflicts --take-ownership \
    --set image.repository=oncilla.dev/oncilla,image.tag=dev,image.pullPolicy=IfNotPresent,log.format=pretty \
    --set-string "podAnnotations.oncilla\.dev/build=$build"
  logged namespace kubectl label namespace $SYSTEM pod-security.kubernetes.io/enforce=restricted --overwrite
  if ! kubectl -n $SYSTEM rollout status deployment/oncilla --timeout=${LIMIT}s >"$LOGS/rollout.log" 2>&1; then
    {
      kubectl -n $SYSTEM describe pods
      kubectl -n $SYSTEM logs deployment/oncilla --tail=200
      kubectl -n $SYSTEM logs deployment/oncilla --previous --tail=200
    } >>"$LOGS/rollout.log" 2>&1 || true
    tail -n 20 "$LOGS/rollout.log" | sed 's/^/  | /' >&2
    die "the controller did not become ready within $LIMIT s (whole log: $LOGS/rollout.log)"
  fi
  kubectl -n $SYSTEM get deployment,pods >&2
}

start_database() {
  if [ -n "${ONCILLA_KUBECONFIG:-}" ] && [ -z "${ONCILLA_POSTGRES_ADDRESS:-}" ]; then
    die "ONCILLA_KUBECONFIG is set: say in ONCILLA_POSTGRES_ADDRESS under which address of this machine its pods reach the database"
  fi
  ONCILLA_POSTGRES_ADDRESS=${ONCILLA_POSTGRES_ADDRESS:-$(dev/cluster address "$CLUSTER")}
  ONCILLA_POSTGRES_NETWORK=${ONCILLA_POSTGRES_NETWORK:-${ONCILLA_POSTGRES_ADDRESS%.*}.0/24}
  export ONCILLA_POSTGRES_ADDRESS ONCILLA_POSTGRES_NETWORK
  demo/postgres.sh start
  say "PostgreSQL answers; the steps' address for it goes into the Secret $SHOP/shop-db"
  kubectl apply -f - >"$LOGS/shop.log" <<END || die "the namespace $SHOP cannot be made (log: $LOGS/shop.log)"
apiVersion: v1
kind: Namespace
metadata:
  name: $SHOP
  labels: {pod-security.kubernetes.io/enforce: restricted}
END
  # By way of standard input: arguments can be read by every user of the machine.
  demo/postgres.sh env | kubectl -n $SHOP create secret generic shop-db --from-env-file=/dev/stdin --dry-run=client -o yaml |
    kubectl apply -f - >>"$LOGS/shop.log" || die "the Secret shop-db cannot be made (log: $LOGS/shop.log)"
}

# ---- the order and the accident

# examples/order.yaml for a new order, in which the first attempt to charge waits between its commit and its answer.
submit_order() {
  local manifest=$LOGS/order.yaml
  # A number may be taken: the database can be younger than the cluster.
  while ORDER=$(sql "SELECT nextval('order_numbers')") && RUN=order-$ORDER && kubectl -n $SHOP get wfr "$RUN" >/dev/null 2>&1; do :; done
  kubectl patch --local -f examples/order.yaml --type=json -o yaml >"$manifest" --patch '[
    {"op": "replace", "path": "/metadata/name", "value": "'"$RUN"'"},
    {"op": "replace", "path": "/spec/params/order", "value": "'"$ORDER"'"},
    {"op": "test", "path": "/spec/steps/1/name", "value": "charge"},
    {"op": "add", "path": "/spec/steps/1/container/env/-", "value": {"name": "DEMO_PAUSE_AFTER_COMMIT", "value": "'"$PAUSE"'"}}]'
  say "examples/order.yaml for order $ORDER, with a pause of $PAUSE s after the first charge's commit (as submitted: $manifest)"
  kubectl -n $SHOP create -f "$manifest" >&2
}

charge_is_committed() { [ "$(sql "SELECT count(*) FROM charges WHERE order_number = '$ORDER'")" != 0 ]; }

run_has_ended() { [ "$(kubectl -n $SHOP get wfr "$RUN" -o 'jsonpath={.status.conditions[?(@.type=="Finished")].status}')" = True ]; }

attempts_of_charge() { sql "SELECT count(*) FROM attempts WHERE run = '$RUN' AND step = 'charge'"; }

have_the_accident() {
  until_true "the charge of order $ORDER stands in the database" charge_is_committed
  POD=$(sql "SELECT pod FROM attempts WHERE run = '$RUN' AND step = 'charge' AND attempt = 1")
  [ -n "$POD" ] || { explain_run; die "order $ORDER was charged, but not by the first attempt, which alone waits to be killed"; }
  say "the charge is committed, and its pod has not answered yet:"
  psql -c "SELECT receipt, order_number, cents, at FROM charges WHERE order_number = '$ORDER'" >&2
  say "\$ kubectl delete pod $POD --grace-period=0 --force"
  kubectl -n $SHOP delete pod "$POD" --grace-period=0 --force --wait=false 2>&1 | grep -v '^Warning' >&2
}

# ---- what came of it

show_run() {
  kubectl -n $SHOP get wfr "$RUN"
  echo
  # By start, then by name: the API sorts by name alone.
  # shellcheck disable=SC2016 # the template's variables
  kubectl -n $SHOP get wfr "$RUN" -o go-template='{{range $name, $record := .status.steps}}{{$record.startTime}}{{"\t"}}{{$name}}{{"\t"}}{{$record.phase}}{{"\t"}}{{$record.attempt}}{{"\t"}}{{if $record.output}}{{$record.output}}{{end}}{{"\n"}}{{end}}' |
    LC_ALL=C sort | cut -f2- | { printf 'STEP\tPHASE\tATTEMPTS\tOUTPUT\n'; cat; } | table
  echo
  echo "What the run gives to others (.status.outputs):"
  kubectl -n $SHOP get wfr "$RUN" -o 'jsonpath={.status.outputs}{"\n\n"}' | sed 's/^./  &/'
}

show_database() {
  echo "The charges of order $ORDER, and every attempt that reached the database:"
  psql -P pager=off -c "SELECT receipt, order_number AS order, cents, idempotency_key FROM charges WHERE order_number = '$ORDER'"
  psql -P pager=off -c "SELECT step, attempt, outcome, fence, pod FROM attempts WHERE run = '$RUN' ORDER BY id"
}

# The demo is a claim, so it is checked.
check_claim() {
  local phase charges attempts outcomes
  phase=$(kubectl -n $SHOP get wfr "$RUN" -o 'jsonpath={.status.phase}')
  [ "$phase" = Succeeded ] || { explain_run; die "the run $RUN is $phase, not Succeeded"; }
  charges=$(sql "SELECT count(*) FROM charges WHERE order_number = '$ORDER'")
  attempts=$(attempts_of_charge)
  outcomes=$(sql "SELECT string_agg(outcome, ', ' ORDER BY id) FROM attempts WHERE run = '$RUN' AND step = 'charge'")
  [ "$charges $attempts $outcomes" = '1 2 done, found done' ] ||
    die "order $ORDER has $charges charges and $attempts attempts ($outcomes), not one charge and two attempts"
  echo "One charge, two attempts: the second had the same idempotency key, found the first one's charge, and gave its receipt."
}

next_command() { printf '  %-60s  %s' "$1" "$2"; }

show_next() {
  cat <<END

What to try next:
  export KUBECONFIG=$(dev/cluster kubeconfig "$CLUSTER") PATH=$(dirname "$(dev/tools.sh path kubectl)"):\$PATH
$(next_command "kubectl -n $SHOP get wfr,jobs,pods" "what there is; each attempt of a step is a Job")
$(next_command "kubectl -n $SHOP get wfr $RUN -o yaml" "the whole record, the killed attempt included")
$(next_command "kubectl -n $SHOP describe wfr $RUN" "its events")
$(next_command "kubectl -n $SHOP logs -l oncilla.dev/run=$RUN --prefix" "what the steps said")
$(next_command "kubectl -n $SHOP create -f examples/order.yaml" "order 1042, without the accident")
$(next_command "kubectl explain wfr.spec.steps" "the fields and what they mean")
$(next_command "demo/postgres.sh psql" "the shop's database")
$(next_command "demo/run.sh" "the same again, with a new order")

To stop it all: make cluster-down, and demo/postgres.sh stop (demo/postgres.sh destroy removes the data too).
END
}

stage "starting the dev cluster"
dev/cluster up "$CLUSTER"
stage "building Oncilla and the shop"
build_images
stage "installing Oncilla with its Helm chart"
install_oncilla
stage "starting the shop's database"
start_database
stage "submitting an order"
submit_order
stage "waiting for the charge, to kill its pod between commit and answer"
have_the_accident
stage "waiting for Oncilla to carry on"
until_true "the run $RUN has ended" run_has_ended
stage_end

echo
show_run
show_database
check_claim
show_next
printf '\nWhere the time went:\n'
printf '%s\n' "${TIMES[@]}"
printf '%8s s  in all\n' "$(seconds_since "$STARTED")"
