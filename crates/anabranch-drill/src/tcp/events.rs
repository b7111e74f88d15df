//! Events of a socket, as `poll` and `epoll` name them and as the socket wakes those who wait for it.

pub(super) const READABLE: i64 = 1;
pub(super) const URGENT: i64 = 2;
pub(super) const WRITABLE: i64 = 4;
pub(super) const ERROR: i64 = 8;
pub(super) const HANG_UP: i64 = 16;
/// The peer has finished, or reading is shut down.
pub(super) const READ_HANG_UP: i64 = 0x2000;
/// The socket's state has changed, which wakes everybody.
pub(super) const ALL: i64 = READABLE | URGENT | WRITABLE | ERROR | HANG_UP | READ_HANG_UP;

/// Events by their names in a table, as scripts write them.
pub(super) fn names(events: i64, table: &[(&str, i64)]) -> String {
    let names: Vec<&str> = table.iter().filter(|(_, bit)| events & bit != 0).map(|(name, _)| *name).collect();
    if names.is_empty() { "0".into() } else { names.join("|") }
}
