//! The bytes of a file, unpacked where it is compressed, in pieces of a buffer.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// As much as is asked of the system at a time, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// The beginning of a gzip file (RFC 1952 section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The beginning of a Zstandard frame (RFC 8878 section 3.1.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Why a file cannot be read any further.
#[derive(Debug)]
pub(crate) struct Damage(pub(crate) String);

impl Damage {
    pub(crate) fn of(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }

    /// A length that none of these has.
    pub(crate) fn length(what: &str, length: impl Display) -> Self {
        Self(format!("a {what} cannot have {length} bytes; the file is damaged"))
    }
}

impl From<io::Error> for Damage {
    fn from(error: io::Error) -> Self {
        Self(format!("it cannot be read any further: {error}"))
    }
}

/// A frame without content. A decoder that has read one refuses windows above its limit; a new one does not.
const EMPTY_FRAME: [u8; 9] = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0];

/// A file that is read once from its beginning to its end.
pub(crate) struct Source {
    input: Box<dyn Read + Send + Sync>,
    buffer: Vec<u8>,
    /// What of the buffer has not been taken yet.
    at: usize,
    end: usize,
    /// How many bytes of the file have been read, packed as they are.
    read: Arc<AtomicU64>,
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::of(Box::new(File::open(path)?))
    }

    /// What these bytes say.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn of(input: Box<dyn Read + Send + Sync>) -> io::Result<Self> {
        let read = Arc::new(AtomicU64::new(0));
        let mut input = BufReader::with_capacity(BUFFER_BYTES, Counted { input, read: Arc::clone(&read) });
        let head = input.fill_buf()?;
        let input: Box<dyn Read + Send + Sync> = if head.starts_with(&GZIP) {
            Box::new(MultiGzDecoder::new(input))
        } else if head.starts_with(&ZSTD) {
            let mut decoder = FrameDecoder::new();
            decoder.reset(&EMPTY_FRAME[..]).map_err(io::Error::other)?;
            Box::new(Zstd { input, decoder, has_begun: false })
        } else {
            Box::new(input)
        };
        Ok(Self { input, buffer: vec![0; BUFFER_BYTES], at: 0, end: 0, read })
    }

    /// How many bytes of the file have been read so far.
    pub(crate) fn position(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The next bytes without taking them: as many as are asked for, or all that are left.
    ///
    /// # Errors
    /// When they cannot be read or unpacked.
    pub(crate) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.end - self.at < count {
            self.fill(count)?;
        }
        Ok(&self.buffer[self.at..self.end.min(self.at + count)])
    }

    /// Takes bytes that have been peeked at.
    pub(crate) fn take(&mut self, count: usize) -> &[u8] {
        let start = self.at;
        self.at = self.end.min(start + count);
        &self.buffer[start..self.at]
    }

    /// Makes the buffer have as many bytes, as far as they are there. A longer piece lets it grow by what is
    /// there, not by what a file claims.
    fn fill(&mut self, count: usize) -> io::Result<()> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while self.end < count {
            if self.end == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(got) => self.end += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Counts what is read.
struct Counted {
    input: Box<dyn Read + Send + Sync>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.input.read(buffer)?;
        self.read.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
    }
}

/// Zstandard frames one after another (RFC 8878 section 3). A frame's window, which has to be kept, is at
/// most 100 MiB; the decoder refuses others.
struct Zstd<R> {
    input: R,
    decoder: FrameDecoder,
    has_begun: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Begins the next frame with content; says whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => {
                    self.has_begun = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut (&mut self.input).take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let is_over = !self.has_begun || (self.decoder.is_finished() && self.decoder.can_collect() == 0);
            if is_over && !self.begin()? {
                return Ok(0);
            }
            while self.decoder.can_collect() < buffer.len() && !self.decoder.is_finished() {
                let missing = buffer.len() - self.decoder.can_collect();
                self.decoder
                    .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBytes(missing))
                    .map_err(io::Error::other)?;
            }
            // A frame may have no content.
            let got = self.decoder.read(buffer)?;
            if got > 0 || buffer.is_empty() {
                return Ok(got);
            }
        }
    }
}
