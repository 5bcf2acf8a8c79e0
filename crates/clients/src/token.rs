//! The secret that the agents of one launch share with their coordinator.

use crate::sealed::{Seal, bytes};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt::Write;

/// Bytes of a token and of a nonce.
const LENGTH: usize = 32;

/// A secret for one launch.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; LENGTH]);

/// Who proves that it knows a token.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Side {
    Coordinator,
    Agent,
}

/// Does not show it.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// A new one.
    pub fn random() -> Self {
        Token(rand::random())
    }

    /// Reads [`Token::text`].
    pub fn parse(text: &str) -> Option<Self> {
        Some(Token(bytes(text.trim().as_bytes())?.try_into().ok()?))
    }

    /// As hexadecimal digits.
    pub fn text(&self) -> String {
        hexadecimal(&self.0)
    }

    /// Shows that one side of a conversation knows the token. Both nonces are in it, so that no proof can be
    /// used twice, and the side, so that none can be sent back.
    pub(crate) fn proof(&self, side: Side, nonces: [&str; 2]) -> String {
        hexadecimal(&self.mac("proof", side, nonces).finalize().into_bytes())
    }

    /// Returns whether a proof is right, in the same time for all wrong ones.
    pub(crate) fn verify(&self, proof: &str, side: Side, nonces: [&str; 2]) -> bool {
        Token::parse(proof)
            .is_some_and(|proof| self.mac("proof", side, nonces).verify_slice(&proof.0).is_ok())
    }

    /// The seal of what one side sends in the conversation with these nonces.
    pub(crate) fn seal(&self, side: Side, nonces: [&str; 2]) -> Seal {
        let key = self.mac("seal", side, nonces).finalize().into_bytes();
        Seal::new(keyed(&key))
    }

    fn mac(&self, purpose: &str, side: Side, nonces: [&str; 2]) -> Hmac<Sha256> {
        let side = match side {
            Side::Coordinator => "coordinator",
            Side::Agent => "agent",
        };
        let mut mac = keyed(&self.0);
        for text in ["fsdyno", purpose, side].into_iter().chain(nonces) {
            mac.update(&(text.len() as u64).to_be_bytes());
            mac.update(text.as_bytes());
        }
        mac
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// A number that is used once.
pub(crate) fn nonce() -> String {
    hexadecimal(&rand::random::<[u8; LENGTH]>())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_token_side_and_nonces_only() {
        let token = Token::random();
        let proof = token.proof(Side::Agent, ["a", "b"]);
        assert!(token.verify(&proof, Side::Agent, ["a", "b"]));
        assert!(!token.verify(&proof, Side::Coordinator, ["a", "b"]));
        assert!(!token.verify(&proof, Side::Agent, ["b", "a"]));
        assert!(!token.verify(&proof, Side::Agent, ["ab", ""]));
        assert!(!Token::random().verify(&proof, Side::Agent, ["a", "b"]));
        assert!(!token.verify("", Side::Agent, ["a", "b"]));
        assert!(!token.verify("zz", Side::Agent, ["a", "b"]));
    }

    #[test]
    fn a_token_survives_its_text_and_shows_nothing_by_accident() {
        let token = Token::random();
        assert_eq!(Token::parse(&format!("{}\n", token.text())), Some(token.clone()));
        assert_eq!(Token::parse("12"), None);
        assert_eq!(Token::parse(&"é".repeat(32)), None);
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    /// From Python's `hmac` module: the key is the bytes 0 to 31, the message `fsdyno`, `proof`, `agent` and
    /// the nonces, each after its length in 8 bytes, the highest first.
    const PROOF: &str = "96462b3a339e696a58729695b824fb4aa25763807ffab290e0dfcc600ab9bfc5";

    #[test]
    fn the_proof_is_that_of_another_implementation() {
        let token = Token(std::array::from_fn(|index| index as u8));
        assert_eq!(token.proof(Side::Agent, ["left", "right"]), PROOF);
    }
}
