//! The lives of requests, one rule of the block layer a test, with times worked out by hand.

use iotrace_model::{Cause, Ledger, Op, Protocol, Request, Status};

use crate::assemble;

/// Q2I, I2D, Q2D, D2C, Q2C of a request.
fn latencies(request: &Request) -> [Option<i64>; 5] {
    [request.q2i(), request.i2d(), request.q2d(), request.d2c(), request.q2c()]
        .map(|latency| latency.map(|nanos| nanos.0))
}

#[test]
fn a_scheduled_request_has_every_stage() {
    let (requests, ledger) = assemble(
        "10 0 Q R 100+8 comm=fio pid=9
         12 0 G R 100+8
         15 0 I R 100+8
         25 1 D R 100+8
         95 1 C R 100+8",
    );
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(latencies(request), [Some(5), Some(10), Some(15), Some(70), Some(85)]);
    assert_eq!((request.status, request.pid), (Status::Complete, 9));
    assert_eq!(request.comm.as_bytes(), b"fio");
    assert_eq!((request.queued_at_queue, request.in_flight_at_issue), (Some(0), Some(0)));
    assert_eq!((request.overtook, request.overtaken, request.bios), (Some(0), Some(0), 1));
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn a_direct_issue_has_no_insert() {
    let (requests, _) = assemble("0 0 Q R 8+8\n1 0 G R 8+8\n4 0 D R 8+8\n9 0 C R 8+8");
    assert_eq!(latencies(&requests[0]), [None, None, Some(4), Some(5), Some(9)]);
}

#[test]
fn merged_bios_keep_their_own_queue_times() {
    let (requests, _) = assemble(
        "0 0 Q W 100+8
         1 0 G W 100+8
         2 0 Q W 108+8
         3 0 M W 108+8
         4 0 Q W 92+8
         5 0 F W 92+8
         6 0 I W 92+24
         7 0 D W 92+24
         9 0 C W 92+24",
    );
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.bios, request.back_merges, request.front_merges), (3, 1, 1));
    assert_eq!((request.sector.unwrap().0, request.length_bytes), (92, 24 * 512));
    let queues: Vec<_> = request.merged_bios.iter().map(|bio| bio.queue.0).collect();
    assert_eq!(queues, [0, 2, 4]);
    assert_eq!(latencies(request), [Some(6), Some(1), Some(7), Some(2), Some(9)]);
}

#[test]
fn a_request_merge_moves_the_bios_to_the_survivor() {
    let (requests, _) = assemble(
        "0 0 Q W 0+8\n1 0 G W 0+8\n2 0 I W 0+8
         3 0 Q W 16+8\n4 0 G W 16+8\n5 0 I W 16+8
         6 0 Q W 8+8\n7 0 M W 8+8
         8 0 RM W 16+8
         9 0 D W 0+24\n20 0 C W 0+24",
    );
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.bios, request.back_merges), (3, 2));
    assert_eq!(request.merged_bios.len(), 3);
}

#[test]
fn requests_joined_without_an_event_are_taken_in_at_issue() {
    let (requests, _) = assemble(
        "0 0 Q W 0+8\n1 0 G W 0+8\n2 0 I W 0+8
         3 0 Q W 8+8\n4 0 G W 8+8\n5 0 I W 8+8
         6 0 D W 0+16\n9 0 C W 0+16",
    );
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].bios, requests[0].status), (2, Status::Complete));
}

#[test]
fn after_a_requeue_the_last_issue_counts() {
    let (requests, _) = assemble(
        "0 0 Q R 8+8\n1 0 G R 8+8\n2 0 I R 8+8\n3 0 D R 8+8\n5 0 R R 8+8\n10 0 D R 8+8\n30 0 C R 8+8",
    );
    assert_eq!(latencies(&requests[0]), [Some(2), Some(8), Some(10), Some(20), Some(30)]);
    assert_eq!(requests[0].requeues, 1);
}

#[test]
fn a_requeue_before_any_issue_counts_too() {
    let (requests, _) =
        assemble("0 0 Q R 8+8\n1 0 G R 8+8\n2 0 I R 8+8\n3 0 R R 8+8\n5 0 D R 8+8\n9 0 C R 8+8");
    assert_eq!((requests[0].requeues, requests[0].status), (1, Status::Complete));
}

#[test]
fn parts_complete_one_after_the_other() {
    let (requests, _) =
        assemble("0 0 Q R 0+16\n1 0 G R 0+16\n2 0 D R 0+16\n5 0 C R 0+8\n9 0 C R 8+8");
    assert_eq!(requests.len(), 1);
    assert_eq!(latencies(&requests[0])[3], Some(7));
}

#[test]
fn an_error_ends_the_rest_of_a_request() {
    let (requests, _) =
        assemble("0 0 Q R 0+16\n1 0 G R 0+16\n2 0 D R 0+16\n5 0 C R 0+0\n9 0 C R 0+16 =-61");
    assert_eq!((requests.len(), requests[0].error), (1, Some(-61)));
    assert_eq!(latencies(&requests[0])[3], Some(7));
}

#[test]
fn the_pieces_of_a_split_share_the_queue_time() {
    let (requests, _) = assemble(
        "0 0 Q R 0+24
         1 0 X R 0+8 >8\n2 0 G R 0+8\n3 0 D R 0+8
         4 0 X R 8+8 >16\n5 0 G R 8+8\n6 0 D R 8+8
         7 0 G R 16+8\n8 0 D R 16+8
         10 0 C R 0+8\n11 0 C R 8+8\n12 0 C R 16+8",
    );
    let q2d: Vec<_> = requests.iter().map(|request| latencies(request)[2]).collect();
    assert_eq!(q2d, [Some(3), Some(6), Some(8)]);
    let splits: Vec<_> = requests.iter().map(|request| request.splits).collect();
    assert_eq!(splits, [2, 2, 2]);
    assert!(requests.iter().all(|request| request.length_bytes == 8 * 512));
}

#[test]
fn an_empty_flush_is_served_by_a_flush_of_its_own() {
    let (requests, ledger) = assemble("0 0 Q FWS\n1 0 G FWS\n3 0 D FF\n9 0 C FF\n10 0 C WS");
    let [internal, bio] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((internal.op, internal.bios, latencies(internal)[3]), (Op::Flush, 0, Some(6)));
    assert_eq!((bio.op, latencies(bio)), (Op::Flush, [None, None, None, None, Some(10)]));
    assert_eq!((internal.status, bio.status), (Status::Complete, Status::Complete));
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn the_tracepoint_of_a_completed_flush_bio_names_sector_0() {
    // As Linux 6.18 prints it: `FWS 0 + 0` queued, `WS () 0 + 0` complete.
    let (requests, ledger) =
        assemble("0 0 Q FWS\n1 0 G FWS\n3 0 D FF\n9 0 C FF\n10 0 C WS 0+0\n11 0 C WS 0+0");
    assert_eq!(latencies(&requests[1]), [None, None, None, None, Some(10)]);
    assert_eq!((requests.len(), ledger.count(Cause::Unfinished)), (2, 0));
    assert_eq!(ledger.count(Cause::Orphan), 1);
}

#[test]
fn the_empty_completion_after_a_fua_write_is_no_request() {
    let (requests, ledger) = assemble(
        "0 0 Q WFS 8+8\n1 0 G WFS 8+8\n2 0 D WS 8+8\n5 0 C WS 8+8\n6 0 D FF\n9 0 C FF\n10 0 C WS 8+0",
    );
    assert_eq!(requests.len(), 2);
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn a_passthrough_command_is_paired_by_order() {
    let (requests, _) = assemble("0 0 D N\n7 0 C N");
    assert_eq!((requests[0].status, latencies(&requests[0])[3]), (Status::Complete, Some(7)));
}

#[test]
fn overtaking_is_counted_on_both_sides() {
    let (requests, _) = assemble(
        "0 0 Q R 8+8\n0 0 G R 8+8\n1 0 D R 8+8
         2 0 Q R 80+8\n2 0 G R 80+8\n3 0 D R 80+8
         4 0 Q R 800+8\n4 0 G R 800+8\n5 0 D R 800+8
         6 0 C R 800+8\n7 0 C R 80+8\n8 0 C R 8+8",
    );
    let counts: Vec<_> = requests.iter().map(|r| (r.overtook, r.overtaken)).collect();
    assert_eq!(counts, [(Some(2), Some(0)), (Some(1), Some(1)), (Some(0), Some(2))]);
    let depths: Vec<_> = requests.iter().map(|r| r.in_flight_at_issue).collect();
    assert_eq!(depths, [Some(2), Some(1), Some(0)]);
    let seeks: Vec<_> = requests.iter().map(|r| r.seek_sectors).collect();
    assert_eq!(seeks, [Some(712), Some(64), None]);
}

#[test]
fn two_requests_on_one_sector_in_flight_are_ambiguous() {
    let (requests, ledger) = assemble(
        "0 0 Q W 8+8\n0 0 G W 8+8\n1 0 D W 8+8
         2 1 Q W 8+8\n2 1 G W 8+8\n3 1 D W 8+8
         9 0 C W 8+8\n10 0 C W 8+8",
    );
    for request in &requests {
        assert_eq!((request.status, request.d2c()), (Status::Ambiguous, None));
    }
    assert_eq!(ledger.count(Cause::AmbiguousPairing), 1);
}

#[test]
fn a_read_never_completes_a_write() {
    let (requests, ledger) = assemble("0 0 Q W 8+8\n0 0 G W 8+8\n1 0 D W 8+8\n9 0 C R 8+8");
    assert_eq!(requests[0].status, Status::StartedBefore);
    assert_eq!(requests[1].status, Status::Unfinished);
    assert_eq!(ledger.count(Cause::CompleteWithoutIssue), 1);
    assert_eq!(ledger.count(Cause::Unfinished), 1);
}

#[test]
fn a_capture_that_begins_in_the_middle_says_so() {
    let (requests, _) =
        assemble("0 0 C R 8+8\n1 0 D R 80+8\n2 0 Q R 160+8\n3 0 G R 160+8\n5 0 C R 80+8");
    assert_eq!((requests[0].status, requests[0].d2c()), (Status::StartedBefore, None));
    assert_eq!((requests[1].status, latencies(&requests[1])[3]), (Status::StartedBefore, Some(4)));
}

#[test]
fn what_was_open_in_a_gap_has_no_latency() {
    let (requests, ledger) = assemble(
        "0 0 Q R 8+8\n1 0 G R 8+8\n2 0 D R 8+8
         LOSS 0 3 6 4
         7 0 Q R 80+8\n7 0 G R 80+8\n8 0 D R 80+8\n9 0 C R 80+8
         10 0 C R 8+8",
    );
    assert_eq!((requests[0].status, latencies(&requests[0])[3]), (Status::Complete, Some(1)));
    assert_eq!((requests[1].status, requests[1].d2c()), (Status::Lost, None));
    assert_eq!(requests[1].issue.unwrap().time.0, 2);
    assert_eq!(requests[0].in_flight_at_issue, None);
    assert_eq!(ledger.lost(), 0, "the parser counts lost events, not the state machine");
}

#[test]
fn a_lost_completion_never_lends_its_issue_to_a_later_one() {
    // The completion of the first read and the issue of the second are lost.
    let (requests, _) = assemble(
        "0 0 Q R 8+8\n1 0 G R 8+8\n2 0 D R 8+8
         LOSS 0 3 900 2
         901 1 Q R 8+8\n902 1 G R 8+8\n903 1 D R 8+8\n990 1 C R 8+8
         1000 1 Q R 8+8\n1001 1 G R 8+8\n1002 1 D R 8+8\n1007 1 C R 8+8",
    );
    let found: Vec<_> = requests.iter().map(|r| (r.status, latencies(r)[3])).collect();
    let expected = [(Status::Lost, None), (Status::Lost, None), (Status::Complete, Some(5))];
    assert_eq!(found, expected);
}

#[test]
fn a_bio_of_a_stacked_device_is_the_parent_of_its_request() {
    let (requests, _) = assemble(
        "0 0 Q W 64+8 @253,0 pid=7 comm=app
         1 0 A W 2112+8 <-253,0:64 pid=50 comm=crypt
         2 0 Q W 2112+8 pid=50 comm=crypt
         3 0 G W 2112+8
         4 0 D W 2112+8
         8 0 C W 2112+8
         9 0 BC W 64+8 @253,0",
    );
    let [lower, upper] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((lower.parent, lower.pid), (Some(upper.request), 7));
    assert_eq!(lower.comm.as_bytes(), b"app");
    assert_eq!((upper.status, latencies(upper)[4]), (Status::Complete, Some(9)));
}

#[test]
fn a_driver_command_gives_tag_and_protocol() {
    let (requests, _) = assemble(
        "0 0 Q R 8+8\n1 0 G R 8+8\n2 0 D R 8+8\n3 0 CI R 8+8 tag=5 ncq\n8 0 CC R tag=5\n9 0 C R 8+8",
    );
    assert_eq!((requests[0].tag, requests[0].protocol), (Some(5), Some(Protocol::AtaNcq)));
}
