//! Where other tools go wrong: cases from public reports and from the block layer's corners, each
//! with times worked out by hand.

use iotrace_model::{Cause, Ledger, Op, Protocol, Status};
use iotrace_requests::Assembler;
use iotrace_testkit::trace;

use crate::{NOTHING, assemble, check};

#[test]
fn a_front_merge_moves_the_start() {
    let (requests, ledger) = assemble(
        "0 0 Q W 100+8\n1 0 G W 100+8\n2 0 Q W 92+8\n3 0 F W 92+8\n4 0 D W 92+16\n9 0 C W 92+16",
    );
    assert_eq!(requests[0].sector.unwrap().0, 92);
    assert_eq!(requests[0].get.unwrap().time.0, 1);
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn discards_that_do_not_touch_merge_into_one_command() {
    let (requests, ledger) = assemble(
        "0 0 Q D 0+8\n1 0 G D 0+8\n2 0 Q D 64+8\n3 0 M D 64+8\n4 0 D D 0+16\n9 0 C D 0+16",
    );
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.bios, request.back_merges, request.status), (2, 1, Status::Complete));
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn a_bio_that_joins_an_unseen_request_never_lends_its_queue_time() {
    let (requests, ledger) = assemble(
        "0 0 Q W 8+8\n1 0 M W 8+8
         100 0 Q W 8+8\n101 0 G W 8+8\n102 0 D W 8+8\n103 0 C W 8+8",
    );
    assert_eq!((requests[0].status, requests[0].queue.unwrap().time.0), (Status::Unfinished, 0));
    assert_eq!((requests[1].status, requests[1].q2d().unwrap().0), (Status::Complete, 2));
    assert_eq!((ledger.count(Cause::Orphan), ledger.count(Cause::Unfinished)), (1, 1));
}

#[test]
fn a_refused_bio_never_lends_its_queue_time_to_the_next_try() {
    check(
        "0 0 Q R 8+8 pid=5
         100 0 Q R 8+8 pid=5\n101 0 G R 8+8 pid=5\n102 0 D R 8+8 pid=5\n109 0 C R 8+8",
        &[(Status::Complete, [Some(2), Some(7), Some(9)]), (Status::Unfinished, NOTHING)],
    );
}

#[test]
fn two_threads_on_one_sector_each_get_their_own_request() {
    check(
        "0 0 Q R 8+8 pid=5\n1 1 Q R 8+8 pid=6
         2 1 G R 8+8 pid=6\n3 1 D R 8+8 pid=6\n9 1 C R 8+8
         12 0 G R 8+8 pid=5\n13 0 D R 8+8 pid=5\n20 0 C R 8+8",
        &[
            (Status::Complete, [Some(2), Some(6), Some(8)]),
            (Status::Complete, [Some(13), Some(7), Some(20)]),
        ],
    );
}

#[test]
fn a_throttled_bio_is_taken_up_by_another_thread() {
    check(
        "0 0 Q R 8+8 pid=5\n50 0 G R 8+8 pid=99\n51 0 D R 8+8 pid=99\n60 0 C R 8+8",
        &[(Status::Complete, [Some(51), Some(9), Some(60)])],
    );
}

#[test]
fn the_rest_of_a_request_is_issued_again_after_a_requeue() {
    let (requests, ledger) = assemble(
        "0 0 Q R 0+16\n1 0 G R 0+16\n2 0 D R 0+16\n5 0 C R 0+8
         6 0 R R 8+8\n7 0 D R 8+8\n9 0 C R 8+8",
    );
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.requeues, request.length_bytes), (1, 16 * 512));
    assert_eq!((request.sector.unwrap().0, request.d2c().unwrap().0), (0, 2));
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn an_error_in_the_middle_does_not_end_a_request() {
    let (requests, _) = assemble(
        "0 0 Q R 0+24\n1 0 G R 0+24\n2 0 D R 0+24
         3 0 C R 0+8\n4 0 C R 8+8 =-61\n5 0 R R 16+8\n6 0 D R 16+8\n9 0 C R 16+8",
    );
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.error, request.complete.unwrap().time.0), (Some(-61), 9));
}

#[test]
fn a_request_that_is_inserted_only_after_it_was_handed_back_has_no_negative_stage() {
    let (requests, _) = assemble("0 0 Q R 8+8\n1 0 G R 8+8\n2 0 D R 8+8\n3 0 R R 8+8\n4 0 I R 8+8");
    let request = &requests[0];
    assert_eq!((request.status, request.i2d()), (Status::Unfinished, None));
    assert_eq!(request.issue.unwrap().time.0, 2);
}

#[test]
fn a_request_issued_again_without_a_requeue_counts_from_its_last_issue() {
    let (requests, _) = assemble("0 0 Q D 8+8\n1 0 G D 8+8\n2 0 D D 8+8\n5 0 D D 8+8\n9 0 C D 8+8");
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.requeues, request.d2c().unwrap().0), (0, 4));
}

#[test]
fn two_issues_of_a_source_without_queue_events_are_two_requests() {
    check(
        "0 0 D W 8+8 pid=1\n10 0 D W 8+8 pid=2\n30 0 C W 8+8\n45 0 C W 8+8",
        &[(Status::Ambiguous, NOTHING), (Status::Ambiguous, NOTHING)],
    );
}

#[test]
fn twins_of_different_length_are_told_apart() {
    check(
        "0 0 Q R 8+8\n0 0 G R 8+8\n1 0 D R 8+8
         2 0 Q R 8+16\n2 0 G R 8+16\n3 0 D R 8+16
         9 0 C R 8+16\n10 0 C R 8+8",
        &[
            (Status::Complete, [Some(1), Some(6), Some(7)]),
            (Status::Complete, [Some(1), Some(9), Some(10)]),
        ],
    );
}

#[test]
fn passthrough_twins_are_ambiguous() {
    check(
        "0 0 D N\n1 0 D N\n7 0 C N\n8 0 C N",
        &[(Status::Ambiguous, NOTHING), (Status::Ambiguous, NOTHING)],
    );
}

#[test]
fn a_passthrough_command_does_not_end_a_flush_bio() {
    check(
        "0 0 Q FWS\n1 0 G FWS\n2 0 D N\n3 0 C N\n4 0 D FF\n8 0 C FF\n9 0 C WS",
        &[
            (Status::Complete, [None, Some(1), None]),
            (Status::Complete, [None, Some(4), None]),
            (Status::Complete, [None, None, Some(9)]),
        ],
    );
}

#[test]
fn one_flush_of_the_drive_serves_several_bios() {
    check(
        "0 0 Q FWS\n1 0 G FWS\n2 1 Q FWS\n3 1 G FWS\n4 0 D FF\n9 0 C FF\n10 0 C WS\n11 0 C WS",
        &[
            (Status::Complete, [None, Some(5), None]),
            (Status::Complete, [None, None, Some(10)]),
            (Status::Complete, [None, None, Some(9)]),
        ],
    );
}

#[test]
fn a_flush_handed_back_is_the_same_request() {
    let (requests, ledger) = assemble("0 0 D FF\n1 0 R FF\n2 0 D FF\n9 0 C FF");
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.requeues, request.d2c().unwrap().0), (1, 7));
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn a_preflush_with_data_is_one_write() {
    let (requests, ledger) = assemble(
        "0 0 Q FWFS 800+8\n1 0 G FWFS 800+8\n2 0 D FF\n4 0 C FF
         5 0 D WS 800+8\n7 0 C WS 800+8\n8 0 D FF\n9 0 C FF\n10 0 C WS 800+0",
    );
    let ops: Vec<_> = requests.iter().map(|request| (request.op, request.bios)).collect();
    assert_eq!(ops, [(Op::Flush, 0), (Op::Write, 1), (Op::Flush, 0)]);
    assert_eq!(requests[1].q2c().unwrap().0, 7);
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn an_empty_completion_of_nothing_is_an_orphan() {
    let (requests, ledger) = assemble("0 0 C WS 40+0\n1 0 C FF");
    assert_eq!((requests.len(), ledger.count(Cause::Orphan)), (0, 2));
}

#[test]
fn a_zone_append_completes_where_the_drive_put_it() {
    let mut items = trace("0 0 Q W 0+8\n1 0 G W 0+8\n2 0 D W 0+8\n9 0 C W 64+8");
    for item in &mut items {
        if let iotrace_model::Item::Event(event) = item {
            event.op = Op::ZoneAppend;
        }
    }
    let (mut assembler, mut requests) = (Assembler::new(), Vec::new());
    for item in &items {
        assembler.push(item, &mut requests);
    }
    assert_eq!((requests[0].status, requests[0].d2c().unwrap().0), (Status::Complete, 7));
}

#[test]
fn the_last_part_of_a_lost_request_is_not_that_of_the_next() {
    let (requests, _) = assemble(
        "LOSS 0 0 5 3\n10 0 C W 0+8\n11 0 Q W 0+16\n12 0 G W 0+16\n13 0 D W 0+16
         14 0 C W 8+8\n90 0 C W 0+8\n95 0 C W 8+8",
    );
    assert!(requests.iter().all(|request| request.d2c().is_none()), "{requests:?}");
}

#[test]
fn a_completion_after_a_loss_is_lost_and_not_from_before() {
    let (requests, ledger) = assemble("LOSS 0 0 5 3\n9 0 C R 8+8");
    assert_eq!((requests[0].status, requests[0].complete.unwrap().time.0), (Status::Lost, 9));
    assert_eq!(ledger.count(Cause::CompleteWithoutIssue), 0);
}

#[test]
fn what_begins_after_a_gap_is_clean_again() {
    check(
        "LOSS 0 0 5 3\n6 0 Q R 8+8\n7 0 G R 8+8\n8 0 D R 8+8\n9 0 C R 8+8",
        &[(Status::Complete, [Some(2), Some(1), Some(3)])],
    );
}

#[test]
fn a_request_whose_queue_event_was_lost_keeps_its_completion_latency() {
    check(
        "LOSS 0 0 5 3\n7 0 G R 8+8\n8 0 D R 8+8\n9 0 C R 8+8",
        &[(Status::Lost, [None, Some(1), None])],
    );
}

#[test]
fn a_lost_flush_completion_does_not_shift_the_ones_after_it() {
    // The end of the first flush bio is lost; all later ones until time-out are in doubt.
    check(
        "0 0 Q FWS\n1 0 G FWS
         LOSS 0 2 20 1
         30 0 Q FWS\n31 0 G FWS\n40 0 C WS
         50 0 Q FWS\n51 0 G FWS\n60 0 C WS
         40000000000 0 Q FWS\n40000000001 0 G FWS\n40000000009 0 C WS",
        &[
            (Status::Lost, NOTHING),
            (Status::Lost, NOTHING),
            (Status::Lost, NOTHING),
            (Status::Complete, [None, None, Some(9)]),
        ],
    );
}

#[test]
fn a_record_in_doubt_is_given_up_after_the_command_timeout() {
    let (requests, _) = assemble(
        "0 0 Q R 8+8\n1 0 G R 8+8\n2 0 D R 8+8
         LOSS 0 3 6 4
         7 0 Q R 80+8\n8 0 G R 80+8\n9 0 D R 80+8\n10 0 C R 80+8
         30000000007 0 Q R 80+8\n30000000008 0 G R 80+8\n30000000009 0 D R 80+8",
    );
    let depths: Vec<_> = requests.iter().map(|r| (r.status, r.in_flight_at_issue)).collect();
    let expected =
        [(Status::Complete, None), (Status::Lost, Some(0)), (Status::Unfinished, Some(0))];
    assert_eq!(depths, expected);
}

#[test]
fn a_bio_split_by_a_stacked_device_completes_with_its_last_piece() {
    let (requests, ledger) = assemble(
        "0 0 Q W 992+16 @253,0
         1 0 A W 2000+8 <-253,0:992\n1 0 Q W 2000+8\n2 0 G W 2000+8\n3 0 D W 2000+8
         4 0 X W 1000+0 >1000 @253,0
         5 0 A W 3000+8 <-253,0:1000\n5 0 Q W 3000+8\n6 0 G W 3000+8\n7 0 D W 3000+8
         8 0 C W 2000+8\n9 0 C W 3000+8\n10 0 BC W 1000+8 @253,0",
    );
    let [first, second, bio] = requests.as_slice() else { panic!("{requests:?}") };
    let expected = Some(bio.request);
    assert_eq!((first.parent, second.parent), (expected, expected));
    assert_eq!((bio.splits, bio.q2c().unwrap().0, bio.length_bytes), (1, 10, 16 * 512));
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn a_bio_cut_by_a_device_without_requests_ends_as_one() {
    let (requests, _) = assemble(
        "0 0 Q W 0+24 @9,0\n1 0 X W 0+8 >8 @9,0\n2 0 X W 8+8 >16 @9,0\n9 0 BC W 0+24 @9,0",
    );
    let [bio] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((bio.status, bio.splits, bio.q2c().unwrap().0), (Status::Complete, 2, 9));
    assert_eq!((bio.sector.unwrap().0, bio.length_bytes), (0, 24 * 512));
}

#[test]
fn a_remap_stands_for_the_queue_event_that_md_does_not_log() {
    let (requests, _) = assemble(
        "0 0 Q W 0+16 @9,0
         2 0 A W 0+8 <-9,0:0\n3 0 A W 0+8 <-9,0:8 @8,16
         4 0 G W 0+8\n5 0 D W 0+8\n6 0 G W 0+8 @8,16\n7 0 D W 0+8 @8,16
         8 0 C W 0+8\n9 0 C W 0+8 @8,16\n10 0 BC W 0+16 @9,0",
    );
    let [left, right, bio] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((left.parent, right.parent), (Some(bio.request), Some(bio.request)));
    assert_eq!((left.q2c().unwrap().0, right.q2c().unwrap().0), (6, 6));
}

#[test]
fn a_partition_is_no_parent_but_passes_one_on() {
    let (requests, _) = assemble(
        "0 0 A R 2056+8 <-8,1:8\n1 0 Q R 2056+8
         2 0 Q R 64+8 @253,0 comm=app
         3 0 A R 72+8 <-253,0:64 @8,1\n4 0 A R 2120+8 <-8,1:72\n5 0 Q R 2120+8 comm=worker",
    );
    let parents: Vec<_> = requests.iter().map(|request| request.parent).collect();
    assert_eq!(parents, [None, None, Some(1)]);
    assert_eq!(requests[2].comm.as_bytes(), b"app");
}

#[test]
fn a_flush_through_a_stacked_device_has_a_parent() {
    let (requests, ledger) = assemble(
        "0 0 Q FWS @253,0\n1 0 A FWS <-253,0:0\n2 0 Q FWS\n3 0 G FWS\n4 0 D FF\n8 0 C FF
         9 0 C WS\n10 0 BC FWS @253,0",
    );
    let [_, lower, upper] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((lower.parent, lower.q2c().unwrap().0), (Some(upper.request), 7));
    assert_eq!((upper.status, upper.q2c().unwrap().0), (Status::Complete, 10));
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn a_command_goes_to_the_request_of_its_length_and_a_flush_to_the_flush() {
    let (requests, _) = assemble(
        "0 0 Q R 8+8\n0 0 G R 8+8\n1 0 D R 8+8\n2 0 Q R 8+16\n2 0 G R 8+16\n3 0 D R 8+16
         4 0 D FF\n5 0 CI R 8+8 tag=1 ncq\n6 0 CI F tag=2 nodata\n7 0 CI R 8+16 tag=3 ncq
         8 0 C R 8+8\n9 0 C R 8+16\n10 0 C FF",
    );
    let tags: Vec<_> = requests.iter().map(|request| (request.tag, request.protocol)).collect();
    let expected = [
        (Some(1), Some(Protocol::AtaNcq)),
        (Some(3), Some(Protocol::AtaNcq)),
        (Some(2), Some(Protocol::AtaNoData)),
    ];
    assert_eq!(tags, expected);
}

#[test]
fn queue_depth_counts_a_merged_bio_as_part_of_its_request() {
    let (requests, _) = assemble(
        "0 0 Q W 0+8\n1 0 G W 0+8\n2 0 Q W 8+8\n3 0 M W 8+8
         4 0 Q W 80+8\n5 0 G W 80+8\n6 0 Q W 160+8\n7 0 G W 160+8",
    );
    let depths: Vec<_> = requests.iter().map(|request| request.queued_at_queue).collect();
    assert_eq!(depths, [Some(0), Some(1), Some(2)]);
    let numbers: Vec<_> = requests.iter().map(|request| request.request).collect();
    assert_eq!(numbers, [0, 2, 3], "the number of the merged bio is not used again");
}

#[test]
fn device_zero_is_a_device() {
    check("0 0 D N @0,0\n4 0 C N @0,0", &[(Status::Complete, [None, Some(4), None])]);
}

#[test]
fn what_begins_with_the_first_event_after_a_gap_is_still_in_doubt() {
    check(
        "LOSS 0 0 5 3\n5 0 Q R 8+8\n6 0 G R 8+8\n7 0 D R 8+8\n9 0 C R 8+8",
        &[(Status::Lost, NOTHING)],
    );
}

#[test]
fn overtaking_is_not_counted_while_a_record_is_in_doubt() {
    let (requests, _) = assemble(
        "0 0 Q R 8+8\n1 0 G R 8+8\n2 0 D R 8+8
         LOSS 0 3 6 4
         7 0 Q R 80+8\n8 0 G R 80+8\n9 0 D R 80+8\n10 0 C R 80+8\n11 0 C R 8+8
         12 0 Q R 80+8\n13 0 G R 80+8\n14 0 D R 80+8\n15 0 C R 80+8",
    );
    let counts: Vec<_> = requests.iter().map(|r| (r.status, r.overtook, r.overtaken)).collect();
    let expected = [
        (Status::Complete, None, Some(0)),
        (Status::Lost, None, None),
        (Status::Complete, Some(0), Some(0)),
    ];
    assert_eq!(counts, expected);
}

#[test]
fn a_request_issued_again_is_in_flight_once() {
    let (requests, _) = assemble(
        "0 0 Q D 8+8\n1 0 G D 8+8\n2 0 D D 8+8\n3 0 D D 8+8
         4 0 Q R 80+8\n5 0 G R 80+8\n6 0 D R 80+8\n7 0 C R 80+8\n8 0 C D 8+8",
    );
    let depths: Vec<_> = requests.iter().map(|r| (r.in_flight_at_issue, r.overtook)).collect();
    assert_eq!(depths, [(Some(1), Some(1)), (Some(0), Some(0))]);
}

#[test]
fn which_of_two_waiting_twins_was_issued_is_a_guess() {
    let (requests, _) = assemble(
        "0 0 Q W 8+8 pid=5\n1 0 G W 8+8 pid=5\n2 1 Q W 8+8 pid=6\n3 1 G W 8+8 pid=6
         4 0 D W 8+8\n5 0 C W 8+8\n6 0 D W 8+8\n7 0 C W 8+8",
    );
    let queues: Vec<_> = requests.iter().map(|r| (r.status, r.queue.unwrap().time.0)).collect();
    assert_eq!(queues, [(Status::Ambiguous, 0), (Status::Ambiguous, 2)]);
    assert!(requests.iter().all(|r| r.issue.is_none() && r.complete.is_none()));
}
