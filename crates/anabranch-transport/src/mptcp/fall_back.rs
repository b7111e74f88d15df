//! Falling back to TCP (RFC 8684 sections 3.1 and 3.7): the connection goes on as that of its only subflow,
//! when the peer has no MPTCP or something between the ends takes the options away.

use super::connection::{Connection, State};
use crate::endpoint::{Command, Endpoint as _, Event, Input, Message, Output};
use crate::flow::Payload;
use crate::tcp::subflow::Phase;
use crate::time::Time;
use crate::wire::mptcp::Reset;
use crate::wire::tcp::{Flags, Segment};

impl Connection {
    /// Falls back to TCP. Everything so far has gone over this subflow, in order.
    #[cold]
    pub(super) fn fall_back(&mut self, path: usize) {
        self.state = State::Fallback(path);
        self.stats.fallbacks += 1;
        self.stop_timers();
        self.announcements.clear();
        self.sender.record_blocked(self.last_now, false);
        // What the subflow holds from damaged data on.
        let subflow = &self.subflows[path];
        let held = match subflow.damage {
            Some(_) => subflow.tcp.positions()[1].saturating_sub(self.receiver.end_of_order()),
            None => 0,
        };
        self.subflows[path].forget();
        let unread = self.receiver.take_unread() + held;
        // Then TCP tells the application of the end, behind the data.
        self.receiver.reopen_if(unread > 0);
        let tcp = &mut self.subflows[path].tcp;
        tcp.fall_back(self.half_close, unread);
        if self.receiver.is_paused {
            tcp.handle_input(self.last_now, Input::Command(Command::PauseReading));
        } else if unread > 0 {
            tcp.handle_input(self.last_now, Input::Command(Command::ResumeReading));
        }
    }

    /// Hands over to TCP what was written and asked of the connection so far and is not on its way.
    pub(super) fn hand_over(&mut self, now: Time, path: usize) {
        let sender = &self.sender;
        let (offset, length) = (sender.next, sender.unsent() as u32);
        let tcp = &mut self.subflows[path].tcp;
        let mut command = |command| tcp.handle_input(now, Input::Command(command));
        if length > 0 {
            let payload = Payload { offset, length };
            command(Command::Send(Message::new(payload)));
        }
        if self.sender.is_finished {
            command(Command::Shutdown);
        }
        self.subflows[path].is_dirty = true;
        if std::mem::take(&mut self.sender.has_refused) {
            // The application tries again, and from now on TCP answers it.
            self.outputs.push_back(Output::Event(Event::Writable));
        }
    }

    /// Handles a segment of the peer that has none of the options of MPTCP, when the connection is
    /// established. Returns false if the subflow is reset and the segment is not to be taken.
    ///
    /// RFC 8684 section 3.7: as long as no acknowledgement of data has had the option, an acknowledgement of
    /// data that has none shows that the path is not capable of MPTCP, and so does data that nothing maps, or
    /// the end of the stream without `DATA_FIN`. Then the first subflow goes on as TCP if all data is
    /// contiguous on it, and a further one is reset. Later, data that nothing maps shows that its subflow is
    /// broken; Linux falls back even then (`allow_infinite_fallback`).
    #[cold]
    pub(super) fn on_plain(&mut self, now: Time, path: usize, segment: &Segment) -> bool {
        if self.receiver.has_ended() {
            // Subflows close without options.
            return true;
        }
        let subflow = &self.subflows[path];
        let is_unmapped = !subflow.is_mapped(segment.payload);
        let is_new = if subflow.joins { !subflow.is_confirmed } else { self.sender.unacknowledged == 0 };
        let acknowledges = is_new && subflow.tcp.acknowledges_data(segment);
        let ends = is_new && segment.flags.has(Flags::FIN);
        if !(is_unmapped || acknowledges || ends) {
            return true;
        }
        let linux = self.counts_intervals();
        if (is_new || linux) && self.may_go_on_alone(path) {
            // RFC 8684 section 3.7: the sender sends one final mapping, in case the path drops options in one
            // direction only. Linux does not (check_fully_established).
            self.go_on_alone(now, path, acknowledges && !linux);
        } else if is_unmapped || acknowledges {
            self.subflows[path].abort(now, Reset::MIDDLEBOX);
            return false;
        }
        true
    }

    /// Whether this subflow is the only one, and what it carries is the stream of each direction.
    pub(super) fn is_contiguous(&self, path: usize) -> bool {
        let mut others = self.subflows.iter().enumerate().filter(|(other, _)| *other != path);
        let subflow = &self.subflows[path];
        !subflow.joins
            && others.all(|(_, other)| other.phase == Phase::Closed)
            && [self.sender.next, self.receiver.end_of_order()] == subflow.tcp.positions()
            && subflow.maps_to_itself()
    }
}
