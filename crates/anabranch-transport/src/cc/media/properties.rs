//! What holds for every control of media, whatever is sent and reported.

use proptest::prelude::*;

use super::{Config, Controller, Feedback, Frame, MediaControl as _, PacketReport};
use crate::flow::Ecn;
use crate::time::{Duration, Time};
use crate::units::Rate;

const MIN: u64 = 150_000;
const MAX: u64 = 1_500_000;

/// Every control and form of one, with its defaults.
fn controls(ecn: Ecn) -> Vec<Controller> {
    let settings = [
        r#"{ "kind": "cbr" }"#,
        r#"{ "kind": "gcc" }"#,
        r#"{ "kind": "gcc", "variant": "draft_02" }"#,
        r#"{ "kind": "nada" }"#,
        r#"{ "kind": "scream" }"#,
    ];
    let config = |text: &str| -> Config { serde_json::from_str(text).expect("it has defaults") };
    settings.iter().map(|text| config(text).build(ecn, 0)).collect()
}

/// A feedback message: the time since the one before it, and for each packet its size, when it arrived after
/// the one before it, and its fate.
type Message = (u64, Vec<(u32, u64, Option<Ecn>)>);

fn message() -> impl Strategy<Value = Message> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let packet = (40u32..1_500, 0u64..50_000_000, proptest::option::weighted(0.9, ecn));
    (1u64..2_000_000_000, proptest::collection::vec(packet, 0..30))
}

proptest! {
    /// The target is within its bounds, the pace is enough for it, a timeout lies later once it was handled,
    /// and something may be sent when nothing is in flight any more.
    #[test]
    fn targets_are_in_range_and_controls_make_progress(
        messages in proptest::collection::vec(message(), 1..60),
        is_l4s: bool,
    ) {
        let ecn = if is_l4s { Ecn::Ect1 } else { Ecn::NotEct };
        for mut control in controls(ecn) {
            let mut now = Time::from_secs(1);
            // The clock of the receiver is 1000 s ahead.
            let mut arrived = Time::from_secs(1_000);
            for (since, packets) in &messages {
                let sent = now;
                let mut reports = Vec::new();
                for (size, gap, fate) in packets {
                    control.on_sent(sent, *size);
                    arrived += Duration::from_nanos(*gap);
                    reports.push(PacketReport { sent, size: *size, arrival: fate.map(|ecn| (arrived, ecn)) });
                }
                let bytes = packets.iter().map(|(size, ..)| u64::from(*size)).sum();
                control.on_frame(&Frame { now, bytes, waiting: Duration::from_nanos(*since / 7) });
                now += Duration::from_nanos(*since);
                let rtt = Duration::from_nanos(*since);
                control.on_feedback(&Feedback { now, rtt, packets: &reports });
                let limits = control.limits();
                let bounds = Rate::from_bits_per_sec(MIN)..=Rate::from_bits_per_sec(MAX);
                prop_assert!(bounds.contains(&limits.target), "{control:?}");
                prop_assert!(limits.pads || limits.pacing > limits.target, "{control:?}");
                prop_assert!(limits.pacing.bits_per_sec() > 0);
            }
            for _ in 0..100 {
                if control.timeout().is_never() {
                    break;
                }
                now = now.max(control.timeout());
                control.on_timeout(now);
                prop_assert!(control.timeout() > now, "{control:?}");
            }
            prop_assert!(control.limits().window > 1_500, "{control:?}");
        }
    }
}
