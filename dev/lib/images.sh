# shellcheck shell=bash
# Makes images out of files and brings them into a cluster's containerd, without Docker and without a registry. Sourced after
# common.sh, tools.sh and packages.sh; dev/image is the command. load_image needs node.sh and a running node.
#
# An image is an OCI layout in a tar file with one uncompressed layer. The same files and settings give the same bytes.

IMAGES=$ONCILLA_CACHE/images
PAUSE_IMAGE=oncilla.dev/pause:dev

# image_reference NAME[:TAG]: the full name, as pods write it.
image_reference() {
  local name=$1
  [[ ${name##*/} == *:* ]] || name+=:dev
  [[ $name == */* ]] || name=oncilla.dev/$name
  [[ $name =~ ^[a-z0-9][a-z0-9._/-]*:[A-Za-z0-9_][A-Za-z0-9._-]*$ ]] || die "not an image name: $1"
  echo "$name"
}

image_file() { local name=${1//\//_}; echo "$IMAGES/${name/:/_}.tar"; }

json_string() {
  local s=$1
  [[ $s != *[[:cntrl:]]* ]] || die "control characters are not supported in an image's settings: $(printf '%q' "$s")"
  s=${s//\\/\\\\}
  printf '"%s"' "${s//\"/\\\"}"
}

json_list() {
  local item out=
  for item; do out+="${out:+,}$(json_string "$item")"; done
  printf '[%s]' "$out"
}

# build_image NAME[:TAG] OPTION... PATH=HOSTFILE...: see dev/image.
build_image() {
  local reference entrypoint=() cmd=() env=() user='' workdir='' base='' links=() files=() all=("$@")
  [ $# -ge 1 ] || die "dev/image build needs a name"
  reference=$(image_reference "$1")
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --base) base=1; shift; continue ;;
      --*) [ $# -ge 2 ] || die "$1 needs a value" ;;
    esac
    case $1 in
      --entrypoint) entrypoint+=("$2"); shift ;;
      --cmd) cmd+=("$2"); shift ;;
      --env) env+=("$2"); shift ;;
      --user) user=$2; shift ;;
      --workdir) workdir=$2; shift ;;
      --link) [[ $2 == /?*=?* ]] || die "not PATH=TARGET: $2"; links+=("$2"); shift ;;
      /?*=?*) files+=("$1"); [ -e "${1#*=}" ] || die "no such file: ${1#*=}" ;;
      *) die "not an option or /PATH=HOSTFILE: $1" ;;
    esac
    shift
  done
  [ ${#files[@]} -gt 0 ] || die "the image $reference would be empty: name at least one /PATH=HOSTFILE"
  with_lock "$IMAGES/.lock" "making images" write_image
}

# Runs under the lock, with build_image's variables.
write_image() {
  local archive key file digest
  archive=$(image_file "$reference")
  key=$({ declare -f write_image fill_root write_layout; printf '%s\0' "${all[@]}"; for file in "${files[@]}"; do content_key "${file#*=}"; done; } | short_hash)
  if [ -s "$archive" ] && [ "$(cat "$archive.key" 2>/dev/null)" = "$key" ]; then
    say "image $reference is up to date ($(cat "$archive.digest"))"
    return
  fi
  # The key goes first and comes last: an interrupted build leaves an archive that counts as old.
  rm -rf "$archive.key" "$IMAGES/.tmp"
  mkdir -p "$IMAGES/.tmp/root" "$IMAGES/.tmp/layout/blobs/sha256"
  fill_root "$IMAGES/.tmp/root"
  digest=$(write_layout "$IMAGES/.tmp")
  pack "$IMAGES/.tmp/layout" "$IMAGES/.tmp/image.tar"
  mv -f "$IMAGES/.tmp/image.tar" "$archive"
  echo "$digest" | write_file "$archive.digest"
  echo "$key" | write_file "$archive.key"
  rm -rf "$IMAGES/.tmp"
  say "made the image $reference ($digest)"
}

# What an image is made from, without where it lies on this machine.
content_key() {
  if [ -d "$1" ]; then
    (cd "$1" && find . -type l -printf '%P %l\n' -o -printf '%P %y %m\n' | LC_ALL=C sort && find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum)
  else
    sha256sum <"$1"
    [ ! -x "$1" ] || echo executable
  fi
}

fill_root() {
  local root=$1 item path
  if [ -n "$base" ]; then
    mkdir -p "$root"/{bin,dev,etc,home,proc,sys,tmp,var}
    printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65532:65532:nobody:/home:/bin/sh\n' >"$root/etc/passwd"
    printf 'root:x:0:\nnobody:x:65532:\n' >"$root/etc/group"
  fi
  for item in "${files[@]}"; do
    path=$root${item%%=*}
    mkdir -p "$(dirname "$path")"
    cp -r --no-preserve=mode,ownership,timestamps --reflink=auto -T "${item#*=}" "$path"
    # cp gives new modes by the umask, so what may be run is copied by hand.
    if [ -d "${item#*=}" ]; then
      (cd "${item#*=}" && find . -type f -perm -u+x -print0) | (cd "$path" && xargs -0r chmod 755)
    elif [ -x "${item#*=}" ]; then
      chmod 755 "$path"
    fi
  done
  for item in "${links[@]}"; do
    path=$root${item%%=*}
    mkdir -p "$(dirname "$path")"
    ln -sf "${item#*=}" "$path"
  done
  [ -z "$base" ] || chmod 1777 "$root/tmp"
}

# write_layout DIR: makes the blobs and the index of DIR/root in DIR/layout and prints the manifest's digest.
write_layout() {
  local dir=$1 layer config manifest settings='' architecture
  case $(uname -m) in x86_64) architecture=amd64 ;; aarch64) architecture=arm64 ;; *) architecture=$(uname -m) ;; esac
  pack "$dir/root" "$dir/blob"
  layer=$(store_blob "$dir")
  [ ${#entrypoint[@]} -eq 0 ] || settings+=",\"Entrypoint\":$(json_list "${entrypoint[@]}")"
  [ ${#cmd[@]} -eq 0 ] || settings+=",\"Cmd\":$(json_list "${cmd[@]}")"
  [ ${#env[@]} -eq 0 ] || settings+=",\"Env\":$(json_list "${env[@]}")"
  [ -z "$user" ] || settings+=",\"User\":$(json_string "$user")"
  [ -z "$workdir" ] || settings+=",\"WorkingDir\":$(json_string "$workdir")"
  printf '{"architecture":"%s","os":"linux","config":{%s},"rootfs":{"type":"layers","diff_ids":["%s"]}}' \
    "$architecture" "${settings#,}" "${layer%% *}" >"$dir/blob"
  config=$(store_blob "$dir")
  printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
    "$(descriptor application/vnd.oci.image.config.v1+json "$config")" \
    "$(descriptor application/vnd.oci.image.layer.v1.tar "$layer")" >"$dir/blob"
  manifest=$(store_blob "$dir")
  printf '{"imageLayoutVersion":"1.0.0"}' >"$dir/layout/oci-layout"
  printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' \
    "$(descriptor application/vnd.oci.image.manifest.v1+json "$manifest" "$reference")" >"$dir/layout/index.json"
  echo "${manifest%% *}"
}

# store_blob DIR: moves DIR/blob to its place and prints its digest and size.
store_blob() {
  local sum size
  sum=$(sha256sum "$1/blob" | cut -d' ' -f1)
  size=$(stat -c %s "$1/blob")
  mv -f "$1/blob" "$1/layout/blobs/sha256/$sum"
  echo "sha256:$sum $size"
}

# descriptor TYPE "DIGEST SIZE" [NAME]
descriptor() {
  printf '{"mediaType":"%s","digest":"%s","size":%s' "$1" "${2%% *}" "${2##* }"
  [ -z "${3:-}" ] || printf ',"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"}' "$3" "${3##*:}"
  printf '}'
}

# pack DIR FILE: a tar of what is in DIR whose bytes depend on names, modes and contents alone.
pack() {
  (cd "$1" && find . -mindepth 1 -printf '%P\0' | LC_ALL=C sort -z) \
    | tar -C "$1" --null --no-recursion --format=gnu --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$2" -T -
}

# The images that every cluster and every test can use: pause holds a pod's namespaces, busybox is a shell with the usual tools.
# oncilla and shop are programs of this tree.
is_builtin() {
  case $1 in
    oncilla.dev/pause:dev | oncilla.dev/busybox:dev | oncilla.dev/oncilla:dev | oncilla.dev/shop:dev) ;;
    *) return 1 ;;
  esac
}

build_builtin() {
  local busybox applet links=()
  case $1 in
    oncilla.dev/pause:dev)
      build_tools pause
      build_image "$1" --entrypoint /pause --user 65532:65532 "/pause=$(tool_path pause)"
      ;;
    oncilla.dev/busybox:dev)
      busybox=$(static_busybox)
      while read -r applet; do
        [ "$applet" = busybox ] || links+=(--link "/bin/$applet=/bin/busybox")
      done < <("$busybox" --list)
      build_image "$1" --base --cmd /bin/sh --env PATH=/bin --link /usr/bin/env=/bin/busybox "${links[@]}" "/bin/busybox=$busybox"
      ;;
    oncilla.dev/oncilla:dev) build_from_tree "$1" oncilla ;;
    oncilla.dev/shop:dev) build_from_tree "$1" shop ;;
    *) die "there is no recipe for the image $1" ;;
  esac
}

# What the programs are made from. Cargo goes by time, and would compile a fresh clone's sources again.
tree_key() {
  (cd "$ONCILLA_ROOT" && {
    rustc -vV
    find Cargo.toml Cargo.lock .cargo src demo/shop -type f -print0 | sort -z | xargs -0 sha256sum
  }) | short_hash
}

# build_from_tree REFERENCE PACKAGE: an image FROM scratch with one static program, run by nobody.
build_from_tree() {
  local profile=${ONCILLA_PROFILE:-release} target folder program
  case $profile in release) folder=release ;; dev) folder=debug ;; *) die "ONCILLA_PROFILE is release or dev, not $profile" ;; esac
  target=$(sed -n 's/^target = "\(.*\)"$/\1/p' "$ONCILLA_ROOT/.cargo/config.toml")
  program=$ONCILLA_CACHE/bin/$2-$profile-$(tree_key)/$2
  if [ ! -x "$program" ]; then
    (cd "$ONCILLA_ROOT" && cargo build --locked --profile "$profile" --package "$2" --bin "$2") >&2
    mkdir -p "$(dirname "$program")"
    cp "$CARGO_TARGET_DIR/$target/$folder/$2" "$program.new"
    mv -f "$program.new" "$program"
  fi
  if [ "$profile" = dev ]; then
    # Debug information is ten times the program, and the node has no use for it.
    mkdir -p "$IMAGES"
    strip --strip-debug -o "$IMAGES/.$2.stripped" "$program"
    program=$IMAGES/.$2.stripped
  fi
  build_image "$1" --entrypoint "/$2" --user 65532:65532 "/$2=$program"
}

# load_image NAME[:TAG]: afterwards pods of the cluster can use it. What the node has already is not sent again.
load_image() {
  local reference archive digest
  reference=$(image_reference "$1")
  archive=$(image_file "$reference")
  case $reference in "$PAUSE_IMAGE" | oncilla.dev/busybox:dev) build_builtin "$reference" ;; esac
  [ -s "$archive.key" ] || die "the image $reference was not built yet: dev/image build makes it"
  digest=$(cat "$archive.digest")
  image_loaded "$reference" "$digest" && { say "the node of $CLUSTER has $reference already"; return; }
  cluster_ctr images import "$archive" >>"$STATE/log/images.log" 2>&1 || {
    tail -n 5 "$STATE/log/images.log" >&2
    die "containerd did not take $archive (log: $STATE/log/images.log)"
  }
  local deadline=$((SECONDS + 60))
  # The kubelet sees an image only after containerd's CRI part has taken notice, which it shows by a label.
  until image_loaded "$reference" "$digest"; do
    [ $SECONDS -lt $deadline ] || die "containerd imported $reference but does not offer it to the kubelet (log: $STATE/log/containerd.log)"
    sleep 0.1
  done
  say "loaded $reference into the node of $CLUSTER"
}

image_loaded() {
  cluster_ctr images ls "name==$1" 2>/dev/null | awk -v reference="$1" -v digest="$2" \
    '$1 == reference && $3 == digest && /io\.cri-containerd\.image=managed/ { found = 1 } END { exit !found }'
}
