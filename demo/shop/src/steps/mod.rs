//! The five steps, one file each.

pub mod charge;
pub mod receipt;
pub mod reserve;
pub mod summary;
pub mod validate;
