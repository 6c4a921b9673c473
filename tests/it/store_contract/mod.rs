//! What every store promises, as claims that are proved on each of them.
//!
//! A claim is a function over a fresh database; [`claims!`] makes a test of it for each store. On
//! PostgreSQL it needs `HOOKLATCH_TEST_POSTGRES_URL` and fails without: `scripts/test` sets it.

mod at_once;
mod concurrency;
mod dead_letters;
mod events;
mod fixture;
mod guards;
mod handlers;
mod idempotency_keys;
mod ledger;
mod order;
mod replies;
mod retention;
mod schema;

/// Makes each claim a test on each store, as in `store_contract::sqlite::equal_keys_insert_once`.
macro_rules! claims {
    ($($group:ident [$($claim:ident,)+])+) => {
        mod sqlite {
            claims!(@tests Sqlite $($($group $claim)+)+);
        }
        mod postgres {
            claims!(@tests Postgres $($($group $claim)+)+);
        }
    };
    (@tests $dialect:ident $($group:ident $claim:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $claim() {
                super::$group::$claim(hooklatch::store::Dialect::$dialect).await;
            }
        )+
    };
}

claims! {
    events [
        equal_keys_insert_once,
        one_id_in_two_consumers_is_two_events,
        ids_that_differ_only_in_case_or_length_are_two_events,
        every_column_comes_back,
        what_is_not_there_reads_as_none,
        a_row_ages_from_live_to_expired,
        only_rows_that_do_not_count_are_removed,
        a_removed_key_is_new_again_in_the_same_transaction,
        forgotten_rows_are_gone,
        a_revised_row_says_so,
        a_dropped_batch_leaves_nothing,
        the_database_is_asked_for_nothing_when_there_is_nothing,
        an_operator_sees_and_forgets_an_event,
        the_clock_is_the_databases,
    ]
    at_once [
        one_statement_applies_what_is_new_and_nothing_else,
        one_statement_of_which_an_event_fails_does_nothing,
        one_statement_waits_for_a_key_that_is_held_elsewhere,
        one_statement_leaves_out_what_fails_and_nothing_else,
        a_careful_statement_is_a_function_of_the_session_where_that_may_be,
        failures_of_one_statement_say_whether_they_pass,
        events_that_were_there_are_read_back_in_the_order_asked,
        rejected_events_are_kept_with_their_letters_unless_they_came_in_meanwhile,
    ]
    idempotency_keys [
        a_key_is_scoped_to_its_source,
        a_settled_key_replays_byte_for_byte,
        an_expired_key_is_not_live_and_only_it_is_removed,
        forgotten_keys_are_gone,
    ]
    guards [
        a_body_takes_effect_under_one_id,
        a_body_whose_event_failed_may_come_again_under_any_id,
        a_body_is_remembered_as_long_as_an_event,
        of_many_that_bring_one_body_at_once_one_takes_effect,
        whoever_waits_behind_a_body_that_fails_comes_again,
    ]
    order [
        an_entity_moves_forward_only,
        entities_of_two_consumers_are_apart,
    ]
    handlers [
        a_statement_serves_one_event_or_many,
        the_columns_of_event_are_what_was_sent,
        numbers_keep_their_digits,
        a_leading_with_is_merged,
        a_poison_event_takes_no_other_with_it,
        handlers_that_are_trusted_apply_all_or_say_that_one_failed,
        every_kind_of_bad_data_is_permanent,
        a_statement_that_does_not_fit_the_schema_is_transient,
        the_steps_of_an_event_are_undone_together,
        code_and_sql_are_undone_together,
        what_code_says_of_an_event_stands,
        a_deferred_constraint_never_commits,
        a_payload_that_the_database_refuses_takes_no_other_with_it,
        a_statement_that_runs_too_long_ends_the_batch,
        a_handler_is_checked_without_running,
    ]
    replies [
        a_statement_that_returns_event_ids_answers_them,
        the_last_answer_of_an_event_counts,
        rows_without_an_event_id_answer_nothing,
        an_answer_http_does_not_allow_fails_for_now,
        the_same_values_are_answers_on_every_store,
        accepted_answers_are_the_same_on_every_store,
    ]
    dead_letters [
        a_dead_letter_comes_back_byte_for_byte,
        a_second_failure_replaces_the_first_and_counts,
        dead_letters_are_found_and_paged,
        exhumed_and_discarded_letters_are_gone,
    ]
    retention [
        pruning_takes_what_is_old_in_batches,
        nothing_that_still_counts_is_pruned,
        every_table_can_be_pruned,
    ]
    ledger [
        a_line_comes_back_as_it_was_written,
        the_ledger_is_filtered,
        pages_lose_no_line,
        lines_written_twice_stand_once,
        an_event_that_is_repeated_without_end_is_read_page_by_page,
    ]
    concurrency [
        a_key_held_elsewhere_is_waited_for_and_seen,
        a_key_given_back_elsewhere_is_free,
        a_key_held_too_long_is_a_lock_timeout,
        of_many_that_find_a_row_expired_one_inserts,
        pruning_beside_inserts_doubles_nothing,
        rows_that_vanish_beside_inserts_are_inserted_anew,
        a_store_goes_on_after_a_cancelled_batch,
    ]
    schema [
        of_several_stores_that_migrate_at_once_one_does,
        a_newer_schema_is_refused,
        without_a_schema_the_error_says_so,
        a_closed_store_refuses_work,
    ]
}
