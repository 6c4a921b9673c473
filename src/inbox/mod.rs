//! x
pub mod outcome;
