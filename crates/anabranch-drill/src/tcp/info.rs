//! The fields of Linux's `struct tcp_info`, and the constants that go with them.

use anabranch_transport::time::{Duration, Time};

use super::connection::Connection;

/// States in Linux's numbers (`include/net/tcp_states.h`), with the RFC's words.
const STATES: [(&str, &str, i64); 11] = [
    ("TCP_ESTABLISHED", "ESTABLISHED", 1),
    ("TCP_SYN_SENT", "SYN-SENT", 2),
    ("TCP_SYN_RECV", "SYN-RECEIVED", 3),
    ("TCP_FIN_WAIT1", "FIN-WAIT-1", 4),
    ("TCP_FIN_WAIT2", "FIN-WAIT-2", 5),
    ("TCP_TIME_WAIT", "TIME-WAIT", 6),
    ("TCP_CLOSE", "CLOSED", 7),
    ("TCP_CLOSE_WAIT", "CLOSE-WAIT", 8),
    ("TCP_LAST_ACK", "LAST-ACK", 9),
    ("TCP_LISTEN", "LISTEN", 10),
    ("TCP_CLOSING", "CLOSING", 11),
];

/// Congestion states in Linux's numbers (`enum tcp_ca_state`).
const CONGESTION_STATES: [(&str, &str, i64); 5] = [
    ("TCP_CA_Open", "Open", 0),
    ("TCP_CA_Disorder", "Disorder", 1),
    ("TCP_CA_CWR", "CWR", 2),
    ("TCP_CA_Recovery", "Recovery", 3),
    ("TCP_CA_Loss", "Loss", 4),
];

/// The negotiated options (`TCPI_OPT_*`).
const OPTIONS: [(&str, i64); 5] = [
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_SYN_DATA", 32),
];

/// `TCP_INFINITE_SSTHRESH`.
const INFINITE_SSTHRESH: i64 = 0x7fff_ffff;

/// The value of a constant.
pub(super) fn constant(name: &str) -> Option<i64> {
    let states = STATES.iter().chain(&CONGESTION_STATES);
    let mut constants = states.map(|(name, _, number)| (*name, *number)).chain(OPTIONS);
    match name {
        "TCP_INFINITE_SSTHRESH" => Some(INFINITE_SSTHRESH),
        _ => constants.find(|(known, _)| *known == name).map(|(_, number)| number),
    }
}

fn micros(duration: Duration) -> i64 {
    (duration.as_nanos() / 1_000) as i64
}

/// The value of a field; [`None`] if it is not known here.
pub(super) fn value(connection: &Connection, now: Time, name: &str) -> Option<i64> {
    let info = connection.end.info();
    let of = |table: &[(&str, &str, i64)], word: &str| {
        table.iter().find(|(_, known, _)| *known == word).map(|(_, _, number)| *number)
    };
    Some(match name.strip_prefix("tcpi_")? {
        "advmss" => i64::from(info.advertised_mss),
        "backoff" | "retransmits" => i64::from(info.timeouts),
        "busy_time" => micros(connection.chronometer_now(now).busy),
        "ca_state" => of(&CONGESTION_STATES, info.congestion_state)?,
        // The acknowledgement of our SYN counts too.
        "delivered" => {
            let has_opened = connection.is_connected && info.state != "SYN-RECEIVED";
            i64::try_from(info.delivered).ok()? + i64::from(has_opened)
        }
        "delivered_ce" => i64::try_from(info.delivered_ce).ok()?,
        "delivered_e0_bytes" => i64::from(info.delivered_bytes[0]),
        "delivered_ce_bytes" => i64::from(info.delivered_bytes[1]),
        "delivered_e1_bytes" => i64::from(info.delivered_bytes[2]),
        "last_data_recv" => micros(connection.since_data(now)) / 1_000,
        "lost" => i64::from(info.lost),
        "min_rtt" => info.min_rtt.map_or(i64::from(u32::MAX), micros),
        "options" => {
            let flags = [info.timestamps, info.sack, info.window_scaling, info.ecn, info.syn_data];
            OPTIONS.iter().zip(flags).filter(|(_, is_on)| *is_on).map(|((_, bit), _)| *bit).sum()
        }
        "probes" => i64::from(info.probes),
        "rcv_mss" => i64::from(info.receive_mss),
        "reord_seen" => i64::from(info.reorderings_seen),
        "reordering" => i64::from(info.reordering),
        "retrans" => i64::from(info.retransmitted),
        "rto" => micros(info.rto),
        "rtt" => info.srtt.map_or(0, micros),
        "rttvar" => micros(info.rttvar),
        "rwnd_limited" => micros(connection.chronometer_now(now).receive_window),
        "sacked" => i64::from(info.sacked),
        "snd_cwnd" => i64::from(info.cwnd),
        "snd_mss" => i64::from(info.send_mss),
        "snd_ssthresh" => info.ssthresh.map_or(INFINITE_SSTHRESH, i64::from),
        "sndbuf_limited" => micros(connection.chronometer_now(now).send_buffer),
        "state" => of(&STATES, info.state)?,
        "total_retrans" => i64::try_from(info.total_retransmissions).ok()?,
        "unacked" => i64::from(info.outstanding),
        _ => return None,
    })
}
