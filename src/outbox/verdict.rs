//! What becomes of a message after an attempt. Pure.

use std::time::Duration;

use super::destination::{Meaning, OnPoison, Policy};
use crate::store::outbox::{Message, MessageFate};

/// Decides. `fraction` is the jitter, drawn from 0 to 1; `took`: how long ago the message's age was
/// told.
#[must_use]
pub fn fate(
    policy: &Policy,
    message: &Message,
    meaning: Meaning,
    took: Duration,
    fraction: f64,
) -> MessageFate {
    let retry_after = match meaning {
        Meaning::Accepted => return MessageFate::Sent,
        Meaning::Refused => return given_up(policy, message),
        Meaning::Failed { retry_after } | Meaning::Throttled { retry_after } => retry_after,
        // It is not the message's fault, and nothing is tried until somebody resumes the destination.
        Meaning::Gone => return MessageFate::Retry(Duration::ZERO),
    };
    if message.attempts >= policy.max_attempts || message.age.saturating_add(took) >= policy.max_age {
        return given_up(policy, message);
    }
    let pause = policy.backoff.pause(message.attempts, fraction);
    MessageFate::Retry(pause.max(retry_after.unwrap_or_default()))
}

/// Nothing waits for a message without an aggregate.
fn given_up(policy: &Policy, message: &Message) -> MessageFate {
    match policy.on_poison {
        OnPoison::Block if message.aggregate_id.is_some() => MessageFate::Blocking,
        OnPoison::Block | OnPoison::DeadLetter => MessageFate::Dead,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::outbox::backoff::Backoff;
    use crate::outbox::breaker::BreakerRule;

    const SECOND: Duration = Duration::from_secs(1);

    fn policy() -> Policy {
        Policy {
            concurrency: 1,
            rate_per_second: None,
            max_attempts: 3,
            max_age: 100 * SECOND,
            backoff: Backoff { first: SECOND, longest: 10 * SECOND },
            breaker: BreakerRule { failures: 1, pause: SECOND, longest: SECOND },
            on_poison: OnPoison::Block,
        }
    }

    fn message(attempts: u32, age: Duration, aggregate_id: Option<&str>) -> Message {
        Message {
            id: uuid::Uuid::nil(),
            aggregate_id: aggregate_id.map(str::to_owned),
            event_type: String::new(),
            content_type: String::new(),
            headers: Vec::new(),
            payload: Bytes::new(),
            traceparent: None,
            hops: 0,
            attempts,
            age,
        }
    }

    const FAILED: Meaning = Meaning::Failed { retry_after: None };

    #[test]
    fn a_failure_is_tried_again_after_the_longer_of_backoff_and_retry_after() {
        let policy = policy();
        let decide = |meaning| fate(&policy, &message(2, SECOND, None), meaning, SECOND, 0.5);
        assert_eq!(decide(FAILED), MessageFate::Retry(SECOND));
        let told = |seconds| Meaning::Throttled { retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(decide(told(0)), MessageFate::Retry(SECOND));
        assert_eq!(decide(told(60)), MessageFate::Retry(60 * SECOND));
        assert_eq!(decide(Meaning::Accepted), MessageFate::Sent);
    }

    #[test]
    fn too_many_attempts_or_too_old_or_refused_is_given_up() {
        let policy = policy();
        assert_eq!(fate(&policy, &message(3, SECOND, None), FAILED, SECOND, 0.5), MessageFate::Dead);
        assert_eq!(fate(&policy, &message(1, 99 * SECOND, None), FAILED, SECOND, 0.5), MessageFate::Dead);
        let refused = fate(&policy, &message(1, SECOND, None), Meaning::Refused, SECOND, 0.5);
        assert_eq!(refused, MessageFate::Dead);
    }

    #[test]
    fn poison_blocks_its_aggregate_only_where_that_is_wanted() {
        let block = policy();
        let go_on = Policy { on_poison: OnPoison::DeadLetter, ..block };
        let poison = message(1, SECOND, Some("order-1"));
        let decide = |policy| fate(policy, &poison, Meaning::Refused, SECOND, 0.5);
        assert_eq!(decide(&block), MessageFate::Blocking);
        assert_eq!(decide(&go_on), MessageFate::Dead);
    }

    #[test]
    fn a_destination_that_is_gone_costs_no_message_its_life() {
        let old = message(1000, 1000 * SECOND, None);
        assert_eq!(fate(&policy(), &old, Meaning::Gone, SECOND, 0.5), MessageFate::Retry(Duration::ZERO));
    }
}
