//! What decide promises, shown without a cluster.

mod control;
mod graph;
mod random;
mod retry;
mod steps;
mod world;
