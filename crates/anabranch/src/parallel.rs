//! Applies a computation to many values: on several threads with the feature `threads`, otherwise one after
//! the other. The results are in the order of the values either way.

#[cfg(feature = "threads")]
pub(crate) use threads::{apart, find_first, in_pool, map, map_on};

#[cfg(not(feature = "threads"))]
pub(crate) use alone::{apart, find_first, in_pool, map, map_on};

#[cfg(feature = "threads")]
mod threads {
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::time::Duration;
    use std::{panic, thread};

    use rayon::prelude::*;

    /// How often it is asked whether a computation is to be given up.
    const PERIOD: Duration = Duration::from_millis(50);

    /// The result of `compute`, or [`None`] once `is_cancelled` says so, which the calling thread is asked
    /// now and then. What has begun is then finished in vain, unless it looks after that itself.
    pub(crate) fn apart<R: Send + 'static>(
        is_cancelled: &dyn Fn() -> bool,
        compute: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let (done, is_done) = mpsc::channel();
        let work = thread::spawn(move || {
            let _ = done.send(compute());
        });
        loop {
            match is_done.recv_timeout(PERIOD) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Timeout) if is_cancelled() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    panic::resume_unwind(work.join().expect_err("it has given no result"))
                }
            }
        }
    }

    /// The result of `work`, with this many threads for what it computes with [`map_on`]; 0 means one for
    /// each core, and 1 the calling thread.
    ///
    /// # Errors
    /// What the system says when it has no such threads.
    pub(crate) fn in_pool<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> Result<R, String> {
        if threads == 1 {
            return Ok(work());
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        Ok(pool.map_err(|error| error.to_string())?.install(work))
    }

    /// The results of all values.
    pub(crate) fn map<T: Send, R: Send>(values: Vec<T>, compute: impl Fn(T) -> R + Send + Sync) -> Vec<R> {
        values.into_par_iter().with_max_len(1).map(compute).collect()
    }

    /// The results of all values, computed by the threads of [`in_pool`].
    pub(crate) fn map_on<T: Send, R: Send>(
        threads: usize,
        values: Vec<T>,
        compute: impl Fn(T) -> R + Send + Sync,
    ) -> Vec<R> {
        if threads == 1 { values.into_iter().map(compute).collect() } else { map(values, compute) }
    }

    /// The first result, in the order of the values.
    pub(crate) fn find_first<T: Send, R: Send>(
        values: Vec<T>,
        compute: impl Fn(T) -> Option<R> + Send + Sync,
    ) -> Option<R> {
        values.into_par_iter().find_map_first(compute)
    }
}

#[cfg(not(feature = "threads"))]
mod alone {
    /// The result of `compute`, or [`None`] if `is_cancelled` says so before.
    pub(crate) fn apart<R>(is_cancelled: &dyn Fn() -> bool, compute: impl FnOnce() -> R) -> Option<R> {
        (!is_cancelled()).then(compute)
    }

    /// The result of `work`.
    #[expect(clippy::unnecessary_wraps, reason = "threads can be refused")]
    pub(crate) fn in_pool<R>(_threads: usize, work: impl FnOnce() -> R) -> Result<R, String> {
        Ok(work())
    }

    /// The results of all values.
    pub(crate) fn map<T, R>(values: Vec<T>, compute: impl Fn(T) -> R) -> Vec<R> {
        values.into_iter().map(compute).collect()
    }

    /// The results of all values.
    pub(crate) fn map_on<T, R>(_threads: usize, values: Vec<T>, compute: impl Fn(T) -> R) -> Vec<R> {
        map(values, compute)
    }

    /// The first result, in the order of the values.
    pub(crate) fn find_first<T, R>(values: Vec<T>, compute: impl Fn(T) -> Option<R>) -> Option<R> {
        values.into_iter().find_map(compute)
    }
}
