//! A ring that is too small loses events, and everything downstream says so.

use iotrace_model::Status;

use crate::support::{Loop, check_exit, fresh, has, iotrace, privileged, requests, run};

#[test]
fn a_ring_that_overflows_gives_exit_code_3_a_ledger_and_no_invented_latency() {
    if !privileged() || !has("fio") {
        return;
    }
    let device = Loop::new("mq-deadline");
    let (_folder, dataset) = fresh();
    let output = run(iotrace()
        .args(["record", "--quiet", "--ring-size", "4", "--device", &device.path, "-o"])
        .arg(&dataset)
        .arg("--")
        .args(device.fio(2)));
    check_exit(&output, 3);
    let folder = dataset.join("runs/rep=0");
    let document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap();
    let lost: u64 = document["ledger"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["cause"] == "kernel_lost")
        .map(|entry| entry["count"].as_u64().unwrap())
        .sum();
    assert!(lost > 0, "{}", document["ledger"]);
    // fio saw every request end, so its own worst latency bounds every true one.
    let text = std::fs::read_to_string(folder.join("workload.stdout")).unwrap();
    let fio: serde_json::Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let worst = ["read", "write"]
        .into_iter()
        .map(|op| fio["jobs"][0][op]["clat_ns"]["max"].as_i64().unwrap())
        .max()
        .unwrap();
    let rows = requests(&folder);
    assert!(rows.iter().any(|row| row.status == Status::Lost));
    for row in &rows {
        if let Some(d2c) = row.d2c() {
            assert!(d2c.0 <= worst, "{row:?} against fio's worst of {worst} ns");
        }
        assert!(row.status != Status::Lost || row.d2c().is_none(), "{row:?}");
    }
    let output = run(iotrace().arg("analyze").arg("--quiet").arg(&dataset));
    check_exit(&output, 3);
    assert!(String::from_utf8_lossy(&output.stdout).contains("lost"));
}
