//! `struct tcp_info` of linux/tcp.h, as `TCP_INFO` and, for the subflows of Multipath TCP, `MPTCP_TCPINFO`
//! give it. Newer kernels append to it; what an older kernel does not have is zero.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;

use anabranch_transport::flow::PathId;
use anabranch_transport::observed::{Marks, PathSample, Repairs};
use anabranch_transport::path::PathState;
use anabranch_transport::report::{Declared, declare, declared};
use anabranch_transport::tcp::Stats;
use anabranch_transport::time::Duration;
use anabranch_transport::units::Rate;

use crate::system::{self, MPTCP, MPTCP_SUBFLOW_ADDRS, MPTCP_TCPINFO, TCP};

/// Longer than the structure of any kernel so far (280 bytes in 6.18).
const LENGTH: usize = 512;

/// The kernel's information on a connection.
#[derive(Clone, Debug)]
pub(crate) struct TcpInfo([u8; LENGTH]);

/// What a simulated connection counts by this name.
pub(super) const fn tcp(name: &str) -> Declared {
    declared(Stats::SCALARS, name)
}

declare! {
    /// What only the kernel counts of a connection (`struct tcp_info`).
    KERNEL:
    /// Bytes of data that arrived.
    BYTES_RECEIVED = "kernel.bytes_received": Bytes;
    /// Bytes of data retransmitted.
    BYTES_RETRANSMITTED = "kernel.bytes_retransmitted": Bytes;
    /// Segments with data that arrived.
    DATA_SEGMENTS_RECEIVED = "kernel.data_segments_received": One;
    /// Segments that the peer acknowledged, those acknowledged by SACK included.
    SEGMENTS_DELIVERED = "kernel.segments_delivered": One;
    /// Segments that the peer acknowledged with a congestion mark.
    SEGMENTS_DELIVERED_CE = "kernel.segments_delivered_ce": One;
    /// Duplicates that the peer reported (RFC 2883).
    DSACK_DUPLICATES = "kernel.dsack_duplicates": One;
    /// Times that the kernel noticed reordering.
    REORDERINGS_SEEN = "kernel.reorderings_seen": One;
    /// Recoveries after timeouts that were completed.
    TIMEOUT_RECOVERIES = "kernel.timeout_recoveries": One;
    /// Time in which there was data to send or to acknowledge.
    BUSY_US = "kernel.busy_us": Micros;
    /// Time in which the peer's receive window held data back.
    RECEIVE_WINDOW_LIMITED_US = "kernel.receive_window_limited_us": Micros;
    /// Time in which the send buffer held data back.
    SEND_BUFFER_LIMITED_US = "kernel.send_buffer_limited_us": Micros;
}

/// The counters of a connection, with their offset and size in the structure: first those that a simulated
/// connection has by the same name, then those that only a kernel has.
const COUNTERS: [(Declared, usize, usize); 19] = [
    (tcp("packets_sent"), 136, 4),
    (tcp("packets_received"), 140, 4),
    (tcp("data_segments_sent"), 156, 4),
    (tcp("data_segments_retransmitted"), 100, 4),
    (tcp("bytes_sent"), 200, 8),
    (tcp("bytes_acknowledged"), 120, 8),
    (tcp("out_of_order_received"), 224, 4),
    (tcp("timeouts"), 240, 2),
    (BYTES_RECEIVED, 128, 8),
    (BYTES_RETRANSMITTED, 208, 8),
    (DATA_SEGMENTS_RECEIVED, 152, 4),
    (SEGMENTS_DELIVERED, 192, 4),
    (SEGMENTS_DELIVERED_CE, 196, 4),
    (DSACK_DUPLICATES, 216, 4),
    (REORDERINGS_SEEN, 220, 4),
    (TIMEOUT_RECOVERIES, 242, 2),
    (BUSY_US, 168, 8),
    (RECEIVE_WINDOW_LIMITED_US, 176, 8),
    (SEND_BUFFER_LIMITED_US, 184, 8),
];

/// The counters that the running kernel has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known(usize);

impl Known {
    /// Asks the kernel about a socket of TCP that has no connection.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        system::option(socket, TCP, libc::TCP_INFO, &mut [0; LENGTH]).map(Self)
    }

    fn counters(self) -> impl Iterator<Item = &'static (Declared, usize, usize)> {
        COUNTERS.iter().filter(move |(_, at, size)| at + size <= self.0)
    }

    /// What is declared of these counters.
    pub(crate) fn declared(self) -> impl Iterator<Item = Declared> {
        self.counters().map(|counter| counter.0)
    }
}

impl TcpInfo {
    /// The information on a TCP socket.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut info = Self([0; LENGTH]);
        system::option(socket, TCP, libc::TCP_INFO, &mut info.0)?;
        Ok(info)
    }

    /// The information on each subflow of a Multipath TCP socket, with the addresses of its two ends, this
    /// one first.
    pub(crate) fn of_subflows(socket: BorrowedFd<'_>) -> io::Result<Vec<([IpAddr; 2], Self)>> {
        let infos = subflow_data(socket, MPTCP_TCPINFO, LENGTH)?;
        let addresses = subflow_data(socket, MPTCP_SUBFLOW_ADDRS, 2 * STORAGE)?;
        let both = infos.iter().zip(&addresses);
        Ok(both
            .filter_map(|(info, pair)| {
                let pair = [address(pair.get(..STORAGE)?)?, address(pair.get(STORAGE..)?)?];
                let mut whole = [0; LENGTH];
                whole.get_mut(..info.len())?.copy_from_slice(info);
                Some((pair, Self(whole)))
            })
            .collect())
    }

    const fn u16(&self, at: usize) -> u64 {
        u16::from_ne_bytes([self.0[at], self.0[at + 1]]) as u64
    }

    const fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    const fn u64(&self, at: usize) -> u64 {
        let [low, high] = [self.u32(at) as u64, self.u32(at + 4) as u64];
        if cfg!(target_endian = "little") { low | high << 32 } else { high | low << 32 }
    }

    /// The connection's state for a trace. Sizes are in bytes, while the kernel counts segments.
    pub(crate) fn sample(&self, path: PathId, is_primary: bool) -> PathSample {
        let mss = self.u32(16);
        let micros = |at: usize| Duration::from_micros(self.u32(at).into());
        let [unacked, sacked, lost, retrans] = [24, 28, 32, 36].map(|at| self.u32(at));
        let srtt = micros(68);
        PathSample {
            path,
            cwnd: self.u32(80).saturating_mul(mss),
            ssthresh: self.u32(76).saturating_mul(mss),
            // Linux: tcp_packets_in_flight.
            outstanding: (unacked + retrans).saturating_sub(sacked + lost).saturating_mul(mss),
            srtt: (!srtt.is_zero()).then_some(srtt),
            rto: micros(8),
            delivery_rate: Some(self.u64(160))
                .filter(|&rate| rate > 0)
                .map(|rate| Rate::from_bits_per_sec(rate * 8)),
            error_count: u32::from(self.0[4]),
            state: PathState::Active,
            is_primary,
            // The kernel does not say path by path what it has done.
            repairs: Repairs::default(),
            marks: Marks::default(),
        }
    }

    /// The values of the counters, in the order of their names.
    pub(crate) fn counters(&self, known: Known) -> impl Iterator<Item = u64> {
        known.counters().map(|&(declared, at, size)| {
            let value = match size {
                2 => self.u16(at),
                4 => self.u32(at).into(),
                _ => self.u64(at),
            };
            match declared.name {
                // The kernel's count includes retransmissions.
                "data_segments_sent" => value.saturating_sub(self.u32(100).into()),
                "bytes_sent" => value.saturating_sub(self.u64(208)),
                // SYN and FIN count among them.
                "bytes_acknowledged" => value.saturating_sub(1).min(self.u64(200)),
                _ => value,
            }
        })
    }
}

/// The size of `struct sockaddr_storage`.
const STORAGE: usize = 128;

/// The most subflows that a kernel has: its first one, and eight that may be added.
const MOST_SUBFLOWS: usize = 9;

/// The header of queries about subflows: `struct mptcp_subflow_data`.
const HEADER: usize = 16;

/// Reads an option about subflows, with at most `size` bytes for each.
fn subflow_data(socket: BorrowedFd<'_>, name: i32, size: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut data = vec![0; HEADER + MOST_SUBFLOWS * size];
    data[..4].copy_from_slice(&(HEADER as u32).to_ne_bytes());
    data[12..HEADER].copy_from_slice(&(size as u32).to_ne_bytes());
    system::option(socket, MPTCP, name, &mut data)?;
    let u32_at =
        |at: usize| u32::from_ne_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]) as usize;
    // The kernel says how many there are, and how many bytes of each it has written.
    let (count, written) = (u32_at(4).min(MOST_SUBFLOWS), u32_at(12).clamp(1, size));
    Ok(data[HEADER..].chunks_exact(written).take(count).map(<[u8]>::to_vec).collect())
}

/// The address in a `struct sockaddr_storage`.
pub(crate) fn address(storage: &[u8]) -> Option<IpAddr> {
    match i32::from(u16::from_ne_bytes([storage[0], storage[1]])) {
        libc::AF_INET => <[u8; 4]>::try_from(&storage[4..8]).ok().map(|bytes| Ipv4Addr::from(bytes).into()),
        libc::AF_INET6 => {
            let bytes = <[u8; 16]>::try_from(&storage[8..24]).ok()?;
            let found = Ipv6Addr::from(bytes);
            Some(found.to_ipv4_mapped().map_or(IpAddr::V6(found), IpAddr::V4))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_is_said_of_a_connection_is_what_it_did() {
        use std::io::{Read as _, Write as _};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let known = Known::of(listener.as_fd()).unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        one.write_all(&[7; 5000]).unwrap();
        other.read_exact(&mut [0; 5000]).unwrap();
        let of = |socket: &TcpStream, name: &str| {
            let values = TcpInfo::of(socket.as_fd()).unwrap();
            let mut found = known.declared().zip(values.counters(known));
            found.find(|counter| counter.0.name == name).unwrap().1
        };
        assert_eq!(of(&one, "bytes_sent"), 5000);
        assert_eq!(of(&one, "data_segments_retransmitted"), 0);
        assert!(of(&one, "packets_sent") >= 3);
        assert_eq!(of(&other, "kernel.bytes_received"), 5000);
        let sample = TcpInfo::of(one.as_fd()).unwrap().sample(PathId(0), true);
        assert!(sample.cwnd >= 5000, "{sample:?}");
        assert!(sample.srtt.unwrap() < Duration::from_secs(1));
    }

    #[test]
    fn what_an_older_kernel_does_not_count_is_not_named() {
        // As in Linux 4.9, which lacks the later fields, from `bytes_sent` on.
        let known = Known(168);
        assert!(known.declared().any(|it| it.name == "packets_sent"));
        assert!(known.declared().all(|it| !["bytes_sent", "timeouts", "kernel.busy_us"].contains(&it.name)));
        assert_eq!(TcpInfo([1; LENGTH]).counters(known).count(), known.declared().count());
    }
}
