//! The emulator's end of a pair of veth devices, where there is no TUN: a packet socket whose incoming
//! packets lie in memory that the kernel shares with this process (`PACKET_RX_RING`, `TPACKET_V2`).
//!
//! The kernel writes a packet into the next frame of the ring and hands the frame over by its status; who has
//! read it hands it back. Frames lie in blocks one behind the other, and none crosses the end of a block.
#![expect(unsafe_code, reason = "memory that is shared with the kernel")]

use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::system;

/// The hardware address of a node's devices; each is alone in its network.
pub(crate) const NODE_ADDRESS: [u8; 6] = [0x02, 0x61, 0x6e, 0x61, 0, 1];
/// The hardware address of the emulator's devices. Nothing is sent to it: devices without ARP send to their
/// own address.
pub(crate) const CARRIER_ADDRESS: [u8; 6] = [0x02, 0x61, 0x6e, 0x61, 0, 2];

/// Size of a block of the ring in bytes; the longest IP packet fits into it.
const BLOCK: usize = 1 << 17;
/// The most blocks of a ring, 16 MiB in all, which hold 10,496 packets with an MTU of 1500.
const MOST_BLOCKS: usize = 128;
/// The fewest, which hold 656 such packets.
const LEAST_BLOCKS: usize = 8;
/// The blocks that the rings of an emulation share, 128 MiB. The kernel clears each before it hands a ring
/// out, so that many rings of full size would take seconds.
const SHARED_BLOCKS: usize = 1024;
/// The most bytes before a packet's IP header in a frame: the kernel's header of 32, a socket address of 20,
/// the Ethernet header of 14, and alignment to 16.
const HEADROOM: usize = 80;
/// `TPACKET_ALIGNMENT`.
const ALIGNMENT: usize = 16;

/// The blocks of each ring where there are so many.
fn blocks_of_each(rings: usize) -> usize {
    (SHARED_BLOCKS / rings.max(1)).clamp(LEAST_BLOCKS, MOST_BLOCKS)
}

/// A socket at one end of a path.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    socket: OwnedFd,
    ring: RxRing,
    /// Packets that did not fit into the ring.
    overruns: u64,
}

/// The result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Nothing,
    /// A packet that is complete.
    Packet,
    /// A packet that the device's hardware was to split or to give its checksum. That happens only if the
    /// offloads of a node's device have been turned on.
    Unfinished,
}

impl PacketSocket {
    /// Opens a socket at this device, which must be up, in the network of this thread; packets have at most
    /// `mtu` bytes, and the emulation has as many such devices as `devices` says.
    pub(crate) fn open(device: &str, mtu: u32, devices: usize) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // The socket is for no protocol, so it receives nothing before it is bound.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        let set = |name: c_int, values: &[u32]| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
            system::set_option(socket.as_fd(), libc::SOL_PACKET, name, &bytes)
        };
        set(libc::PACKET_VERSION, &[libc::tpacket_versions::TPACKET_V2 as u32])?;
        // The socket gets only what the node sends. Packets sent through it go directly to the device,
        // bypassing its queue.
        set(libc::PACKET_IGNORE_OUTGOING, &[1])?;
        set(libc::PACKET_QDISC_BYPASS, &[1])?;
        let frame = (HEADROOM + mtu as usize).next_multiple_of(ALIGNMENT);
        let blocks = blocks_of_each(devices);
        let frames = BLOCK / frame * blocks;
        set(libc::PACKET_RX_RING, &[BLOCK, blocks, frame, frames].map(|number| number as u32))?;
        let ring = RxRing::map(socket.as_fd(), frame, frames, BLOCK * blocks)?;
        system::bind_to_device(socket.as_fd(), name_to_index(&socket, device)?)?;
        Ok(Self { socket, ring, overruns: 0 })
    }

    /// Puts the next IP packet into `packet`.
    pub(crate) fn receive(&mut self, packet: &mut Vec<u8>) -> Came {
        let take = |Frame { bytes, is_finished }: Frame<'_>| {
            packet.clear();
            packet.extend_from_slice(bytes);
            if is_finished { Came::Packet } else { Came::Unfinished }
        };
        self.ring.take(take).unwrap_or(Came::Nothing)
    }

    /// Sends an IP packet to the node.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        const IPV4: [u8; 2] = [0x08, 0x00];
        const IPV6: [u8; 2] = [0x86, 0xdd];
        let kind = if packet.first().is_some_and(|first| first >> 4 == 6) { IPV6 } else { IPV4 };
        let mut header = [0; 14];
        header[..6].copy_from_slice(&NODE_ADDRESS);
        header[6..12].copy_from_slice(&CARRIER_ADDRESS);
        header[12..].copy_from_slice(&kind);
        rustix::io::writev(&self.socket, &[IoSlice::new(&header), IoSlice::new(packet)])?;
        Ok(())
    }

    /// How many packets have not fitted into the ring so far.
    pub(crate) fn overruns(&mut self) -> u64 {
        // Two numbers: packets, and how many of them were dropped, since the last call.
        let mut counts = [0; 8];
        let asked =
            system::option(self.socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut counts);
        if asked.is_ok() {
            let [_, _, _, _, dropped @ ..] = counts;
            self.overruns += u64::from(u32::from_ne_bytes(dropped));
        }
        self.overruns
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The receive ring of a socket (`PACKET_RX_RING`).
#[derive(Debug)]
struct RxRing {
    memory: NonNull<u8>,
    /// Bytes of the memory.
    length: usize,
    /// Bytes of a frame.
    frame: usize,
    frames: usize,
    /// The frame that the kernel fills next.
    next: usize,
}

/// A packet in the ring.
struct Frame<'a> {
    /// The packet from its IP header on.
    bytes: &'a [u8],
    /// Whether the packet is complete and has its checksums.
    is_finished: bool,
}

// SAFETY: the memory belongs to this value alone, wherever that is, but for the frames that the kernel holds.
unsafe impl Send for RxRing {}

impl RxRing {
    /// Maps the ring that the socket has been given.
    fn map(socket: BorrowedFd<'_>, frame: usize, frames: usize, length: usize) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses, which nothing else uses.
        let memory = unsafe { mmap(ptr::null_mut(), length, rights, MapFlags::SHARED, socket, 0) }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { memory, length, frame, frames, next: 0 })
    }

    /// Shows the next packet and then hands its frame back; [`None`] if there is no packet.
    fn take<T>(&mut self, see: impl FnOnce(Frame<'_>) -> T) -> Option<T> {
        let in_block = BLOCK / self.frame;
        let place = self.next / in_block * BLOCK + self.next % in_block * self.frame;
        // SAFETY: `next` is less than `frames`, so that the frame lies within the mapping, which lives as
        // long as this; frames are aligned to 16 bytes. The status is written by the kernel and by this only.
        let status = unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(place).cast()) };
        let told = status.load(Ordering::Acquire);
        if told & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: as above, and the kernel does not write to a frame that it has handed over. The status,
        // which is the first word, is not part of what is borrowed here.
        let frame = unsafe {
            let begin = self.memory.as_ptr().add(place + size_of::<u32>());
            std::slice::from_raw_parts(begin.cast_const(), self.frame - size_of::<u32>())
        };
        let seen = see(Frame::of(frame, told));
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.frames;
        Some(seen)
    }
}

impl Drop for RxRing {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing of it is borrowed any more.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.length) };
    }
}

impl<'a> Frame<'a> {
    /// The packet in a frame, which is given without its first word, the status; `told` is that word.
    fn of(frame: &'a [u8], told: u32) -> Self {
        // struct tpacket2_hdr of linux/if_packet.h.
        let word = |at: usize| u32::from_ne_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        let half = |at: usize| usize::from(u16::from_ne_bytes([frame[at], frame[at + 1]]));
        let [length, kept] = [word(0), word(4)];
        let [link, network] = [half(8), half(10)].map(|offset| offset - size_of::<u32>());
        let bytes = frame.get(network..link + kept as usize).unwrap_or_default();
        let is_finished = length == kept && told & libc::TP_STATUS_CSUMNOTREADY == 0;
        Self { bytes, is_finished }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_share_their_memory() {
        assert_eq!([0, 1, 8, 16, 80, 1000].map(blocks_of_each), [128, 128, 128, 64, 12, 8]);
    }
}
