//! The interface of a protocol that runs a script.
//!
//! # To add a protocol
//! 1. A file (or a folder) of its own with a struct that has the endpoint and implements [`Executor`]: system
//!    calls become commands and answers, packets in are built from their statement, packets out are compared
//!    with it.
//! 2. Its line in [`executor_of`](crate::protocols::executor_of), which chooses by what the script opens and
//!    sends.
//!
//! The executor knows no time but the `now` that it is given, and never waits: the loop in
//! [`run`](crate::run) lets time pass, asks again after each timeout, and judges when things happened. If a
//! script wants something that the executor lacks, it answers with [`Stop::Needs`] and never ignores it.

use anabranch_transport::time::Time;

use crate::python::Value;
use crate::script::{Call, Packet, Term};
use crate::verdict::{Step, Stop};

/// The outcome of a system call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// The call waits: [`Executor::call`] is asked again when something has happened.
    Blocks,
    /// The call fails with this error, such as `EAGAIN`, and returns -1.
    Error(&'static str),
    /// The call returns this number.
    Returns(i64),
}

/// What runs a script for one protocol.
pub(crate) trait Executor {
    /// Changes a setting of the system, such as `net.ipv4.tcp_sack` to `0`; names are written with points.
    fn set(&mut self, name: &str, value: &str) -> Step<()>;

    /// Any other shell command, as words.
    fn command(&mut self, now: Time, words: &[&str]) -> Step<()> {
        let _ = now;
        Err(Stop::needs(format!("the command \"{}\"", words.join(" "))))
    }

    /// Forgets what is known of peers from earlier connections.
    fn forget_peers(&mut self) {}

    /// Makes a system call. What it writes, such as the value of an option, is compared with the arguments
    /// here.
    fn call(&mut self, now: Time, call: &Call) -> Step<Reply>;

    /// Gives the endpoint a packet.
    fn inject(&mut self, now: Time, packet: &Packet) -> Step<()>;

    /// When something happens without an input; [`Time::NEVER`] if nothing does.
    fn next_timeout(&self) -> Time;

    /// Lets the endpoint act at this time.
    fn on_timeout(&mut self, now: Time);

    /// Takes the next packet that was sent and has not been looked at, or the next ones if the statement is
    /// about several, and compares everything but the time. Returns when it was sent (of several, the last
    /// one), and the packet in the words of a script; [`None`] as long as not enough has been sent.
    fn expect(&mut self, packet: &Packet) -> Step<Option<(Time, String)>>;

    /// The value of a field of `tcp_info` and the like, or of a constant; [`None`] if it is not known.
    fn value(&self, now: Time, name: &str) -> Option<Value>;
}

/// The number that an argument is; `constants` has the values of the words in it.
pub(crate) fn number(term: &Term, constants: &[(&str, i64)]) -> Option<i64> {
    match term {
        Term::Number(number) => Some(*number),
        Term::Word(word) => constants.iter().find(|(name, _)| name == word).map(|(_, number)| *number),
        Term::Union(parts) => {
            parts.iter().try_fold(0, |sum, part| number(part, constants).map(|number| sum | number))
        }
        _ => None,
    }
}
