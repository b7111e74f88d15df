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

/// A protocol's part in running a script.
pub(crate) trait Executor {
    /// A setting of the system, such as `net.ipv4.tcp_sack` and `0`, written with points.
    fn set(&mut self, name: &str, value: &str) -> Step<()>;

    /// Any other shell command, as words.
    fn command(&mut self, now: Time, words: &[&str]) -> Step<()> {
        let _ = now;
        Err(Stop::needs(format!("the command \"{}\"", words.join(" "))))
    }

    /// A system call. What it writes, such as the value of an option, is compared with the arguments here.
    fn call(&mut self, now: Time, call: &Call) -> Step<Reply>;

    /// Hands a packet in.
    fn inject(&mut self, now: Time, packet: &Packet) -> Step<()>;

    /// When something happens without an input; [`Time::NEVER`] if nothing does.
    fn next_timeout(&self) -> Time;

    /// That time has come.
    fn on_timeout(&mut self, now: Time);

    /// Takes the next packet that was sent and has not been looked at, or the next ones if the statement is
    /// about several, and compares all but the time: when it was sent (the last one of several), and the
    /// packet in the words of a script; none as long as not enough has been sent.
    fn expect(&mut self, packet: &Packet) -> Step<Option<(Time, String)>>;

    /// A field of `tcp_info` and its like, or a constant; none if it is not known.
    fn value(&self, now: Time, name: &str) -> Option<Value>;
}

/// The number that an argument is, of which these words are the constants.
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
