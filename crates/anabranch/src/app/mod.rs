//! Applications: what a flow's two ends send and what their users experience.

use crate::endpoint::{Command, Event};
use crate::packet::Side;
use crate::report::Report;
use crate::time::Time;

/// The application of one flow, both ends of it: it gives commands to the two endpoints and hears
/// their events.
///
/// One object for both ends, since it measures what one end hears of what the other said.
pub trait App {
    /// When it next wants [`App::handle_wakeup`]; [`Time::NEVER`] for not at all.
    fn next_wakeup(&self) -> Time;

    /// The time that [`App::next_wakeup`] named has come; the next one lies later.
    fn handle_wakeup(&mut self, now: Time, commands: &mut Commands);

    /// One end's endpoint has something to tell.
    fn handle_event(&mut self, now: Time, side: Side, event: &Event, commands: &mut Commands);

    /// Whether everything there is to measure has been measured; the run ends when every
    /// application that can end is done. A background load is always done.
    fn is_done(&self) -> bool;

    /// Writes what was measured as scalars.
    fn report(&self, now: Time, report: &mut Report<'_>);
}

/// Commands for a flow's endpoints, in order.
#[derive(Debug, Default)]
pub struct Commands(pub Vec<(Side, Command)>);

impl Commands {
    /// Adds a command for the endpoint of this side.
    pub fn push(&mut self, side: Side, command: Command) {
        self.0.push((side, command));
    }
}
