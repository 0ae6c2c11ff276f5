# What one does with this clone. Everything is built and run outside it, in $ONCILLA_CACHE (default: ~/.cache/oncilla), so that
# a fresh clone on the same machine is warm. The stages are in dev/lib/stages.sh, clusters and images in dev/cluster and dev/image.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test check lint fmt unit build image generate bench cluster cluster-down clean-cluster run

help: ## Says what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Variables: ONCILLA_CACHE, ONCILLA_KUBECONFIG (use this cluster for demo, e2e and run), ONCILLA_PROFILE (dev or release),"
	@echo "ONCILLA_AUDIT; dev/cluster and dev/image explain them."

demo: ## Runs the order workflow on a real cluster, with Oncilla installed by its chart
	@demo/run.sh

test: ## Everything that must hold; CI calls it
	@dev/stages test packages fmt scripts tools clippy unit doc chart control_plane shop image dockerfile cluster e2e crash

check: ## The short form for daily work: no node, no root
	@dev/stages check packages_check fmt tools_check clippy unit control_plane

lint: ## Formatting, clippy and the shell scripts
	@dev/stages lint packages_check fmt scripts clippy

fmt: ## Formats the code
	@cargo fmt --all

unit: ## Tests that need no cluster
	@dev/stages unit unit

build: ## Builds the programs
	@. dev/lib/common.sh && cargo build --locked --workspace

image: ## Makes the image oncilla.dev/oncilla:dev and prints the path of its archive
	@dev/image build oncilla && dev/image file oncilla

generate: ## Writes what is made from the code: CRD, policies, field reference, deploy/install.yaml
	@. dev/lib/common.sh && cargo run --locked --quiet --bin oncilla -- crd --write . && deploy/render.sh

bench: ## Runs the benchmarks
	@dev/stages bench packages_check tools_check bench

cluster: ## Starts the whole cluster, and prints its kubeconfig
	@dev/cluster up && dev/cluster kubeconfig

cluster-down: ## Stops the clusters that these targets start
	@dev/cluster down && dev/cluster down control-plane

clean-cluster: ## Stops all clusters, also those of CI and of other clones, and removes what they left, logs included
	@dev/cluster down --all && . dev/lib/common.sh && rm -rf "$$ONCILLA_CACHE/clusters"

run: ## Runs the controller from the shell against the whole cluster
	@dev/run
