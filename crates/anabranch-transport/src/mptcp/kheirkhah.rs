//! Profile `kheirkhah_v1`: the ns-3 model of MPTCP by Kheirkhah, Wakeman and Parisis on the connection level.
//! Its subflows are in `tcp/kheirkhah.rs`, its couplings in `cc/coupled/kheirkhah.rs`, and the drills of its
//! rules in `drills/kheirkhah.rs`.

use super::config::{Config, Profile, Rejoin};
use super::parameters::Parameters;
use crate::cc::coupled;
use crate::path::scheduler;
use crate::tcp;
use crate::tcp::subflow::OptionSpace;
use crate::units::Bytes;

/// Its buffers and its window on the connection level in bytes, so large that they never limit.
const BUFFER: u64 = 1 << 30;
const DATA_WINDOW: u64 = 1 << 40;

impl Config {
    /// Resolves profile `kheirkhah_v1`, in which all other settings have the values of profile rfc8684.
    pub(super) fn resolve_as_model(&self) -> Result<Parameters, String> {
        let of_subflow = || tcp::Config { profile: tcp::Profile::KheirkhahV1, ..tcp::Config::default() };
        let model = Self {
            profile: Profile::Rfc8684,
            tcp: Some(self.tcp.clone().unwrap_or_else(of_subflow)),
            send_buffer: self.send_buffer.or(Some(Bytes(BUFFER))),
            receive_buffer: Some(Bytes(BUFFER)),
            scheduler: self.scheduler.clone().or(Some(scheduler::Config::RoundRobin)),
            coupling: self.coupling.clone().or_else(|| Some(coupled::Config::default())),
            receiver: None,
            rejoin: self.rejoin.or(Some(Rejoin::Never)),
            reinjection: self.reinjection.or(Some(false)),
            opportunistic_retransmission: self.opportunistic_retransmission.or(Some(false)),
            penalisation: self.penalisation.or(Some(false)),
            stale_after: self.stale_after.or(Some(100)),
            ..self.clone()
        };
        Ok(Parameters {
            receiver: self.receiver.unwrap_or_default(),
            data_window: Some(DATA_WINDOW),
            // Its options are part of the 20 bytes that its subflows have in every segment.
            space: OptionSpace { data: 0, ack: 0 },
            has_short_numbers: false,
            ..model.resolve()?
        })
    }
}
