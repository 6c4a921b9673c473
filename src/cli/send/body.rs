//! The body that is sent: where it comes from, and how an event id is put into it.

use std::path::Path;

use serde_json::Value;
use tokio::io::AsyncReadExt as _;

use crate::cli::Failure;

/// Largest body that is read: more than any receiver takes.
const LARGEST_BYTES: u64 = 256 * 1024 * 1024;

pub(super) async fn read(path: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let path = path.filter(|path| *path != Path::new("-"));
    let read = match path {
        Some(path) => match tokio::fs::File::open(path).await {
            Ok(file) => file.take(LARGEST_BYTES).read_to_end(&mut body).await,
            Err(error) => Err(error),
        },
        None => tokio::io::stdin().take(LARGEST_BYTES).read_to_end(&mut body).await,
    };
    let name = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
    read.map_err(|error| Failure::because(&format!("cannot read {name}"), &error))?;
    Ok(body)
}

/// The body with `id` at a JSON pointer.
pub(super) fn with_id(body: &[u8], pointer: &str, id: &str) -> Result<Vec<u8>, Failure> {
    let mut json: Value = serde_json::from_slice(body)
        .map_err(|error| Failure::because("--event-id needs a JSON body, and this is none", &error))?;
    let place = match json.pointer_mut(pointer) {
        Some(place) => place,
        None => insert(&mut json, pointer).ok_or_else(|| {
            Failure::usage(format!("--event-id: the body has no place {pointer:?} to put the id"))
        })?,
    };
    *place = id.into();
    Ok(json.to_string().into_bytes())
}

/// A new member of an object that is there.
fn insert<'j>(json: &'j mut Value, pointer: &str) -> Option<&'j mut Value> {
    let (parent, name) = pointer.rsplit_once('/')?;
    let name = name.replace("~1", "/").replace("~0", "~");
    Some(json.pointer_mut(parent)?.as_object_mut()?.entry(name).or_insert(Value::Null))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_replaces_the_one_that_is_there_or_is_added() {
        let put = |body: &str, pointer| {
            with_id(body.as_bytes(), pointer, "evt_2").map(|body| String::from_utf8_lossy(&body).into_owned())
        };
        assert_eq!(put(r#"{"id":"evt_1"}"#, "/id").ok().as_deref(), Some(r#"{"id":"evt_2"}"#));
        assert_eq!(put(r#"{"a/b":{}}"#, "/a~1b/id").ok().as_deref(), Some(r#"{"a/b":{"id":"evt_2"}}"#));
        assert!(put("[]", "/id").is_err());
        assert!(put("not json", "/id").is_err());
    }
}
