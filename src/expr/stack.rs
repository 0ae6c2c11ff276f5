//! Room on the stack. The parser and the evaluator recurse as deep as an expression is nested or long, and a debug build needs a few
//! kilobytes for each level, more than a thread of the runtime has.

/// What is always there when `work` runs.
const NEEDED: usize = 16 << 20;

/// What is made when it is not: enough for calls inside calls to find it there.
const MADE: usize = 32 << 20;

/// Runs `work` with at least 16 MiB of stack. Calls nest without cost, so callers that handle many expressions wrap all of them.
pub fn with_stack<R>(work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(NEEDED, MADE, work)
}
