//! The headers of a request, as they came.

use std::fmt;

/// Names (lower case) and values in order of arrival. Values may be any bytes HTTP allows.
///
/// All names share one buffer and all values another: a request has a dozen of them, and each is on
/// every delivery's way.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RawHeaders {
    names: String,
    values: Vec<u8>,
    /// Where each name and each value ends.
    ends: Vec<(usize, usize)>,
}

impl RawHeaders {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Room for so many headers, of so many bytes in all names and in all values.
    pub(crate) fn with_capacity(headers: usize, names: usize, values: usize) -> Self {
        Self {
            names: String::with_capacity(names),
            values: Vec::with_capacity(values),
            ends: Vec::with_capacity(headers),
        }
    }

    /// Adds a header behind the others.
    pub fn push(&mut self, name: impl AsRef<str>, value: impl AsRef<[u8]>) {
        self.names.push_str(name.as_ref());
        self.values.extend_from_slice(value.as_ref());
        self.ends.push((self.names.len(), self.values.len()));
    }

    /// Each name with its value, in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> + Clone {
        let starts = std::iter::once((0, 0)).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|((name, value), ends)| (&self.names[name..ends.0], &self.values[value..ends.1]))
    }

    /// The values of the header `name` (lower case), in order of arrival.
    pub fn values<'h>(&'h self, name: &str) -> impl Iterator<Item = &'h [u8]> {
        self.iter().filter(move |(known, _)| *known == name).map(|(_, value)| value)
    }

    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Extend<(N, V)> for RawHeaders {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, headers: I) {
        headers.into_iter().for_each(|(name, value)| self.push(name, value));
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> FromIterator<(N, V)> for RawHeaders {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        let mut all = Self::new();
        all.extend(headers);
        all
    }
}

impl fmt::Debug for RawHeaders {
    /// Values never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawHeaders({})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were_pushed() {
        let sent: [(&str, &[u8]); 4] =
            [("x-two", b"a"), ("x-empty", b""), ("x-two", b"\xE9\xFF"), ("y", b"1")];
        let headers: RawHeaders = sent.into_iter().collect();
        assert_eq!(headers.iter().collect::<Vec<_>>(), sent);
        assert_eq!(headers.values("x-two").collect::<Vec<_>>(), [&b"a"[..], b"\xE9\xFF"]);
        assert_eq!(headers.values("x-empty").collect::<Vec<_>>(), [b""]);
        assert!(headers.contains("y") && !headers.contains("x"));
        assert_eq!(headers.len(), sent.len());
        assert!(RawHeaders::new().is_empty() && RawHeaders::new().iter().next().is_none());
    }

    #[test]
    fn what_a_log_shows_of_headers_is_their_number() {
        let headers: RawHeaders = [("authorization", "s3cret")].into_iter().collect();
        assert_eq!(format!("{headers:?}"), "RawHeaders(1)");
    }
}
