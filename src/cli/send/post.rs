//! Posts deliveries, several at a time, and shows how they were answered.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Client;

use crate::cli::{Failure, table};
use crate::clock::Clock;

use super::recipe::{Recipe, Request};

/// How long an answer may take: longer than any receiver's deadline.
const PATIENCE: Duration = Duration::from_secs(60);
const BAR: &str = "{bar:40} {human_pos}/{human_len} deliveries {per_sec} {eta}";
/// Rows shown one by one; beyond, the summary has to do.
const ROWS: usize = 20;

/// How a delivery was answered.
pub(super) struct Answer {
    number: u32,
    took: Duration,
    /// Status and outcome, or why there is none.
    result: Result<(u16, String), String>,
}

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        self.result.as_ref().is_ok_and(|(status, _)| (200..300).contains(status))
    }

    /// Where to look when this is what came back.
    pub(super) fn way_out(&self) -> &'static str {
        match &self.result {
            Err(_) => "is hooklatch running there? --url, or http.listen of the configuration, says where",
            Ok((_, outcome)) => match outcome.as_str() {
                "unverified" | "malformed" | "mismatch" => "`hooklatch events refused` says why",
                "rejected" => "`hooklatch events show EVENT_ID` says why",
                "unavailable" | "conflict" => "the log of hooklatch says why; a sender would come again",
                _ => "that was not answered by a hooklatch; is the address right?",
            },
        }
    }
}

/// Sends `repeat` deliveries, `concurrency` at a time; answers in the order of their numbers.
pub(super) async fn all(
    recipe: &Recipe,
    body: &[u8],
    repeat: u32,
    concurrency: usize,
) -> Result<Vec<Answer>, Failure> {
    let client = client(concurrency)?;
    // Hidden where standard error is no terminal.
    let bar = ProgressBar::new(u64::from(repeat));
    if let Ok(style) = ProgressStyle::with_template(BAR) {
        bar.set_style(style);
    }
    let clock = Clock::system();
    let mut answers: Vec<_> = stream::iter(1..=repeat)
        .map(|number| {
            let (client, clock, bar) = (&client, &clock, &bar);
            async move {
                let request = recipe.make(number, body, clock.now())?;
                let answer = one(client, number, request).await;
                bar.inc(1);
                Ok::<_, Failure>(answer)
            }
        })
        .buffer_unordered(concurrency)
        .try_collect()
        .await?;
    bar.finish_and_clear();
    answers.sort_by_key(|answer: &Answer| answer.number);
    Ok(answers)
}

fn client(connections: usize) -> Result<Client, Failure> {
    // Fails only when there is one already, which serves as well.
    let _present = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .timeout(PATIENCE)
        .pool_max_idle_per_host(connections)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("hooklatch/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| Failure::because("cannot make an HTTP client", &error))
}

async fn one(client: &Client, number: u32, request: Request) -> Answer {
    let started = Instant::now();
    let mut post = client.post(request.url).body(request.body);
    for (name, value) in request.headers {
        post = post.header(name, value);
    }
    let result = match post.send().await {
        Ok(response) => {
            let outcome = response.headers().get("hooklatch-outcome");
            let outcome = outcome.and_then(|value| value.to_str().ok()).unwrap_or("–").to_owned();
            let status = response.status().as_u16();
            // The answer has come when its body has.
            response.bytes().await.map(|_| (status, outcome))
        }
        Err(error) => Err(error),
    };
    let result = result.map_err(|error| super::super::failure::causes(&error).replace('\n', " "));
    Answer { number, took: started.elapsed(), result }
}

pub(super) fn print(answers: &[Answer]) {
    if answers.len() <= ROWS {
        let mut rows = table::new(["delivery", "status", "outcome", "took"]);
        for answer in answers {
            let (status, outcome) = match &answer.result {
                Ok((status, outcome)) => (status.to_string(), outcome.clone()),
                Err(error) => ("–".to_owned(), table::paragraph(error)),
            };
            rows.add_row([answer.number.to_string(), status, outcome, table::millis(answer.took)]);
        }
        say!("{rows}");
    }
    let mut groups: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for answer in answers {
        let group = match &answer.result {
            Ok((status, outcome)) => format!("{status} {outcome}"),
            Err(error) => error.clone(),
        };
        groups.entry(group).or_default().push(answer.took);
    }
    if answers.len() > 1 {
        let mut rows = table::new(["answer", "deliveries", "median", "slowest"]);
        for (group, mut times) in groups {
            times.sort();
            let median = times.get(times.len() / 2).copied().unwrap_or_default();
            let slowest = times.last().copied().unwrap_or_default();
            rows.add_row([
                table::paragraph(&group),
                times.len().to_string(),
                table::millis(median),
                table::millis(slowest),
            ]);
        }
        say!("{rows}");
    }
}
