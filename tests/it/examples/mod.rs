//! What the examples and the playground promise, on the real program.

mod crash_stories;
mod orders;
mod playground;
mod rust_handler;
