//! The four targets: manifest, index, metadata, records.

use std::path::Path;

use dataset_rt_store::{Algorithm, Manifest};

use crate::harness::fuzz;
use crate::image::{CacheImage, NO_DIGEST, with_digest};
use crate::lz4;
use crate::mutation::{interesting_number, mutate, range};
use crate::random::Random;
use crate::reading::{MAX_READ_BYTES, read};

#[test]
fn the_manifest() {
    fuzz(|images, random, folder| {
        let image = random.pick(images).clone();
        let mut changed = image.clone();
        let kind = random.below(4);
        if kind < 2 {
            change_fields(&mut changed, random);
        }
        let mut text = changed.manifest_text();
        text = text.replacen(&last_digest(&text), NO_DIGEST, 1);
        if kind == 1 || kind == 2 {
            for _ in 0..=random.below(3) {
                text = change_text(&text, images, random);
            }
        }
        if kind == 3 {
            let mut bytes = text.into_bytes();
            mutate(&mut bytes, random, true);
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
        check_manifest(&image, &with_digest(text), folder)
    });
}

/// The digest that stands last in a manifest.
fn last_digest(text: &str) -> String {
    let stop = text.rfind('"').unwrap();
    text[stop - NO_DIGEST.len()..stop].to_owned()
}

/// Changes that may leave the fields consistent with each other.
fn change_fields(image: &mut CacheImage, random: &mut Random) {
    let shards = &mut image.manifest.shards;
    let shard = random.below(shards.len() - 1);
    let (first, second) = shards[shard..].split_at_mut(1);
    let (first, second) = (&mut first[0], &mut second[0]);
    let count = if random.one_in(2) {
        1
    } else {
        interesting_number(random, 10)
    };
    match random.below(7) {
        0 => {
            first.samples = first.samples.wrapping_add(count);
            second.first_sample = second.first_sample.wrapping_add(count);
            second.samples = second.samples.wrapping_sub(count);
        }
        1 => {
            first.bytes = first.bytes.wrapping_add(count);
            second.bytes = second.bytes.wrapping_sub(count);
        }
        2 => {
            second.first_sample = first.first_sample;
            second.samples += first.samples;
            second.bytes += first.bytes;
            shards.remove(shard);
        }
        3 => first.first_sample = first.first_sample.wrapping_add(count),
        4 => first.samples = first.samples.wrapping_add(count),
        5 => image.manifest.samples = image.manifest.samples.wrapping_add(count),
        _ => image.manifest.payload_bytes = interesting_number(random, 1_000),
    }
}

/// One change that knows what JSON looks like.
fn change_text(text: &str, images: &[CacheImage], random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return text.to_owned();
    }
    let line = random.below(lines.len());
    let value = match random.below(8) {
        0 => interesting_number(random, 1_000).to_string(),
        1 => format!("-{}", interesting_number(random, 1_000)),
        2 => [
            "1e3",
            "0.5",
            "1e999",
            "18446744073709551616",
            "null",
            "true",
            "{}",
            "[]",
        ][random.below(8)]
        .to_owned(),
        3 => {
            let depth = [1, 100, 10_000][random.below(3)];
            "[".repeat(depth) + &"]".repeat(depth)
        }
        4 => format!("{:?}", "0".repeat(random.below(80))),
        _ => format!(
            "{:?}",
            random.pick(&[
                "none", "lz4", "zstd", "lzma", "null", "string", "", "\u{0}", "\u{e4}"
            ])
        ),
    };
    match random.below(6) {
        0 => {
            lines.remove(line);
        }
        1 => {
            let again = lines[line].clone();
            lines.insert(random.below(lines.len()), again);
        }
        2 => {
            let other = random.pick(images).manifest_text();
            let others: Vec<_> = other.lines().collect();
            let piece = range(random, others.len());
            lines.splice(
                line..=line,
                others[piece].iter().map(|&line| line.to_owned()),
            );
        }
        _ => {
            if let Some(colon) = lines[line].find(": ") {
                let comma = if lines[line].ends_with(',') { "," } else { "" };
                lines[line] = format!("{}: {value}{comma}", &lines[line][..colon]);
            }
        }
    }
    lines.join("\n") + "\n"
}

/// The files have not changed, so a manifest that is accepted gives what is in them, or errors.
fn check_manifest(image: &CacheImage, text: &str, folder: &Path) -> bool {
    let path = image.write(folder, text.as_bytes());
    let Ok(found) = read(&path) else {
        return false;
    };
    let manifest = Manifest::read(&path).unwrap();
    for (sample, row) in found.rows.iter().enumerate() {
        assert_eq!(row.as_ref().unwrap(), &image.rows[sample], "row {sample}");
    }
    let codec = |manifest: &Manifest| (manifest.compression, manifest.dictionary.clone());
    if codec(&manifest) != codec(&image.manifest) {
        return found.is_whole();
    }
    for (sample, record) in found.records.iter().enumerate() {
        if let Some(Ok(payload)) = record {
            assert_eq!(
                Some(payload),
                expected_payload(image, sample as u64).as_ref()
            );
        }
    }
    found.is_whole()
}

#[test]
fn the_index() {
    fuzz(|images, random, folder| {
        let mut image = random.pick(images).clone();
        if random.one_in(8) {
            // The samples that fit the new length, so that it is not refused at once.
            mutate(&mut image.index, random, true);
            let per_sample = if image.is_compressed() { 20 } else { 12 };
            let samples = image.index.len() as u64 / per_sample;
            let last = image.manifest.shards.last_mut().unwrap();
            last.samples = samples.saturating_sub(last.first_sample);
            image.manifest.samples = samples;
        } else {
            mutate(&mut image.index, random, false);
        }
        image.seal();
        check_records(&image, folder)
    });
}

#[test]
fn the_records() {
    fuzz(|images, random, folder| {
        let mut image = random.pick(images).clone();
        let shard = random.below(image.shards.len());
        mutate(&mut image.shards[shard], random, true);
        if let Some(dictionary) = &mut image.dictionary
            && random.one_in(3)
        {
            mutate(dictionary, random, true);
        }
        if image.is_compressed() && random.one_in(3) {
            // Another length of a payload.
            let list = (image.manifest.samples as usize + 1) * 8;
            let place = list + random.below(image.manifest.samples as usize) * 8;
            let mut word = image.index[place..place + 8].to_vec();
            mutate(&mut word, random, false);
            image.index[place..place + 8].copy_from_slice(&word);
        }
        image.seal();
        check_records(&image, folder)
    });
}

/// What is read is what `docs/format.md` says, and nothing that it allows is refused.
fn check_records(image: &CacheImage, folder: &Path) -> bool {
    let path = image.write(folder, image.manifest_text().as_bytes());
    let Ok(found) = read(&path) else {
        return false;
    };
    for (sample, record) in found.records.iter().enumerate() {
        let expected = expected_payload(image, sample as u64);
        if let Some(record) = record {
            assert_eq!(
                record.as_ref().ok(),
                expected.as_ref(),
                "sample {sample}: {record:?}"
            );
        }
    }
    found.is_whole()
}

/// The payload of a record by a second reading of the files; `None` if it has none.
fn expected_payload(image: &CacheImage, sample: u64) -> Option<Vec<u8>> {
    let stored = image.stored(sample)?;
    let payload_bytes = usize::try_from(image.payload_bytes(sample)?).ok()?;
    if payload_bytes > MAX_READ_BYTES || payload_bytes < stored.len() {
        return None;
    }
    if payload_bytes == stored.len() {
        return Some(stored.to_vec());
    }
    match image.manifest.compression {
        Algorithm::None => None,
        Algorithm::Lz4 => lz4::decode(stored, payload_bytes),
        Algorithm::Zstd => {
            let dictionary = image.dictionary.as_deref().unwrap_or_default();
            zstd::bulk::Decompressor::with_dictionary(dictionary)
                .and_then(|mut decompressor| decompressor.decompress(stored, payload_bytes))
                .ok()
                .filter(|payload| payload.len() == payload_bytes)
        }
    }
}

#[test]
fn the_metadata() {
    fuzz(|images, random, folder| {
        let mut image = random.pick(images).clone();
        if random.one_in(4) {
            mutate(&mut image.metadata, random, true);
        } else if random.one_in(2) {
            // The footer, or the head of a batch, where lengths and places are.
            let tail = image.metadata.len().saturating_sub(800);
            let mut footer = image.metadata.split_off(tail);
            mutate(&mut footer, random, false);
            image.metadata.extend_from_slice(&footer);
        } else {
            mutate(&mut image.metadata, random, false);
        }
        image.seal();
        // Rows and tables are compared as they are read; records do not depend on metadata.
        check_records(&image, folder)
    });
}
