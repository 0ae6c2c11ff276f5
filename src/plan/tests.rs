//! What a spec gives: a plan, or all of its faults.
