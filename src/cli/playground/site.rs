//! Where the playground lives on disk: a directory of its own with the configuration, the secrets,
//! the log and, unless the user names another place, the database.
//!
//! The configuration is the orders example as it stands in `examples/orders/`, with other addresses,
//! secrets from files, and one unsigned source more. Knows nothing of processes or HTTP.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::Addresses;
use crate::clock;
use crate::secret::Secret;

/// The example whose sources the playground serves.
const EXAMPLE: &str = include_str!("../../../examples/orders/hooklatch.toml");
/// The unsigned source for `curl`, with the handler that is slow on purpose.
const OWN_SOURCE: &str = include_str!("playground.toml");
/// Where the sources begin in the example; above are addresses and database.
const FIRST_SOURCE: &str = "\n[[source]]";
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
}

impl Site {
    /// Makes the directory and its files. `id` names them apart from any other playground's.
    pub(super) fn create(id: Uuid, database: Option<&Path>) -> io::Result<Self> {
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
            write_private(&secret_file(&directory, name), secret.expose())?;
            if name == SHOP_SECRET {
                shop_secret = secret;
            }
        }
        Ok(Self { directory, database, shop_secret })
    }

    /// Writes the configuration for these addresses.
    pub(super) fn write_config(&self, addresses: Addresses) -> io::Result<()> {
        fs::write(self.config(), config_text(&self.directory, &self.database, addresses))
    }

    /// Writes a body to post by hand, and returns its path.
    pub(super) fn write_body(&self, name: &str, body: &str) -> io::Result<PathBuf> {
        let path = self.directory.join(name);
        fs::write(&path, body)?;
        Ok(path)
    }

    pub(super) fn config(&self) -> PathBuf {
        self.directory.join("hooklatch.toml")
    }

    /// What the receiver says.
    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("receiver.log")
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

fn config_text(directory: &Path, database: &Path, Addresses { public, admin }: Addresses) -> String {
    let mut sources = example_sources().to_owned();
    for name in secret_names() {
        let (before, after) = SECRET_REFERENCE;
        let file = secret_file(directory, name);
        sources = sources
            .replace(&format!("{before}{name}{after}"), &toml_text(&format!("file:{}", file.display())));
    }
    let database = toml_text(&format!("sqlite://{}", database.display()));
    format!(
        "# Made by `hooklatch playground`: the orders example, and one unsigned source more.

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
{sources}
{OWN_SOURCE}"
    )
}

/// The example from its first source on.
fn example_sources() -> &'static str {
    EXAMPLE.find(FIRST_SOURCE).map_or("", |at| &EXAMPLE[at..])
}

/// The environment variables that the example's sources read their secrets from.
fn secret_names() -> impl Iterator<Item = &'static str> {
    let (before, after) = SECRET_REFERENCE;
    example_sources()
        .split(before)
        .skip(1)
        .filter_map(move |rest| rest.split_once(after).map(|(name, _)| name))
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
        );
        let config: toml::Table = text.parse().expect("TOML");
        let names: Vec<_> = config["source"]
            .as_array()
            .expect("sources")
            .iter()
            .map(|source| source["name"].as_str().expect("a name"))
            .collect();
        assert_eq!(names, ["shop", "crm", "warehouse", "pay", "playground"]);
        assert!(!text.contains("env:"), "a secret is still read from the environment");
        assert_eq!(
            config["source"][0]["verify"]["secrets"][0].as_str(),
            Some("file:/tmp/it's \"here\"/shop_secret.txt")
        );
    }
}
