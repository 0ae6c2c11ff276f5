//! observe: the cluster's objects as evidence. Everything here is pure but `live`, which asks the API server.

pub mod events;
pub mod evidence;
pub mod faults;
pub mod index;
pub mod live;
pub mod views;

#[cfg(test)]
mod tests;
