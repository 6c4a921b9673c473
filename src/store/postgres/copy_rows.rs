//! Rows for `COPY … FROM STDIN (FORMAT binary)`.
//!
//! The cheapest way into a table: no arrays to take apart, and one log record for a page of rows.
//! Owns the encoding (PostgreSQL's documentation of COPY, "Binary Format"). Knows no table: whoever
//! writes rows gives each field in the order of the statement's columns.

use chrono::{DateTime, Utc};
use uuid::Uuid;

/// What every such stream begins with: the signature, no flags, no header extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The number of fields that ends a stream.
const TRAILER: i16 = -1;

/// The length that stands for NULL.
const NULL: i32 = -1;

/// Seconds from 1970 to 2000, where PostgreSQL's time begins.
const POSTGRES_EPOCH_SECONDS: i64 = 946_684_800;

/// Rows on their way to a table.
pub(super) struct CopyRows {
    bytes: Vec<u8>,
    columns: i16,
}

impl CopyRows {
    /// No rows yet, of so many columns each.
    pub fn new(columns: i16, capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(HEADER);
        Self { bytes, columns }
    }

    /// Begins a row: as many fields as there are columns must follow.
    pub fn row(&mut self) -> &mut Self {
        self.bytes.extend_from_slice(&self.columns.to_be_bytes());
        self
    }

    pub fn uuid(&mut self, value: Uuid) -> &mut Self {
        self.field(value.as_bytes())
    }

    pub fn int2(&mut self, value: i16) -> &mut Self {
        self.field(&value.to_be_bytes())
    }

    pub fn int4(&mut self, value: i32) -> &mut Self {
        self.field(&value.to_be_bytes())
    }

    pub fn int8(&mut self, value: i64) -> &mut Self {
        self.field(&value.to_be_bytes())
    }

    pub fn timestamptz(&mut self, value: DateTime<Utc>) -> &mut Self {
        let since_unix_epoch = value.timestamp_micros();
        self.int8(since_unix_epoch.saturating_sub(POSTGRES_EPOCH_SECONDS * 1_000_000))
    }

    /// Text, which must not contain NUL.
    pub fn text(&mut self, value: Option<&str>) -> &mut Self {
        match value {
            Some(text) => self.field(text.as_bytes()),
            None => {
                self.bytes.extend_from_slice(&NULL.to_be_bytes());
                self
            }
        }
    }

    /// The whole stream.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(&TRAILER.to_be_bytes());
        self.bytes
    }

    fn field(&mut self, value: &[u8]) -> &mut Self {
        // No field comes near 2 GiB: bodies are not written this way.
        let length = i32::try_from(value.len()).unwrap_or(i32::MAX);
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(value);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_reads_as_the_documentation_says() {
        let mut rows = CopyRows::new(2, 0);
        rows.row().int2(7).text(Some("ab"));
        rows.row().int2(-1).text(None);
        let expected = [
            &b"PGCOPY\n\xff\r\n\0"[..],
            &[0; 8],
            &[0, 2, 0, 0, 0, 2, 0, 7, 0, 0, 0, 2, b'a', b'b'],
            &[0, 2, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff],
        ];
        assert_eq!(rows.finish(), expected.concat());
    }

    #[test]
    fn time_begins_in_the_year_2000() {
        let mut rows = CopyRows::new(1, 0);
        rows.row().timestamptz(DateTime::from_timestamp(946_684_801, 0).expect("a time"));
        let bytes = rows.finish();
        let value = &bytes[HEADER.len() + 6..HEADER.len() + 14];
        assert_eq!(value, 1_000_000_i64.to_be_bytes());
    }
}
