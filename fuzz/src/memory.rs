//! How much memory something takes: an allocator that counts.

use std::alloc::System;

use stats_alloc::{Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: StatsAlloc<System> = StatsAlloc::system();

/// What a parser may allocate for each byte that it reads. The smallest chunk of SCTP has 4 bytes, and
/// becomes 56 in a vector that has doubled up to three times (112 altogether) and 32 behind a box: 36 for a
/// byte. Options of TCP and parameters become less.
pub const PER_BYTE: usize = 64;
/// What it may allocate in addition, in bytes.
pub const AT_LEAST: usize = 4096;

/// Calls a parser, and panics where it allocates more, in all, than an input of this length justifies.
pub fn parsing<T>(length: usize, parse: impl FnOnce() -> T) -> T {
    within(PER_BYTE * length + AT_LEAST, parse)
}

/// Calls a function, and panics if it allocates more than this many bytes in all.
pub fn within<T>(most: usize, work: impl FnOnce() -> T) -> T {
    let region = Region::new(&ALLOCATOR);
    let done = work();
    let taken = region.change().bytes_allocated;
    assert!(taken <= most, "{taken} bytes were allocated, and {most} are justified");
    done
}

/// Memory that something holds.
pub struct Held(Region<'static, System>);

impl Default for Held {
    fn default() -> Self {
        Self(Region::new(&ALLOCATOR))
    }
}

impl Held {
    /// Bytes that were allocated since then and are not freed.
    pub fn bytes(&self) -> usize {
        let change = self.0.change();
        change.bytes_allocated.saturating_sub(change.bytes_deallocated)
    }
}
