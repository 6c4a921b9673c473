//! A handler's statement over `event`.
/// x
#[derive(Debug)]
pub struct SqlHandler;
