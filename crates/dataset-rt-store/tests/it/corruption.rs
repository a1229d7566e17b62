use std::path::Path;

use dataset_rt_store::{Compression, Destination, StoreError, Value, WriterOptions};

use crate::building::{FoundRow, build, compressions, files_below, open, options, read_all};
use crate::changed_metadata::{replace_metadata, widen_text};

fn small_cache(base: &Path) -> std::path::PathBuf {
    compressed_cache(base, Compression::NONE)
}

/// Three records, of which a codec can make one smaller, in two shards.
fn compressed_cache(base: &Path, compression: Compression) -> std::path::PathBuf {
    let options = WriterOptions {
        compression,
        ..options(14)
    };
    if compression.algorithm != Compression::NONE.algorithm {
        let text = b"again ".repeat(9);
        let rows = [
            (&text[..], vec![Value::Integer(5)]),
            (&b""[..], vec![Value::Null]),
            (&b"third"[..], vec![Value::Integer(-1)]),
        ];
        return build(base, "small", options, &["number"], &rows).unwrap();
    }
    let rows = [
        (
            &b"first payload"[..],
            vec![Value::Integer(5), Value::String("one")],
        ),
        (&b""[..], vec![Value::Null, Value::String("zwei")]),
        (&b"third"[..], vec![Value::Integer(-1), Value::Null]),
    ];
    build(base, "small", options, &["number", "text"], &rows).unwrap()
}

/// Opens, validates and reads everything; an error must be one that says "damaged".
fn read_after_damage(path: &Path) -> Result<Vec<FoundRow>, StoreError> {
    let found = read_all(path);
    if let Err(error) = &found {
        let expected = error.is_corruption()
            || matches!(
                error,
                StoreError::Unsupported { .. } | StoreError::NotFound { .. }
            );
        assert!(expected, "{error}");
    }
    found
}

#[test]
fn every_flipped_byte_gives_an_error_or_exactly_the_data() {
    for compression in &compressions()[..3] {
        flip_every_byte(*compression);
    }
}

fn flip_every_byte(compression: Compression) {
    let base = tempfile::tempdir().unwrap();
    let path = compressed_cache(base.path(), compression);
    let expected = read_all(&path).unwrap();
    let mut noticed = 0;
    let mut unused = 0;
    for (file, bytes) in files_below(&path) {
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x55;
            std::fs::write(&file, damaged).unwrap();
            match read_after_damage(&path) {
                Ok(found) => {
                    assert_eq!(found, expected, "{} byte {place}", file.display());
                    unused += 1;
                }
                Err(_) => noticed += 1,
            }
        }
        std::fs::write(&file, &bytes).unwrap();
    }
    assert_eq!(read_all(&path).unwrap(), expected);
    // Every byte of every file is covered by some checksum.
    assert_eq!(unused, 0, "{noticed} were noticed");
}

#[test]
fn every_shortened_file_gives_an_error() {
    for compression in &compressions()[..3] {
        shorten_every_file(*compression);
    }
}

fn shorten_every_file(compression: Compression) {
    let base = tempfile::tempdir().unwrap();
    let path = compressed_cache(base.path(), compression);
    for (file, bytes) in files_below(&path) {
        for length in 0..bytes.len() {
            std::fs::write(&file, &bytes[..length]).unwrap();
            assert!(
                read_after_damage(&path).is_err(),
                "{} cut to {length}",
                file.display()
            );
        }
        std::fs::write(&file, [&bytes[..], b"x"].concat()).unwrap();
        assert!(
            read_after_damage(&path).is_err(),
            "{} lengthened",
            file.display()
        );
        std::fs::write(&file, &bytes).unwrap();
    }
}

#[test]
fn a_missing_file_is_named() {
    let base = tempfile::tempdir().unwrap();
    let path = small_cache(base.path());
    for (file, bytes) in files_below(&path) {
        std::fs::remove_file(&file).unwrap();
        let error = read_after_damage(&path).unwrap_err();
        if !matches!(error, StoreError::NotFound { .. }) {
            assert!(
                error.to_string().contains(file.to_str().unwrap()),
                "{error}"
            );
        }
        std::fs::write(&file, bytes).unwrap();
    }
}

#[test]
fn records_that_changed_places_are_noticed() {
    let base = tempfile::tempdir().unwrap();
    let rows = [(&b"same"[..], vec![]), (&b"same"[..], vec![])];
    let path = build(base.path(), "twins", options(100), &[], &rows).unwrap();
    let cache = open(&path).unwrap();
    let first = cache.in_place(&cache.locate(0).unwrap()).unwrap();
    let second = cache.in_place(&cache.locate(1).unwrap()).unwrap();
    assert_eq!(first.payload, second.payload);
    assert_ne!(first.checksum, second.checksum);
}

#[test]
fn validation_names_the_file_whose_digest_differs() {
    let base = tempfile::tempdir().unwrap();
    let path = small_cache(base.path());
    let cache = open(&path).unwrap();
    let validate =
        |file: &str, digest: &str| cache.validate_file(file, digest, |_| Ok::<_, StoreError>(()));
    for (file, _, digest) in cache.digests() {
        validate(&file, digest).unwrap();
    }
    let shard = path.join("shards/000000.bin");
    std::fs::write(&shard, b"First payload").unwrap();
    let error = cache
        .digests()
        .into_iter()
        .find_map(|(file, _, digest)| validate(&file, digest).err())
        .unwrap();
    assert!(
        matches!(&error, StoreError::FileDigest { path, .. } if *path == shard),
        "{error}"
    );
}

#[test]
fn a_file_cut_short_while_it_is_open_gives_an_error_and_the_process_lives() {
    let base = tempfile::tempdir().unwrap();
    let large = vec![3; 1 << 20];
    let path = build(
        base.path(),
        "cut",
        options(1 << 30),
        &[],
        &[(&large, vec![])],
    )
    .unwrap();
    let cache = open(&path).unwrap();
    let location = cache.locate(0).unwrap();
    let shard = std::fs::File::options()
        .write(true)
        .open(path.join("shards/000000.bin"))
        .unwrap();
    shard.set_len(4096).unwrap();
    for destination in [Destination::Memory, Destination::Cached] {
        let error = cache
            .read_into(&location, &mut vec![0; 1 << 20], true, destination)
            .unwrap_err();
        assert!(matches!(error, StoreError::FileShrank { .. }), "{error}");
    }
}

#[test]
fn metadata_cut_short_while_it_is_open_gives_an_error_wherever_the_cut_is() {
    cut_metadata_while_it_is_open(|_| {});
    cut_metadata_while_it_is_open(|cache| widen_text(cache, "name"));
}

fn cut_metadata_while_it_is_open(change: fn(&Path)) {
    let names: Vec<String> = (0..3_000).map(|sample| format!("name {sample}")).collect();
    let rows: Vec<_> = names
        .iter()
        .zip(1_i64..)
        .map(|(name, number)| (&b""[..], vec![Value::Integer(number), Value::String(name)]))
        .collect();
    let base = tempfile::tempdir().unwrap();
    let path = build(base.path(), "cut", options(100), &["number", "name"], &rows).unwrap();
    change(&path);
    let file = path.join("metadata.arrow");
    let whole = std::fs::read(&file).unwrap();
    // Cuts at the start of a page lose whole pages; others leave a page of which the rest is zeros.
    for length in (0..whole.len())
        .step_by(1_000)
        .chain([4_096, 8_192, whole.len() - 1])
    {
        std::fs::write(&file, &whole).unwrap();
        let cache = open(&path).unwrap();
        let metadata = cache.metadata();
        assert_eq!(
            metadata.row(0).unwrap().value(0).unwrap(),
            Value::Integer(1)
        );
        std::fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(length as u64)
            .unwrap();
        for sample in 0..3_000 {
            let row = metadata.row(sample).unwrap();
            let found = row
                .value(0)
                .and(row.value(1))
                .map(|value| value.to_string());
            let error = metadata.check().unwrap_err();
            assert!(
                matches!(error, StoreError::FileShrank { .. }),
                "{length}: {found:?}"
            );
        }
        assert!(metadata.copied_batch(0).is_err(), "cut to {length}");
    }
}

#[test]
fn a_table_whose_columns_are_not_those_of_the_manifest_is_refused() {
    let text = || Value::String("a");
    let tables = [
        (vec!["x"], vec![text()]),
        (vec!["x"], vec![Value::Integer(1)]),
        (vec!["x"], vec![Value::Null]),
        (vec!["y"], vec![text()]),
        (vec!["x", "y"], vec![text(), text()]),
        (vec![], vec![]),
    ];
    let base = tempfile::tempdir().unwrap();
    let paths: Vec<_> = tables
        .into_iter()
        .zip('a'..)
        .map(|((columns, values), name)| {
            let rows = [(&b""[..], values)];
            build(
                base.path(),
                &name.to_string(),
                options(100),
                &columns,
                &rows,
            )
            .unwrap()
        })
        .collect();
    let files: Vec<_> = paths
        .iter()
        .map(|path| std::fs::read(path.join("metadata.arrow")).unwrap())
        .collect();
    for (number, path) in paths.iter().enumerate() {
        for (other, file) in files.iter().enumerate() {
            replace_metadata(path, file);
            match open(path) {
                Ok(_) => assert_eq!(number, other),
                Err(error) => {
                    assert_ne!(number, other);
                    let message = error.to_string();
                    assert!(message.contains("not the one in the manifest"), "{message}");
                }
            }
        }
    }
}

#[test]
fn a_newer_version_is_told_from_damage() {
    let base = tempfile::tempdir().unwrap();
    let path = small_cache(base.path());
    let manifest = path.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("\"version\": 1", "\"version\": 2")).unwrap();
    let error = open(&path).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Unsupported {
                what: "version",
                ..
            }
        ),
        "{error}"
    );
}
