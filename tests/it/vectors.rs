//! Published signatures are accepted, produced, and refused when one bit changes.

use std::path::Path;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use hooklatch::event::RawRequest;
use hooklatch::secret::Secret;
use hooklatch::signature::{Preset, Verifier, VerifyConfig};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    vector: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    #[serde(rename = "origin")]
    _origin: String,
    verify: VerifyConfig,
    secrets: Vec<String>,
    at: i64,
    #[serde(default = "root")]
    target: String,
    id: Option<String>,
    /// Whether each bit of the body is signed, and has one meaning.
    #[serde(default = "yes")]
    every_bit_counts: bool,
    /// A secret of the right form that is not the sender's.
    #[serde(default = "stranger")]
    stranger: String,
    headers: Vec<(String, String)>,
    body: String,
}

fn root() -> String {
    "/".to_owned()
}

fn yes() -> bool {
    true
}

fn stranger() -> String {
    "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx".to_owned()
}

impl Vector {
    fn verifier(&self) -> Verifier {
        let secrets = self.secrets.iter().map(Secret::new).collect();
        Verifier::new(&self.verify, secrets).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn request(&self) -> RawRequest {
        RawRequest {
            target: self.target.as_str().into(),
            headers: self.headers.iter().map(|(name, value)| (name, value)).collect(),
            body: Bytes::from(self.body.clone()),
        }
    }

    fn at(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_secs(self.at).expect("a time that a calendar knows")
    }
}

fn vectors() -> Vec<Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut vectors = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of vectors") {
        let path = entry.expect("an entry of the folder").path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let text = std::fs::read_to_string(&path).expect("a readable vector file");
            let file: File =
                toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            vectors.extend(file.vector);
        }
    }
    assert!(vectors.len() >= 70, "the vectors were not found");
    vectors
}

#[test]
fn every_published_signature_is_accepted() {
    for vector in vectors() {
        let outcome = vector.verifier().verify("POST", &vector.request(), vector.at());
        assert!(outcome.is_ok(), "{}: {}", vector.name, outcome.unwrap_err());
    }
}

#[test]
fn what_a_sender_would_send_is_produced() {
    for vector in vectors() {
        let Some(id) = &vector.id else { continue };
        let verifier = vector.verifier();
        let (target, body) = (&vector.target, vector.body.as_bytes());
        let signed = verifier.sign_request("POST", target, body, id, vector.at());
        let signed = signed.unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        assert_eq!(signed.headers, vector.headers, "{}", vector.name);
        assert_eq!((&signed.target, signed.body.as_slice()), (target, body), "{}", vector.name);
    }
}

#[test]
fn no_published_signature_survives_another_body_secret_or_time() {
    for vector in vectors() {
        let verifier = vector.verifier();
        let bits = if vector.every_bit_counts { 0..vector.body.len() * 8 } else { 0..0 };
        if vector.every_bit_counts {
            let mut longer = vector.request();
            longer.body = Bytes::from(vector.body.clone() + "\n");
            assert!(verifier.verify("POST", &longer, vector.at()).is_err(), "{}", vector.name);
        }
        for bit in bits {
            let mut request = vector.request();
            let mut body = request.body.to_vec();
            body[bit / 8] ^= 1 << (bit % 8);
            request.body = Bytes::from(body);
            assert!(verifier.verify("POST", &request, vector.at()).is_err(), "{} bit {bit}", vector.name);
        }
        let stranger = vec![Secret::new(&*vector.stranger)];
        let stranger = Verifier::new(&vector.verify, stranger).unwrap();
        assert!(stranger.verify("POST", &vector.request(), vector.at()).is_err(), "{}", vector.name);
        if let Some(window) = verifier.replay_window() {
            let beyond = chrono::TimeDelta::from_std(window).unwrap() + chrono::TimeDelta::seconds(1);
            let late = vector.at() + beyond;
            let early = vector.at() - beyond;
            assert!(verifier.verify("POST", &vector.request(), late).is_err(), "{}", vector.name);
            assert!(verifier.verify("POST", &vector.request(), early).is_err(), "{}", vector.name);
        }
    }
}

#[test]
fn every_sender_has_a_vector() {
    let vectors = vectors();
    let with_files_of_their_own = ["paypal"];
    for preset in Preset::all() {
        let is_there = vectors.iter().any(|vector| vector.verify.scheme == preset.scheme);
        assert!(is_there || with_files_of_their_own.contains(&preset.scheme), "{}", preset.scheme);
    }
}
