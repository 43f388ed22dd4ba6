//! btt's figures of three small I/Os, as the program prints them for that capture.

use iotrace_model::{
    BttDevice, BttMerges, BttOverhead, BttPlugs, BttSeeks, BttStage, BttSummary, BttTime, DeviceId,
    Nanos,
};

/// Two devices, one of them remapping, and every table.
pub(crate) fn btt() -> BttSummary {
    let stage = |stage, count, min, max, total| BttTime {
        stage,
        count,
        min: Nanos(min),
        max: Nanos(max),
        total: Nanos(total),
    };
    let overhead =
        BttOverhead { q2g: 1.063_829, g2i: 1.182_033, q2m: 0.0, i2d: 2.718_676, d2c: 94.562_647 };
    let merges = BttMerges {
        queued: 3,
        issued: 3,
        ratio: 1.0,
        smallest: 8,
        mean: 10,
        largest: 16,
        total: 32,
    };
    let seeks = BttSeeks { count: 3, mean: 1_658.666_667 };
    let disk = BttDevice {
        device: DeviceId { major: 8, minor: 0 },
        overhead: Some(overhead),
        merges: Some(merges),
        queue_seeks: Some(seeks),
        issue_seeks: Some(seeks),
        plugs: Some(BttPlugs { plugs: 1, timer_unplugs: 1, percent_plugged: 3.743_315_508 }),
        requests_at_queue: Some(1.0 / 3.0),
    };
    let upper = BttDevice {
        device: DeviceId { major: 253, minor: 17 },
        queue_seeks: Some(BttSeeks { count: 12_345, mean: 1_234_567.89 }),
        ..BttDevice::default()
    };
    BttSummary {
        stages: vec![
            stage(BttStage::Q2Cdm, 2, 54_500, 74_000, 128_500),
            stage(BttStage::Q2Q, 2, 1_000, 299_000, 300_000),
            stage(BttStage::Q2G, 3, 1_000, 2_000, 4_500),
            stage(BttStage::D2C, 3, 100_000, 200_000, 400_000),
            stage(BttStage::Q2C, 1_200_345, 103_000, 1_234_567_890_123, 8_234_567_890_123),
        ],
        devices: vec![disk, upper],
        overhead: Some(overhead),
        merges: Some(BttMerges { queued: 6, issued: 4, ratio: 1.5, ..merges }),
        notes: vec!["Bios open at the end: 2; they have no Q2C, and btt does not tell.".to_owned()],
    }
}
