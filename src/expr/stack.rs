//! Room on the stack. The parser and the evaluator recurse as deep as an expression is nested or long; a debug build takes up to
//! 200 KiB for a bracket, far more than a thread of the runtime has for an expression within the limits. Making a stack costs a few
//! system calls, so a short expression runs on the thread's own when that is large enough.

/// What is always taken: documents of the depth that the API server stores are walked in it too.
const BASE: usize = 768 << 10;

/// What a bracket within brackets takes, and what an operator, a dot or a comma takes. Measured, and rounded up.
const BRACKET: usize = 192 << 10;
const SIGN: usize = 48 << 10;

/// The parser refuses more brackets within brackets than this.
const DEEPEST: usize = 100;

/// An optimised build needs a small part of what a debug build needs.
const PART: usize = if cfg!(debug_assertions) { 1 } else { 8 };

/// What [`with_stack`] makes sure of.
const BATCH: usize = 16 << 20;

/// The bytes of stack that are enough to parse, evaluate and drop an expression.
pub(super) fn needed(source: &str) -> usize {
    let (mut brackets, mut signs) = (0usize, 0usize);
    for byte in source.bytes() {
        match byte {
            // Not how deep they are: one that closes may be part of a string.
            b'(' | b'[' | b'{' => brackets += 1,
            b')' | b']' | b'}' => {}
            // The operator `in` has no sign of its own, but space around it.
            _ if byte.is_ascii_punctuation() || byte.is_ascii_whitespace() => signs += 1,
            _ => {}
        }
    }
    (BASE + brackets.min(DEEPEST) * BRACKET + (brackets + signs) * SIGN) / PART
}

/// Runs `work` with `bytes` of stack.
pub(super) fn enough<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(bytes, bytes + (64 << 10), work)
}

/// Runs `work` with at least 16 MiB of stack. Every function here makes room for itself; a caller that handles thousands of
/// expressions at once wraps all of them, so that room is made once.
pub fn with_stack<R>(work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(BATCH, BATCH * 2, work)
}
