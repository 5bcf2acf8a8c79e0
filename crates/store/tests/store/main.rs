//! Tests of the store as its users see it: what goes in comes out, whatever crashes in between.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod converting;
mod durability;
mod fixture;
mod kept;
mod opening;
mod places;
mod portable;
mod reading;
mod round_trip;
mod sweeps;
