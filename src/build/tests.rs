//! The manifest of an attempt.
