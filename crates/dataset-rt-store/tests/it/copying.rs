//! Records are copied and verified in one pass, in whole and in parts, for either destination.

use dataset_rt_store::{Destination, Part, StoreError, Unwritten};

use crate::building::{Row, build, open, options};

const DESTINATIONS: [Destination; 2] = [Destination::Cached, Destination::Memory];
/// Around the sizes at which something changes: none, a line, a piece, records worth pieces.
const LENGTHS: [usize; 11] = [
    0, 1, 63, 64, 2047, 16_383, 16_384, 16_385, 20_011, 65_536, 300_001,
];

fn payload(seed: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|place| ((place * 31) ^ (place >> 8) ^ seed) as u8)
        .collect()
}

#[test]
fn a_record_is_copied_whole_to_any_place() {
    let base = tempfile::tempdir().unwrap();
    let payloads: Vec<_> = LENGTHS
        .iter()
        .enumerate()
        .map(|(seed, &length)| payload(seed, length))
        .collect();
    let rows: Vec<Row<'_>> = payloads
        .iter()
        .map(|payload| (&payload[..], vec![]))
        .collect();
    let path = build(base.path(), "lengths", options(1 << 30), &[], &rows).unwrap();
    let cache = open(&path).unwrap();
    for (sample, expected) in payloads.iter().enumerate() {
        let location = cache.locate(sample as u64).unwrap();
        for destination in DESTINATIONS {
            for verify in [true, false] {
                for shift in [0, 1, 16, 63] {
                    let mut place = vec![0xA5; shift + expected.len() + 64];
                    cache
                        .read_into(
                            &location,
                            &mut place[shift..shift + expected.len()],
                            verify,
                            destination,
                        )
                        .unwrap();
                    assert!(place[..shift].iter().all(|&byte| byte == 0xA5));
                    assert!(place[shift..].starts_with(expected));
                    assert!(
                        place[shift + expected.len()..]
                            .iter()
                            .all(|&byte| byte == 0xA5)
                    );
                }
            }
        }
    }
}

#[test]
fn parts_of_a_record_are_copied_to_their_places() {
    let base = tempfile::tempdir().unwrap();
    let whole = payload(7, 100_003);
    let rows: [Row<'_>; 1] = [(&whole[..], vec![])];
    let path = build(base.path(), "parts", options(1 << 30), &[], &rows).unwrap();
    let cache = open(&path).unwrap();
    let location = cache.locate(0).unwrap();
    let record = cache.in_place(&location).unwrap();
    let cases: [&[(usize, usize)]; 5] = [
        &[],
        &[(0, 100_003)],
        &[(96, 90_000), (90_000, 90_000), (90_000, 90_008)],
        &[(5, 6), (2048, 4096), (4096, 4097), (50_000, 100_003)],
        &[(100_002, 100_003)],
    ];
    for case in cases {
        let ranges: Vec<_> = case.iter().map(|&(start, stop)| start..stop).collect();
        for destination in DESTINATIONS {
            let mut places: Vec<Vec<u8>> =
                ranges.iter().map(|range| vec![0; range.len()]).collect();
            let mut parts: Vec<_> = ranges
                .iter()
                .zip(&mut places)
                .map(|(range, place)| Part {
                    start: range.start,
                    place: Unwritten::from(&mut place[..]),
                })
                .collect();
            record.copy_parts(&mut parts, true, destination).unwrap();
            for (range, place) in ranges.iter().zip(&places) {
                assert_eq!(place, &whole[range.clone()], "{range:?} of {ranges:?}");
            }
        }
    }
}

#[test]
fn damage_anywhere_in_a_large_record_is_noticed_while_it_is_copied() {
    let base = tempfile::tempdir().unwrap();
    let length = 40_001;
    let whole = payload(3, length);
    let rows: [Row<'_>; 1] = [(&whole[..], vec![])];
    let path = build(base.path(), "damage", options(1 << 30), &[], &rows).unwrap();
    let shard = path.join("shards/000000.bin");
    for place in (0..length).step_by(997).chain([length - 1]) {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        std::fs::write(&shard, &damaged).unwrap();
        let cache = open(&path).unwrap();
        let location = cache.locate(0).unwrap();
        for destination in DESTINATIONS {
            let read = |verify| {
                let mut copy = vec![0; length];
                cache
                    .read_into(&location, &mut copy, verify, destination)
                    .map(|()| copy)
            };
            let error = read(true).unwrap_err();
            assert!(
                matches!(error, StoreError::RecordChecksum { sample: 0, .. }),
                "{error}"
            );
            assert_eq!(read(false).unwrap(), damaged);
            let mut place = [0; 10];
            let part = Part {
                start: 10,
                place: Unwritten::from(&mut place[..]),
            };
            let record = cache.in_place(&location).unwrap();
            let error = record
                .copy_parts(&mut [part], true, destination)
                .unwrap_err();
            assert!(
                matches!(error, StoreError::RecordChecksum { sample: 0, .. }),
                "{error}"
            );
        }
    }
}
