//! A request as it came over the wire, read from a file: head, empty line, body.
//!
//! Lines of the head may end in LF alone, as editors write them. The body is taken as it is.

use std::path::Path;

use bytes::Bytes;
use tokio::io::AsyncReadExt as _;

use crate::cli::Failure;
use crate::event::RawRequest;
use crate::raw_headers::RawHeaders;

/// Largest file read: more than any receiver takes.
const LARGEST_BYTES: u64 = 256 * 1024 * 1024;

pub(super) struct Captured {
    pub(super) method: String,
    pub(super) request: RawRequest,
    /// What a person should know about the file.
    pub(super) remarks: Vec<String>,
}

pub(super) async fn read(path: &Path) -> Result<Captured, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        tokio::io::stdin().take(LARGEST_BYTES).read_to_end(&mut bytes).await
    } else {
        match tokio::fs::File::open(path).await {
            Ok(file) => file.take(LARGEST_BYTES).read_to_end(&mut bytes).await,
            Err(error) => Err(error),
        }
    };
    read.map_err(|error| Failure::because(&format!("cannot read {}", path.display()), &error))?;
    parse(&Bytes::from(bytes)).map_err(|problem| Failure::usage(format!("{}: {problem}", path.display())))
}

fn parse(bytes: &Bytes) -> Result<Captured, &'static str> {
    let (first, mut at) = line(bytes, 0).ok_or("is empty")?;
    let first = std::str::from_utf8(first).map_err(|_| "does not begin with a request line")?;
    let mut words = first.split_ascii_whitespace();
    let (method, target) = match (words.next(), words.next()) {
        (Some(method), Some(target)) => (method.to_owned(), target),
        _ => return Err("does not begin with a request line, such as `POST /hooks/shop HTTP/1.1`"),
    };
    // Some captures name the whole address.
    let target =
        target.split_once("://").map_or(target, |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
    let mut headers = RawHeaders::new();
    loop {
        let (text, next) = line(bytes, at).ok_or("has no empty line after its headers")?;
        at = next;
        if text.is_empty() {
            break;
        }
        let colon = text.iter().position(|byte| *byte == b':').ok_or("has a header without a colon")?;
        let name = std::str::from_utf8(&text[..colon]).map_err(|_| "has a header whose name is no text")?;
        headers.push(name.trim().to_ascii_lowercase(), text[colon + 1..].trim_ascii());
    }
    let request = RawRequest { target: target.into(), headers, body: bytes.slice(at..) };
    let remarks = remarks(&request);
    Ok(Captured { method, request, remarks })
}

/// The line that begins at `start`, without its end, and where the next begins.
fn line(bytes: &[u8], start: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(start..).filter(|rest| !rest.is_empty())?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let text = &rest[..end];
    Some((text.strip_suffix(b"\r").unwrap_or(text), start + end + 1))
}

fn remarks(request: &RawRequest) -> Vec<String> {
    let mut remarks = Vec::new();
    let length = request.header_values("content-length").next();
    let declared = length.and_then(|value| std::str::from_utf8(value).ok()?.parse::<usize>().ok());
    if let Some(declared) = declared
        && declared != request.body.len()
    {
        remarks.push(format!(
            "Content-Length is {declared}, but the file has {} bytes of body: the capture is not exact",
            request.body.len()
        ));
    }
    let chunked =
        request.header_values("transfer-encoding").any(|value| value.eq_ignore_ascii_case(b"chunked"));
    if chunked {
        remarks.push(
            "Transfer-Encoding is chunked: the file must hold the body without its chunk sizes".to_owned(),
        );
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(text: &'static str) -> Result<Captured, &'static str> {
        parse(&Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_request_is_read_with_its_body_to_the_last_byte() {
        let captured =
            captured("POST /hooks/a?x=1 HTTP/1.1\r\nX-One: 1\r\nx-two:  b c \r\n\r\n{}\r\n").unwrap();
        assert_eq!((captured.method.as_str(), &*captured.request.target), ("POST", "/hooks/a?x=1"));
        assert_eq!(captured.request.header_values("x-two").collect::<Vec<_>>(), [b"b c"]);
        assert_eq!(captured.request.body, "{}\r\n");
        assert!(captured.remarks.is_empty());
    }

    #[test]
    fn lines_may_end_as_editors_end_them_and_an_address_may_be_whole() {
        let captured = captured("POST https://a.example/hooks/a\nContent-Length: 3\n\n{}").unwrap();
        assert_eq!(&*captured.request.target, "/hooks/a");
        assert_eq!(captured.remarks.len(), 1);
    }

    #[test]
    fn what_is_no_request_says_so() {
        for text in ["", "\n\n", "POST\n\n", "POST / HTTP/1.1\nx\n\n", "POST / HTTP/1.1\nx: 1\n"] {
            assert!(captured(text).is_err(), "{text:?}");
        }
    }
}
