#!/usr/bin/env bash
# Checks that the Dockerfile's last stage, built by buildah, gives the same files and settings as the image that the dev
# cluster runs. Works offline: the binary comes from this machine, not from the Dockerfile's first stage.
#
#   dev/images/check.sh
set -euo pipefail
# shellcheck source=dev/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
[ $# -eq 0 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2; }

"$ONCILLA_ROOT/dev/packages" image
"$ONCILLA_ROOT/dev/image" build oncilla
ours=$("$ONCILLA_ROOT/dev/image" file oncilla)

tmp=$(mktemp -d)
# buildah keeps mounts in its store while it works; its own command takes them away.
buildah() { command buildah --root "$tmp/store" --runroot "$tmp/run" --storage-driver vfs "$@"; }
trap 'buildah rm --all >/dev/null 2>&1 || true; rm -rf "$tmp"' EXIT

# unpack ARCHIVE DIR: an OCI archive's single layer, and the settings of its configuration, one a line.
unpack() {
  local blob layers=0
  mkdir -p "$2/layout" "$2/files"
  tar -C "$2/layout" -xf "$1"
  for blob in "$2"/layout/blobs/sha256/*; do
    if tar -tf "$blob" >"$2/names" 2>/dev/null; then
      layers=$((layers + 1))
      # Numbers and not names: who owns a file must not depend on this machine's accounts.
      tar -tvf "$blob" --numeric-owner | awk '{ print $1, $2, $NF }' | sed 's, \./, ,; s,/$,,' | sort >"$2/list"
      tar -C "$2/files" -xf "$blob"
    elif grep -q '"rootfs"' "$blob"; then
      grep -oE '"(User|WorkingDir)":"[^"]*"|"(Entrypoint|Cmd|Env)":(\[[^]]*\]|null)' "$blob" |
        sed -E 's/"PATH=[^"]*"//' | grep -vE ':(\[\]|null|"/"|"")$' | sort >"$2/settings"
    fi
  done
  [ $layers = 1 ] || die "$1 has $layers layers, not one"
  (cd "$2/files" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$2/sums"
}

# The first stage needs the internet, but whether it gets all files that the manifests speak of can be seen here.
mkdir "$tmp/source"
while read -r path; do
  [ ! -e "$ONCILLA_ROOT/$path" ] || (cd "$ONCILLA_ROOT" && cp -r --parents "$path" "$tmp/source")
done < <(sed -n 's/^!//p' "$ONCILLA_ROOT/.dockerignore")
(cd "$tmp/source" && cargo metadata --locked --offline --no-deps --format-version 1) >"$tmp/metadata" 2>"$tmp/errors" ||
  { cat "$tmp/errors" >&2; die "what .dockerignore lets through is not enough to build from"; }

unpack "$ours" "$tmp/ours"
mkdir -p "$tmp/context/out"
cp "$tmp/ours/files/oncilla" "$tmp/context/out/oncilla"
log=$ONCILLA_CACHE/logs/buildah.log
mkdir -p "$(dirname "$log")"
{
  buildah build --isolation chroot --build-context build="$tmp/context" --file "$ONCILLA_ROOT/Dockerfile" --tag oncilla-check "$ONCILLA_ROOT" &&
    buildah push oncilla-check "oci-archive:$tmp/theirs.tar"
} >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "buildah cannot build the Dockerfile's last stage (whole log: $log)"; }
unpack "$tmp/theirs.tar" "$tmp/theirs"

for part in list sums settings; do
  diff -u --label "dev/image: $part" --label "Dockerfile: $part" "$tmp/ours/$part" "$tmp/theirs/$part" >&2 ||
    die "the Dockerfile and dev/image make different images: see the difference above"
done
say "the Dockerfile gives the same image as dev/image:"
sed 's/^/  /' "$tmp/ours/list" "$tmp/ours/settings" >&2
