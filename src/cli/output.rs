//! Standard output, as what reads it may end.
//!
//! A reader that has seen enough (`| head`) closes the pipe: then the program ends too, quietly, as programs
//! do that are ended by SIGPIPE. `println!` would panic. What cannot be written for another reason (a full
//! disk) is a failure.

use std::fmt;
use std::io::{ErrorKind, Write as _};

/// What a shell reports of a program that SIGPIPE has ended.
const ENDED_BY_SIGPIPE: i32 = 141;

/// Writes a line.
pub(super) fn line(text: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(ENDED_BY_SIGPIPE);
        }
        eprintln!("hooklatch: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}
