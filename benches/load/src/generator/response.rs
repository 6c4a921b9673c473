//! Reads an answer off a socket: status line, headers, a body of known length.
//!
//! Only what the peers send: no chunked bodies, no upgrades; anything else is an error, never a
//! guess. Keeps what it has read of the next answer.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Most header lines an answer may have.
const MAX_HEADERS: usize = 32;
/// Most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
const READ_BYTES: usize = 4096;

/// An answer, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The server closes the connection after it.
    pub(crate) close: bool,
    /// It carries `Idempotent-Replayed: true`.
    pub(crate) replayed: bool,
    pub(crate) head_bytes: usize,
    pub(crate) body_bytes: usize,
}

/// The reading side of one connection.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    buffer: Vec<u8>,
    last_body: Vec<u8>,
}

impl AnswerReader {
    pub(crate) async fn read(&mut self, socket: &mut (impl AsyncRead + Unpin)) -> io::Result<Answer> {
        loop {
            if let Some(answer) = parse(&self.buffer)? {
                let end = answer.head_bytes + answer.body_bytes;
                if self.buffer.len() >= end {
                    self.last_body.clear();
                    self.last_body.extend_from_slice(&self.buffer[answer.head_bytes..end]);
                    self.buffer.drain(..end);
                    return Ok(answer);
                }
            }
            if self.buffer.len() > MAX_ANSWER_BYTES {
                return Err(io::Error::other("the answer is too long"));
            }
            self.buffer.reserve(READ_BYTES);
            if socket.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The body of the answer read last.
    pub(crate) fn body(&self) -> &[u8] {
        &self.last_body
    }
}

fn parse(buffer: &[u8]) -> io::Result<Option<Answer>> {
    if buffer.is_empty() {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let head_bytes = match response.parse(buffer).map_err(io::Error::other)? {
        httparse::Status::Complete(bytes) => bytes,
        httparse::Status::Partial => return Ok(None),
    };
    let status = response.code.unwrap_or_default();
    let mut answer = Answer { status, close: false, replayed: false, head_bytes, body_bytes: 0 };
    for header in response.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            answer.body_bytes = std::str::from_utf8(header.value)
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .ok_or_else(|| io::Error::other("unreadable Content-Length"))?;
        } else if is("transfer-encoding") {
            return Err(io::Error::other("a chunked answer"));
        } else if is("connection") {
            answer.close = header.value.eq_ignore_ascii_case(b"close");
        } else if is("idempotent-replayed") {
            answer.replayed = header.value == b"true";
        }
    }
    Ok(Some(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn two_answers_in_one_segment_are_read_one_after_the_other() {
        let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nIdempotent-Replayed: true\r\n\r\nokHTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let mut socket = &bytes[..];
        let mut reader = AnswerReader::default();
        let first = reader.read(&mut socket).await.unwrap();
        assert_eq!((first.status, first.replayed, first.close), (200, true, false));
        assert_eq!(reader.body(), b"ok");
        let second = reader.read(&mut socket).await.unwrap();
        assert_eq!((second.status, second.replayed, second.close), (503, false, true));
        assert!(reader.read(&mut socket).await.is_err());
    }

    #[tokio::test]
    async fn a_chunked_answer_is_refused() {
        let mut socket = &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"[..];
        assert!(AnswerReader::default().read(&mut socket).await.is_err());
    }
}
