//! The secrets of an end, and numbers drawn from them that cannot be guessed from others of them.
//!
//! A simulation draws verification tags, initial sequence numbers and nonces from the run's
//! [streams](crate::rng). An end that talks to strangers draws them from a [secret](Secret) instead (RFC 9260
//! section 5.3.1, RFC 6528): some of these numbers reveal nothing about the others.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::rng::{Draw, Rng};

/// The key of an end, which must be drawn at random and kept secret.
#[derive(Clone)]
pub struct Secret(pub [u8; 32]);

impl std::fmt::Debug for Secret {
    /// Shows nothing of the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

impl Secret {
    /// The HMAC-SHA-256 of a message, under a key that is used only for this purpose.
    pub fn code(&self, purpose: &[u8], message: &[u8]) -> [u8; 32] {
        let mut code = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length is a key");
        code.update(purpose);
        code.update(message);
        code.finalize().into_bytes().into()
    }
}

/// A sequence of numbers made from a secret.
#[derive(Clone, Debug)]
pub struct SecretNumbers {
    secret: Secret,
    /// How many numbers have been drawn.
    drawn: u64,
    /// How many sequences have been split off.
    split: u64,
}

impl SecretNumbers {
    /// The numbers that this secret gives, from the first one on. A secret must be used only once.
    pub const fn new(secret: Secret) -> Self {
        Self { secret, drawn: 0, split: 0 }
    }

    /// Another sequence, independent of this one.
    #[must_use]
    pub fn split_off(&mut self) -> Self {
        self.split += 1;
        Self::new(Secret(self.secret.code(b"sequence", &self.split.to_be_bytes())))
    }
}

impl Draw for SecretNumbers {
    fn bits(&mut self) -> u64 {
        self.drawn += 1;
        let code = self.secret.code(b"number", &self.drawn.to_be_bytes());
        let (first, _) = code.split_first_chunk().expect("a code is longer");
        u64::from_be_bytes(*first)
    }
}

/// The source of the numbers that a stranger must not know.
#[derive(Clone, Debug)]
pub(crate) enum NumberSource {
    Secret(SecretNumbers),
    Stream(Rng),
}

impl Draw for NumberSource {
    fn bits(&mut self) -> u64 {
        match self {
            Self::Secret(numbers) => numbers.bits(),
            Self::Stream(rng) => rng.bits(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_differ_and_repeat() {
        let numbers = || SecretNumbers::new(Secret([7; 32]));
        let first: Vec<u64> = std::iter::repeat_with({
            let mut own = numbers();
            move || own.bits()
        })
        .take(3)
        .collect();
        let mut again = numbers();
        let mut other = again.split_off();
        let mut third = again.split_off();
        for number in first {
            assert_eq!(again.bits(), number);
            let (other, third) = (other.bits(), third.bits());
            assert!(other != number && third != number && other != third);
        }
        assert_ne!(SecretNumbers::new(Secret([8; 32])).bits(), numbers().bits());
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", SecretNumbers::new(Secret([7; 32])).secret), "Secret(..)");
    }
}
