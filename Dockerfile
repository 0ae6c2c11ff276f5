# The controller's image: one static binary and nothing else.
#
# From the source, with any builder:
#   docker build --tag oncilla .
#
# From a binary that is there already, offline and without the first stage: a build context called "build" takes that
# stage's place, and holds the binary where the stage would have put it.
#   cargo build --release --package oncilla
#   install -D target/x86_64-unknown-linux-gnu/release/oncilla context/out/oncilla
#   buildah build --build-context build=context --tag oncilla .
# dev/images/check.sh does this, and compares the files with those of the image that the dev cluster runs.

FROM docker.io/library/rust:1.95-bookworm AS build
WORKDIR /source
# .dockerignore lists what the build needs.
COPY . .
RUN cargo build --release --locked --package oncilla \
 && install -D target/x86_64-unknown-linux-gnu/release/oncilla /out/oncilla

FROM scratch
COPY --from=build /out/oncilla /oncilla
USER 65532:65532
ENTRYPOINT ["/oncilla"]
LABEL org.opencontainers.image.title="Oncilla" \
      org.opencontainers.image.description="Runs the steps of a workflow and never runs a completed step again" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/oncilla/oncilla"
