//! stub
#[derive(Debug, clap::Args)]
pub(super) struct Send {}
impl Send {
    pub(super) async fn run(self) -> Result<(), super::Failure> {
        Ok(())
    }
}
