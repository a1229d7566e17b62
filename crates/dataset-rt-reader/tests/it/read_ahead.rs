use std::time::Duration;

use dataset_rt_reader::{Batch, Dataset, SampleReadAhead, Step};
use dataset_rt_store::{Unwritten, Value};
use proptest::prelude::*;

use crate::building::{draw, open, read, write};

fn drain_samples(read_ahead: &mut SampleReadAhead) -> Vec<Vec<u8>> {
    let view = read_ahead.view().clone();
    let mut payloads = Vec::new();
    loop {
        match read_ahead.step().unwrap() {
            Step::Ready(prepared) => {
                let mut payload = vec![0; prepared.payload_bytes()];
                prepared
                    .copy_payload(&view, Unwritten::from(&mut payload[..]))
                    .unwrap();
                payloads.push(payload);
            }
            Step::Wait(waiting) => waiting.wait(Duration::from_secs(10)),
            Step::End => return payloads,
        }
    }
}

fn drain_batches(dataset: &Dataset, batch_size: u64) -> Vec<Vec<Vec<u8>>> {
    let mut read_ahead = dataset.batches(batch_size).unwrap();
    let mut batches = Vec::new();
    loop {
        match read_ahead.step().unwrap() {
            Step::Ready(batch) => batches.push(payloads(&batch)),
            Step::Wait(waiting) => waiting.wait(Duration::from_secs(10)),
            Step::End => return batches,
        }
    }
}

fn payloads(batch: &Batch) -> Vec<Vec<u8>> {
    let gathered = batch.gathered().unwrap();
    gathered
        .offsets
        .windows(2)
        .map(|pair| gathered.buffer.bytes()[pair[0] as usize..pair[1] as usize].to_vec())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn samples_and_batches_are_the_draws_for_any_window(
        seed in any::<u64>(),
        epoch_len in 0_u64..200,
        prefetch_size in 1_usize..70,
        batch_size in 1_u64..50,
    ) {
        let base = tempfile::tempdir().unwrap();
        let path = write(base.path(), "s", 23, ("x", Value::Null));
        let dataset = open(&[path], draw(seed), read(prefetch_size));
        dataset.set_epoch_len(epoch_len);
        let view = dataset.view().unwrap();
        let expect = |start, stop| {
            let rows = view.draws(start, stop).unwrap();
            payloads(&Batch::of_rows(view.clone(), rows).unwrap())
        };
        let samples = drain_samples(&mut dataset.samples().unwrap());
        prop_assert_eq!(samples, expect(0, epoch_len));
        let batches = drain_batches(&dataset, batch_size);
        prop_assert!(batches.iter().rev().skip(1).all(|batch| batch.len() as u64 == batch_size));
        prop_assert_eq!(batches.concat(), expect(epoch_len, 2 * epoch_len));
        prop_assert_eq!(dataset.cursor(), 2 * epoch_len);
    }
}

#[test]
fn samples_before_a_damaged_one_arrive_and_then_the_error() {
    let base = tempfile::tempdir().unwrap();
    let path = write(base.path(), "s", 60, ("x", Value::Null));
    let sequential = dataset_rt_reader::DrawOptions {
        shuffle: false,
        ..draw(0)
    };
    let dataset = open(std::slice::from_ref(&path), sequential, read(16));
    let shard = path.join("shards/000000.bin");
    let mut bytes = std::fs::read(&shard).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    let last_of_shard = dataset.view().unwrap().caches().caches()[0]
        .manifest()
        .shards[0]
        .samples
        - 1;
    let mut read_ahead = dataset.samples().unwrap();
    let mut read = 0;
    let error = loop {
        match read_ahead.step() {
            Ok(Step::Ready(_)) => read += 1,
            Ok(Step::Wait(waiting)) => waiting.wait(Duration::from_secs(10)),
            Ok(Step::End) => panic!("the damage was not noticed"),
            Err(error) => break error,
        }
    };
    assert_eq!(read, last_of_shard);
    assert!(
        error
            .to_string()
            .contains(&format!("damaged sample {last_of_shard}")),
        "{error}"
    );
    assert!(matches!(read_ahead.step().unwrap(), Step::End));
}
