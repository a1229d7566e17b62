//! Runs the cases of a target: how many, how long each may take, and which one failed.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::image::{CacheImage, images};
use crate::random::Random;

/// Cases of a run without a time budget, always the same ones.
const FIXED_CASES: u64 = 500;
/// A case that takes longer than this hangs.
const CASE_LIMIT: Duration = Duration::from_secs(60);
/// Address space of the process: taking more memory than any of these small caches can ask for with
/// reason ends it.
const MEMORY_LIMIT_BYTES: u64 = 4 << 30;

/// One case: the original caches, the choices to make, a folder for the changed cache. Says whether
/// all of that could be read.
pub(crate) type RunCase = fn(&[CacheImage], &mut Random, &Path) -> bool;

enum Cases {
    Fixed(std::ops::Range<u64>),
    Until(u64, Instant),
}

impl Iterator for Cases {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match self {
            Self::Fixed(range) => range.next(),
            Self::Until(_, end) if Instant::now() >= *end => None,
            Self::Until(next, _) => {
                *next = next.wrapping_add(1);
                Some(*next)
            }
        }
    }
}

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?}, expected a number")),
    )
}

fn cases() -> Cases {
    if let Some(case) = number_from_environment("DATASET_RT_FUZZ_CASE") {
        return Cases::Fixed(case..case + 1);
    }
    match number_from_environment("DATASET_RT_FUZZ_SECONDS") {
        // Other cases each time.
        Some(seconds) => Cases::Until(
            RandomState::new().hash_one(0) >> 1,
            Instant::now() + Duration::from_secs(seconds),
        ),
        None => Cases::Fixed(0..FIXED_CASES),
    }
}

/// Runs the cases that the environment asks for.
pub(crate) fn fuzz(run_case: RunCase) {
    let maximum = getrlimit(Resource::As).maximum;
    let limit = Rlimit {
        current: Some(maximum.map_or(MEMORY_LIMIT_BYTES, |maximum| {
            maximum.min(MEMORY_LIMIT_BYTES)
        })),
        maximum,
    };
    setrlimit(Resource::As, limit).unwrap();
    let (started, running) = channel();
    let worker = std::thread::spawn(move || {
        let folder = tempfile::tempdir().unwrap();
        let images = images();
        let (mut count, mut read) = (0_u64, 0_u64);
        for case in cases() {
            started.send(case).unwrap();
            read += u64::from(run_case(&images, &mut Random::new(case), folder.path()));
            count += 1;
        }
        (count, read)
    });
    let mut case = None;
    loop {
        match running.recv_timeout(CASE_LIMIT) {
            Ok(started) => case = Some(started),
            Err(RecvTimeoutError::Timeout) => {
                panic!("case {case:?} does not end; repeat it with DATASET_RT_FUZZ_CASE")
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    match worker.join() {
        Ok((count, read)) => {
            println!("{count} cases, {read} of them readable, the last was {case:?}");
            // Changes that are always refused, or never, would test little.
            assert!(count < FIXED_CASES || (0 < read && read < count));
        }
        Err(_) => panic!("case {case:?} failed; repeat it with DATASET_RT_FUZZ_CASE"),
    }
}
