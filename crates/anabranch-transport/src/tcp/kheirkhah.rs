//! Profile `kheirkhah_v1`: the subflows of the ns-3 model of MPTCP by Kheirkhah, Wakeman and Parisis, with
//! the names of its functions in `mp-tcp-socket-base.cc`. Its recovery is in `newreno.rs`, and its windows
//! are those of [`cc::Rules::Inflated`].

use super::config::{Config, InitialWindow, LossDetection, Nagle, Profile, RtoEstimator, WindowReduction};
use super::parameters::Parameters;
use crate::cc::{self, slow_start::SlowStart};
use crate::time::Duration;
use crate::units::Bytes;

/// Bytes of options in every segment of the model (`SendDataPacket`, `SendEmptyPacket`).
const MODEL_OPTION_BYTES: u8 = 20;

impl Config {
    /// Resolves profile `kheirkhah_v1`, in which all other settings have the values of profile rfc.
    pub(super) fn resolve_as_model(&self) -> Result<Parameters, String> {
        if let Some(cc::Config::Reno(cc::reno::Config { slow_start, .. })) = self.cc
            && slow_start != SlowStart::Standard
        {
            return Err(format!(
                "cc.slow_start = \"{slow_start}\" is not in profile kheirkhah_v1; use \"standard\""
            ));
        }
        let (cc, off) = (cc::Config::Reno(cc::reno::Config::default()), Some(false));
        let model = Self {
            profile: Profile::Rfc,
            // `OpenCWND` with `Uncoupled_TCPs`.
            cc: self.cc.clone().or(Some(cc)),
            // `AdvertisedWindowSize`.
            receive_buffer: self.receive_buffer.or(Some(Bytes(65_535))),
            window_scaling: self.window_scaling.or(off),
            // `AvailableWindow` lets the last, short segment go.
            nagle: self.nagle.or(Some(Nagle::Off)),
            initial_window: self.initial_window.or(Some(InitialWindow::Segments(1))),
            timestamps: self.timestamps.or(off),
            sack: self.sack.or(off),
            dsack: self.dsack.or(off),
            // `ReceivedData` acknowledges every packet.
            ack_every: self.ack_every.or(Some(1)),
            // `MpTcpSubFlow`; ns-3's `RttEstimator`.
            rto_initial: self.rto_initial.or(Some(Duration::from_millis(1_500))),
            rto_min: self.rto_min.or(Some(Duration::from_millis(200))),
            rto_max: self.rto_max.or(Some(Duration::from_secs(86_400))),
            rto_estimator: self.rto_estimator.or(Some(RtoEstimator::MeanDeviation)),
            retries: self.retries.or(Some(u32::MAX)),
            // `DupAck`, `ReduceCWND`.
            loss_detection: self.loss_detection.or(Some(LossDetection::Dupacks)),
            window_reduction: self.window_reduction.or(Some(WindowReduction::AtOnce)),
            limited_transmit: self.limited_transmit.or(off),
            tail_loss_probe: self.tail_loss_probe.or(off),
            f_rto: self.f_rto.or(off),
            undo: self.undo.or(off),
            idle_restart: self.idle_restart.or(off),
            ..self.clone()
        };
        let parameters = model.resolve()?;
        Ok(Parameters { rules: cc::Rules::Inflated, padding: MODEL_OPTION_BYTES, ..parameters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::IpVersion;

    fn parse(json: &str) -> Config {
        serde_json::from_str(json).expect("the settings can be read")
    }

    #[test]
    fn the_model_has_its_own_numbers() {
        let model = parse(r#"{"profile": "kheirkhah_v1", "mss": "1400 B"}"#).resolve().expect("possible");
        let millis = Duration::from_millis;
        assert_eq!([model.rto_initial, model.rto_min], [1_500, 200].map(millis));
        assert_eq!(model.initial_cwnd(1_400), 1_400);
        assert_eq!((model.rules, model.receive_buffer, model.ack_every), (cc::Rules::Inflated, 65_535, 1));
        assert_eq!(model.mss(1_500, IpVersion::Ipv4), 1_400);
        // TCP 20 B, options 20 B, IP 20 B.
        assert_eq!((model.mss(1_460, IpVersion::Ipv4), model.mss(1_459, IpVersion::Ipv4)), (1_400, 1_399));
        let changed = parse(r#"{"profile": "kheirkhah_v1", "sack": true, "cc": {"kind": "cubic"}}"#);
        let changed = changed.resolve().expect("possible");
        assert!(changed.sack && !changed.timestamps);
    }
}
