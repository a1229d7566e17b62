use dataset_rt_store::{SourceName, cache_id_of_name};

#[test]
fn names_that_are_no_single_safe_path_segment_are_refused() {
    let long = "é".repeat(128);
    let refused = [
        "", ".", "..", ".hidden", "a/b", "/", "a\\b", "a\0b", "a\nb", " a", "a ", "a.", "CON",
        "nul.txt", "Lpt1", "a:b", "a?b", &long,
    ];
    for name in refused {
        assert!(SourceName::new(name).is_err(), "{name:?}");
    }
    for name in [
        "a",
        "训练集",
        "train v1",
        "a..b",
        "console",
        &"é".repeat(127),
    ] {
        assert_eq!(SourceName::new(name).unwrap().as_str(), name);
    }
}

#[test]
fn composed_and_decomposed_names_are_one_name() {
    let composed = SourceName::new("caf\u{e9}").unwrap();
    let decomposed = SourceName::new("cafe\u{301}").unwrap();
    assert_eq!(composed, decomposed);
    assert_eq!(composed.cache_id(), decomposed.cache_id());
}

#[test]
fn the_identity_of_a_name_is_frozen() {
    assert_eq!(cache_id_of_name("training_records_v1"), FROZEN_ID);
    assert!(i64::try_from(cache_id_of_name("anything")).unwrap() > 0);
}

/// First 8 bytes of BLAKE3 of the name, little-endian, without the top bit.
const FROZEN_ID: u64 = 6_317_557_679_700_462_564;
