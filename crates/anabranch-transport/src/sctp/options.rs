//! The options that an application may set while the association lives (RFC 6458 section 8.1).

use super::association::Association;
use super::parameters::Parameters;
use crate::flow::PathId;
use crate::time::Time;

impl Association {
    /// Adopts of these settings what an option of a socket can set in an association that lives: RTO.Initial,
    /// RTO.Min and RTO.Max (`SCTP_RTOINFO`), Association.Max.Retrans (`SCTP_ASSOCINFO`), Path.Max.Retrans and
    /// heartbeats (`SCTP_PEER_ADDR_PARAMS`), Nagle's algorithm (`SCTP_NODELAY`). The caller asks for output
    /// then.
    pub fn set_options(&mut self, now: Time, wanted: &Parameters) {
        debug_assert!(now >= self.last_now, "time runs backwards");
        self.last_now = now;
        let own = &mut self.parameters;
        own.association_max_retrans = wanted.association_max_retrans;
        own.path_max_retrans = wanted.path_max_retrans;
        if (own.rto.initial, own.rto.min, own.rto.max) != (wanted.rto.initial, wanted.rto.min, wanted.rto.max)
        {
            (own.rto.initial, own.rto.min, own.rto.max) =
                (wanted.rto.initial, wanted.rto.min, wanted.rto.max);
            for path in &mut self.routing.paths {
                path.rtt.set_limits(self.parameters.rto);
            }
        }
        let heartbeats = (wanted.heartbeat.enabled, wanted.heartbeat.interval);
        if heartbeats != (self.parameters.heartbeat.enabled, self.parameters.heartbeat.interval) {
            (self.parameters.heartbeat.enabled, self.parameters.heartbeat.interval) = heartbeats;
            if self.state.is_established() {
                for index in 0..self.routing.paths.len() {
                    self.start_heartbeat_timer(now, PathId(index as u8));
                }
            }
        }
        if std::mem::replace(&mut self.parameters.nagle, wanted.nagle) && !wanted.nagle {
            self.send(now);
        }
    }
}
