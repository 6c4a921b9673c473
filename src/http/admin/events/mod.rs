//! Events: what is known of one, and how to make it new again.

pub(in crate::http) mod forget;
pub(in crate::http) mod show;
