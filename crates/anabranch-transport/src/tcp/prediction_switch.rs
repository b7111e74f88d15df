//! A switch for tests: whether TCP predicts segments, which changes nothing.

use std::cell::Cell;

thread_local! {
    static PREDICTS: Cell<bool> = const { Cell::new(true) };
}

/// Whether the connections of this thread predict segments.
pub(crate) fn predicts() -> bool {
    PREDICTS.get()
}

/// Does something with or without prediction.
pub(crate) fn with_prediction<T>(predicts: bool, action: impl FnOnce() -> T) -> T {
    PREDICTS.set(predicts);
    let result = action();
    PREDICTS.set(true);
    result
}
