# shellcheck shell=bash
# Starts, watches and ends the processes of one cluster. Sourced after common.sh; STATE is the cluster's folder.
#
# Everything that a cluster starts carries ONCILLA_COMPONENT_OF=STATE in its environment, and so do the children it starts
# (containerd's shims). That is how a process is known as ours: a process id alone may have been given to somebody else since.

component_mark() { echo "ONCILLA_COMPONENT_OF=$STATE"; }

# When a process started, in clock ticks since boot: field 22 of its stat. The name before it may hold spaces and parentheses.
process_start() {
  local stat fields
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  read -ra fields <<<"${stat##*) }"
  echo "${fields[19]}"
}

# spawn NAME COMMAND...: starts a component that outlives this script, with its output in log/NAME.log.
spawn() {
  local name=$1 pid
  shift
  mkdir -p "$STATE/log" "$STATE/run"
  (
    # The lock's descriptor, make's job server and a caller's pipe must not be held open by a daemon.
    for fd in /proc/self/fd/*; do
      fd=${fd##*/}
      [ "$fd" -le 2 ] || eval "exec $fd>&-"
    done
    exec env "$(component_mark)" setsid "$@" </dev/null >>"$STATE/log/$name.log" 2>&1
  ) &
  pid=$!
  printf '%s %s\n' "$pid" "$(process_start "$pid" || echo gone)" | write_file "$STATE/run/$name.pid"
}

# component_alive NAME: is the process that we started under this name still the one with that id?
component_alive() {
  local pid start
  read -r pid start 2>/dev/null <"$STATE/run/$1.pid" || return 1
  [[ $pid =~ ^[0-9]+$ && $start =~ ^[0-9]+$ ]] || return 1
  [ "$(process_start "$pid")" = "$start" ] && ! is_zombie "$pid"
}

is_zombie() { grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }

# Every process with the mark, and every process in the cluster's control groups (containers have an environment of their own).
our_processes() {
  {
    grep -lzxF "$(component_mark)" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 || true
    local group
    for group in $(our_cgroups); do cat "$group/cgroup.procs" 2>/dev/null || true; done
  } | sort -un
}

# Ends them all at once and for good. A cluster is made anew at each start, so nothing is worth a polite goodbye.
kill_our_processes() {
  local pid pids deadline=$((SECONDS + 30))
  local -A killed=()
  while pids=$(our_processes) && [ -n "$pids" ]; do
    [ $SECONDS -lt $deadline ] || die "these processes of $STATE do not end: ${pids//$'\n'/ }"
    for pid in $pids; do killed[$pid]=$(process_start "$pid" || true); done
    # shellcheck disable=SC2086 # a list of numbers
    kill -KILL $pids 2>/dev/null || true
    sleep 0.1
  done
  # A process loses its environment first and its ports and files a moment later.
  for pid in "${!killed[@]}"; do
    until process_gone "$pid" "${killed[$pid]}"; do
      [ $SECONDS -lt $deadline ] || die "the process $pid of $STATE does not end"
      sleep 0.02
    done
  done
}

# process_gone PID START: a zombie whose threads are gone too holds nothing any more, and nobody may ever collect it.
process_gone() {
  local tasks
  [ -n "$2" ] && [ "$(process_start "$1")" = "$2" ] || return 0
  tasks=("/proc/$1/task"/*)
  is_zombie "$1" && [ ${#tasks[@]} -le 1 ]
}

# component_failed NAME WHY: tells what went wrong with the last lines of the log, and ends the script. Exit code 75 means that a
# port was taken between being chosen and being used, so that another start with other ports may succeed.
component_failed() {
  local log=$STATE/log/$1.log
  ! grep -qsE 'address already in use' "$log" || { say "  $1: its port was taken meanwhile"; exit 75; }
  say ""
  say "error: $2. Last lines of $log:"
  tail -n 15 "$log" 2>/dev/null | cut -c1-400 | sed 's/^/  | /' >&2 || true
  exit 1
}

# wait_for WHAT SECONDS "COMPONENT..." PROBE...: repeats PROBE until it succeeds. Ends the script when time is up (showing the first
# component's log) or as soon as one of the components is gone for good.
wait_for() {
  local what=$1 limit=$2 components=$3 deadline started name
  shift 3
  started=$(now_ms)
  deadline=$((SECONDS + limit))
  until "$@" >/dev/null 2>&1; do
    for name in $components; do
      component_alive "$name" || revive "$name" || component_failed "$name" "$name ended while waiting for this: $what"
    done
    [ $SECONDS -lt $deadline ] || component_failed "${components%% *}" "not so after $limit s: $what"
    sleep 0.2
  done
  say "  $what ($(seconds_since "$started") s)"
}

# revive NAME: starts again a component that is known to end for a reason that passes (node.sh has the one case).
revive() { return 1; }
