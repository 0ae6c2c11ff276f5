//! observe: the cluster's objects as evidence. Everything here but the watches that feed it is pure.

pub mod events;
pub mod evidence;
pub mod faults;
pub mod index;
pub mod views;

#[cfg(test)]
mod tests;
