//! Streams as blktrace and blkparse give them: one letter for a request and its bio, places that
//! mean nothing, and the habits of old kernels.

use iotrace_model::{Cause, Ledger, Op, Status};
use iotrace_requests::Assembler;
use iotrace_testkit::trace;

use crate::assemble;

/// Checks the rows, and that no event is left over.
#[track_caller]
fn check(text: &str, expected: &[(Status, [Option<i64>; 3])]) {
    assert_eq!(crate::check(text, expected), Ledger::default(), "{text}");
}

#[test]
fn one_letter_for_both_merges_is_told_by_what_waits() {
    let (requests, ledger) = assemble(
        "0 0 Q W 16000+8\n1 0 G W 16000+8\n2 0 Q W 16016+8\n3 0 G W 16016+8
         4 0 Q W 16008+8\n5 0 F W 16008+8\n6 0 I W 16000+8\n7 0 M W 16008+16
         8 0 D W 16000+24\n20 1 C W 16000+24",
    );
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.bios, request.back_merges, request.front_merges), (3, 1, 1));
    assert_eq!((request.status, request.q2c().unwrap().0), (Status::Complete, 20));
    assert_eq!(request.merged_bios.iter().map(|bio| bio.queue.0).collect::<Vec<_>>(), [0, 2, 4]);
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn a_bio_that_merges_is_not_taken_for_a_request_at_its_place() {
    let (requests, _) = assemble(
        "0 0 Q W 0+8\n1 0 G W 0+8\n2 0 I W 0+8\n3 1 Q W 8+16\n4 1 G W 8+16\n5 1 I W 8+16
         6 0 Q W 8+8\n7 0 M W 8+8\n8 0 D W 0+16\n9 0 C W 0+16",
    );
    assert_eq!((requests[0].bios, requests[0].back_merges), (2, 1));
    assert_eq!(requests[1].status, Status::Unfinished);
}

#[test]
fn the_rest_of_a_split_bio_may_be_queued_once_more() {
    check(
        "0 0 Q R 0+24
         1 0 X R 0+24 >8\n2 0 Q R 8+16\n3 0 G R 0+8\n4 0 D R 0+8
         5 0 X R 8+16 >16\n6 0 Q R 16+8\n7 0 G R 8+8\n8 0 D R 8+8
         9 0 G R 16+8\n10 0 D R 16+8
         20 0 C R 0+8\n21 0 C R 8+8\n22 0 C R 16+8",
        &[
            (Status::Complete, [Some(4), Some(16), Some(20)]),
            (Status::Complete, [Some(8), Some(13), Some(21)]),
            (Status::Complete, [Some(10), Some(12), Some(22)]),
        ],
    );
}

#[test]
fn a_split_without_its_place_is_seen_at_the_get_events() {
    // Linux 5.11 names 0 as the start of every rest; the completions of the chain add up.
    let (requests, ledger) = assemble(
        "0 0 Q DS 0+12\n1 0 X DS 0+0 >0\n2 0 G DS 0+4\n3 0 X DS 4+0 >0\n4 0 G DS 4+4\n5 0 G DS 8+4
         6 0 I DS 0+4\n7 0 I DS 4+4\n8 0 I DS 8+4\n10 0 D DS 0+4\n11 0 D DS 4+4\n12 0 D DS 8+4
         20 0 C DS 0+4\n22 0 C DS 0+8\n25 0 C DS 0+12",
    );
    let found: Vec<_> = requests
        .iter()
        .map(|r| (r.status, r.d2c().unwrap().0, r.sector.unwrap().0, r.length_bytes / 512))
        .collect();
    let expected =
        [(Status::Complete, 10, 0, 4), (Status::Complete, 11, 4, 4), (Status::Complete, 13, 8, 4)];
    assert_eq!(found, expected);
    assert!(requests.iter().all(|r| (r.splits, r.queue.unwrap().time.0) == (2, 0)));
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn a_chain_of_bios_completes_by_its_end() {
    let (requests, _) = assemble(
        "0 1 Q WS 0+2048\n1 1 X WS 0+0 >255\n2 1 G WS 0+255\n3 1 I WS 0+255
         4 1 X WS 255+0 >510\n5 1 G WS 255+255\n6 1 I WS 255+255
         7 1 X WS 510+0 >765\n8 1 G WS 510+255\n9 1 I WS 510+255
         20 3 D WS 510+255\n22 3 C WS 0+765 =-5\n900 3 D WS 0+255\n950 3 C WS 0+255",
    );
    let failed = &requests[0];
    assert_eq!((failed.sector.unwrap().0, failed.length_bytes), (510, 255 * 512));
    assert_eq!((failed.error, failed.d2c().unwrap().0), (Some(-5), 2));
    let good = &requests[1];
    assert_eq!((good.sector.unwrap().0, good.d2c().unwrap().0), (0, 50));
    assert_eq!((good.error, good.status), (Some(0), Status::Complete));
}

#[test]
fn a_chain_is_closed_by_its_end_even_where_its_start_is_in_flight() {
    let (requests, _) = assemble("0 0 D DS 0+4\n1 0 D DS 4+4\n10 0 C DS 0+8\n12 0 C DS 0+4");
    let found: Vec<_> =
        requests.iter().map(|r| (r.sector.unwrap().0, r.d2c().unwrap().0)).collect();
    assert_eq!(found, [(4, 9), (0, 12)]);
}

#[test]
fn bios_reported_after_their_request_are_orphans() {
    let (requests, ledger) = assemble(
        "0 0 Q WS 0+8\n1 0 B WS 0+8\n2 0 G WS 0+8\n3 0 Q WS 8+8\n4 0 B WS 8+8\n5 0 M WS 8+8
         6 0 Q WS 16+8\n7 0 M WS 16+8\n8 0 I WS 0+24\n9 0 D WS 0+24
         44 0 C WS 0+24\n50 0 C WS 0+8\n51 0 C WS 8+8\n52 0 C WS 16+8",
    );
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.bios, request.d2c().unwrap().0), (3, 35));
    assert_eq!(ledger.count(Cause::Orphan), 3);
    assert_eq!(ledger.count(Cause::CompleteWithoutIssue), 0);
}

#[test]
fn a_completion_elsewhere_is_still_one_from_before() {
    let (requests, ledger) =
        assemble("0 0 Q R 8+8\n1 0 G R 8+8\n2 0 D R 8+8\n3 0 C R 8+8\n4 0 C R 16+8");
    assert_eq!(requests[1].status, Status::StartedBefore);
    assert_eq!(ledger.count(Cause::CompleteWithoutIssue), 1);
}

#[test]
fn an_empty_flush_bio_may_have_a_place() {
    // dm-crypt below jbd2: text hides the place until the completion, binary never does.
    let expected =
        [(Status::Complete, [None, Some(7), None]), (Status::Complete, [None, None, Some(12)])];
    check("0 0 Q FWFS\n1 0 G FWFS\n3 0 D FF\n10 0 C FF 0+0\n12 0 C WFS 575480360+0", &expected);
    check(
        "0 0 Q FWFS 575480360+0\n1 0 G FWFS 575480360+0\n3 0 D FF 0+0\n10 0 C FF 0+0
         12 0 C WFS 575480360+0",
        &expected,
    );
}

#[test]
fn a_flush_handed_back_between_a_write_and_its_end_is_one_flush() {
    let (requests, ledger) = assemble(
        "0 0 Q WFSM 3328128+8\n1 0 G WFSM 3328128+8\n3 0 D WSM 3328128+8
         5 0 Q WSM 3459072+8\n6 0 G WSM 3459072+8\n7 0 I WSM 3459072+8\n8 0 D WSM 3459072+8
         52 0 C WSM 3328128+8\n60 0 D FF\n61 0 R FF 0+0\n90 0 C WSM 3459072+8
         100 0 D FF\n133 0 C FF 0+0\n135 0 C WSM 3328128+0",
    );
    let found: Vec<_> = requests.iter().map(|r| (r.op, r.requeues, r.d2c().unwrap().0)).collect();
    let expected = [(Op::Write, 0, 49), (Op::Write, 0, 82), (Op::Flush, 1, 33)];
    assert_eq!(found, expected);
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn flushes_that_complete_twice_are_counted_once() {
    let (requests, ledger) =
        assemble("0 0 D FF\n9 0 C FF\n10 0 C N 0+0\n20 0 D FF\n24 0 C FF\n25 0 C N 0+0");
    let found: Vec<_> = requests.iter().map(|r| (r.status, r.d2c().unwrap().0)).collect();
    assert_eq!(found, [(Status::Complete, 9), (Status::Complete, 4)]);
    assert_eq!(ledger.count(Cause::Orphan), 2);
}

#[test]
fn a_read_without_a_length_has_no_letter_of_its_own() {
    let (requests, ledger) = assemble(
        "0 0 Q RS 4656+8\n1 0 G RS 4656+8\n2 0 D RS 4656+8\n50 1 C NS 4656+0\n54 1 C RS 4656+8 =-61",
    );
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.error, request.d2c().unwrap().0), (Some(-61), 52));
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn a_command_without_a_length_at_its_end_is_done() {
    let mut items = trace("0 0 I R\n1 0 D R\n9 0 C R\n20 0 D R\n26 0 C N =-5");
    for item in &mut items {
        if let iotrace_model::Item::Event(event) = item {
            event.length_bytes = if event.error.is_some() { 0 } else { 96 };
        }
    }
    let (mut assembler, mut requests) = (Assembler::new(), Vec::new());
    for item in &items {
        assembler.push(item, &mut requests);
    }
    let found: Vec<_> = requests.iter().map(|r| (r.status, r.error, r.d2c().unwrap().0)).collect();
    assert_eq!(found, [(Status::Complete, Some(0), 8), (Status::Complete, Some(-5), 6)]);
}

#[test]
fn remaps_chain_through_a_partition_of_a_disk() {
    // Linux 3.10 names the partition as the target of the first remap, newer kernels its disk.
    for target in ["8,2", "8,0"] {
        let (requests, _) = assemble(&format!(
            "0 0 Q W 42578392+8 @253,0 comm=app
             1 0 A W 46488024+8 <-253,0:42578392 @{target}
             2 0 A W 46899672+8 <-8,2:46488024
             3 0 Q W 46899672+8\n4 0 G W 46899672+8\n5 0 I W 46899672+8\n6 0 D W 46899672+8
             9 0 C W 46899672+8\n10 0 C W 42578392+8 @253,0",
        ));
        let [lower, upper] = requests.as_slice() else { panic!("{requests:?}") };
        assert_eq!((lower.parent, lower.status), (Some(upper.request), Status::Complete));
        assert_eq!(lower.device.to_string(), "8:0", "{target}");
        assert_eq!(lower.comm.as_bytes(), b"app");
        assert_eq!(upper.q2c().unwrap().0, 10);
    }
}

#[test]
fn a_partition_traced_alone_is_one_device() {
    check(
        "0 0 A W 3328128+8 <-8,3:128\n1 0 Q W 3328128+8 @8,3\n2 0 G W 3328128+8 @8,3
         3 0 D W 3328128+8 @8,3\n9 0 C W 3328128+8 @8,3",
        &[(Status::Complete, [Some(2), Some(6), Some(8)])],
    );
}
