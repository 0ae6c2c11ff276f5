# shellcheck shell=bash
# All parts of the cluster's scripts, in the order in which they build on each other. Sourced, never run.
ONCILLA_LIB=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=dev/lib/common.sh
. "$ONCILLA_LIB/common.sh"
# shellcheck source=dev/lib/packages.sh
. "$ONCILLA_LIB/packages.sh"
# shellcheck source=dev/lib/tools.sh
. "$ONCILLA_LIB/tools.sh"
# shellcheck source=dev/lib/state.sh
. "$ONCILLA_LIB/state.sh"
# shellcheck source=dev/lib/process.sh
. "$ONCILLA_LIB/process.sh"
# shellcheck source=dev/lib/clean.sh
. "$ONCILLA_LIB/clean.sh"
# shellcheck source=dev/lib/pki.sh
. "$ONCILLA_LIB/pki.sh"
# shellcheck source=dev/lib/controlplane.sh
. "$ONCILLA_LIB/controlplane.sh"
# shellcheck source=dev/lib/images.sh
. "$ONCILLA_LIB/images.sh"
# shellcheck source=dev/lib/node.sh
. "$ONCILLA_LIB/node.sh"
