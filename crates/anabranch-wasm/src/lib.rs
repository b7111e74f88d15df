//! The compiled engine for pages. The only code that knows the browser; what a page calls is three functions:
//! [`request`] makes room for a question, which is JSON, [`answer`] answers it, and [`reply`] says where the
//! answer is, which is JSON, too. Columns of traces stay where they are: the answer has their places.
//!
//! `questions.rs` has the questions that a page may ask. A panic is a trap, after which the instance is
//! useless and the page makes a new one; the page learns the reason from `hear_panic`.

mod columns;
mod edits;
mod questions;

use std::cell::RefCell;

use questions::Lab;

/// The bytes that go in and out, and the open study.
#[derive(Default)]
struct Desk {
    request: Vec<u8>,
    reply: Vec<u8>,
    lab: Lab,
}

thread_local! {
    /// A page's worker has one thread.
    static DESK: RefCell<Desk> = RefCell::default();
}

/// Makes room for a question of `length` bytes and returns where it is to be written.
#[allow(unsafe_code, reason = "a name that the page calls; nothing else has it")]
#[unsafe(no_mangle)]
pub extern "C" fn request(length: usize) -> *mut u8 {
    DESK.with_borrow_mut(|desk| {
        desk.request.clear();
        desk.request.resize(length, 0);
        desk.request.as_mut_ptr()
    })
}

/// Answers the question that was written, and returns the length of the reply in bytes. Both stay where they
/// are until the next call.
#[allow(unsafe_code, reason = "a name that the page calls; nothing else has it")]
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> usize {
    DESK.with_borrow_mut(|desk| {
        host::watch_panics();
        desk.reply = desk.lab.answer(&desk.request);
        desk.reply.len()
    })
}

/// The address of the last reply.
#[allow(unsafe_code, reason = "a name that the page calls; nothing else has it")]
#[unsafe(no_mangle)]
pub extern "C" fn reply() -> *const u8 {
    DESK.with_borrow(|desk| desk.reply.as_ptr())
}

/// The functions that the page provides for the engine.
#[cfg(target_arch = "wasm32")]
mod host {
    use std::sync::Once;

    #[allow(unsafe_code, reason = "the page's two functions")]
    mod page {
        #[link(wasm_import_module = "page")]
        unsafe extern "C" {
            /// Milliseconds since some fixed time.
            pub(super) safe fn now_ms() -> f64;
            /// Gets the text of a panic, of this length in bytes, before the trap. It must read the text at
            /// once.
            pub(super) safe fn hear_panic(text: *const u8, length: usize);
        }
    }

    /// Seconds since some fixed time.
    pub(crate) fn now_s() -> f64 {
        page::now_ms() / 1e3
    }

    /// Reports panics to the page from now on.
    pub(crate) fn watch_panics() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            std::panic::set_hook(Box::new(|panic| {
                let text = panic.to_string();
                page::hear_panic(text.as_ptr(), text.len());
            }));
        });
    }
}

/// Stands in for the page when the crate is only checked and tested.
#[cfg(not(target_arch = "wasm32"))]
mod host {
    #![allow(clippy::disallowed_types, reason = "wall-clock guards live outside the simulator")]

    use std::sync::OnceLock;
    use std::time::Instant;

    pub(crate) fn now_s() -> f64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_secs_f64()
    }

    pub(crate) fn watch_panics() {}
}
