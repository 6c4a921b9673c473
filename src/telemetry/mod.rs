//! What the process tells about itself: logs and metrics.
//!
//! Neither ever carries a body, a header value or a secret, and no label grows with the traffic.

pub mod consumer_metrics;
pub mod metric_name;
pub mod metrics;
pub mod outbox_metrics;
pub mod reload_metrics;
pub mod subscriber;
