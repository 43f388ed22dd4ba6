//! Traces that never show some actions, as filters make them: what a device's trace never showed
//! cannot be demanded of its requests.

use iotrace_model::{Cause, Ledger, Status};

use crate::{NOTHING, assemble, check};

#[test]
fn issue_and_completion_make_a_request_where_no_bio_is_ever_shown() {
    check(
        "0 0 D R 8+8\n9 1 C R 8+8\n10 0 D W 80+8\n12 1 C W 80+8",
        &[(Status::Complete, [None, Some(9), None]), (Status::Complete, [None, Some(2), None])],
    );
}

#[test]
fn an_insert_alone_shows_no_bio() {
    let (requests, ledger) = assemble("0 0 I R 8+8\n4 0 D R 8+8\n9 1 C R 8+8");
    let request = &requests[0];
    assert_eq!((request.status, request.queue), (Status::Complete, None));
    assert_eq!((request.i2d().unwrap().0, request.d2c().unwrap().0), (4, 5));
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn once_queue_events_are_known_what_has_none_started_before() {
    check(
        "0 0 D R 8+8\n1 0 Q R 80+8\n2 0 G R 80+8\n3 0 D R 80+8\n8 0 C R 8+8\n9 0 C R 80+8
         20 0 D R 8+8\n25 0 C R 8+8",
        &[
            (Status::StartedBefore, [None, Some(8), None]),
            (Status::Complete, [Some(2), Some(6), Some(8)]),
            (Status::StartedBefore, [None, Some(5), None]),
        ],
    );
}

#[test]
fn get_events_show_that_a_queue_event_is_missing() {
    check(
        "0 0 G W 8+8\n1 0 I W 8+8\n2 0 D W 8+8\n9 0 C W 8+8",
        &[(Status::StartedBefore, [None, Some(7), None])],
    );
}

#[test]
fn each_device_is_judged_by_its_own_events() {
    check(
        "0 0 Q R 8+8\n1 0 G R 8+8\n2 0 D R 8+8\n3 0 C R 8+8
         4 0 D R 8+8 @8,16\n9 0 C R 8+8 @8,16",
        &[
            (Status::Complete, [Some(2), Some(1), Some(3)]),
            (Status::Complete, [None, Some(5), None]),
        ],
    );
}

#[test]
fn a_remap_is_the_arrival_where_queue_events_are_never_shown() {
    check(
        "0 0 A W 2056+8 <-8,1:8\n5 0 D W 2056+8\n9 0 C W 2056+8",
        &[(Status::Complete, [Some(5), Some(4), Some(9)])],
    );
}

#[test]
fn queue_and_completion_make_a_bio_where_no_request_is_ever_shown() {
    let (requests, ledger) = assemble(
        "0 0 Q RM 4232+8 @259,0\n3 0 C RM 4232+8 @259,0
         10 0 Q FWFS 3932264+8 @259,0\n12 0 C FWFS 3932264+8 @259,0
         20 0 Q FWS @259,0\n26 0 C FWS 0+0 @259,0",
    );
    let found: Vec<_> =
        requests.iter().map(|r| (r.status, r.d2c(), r.q2c().unwrap().0, r.op.name())).collect();
    let expected = [
        (Status::Complete, None, 3, "read"),
        (Status::Complete, None, 2, "write"),
        (Status::Complete, None, 6, "flush"),
    ];
    assert_eq!(found, expected);
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn a_bio_whose_request_completes_in_parts_ends_with_the_last() {
    check("0 0 Q R 0+16\n5 0 C R 0+8\n9 0 C R 8+8", &[(Status::Complete, [None, None, Some(9)])]);
}

#[test]
fn completions_alone_have_no_latency() {
    let (requests, ledger) = assemble("0 0 C W 8+8\n5 0 C W 8+8\n9 1 C W 80+8");
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|r| (r.status, r.d2c()) == (Status::StartedBefore, None)));
    assert_eq!(ledger.count(Cause::CompleteWithoutIssue), 3);
}

#[test]
fn a_command_issued_again_without_a_word_is_one_request() {
    // TRIM beside NCQ writes: the drive is busy, and the requeue is filtered away.
    check(
        "0 0 D DS 800+64 comm=kworker/0:1H\n20 3 D DS 800+64 comm=kworker/3:1H
         40 3 D DS 800+64 comm=kworker/3:1H\n100 3 C DS 800+64",
        &[(Status::Complete, [None, Some(60), None])],
    );
    check(
        "0 6 D W 99584712+32 comm=z_wr_int_1\n90 3 D W 99584712+32 comm=kworker/3:1H
         100 3 C W 99584712+32",
        &[(Status::Complete, [None, Some(10), None])],
    );
}

#[test]
fn two_readers_of_one_sector_stay_two_whoever_issues() {
    check(
        "0 0 D R 8+8 comm=kworker/0:1H\n10 0 D R 8+8 comm=kworker/0:1H
         30 0 C R 8+8\n45 0 C R 8+8",
        &[(Status::Ambiguous, NOTHING), (Status::Ambiguous, NOTHING)],
    );
}

#[test]
fn two_issues_of_different_length_are_two_requests() {
    check(
        "0 0 D DS 8+8\n10 0 D DS 8+16\n30 0 C DS 8+8\n45 0 C DS 8+16",
        &[(Status::Complete, [None, Some(30), None]), (Status::Complete, [None, Some(35), None])],
    );
}

#[test]
fn what_a_trace_never_showed_is_not_missed_after_a_loss_either() {
    check("LOSS 0 0 5 3\n7 0 D R 8+8\n9 0 C R 8+8", &[(Status::Complete, [None, Some(2), None])]);
}
