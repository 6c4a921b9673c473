//! Where the playground lives on disk: a directory of its own with the configuration, the secrets,
//! the log and, unless the user names another place, the database.
//!
//! The configuration is the orders example as it stands in `examples/orders/`, with other addresses,
//! secrets from files, and what the story needs besides: an unsigned source, and a system to send on to. Knows nothing of processes or HTTP.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::Addresses;
use crate::clock;
use crate::secret::Secret;

/// The example whose sources the playground serves.
const EXAMPLE: &str = include_str!("../../../examples/orders/hooklatch.toml");
/// The unsigned source for `curl`, with the handler that is slow on purpose, and the packing station.
const OWN_SOURCES: &str = include_str!("playground.toml");
/// Where the sources begin in the example; above are addresses and database.
const FIRST_SOURCE: &str = "\n[[source]]";
/// What stands for the road's address in them.
const ROAD: &str = "ROAD";
/// How the example refers to a secret, before and after its name.
const SECRET_REFERENCE: (&str, &str) = ("\"env:", "\"");
/// The one that the story signs with.
const SHOP_SECRET: &str = "SHOP_SECRET";

/// The files of one playground.
#[derive(Clone, Debug)]
pub(super) struct Site {
    directory: PathBuf,
    /// Absolute.
    pub(super) database: PathBuf,
    /// The shop's signing secret.
    pub(super) shop_secret: Secret,
    /// Where messages for the packing station go.
    road: SocketAddr,
}

impl Site {
    /// Makes the directory and its files. `id` names them apart from any other playground's.
    pub(super) fn create(id: Uuid, database: Option<&Path>, road: SocketAddr) -> io::Result<Self> {
        let directory = std::env::temp_dir().join(format!("hooklatch-playground-{}", short(id)));
        create_private_directory(&directory)?;
        let directory = directory.canonicalize()?;
        let database = match database {
            Some(file) => std::path::absolute(file)?,
            None => directory.join("orders.db"),
        };
        create_private_file(&database)?;
        let mut shop_secret = new_secret();
        for name in secret_names() {
            let secret = new_secret();
            write_private(&secret_file(&directory, &name), secret.expose())?;
            if name == SHOP_SECRET {
                shop_secret = secret;
            }
        }
        Ok(Self { directory, database, shop_secret, road })
    }

    /// Writes the configuration for these addresses.
    pub(super) fn write_config(&self, addresses: Addresses) -> io::Result<()> {
        fs::write(self.config(), self.config_text(addresses))
    }

    /// Writes the relay's: the same, on any private port that is free.
    pub(super) fn write_relay_config(&self) -> io::Result<()> {
        let free = (Ipv4Addr::LOCALHOST, 0).into();
        fs::write(self.relay_config(), self.config_text(Addresses { public: free, admin: free }))
    }

    /// Writes a body to post by hand, and returns its path.
    pub(super) fn write_body(&self, name: &str, body: &str) -> io::Result<PathBuf> {
        let path = self.directory.join(name);
        fs::write(&path, body)?;
        Ok(path)
    }

    fn config_text(&self, addresses: Addresses) -> String {
        config_text(&self.directory, &self.database, addresses, self.road)
    }

    pub(super) fn config(&self) -> PathBuf {
        self.directory.join("hooklatch.toml")
    }

    /// What the receiver says.
    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("receiver.log")
    }

    pub(super) fn relay_config(&self) -> PathBuf {
        self.directory.join("relay.toml")
    }

    /// What the relay says.
    pub(super) fn relay_log(&self) -> PathBuf {
        self.directory.join("relay.log")
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Removes the directory; a database that the user placed elsewhere stays.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.directory)
    }
}

/// A secret that nobody has: the random bits of two ids.
pub(super) fn new_secret() -> Secret {
    use base64::Engine as _;
    let key = [*clock::new_id().as_bytes(), *clock::new_id().as_bytes()].concat();
    Secret::new(format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(key)))
}

/// The last 12 digits of a version 7 id are random: enough to name things apart.
pub(super) fn short(id: Uuid) -> String {
    let digits = id.simple().to_string();
    digits.chars().skip(digits.len().saturating_sub(12)).collect()
}

fn config_text(directory: &Path, database: &Path, addresses: Addresses, road: SocketAddr) -> String {
    let Addresses { public, admin } = addresses;
    let mut sources = all_sources();
    for name in secret_names() {
        let (before, after) = SECRET_REFERENCE;
        let file = secret_file(directory, &name);
        sources = sources
            .replace(&format!("{before}{name}{after}"), &toml_text(&format!("file:{}", file.display())));
    }
    let sources = sources.replace(ROAD, &road.to_string());
    let database = toml_text(&format!("sqlite://{}", database.display()));
    format!(
        "# Made by `hooklatch playground`: the orders example, and what the story needs besides.

[http]
listen = \"{public}\"

[admin]
listen = \"{admin}\"

[database]
url = {database}

[inbox]
# The story holds a transaction open for longer than anybody should.
handler_timeout = \"30s\"
deadline = \"40s\"

[relay]
# What a killed relay had on its way comes back when this ends: the story does not wait for long.
lease = \"1s\"
poll_every = \"100ms\"
{sources}"
    )
}

/// The example from its first source on, and the playground's own.
fn all_sources() -> String {
    let example = EXAMPLE.find(FIRST_SOURCE).map_or("", |at| &EXAMPLE[at..]);
    format!("{example}\n{OWN_SOURCES}")
}

/// The environment variables that sources and destinations read their secrets from.
fn secret_names() -> BTreeSet<String> {
    let (before, after) = SECRET_REFERENCE;
    let sources = all_sources();
    let references = sources.split(before).skip(1);
    references.filter_map(|rest| rest.split_once(after).map(|(name, _)| name.to_owned())).collect()
}

fn secret_file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{}.txt", name.to_ascii_lowercase()))
}

/// A TOML string, quoted.
fn toml_text(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn create_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700).create(path)
}

fn create_private_file(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path).map(drop)
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    create_private_file(path)?;
    fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_the_example_with_secrets_from_files() {
        let text = config_text(
            Path::new("/tmp/it's \"here\""),
            Path::new("/tmp/orders.db"),
            Addresses { public: ([127, 0, 0, 1], 1).into(), admin: ([127, 0, 0, 1], 2).into() },
            ([127, 0, 0, 1], 3).into(),
        );
        let config: toml::Table = text.parse().expect("TOML");
        let names: Vec<_> = config["source"]
            .as_array()
            .expect("sources")
            .iter()
            .map(|source| source["name"].as_str().expect("a name"))
            .collect();
        assert_eq!(names, ["shop", "crm", "warehouse", "pay", "playground", "packing"]);
        assert_eq!(config["destination"][0]["url"].as_str(), Some("http://127.0.0.1:3/hooks/packing"));
        assert!(!text.contains("env:"), "a secret is still read from the environment");
        assert_eq!(
            config["source"][0]["verify"]["secrets"][0].as_str(),
            Some("file:/tmp/it's \"here\"/shop_secret.txt")
        );
    }
}
