//! Things with threads and sockets, which belong to the process that made them: a process that is forked from
//! it has a copy of their memory, but none of their threads, and a lock that one of these held is never given
//! back.

use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::LiveError;

/// Such a thing, until it is taken.
pub(crate) struct Owned<T> {
    /// What messages call it.
    what: &'static str,
    process: u32,
    thing: Mutex<Option<T>>,
}

impl<T> Owned<T> {
    pub(crate) fn new(what: &'static str, thing: T) -> Self {
        Self { what, process: process::id(), thing: Mutex::new(Some(thing)) }
    }

    /// Refuses a process that was forked from the one that made the thing. Nothing may be locked before.
    pub(crate) fn check(&self) -> PyResult<()> {
        if process::id() == self.process {
            return Ok(());
        }
        let what = self.what;
        Err(LiveError::new_err(format!(
            "the {what} belongs to the process {}, which this one was forked from; make another {what} here",
            self.process
        )))
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.thing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the thing, if it was not taken.
    pub(crate) fn ask<A>(&self, ask: impl FnOnce(&T) -> A) -> PyResult<Option<A>> {
        self.check()?;
        Ok(self.lock().as_ref().map(ask))
    }

    /// Takes the thing away, if nobody has done so.
    pub(crate) fn take(&self) -> PyResult<Option<T>> {
        self.check()?;
        Ok(self.lock().take())
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.check().is_err() {
            // What ends it would wait for threads that are not there, or end what is the other process's.
            std::mem::forget(
                self.thing.get_mut().map_or_else(|poisoned| poisoned.into_inner().take(), Option::take),
            );
        }
    }
}
